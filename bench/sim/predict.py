#!/usr/bin/env python3
"""Compares the simulator's predictions with measurements, across emulated nodes.

    python3 bench/sim/predict.py --bin build/release/bin [--shape 2x4@1000 ...] [--most-seconds 2] [--out build/bench/sim]

For each shape, in turns: describes the machine by what horing-tune measures between pairs of ranks and by nothing else, and measures
every algorithm of every collective; as often as --rounds says. Then predicts the same with horing-sim and compares the medians.
--collective, --algorithm and --size take a part of the grid, each as often as wanted. Algorithms with the schedule of an earlier one are
left out.

Everything is kept in the --out folder (SHAPE.json) as soon as it is measured, and what is measured later joins it. --again measures
nothing and predicts anew, for a simulator that has changed. Writes a table to the terminal, and table.txt. Needs what horing-run needs
for emulated nodes. Python 3 and nothing else.
"""
import argparse
import csv
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

# nodes, ranks of each, Mbit/s of each node's link in each direction
SHAPES = [(nodes, ranks, rate) for rate in (100, 500, 1000) for nodes, ranks in ((2, 2), (2, 4), (4, 4))]
# What the simulator calls it, and the program that measures it.
PROGRAMS = {"all_gather": "all_gather_perf", "reduce_scatter": "reduce_scatter_perf", "all_reduce": "all_reduce_perf",
            "broadcast": "broadcast_perf", "reduce": "reduce_perf", "gather": "gather_perf", "scatter": "scatter_perf",
            "all_to_all": "alltoall_perf"}
IN_ONE_NODE = ("peer_read", "peer_write")
SIZES = [64 << 10, 1 << 20, 16 << 20, 64 << 20]
# A point takes about this long: one call of each kind in each round, since calls that follow at once overlap in broadcast, reduce, gather and scatter.
POINT_US, LEAST_ROUNDS, MOST_ROUNDS = 250_000, 2, 9
# Before each call, so that shaped links have recovered, as a prediction assumes.
REST_MS = 10
# Of all points.
GOALS = {"median": 0.05, "worst": 0.15}


