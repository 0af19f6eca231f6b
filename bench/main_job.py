#!/usr/bin/env python3
"""The main job: ho_ring against ring across emulated nodes with slow links.

    python3 bench/main_job.py --bin build/release/bin [--first|--quick|--full] [--out build/bench]

Writes a table to the terminal, and results.json, table.txt and ho_ring_vs_ring.svg to the --out folder. Python 3 and
nothing else. Without root or network namespaces it runs on one node and says what it left out and why.
"""
import argparse
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from main_job_report import chart, one_node_chart, one_node_table, table  # noqa: E402

MIB = 1 << 20
# nodes, ranks of each, Mbit/s of each node's link in each direction
SHAPES = [(2, 8, 500), (4, 4, 500), (2, 4, 1000), (4, 2, 1000)]
# The first rows a user sees, within seconds; they are measured again with the others.
FIRST = (2, 4, 1000), {"sizes_mib": [16], "repetitions": 3}
QUICK = {"sizes_mib": [16, 64], "repetitions": 7}
FULL = {"sizes_mib": [4, 16, 64], "repetitions": 15}
ONE_NODE_RANKS = 4


def estimated_seconds(nodes, members, rate_mbit, settings):
    """Of one shape: each repetition moves the bound of raw, two of AG, RS and AR, and ring's surplus."""
    surplus = (nodes * members - 1) / (members * (nodes - 1))
    one_way = 8 * MIB * (nodes - 1) / nodes / (rate_mbit * 1e6)
    moved_mib = sum(settings["sizes_mib"]) * (settings["repetitions"] + 1)
    return 2 + moved_mib * one_way * (1 + 4 * (1 + surplus)) * 1.03


class Progress:
    """One line that is rewritten on a terminal; elsewhere a line for each shape."""

    def __init__(self):
        self.live = sys.stderr.isatty()

    def step(self, text):
        if self.live:
            width = shutil.get_terminal_size().columns - 1
            print("\r\033[K" + text[:width], end="", file=sys.stderr, flush=True)

    def done(self, text):
        print(("\r\033[K" if self.live else "") + text, file=sys.stderr, flush=True)


def program(bin_folder, name):
    path = Path(bin_folder) / name
    if not path.exists():
        sys.exit(f"main_job.py: {path} is not there: build first (./tools/dev build), or give --bin")
    return str(path.resolve())


def why_no_nodes(horing_run):
    """None if emulated nodes work here, else the reason in the launcher's words."""
    try:
        check = subprocess.run([horing_run, "--check-nodes"], capture_output=True, text=True, timeout=60)
    except subprocess.TimeoutExpired:
        return "horing-run --check-nodes did not end within 60 s"
    if check.returncode == 0:
        return None
    said = (check.stderr + check.stdout).strip().splitlines()
    return said[-1] if said else f"horing-run --check-nodes ended with {check.returncode}"


def run_contest(command, title, limit_s, progress):
    """Runs ho_ring_bench under horing-run. Returns its lines of JSON, or the reason why there are none."""
    started = time.monotonic()
    said = []
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        for line in child.stderr:
            said.append(line.rstrip())
            progress.step(f"{title}: {time.monotonic() - started:.0f} s of about {limit_s['estimate']:.0f} s, "
                          f"{line.strip().removeprefix('ho_ring_bench: ')}")
        code = child.wait()
    except BaseException:
        child.send_signal(signal.SIGTERM)  # horing-run ends its ranks and nodes
        child.wait()
        raise
    if code == 0:
        progress.done(f"{title}: done in {time.monotonic() - started:.0f} s")
        return None
    reason = "it took too long" if code == 124 else f"it ended with exit code {code}"
    progress.done(f"{title}: FAILED, {reason}:\n    " + "\n    ".join(said[-15:]))
    return reason


