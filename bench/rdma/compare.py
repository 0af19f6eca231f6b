#!/usr/bin/env python3
"""Compares horing over RDMA with perftest on the same devices, and HO-Ring over RDMA with sockets on the same links.

    ./tools/dev bench --rdma                                     # installs, builds, and runs what follows
    tools/rdma_vm/run --seconds 600 python3 bench/rdma/compare.py --bin build/release/bin [--rounds N] [--json FILE]

Runs inside the virtual machine of tools/rdma_vm. All take turns, round by round; figures are medians over the rounds. A ratio is the
median of the ratios of neighbours in time, since emulated devices get slower and faster within a minute.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from main_job import kernel  # noqa: E402

FIRST, SECOND = "rxe0", "rxe1"
GID_INDEX = "1"
LIMIT_S = 60  # of one program
PERFTEST_PORT = 18515
LATENCY_BYTES, LATENCY_MESSAGES = 8, 2000
BANDWIDTHS = [(65536, 2000), (1 << 20, 128)]  # bytes of a message, messages
GOAL_BANDWIDTH, GOAL_LATENCY = 0.85, 2.0
RANKS = 4
REDUCED_BYTES = 16 << 20
# Program, ranks, bytes. With two ranks each has a processor of the machine, with four they share them.
MOVED = [("all_gather_perf", 2, 1 << 20), ("all_gather_perf", 4, 1 << 20), ("all_gather_perf", 4, 16 << 20), ("sendrecv_perf", 2, 16 << 20)]


def run(command, **more):
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, **more)
    if done.returncode != 0:
        sys.exit(f"compare.py: {' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def wait_for_listener(port):
    deadline = time.monotonic() + LIMIT_S
    listening = f":{port:04X} 00000000:0000 0A"
    while all(listening not in Path(f"/proc/net/{table}").read_text().upper().replace("0" * 24, "") for table in ("tcp", "tcp6")):
        if time.monotonic() > deadline:
            sys.exit("compare.py: perftest does not listen")
        time.sleep(0.02)


def perftest(program, size, messages):
    """The columns of perftest's one line of results."""
    def command(device):
        return [program, "-d", device, "-x", GID_INDEX, "-F", "-p", str(PERFTEST_PORT), "-s", str(size), "-n", str(messages)] + (
            ["--report_gbits"] if program == "ib_write_bw" else [])
    server = subprocess.Popen(command(SECOND), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for_listener(PERFTEST_PORT)
    text = run(command(FIRST) + ["127.0.0.1"])
    server.wait(LIMIT_S)
    return [float(column) for column in re.search(rf"^ {size} +(.*)$", text, re.MULTILINE).group(1).split()]


def verbs_bench(folder, what, size, messages):
    return float(run([str(folder / "verbs_bench"), FIRST, SECOND, what, str(size), str(messages)]))


# Ranks of node A use rxe0 and rxe2 or the interfaces below them, those of node B the other ends.
RANK_OF_A_NODE = """
if [ "$RANK" -lt $((WORLD_SIZE / 2)) ]; then node=A rdma=rxe0,rxe2 tcp=veth0,veth2; else node=B rdma=rxe1,rxe3 tcp=veth1,veth3; fi
[ "$NETWORK" = socket ] || tcp=lo
mkdir -p /dev/shm/$node
export HORING_SHM_DIR=/dev/shm/$node HORING_HOSTID=$node HORING_IB_HCA=$rdma HORING_SOCKET_IFNAME="=$tcp" HORING_TRANSPORTS=shm,$NETWORK
exec "$@"
"""


def perf_ms(folder, program, network, size, algorithm="auto", registered=0, ranks=RANKS):
    with tempfile.TemporaryDirectory() as reports:
        report = Path(reports) / "perf.json"
        times = "3" if size > 1 << 20 else "15"
        size = str(size)
        run([str(folder / "horing-run"), "-n", str(ranks), "--", "sh", "-c", RANK_OF_A_NODE, "rank",
             str(folder / program), "-b", size, "-e", size, "-n", times, "-w", "1", "-c", "1", "-R", str(registered), "-J", str(report)],
            env={**os.environ, "NETWORK": network, "HORING_ALGO": algorithm})
        row = json.loads(report.read_text(encoding="utf-8"))["results"][0]["out_of_place"]
    return row["time"] / 1000


def take_turns(rounds, measures):
    """Figures by name, in order of the rounds; every other round goes the other way round."""
    figures = {name: [] for name in measures}
    for number in range(rounds):
        for name in list(measures) if number % 2 == 0 else reversed(list(measures)):
            figures[name].append(measures[name]())
        print(f"round {number + 1} of {rounds}: " + ", ".join(f"{name} {values[-1]:.3f}" for name, values in figures.items()),
              flush=True)
    return figures


def report(name, figures, unit, goal=None):
    """Prints the second of two series over the first; `goal`: (a word for people, whether a ratio meets it)."""
    (base, base_values), (ours, our_values) = figures.items()
    ratio = statistics.median(b / a for a, b in zip(base_values, our_values))
    verdict = "" if goal is None else f", {goal[0]}: {'met' if goal[1](ratio) else 'MISSED'}"
    print(f"== {name}: {base} {statistics.median(base_values):.3f} {unit}, {ours} {statistics.median(our_values):.3f} {unit}, "
          f"ratio {ratio:.3f}{verdict}", flush=True)
    return {"name": name, "unit": unit, base: base_values, ours: our_values, "ratio": ratio}


def point_to_point(folder, rounds):
    for size, messages in BANDWIDTHS:
        figures = take_turns(rounds, {"ib_write_bw": lambda: perftest("ib_write_bw", size, messages)[2],
                                      "horing": lambda: verbs_bench(folder, "bandwidth", size, messages)})
        yield report(f"bandwidth of messages of {size} B", figures, "Gbit/s",
                     (f">= {GOAL_BANDWIDTH}", lambda ratio: ratio >= GOAL_BANDWIDTH))
    typical = 3  # the column t_typical, a median
    figures = take_turns(rounds, {"ib_write_lat": lambda: perftest("ib_write_lat", LATENCY_BYTES, LATENCY_MESSAGES)[typical],
                                  "horing": lambda: verbs_bench(folder, "latency", LATENCY_BYTES, LATENCY_MESSAGES)})
    yield report(f"latency of {LATENCY_BYTES} B", figures, "us", (f"<= {GOAL_LATENCY}", lambda ratio: ratio <= GOAL_LATENCY))


def collectives(folder, rounds):
    """All-reduce of two nodes of two ranks over both wires."""
    ways = [("ho_ring", "socket"), ("ho_ring", "verbs"), ("ring", "verbs")]
    figures = take_turns(rounds, {f"{algorithm} over {network}": lambda way=(algorithm, network): perf_ms(
        folder, "all_reduce_perf", way[1], REDUCED_BYTES, algorithm=way[0]) for algorithm, network in ways})
    what = f"all-reduce of {REDUCED_BYTES >> 20} MiB, 2 x {RANKS // 2} ranks"
    for pair in (("ho_ring over socket", "ho_ring over verbs"), ("ring over verbs", "ho_ring over verbs")):
        yield report(what, {name: figures[name] for name in pair}, "ms")


def in_place(folder, rounds):
    """Buffers from horingMemAlloc, moved in place, and ordinary ones, which go through slots at both ends."""
    for program, ranks, size in MOVED:
        figures = take_turns(rounds, {name: lambda registered=registered: perf_ms(
            folder, program, "verbs", size, registered=registered, ranks=ranks) for name, registered in (("ordinary", 0), ("registered", 1))})
        yield report(f"{program} of {size >> 20} MiB, 2 x {ranks // 2} ranks", figures, "ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=Path, required=True, help="folder of the built programs")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    parser.add_argument("--only", choices=["point_to_point", "collectives", "in_place"])
    arguments = parser.parse_args()
    if "RDMA_VM_WIRES" not in os.environ:
        sys.exit("compare.py: this runs in the virtual machine: ./tools/dev bench --rdma")
    results = []
    for part in (point_to_point, collectives, in_place):
        if arguments.only in (None, part.__name__):
            results += part(arguments.bin, arguments.rounds)
    if arguments.json:
        arguments.json.write_text(json.dumps({"kernel": kernel(), "results": results}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
