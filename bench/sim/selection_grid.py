#!/usr/bin/env python3
"""How each way to choose an algorithm does, beside the fastest that there is, across emulated nodes and in one.

    python3 bench/sim/selection_grid.py --bin build/release/bin [--shapes 2x4@1000 1x4] [--out build/bench/selection]

For each shape, right after each other: a job that finds nothing kept and measures itself while it starts (first_job, the default),
horing-tune (auto), horing-tune --measure-algorithms (measured), once more or more often as the judge; then selection.py compares
with the built-in table. Leaves SHAPE.WHAT files in the --out folder. Three minutes for the four shapes; nothing else may run on the
machine. Python 3 and nothing else.
"""
import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

SHAPES = ["2x4@1000", "4x2@1000", "2x8@500", "4x4@500"]


def run(command, out=None, **environment):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, env=dict(os.environ, **environment))
    if done.returncode != 0:
        sys.exit(f"selection_grid.py: {' '.join(map(str, command))} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    if out:
        out.write_text(done.stdout, encoding="utf-8")
    return done.stdout


def compare(shape, binaries, out, judges, most):
    """Prints what selection.py finds for one shape."""
    grid, _, rate = shape.partition("@")
    nodes, ranks = map(int, grid.split("x"))
    job = [binaries / "horing-run", "-n", nodes * ranks, "--bind-to", "core", *(["--nodes", nodes, "--rate", rate] if rate else []), "--"]
    files = {what: out / f"{grid}.{what}" for what in ["table", "auto", "first_job", "machine"]}
    measured = [out / f"{grid}.measured{judge + 1}" for judge in range(judges)]
    cache = out / f"{grid}.cache"
    shutil.rmtree(cache, ignore_errors=True)
    run([*job, binaries / "all_reduce_perf", "-b", 8, "-e", 8, "-n", 1, "-w", 0], HORING_CACHE_DIR=str(cache.resolve()))
    kept = [file for file in cache.rglob("*") if file.is_file()]
    for found in kept:
        shutil.copy(found, files["first_job"])
    run([*job, binaries / "horing-tune", "-o", files["machine"]], HORING_CACHE_DIR="off")
    for file in measured:
        run([*job, binaries / "horing-tune", "--measure-algorithms", "--to", most, "-o", file], HORING_CACHE_DIR="off")
    run([binaries / "horing-info", "selection"], files["table"], HORING_CACHE_DIR="off")
    run([binaries / "horing-info", "selection"], files["auto"], HORING_CACHE_DIR="off", HORING_CALIBRATE=str(files["machine"]))
    tables = [files["table"], files["auto"], measured[0], *([files["first_job"]] if kept else [])]
    judge = [word for file in measured for word in ("--measured", file)]
    print(run([sys.executable, Path(__file__).with_name("selection.py"), "--shape", grid, *judge, *tables])
          .replace(f"{out}/", ""), end="", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", default="build/release/bin", type=Path)
    parser.add_argument("--out", default="build/bench/selection", type=Path)
    parser.add_argument("--shapes", nargs="+", default=SHAPES, metavar="NODESxRANKS[@MBIT]", help="default: %(default)s")
    parser.add_argument("--judges", type=int, default=2, metavar="N", help="jobs that measure all algorithms (default 2)")
    parser.add_argument("--to", default="1M", metavar="SIZE", help="largest message (default 1M)")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for shape in arguments.shapes:
        compare(shape, arguments.bin, arguments.out, arguments.judges, arguments.to)
    return 0


if __name__ == "__main__":
    sys.exit(main())
