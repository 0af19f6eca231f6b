#!/usr/bin/env python3
"""horing compared with its peers: the same sweep through Open MPI, MPICH and Gloo, in turns, on one node and across emulated nodes.

    python3 bench/peers/sweep.py --bin build/release/bin [--quick] [--out build/bench]
    python3 bench/peers/sweep.py --only 2x8 --collectives all_reduce    one slice

Writes a table to the terminal, and peers.json, peers.txt and the pictures peers_time_*.svg and peers_bound_*.svg to the
--out folder. A slice takes the place of what that folder has of the same shapes and collectives; the rest stays, so that a
sweep can be made in pieces. What is not installed is left out, and said so. Python 3 and nothing else.
"""
import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import marks  # noqa: E402
import report  # noqa: E402
import slices  # noqa: E402
from libraries import LIBRARIES, Job  # noqa: E402
from main_job import Progress, machine, program, why_no_nodes  # noqa: E402
from nodes import Nodes  # noqa: E402
from team import Team, TeamFailed, Turn  # noqa: E402

KIB, MIB = 1 << 10, 1 << 20
COLLECTIVES = ["all_reduce", "reduce_scatter", "all_gather"]
SMALLEST_BLOCK = 16  # bytes of one rank's part of reduce-scatter and all-gather
# nodes, ranks of each, Mbit/s of each node's link in each direction
ONE_NODE = [(1, 2, 0), (1, 4, 0)]
BETWEEN_NODES = [(2, 4, 1000), (4, 2, 1000), (2, 8, 500), (4, 4, 500)]
LONG = {"rounds": 9, "batch_s": 0.01, "one_node": ONE_NODE, "between_nodes": BETWEEN_NODES,
        "sizes_one_node": [8 << shift for shift in range(24)],
        "sizes_between": [8] + [16 << shift for shift in range(0, 24, 2)]}
QUICK = {"rounds": 3, "batch_s": 0.005, "one_node": ONE_NODE, "between_nodes": BETWEEN_NODES[:1],
         "sizes_one_node": [8 << shift for shift in range(0, 24, 3)] + [64 * MIB],
         "sizes_between": [8, KIB, 16 * KIB, 256 * KIB, 4 * MIB, 16 * MIB]}
MOST_ITERATIONS, MOST_WARMUPS = 1000, 50
LONG_CALL_S = 0.1  # beyond that a call is its own warm-up


def shape_name(shape):
    return f"{shape[0]}x{shape[1]}"


def calls(sizes, ranks, collectives=tuple(COLLECTIVES)):
    """(collective, bytes), the largest first, so that buffers are made once."""
    for size in sorted(sizes, reverse=True):
        for collective in collectives:
            if collective == "all_reduce" or size >= SMALLEST_BLOCK * ranks:
                yield collective, size


def next_turn(call, expected_s, batch_s):
    """The first turn of a library at a size is checked; the others last about batch_s, by the same rule for every library."""
    if expected_s is None:
        return Turn(*call, warmups=1, iterations=1, checked=True)
    iterations = max(1, min(MOST_ITERATIONS, int(batch_s / max(expected_s, 1e-9))))
    warmups = 0 if expected_s > LONG_CALL_S else max(1, min(MOST_WARMUPS, iterations // 4))
    return Turn(*call, warmups=warmups, iterations=iterations, checked=False)


class Comparison:
    """All libraries on one set of nodes."""

    def __init__(self, shape, wanted, settings, programs, progress):
        self.nodes, self.members, self.rate_mbit = shape
        self.settings, self.programs, self.progress = settings, programs, progress
        self.calls = wanted
        self.times, self.expected_s, self.failures, self.limits = {}, {}, {}, []
        self.title = f"{self.nodes} node{'s' if self.nodes > 1 else ''} x {self.members} ranks"
        self.title += f" at {self.rate_mbit} Mbit/s" if self.rate_mbit else ""

    def run(self, libraries):
        started = time.monotonic()
        with ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="horing-peers-"))
            self.progress.step(f"{self.title}: starting")
            nodes = stack.enter_context(Nodes(self.programs["run"], folder, self.nodes, self.rate_mbit))
            job = Job(self.nodes, self.nodes * self.members, "r0" if self.rate_mbit else "lo", self.programs["folder"],
                      folder)
            teams = self.gather([library for library in libraries if self.nodes in library.nodes], job, nodes, stack)
            for turn in range(self.settings["rounds"] + 1):
                self.round(teams, turn)
                if turn == 0:
                    self.progress.done(f"{self.title}: about {self.remaining_s() / 60:.1f} minutes")
        for name, reason in self.failures.items():
            self.progress.done(f"{self.title}: {name} FAILED: {reason}")
        self.progress.done(f"{self.title}: done in {time.monotonic() - started:.0f} s")

    def gather(self, libraries, job, nodes, stack):
        teams = []
        for library in libraries:
            team = stack.enter_context(Team(library, job, nodes))
            try:
                team.wait_for_ranks()
                teams.append(team)
            except TeamFailed as failed:
                self.failures[library.name] = str(failed)
        return teams

    def round(self, teams, turn):
        """Every library takes its turn at every call. Round 0 checks results, finds out how long a call takes, and counts
        no times."""
        if turn > 0 and self.nodes == 1:
            self.limits.append(json.loads(subprocess.run([self.programs["limits"]], capture_output=True, check=True).stdout))
        for number, call in enumerate(self.calls):
            self.progress.step(f"{self.title}: round {turn} of {self.settings['rounds']}, {call[0]} of {call[1]} B")
            # Who goes first moves on.
            first = (turn + number) % max(len(teams), 1)
            for team in teams[first:] + teams[:first]:
                if team.failure is None:
                    self.turn(team, call, turn > 0)

    def remaining_s(self):
        """Of all rounds, from what round 0 took."""
        seconds = 0
        for (_, *call), expected_s in self.expected_s.items():
            turn = next_turn(call, expected_s, self.settings["batch_s"])
            seconds += (turn.warmups + turn.iterations) * expected_s
        return seconds * self.settings["rounds"]

    def turn(self, team, call, counts):
        key = (team.library.name, *call)
        expected_s = self.expected_s.get(key)
        try:
            seconds = team.play(next_turn(call, expected_s, self.settings["batch_s"]), expected_s or 0)
        except TeamFailed as failed:
            self.failures[team.library.name] = str(failed)
            return
        self.expected_s[key] = seconds if expected_s is None else min(seconds, expected_s)
        if counts:
            self.times.setdefault(key, []).append(seconds)

    def results(self):
        times = [{"library": name, "collective": collective, "bytes": size, "seconds": [float(f"{s:.5g}") for s in seconds]}
                 for (name, collective, size), seconds in sorted(self.times.items())]
        collectives = sorted({collective for collective, _ in self.calls})
        failures = [{"library": name, "collectives": collectives, "reason": reason} for name, reason in self.failures.items()]
        return {"nodes": self.nodes, "ranks_per_node": self.members, "rate_mbit": self.rate_mbit,
                "failures": failures, "limits": self.limits, "times": times}


