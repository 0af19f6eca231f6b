#!/usr/bin/env python3
"""The simulator's predictions beside measurements, across emulated nodes.

    python3 bench/sim/predict.py --bin build/release/bin [--to 4M] [--out build/bench/sim]

For each shape: describes the machine by what horing-tune measures between pairs of ranks and by nothing else, measures ring's and
ho_ring's all-gather, reduce-scatter and all-reduce, predicts the same with horing-sim, and compares. These are stages that leave
their results in the --out folder (SHAPE.machine, SHAPE_COLLECTIVE.json), so that they can be run one by one, on a part of the grid.
What is measured joins what is there, and takes its place where it is of the same algorithm and size:

    predict.py --stages calibrate,measure --shape 2x8@500 --collective all_reduce --to 4M
    predict.py --stages measure --shape 2x8@500 --collective all_reduce --from 16M
    predict.py --stages predict

Writes a table to the terminal, and table.txt. Needs what horing-run needs for emulated nodes. Python 3 and nothing else.
"""
import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

# nodes, ranks of each, Mbit/s of each node's link in each direction
SHAPES = [(2, 8, 500), (4, 4, 500), (2, 4, 1000), (4, 2, 1000)]
COLLECTIVES = ["all_gather", "reduce_scatter", "all_reduce"]
ALGORITHMS = ["ring", "ho_ring"]
STAGES = ["calibrate", "measure", "predict"]
SIZES = [64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20]
# Iterations of a mean, and how many of these the median is taken of: a packet that is lost holds one up by 40 ms and more.
SMALL, SMALL_ROUNDS, ROUNDS = 16 << 20, (4, 5), (1, 3)
CORES = len(os.sched_getaffinity(0))
# Goals: median error, worst error from 1 MiB on, and the factor below that.
GOALS = {"median": 0.10, "worst": 0.25, "factor": 2.0}


class Programs:
    """What is run, and how."""

    def __init__(self, folder):
        self.folder = Path(folder)
        for name in ["horing-run", "horing-sim", "horing-tune", *(f"{c}_perf" for c in COLLECTIVES)]:
            if not (self.folder / name).exists():
                sys.exit(f"predict.py: {self.folder / name} is not there: build first (./tools/dev build), or give --bin")

    def path(self, name):
        return str((self.folder / name).resolve())

    def run(self, command, ranks, nodes, rate_mbit, algorithm="auto"):
        command = [self.path("horing-run"), "-n", str(ranks), "--timeout", "900", "--nodes", str(nodes), "--rate", str(rate_mbit),
                   "--bind-to", "core", "--", self.path(command[0]), *command[1:]]
        done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ, HORING_ALGO=algorithm, HORING_CACHE_DIR="off"))
        if done.returncode != 0:
            sys.exit(f"predict.py: {' '.join(command)} ended with {done.returncode}:\n{done.stderr[-2000:]}")

    def perf(self, collective, options, shape, algorithm):
        """Times in microseconds by size, medians of what a *_perf program under horing-run found."""
        nodes, members, rate_mbit = shape
        with tempfile.TemporaryDirectory() as folder:
            output = os.path.join(folder, "out.json")
            command = [f"{collective}_perf", *options, "-c", "0", "-a", "3", "-J", output]
            self.run(command, nodes * members, nodes, rate_mbit, algorithm)
            results = json.loads(Path(output).read_text(encoding="utf-8"))["results"]
        sizes = {int(line["size"]) for line in results}
        return {size: statistics.median(float(line["out_of_place"]["time"]) for line in results if int(line["size"]) == size)
                for size in sorted(sizes)}


def name_of(shape):
    nodes, members, rate_mbit = shape
    return f"{nodes}x{members}_{rate_mbit}"


def title_of(shape):
    nodes, members, rate_mbit = shape
    return f"{nodes} x {members} at {rate_mbit} Mbit/s"


def calibrate(programs, shape, folder):
    """The machine as pairs of ranks show it, in the file that horing-sim reads."""
    nodes, members, rate_mbit = shape
    print(f"{title_of(shape)}: pairs of ranks", file=sys.stderr, flush=True)
    programs.run(["horing-tune", "-o", str(folder / f"{name_of(shape)}.machine")], nodes * members, nodes, rate_mbit)


def measurements(shape, collective, folder):
    """The file of them, and times in microseconds by algorithm and size, as far as it holds any."""
    path = folder / f"{name_of(shape)}_{collective}.json"
    return path, json.loads(path.read_text(encoding="utf-8"))["times_us"] if path.exists() else {}


def measure(programs, shape, collective, grid, folder):
    """Of each algorithm and size in the grid; a file that is written after each algorithm."""
    path, times = measurements(shape, collective, folder)
    for algorithm in grid["algorithms"]:
        print(f"{title_of(shape)}: {collective}, {algorithm}", file=sys.stderr, flush=True)
        known = times.setdefault(algorithm, {})
        for (iterations, rounds), sizes in [(SMALL_ROUNDS, [s for s in grid["sizes"] if s < SMALL]),
                                            (ROUNDS, [s for s in grid["sizes"] if s >= SMALL])]:
            if sizes:
                options = ["-b", str(sizes[0]), "-e", str(sizes[-1]), "-f", "4", "-n", str(iterations), "-N", str(rounds), "-w", "1"]
                known |= {str(size): us for size, us in programs.perf(collective, options, shape, algorithm).items()}
        path.write_text(json.dumps({"cores": CORES, "times_us": times}, indent=1) + "\n", encoding="utf-8")


