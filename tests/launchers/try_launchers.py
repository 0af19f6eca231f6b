#!/usr/bin/env python3
"""Starts every *_perf program with every launcher that horing knows, for real: horing-run, Open MPI, MPICH, Slurm, torchrun.

    ./tools/dev test --launchers
    python3 tests/launchers/try_launchers.py --bin build/release/bin [--only srun torchrun]

Each program runs with 4 ranks over a few sizes and checks its results. A launcher that is not installed is a failure: the first
command installs them all. Slurm's daemons run in namespaces of their own, which needs root. Python 3 and nothing else.
"""
import argparse
import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import slurm

RANKS = 4
LIMIT_S = 60
SIZES = ["-b", "1K", "-e", "64K", "-f", "8", "-n", "2", "-w", "1"]


class Launcher:
    """How a program of RANKS ranks is started: the words before its name, and what the environment must say."""

    def __init__(self, words, environment=None):
        self.words = words
        self.environment = environment or {}


def launchers(binaries, key_file, cluster):
    """By name. Where the launcher cannot carry the job's secret, a file does."""
    secret = {"HORING_KEY_FILE": str(key_file)}
    mpi = ["-n", str(RANKS)]
    # Debian 12's PyTorch 1.13 under Python 3.11 ends with an error where it is not told which output to redirect: that of no rank that there is.
    torchrun = ["torchrun", "--redirects", "9:1", "--tee", "9:1", "--nnodes=1", f"--nproc_per_node={RANKS}", "--master_addr=127.0.0.1", "--no_python"]
    return {
        "horing-run": Launcher([str(binaries / "horing-run"), *mpi, "--"]),
        "Open MPI": Launcher(["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", *mpi]),
        "MPICH": Launcher(["mpiexec.hydra", *mpi]),
        "torchrun": Launcher(torchrun, secret),
        "srun --mpi=pmi2": Launcher([*cluster, "--mpi=pmi2"]),
        "srun": Launcher(cluster, secret),
    }


def own_environment():
    """What this one was started with, but for what could pass for a launcher's word."""
    foreign = re.compile(r"(HORING|OMPI|PMIX?|MPI|HYDRA|TORCHELASTIC|SLURM(?!_CONF$))_|(MASTER_(ADDR|PORT)|(LOCAL_)?RANK|(LOCAL_)?WORLD_SIZE)$")
    return {name: value for name, value in os.environ.items() if not foreign.match(name)} | {"HORING_CACHE_DIR": "off"}


def run(words, environment):
    """Exit status and what was printed; all that was started has ended, too. The status is None if it took too long."""
    process = subprocess.Popen(words, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, start_new_session=True)
    try:
        out, errors = process.communicate(timeout=LIMIT_S)
        return process.returncode, out, errors
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGTERM)
        time.sleep(2)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        return None, *process.communicate()


def trouble(launcher, program):
    """Why the program did not do what it should; empty if it did."""
    try:
        status, out, errors = run([*launcher.words, str(program), *SIZES], own_environment() | launcher.environment)
    except FileNotFoundError:
        return f"{launcher.words[0]} is not installed"
    said = f"{out[-1500:]}\n{errors[-1500:]}"
    if status is None:
        return f"not done after {LIMIT_S} s\n{said}"
    if status != 0:
        return f"exit {status}\n{said}"
    if not re.search(r"# Out of bounds values : 0 OK", out):
        return f"no word that its results are right\n{said}"
    ranks = len(set(re.findall(r"^#\s+Rank\s+(\d+)", out, re.MULTILINE)))
    return "" if ranks == RANKS else f"{ranks} ranks instead of {RANKS}\n{said}"


def right_programs(name, launcher, programs):
    """How many of them do what they should. None is tried after one that does not: it would say the same."""
    for right, program in enumerate(programs):
        if said := trouble(launcher, program):
            print(f"{name}: {program.name}: {said}", file=sys.stderr)
            return right
    return len(programs)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", default="build/release/bin", type=Path)
    parser.add_argument("--only", nargs="+", metavar="LAUNCHER", help="these instead of all")
    arguments = parser.parse_args()
    programs = sorted(arguments.bin.resolve().glob("*_perf"))
    if not programs:
        sys.exit(f"try_launchers.py: there is no *_perf in {arguments.bin}: build first (./tools/dev build), or give --bin")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what was started ends, too
    names = list(launchers(arguments.bin.resolve(), Path(), []))
    if unknown := set(arguments.only or []) - set(names):
        sys.exit(f"try_launchers.py: --only takes {', '.join(names)}; not {', '.join(unknown)}")
    failures = 0
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        key_file = folder / "key"
        key_file.touch(mode=0o600)
        key_file.write_bytes(os.urandom(32))
        cluster = []
        for name in arguments.only or names:
            begun = time.monotonic()
            try:
                if name.startswith("srun") and not cluster:
                    cluster = stack.enter_context(slurm.cluster(folder, RANKS))
                right = right_programs(name, launchers(arguments.bin.resolve(), key_file, cluster)[name], programs)
            except slurm.NoCluster as error:
                print(f"{name}: {error}", file=sys.stderr)
                right = 0
            print(f"{name:16} {right} of {len(programs)} programs right, {time.monotonic() - begun:.1f} s", flush=True)
            failures += right < len(programs)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