def present(libraries, bin_folder):
    missing = [library.name for library in libraries if not (Path(bin_folder) / library.program).exists()]
    if missing:
        print(f"sweep.py: left out, since not installed when this was built: {', '.join(missing)} "
              "(./tools/dev install-packages peers, then build)", file=sys.stderr)
    return [library for library in libraries if library.name not in missing]


def write_results(folder, results):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "peers.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    text = report.table(results) + "\n" + "".join(
        f"{mark.figure} [{mark.goal}]: {mark.measured}: {'met' if mark.met else 'MISSED'}\n" for mark in marks.marks(results))
    (folder / "peers.txt").write_text(text, encoding="utf-8")
    pictures = report.pictures(results)
    for name, picture in pictures.items():
        (folder / name).write_text(picture, encoding="utf-8")
    return text, pictures


def parse_arguments():
    parser = argparse.ArgumentParser(description="Compares horing with Open MPI, MPICH and Gloo; table and pictures.")
    parser.add_argument("--bin", default="build/release/bin", help="folder of the programs")
    parser.add_argument("--out", default="build/bench", help="folder for the results")
    parser.add_argument("--quick", action="store_true", help="fewer sizes, rounds and shapes: for a first look only")
    parser.add_argument("--rounds", type=int, help="turns of each library at each size (default: 9; 3 with --quick)")
    shapes = list(map(shape_name, ONE_NODE + BETWEEN_NODES))
    parser.add_argument("--only", nargs="+", metavar="SHAPE", choices=shapes, default=[], help=f"only these: {', '.join(shapes)}")
    parser.add_argument("--collectives", nargs="+", metavar="NAME", choices=COLLECTIVES, default=COLLECTIVES,
                        help=f"only these: {', '.join(COLLECTIVES)}")
    parser.add_argument("--draw", action="store_true", help="measure nothing; table and pictures of the --out folder's results")
    return parser.parse_args()


def main():
    os.environ.setdefault("HORING_CACHE_DIR", "off")  # measurements kept on this machine must not affect figures
    arguments = parse_arguments()
    folder = Path(arguments.out)
    if arguments.draw:
        print(write_results(folder, json.loads((folder / "peers.json").read_text(encoding="utf-8")))[0])
        return 0
    settings = dict(QUICK if arguments.quick else LONG)
    settings["rounds"] = arguments.rounds or settings["rounds"]
    programs = {"run": program(arguments.bin, "horing-run"), "limits": program(arguments.bin, "memory_limits_bench"),
                "folder": str(Path(arguments.bin).resolve())}
    libraries, progress = present(LIBRARIES, arguments.bin), Progress()
    order = ONE_NODE + BETWEEN_NODES
    shapes = [shape for shape in order if shape_name(shape) in arguments.only] or settings["one_node"] + settings["between_nodes"]
    if any(shape[0] > 1 for shape in shapes) and (left_out := why_no_nodes(programs["run"])):
        print(f"Left out: everything between nodes: {left_out}", file=sys.stderr)
        shapes = [shape for shape in shapes if shape[0] == 1]
    is_slice = arguments.only or set(arguments.collectives) != set(COLLECTIVES)
    results = {"settings": settings, "machine": machine(), "started": time.strftime("%Y-%m-%d %H:%M:%S"),
               "jobs": slices.earlier(folder / "peers.json", settings) if is_slice else []}
    text, pictures = "", {}
    for shape in shapes:
        sizes = settings["sizes_between" if shape[0] > 1 else "sizes_one_node"]
        wanted = list(calls(sizes, shape[0] * shape[1], arguments.collectives))
        comparison = Comparison(shape, wanted, settings, programs, progress)
        comparison.run(libraries)
        results["jobs"] = slices.merged(results["jobs"], comparison.results(), arguments.collectives, order)
        text, pictures = write_results(folder, results)
    print(text)
    print("Pictures: " + "  ".join(str(folder / name) for name in pictures) + f"   Raw results: {folder / 'peers.json'}")
    return 1 if any(job["failures"] for job in results["jobs"]) else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("sweep.py: terminated"))  # leaves the nodes and teams in order
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("\nsweep.py: interrupted")
