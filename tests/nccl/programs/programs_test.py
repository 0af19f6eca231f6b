"""Programs that others wrote for NCCL run on horing's libnccl.so.2, on memory of the host.

usage: programs_test.py CXX LIBRARY_FOLDER REPOSITORY CACHE_FOLDER [GROUP...]      (./tools/dev test --clients)

Groups: nccl-tests, examples, jacobi, python, cupy, xgboost; all these by default; torch, 6 GB; and torch-gpu, which needs a GPU. Fetched into CACHE_FOLDER: their sources
by git, NCCL's and CUDA's headers, MPICH and the Python clients by pip. CUDA's runtime is host_runtime.cpp. Of the programs' sources only
what a CUDA compiler would translate is changed: launches of kernels, and one instruction. Exit code 1: a program failed; all are run.
"""
import concurrent.futures
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCES = {"nccl-tests": ("https://github.com/NVIDIA/nccl-tests", "a0b82b2260cf5152b9f8c061bbf7eaf0ba096432"),
           "nccl": ("https://github.com/NVIDIA/nccl", "5067397c2676d5aed50042fc39e5c8ee96eb0027"),
           "jacobi": ("https://github.com/NVIDIA/multi-gpu-programming-models", "9a600f5ea8f5e53614e30b7b36e9136107178dd8"),
           "cupy": ("https://github.com/cupy/cupy", "6b6d9563c4f7410cd1866a11b2f71a60dd45a68c"),
           "xgboost": ("https://github.com/dmlc/xgboost", "379b29f0836b9dbc313b993d8e5743bd452d4117"),
           "dmlc-core": ("https://github.com/dmlc/dmlc-core", "5295de940c7e79abe8b5d3891ca1d9ac6e7d467c")}
WHEELS = ["mpich==5.0.2", "nvidia-cuda-runtime==13.5.37", "nvidia-cuda-crt==13.5.37", "nvidia-cuda-cccl==13.3.5.0.6",
          "nvidia-nccl-cu13==2.27.7", "nccl4py==0.6.0", "cuda-pathfinder", "numpy", "sglang==0.5.23", "cython==3.3.1", "pytest", "pluggy",
          "iniconfig", "packaging", "pygments"]
TORCH = "torch==2.14.1"
VLLM = "vllm==0.33.0"  # of whose wheel these files are kept
VLLM_FILES = ["vllm/distributed/device_communicators/pynccl.py", "vllm/distributed/device_communicators/pynccl_wrapper.py",
              "vllm/utils/nccl.py"]
PERF = ["all_reduce", "all_gather", "broadcast", "reduce_scatter", "reduce", "alltoall", "alltoallv", "scatter", "gather", "sendrecv",
        "hypercube"]
MOST_RANKS = 8
OKAY = r"Out of bounds values : 0 OK"


