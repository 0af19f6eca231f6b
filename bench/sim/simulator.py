#!/usr/bin/env python3
"""The simulator's results for large machines, and their cost.

    python3 bench/sim/simulator.py --bin build/release/bin [--out FOLDER] [--only NAME...]

Runs each command of RUNS and writes what it printed below the command into FOLDER/NAME.txt, and its picture next to it; the
commands' own time and memory, on one core, into FOLDER/sim.json. Python 3 and nothing else.
"""
import argparse
import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

LARGE = "--slice-bytes 1MiB --window 8"
NODES = f"horing-sim compare --over nodes --bytes 1GiB --rates {{}} --intra-gbytes 450 {LARGE} --svg nodes_{{}}.svg"
RUNS = {
    "scale": "horing-sim run --nodes 2048 --ranks 8 --bytes 1GiB --window 8 --algorithm ho_ring",
    "scale_direct": "horing-sim run --nodes 2048 --ranks 8 --bytes 1GiB --window 8 --algorithm ho_ring_direct",
    "paper": f"horing-sim compare --paper {LARGE} --svg paper.svg",
    "nodes_12.5": NODES.format("12.5", "12.5"),
    "nodes_50": NODES.format("50", "50"),
    "schedule": "plan_bench --benchmark_filter=BuildOneRank/.*/2048/8",
}


def run(words, log):
    """What one command takes on one core: seconds, of these of the core (others may have it, too), and MiB at most."""
    core = {min(os.sched_getaffinity(0))}
    started = time.monotonic()
    with subprocess.Popen(words, stdout=log, preexec_fn=lambda: os.sched_setaffinity(0, core)) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"simulator.py: {shlex.join(words)} ended with {process.returncode}")
    return {"seconds": round(time.monotonic() - started, 2), "core_seconds": round(usage.ru_utime + usage.ru_stime, 2),
            "mib": round(usage.ru_maxrss / 1024)}


def main():
    parser = argparse.ArgumentParser(description="The simulator's results for large machines, and their cost.")
    parser.add_argument("--bin", default="build/release/bin", type=Path, help="folder of the programs")
    parser.add_argument("--out", default="build/bench/sim", type=Path, help="where the results go")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=list(RUNS), help=", ".join(RUNS))
    arguments = parser.parse_args()
    programs = arguments.bin.resolve()
    arguments.out.mkdir(parents=True, exist_ok=True)
    os.chdir(arguments.out)
    kept = Path("sim.json")
    cost = json.loads(kept.read_text(encoding="utf-8")) if arguments.only else {}
    for name in arguments.only or RUNS:
        command = RUNS[name]
        words = shlex.split(command)
        with open(f"{name}.txt", "w", encoding="utf-8") as log:
            log.write(f"$ {command}\n")
            log.flush()
            cost[name] = run([str(programs / words[0]), *words[1:]], log)
        print(f"{name}: {cost[name]['seconds']} s, {cost[name]['core_seconds']} s of one core, {cost[name]['mib']} MiB: {command}")
    kept.write_text(json.dumps(cost, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
