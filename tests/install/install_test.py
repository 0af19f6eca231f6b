"""Installs into a temporary folder, moves that, and does what users do with it. Fails with what went wrong.

usage: install_test.py CMAKE C_COMPILER CXX_COMPILER SOURCE_FOLDER BUILD_FOLDER PROGRAM...
"""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

RANKS = 2
LIMIT_S = 120


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=LIMIT_S, check=False, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def expect(condition, text):
    if not condition:
        sys.exit(text)


def sums(tree, program):
    """Runs the program with the installed launcher; it checks its sum itself."""
    output = run(tree / "bin" / "horing-run", "-n", RANKS, "--timeout", 60, "--", program)
    expect(output.count(f"sum {RANKS * (RANKS + 1) // 2}\n") == RANKS, f"{program} said: {output}")


def uses_installed_library(tree, program):
    """True if the shared library of `tree` is what the program loads."""
    line = next((line for line in run("ldd", program).splitlines() if "libhoring" in line), None)
    if line is None:
        return False
    found = Path(line.split("=>")[1].split("(")[0].strip()).resolve()
    expect(tree in found.parents, f"{program} loads {found}, not that of {tree}")
    return True


def folder_of(tree, name):
    found = list(tree.glob(f"**/{name}"))
    expect(len(found) == 1, f"{name} is installed {len(found)} times: {found}")
    return found[0].parent


def names_no_place(tree, places):
    """Nothing may remember where it was built or first installed."""
    for path in tree.rglob("*"):
        if path.is_file() and not path.is_symlink():
            content = path.read_bytes()
            for place in places:
                expect(os.fsencode(place) not in content, f"{path.relative_to(tree)} names {place}")


def find_package(cmake, compilers, tree, consumer, build):
    run(cmake, "-G", "Ninja", "-S", consumer, "-B", build, f"-DCMAKE_PREFIX_PATH={tree}", f"-DCMAKE_C_COMPILER={compilers[0]}",
        f"-DCMAKE_CXX_COMPILER={compilers[1]}")
    run(cmake, "--build", build)
    expect(uses_installed_library(tree, build / "sum_shared"), "sum_shared does not load libhoring.so")
    expect(not uses_installed_library(tree, build / "sum_static"), "sum_static loads libhoring.so")
    for program in ("sum_shared", "sum_static", "sum_cpp"):
        sums(tree, build / program)
    output = run(tree / "bin" / "horing-run", "-n", RANKS, "--timeout", 60, "--", build / "train")
    expect(output.count("learnt 0.5\n") == RANKS, f"train said: {output}")


def pkg_config(compiler, tree, source, build):
    place = {**os.environ, "PKG_CONFIG_PATH": str(folder_of(tree, "horing.pc"))}
    flags = run("pkg-config", "--cflags", "horing", env=place).split()
    strict = ["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    libraries = folder_of(tree, "libhoring.a")
    shared = run("pkg-config", "--libs", "horing", env=place).split()
    run(compiler, *strict, *flags, source, "-o", build / "shared", *shared, f"-Wl,-rpath,{libraries}")
    expect(uses_installed_library(tree, build / "shared"), "the program of pkg-config --libs does not load libhoring.so")
    static = run("pkg-config", "--static", "--libs", "horing", env=place).replace("-lhoring", "-l:libhoring.a").split()
    run(compiler, *strict, *flags, source, "-o", build / "static", *static)
    expect(not uses_installed_library(tree, build / "static"), "the program of pkg-config --static loads libhoring.so")
    sums(tree, build / "shared")
    sums(tree, build / "static")


def programs(tree, build, names):
    """All of them, and nothing else, are there and start; and what was built that has the name of one is one."""
    built = {path.name for path in (Path(build) / "bin").iterdir() if path.name.startswith("horing-") or path.name.endswith("_perf")}
    expect(built <= set(names), f"not made by horing_program(), so not installed: {sorted(built - set(names))}")
    found = {path.name for path in (tree / "bin").iterdir()}
    expect(found == set(names), f"bin/ has {sorted(found)}, not {sorted(names)}")
    for name in names:
        run(tree / "bin" / name, "--help")
    expect((folder_of(tree, "LICENSE") / "README.md").exists(), "README.md is not beside LICENSE")
    for name in ("horing-info", "all_reduce_perf", "all_gather_perf", "broadcast_perf"):
        expect(uses_installed_library(tree, tree / "bin" / name), f"{name} does not load libhoring.so")
    run(tree / "bin" / "horing-info")
    run(tree / "bin" / "all_reduce_perf", "-t", RANKS, "-b", 8, "-e", 8)


def nccl(compiler, tree, source, build):
    """A program in NCCL's names, built against the installed nccl.h and each of its libraries, and launched."""
    libraries = folder_of(tree, "libnccl.so.2")
    header = ["-std=c99", "-I", folder_of(tree, "nccl.h"), source]
    run(compiler, *header, "-o", build / "nccl", "-L", libraries, "-lnccl", f"-Wl,-rpath,{libraries}")
    outside = ["-lsodium", "-lhwloc", "-lexpat", "-lstdc++", "-ldl", "-lrt", "-lm", "-pthread"]
    run(compiler, *header, "-o", build / "nccl_static", libraries / "libnccl_static.a", *outside)
    for command in ([build / "nccl"], [build / "nccl_static"], [tree / "bin" / "horing-run", "--nccl", "--", build / "nccl"]):
        expect("sum 3\n" in run(*command), f"{command} gives no sum")


def main():
    cmake, c_compiler, cxx_compiler, source, build, *names = sys.argv[1:]
    consumer = Path(source) / "tests" / "install" / "consumer"
    os.environ.pop("LD_LIBRARY_PATH", None)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        run(cmake, "--install", build, "--prefix", folder / "first")
        tree = (folder / "first").rename(folder / "moved")
        names_no_place(tree, [source, build, str(folder / "first")])
        programs(tree, build, names)
        find_package(cmake, (c_compiler, cxx_compiler), tree, consumer, folder / "found")
        (folder / "configured").mkdir()
        pkg_config(c_compiler, tree, consumer / "sum.c", folder / "configured")
        nccl(c_compiler, tree, Path(source) / "tests" / "nccl" / "client.c", folder / "configured")


if __name__ == "__main__":
    main()