class Workshop:
    """What programs are compiled with, and where they are put."""

    def __init__(self, compiler, libraries, repository, cache):
        self.compiler, self.libraries, self.repository = compiler, libraries, repository
        self.cache, self.venv = cache, cache / "venv"
        self.out = cache / "programs"
        self.out.mkdir(parents=True, exist_ok=True)

    def fetch_tools(self):
        if not self.venv.exists():
            subprocess.run([sys.executable, "-m", "venv", self.venv], check=True)
        subprocess.run([self.venv / "bin/pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", *WHEELS], check=True)
        [self.packages] = self.venv.glob("lib/python*/site-packages")
        runtime = self.out / "libcudart.so"
        subprocess.run([self.compiler, *self.flags(), "-shared", "-fPIC", f"-I{self.repository}/include", HERE / "host_runtime.cpp",
                        "-o", runtime, f"-L{self.libraries}", "-lhoring"], check=True)

    def sources(self, name, *paths):
        url, commit = SOURCES[name]
        folder = self.cache / "sources" / name
        if not folder.exists():
            subprocess.run(["git", "clone", "--quiet", "--filter=blob:none", "--no-checkout", url, folder], check=True)
        subprocess.run(["git", "-C", folder, "checkout", "--quiet", "--force", commit, *(["--", *paths] if paths else [])], check=True)
        return folder

    def fetch_vllm(self):
        folder = self.cache / "sources" / "vllm"
        kept = folder / f"{VLLM}-{len(VLLM_FILES)}-files"
        if not kept.exists():
            with tempfile.TemporaryDirectory(dir=self.cache) as place:
                subprocess.run([self.venv / "bin/pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "-d", place, VLLM],
                               check=True)
                [wheel] = Path(place).glob("*.whl")
                with zipfile.ZipFile(wheel) as archive:
                    for name in VLLM_FILES:
                        archive.extract(name, folder)
            kept.touch()

    def flags(self):
        headers = self.packages / "nvidia"
        return ["-std=c++20", "-O1", "-w", "-DNCCL_OS_LINUX", "-isystem", headers / "cu13/include", f"-I{headers}/nccl/include",
                f"-I{self.venv}/include", f"-I{HERE}", "-include", HERE / "host_kernels.h"]

    def program(self, name, files, *options):
        """Compiles and links; files already translated."""
        made = self.out / name
        inputs = [word for file in files for word in ("-x", "c++", file)]
        subprocess.run([self.compiler, *self.flags(), *options, *inputs, "-x", "none", "-o", made, f"-L{self.out}", f"-L{self.libraries}",
                        f"-L{self.venv}/lib", "-lcudart", "-lnccl", "-lhoring", "-lmpi", "-pthread"], check=True)
        return made

    def objects(self, name, files, *options):
        """Kept for the next run, if that compiles the same in the same way."""
        words = [self.compiler, *self.flags(), *options, SOURCES[name], WHEELS, (HERE / "host_kernels.h").read_text()]
        folder = self.out / f"{name}-{hashlib.sha256(repr(words).encode()).hexdigest()[:16]}"
        folder.mkdir(exist_ok=True)

        def compile_one(file):
            made = folder / (file.name + ".o")
            if not made.exists():
                subprocess.run([self.compiler, *self.flags(), *options, "-x", "c++", "-c", file, "-o", made], check=True)
            return made

        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            return dict(zip(files, pool.map(compile_one, files)))

    def link(self, name, objects, *libraries):
        made = self.out / name
        subprocess.run([self.compiler, *objects, "-o", made, f"-L{self.out}", f"-L{self.libraries}", f"-L{self.venv}/lib", *libraries,
                        "-lcudart", "-lnccl", "-lhoring", "-lmpi", "-pthread"], check=True)
        return made

    def processes(self, ranks):
        return [self.venv / "bin/mpiexec", "-n", str(ranks)] if ranks > 1 else []


def for_host(folder):
    """Turns launches of kernels, the addresses by which cudaLaunchKernel finds them, and PTX, into calls of host_kernels.h."""
    for file in [*folder.rglob("*.cu"), *folder.rglob("*.h")]:
        text = file.read_text()
        changed = re.sub(r"\(void const\*\)&(\w+<[^;]*>);", r"hostKernel(&\1);", text)
        changed = re.sub(r"(\w+(?:<[^<>;]*>)?)<<<(.*?)>>>\(", r"onHost(\1, \2)(", changed)
        changed = re.sub(r'asm volatile\("red.global.add.u64 \[%0\],%1;" :: "l"\((\w+)\), "l"\((\w+)\) : "memory"\)',
                         r"atomicAdd(\1, static_cast<int64_t>(\2))", changed)
        if changed != text:
            file.write_text(changed)


class Tally:
    """What ran, and what failed."""

    def __init__(self, shop):
        self.ran, self.failed = 0, []
        self.environment = {**os.environ, "HORING_CACHE_DIR": "off", "LD_LIBRARY_PATH": f"{shop.out}:{shop.libraries}:{shop.venv}/lib"}

    def run(self, command, wanted, limit_s=120, **variables):
        words = [str(word) for word in command]
        self.ran += 1
        program = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
                                   env={**self.environment, **variables})
        try:
            output, errors = program.communicate(timeout=limit_s)
            text = output + errors
            good = program.returncode == 0 and re.search(wanted, output) and not re.search(r"(?i)verification failed|incorrect", text)
        except subprocess.TimeoutExpired as late:
            os.killpg(program.pid, signal.SIGKILL)  # its ranks, too
            program.wait()
            good, text = False, f"no end after {limit_s} s\n{late.stdout}"
        if not good:
            self.failed.append(" ".join(words))
            print("FAILED:", " ".join(words), "\n", text[-2000:], flush=True)


