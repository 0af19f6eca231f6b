"""Installs the .deb in a bare Debian, builds the examples in it there, runs them, and removes it again. Then the same with the
.tar.gz, unpacked somewhere.

usage: debian.py PACKAGE ARCHIVE SUITE FOLDER     SUITE: trixie, or another that debootstrap knows, made in FOLDER or taken from there

`./tools/dev test --debian` runs it. Needs root. The suite's own /proc and /dev/shm go away with the process that uses them.
"""
import os
import shutil
import subprocess
import sys
from pathlib import Path

from install_test import EXAMPLES, RANKS, expect

LIMIT_S = 540
TOOLS = "g++,cmake,ninja-build,pkgconf"
LIBRARIES = "libsodium23 libhwloc15 libexpat1"  # what the archive needs; the package names them itself
MPI = "libopenmpi-dev openmpi-bin"  # comes last, since it needs libraries that the package must name itself
AS_ROOT = "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"
UNPACKED = "/work/unpacked"
# How each example is started, and what it prints how often.
STARTS = {name: (f"$PREFIX/bin/horing-run -n {RANKS} --timeout 60 --", *prints) for name, prints in EXAMPLES.items()} | {
    "threads": ("", "sum 10\n", 4), "mpi": (f"{AS_ROOT} mpirun -n {RANKS}", "sum 3\n", RANKS)}
del STARTS["all_reduce_static"]  # the libhoring.a wants development packages
# Mounts are private to this shell and what it starts; so are processes, which end with it.
INSIDE = 'mount -t proc proc "$0/proc" && mount -t tmpfs -o mode=1777 tmpfs "$0/dev/shm" && exec chroot "$0" bash -euo pipefail -c "$1"'


def run(*command):
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace", timeout=LIMIT_S, check=False, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})
    expect(done.returncode == 0, f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout[-3000:]}")
    return done.stdout


def mirror():
    """Where this machine has its packages from."""
    sites = run("apt-get", "indextargets", "--format", "$(SITE)", "Origin: Debian", "Created-By: Packages").split()
    return sites[:1]


def inside(root, commands):
    return run("unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "bash", "-c", INSIDE, root, commands)


def files(root):
    """Where the package installs something; elsewhere apt takes and leaves what others need."""
    return {path for name in ("opt", "usr/share/doc/horing") for path in (root / name, *(root / name).rglob("*")) if path.exists()}


def install(root, packages):
    inside(root, f"apt-get update -q && apt-get install -q -y --no-install-recommends {packages}")


def try_examples(root, prefix, documents, names):
    """Builds each of those beside the documents against what is in prefix, and runs it."""
    for name in names:
        start, text, times = STARTS[name]
        if name == "mpi":
            install(root, MPI)
        built = f"/work/built{prefix}"
        inside(root, f"cmake -G Ninja -S {documents}/examples -B {built} -DCMAKE_PREFIX_PATH={prefix} && "
                     f"cmake --build {built} --target {name}")
        output = inside(root, f"export PREFIX={prefix} HORING_CACHE_DIR=off; {start} {built}/{name}")
        expect(output.count(text) == times, f"{name} of {prefix} said: {output}")


def main():
    package, archive, suite, folder = *map(Path, sys.argv[1:3]), sys.argv[3], Path(sys.argv[4]).resolve()
    expect(os.getuid() == 0, "debian.py: a Debian of its own needs root")
    root = folder / suite
    if not (root / "made").exists():
        shutil.rmtree(root, ignore_errors=True)
        run("debootstrap", "--variant=minbase", f"--include={TOOLS}", suite, root, *mirror())
        (root / "made").touch()
    work = root / "work"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    shutil.copy(package, work / "horing.deb")
    before = files(root)
    try:
        install(root, "/work/horing.deb")
        try_examples(root, "/opt/horing", "/usr/share/doc/horing", STARTS)
    finally:
        inside(root, f"apt-get purge -q -y --autoremove horing {MPI}")
    after = files(root)
    expect(after == before, f"installed and removed, {package.name} leaves or takes {sorted(map(str, after ^ before))}")
    (work / "unpacked").mkdir()
    run("tar", "-xzf", archive, "-C", work / "unpacked", "--strip-components=1")
    try:
        install(root, LIBRARIES)
        try_examples(root, UNPACKED, f"{UNPACKED}/share/doc/horing", [name for name in STARTS if name != "mpi"])
    finally:
        inside(root, f"apt-get purge -q -y --autoremove {LIBRARIES}")
    release = (root / "etc/debian_version").read_text(encoding="utf-8").strip()
    print(f"{package.name} on Debian {release} ({suite}): installed; built and ran {', '.join(STARTS)}; removed, nothing left. "
          f"{archive.name}: unpacked; the same without mpi")


if __name__ == "__main__":
    main()