class Programs:
    """What is run, and how."""

    def __init__(self, folder):
        self.folder = Path(folder)
        for name in ["horing-run", "horing-sim", "horing-plan", "horing-tune", *PROGRAMS.values()]:
            if not (self.folder / name).exists():
                sys.exit(f"predict.py: {self.folder / name} is not there: build first (./tools/dev build), or give --bin")

    def path(self, name):
        return str((self.folder / name).resolve())

    def run(self, command, shape, algorithm="auto"):
        nodes, members, rate_mbit = shape
        command = [self.path("horing-run"), "-n", str(nodes * members), "--timeout", "900", "--nodes", str(nodes), "--rate", str(rate_mbit),
                   "--bind-to", "core", "--", self.path(command[0]), *command[1:]]
        done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ, HORING_ALGO=algorithm, HORING_CACHE_DIR="off"))
        if done.returncode != 0:
            sys.exit(f"predict.py: {' '.join(command)} ended with {done.returncode}:\n{done.stderr[-2000:]}")

    def algorithms(self, collective):
        """The names of the algorithms that have it and run between nodes."""
        text = subprocess.run([self.path("horing-plan"), "list"], check=True, capture_output=True, text=True).stdout
        found = re.findall(r"^(\w+) .*\n +(.+)$", text, re.MULTILINE)
        return [name for name, has in found if collective in has.split(", ") and name not in IN_ONE_NODE]

    def machine(self, shape):
        """The machine as pairs of ranks show it, as horing-sim reads it."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "machine"
            self.run(["horing-tune", "-o", str(path)], shape)
            return path.read_text(encoding="utf-8")

    def measured(self, collective, algorithm, shape, size, predicted_us):
        """The median of several calls, in microseconds."""
        rounds = int(min(max(POINT_US / predicted_us, LEAST_ROUNDS), MOST_ROUNDS))
        warmups = "0" if predicted_us > POINT_US else "1"
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "out.json"
            self.run([PROGRAMS[collective], "-b", str(size), "-e", str(size), "-n", "1", "-N", str(rounds), "-w", warmups, "--rest",
                      str(REST_MS), "-c", "0", "-a", "3", "-J", str(path)], shape, algorithm)
            results = json.loads(path.read_text(encoding="utf-8"))["results"]
        times = [float(line[place]["time"]) for line in results for place in ("out_of_place", "in_place") if line.get(place)]
        return statistics.median(time for time in times if time > 0)

    def predicted(self, machine, collective, algorithms, sizes):
        """Times in microseconds by algorithm and size."""
        with tempfile.TemporaryDirectory() as folder:
            described, output = Path(folder) / "machine", Path(folder) / "out.csv"
            described.write_text(machine, encoding="utf-8")
            subprocess.run([self.path("horing-sim"), "compare", "--machine", str(described), "--collective", collective, "--algorithms",
                            ",".join(algorithms), "--from", str(min(sizes)), "--to", str(max(sizes)), "--csv", str(output)],
                           check=True, stdout=subprocess.DEVNULL)
            with open(output, encoding="utf-8") as file:
                return {(row["algorithm"], int(row["bytes"])): float(row["time_us"]) for row in csv.DictReader(file)}


def name_of(shape):
    nodes, members, rate_mbit = shape
    return f"{nodes}x{members}_{rate_mbit}"


def title_of(shape):
    nodes, members, rate_mbit = shape
    return f"{nodes} x {members} at {rate_mbit}"


class Kept:
    """What was measured of a shape: machines as text, and times in microseconds by "collective algorithm bytes"."""

    def __init__(self, folder, shape):
        self.path = Path(folder) / f"{name_of(shape)}.json"
        known = json.loads(self.path.read_text(encoding="utf-8")) if self.path.exists() else {"machines": [], "times_us": {}}
        self.machines, self.times_us = known["machines"], known["times_us"]

    def write(self):
        self.path.write_text(json.dumps({"machines": self.machines, "times_us": self.times_us}, indent=1) + "\n", encoding="utf-8")


def without_repetition(algorithms, predicted, sizes):
    """The first of those that have one schedule: they take the same time at every size."""
    seen = {}
    for algorithm in algorithms:
        seen.setdefault(tuple(predicted[algorithm, size] for size in sizes), algorithm)
    return list(seen.values())


def measure(programs, shape, grid, kept):
    """One round: the machine, then all points that are predicted to be short enough."""
    print(f"{title_of(shape)}: pairs of ranks", file=sys.stderr, flush=True)
    kept.machines.append(programs.machine(shape))
    for collective in grid.collective:
        every = programs.algorithms(collective)
        predicted = programs.predicted(kept.machines[-1], collective, every, grid.size)
        algorithms = without_repetition(every, predicted, grid.size)
        for algorithm in [name for name in algorithms if not grid.algorithm or name in grid.algorithm]:
            print(f"{title_of(shape)}: {collective}, {algorithm}", file=sys.stderr, flush=True)
            for size in grid.size:
                if predicted[algorithm, size] <= grid.most_seconds * 1e6:
                    us = programs.measured(collective, algorithm, shape, size, predicted[algorithm, size])
                    kept.times_us.setdefault(f"{collective} {algorithm} {size}", []).append(us)
        kept.write()


def compare(programs, shape, kept):
    """Points of what was measured."""
    measured = {tuple(name.split()): times for name, times in kept.times_us.items()}
    points = []
    for collective in dict.fromkeys(name[0] for name in measured):
        own = {(algorithm, int(size)): times for (of, algorithm, size), times in measured.items() if of == collective}
        algorithms, sizes = list(dict.fromkeys(name for name, _ in own)), {size for _, size in own}
        predicted = [programs.predicted(machine, collective, algorithms, sizes) for machine in kept.machines]
        points += [{"shape": title_of(shape), "collective": collective, "algorithm": algorithm, "bytes": size,
                    "measured_us": statistics.median(times), "spread": max(times) / min(times),
                    "predicted_us": statistics.median(one[algorithm, size] for one in predicted)}
                   for (algorithm, size), times in own.items()]
    return points


def error(point):
    return point["predicted_us"] / point["measured_us"] - 1


def summary(points):
    """What the goals speak of, and whether they are met."""
    errors = sorted(abs(error(p)) for p in points)
    found = {"median": statistics.median(errors), "worst": errors[-1]}
    within = sum(each <= GOALS["worst"] for each in errors)
    marks = ", ".join(f"{name} error {100 * found[name]:.1f} % (goal {100 * goal:g}: {'met' if found[name] <= goal else 'MISSED'})"
                      for name, goal in GOALS.items())
    return f"{marks}; {within} of {len(points)} points within {100 * GOALS['worst']:g} %\n"


def table(points):
    text = (f"{'shape':15} {'collective':15} {'algorithm':17} {'KiB':>6} {'measured':>11} {'spread':>6} {'predicted':>11} "
            f"{'error':>8}\n")
    for p in points:
        text += (f"{p['shape']:15} {p['collective']:15} {p['algorithm']:17} {p['bytes'] >> 10:6} {p['measured_us'] / 1000:8.2f} ms "
                 f"{p['spread']:6.2f} {p['predicted_us'] / 1000:8.2f} ms {100 * error(p):+7.1f}%\n")
    return text


def report(points):
    """All points, then their errors by shape, collective and size."""
    text = table(points)
    for what in ("shape", "collective", "bytes"):
        for value in dict.fromkeys(p[what] for p in points):
            name = f"{value >> 10} KiB" if what == "bytes" else value
            text += f"\n{name}: " + summary([p for p in points if p[what] == value])
    return text + "\nall: " + summary(points)


def shape_of(text):
    nodes, rest = text.split("x")
    return (int(nodes), *map(int, rest.split("@")))


def size_of(text):
    size = int(text[:-1]) << {"K": 10, "M": 20}[text[-1]] if text[-1:] in ("K", "M") else int(text)
    if size < 1 or size & (size - 1):
        raise argparse.ArgumentTypeError("sizes are powers of two")
    return size


def main():
    parser = argparse.ArgumentParser(description="The simulator's predictions beside measurements, across emulated nodes.")
    parser.add_argument("--bin", default="build/release/bin", help="folder of the programs")
    parser.add_argument("--out", default="build/bench/sim", help="folder for what is measured and table.txt")
    parser.add_argument("--shape", metavar="NODESxRANKS@MBIT", type=shape_of, action="append", help="only this one, say 2x4@1000")
    parser.add_argument("--collective", choices=PROGRAMS, action="append", help="only this one")
    parser.add_argument("--algorithm", action="append", help="only this one")
    parser.add_argument("--size", type=size_of, action="append", help="only this one (default: 64K, 1M, 16M, 64M)")
    parser.add_argument("--rounds", type=int, default=1, help="(default: 1)")
    parser.add_argument("--most-seconds", type=float, default=60, help="leave out what is predicted to take longer (default: 60)")
    parser.add_argument("--again", action="store_true", help="measure nothing, predict what was measured")
    arguments = parser.parse_args()
    arguments.collective, arguments.size = arguments.collective or list(PROGRAMS), sorted(arguments.size or SIZES)
    programs = Programs(arguments.bin)
    folder = Path(arguments.out)
    folder.mkdir(parents=True, exist_ok=True)
    points = []
    for shape in arguments.shape or SHAPES:
        kept = Kept(folder, shape)
        for _ in range(0 if arguments.again else arguments.rounds):
            measure(programs, shape, arguments, kept)
        points += compare(programs, shape, kept)
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