def try_nccl_tests(shop, tally):
    folder = shop.sources("nccl-tests")
    for_host(folder)
    files = [*sorted(folder.glob("src/*.cu")), folder / "src/timer.cc", folder / "os/linux.cc", folder / "verifiable/verifiable.cu"]
    options = ["-DMPI_SUPPORT", f"-I{folder}/os", f"-I{folder}/verifiable", f"-I{folder}/src"]
    made = {file.stem: made for file, made in shop.objects("nccl-tests", files, *options).items()}
    shared = [made[name] for name in ("common", "util", "timer", "linux", "verifiable")]
    for name in PERF:
        program = shop.link(f"{name}_perf", [made[name], *shared])
        for ranks in range(1, MOST_RANKS + 1):
            for command in ([program, "-g", ranks], [program, "-t", ranks], [*shop.processes(ranks), program, "-g", "1"]):
                # Its steps need each other's results, and -g has them in one group: github.com/NVIDIA/nccl-tests/issues/356.
                if name != "hypercube" or ranks < 3 or command[1] != "-g":
                    tally.run([*command, "-b", "8", "-e", "1M", "-f", "32", "-n", "2", "-w", "1"], OKAY)
    every = [shop.out / "all_reduce_perf", "-b", "1K", "-e", "64K", "-f", "64", "-n", "2", "-w", "1"]
    for op in ("sum", "prod", "max", "min", "avg"):
        tally.run([*every, "-d", "all", "-o", op, "-g", "4"], OKAY)
    for kind in ("int8", "uint8", "int32", "uint32", "int64", "uint64", "half", "float", "double", "bfloat16", "f8e4m3"):
        # Not f8e5m2: nccl-tests divides by zero for it, which only a GPU forgives.
        tally.run([*every, "-d", kind, "-o", "mulsum", "-g", "4"], OKAY)
    for options in (["-t", "2", "-g", "2", "-R", "1"], ["-g", "4", "-R", "2"], ["-g", "3", "-z", "1"], ["-g", "4", "-p", "1", "-t", "2"]):
        tally.run([*every, *options], OKAY)


def try_examples(shop, tally):
    examples = shop.sources("nccl") / "docs/examples"
    common = ["-I", examples / "common/include"]
    for main in sorted(examples.glob("0[1-5]_*/*/c/main.cc")):
        name = "example_" + "_".join(part[:2] for part in main.parts[-4:-2])
        with_mpi = "mpi" in main.parts[-3]
        two_gpus = main.parts[-4].startswith("02")  # it has 4 GiB for each
        if two_gpus and os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGESIZE") < 10 << 30:
            print(f"SKIPPED: {main} needs 10 GiB of free memory", flush=True)
            continue
        program = shop.program(name, [main, examples / "common/src/utils.cc"], *common, *(["-DMPI_SUPPORT"] if with_mpi else []))
        tally.run([*(shop.processes(4) if with_mpi else []), program],
                  r"SUCCESS|Success|completed successfully|verified correctly|cleaned up properly",
                  **({"HOST_GPUS": "2"} if two_gpus else {}))


def try_jacobi(shop, tally):
    folder = shop.sources("jacobi")
    for_host(folder)
    for variant in ("nccl", "nccl_overlap"):
        program = shop.program(f"jacobi_{variant}", [folder / variant / "jacobi.cpp", folder / variant / "jacobi_kernels.cu"])
        for ranks in (1, 2, 3, 4, 8):
            tally.run([*shop.processes(ranks), program, "-nx", "256", "-ny", "256", "-niter", "100"], r"Num GPUs: \d+")


