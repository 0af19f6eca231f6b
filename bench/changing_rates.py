#!/usr/bin/env python3
"""All-reduces between emulated nodes while the rate of one node changes, with a plan that follows and with the plan of the start.

usage: changing_rates.py [--bin DIR] [--rate 400,400,400,400] [--at 15:3=200 --at 30:3=400 | --flip 10:3=200] [--seconds 45]
The jobs that do not follow take the built-in table (HORING_CALIBRATE=0). Prints each phase, from one change of a rate to the next: the calls, their
median, the bound max(D / least rate, 2(M-1)D / sum of rates), when the plan changed, and when the first of three calls ended that took at
most 1.05 x the median of the later half of the phase (-1: never).
"""
import argparse
import os
import re
import statistics
import subprocess
import time

MEGABYTE_BITS = 8 * 1024 * 1024


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/release/bin")
    parser.add_argument("--rate", default="400,400,400,400", help="Mbit/s of each node")
    parser.add_argument("--at", action="append", default=[], metavar="SECONDS:NODE=MBIT")
    parser.add_argument("--flip", metavar="SECONDS:NODE=MBIT", help="to that rate and back, each time after so many seconds")
    parser.add_argument("--mebibytes", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=45)
    return parser.parse_args()


def changes_of(arguments):
    """(seconds, node, Mbit/s) of each change of a rate."""
    read = [re.fullmatch(r"([\d.]+):(\d+)=(\d+)", text).groups() for text in arguments.at or ["15:3=200", "30:3=400"]]
    changes = [(float(at), int(node), int(rate)) for at, node, rate in read]
    if arguments.flip:
        every, node, rate = re.fullmatch(r"([\d.]+):(\d+)=(\d+)", arguments.flip).groups()
        both = [int(rate), int(arguments.rate.split(",")[int(node)])]
        times = int(arguments.seconds / float(every))
        changes = [((i + 1) * float(every), int(node), both[i % 2]) for i in range(times)]
    return changes


def run(arguments, changes, follows):
    """Phases of (seconds into the phase, ms) of calls, and in each when the plan changed."""
    nodes = arguments.rate.count(",") + 1
    size = f"{arguments.mebibytes}M"
    command = [f"{arguments.bin}/horing-run", "-n", str(nodes), "--nodes", str(nodes), "--rate", arguments.rate]
    for at, node, rate in changes:
        command += ["--rate-at", f"{at:g}:{node}={rate}"]
    command += ["--", f"{arguments.bin}/all_reduce_perf", "-b", size, "-e", size, "-n", "1", "-w", "0", "-c", "0", "-N", "0"]
    environment = dict(os.environ, HORING_CACHE_DIR="off", HORING_CALIBRATE=str(int(follows)), HORING_DEBUG="info")
    job = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
    phases, plans, begun = [[]], [[]], time.monotonic()
    end = begun + arguments.seconds
    for line in job.stdout:
        now = time.monotonic()
        if now > end:
            break
        if re.search(r"after [\d.]+ s: the links", line):
            phases.append([])
            plans.append([])
            begun = now
        if "links has changed" in line:
            plans[-1].append(now - begun)
        words = line.split()
        if words and words[0] == str(arguments.mebibytes << 20):
            both_ms = [float(words[at]) / 1000 for at in (5, 9)]
            phases[-1] += [(now - begun - both_ms[1] / 1000, both_ms[0]), (now - begun, both_ms[1])]
    job.terminate()
    job.communicate()
    return phases, plans


def bound_ms(rates, mebibytes):
    bits = mebibytes * MEGABYTE_BITS
    return max(bits / min(rates), 2 * (len(rates) - 1) * bits / sum(rates)) / 1e3


def main():
    arguments = parse_arguments()
    changes = changes_of(arguments)
    for follows in (True, False):
        phases, plans = run(arguments, changes, follows)
        rates = [int(rate) for rate in arguments.rate.split(",")]
        print("follows:" if follows else "static:", f"{sum(map(len, phases))} calls, {sum(map(len, plans))} changes of the plan")
        for number, (phase, changed) in enumerate(zip(phases, plans)):
            if number > 0:
                _, node, rate = changes[number - 1]
                rates[node] = rate
            later = [ms for _, ms in phase[len(phase) // 2:]]
            if not later:
                continue
            usual = statistics.median(later)
            settled = next((phase[i][0] for i in range(len(phase)) if max(ms for _, ms in phase[i:i + 3]) <= 1.05 * usual), -1)
            bound = bound_ms(rates, arguments.mebibytes)
            print(f"  {','.join(map(str, rates)):20} {len(phase):4} calls, median {usual:7.1f} ms, bound {bound:7.1f}, "
                  f"{usual / bound:.2f}; plan changed after {', '.join(f'{at:.1f}' for at in changed) or '-'} s; as fast after {settled:.1f} s")


if __name__ == "__main__":
    main()
