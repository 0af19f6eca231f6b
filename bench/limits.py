#!/usr/bin/env python3
"""Figures with a limit that one program each measures: making a communicator, and all-to-all compared with the wire.

    python3 bench/limits.py --bin build/release/bin [--json FILE]

Making a communicator of 64 ranks lasts from the first call to the last return, in processes that run already. All-to-all and
the collectives of uneven blocks move 16 MiB between emulated nodes. Without root or network namespaces these are left out.
Python 3 and nothing else.
"""
import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

RANKS = 64
MOST_INIT_S = 2.0
# nodes, ranks of each, Mbit/s of each node's link in each direction
SHAPES = [(2, 4, 1000), (4, 2, 1000), (2, 8, 500)]
BYTES = 16 << 20
MOST_OVER_BOUND = 1.10
LIMIT_S = 300  # of one run


def lines_of(command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S + 30)
    if done.returncode != 0:
        sys.exit(f"limits.py: {' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def wire_bounds(launcher, program, repetitions):
    check = subprocess.run([launcher, "--check-nodes"], capture_output=True, text=True, timeout=60)
    if check.returncode != 0:
        print(f"no emulated nodes here: {(check.stderr + check.stdout).strip()}", file=sys.stderr)
        return []
    lines = []
    for nodes, members, rate_mbit in SHAPES:
        lines += lines_of([launcher, "-n", str(nodes * members), "--nodes", str(nodes), "--rate", str(rate_mbit),
                           "--timeout", str(LIMIT_S), "--", program, str(BYTES), str(repetitions)])
    return lines


def print_report(init, bounds):
    seconds = init["init_s"]
    print(f"a communicator of {init['ranks']} ranks: {seconds['median']:.3f} s ({seconds['least']:.3f} to "
          f"{seconds['most']:.3f})   goal: under {MOST_INIT_S:g} s")
    for line in bounds:
        shape = f"{line['nodes']} x {line['ranks'] // line['nodes']} at {line['rate_mbit']:g}"
        print(f"{line['collective']:<17} {shape:<14} {line['median_ms']:>9.2f} ms, the wire {line['bound_ms']:>8.2f} ms"
              f"{line['over_bound']:>8.3f}   goal: at most {MOST_OVER_BOUND:.2f}")


def main():
    os.environ.setdefault("HORING_CACHE_DIR", "off")  # measurements kept on this machine must not affect figures
    parser = argparse.ArgumentParser(description="Making a communicator, and all-to-all beside the wire.")
    parser.add_argument("--bin", default="build/release/bin", type=Path, help="folder of horing-run and the benchmarks")
    parser.add_argument("--repetitions", default=9, type=int, help="of each measurement")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    folder = arguments.bin.resolve()
    launcher = str(folder / "horing-run")
    init = lines_of([launcher, "-n", str(RANKS), "--timeout", str(LIMIT_S), "--", str(folder / "init_bench"),
                     str(arguments.repetitions)])[0]
    bounds = wire_bounds(launcher, str(folder / "wire_bounds_bench"), arguments.repetitions)
    print_report(init, bounds)
    if arguments.json:
        arguments.json.write_text(json.dumps({"init": init, "bounds": bounds}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
