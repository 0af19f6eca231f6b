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
    # Debian 12's torchrun takes its own default for these two for nothing at all; what it is told of a rank that is not there is harmless.
    torchrun = ["torchrun", "--redirects", "9:1", "--tee", "9:1", "--nnodes=1", f"--nproc_per_node={RANKS}", "--master_addr=127.0.0.1", "--no_python"]
    return {
        "horing-run": Launcher([str(binaries / "horing-run"), *mpi, "--"]),
        "Open MPI": Launcher(["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", *mpi]),
        "MPICH": Launcher(["mpiexec.hydra", *mpi]),
        "srun --mpi=pmi2": Launcher([*cluster, "--mpi=pmi2"]),
        "srun": Launcher(cluster, secret),
        "torchrun": Launcher(torchrun, secret),
    }


def trouble(launcher, program):
    """Why the program did not do what it should; empty if it did."""
    try:
        done = subprocess.run([*launcher.words, str(program), *SIZES], env=os.environ | launcher.environment, capture_output=True,
                              text=True, timeout=LIMIT_S, check=False)
    except FileNotFoundError:
        return f"{launcher.words[0]} is not installed"
    except subprocess.TimeoutExpired:
        return f"not done after {LIMIT_S} s"
    said = f"{done.stdout[-1500:]}\n{done.stderr[-1500:]}"
    if done.returncode != 0:
        return f"exit {done.returncode}\n{said}"
    if not re.search(r"# Out of bounds values : 0 OK", done.stdout):
        return f"no word that its results are right\n{said}"
    ranks = len(set(re.findall(r"^#\s+Rank\s+(\d+)", done.stdout, re.MULTILINE)))
    return "" if ranks == RANKS else f"{ranks} ranks instead of {RANKS}\n{said}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", default="build/release/bin", type=Path)
    parser.add_argument("--only", nargs="+", metavar="LAUNCHER", help="these instead of all")
    arguments = parser.parse_args()
    programs = sorted(arguments.bin.resolve().glob("*_perf"))
    if not programs:
        sys.exit(f"try_launchers.py: there is no *_perf in {arguments.bin}: build first (./tools/dev build), or give --bin")
    failures = 0
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        key_file = folder / "key"
        key_file.touch(mode=0o600)
        key_file.write_bytes(os.urandom(32))
        wanted = launchers(arguments.bin.resolve(), key_file, [])
        if unknown := set(arguments.only or []) - set(wanted):
            sys.exit(f"try_launchers.py: --only takes {', '.join(wanted)}; not {', '.join(unknown)}")
        wanted = {name for name in wanted if not arguments.only or name in arguments.only}
        cluster = stack.enter_context(slurm.cluster(folder, RANKS)) if any(name.startswith("srun") for name in wanted) else []
        for name, launcher in launchers(arguments.bin.resolve(), key_file, cluster).items():
            if name not in wanted:
                continue
            begun, bad = time.monotonic(), 0
            for program in programs:
                if said := trouble(launcher, program):
                    bad += 1
                    print(f"{name}: {program.name}: {said}", file=sys.stderr)
            print(f"{name:16} {len(programs) - bad} of {len(programs)} programs right, {time.monotonic() - begun:.1f} s", flush=True)
            failures += bad
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
