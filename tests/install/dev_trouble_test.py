"""`./tools/dev` on machines that lack something: it says what it leaves out and why, or ends with one clear line, and can be run again.

usage: dev_trouble_test.py SOURCE_FOLDER

The commands that it calls are stand-ins, in a small tree of its own: files there say what the machine lacks.
"""
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

STAND_INS = {
    # Packages that are listed in `missing` are not there; apt-get brings them, unless the mirror is down.
    "dpkg-query": '! grep -qx "${@: -1}" missing && echo "ii "',
    "apt-get": 'echo "apt-get $*" >>calls; [ ! -e no-root ] || [ "${AS_ROOT-}" ] || { echo "E: are you root?" >&2; exit 100; }\n'
               '[ ! -e mirror-is-down ] || { echo "E: Unable to fetch some archives" >&2; exit 100; }\n'
               '[ "$1" = update ] || : >missing',
    "id": '[ -e no-root ] && echo 1000 || echo 0',
    "df": 'echo header; echo "/dev/disk 100000 0 $(cat free-mb) 1% /"',
    "nproc": "cat cores",
    "cmake": 'echo "cmake $*" >>calls; if [ "$1" = --build ]; then [ "$(cat free-mb)" -ge 20 ] || { echo "No space left on device" >&2; exit 1; }\n'
             'mkdir -p build/quick/bin; cp programs/* build/quick/bin; fi',
    "ctest": 'echo "ctest $*" >>calls',
}
PROGRAMS = {
    "horing-run": '[ "$1" = --check-nodes ] || { echo "horing-run $*" >>calls; exit 0; }\n'
                  '[ ! -e no-namespaces ] || { echo "no namespaces: unshare: Operation not permitted"; exit 1; }',
    "horing-paro": "true",
    "horing-check": "true",
}


class Machine:
    """A tree, and what is on the path there."""

    def __init__(self, folder, source):
        self.tree, self.bin, self.sudo = Path(folder) / "tree", Path(folder) / "bin", Path(folder) / "sudo"
        for each in (self.tree / "tools", self.tree / "programs", self.bin, self.sudo):
            each.mkdir(parents=True)
        shutil.copy(source / "tools/dev", self.tree / "tools/dev")
        (self.tree / "tools/packages.txt").write_text("g++ programs\niproute2 nodes\nlibgtest-dev build\n")
        for folder_of, programs in ((self.bin, STAND_INS), (self.tree / "programs", PROGRAMS), (self.sudo, {"sudo": 'AS_ROOT=1 "$@"'})):
            for name, text in programs.items():
                (folder_of / name).write_text(f"#!/bin/bash\n{text}\n")
                (folder_of / name).chmod(0o755)
        for name in ("awk", "bash", "cat", "cp", "cut", "dirname", "env", "flock", "grep", "mkdir", "nice", "rm", "sed", "tail", "true"):
            (self.bin / name).symlink_to(shutil.which(name))
        self.set(missing="", **{"free-mb": "9000", "cores": "2"})

    def set(self, **files):
        """Writes files of the tree; None: removes one."""
        for name, text in files.items():
            if text is None:
                (self.tree / name).unlink()
            else:
                (self.tree / name).write_text(text)

    def run(self, *words, sudo=False):
        """What was called meanwhile, and how it ended."""
        self.set(calls="")
        path = f"{self.sudo}:{self.bin}" if sudo else str(self.bin)
        ended = subprocess.run(["bash", str(self.tree / "tools/dev"), *words], env={"PATH": path, "HOME": str(self.tree)}, stdin=subprocess.DEVNULL,
                               capture_output=True, text=True, timeout=60, check=False)
        return (self.tree / "calls").read_text(), ended


def ends_with_one_line(ended, line):
    assert ended.returncode == 1 and ended.stderr == f"tools/dev: {line}\n", ended


def without_root(machine):
    machine.set(**{"missing": "g++\n", "no-root": ""})
    calls, ended = machine.run("build", "quick")
    ends_with_one_line(ended, "this needs root or sudo, once: apt-get install --no-install-recommends g++")
    assert calls == "", calls
    calls, ended = machine.run("build", "quick", sudo=True)
    assert ended.returncode == 0 and "apt-get install -q -y --no-install-recommends g++" in calls, (calls, ended)
    assert machine.run("build", "quick")[1].returncode == 0  # all packages are there: nobody asks who it is
    machine.set(missing="iproute2\n")  # it goes on without what only nodes need
    calls, ended = machine.run("build", "quick")
    assert ended.returncode == 0 and "cmake --build" in calls, (calls, ended)
    assert ended.stderr.splitlines() == ["tools/dev: this needs root or sudo, once: apt-get install --no-install-recommends iproute2",
                                         "tools/dev: without them no nodes can be emulated"], ended.stderr
    machine.set(**{"no-root": None})