def try_python(shop, tally):
    shop.fetch_vllm()
    for client, fewest in (("sglang", 1), ("vllm", 2), ("nccl4py", 1)):  # vLLM makes no communicator for one rank
        for ranks in (1, 2, 4, 8):
            if ranks >= fewest:
                tally.run([shop.venv / "bin/python", "-B", HERE / "python_clients.py", client, shop.libraries, shop.cache / "sources",
                           ranks], f"{client}: {ranks} ranks passed")


def try_cupy(shop, tally):
    """CuPy's own binding and its tests, unmodified, with host_cupy around them. NVIDIA's wheel is found first: LD_AUDIT redirects."""
    folder = shop.sources("cupy", "cupy_backends", "tests/cupy_tests/cuda_tests/test_nccl.py")
    for file in (HERE / "host_cupy").glob("runtime.*"):
        shutil.copy(file, folder / "cupy_backends/cuda/api")
    python = shop.venv / "bin/python"
    asked = "import sysconfig; print(sysconfig.get_path('include'), sysconfig.get_config_var('EXT_SUFFIX'))"
    include, suffix = subprocess.run([python, "-c", asked], check=True, capture_output=True, text=True).stdout.split()
    for name in ("cuda/api/runtime", "cuda/libs/nccl"):
        module = folder / "cupy_backends" / name
        subprocess.run([shop.venv / "bin/cython", "-3", "--cplus", f"{module}.pyx", "-o", f"{module}.cpp"], check=True, cwd=folder)
        subprocess.run([shop.compiler, *shop.flags(), f"-I{include}", "-shared", "-fPIC", f"{module}.cpp", "-o", f"{module}{suffix}",
                        f"-L{shop.out}", f"-L{shop.libraries}", "-lcudart", "-lnccl"], check=True)
    tally.run([python, "-B", "-m", "pytest", "--noconftest", "-p", "no:cacheprovider", "-c", "/dev/null",
               folder / "tests/cupy_tests/cuda_tests/test_nccl.py"], r"= 15 passed in",
              PYTHONPATH=f"{folder}:{HERE / 'host_cupy'}", LD_AUDIT=str(shop.libraries / "libhoring_audit.so"),
              LD_LIBRARY_PATH=str(shop.out))


def try_xgboost(shop, tally):
    """What XGBoost has over NCCL, and its tests of that; xgboost_* in place of its helpers for GPUs. It loads libnccl.so.2 itself."""
    folder, core = shop.sources("xgboost"), shop.sources("dmlc-core")
    for name, place in (("device_helpers.cuh", "src/common"), ("cuda_context.cuh", "src/common"), ("helpers.h", "tests/cpp")):
        shutil.copy(HERE / f"xgboost_{name}", folder / place / name)
    own = ["-O0", "-fno-char8_t", "-DDMLC_LOG_CUSTOMIZE=1", f"-I{folder}/include", f"-I{core}/include"]
    thrust = ["-DTHRUST_DEVICE_SYSTEM=THRUST_DEVICE_SYSTEM_CPP", "-DCCCL_DISABLE_CTK_COMPATIBILITY_CHECK", "-include",
              "thrust/system_error.h", "-include", "thrust/system/cuda/error.h"]
    on_gpus = ["-DXGBOOST_USE_NCCL", "-DXGBOOST_USE_DLOPEN_NCCL", "-DXGBOOST_USE_CUDA", *thrust, "-isystem",
               shop.packages / "nvidia/cu13/include/cccl"]
    common = ["charconv.cc", "common.cc", "common.cu", "cuda_rt_utils.cc", "cuda_stream.cc", "error_msg.cc", "json.cc", "param_array.cc",
              "threading_utils.cc", "timer.cc"]
    files = [*sorted(folder.glob("src/collective/*.c[cu]")), *(folder / "src/common" / name for name in common),
             *(folder / "src" / name for name in ("context.cc", "context.cu", "global_config.cc", "logging.cc")),
             *(folder / "tests/cpp/collective" / name for name in ("test_allreduce.cu", "test_allgather.cu"))]
    of_host = [folder / "src/common" / name for name in ("host_device_vector.cc", "random.cc")]
    objects = [*shop.objects("xgboost", files, *own, *on_gpus).values(), *shop.objects("xgboost", of_host, *own).values()]
    program = shop.link("xgboost_test", objects, "-lgtest_main", "-lgtest")
    for ranks in (2, 4, 8):
        # Not a test that wants a timeout where horing says at once that a rank has left.
        tally.run([program, "--gtest_filter=-*Timeout"], r"PASSED  . 4 tests", HOST_GPUS=str(ranks))


