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


MPI = ["-n", str(RANKS)]
# The words before the program's name.
LAUNCHERS = {
    "horing-run": ["horing-run", *MPI, "--"],
    "Open MPI": ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", *MPI],
    "MPICH": ["mpiexec.hydra", *MPI],
    # Debian 12's PyTorch 1.13 under Python 3.11 ends with an error where it is not told which output to redirect: that of no rank that there is.
    "torchrun": ["torchrun", "--redirects", "9:1", "--tee", "9:1", "--nnodes=1", f"--nproc_per_node={RANKS}", "--master_addr=127.0.0.1", "--no_python"],
    "srun --mpi=pmi2": ["srun", "--overcommit", *MPI, "--mpi=pmi2"],
    "srun": ["srun", "--overcommit", *MPI],
}
CARRY_NO_SECRET = ["torchrun", "srun"]  # so that a file does (HORING_KEY_FILE)


def own_environment():
    """What this one was started with, but for what could pass for a launcher's word."""
    foreign = re.compile(r"(HORING|OMPI|PMIX?|MPI|HYDRA|TORCHELASTIC|SLURM(?!_CONF$))_|(MASTER_(ADDR|PORT)|(LOCAL_)?RANK|(LOCAL_)?WORLD_SIZE)$")
    return {name: value for name, value in os.environ.items() if not foreign.match(name)} | {"HORING_CACHE_DIR": "off"}


def run(words, environment):
    """Exit status and output; all started processes have ended, too. The status is None if it took too long."""
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


def trouble(words, program, environment):
    """The program's error; empty on success."""
    try:
        status, out, errors = run([*words, str(program), *SIZES], environment)
    except FileNotFoundError:
        return f"{words[0]} is not installed"
    said = f"{out[-1500:]}\n{errors[-1500:]}"
    if status is None:
        return f"not done after {LIMIT_S} s\n{said}"
    if status != 0:
        return f"exit {status}\n{said}"
    if "# Out of bounds values : 0 OK" not in out:
        return f"no word that its results are right\n{said}"
    ranks = len(set(re.findall(r"^#\s+Rank\s+(\d+)", out, re.MULTILINE)))
    return "" if ranks == RANKS else f"{ranks} ranks instead of {RANKS}\n{said}"


def right_programs(name, words, programs, environment):
    """How many succeed. Stops at the first failure, since the others would fail the same way."""
    for right, program in enumerate(programs):
        if said := trouble(words, program, environment):
            print(f"{name}: {program.name}: {said}", file=sys.stderr)
            return right
    return len(programs)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", default="build/release/bin", type=Path)
    parser.add_argument("--only", nargs="+", default=LAUNCHERS, choices=LAUNCHERS, metavar="LAUNCHER", help=f"of {', '.join(LAUNCHERS)}; default: all")
    arguments = parser.parse_args()
    programs = sorted(arguments.bin.resolve().glob("*_perf"))
    if not programs:
        sys.exit(f"try_launchers.py: there is no *_perf in {arguments.bin}: build first (./tools/dev build), or give --bin")
    os.environ["PATH"] = f"{arguments.bin.resolve()}:{os.environ['PATH']}"
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that started processes end, too
    failures = 0
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        key_file = folder / "key"
        key_file.touch(mode=0o600)
        key_file.write_bytes(os.urandom(32))
        inside = []
        for name in arguments.only:
            begun = time.monotonic()
            try:
                if name.startswith("srun") and not inside:
                    inside = stack.enter_context(slurm.cluster(folder))
                words = [*inside, *LAUNCHERS[name]] if name.startswith("srun") else LAUNCHERS[name]
                secret = {"HORING_KEY_FILE": str(key_file)} if name in CARRY_NO_SECRET else {}
                right = right_programs(name, words, programs, own_environment() | secret)
            except slurm.NoCluster as error:
                print(f"{name}: {error}", file=sys.stderr)
                right = 0
            print(f"{name:16} {right} of {len(programs)} programs right, {time.monotonic() - begun:.1f} s", flush=True)
            failures += right < len(programs)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