def predict(programs, shape, collective, folder):
    """Times in microseconds by algorithm and size, as measured ones."""
    with tempfile.TemporaryDirectory() as temporary:
        output = os.path.join(temporary, "out.csv")
        subprocess.run([programs.path("horing-sim"), "compare", "--machine", str(folder / f"{name_of(shape)}.machine"),
                        "--collective", collective, "--algorithms", ",".join(ALGORITHMS), "--from", str(SIZES[0]),
                        "--to", str(SIZES[-1]), "--csv", output], check=True, stdout=subprocess.DEVNULL)
        with open(output, encoding="utf-8") as file:
            return {(row["algorithm"], int(row["bytes"])): float(row["time_us"]) for row in csv.DictReader(file)}


def compare(programs, shape, collective, folder):
    """Points of what was measured; none where nothing was."""
    measured = measurements(shape, collective, folder)[1]
    if not measured:
        print(f"{title_of(shape)}: {collective} was not measured", file=sys.stderr)
        return []
    predicted = predict(programs, shape, collective, folder)
    return [{"shape": title_of(shape), "collective": collective, "algorithm": algorithm, "bytes": int(size),
             "measured_us": time, "predicted_us": predicted[algorithm, int(size)]}
            for algorithm, times in sorted(measured.items(), reverse=True)
            for size, time in sorted(times.items(), key=lambda item: int(item[0])) if time > 0]


def error(point):
    return point["predicted_us"] / point["measured_us"] - 1


def summary(points):
    """What the goals speak of, and whether they are met."""
    large = [abs(error(p)) for p in points if p["bytes"] >= 1 << 20]
    small = [max(error(p) + 1, 1 / (error(p) + 1)) for p in points if p["bytes"] < 1 << 20]
    lines = [("median error", statistics.median(abs(error(p)) for p in points), GOALS["median"])]
    lines += [("worst error from 1 MiB on", max(large), GOALS["worst"])] if large else []
    lines += [("worst factor below 1 MiB", max(small), GOALS["factor"])] if small else []
    return "".join(f"{name}: {value:.3f} (goal {goal:g}: {'met' if value <= goal else 'MISSED'})\n"
                   for name, value, goal in lines)


def table(points):
    text = f"{'shape':22} {'collective':15} {'algorithm':9} {'KiB':>6} {'measured':>11} {'predicted':>11} {'error':>8}\n"
    for p in points:
        text += (f"{p['shape']:22} {p['collective']:15} {p['algorithm']:9} {p['bytes'] >> 10:6} "
                 f"{p['measured_us'] / 1000:8.2f} ms {p['predicted_us'] / 1000:8.2f} ms {100 * error(p):+7.1f}%\n")
    return text


def report(points):
    """Each shape by itself, then all."""
    text = table(points)
    titles = list(dict.fromkeys(p["shape"] for p in points))
    for title in titles if len(titles) > 1 else []:
        text += f"\n{title}\n" + summary([p for p in points if p["shape"] == title])
    return text + "\nall\n" + summary(points)


def shape_of(text):
    nodes, rest = text.split("x")
    return (int(nodes), *map(int, rest.split("@")))


def size_of(text):
    size = int(text[:-1]) << {"K": 10, "M": 20}[text[-1]] if text[-1:] in ("K", "M") else int(text)
    if size not in SIZES:
        raise argparse.ArgumentTypeError("sizes are " + ", ".join(f"{s >> 10}K" if s < 1 << 20 else f"{s >> 20}M" for s in SIZES))
    return size


def stages_of(text):
    stages = text.split(",")
    if not set(stages) <= set(STAGES):
        raise argparse.ArgumentTypeError(f"stages are {', '.join(STAGES)}")
    return stages


def main():
    parser = argparse.ArgumentParser(description="The simulator's predictions beside measurements, across emulated nodes.")
    parser.add_argument("--bin", default="build/release/bin", help="folder of the programs")
    parser.add_argument("--out", default="build/bench/sim", help="folder for machines, measurements and table.txt")
    parser.add_argument("--from", dest="smallest", metavar="SIZE", type=size_of, default=SIZES[0], help="smallest to measure (default: 64K)")
    parser.add_argument("--to", dest="largest", metavar="SIZE", type=size_of, default=SIZES[-1], help="largest to measure (default: 64M)")
    parser.add_argument("--shape", metavar="NODESxRANKS@MBIT", type=shape_of, action="append", help="only this one, say 2x4@1000")
    parser.add_argument("--collective", choices=COLLECTIVES, action="append", help="only this one")
    parser.add_argument("--algorithm", choices=ALGORITHMS, action="append", help="only this one")
    parser.add_argument("--stages", type=stages_of, default=STAGES, help="only these (default: %(default)s)")
    arguments = parser.parse_args()
    programs = Programs(arguments.bin)
    grid = {"algorithms": arguments.algorithm or ALGORITHMS,
            "sizes": [size for size in SIZES if arguments.smallest <= size <= arguments.largest]}
    folder = Path(arguments.out)
    folder.mkdir(parents=True, exist_ok=True)
    shapes, collectives = arguments.shape or SHAPES, arguments.collective or COLLECTIVES
    points = []
    for shape in shapes:
        if "calibrate" in arguments.stages:
            calibrate(programs, shape, folder)
        for collective in collectives:
            if "measure" in arguments.stages:
                measure(programs, shape, collective, grid, folder)
            if "predict" in arguments.stages:
                points += compare(programs, shape, collective, folder)
    if points:
        text = report(points)
        (folder / "table.txt").write_text(text, encoding="utf-8")
        print(text, end="")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("\npredict.py: interrupted")