OURS = 22809  # of ncclGetVersion


def torch_python(shop):
    venv = shop.cache / "torch-venv"
    if not venv.exists():
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    subprocess.run([venv / "bin/pip", "install", "--quiet", "--disable-pip-version-check", TORCH, "numpy"], check=True)
    return venv / "bin/python"


def try_torch(shop, tally):
    """A wheel for CUDA on a machine without a GPU: by each way it loads horing's library in place of that of its RPATH."""
    python = torch_python(shop)
    asks = ("import ctypes, torch; version = ctypes.c_int(); ctypes.CDLL('libnccl.so.2').ncclGetVersion(ctypes.byref(version)); "
            "print(torch.__version__, torch.cuda.nccl.version(), version.value)")
    client = [python, "-B", "-c", asks]
    programs, plain = shop.libraries.parent / "bin", {"LD_LIBRARY_PATH": ""}
    compiled_with = r"2\.14\.1\+cu\d+ \(2, \d+, \d+\) "
    tally.run(client, rf"^{compiled_with}(?!{OURS})\d+$", **plain)
    tally.run(client, rf"^{compiled_with}{OURS}$", LD_PRELOAD=str(shop.libraries / "libnccl.so.2"), **plain)
    tally.run(client, rf"^{compiled_with}{OURS}$", LD_AUDIT=str(shop.libraries / "libhoring_audit.so"), **plain)
    launch = [programs / "horing-run", "--nccl", "--", *client]
    tally.run(launch, rf"^{compiled_with}{OURS}$", **plain)
    tally.run([programs / "horing-info", "nccl", "--check", "--", *launch], r"libnccl\.so\.2: horing\n$", **plain)


def try_torch_on_gpu(shop, tally):
    """The training step of docs/nccl.md, on one GPU or two: all ranks have the same gradients."""
    gpus = len(list(Path("/dev").glob("nvidia[0-9]*")))
    if gpus == 0:
        print("torch-gpu: SKIPPED, there is no GPU (/dev/nvidia0)")
        return
    guide = (Path(shop.repository) / "docs/nccl.md").read_text()
    step = shop.out / "step.py"
    # A rank by itself has the same result with any library.
    is_ours = f"\nimport ctypes\nversion = ctypes.c_int()\nctypes.CDLL('libnccl.so.2').ncclGetVersion(ctypes.byref(version))\n" \
              f"assert version.value == {OURS}, version\n"
    step.write_text(re.search(r"cat > step\.py <<'END'\n(.*?)\nEND\n", guide, re.DOTALL).group(1) + is_ours)
    ranks = min(gpus, 2)
    launch = [shop.libraries.parent / "bin/horing-run", "--nccl", "-n", str(ranks), "--", torch_python(shop), "-B", step]
    tally.run(launch, r"(?s)\b0 (\S+)\n.*\b1 \1\n|\b1 (\S+)\n.*\b0 \2\n" if ranks == 2 else r"\b0 \d\S*\n")


GROUPS = {"nccl-tests": try_nccl_tests, "examples": try_examples, "jacobi": try_jacobi, "python": try_python, "cupy": try_cupy,
          "xgboost": try_xgboost}
LARGE = {"torch": try_torch, "torch-gpu": try_torch_on_gpu}  # only where named


def main():
    shop = Workshop(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), Path(sys.argv[4]).resolve())
    names, failed = sys.argv[5:] or list(GROUPS), 0
    if any(name in GROUPS for name in names):
        shop.fetch_tools()
    for name in names:
        tally, begin = Tally(shop), time.monotonic()
        (GROUPS | LARGE)[name](shop, tally)
        failed += len(tally.failed)
        print(f"{name}: {tally.ran - len(tally.failed)} of {tally.ran} runs passed, {time.monotonic() - begin:.0f} s", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
