#!/usr/bin/env python3
"""All-reduces of ho_shares between nodes of which some have slow links, simulated: the time over the bound.

    python3 bench/sim/slow_nodes.py --bin build/release/bin [--nodes N] [--bytes SIZE...] > bench/results/sim/slow_nodes.txt

One rank on each node, 12.5 GB/s for each, 5 us. Bound: max(D / least rate, 2(M-1)D / sum of the rates). Exits 1 where the time is more
than 1.10 times the bound. Python 3 and nothing else.
"""
import argparse
import re
import subprocess
import sys
import time
from pathlib import Path

GBYTES = 12.5
MOST = 1.10


def simulate(program, nodes, slow, part, size):
    """The time and the bound as horing-sim prints them, and their ratio."""
    rates = [GBYTES * part] * slow + [GBYTES] * (nodes - slow)
    words = [program, "run", "--collective", "all_reduce", "--algorithm", "ho_shares", "--ranks", ",".join(["1"] * nodes),
             "--inter-gbytes", ",".join(f"{rate:g}" for rate in rates), "--nic", "node", "--bytes", size]
    text = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    took = re.search(r"ranks: (.+)", text)[1]
    bound, ratio = re.search(r"wire bound (.+), time / bound ([0-9.]+)", text).groups()
    return took, bound, float(ratio)


def main():
    parser = argparse.ArgumentParser(description="All-reduces between nodes of which some have slow links, simulated.")
    parser.add_argument("--bin", default="build/release/bin", type=Path, help="folder of the programs")
    parser.add_argument("--nodes", default=128, type=int)
    parser.add_argument("--bytes", nargs="+", default=["1GiB", "256MiB"], metavar="SIZE")
    arguments = parser.parse_args()
    print(f"# All-reduce of ho_shares between {arguments.nodes} nodes, some with slow links: simulated, nothing was measured.")
    print("#   python3 bench/sim/slow_nodes.py --nodes", arguments.nodes, "--bytes", *arguments.bytes)
    print("# slow nodes  at     bytes    time      bound     ratio  seconds to simulate", flush=True)
    worst = 0.0
    for size in arguments.bytes:
        for slow in (1, 4, 16):
            for part in (0.9, 0.5, 0.25):
                began = time.monotonic()
                took, bound, ratio = simulate(arguments.bin / "horing-sim", arguments.nodes, slow, part, size)
                worst = max(worst, ratio)
                print(f"{slow:<12}  {part:<5}  {size:<7}  {took:<8}  {bound:<8}  {ratio:.3f}  {time.monotonic() - began:.0f}", flush=True)
    print(f"# worst: {worst:.3f}, {'met' if worst <= MOST else 'MISSED'} (at most {MOST:.2f})")
    return worst > MOST


if __name__ == "__main__":
    sys.exit(main())
