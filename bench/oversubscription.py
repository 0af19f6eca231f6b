#!/usr/bin/env python3
"""More ranks than cores: all-reduce among many ranks against two on the same machine, and what an idle rank costs.

    python3 bench/oversubscription.py --bin build/release/bin [--ranks 16] [--runs 9] [--json FILE]

The two take turns, run by run, with a barrier of as many processes that do nothing else, the floor for the many; times
are medians over the runs of the average time of a call. Python 3 and nothing else.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

SIZES = [8, 64 << 10]
MOST_RATIO = 16.0
MOST_IDLE_SHARE = 0.02
FEW = 2
LIMIT_S = 120  # of one run


def horing_run(bin_folder, ranks, command):
    launcher = [str(bin_folder / "horing-run"), "-n", str(ranks), "--timeout", str(LIMIT_S), "--"]
    done = subprocess.run(launcher + command, capture_output=True, text=True, timeout=LIMIT_S + 30)
    if done.returncode != 0:
        sys.exit(f"oversubscription.py: {' '.join(launcher + command)} ended with {done.returncode}:\n{done.stderr}")
    return done.stdout


def all_reduce_us(bin_folder, ranks, iterations):
    """Microseconds of a call, by size."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "perf.json"
        horing_run(bin_folder, ranks, [str(bin_folder / "all_reduce_perf"), "-b", str(SIZES[0]), "-e", str(SIZES[-1]),
                                       "-f", str(SIZES[-1] // SIZES[0]), "-n", str(iterations), "-w", "20", "-c", "0",
                                       "-J", str(report)])
        rows = json.loads(report.read_text(encoding="utf-8"))["results"]
    return {row["size"]: row["out_of_place"]["time"] for row in rows}


def bare_barrier_us(bin_folder, ranks):
    """What so many processes need to meet when they do nothing else: the floor of any all-reduce."""
    done = subprocess.run([str(bin_folder / "bare_barrier_bench"), str(ranks)], capture_output=True, text=True,
                          timeout=LIMIT_S)
    if done.returncode != 0:
        sys.exit(f"oversubscription.py: bare_barrier_bench ended with {done.returncode}: {done.stderr}")
    return float(done.stdout)


def take_turns(bin_folder, many, arguments):
    times, barriers = {FEW: [], many: []}, []
    for run in range(arguments.runs):
        for ranks in (FEW, many) if run % 2 == 0 else (many, FEW):
            times[ranks].append(all_reduce_us(bin_folder, ranks, arguments.iterations))
        barriers.append(bare_barrier_us(bin_folder, many))
        print(f"\rrun {run + 1} of {arguments.runs}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return times, barriers


def compare(times, many):
    rows = []
    for size in SIZES:
        few_us, many_us = (statistics.median(run[size] for run in times[ranks]) for ranks in (FEW, many))
        rows.append({"bytes": size, "few_us": few_us, "many_us": many_us, "ratio": many_us / few_us})
    return rows


def idle_shares(bin_folder, many):
    return [json.loads(horing_run(bin_folder, ranks, [str(bin_folder / "idle_wait_bench")])) for ranks in (FEW, many)]


def parse_arguments():
    parser = argparse.ArgumentParser(description="All-reduce among many ranks against two, and the cost of waiting.")
    parser.add_argument("--bin", default="build/release/bin", type=Path, help="folder of horing-run and the benchmarks")
    parser.add_argument("--ranks", default=16, type=int, help="how many are many")
    parser.add_argument("--runs", default=9, type=int, help="runs of each")
    parser.add_argument("--iterations", default=300, type=int, help="calls that a run times, for each size")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    return parser.parse_args()


def main():
    os.environ.setdefault("HORING_CACHE_DIR", "off")  # measurements kept on this machine must not affect figures
    arguments = parse_arguments()
    bin_folder = arguments.bin.resolve()
    many = arguments.ranks
    times, barriers = take_turns(bin_folder, many, arguments)
    barrier_us = statistics.median(barriers)
    rows = compare(times, many)
    idle = idle_shares(bin_folder, many)
    print(f"all-reduce       {FEW} ranks (us)   {many} ranks (us)     ratio   goal: at most {MOST_RATIO:.0f}")
    for row in rows:
        print(f"{row['bytes']:>8} B   {row['few_us']:>14.2f} {row['many_us']:>15.2f} {row['ratio']:>9.1f}")
    print(f"a bare barrier of {many} processes, which do nothing but yield: {barrier_us:.2f} us, "
          f"{barrier_us / rows[0]['few_us']:.1f} x the all-reduce of {FEW} ranks")
    for line in idle:
        share = line["share_of_a_core"]
        print(f"a rank of {line['ranks']} that waits {line['waited_s']:g} s: {100 * share['median']:.2f} % of a core, "
              f"the busiest {100 * share['most']:.2f} %   goal: under {100 * MOST_IDLE_SHARE:.0f} %")
    if arguments.json:
        arguments.json.write_text(json.dumps({"runs": times, "ratios": rows, "barrier_us": barriers, "idle": idle}, indent=1) + "\n",
                                  encoding="utf-8")


if __name__ == "__main__":
    main()
