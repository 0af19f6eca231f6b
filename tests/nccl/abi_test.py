"""Compares nccl.h and libnccl.so.2 with NCCL's own, which pip fetches: every exported name is there, every function has the same
signature, every enumerator and constant the same value, every struct the same size and offsets.

usage: abi_test.py CXX_COMPILER NM INCLUDE_FOLDER LIBRARY ARCHIVE CACHE_FOLDER [--version VERSION|latest]
Without a version: 2.32.3. Of a later one all that is not here, or not the same, is listed; what only this library has is no error. Ends
with 77 where the wheel cannot be fetched.
"""
import argparse
import hashlib
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

PINNED = "2.32.3"
PLATFORMS = ("manylinux_2_27_x86_64", "manylinux_2_18_x86_64", "manylinux2014_x86_64")
SHA256 = "1459723080ac889d73a26edfa3e04383a7928ab31ac8f0ec43b3ea9548b04ff3"
SKIPPED = 77

# What this library says of itself, and what the compiler sets.
OWN_VALUES = {"NCCL_MAJOR", "NCCL_MINOR", "NCCL_PATCH", "NCCL_VERSION_CODE"}
# Exported by theirs, and in no header of theirs.
IN_NO_HEADER = {"ncclResetDebugInitInternal"}
# Exported by theirs, and declared on Windows only.
NOT_DECLARED = {"ncclGinOutboxCreateRequirement", "ncclGinInboxA2ACreateRequirement"}

# What NCCL's headers need of CUDA's.
STUBS = {
    "cuda_runtime.h": "#pragma once\n#include <stddef.h>\n#define CUDART_VERSION 13000\n"
                      "typedef struct CUstream_st* cudaStream_t;\ntypedef struct CUevent_st* cudaEvent_t;\n",
    "cuda_fp16.h": "", "cuda_bf16.h": "", "cuda_fp8.h": "",
    "cuda.h": "#pragma once\ntypedef enum { CU_MEM_LOCATION_TYPE_INVALID } CUmemLocationType;\n",
}