def behind_a_mirror_that_is_down(machine):
    again = "- try again when the package mirror can be reached, or install them in another way"
    machine.set(**{"missing": "g++\n", "mirror-is-down": ""})
    calls, ended = machine.run("build", "quick")
    assert ended.returncode == 1 and "cmake" not in calls, (calls, ended)
    assert ended.stderr.splitlines() == ["E: Unable to fetch some archives",
                                         f"tools/dev: not installed, for what apt-get says above: g++ {again}"], ended.stderr
    machine.set(missing="iproute2\n")
    calls, ended = machine.run("build", "quick")
    assert ended.returncode == 0 and "cmake --build" in calls, (calls, ended)
    assert ended.stderr.splitlines()[1:] == [f"tools/dev: not installed, for what apt-get says above: iproute2 {again}",
                                             "tools/dev: without them no nodes can be emulated"], ended.stderr
    machine.set(**{"missing": "g++\n", "mirror-is-down": None})
    calls, ended = machine.run("build", "quick")
    assert ended.returncode == 0 and ended.stderr == "" and "apt-get update" in calls, (calls, ended)


def without_debians_tools(machine):
    machine.set(missing="g++\n")
    (machine.bin / "apt-get").rename(machine.bin / "no-apt-get")
    calls, ended = machine.run("build", "quick")
    assert ended.returncode == 0 and ended.stderr == "", ended
    assert "not a Debian system: expecting these packages' equivalents to be here: g++\n" in ended.stdout, ended.stdout
    (machine.bin / "no-apt-get").rename(machine.bin / "apt-get")
    machine.set(missing="")


def on_a_disk_that_is_nearly_full(machine):
    shutil.rmtree(machine.tree / "build", ignore_errors=True)
    machine.set(**{"free-mb": "60"})
    for words, preset, needed in ((["train"], "quick", 120), (["check"], "quick", 120), (["test"], "release", 1500)):
        calls, ended = machine.run(*words)
        ends_with_one_line(ended, f"{preset}: the first build takes {needed} MB in build/, where 60 MB are free")
        assert calls == "" and not (machine.tree / "build").exists(), "it asks before it begins"
    machine.set(**{"free-mb": "3"})  # full while it builds
    _, ended = machine.run("build", "quick")
    assert ended.returncode == 1, ended
    assert ended.stderr.splitlines()[-2:] == ["tools/dev: build/ has 3 MB left: the disk is full",
                                              "tools/dev: quick is not built, for what is said above. The next run goes on from here"], ended.stderr
    machine.set(**{"free-mb": "9000"})
    assert machine.run("build", "quick")[1].returncode == 0


def on_one_core(machine):
    machine.set(cores="1")
    shutil.rmtree(machine.tree / "build", ignore_errors=True)
    calls, ended = machine.run("test")
    assert ended.returncode == 0 and ended.stderr == "", ended
    assert "release: the first build takes about 26 min on 1 free cores, and 1500 MB" in ended.stdout, ended.stdout
    assert "--parallel 1 " in calls, calls
    machine.set(cores="2")


def without_namespaces(machine):
    machine.set(**{"no-namespaces": ""})
    calls, ended = machine.run("train")
    assert ended.returncode == 0, ended
    assert "no namespaces: unshare: Operation not permitted\n" in ended.stdout and ": on one node, since none can be emulated\n" in ended.stdout, ended
    assert "--nodes" not in calls and "horing-run -n 8 -- " in calls, calls
    calls, ended = machine.run("check")
    ends_with_one_line(ended, "check: it needs emulated nodes")
    assert "no namespaces: unshare: Operation not permitted\n" in ended.stdout, "the reason"
    machine.set(**{"no-namespaces": None})
    calls, ended = machine.run("train")
    assert ended.returncode == 0 and "horing-run -n 8 --nodes 2 " in calls, (calls, ended)


with tempfile.TemporaryDirectory() as name:
    tried = Machine(name, Path(sys.argv[1]).resolve())
    for trouble in (without_root, behind_a_mirror_that_is_down, without_debians_tools, on_a_disk_that_is_nearly_full, on_one_core, without_namespaces):
        trouble(tried)
