#!/usr/bin/env python3
"""All-reduces of ho_shares between nodes of which some have slow links, simulated: the time over the bound, and beside that of ho_ring.

    python3 bench/sim/slow_nodes.py --bin build/release/bin [--nodes N...] [--bytes SIZE...] > bench/results/sim/slow_nodes.txt

One rank on each node, 12.5 GB/s for each, 5 us. Bound: max(D / least rate, 2(M-1)D / sum of the rates). Exits 1 where ho_shares takes more
than 1.10 times the bound. Python 3 and nothing else.
"""
import argparse
import re
import subprocess
import sys
from pathlib import Path

GBYTES = 12.5
MOST = 1.10


def simulate(program, algorithm, rates, size):
    """The time and the bound as horing-sim prints them, and their ratio."""
    words = [program, "run", "--collective", "all_reduce", "--algorithm", algorithm, "--ranks", ",".join(["1"] * len(rates)),
             "--inter-gbytes", ",".join(f"{rate:g}" for rate in rates), "--nic", "node", "--bytes", size]
    text = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    took = re.search(r"ranks: (.+)", text)[1]
    bound, ratio = re.search(r"wire bound (.+), time / bound ([0-9.]+)", text).groups()
    return took, bound, float(ratio)


def main():
    parser = argparse.ArgumentParser(description="All-reduces between nodes of which some have slow links, simulated.")
    parser.add_argument("--bin", default="build/release/bin", type=Path, help="folder of the programs")
    parser.add_argument("--nodes", nargs="+", default=[16, 32, 64, 128], type=int)
    parser.add_argument("--slow", nargs="+", default=[1, 4, 16], type=int, help="how many nodes are slow")
    parser.add_argument("--bytes", nargs="+", default=["256MiB"], metavar="SIZE")
    arguments = parser.parse_args()
    print("# All-reduces of ho_shares between nodes of which some have slow links, and of ho_ring: simulated, nothing was measured.")
    print("#   python3 bench/sim/slow_nodes.py --nodes", *arguments.nodes, "--slow", *arguments.slow, "--bytes", *arguments.bytes)
    print("# Gain: the time of ho_ring over that of ho_shares.")
    print("# nodes  slow  at     bytes    time      bound     ratio  ho_ring  ratio  gain", flush=True)
    worst = 0.0
    for size in arguments.bytes:
        for nodes in arguments.nodes:
            for slow in (slow for slow in arguments.slow if slow < nodes):
                for part in (0.9, 0.5, 0.25):
                    rates = [GBYTES * part] * slow + [GBYTES] * (nodes - slow)
                    took, bound, ratio = simulate(arguments.bin / "horing-sim", "ho_shares", rates, size)
                    ring, _, ring_ratio = simulate(arguments.bin / "horing-sim", "ho_ring", rates, size)
                    worst = max(worst, ratio)
                    print(f"{nodes:<7}  {slow:<4}  {part:<5}  {size:<7}  {took:<8}  {bound:<8}  {ratio:.3f}  {ring:<7}  {ring_ratio:.3f}  "
                          f"{ring_ratio / ratio:.2f}", flush=True)
    print(f"# worst: {worst:.3f}, {'met' if worst <= MOST else 'MISSED'} (at most {MOST:.2f})")
    return worst > MOST


if __name__ == "__main__":
    sys.exit(main())