def fail(text):
    sys.exit(f"FAILED: {text}")


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        fail(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def is_earlier(version):
    """Whether it is before 2.32.3; clients_test.py is for those."""
    numbers, pinned = ([int(part) for part in re.findall(r"\d+", each)] for each in (version, PINNED))
    return numbers < pinned


def wheel_of(version, folder):
    """The wheel, and the version that it is of. Only the newest is asked for each time."""
    known = [] if version == "latest" else sorted(folder.glob(f"nvidia_nccl_cu13-{version}-*.whl"))
    if not known:
        folder.mkdir(parents=True, exist_ok=True)
        # Into a folder of its own, so that half a file never has the name of a whole one.
        with tempfile.TemporaryDirectory(dir=folder) as fetched:
            command = ["timeout", "240", sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--retries", "1", "--timeout", "20",
                       "--only-binary=:all:", *[word for tag in PLATFORMS for word in ("--platform", tag)], "--dest", fetched,
                       "nvidia-nccl-cu13" + ("" if version == "latest" else f"=={version}")]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                print(f"SKIPPED: NCCL's wheel cannot be fetched: {done.stderr.strip().splitlines()[-1:]}")
                sys.exit(SKIPPED)
            [wheel] = Path(fetched).glob("*.whl")
            known = [wheel.rename(folder / wheel.name)]
    return known[0], known[0].name.split("-")[1]


def fetch(version, folder):
    """The unpacked wheel, and its version. The pinned one is of one very content."""
    wheel, version = wheel_of(version, folder)
    found = hashlib.sha256(wheel.read_bytes()).hexdigest()
    if version == PINNED and found != SHA256:
        fail(f"{wheel} has SHA-256 {found}, expected {SHA256}")
    unpacked = folder / version
    with zipfile.ZipFile(wheel) as archive:
        wanted = [name for name in archive.namelist() if "/include/" in name or name.endswith("/libnccl.so.2")]
        archive.extractall(unpacked, [name for name in wanted if not (unpacked / name).exists()])
    return unpacked / "nvidia/nccl", version


def exports(nm, library):
    options = ["-D"] if ".so" in library.name else ["-g"]
    lines = run(nm, *options, "--defined-only", "--format=posix", library).splitlines()
    return {line.split()[0] for line in lines if re.match("p?nccl", line)}


class Header:
    """What a compiler sees of nccl.h and of the device API's host side."""

    def __init__(self, compiler, include, stubs, work, parts):
        self.command = [compiler, "-std=c++17", "-w", "-DNCCL_OS_LINUX", f"-I{include}", f"-I{stubs}"]
        self.includes = "".join(f"#include <{part}>\n" for part in parts)
        self.source = work / "includes.cpp"
        self.source.write_text(self.includes)
        self.text = run(*self.command, "-E", "-P", self.source)
        defined = run(*self.command, "-E", "-dM", self.source)
        self.constants = set(re.findall(r"^#define (NCCL_\w+) \(?-?[0-9][0-9a-fx.]*\)?$", defined, re.M))
        self.functions = set(re.findall(r"\b(p?nccl[A-Z]\w*)\s*\([^;{}]*\)\s*;", self.text))
        enums = re.findall(r"\benum\b[^{};]*\{(.*?)\}", self.text, re.S)
        self.enumerators = {name for body in enums for name in re.findall(r"(?:^|,)\s*(\w+)", body)
                            if name.lower().startswith("nccl")}

    def fields(self, structs):
        """Of each struct, the names of its fields."""
        found = {}
        for name in structs:
            body = re.search(r"struct\s*(?:\w+\s*)?\{((?:[^{}]|\{[^{}]*\})*)\}\s*" + name + r"\s*;", self.text)
            if body is None:
                fail(f"no struct {name}")
            flat = re.sub(r"\{[^{}]*\}", "", body.group(1))
            names = [field for line in flat.split(";") for field in re.findall(r"(\w+)\s*(?:\[[^\]]*\])?\s*(?:,|$)", line.strip())]
            found[name] = names
        return found

    def facts(self, work, functions, values, structs):
        """A line for each."""
        lines = [self.includes, "#include <cstddef>\n#include <cstdio>\n#include <typeinfo>\nint main() {"]
        lines += [f'  std::printf("{name} %s\\n", typeid({name}).name());' for name in sorted(functions)]
        lines += [f'  std::printf("{name} %.17g\\n", (double){name});' for name in sorted(values)]
        for struct, fields in structs.items():
            lines.append(f'  std::printf("{struct} %zu\\n", sizeof({struct}));')
            lines += [f'  std::printf("{struct}.{field} %zu %zu\\n", offsetof({struct}, {field}), sizeof({struct}::{field}));'
                      for field in fields]
        source, program = work / "facts.cpp", work / "facts"
        source.write_text("\n".join([*lines, "}\n"]))
        run(*self.command, source, "-o", program)
        return run(program).splitlines()


STRUCTS = ["ncclUniqueId", "ncclConfig_t", "ncclConfigExt_t", "ncclCollConfig_t", "ncclSimInfo_t", "ncclWaitSignalDesc_t",
           "ncclEncryptionConfig_t"]


def compare_exports(nm, theirs, libraries, is_pinned):
    """Their names, and what differs."""
    wanted = exports(nm, theirs / "lib/libnccl.so.2") - IN_NO_HEADER
    functions = {name for name in wanted if name.startswith("nccl")}
    if wanted != functions | {"p" + name for name in functions} or (is_pinned and len(functions) != 96):
        fail(f"NCCL exports {len(functions)} functions and {len(wanted)} names: not what this test knows")
    different = []
    for own in libraries:
        found = exports(nm, own)
        if wanted - found:
            different.append(f"{own.name} lacks {sorted(wanted - found)}")
        if is_pinned and found - wanted:
            different.append(f"{own.name} has {sorted(found - wanted)} on top")
    return wanted, different


def missing_names(wanted, own, other, only_nccl_h, is_pinned):
    """Names that a header lacks, by what they are."""
    missing = {
        "functions": wanted - own.functions,
        "enumerators": only_nccl_h.enumerators - own.enumerators,
        "constants": only_nccl_h.constants - own.constants - OWN_VALUES,
        "functions of theirs": wanted - other.functions - NOT_DECLARED - {"p" + name for name in NOT_DECLARED}
        - {name for name in wanted if name.startswith("p") and name not in only_nccl_h.functions},
        "own enumerators in theirs": own.enumerators - other.enumerators if is_pinned else set()}
    return [f"{what} that are missing: {sorted(names)}" for what, names in missing.items() if names]


def shared_fields(theirs, own):
    """Of each struct the fields that both have, and which are missing here."""
    missing = [f"{struct} lacks {name}" for struct, names in theirs.items() for name in names if name not in own[struct]]
    return {struct: [name for name in names if name in own[struct]] for struct, names in theirs.items()}, missing


def main():
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for name in ("compiler", "nm", "include", "library", "archive", "cache"):
        parser.add_argument(name)
    parser.add_argument("--version", default=PINNED)
    given = parser.parse_args()
    if given.version != "latest" and (not re.fullmatch(r"\d+(\.\d+)+(rc\d+)?", given.version) or is_earlier(given.version)):
        parser.error(f"--version {given.version}: expected {PINNED} or later, or latest")
    cache = Path(given.cache)
    theirs, version = fetch(given.version, cache)
    if is_earlier(version):
        fail(f"the newest NCCL that pip finds is {version}: expected {PINNED} or later")
    is_pinned = version == PINNED
    wanted, different = compare_exports(given.nm, theirs, (Path(given.library), Path(given.archive)), is_pinned)
    stubs, own_work, their_work = (cache / name for name in ("stubs", "own", "theirs"))
    for folder in (stubs, own_work, their_work):
        folder.mkdir(exist_ok=True)
    for name, text in STUBS.items():
        (stubs / name).write_text(text)
    own = Header(given.compiler, Path(given.include), stubs, own_work, ["nccl.h", "nccl_device.h"])
    other = Header(given.compiler, theirs / "include", stubs, their_work, ["nccl.h", "nccl_device/host.h"])
    only_nccl_h = Header(given.compiler, theirs / "include", stubs, their_work, ["nccl.h"])
    different += missing_names(wanted, own, other, only_nccl_h, is_pinned)
    functions = wanted & own.functions & other.functions
    values = (own.enumerators & other.enumerators) | (only_nccl_h.constants & own.constants - OWN_VALUES)
    structs, missing = shared_fields(only_nccl_h.fields(STRUCTS) | other.fields(["ncclCommProperties_t"]),
                                     own.fields([*STRUCTS, "ncclCommProperties_t"]))
    left, right = (header.facts(work, functions, values, structs) for header, work in ((own, own_work), (other, their_work)))
    different += missing + [f"here   {a}\n  theirs {b}" for a, b in zip(left, right, strict=True) if a != b]
    if different:
        fail(f"what differs from NCCL {version}:\n" + "\n".join(f"  {line}" for line in different))
    print(f"{len(wanted)} exported names, {len(functions)} signatures, {len(values)} values and {len(structs)} structs with "
          f"{sum(map(len, structs.values()))} fields agree with NCCL {version}")


if __name__ == "__main__":
    main()