def read_lines(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def run_shape(shape, settings, programs, progress):
    nodes, members, rate_mbit = shape
    estimate = estimated_seconds(nodes, members, rate_mbit, settings)
    title = f"{nodes} nodes x {members} ranks at {rate_mbit} Mbit/s"
    progress.step(f"{title}: starting, about {estimate:.0f} s")
    with tempfile.TemporaryDirectory() as folder:
        output = os.path.join(folder, "lines.jsonl")
        command = [programs["run"], "-n", str(nodes * members), "--nodes", str(nodes), "--rate", str(rate_mbit),
                   "--timeout", str(round(120 + 10 * estimate)), "--", programs["bench"],
                   "--sizes", ",".join(f"{mib}M" for mib in settings["sizes_mib"]),
                   "--repetitions", str(settings["repetitions"]), "--output", output]
        failure = run_contest(command, title, {"estimate": estimate}, progress)
        return {"nodes": nodes, "ranks_per_node": members, "rate_mbit": rate_mbit, "failure": failure,
                "lines": [] if failure else read_lines(output)}


def run_one_node(settings, programs, progress):
    with tempfile.TemporaryDirectory() as folder:
        output = os.path.join(folder, "lines.jsonl")
        command = [programs["run"], "-n", str(ONE_NODE_RANKS), "--timeout", "600", "--", programs["bench"],
                   "--sizes", ",".join(f"{mib}M" for mib in settings["sizes_mib"]),
                   "--repetitions", str(settings["repetitions"]), "--output", output]
        failure = run_contest(command, f"1 node x {ONE_NODE_RANKS} ranks", {"estimate": 20}, progress)
        return {"nodes": 1, "ranks_per_node": ONE_NODE_RANKS, "rate_mbit": 0, "failure": failure,
                "lines": [] if failure else read_lines(output)}


def kernel():
    """Version of Linux, 6.1: the rest of its name identifies the machine's owner."""
    return ".".join(platform.release().split(".")[:2])


def machine():
    return {"cores": os.cpu_count(), "kernel": kernel(), "machine": platform.machine(),
            "load_before": os.getloadavg()[0]}


def write_results(folder, results, text, picture):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    (folder / "table.txt").write_text(text, encoding="utf-8")
    if picture:
        (folder / "ho_ring_vs_ring.svg").write_text(picture, encoding="utf-8")


def parse_arguments():
    parser = argparse.ArgumentParser(description="ho_ring against ring across emulated nodes, with a table and a picture.")
    parser.add_argument("--bin", default="build/release/bin", help="folder of horing-run and ho_ring_bench")
    parser.add_argument("--out", default="build/bench", help="folder for results.json, table.txt and the picture")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--quick", action="store_true", help="16 and 64 MiB, 7 repetitions (the default)")
    length.add_argument("--first", action="store_true", help="only the first table: 2 nodes of 4 ranks, 16 MiB; some seconds, nothing is kept")
    length.add_argument("--full", action="store_true", help="4, 16 and 64 MiB, 15 repetitions")
    parser.add_argument("--one-node", action="store_true", help="do not try emulated nodes")
    return parser.parse_args()


def announce(settings):
    total = sum(estimated_seconds(*shape, settings) for shape in SHAPES)
    sizes = " and ".join(f"{mib}" for mib in settings["sizes_mib"])
    print(f"ho_ring against ring on {len(SHAPES)} shapes of emulated nodes, {sizes} MiB, {settings['repetitions']} "
          f"repetitions in turns: about {total / 60:.0f} minutes.", file=sys.stderr)


def main():
    os.environ.setdefault("HORING_CACHE_DIR", "off")  # measurements kept on this machine must not affect figures
    arguments = parse_arguments()
    settings = FULL if arguments.full else QUICK
    programs = {"run": program(arguments.bin, "horing-run"), "bench": program(arguments.bin, "ho_ring_bench")}
    progress = Progress()
    results = {"settings": settings, "machine": machine(), "started": time.strftime("%Y-%m-%d %H:%M:%S")}
    left_out = "as --one-node says" if arguments.one_node else why_no_nodes(programs["run"])
    if left_out is None:
        first = run_shape(*FIRST, programs, progress)
        print(table([first]), flush=True)
        if arguments.first:
            return 1 if first["failure"] else 0
        announce(settings)
        results["shapes"] = [run_shape(shape, settings, programs, progress) for shape in SHAPES]
        text, picture = table(results["shapes"]), chart(results["shapes"])
    else:
        print(f"Left out: everything between nodes, so the main point: {left_out}", file=sys.stderr)
        results["left_out"] = left_out
        results["shapes"] = [run_one_node(settings, programs, progress)]
        text, picture = one_node_table(results["shapes"][0]), one_node_chart(results["shapes"][0])
    print(text, flush=True)
    folder = Path(arguments.out)
    try:
        write_results(folder, results, text, picture)
    except OSError as error:
        sys.exit(f"main_job.py: the picture and the results are not kept: {error}")
    print(f"Picture: {folder / 'ho_ring_vs_ring.svg'}   Raw results: {folder / 'results.json'}")
    return 1 if any(shape["failure"] for shape in results["shapes"]) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("\nmain_job.py: interrupted")
