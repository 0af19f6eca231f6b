"""Clients compiled against NCCL's own headers, 2.14 to 2.32, get each of their settings through to horing, to the field.

usage: clients_test.py C_COMPILER LIBRARY_FOLDER CACHE_FOLDER      (./tools/dev test --clients; fetches 11 wheels of up to 305 MB)
"""
import re
import subprocess
import sys
import zipfile
from pathlib import Path

# A wheel of each version whose struct differs from that of the one before.
WHEELS = {"2.14": "nvidia-nccl-cu11==2.14.3", "2.17": "nvidia-nccl-cu12==2.17.1", "2.18": "nvidia-nccl-cu12==2.18.3",
          "2.21": "nvidia-nccl-cu12==2.21.5", "2.26": "nvidia-nccl-cu12==2.26.5", "2.27": "nvidia-nccl-cu13==2.27.7",
          "2.28": "nvidia-nccl-cu13==2.28.9", "2.29": "nvidia-nccl-cu13==2.29.7", "2.30": "nvidia-nccl-cu13==2.30.7",
          "2.31": "nvidia-nccl-cu13==2.31.2", "2.32": "nvidia-nccl-cu13==2.32.3"}
# A value of each field that is refused, if the field is seen.
REFUSED = {"blocking": 2, "cgaClusterSize": 9, "minCTAs": 0, "maxCTAs": 0, "splitShare": 2, "trafficClass": 256, "collnetEnable": 2,
           "CTAPolicy": 4, "shrinkShare": 2, "nvlsCTAs": 0, "nChannelsPerNetPeer": 0, "nvlinkCentricSched": 2, "graphUsageMode": 3,
           "numRmaCtx": 0, "maxP2pPeers": 0, "graphStreamOrdering": 2, "launchOrderImplicit": 2, "numRmaSig": -1, "rmaEagerInit": 2,
           "hostCftMode": 4, "nvlsHostMode": -1}
STUBS = {"cuda_runtime.h": "#include <stddef.h>\ntypedef struct CUstream_st* cudaStream_t;\ntypedef struct CUevent_st* cudaEvent_t;\n",
         "cuda_fp16.h": "", "cuda_bf16.h": "", "cuda_fp8.h": ""}
CLIENT = """#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <nccl.h>
static int try_it(const char* field, ncclConfig_t config) {
  ncclUniqueId id;
  ncclComm_t comm = NULL;
  ncclGetUniqueId(&id);
  ncclResult_t result = ncclCommInitRankConfig(&comm, 1, id, 0, &config);
  printf("%s %d %s\\n", field, (int)result, result == ncclSuccess ? "" : ncclGetLastError(NULL));
  return result == ncclSuccess ? (int)ncclCommDestroy(comm) : 0;
}
int main(void) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  const size_t used = offsetof(ncclConfig_t, LAST_FIELD) + sizeof config.LAST_FIELD;
  memset((char*)&config + used, 0x5a, sizeof config - used); /* whatever is on the stack */
  try_it("none", config);
"""


def fail(text):
    sys.exit(f"FAILED: {text}")


def header_of(version, cache):
    folder = cache / version
    header = folder / "nccl.h"
    if header.exists():
        return header
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest", str(folder),
               *[word for tag in ("manylinux_2_27_x86_64", "manylinux_2_18_x86_64", "manylinux2014_x86_64", "manylinux1_x86_64",
                                  "manylinux_2_17_x86_64") for word in ("--platform", tag)], WHEELS[version]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode != 0:
        fail(f"NCCL {version} cannot be fetched: {done.stderr}")
    [wheel] = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith("/include/nccl.h"))
        header.write_bytes(archive.read(name))
    wheel.unlink()
    return header


def fields_of(header):
    body = re.search(r"typedef struct ncclConfig_v\w+\s*\{(.*?)\}\s*ncclConfig_t", header.read_text(), re.S).group(1)
    body = re.sub(r"/\*.*?\*/|//[^\n]*", "", body, flags=re.S)
    return [re.search(r"(\w+)\s*$", line).group(1) for line in body.split(";") if line.strip()][3:]


def try_version(version, compiler, libraries, cache, stubs):
    header = header_of(version, cache)
    fields = fields_of(header)
    unknown = set(fields) - set(REFUSED) - {"netName", "commName"}
    if unknown:
        fail(f"NCCL {version} has fields of which this test does not know: {unknown}")
    lines = [CLIENT.replace("LAST_FIELD", fields[-1])]
    for field in fields:
        value = REFUSED.get(field, '"token ring"')
        if field != "commName":
            lines.append(f'  {{ ncclConfig_t changed = config; changed.{field} = {value}; try_it("{field}", changed); }}')
    source, program = header.parent / "client.c", header.parent / "client"
    source.write_text("\n".join([*lines, "  return 0;\n}\n"]))
    subprocess.run([compiler, "-std=gnu99", "-w", f"-I{header.parent}", f"-I{stubs}", source, "-o", program, f"-L{libraries}", "-lnccl",
                    f"-Wl,-rpath,{libraries}"], check=True)
    output = subprocess.run([program], capture_output=True, text=True, timeout=120, check=True).stdout
    for line in output.splitlines():
        field, code, text = line.split(" ", 2)
        wanted = (0, "") if field == "none" else (5, "config.netName") if field == "netName" else (4, f"config.{field}")
        if int(code) != wanted[0] or wanted[1] not in text:
            fail(f"a client of NCCL {version}: {line}")
    tried = len(output.splitlines())
    if tried != len(fields) + (0 if "commName" in fields else 1):
        fail(f"a client of NCCL {version} tried {tried} of {len(fields)} fields: {output}")
    print(f"NCCL {version}: {len(fields)} fields reach horing")


def main():
    compiler, libraries, cache = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    stubs = cache / "stubs-c"
    stubs.mkdir(parents=True, exist_ok=True)
    for name, text in STUBS.items():
        (stubs / name).write_text(text)
    for version in WHEELS:
        try_version(version, compiler, libraries, cache, stubs)


if __name__ == "__main__":
    main()
