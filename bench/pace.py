#!/usr/bin/env python3
"""Plants a late rank or a slow link in running jobs, and counts how often the log names it and nothing else.

    python3 bench/pace.py --bin build/release/bin [--runs 20] [--job late ...] [--seed 1]

Runs jobs of the program that tests/programs/trouble uses, of 200 calls at most, and reads what their log says at HORING_DEBUG=info:
  late      8 ranks of one node, of which one sleeps 40 ms before each all-reduce, the others 2 ms
  link      4 emulated nodes at 200 Mbit/s, of which one has a quarter of the rate, with messages to their neighbours and with all-reduces
  nothing   the same without a fault
A run is right if the log names that rank, or paths of that node alone, and nothing else. Ends with a table. Which rank or node it is
follows from --seed. Emulated nodes need what horing-run needs for them. Python 3 and nothing else.
"""
import argparse
import os
import random
import re
import subprocess
import sys
from pathlib import Path

CALLS = 200
LIMIT_S = 120  # of one run
LATE = re.compile(r"rank (\d+) \([^)]*\) comes late")
SLOW = re.compile(r"data moves slowly from rank (\d+) .*? to rank (\d+)")
RANKS, NODES = 8, 4
JOBS = {"late": RANKS, "messages": NODES, "all-reduce": NODES}  # and who may be at fault


def log_of(programs, launcher, words):
    command = [programs / "horing-run", "--timeout", LIMIT_S, *launcher, "--", programs / "horing_rank_program", f"rounds={CALLS}", *words]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          env=dict(os.environ, HORING_DEBUG="info", HORING_CACHE_DIR="off"))
    if done.returncode != 0:
        sys.exit(f"pace.py: {command} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout + done.stderr


def named(log):
    """Ranks that come late, and paths that are slow, as (from, to)."""
    return {int(rank) for rank in LATE.findall(log)}, {(int(a), int(b)) for a, b in SLOW.findall(log)}


def late_job(programs, late):
    words = ["each_late_ms=2", "count=100"] + ([f"{late}:each_late_ms=40"] if late is not None else [])
    return named(log_of(programs, ["-n", RANKS], words))


def link_job(programs, collective, slow):
    rates = ["50" if node == slow else "200" for node in range(NODES)]
    return named(log_of(programs, ["-n", NODES, "--nodes", NODES, "--rate", ",".join(rates)], [f"collective={collective}", "count=250000"]))


def run(programs, job, fault):
    """Whether the log is right, and what it says."""
    if job == "late":
        late, slow = late_job(programs, fault)
        return late == ({fault} - {None}) and not slow, (late, slow)
    late, slow = link_job(programs, {"messages": "exchange", "all-reduce": "all_reduce"}[job], fault)
    right = not late and all(fault in path for path in slow) and (bool(slow) or fault is None)
    return right, (late, slow)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=Path, default=Path("build/release/bin"))
    parser.add_argument("--runs", type=int, default=20, help="of each kind (default: 20)")
    parser.add_argument("--job", action="append", choices=JOBS, help="only this kind")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    chance = random.Random(arguments.seed)
    right = {(job, planted): 0 for job in arguments.job or JOBS for planted in (True, False)}
    for number in range(arguments.runs):
        for job, planted in right:
            fault = chance.randrange(JOBS[job]) if planted else None
            is_right, said = run(arguments.bin.resolve(), job, fault)
            right[job, planted] += is_right
            if not is_right:
                print(f"\nrun {number}, {job}, planted: {fault}; said: late {said[0]}, slow paths {said[1]}", flush=True)
        said = ", ".join(f"{job} with {'a fault' if planted else 'nothing'} {count}" for (job, planted), count in right.items())
        print(f"run {number + 1} of {arguments.runs}; right: {said}", file=sys.stderr, flush=True)
    for (job, planted), count in right.items():
        print(f"{job:<10} {'a fault' if planted else 'nothing':<8} right in {count} of {arguments.runs}")
    return 0 if all(count == arguments.runs for count in right.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
