#!/usr/bin/env python3
"""All-reduces between emulated nodes whose links differ in speed: horing, its ring, Open MPI, MPICH and Gloo in turns.

    ./tools/dev install-packages peers, then build
    python3 bench/peers/unequal.py --job 4x2:1000,1000,1000,500 --job 8x1:200,200,200,100,200,200,200,200 --rounds 7

A job is NODES x RANKS OF A NODE : the rate of each node in Mbit/s. Times are ms a call, medians of the rounds. The bound is what no
algorithm can undercut: max(D / least rate, 2(M-1)D / sum of all rates), for D bytes and M nodes.
"""
import argparse
import os
import statistics
import sys
import tempfile

from libraries import LIBRARIES, SEVERAL, Library, horing
from sweep import LONG, Comparison, Progress, present, program

LIBRARIES_HERE = [*LIBRARIES, Library("horing ho_ring", "peer_horing", horing, {"HORING_ALGO": "ho_ring", "HORING_CALIBRATE": "0"}, SEVERAL)]


def bound_s(size, rates):
    """The slowest node sends and receives D; all together move 2(M-1)D."""
    return size * 8e-6 * max(1 / min(rates), 2 * (len(rates) - 1) / sum(rates))


def job_of(text):
    shape, rates = text.split(":")
    nodes, members = map(int, shape.split("x"))
    rates = [float(rate) for rate in rates.split(",")]
    if len(rates) != nodes:
        raise argparse.ArgumentTypeError(f"{text}: {nodes} nodes and {len(rates)} rates")
    return nodes, members, rates


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/release/bin", help="folder of the programs")
    parser.add_argument("--job", action="append", type=job_of, required=True, help="4x2:1000,1000,1000,500")
    parser.add_argument("--mib", nargs="+", type=int, default=[16, 64], help="sizes")
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    programs = {"run": program(arguments.bin, "horing-run"), "folder": os.path.abspath(arguments.bin)}
    libraries = present(LIBRARIES_HERE, arguments.bin)
    failed = False
    for nodes, members, rates in arguments.job:
        wanted = [("all_reduce", mib << 20) for mib in sorted(arguments.mib, reverse=True)]
        comparison = Comparison((nodes, members, ",".join(f"{rate:g}" for rate in rates)), wanted, {**LONG, "rounds": arguments.rounds}, programs,
                                Progress())
        # By default a job measures its links where it may keep the results, unless another job has done so.
        with tempfile.TemporaryDirectory(prefix="horing-rates-") as os.environ["HORING_CACHE_DIR"]:
            comparison.run(libraries)
        failed |= bool(comparison.failures)
        print(f"{nodes}x{members} at {comparison.rate_mbit} Mbit/s, load {os.getloadavg()[0]:.0f}")
        for call in wanted[::-1]:
            bound = bound_s(call[1], rates)
            print(f"  {call[1] >> 20} MiB: bound {1e3 * bound:.1f}")
            for library in libraries:
                if seconds := comparison.times.get((library.name, *call)):
                    median = statistics.median(seconds)
                    print(f"    {library.name:<16}{1e3 * median:8.1f} ({1e3 * min(seconds):.1f} to {1e3 * max(seconds):.1f}), {median / bound:.2f} x bound")
        sys.stdout.flush()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
