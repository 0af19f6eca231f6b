"""Installs into a temporary folder, moves that, and does what users do with it. Fails with what went wrong.

usage: install_test.py CMAKE C_COMPILER CXX_COMPILER SOURCE_FOLDER BUILD_FOLDER PROGRAM...
"""
import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

RANKS = 2
LIMIT_S = 120
# What each program of examples/ prints, as often as it has ranks that get that far. Each also checks its own result.
EXAMPLES = {
    "all_reduce": ("sum 3\n", 2),
    "all_reduce_cpp": ("sum 3\n", 2),
    "all_reduce_static": ("sum 3\n", 2),
    "streams": ("sum 3, computed 14.4 meanwhile\n", 2),
    "groups": ("received 10 from rank 1\n", 1),
    "failure": ("rank 1 was lost; 1 ranks go on\n", 1),
    "late": ("all were there\n", 2),
    "paro": ("learnt 0.5\n", 2),
}


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=LIMIT_S, check=False, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def refusal(*command, **options):
    """What the command says when it fails, as it has to, in one line."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=LIMIT_S, check=False, **options)
    expect(done.returncode != 0, f"{' '.join(map(str, command))} succeeded")
    return " ".join(done.stderr.split())


def expect(condition, text):
    if not condition:
        sys.exit(text)


def sums(tree, program):
    """Runs the program with the installed launcher; it checks its sum itself."""
    output = run(tree / "bin" / "horing-run", "-n", RANKS, "--timeout", 60, "--", program)
    expect(output.count(f"sum {RANKS * (RANKS + 1) // 2}\n") == RANKS, f"{program} said: {output}")


def uses_installed_library(tree, program):
    """True if the program loads the shared library of `tree`."""
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


def examples(cmake, compilers, tree, source, build):
    """Builds all by find_package(), and runs each."""
    strict = "-Wall -Wextra -Werror"
    run(cmake, "-G", "Ninja", "-S", source, "-B", build, f"-DCMAKE_PREFIX_PATH={tree}", f"-DCMAKE_C_COMPILER={compilers[0]}",
        f"-DCMAKE_CXX_COMPILER={compilers[1]}", f"-DCMAKE_C_FLAGS={strict}", f"-DCMAKE_CXX_FLAGS={strict}")
    run(cmake, "--build", build)
    expect(uses_installed_library(tree, build / "all_reduce"), "all_reduce does not load libhoring.so")
    expect(not uses_installed_library(tree, build / "all_reduce_static"), "all_reduce_static loads libhoring.so")
    for name, (text, times) in EXAMPLES.items():
        output = run(tree / "bin" / "horing-run", "-n", RANKS, "--timeout", 60, "--", build / name)
        expect(output.count(text) == times, f"{name} said: {output}")
    output = run(build / "threads")
    expect(output.count("sum 10\n") == 4, f"threads said: {output}")
    if (build / "mpi").exists() and shutil.which("mpirun"):
        output = run("mpirun", "-n", RANKS, build / "mpi", env={**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})
        expect(output.count("sum 3\n") == RANKS, f"mpi said: {output}")
    else:
        print("Left out: examples/mpi.c, which needs MPI")
    made = {path.stem for path in source.iterdir() if path.suffix in (".c", ".cpp")}
    expect(made <= {*EXAMPLES, "threads", "mpi"}, f"no test runs {sorted(made - {*EXAMPLES, 'threads', 'mpi'})} of examples/")


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
    """All programs, and nothing else, are there and start; and each built file with a program's name is one."""
    built = {path.name for path in (Path(build) / "bin").iterdir() if path.name.startswith("horing-") or path.name.endswith("_perf")}
    expect(built <= set(names), f"not made by horing_program(), so not installed: {sorted(built - set(names))}")
    found = {path.name for path in (tree / "bin").iterdir()}
    expect(found == set(names), f"bin/ has {sorted(found)}, not {sorted(names)}")
    for name in names:
        run(tree / "bin" / name, "--help")
        said = refusal(tree / "bin" / name, "--no-such-option")
        expect(said.startswith(f"{name}: "), f"{name} does not say its name: {said}")
    documents = folder_of(tree, "LICENSE")
    for name in ("README.md", "docs/README.md", "docs/pictures/plan.svg", "examples/all_reduce.c", "examples/CMakeLists.txt"):
        expect((documents / name).exists(), f"{name} is not beside LICENSE")
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


