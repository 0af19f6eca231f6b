#!/usr/bin/env python3
"""Compares each way to choose an algorithm with the fastest algorithm, across emulated nodes and in one.

    python3 bench/sim/selection_grid.py --bin build/release/bin [--shapes 2x4@1000 1x4] [--out build/bench/selection]

For each shape, right after each other: a job that finds nothing kept and measures itself while it starts (SHAPE.cache, the default),
horing-tune (auto; model: its predictions alone), horing-tune --measure-algorithms (measured0), and the same as often as there shall be
judges. Then selection.py compares these tables, and the built-in one, with what the judges measured. Leaves SHAPE.WHAT in the
--out folder. Four minutes for the four shapes; nothing else may run on the machine. Python 3 and nothing else.
"""
import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

import selection

SHAPES = ["2x4@1000", "4x2@1000", "2x8@500", "4x4@500"]


def run(command, out=None, **environment):
    """No table is kept or found unless the environment sets a folder. `out`: a file for the output."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          env=os.environ | {"HORING_CACHE_DIR": "off"} | environment)
    if done.returncode != 0:
        sys.exit(f"selection_grid.py: {' '.join(map(str, command))} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    if out:
        out.write_text(done.stdout, encoding="utf-8")


def compare(shape, binaries, out, judges, most):
    """Prints what selection.py finds for one shape."""
    grid, _, rate = shape.partition("@")
    nodes, ranks = map(int, grid.split("x"))
    job = [binaries / "horing-run", "-n", nodes * ranks, "--bind-to", "core", *(["--nodes", nodes, "--rate", rate] if rate else []), "--"]
    table, auto, model, machine = (out / f"{grid}.{what}" for what in ["table", "auto", "model", "machine"])
    measured, *judges = (out / f"{grid}.measured{job}" for job in range(judges + 1))
    cache = out / f"{grid}.cache"
    shutil.rmtree(cache, ignore_errors=True)
    run([*job, binaries / "all_reduce_perf", "-b", 8, "-e", 8, "-n", 1, "-w", 0], HORING_CACHE_DIR=str(cache.resolve()))
    first_job = list(cache.rglob("*.selection"))  # none of one node, where the built-in table chooses
    run([*job, binaries / "horing-tune", "-o", machine])
    for file in [measured, *judges]:
        run([*job, binaries / "horing-tune", "--measure-algorithms", "--to", most, "-o", file])
    run([binaries / "horing-info", "selection"], table)
    run([binaries / "horing-info", "selection"], auto, HORING_CALIBRATE=str(machine))
    run([binaries / "horing-info", "selection"], model, HORING_CALIBRATE=str(machine), HORING_SELECTION="model")
    selection.report(grid, judges, [table, *first_job, auto, measured, model])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", default="build/release/bin", type=Path)
    parser.add_argument("--out", default="build/bench/selection", type=Path)
    parser.add_argument("--shapes", nargs="+", default=SHAPES, metavar="NODESxRANKS[@MBIT]", help="default: %(default)s")
    parser.add_argument("--judges", type=int, default=2, metavar="N", help="jobs whose times of all algorithms the tables are compared with (default 2)")
    parser.add_argument("--to", default="1M", metavar="SIZE", help="largest message (default 1M)")
    arguments = parser.parse_args()
    if not (arguments.bin / "horing-tune").exists():
        sys.exit(f"selection_grid.py: {arguments.bin / 'horing-tune'} is not there: build first (./tools/dev build), or give --bin")
    if arguments.judges < 1:
        sys.exit("selection_grid.py: --judges takes 1 or more")
    arguments.out.mkdir(parents=True, exist_ok=True)
    for shape in arguments.shapes:
        compare(shape, arguments.bin, arguments.out, arguments.judges, arguments.to)
    return 0


if __name__ == "__main__":
    sys.exit(main())