def files_of(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


def in_debian(file):
    """Where the .deb has a file of the installed tree."""
    if file.startswith("share/doc/horing/"):
        return "usr/" + file.replace("doc/horing/LICENSE", "doc/horing/copyright")
    return f"opt/horing/{file}"


@contextlib.contextmanager
def debian(package, root):
    """A folder in which dpkg has installed the package, and nothing that it needs. Removed again, it leaves what was there before."""
    for folder in ("opt", "usr/share/doc/other", "var/lib/dpkg/info", "var/lib/dpkg/updates"):
        (root / folder).mkdir(parents=True)
    (root / "var/lib/dpkg/status").touch()
    before = {path for path in root.rglob("*") if "dpkg" not in path.parts}
    dpkg = ["dpkg", "--root", root, "--force-not-root", "--force-script-chrootless", "--force-depends", f"--log={root}/var/lib/dpkg/log"]
    run(*dpkg, "--install", package)
    yield
    run(*dpkg, "--purge", "horing")
    after = {path for path in root.rglob("*") if "dpkg" not in path.parts}
    expect(after == before, f"installed and removed, {package.name} leaves or takes {sorted(map(str, after ^ before))}")


def packages(cmake, compiler, tree, source, build, folder):
    """What cpack makes has the files of the installed tree, and serves as that does."""
    run(Path(cmake).with_name("cpack"), "--config", Path(build) / "CPackConfig.cmake", "-B", folder)
    archive, package = next(folder.glob("horing-*.tar.gz")), next(folder.glob("horing_*.deb"))
    shutil.unpack_archive(archive, folder / "unpacked")
    unpacked = next((folder / "unpacked").iterdir())
    expect(files_of(unpacked) == files_of(tree), f"{archive.name} differs in {sorted(files_of(unpacked) ^ files_of(tree))}")
    (folder / "of_archive").mkdir()
    pkg_config(compiler, unpacked, source, folder / "of_archive")
    if not shutil.which("dpkg"):
        print("Left out: the .deb, which needs dpkg")
        return
    needs = r"Depends: libsodium23, .*, libstdc\+\+6 \(>= [0-9.]+\), libc6 \(>= [0-9.]+\)"
    expect(re.search(needs, run("dpkg-deb", "-I", package)), f"{package.name} does not name what it needs")
    (folder / "of_package").mkdir()
    root = folder / "root"
    with debian(package, root):
        expected, found = set(map(in_debian, files_of(tree))), {file for file in files_of(root) if not file.startswith("var/lib/dpkg/")}
        expect(found == expected, f"{package.name} differs in {sorted(found ^ expected)}")
        pkg_config(compiler, root / "opt" / "horing", source, folder / "of_package")


def python_package(cmake, tree, source, build, names, folder):
    """With HORING_PREBUILT the wheel has the library and programs that are there, as files that the project itself installs for it."""
    run(cmake, "--install", build, "--component", "python", "--prefix", folder / "built")
    for number, root in enumerate((tree, build)):
        environment = {**os.environ, "HORING_PREBUILT": str(root)}
        configured, copied = folder / f"configured{number}", folder / f"copied{number}"
        run(cmake, "-G", "Ninja", "-S", source / "python", "-B", configured, env=environment)
        run(cmake, "--build", configured, "--target", "horing_python")
        run(cmake, "--install", configured, "--component", "python", "--prefix", copied)
        expect(files_of(copied) == files_of(folder / "built"), f"of {root}: {files_of(copied) ^ files_of(folder / 'built')}")
        expect({path.name for path in (copied / "bin").iterdir()} == set(names), f"of {root}: bin/ has not {sorted(names)}")
        for name in ("horing-info", "all_reduce_perf"):
            expect(uses_installed_library(copied, copied / "bin" / name), f"{name} does not load libhoring.so")

    other, bare = folder / "other", folder / "bare"
    (other / "lib").mkdir(parents=True)
    (other / "lib" / "libhoring.so.0.99.1").touch()
    (bare / "lib").mkdir(parents=True)
    shutil.copy(next(tree.glob("**/libhoring.so.*.*.*")), bare / "lib")
    for root, complaint in ((other, "this package needs version"), (bare, "no bin/"), (folder, "neither installed nor built"), ("lib", "absolute")):
        said = refusal(cmake, "-G", "Ninja", "-S", source / "python", "-B", folder / "refused", env={**os.environ, "HORING_PREBUILT": str(root)})
        expect(complaint in said and str(root) in said.replace(" ", ""), f"HORING_PREBUILT={root}: {said}")


def main():
    cmake, c_compiler, cxx_compiler, source, build, *names = sys.argv[1:]
    sources = Path(source) / "examples"
    os.environ.pop("LD_LIBRARY_PATH", None)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        run(cmake, "--install", build, "--prefix", folder / "first")
        tree = (folder / "first").rename(folder / "moved")
        names_no_place(tree, [source, build, str(folder / "first")])
        programs(tree, build, names)
        examples(cmake, (c_compiler, cxx_compiler), tree, sources, folder / "found")
        (folder / "configured").mkdir()
        pkg_config(c_compiler, tree, sources / "all_reduce.c", folder / "configured")
        packages(cmake, c_compiler, tree, sources / "all_reduce.c", build, folder / "packages")
        nccl(c_compiler, tree, Path(source) / "tests" / "nccl" / "client.c", folder / "configured")
        python_package(cmake, tree, Path(source), Path(build), names, folder / "python")


if __name__ == "__main__":
    main()
