#!/usr/bin/env python3
"""Compares the choices of a selection table with the fastest algorithms.

    horing-run -n 8 --nodes 2 --rate 1000 -- horing-tune --measure-algorithms -o lab.measured
    horing-run -n 8 --nodes 2 --rate 1000 -- horing-tune -o lab.machine
    HORING_SELECTION=auto HORING_CALIBRATE=lab.machine horing-info selection > lab.auto
    horing-info selection > built_in
    python3 bench/sim/selection.py --shape 2x4 --measured lab.measured built_in lab.auto

For each table: time of what it chooses over the time of the fastest, for each collective and size that was measured; median, worst,
and the points that are worse than 1.05 times the spread of the two measurements themselves. Python 3 and nothing else.
"""
import argparse
import re
import statistics
import sys
from pathlib import Path

GOAL_MEDIAN, GOAL_WORST = 1.0, 1.05
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def bytes_of(word):
    if word == "*":
        return float("inf")
    number, unit = re.fullmatch(r"(\d+)([KMG]?)", word).groups()
    return int(number) * UNITS[unit]


def measured_once(path):
    """{(collective, bytes): {algorithm: (us, spread)}}; a spread of 0 is of one that looked hopeless."""
    points = {}
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        head = re.match(r"# (\w+) (\d+[KMG]?):", line)
        if head:
            times = re.findall(r" ([a-z_]+) ([\d.]+)(?: \(([\d.]+)\))?", line[head.end():])
            points[head[1], bytes_of(head[2])] = {name: (float(us), float(spread or 0)) for name, us, spread in times}
    if not points:
        sys.exit(f"selection.py: {path} holds no times: write it with horing-tune --measure-algorithms")
    return points


def measured(paths):
    """The same of several jobs: medians of the times over that of the job's fastest, so that a slow job is no slow algorithm."""
    jobs = [measured_once(path) for path in paths]
    points = {}
    for point in set.intersection(*(set(job) for job in jobs)):
        fastest = [min(us for us, _ in job[point].values()) for job in jobs]
        for name in [name for name in jobs[0][point] if all(name in job[point] for job in jobs)]:  # in the catalogue's order
            times, spreads = zip(*(job[point][name] for job in jobs))
            ratio = statistics.median(us / least for us, least in zip(times, fastest))
            points.setdefault(point, {})[name] = ratio * statistics.median(fastest), statistics.median(spreads)
    return dict(sorted(points.items()))


def rows(path):
    text = Path(path).read_text(encoding="utf-8")
    return [line.split() for line in (line.split("#")[0] for line in text.splitlines()) if line.strip()]


def holds(word, number):
    if word == "*":
        return True
    least, dash, most = word.partition("-")
    return int(least) <= number and (number <= int(most) if most else bool(dash) or number == int(least))


def chosen(table, collective, shape, size, algorithms):
    for row in table:
        if (row[0] in ("*", collective) and holds(row[1], shape[0]) and holds(row[2], shape[1]) and row[3] in ("*", shape[2])
                and size <= bytes_of(row[4]) and row[5] in algorithms):
            return row[5]
    return sys.exit(f"selection.py: no row serves {collective} of {size} bytes")


def report(grid, measurements, tables):
    """Prints how each table does, for GROUPSxRANKS."""
    shape = (*map(int, grid.split("x")), rows(measurements[0])[0][3])
    points = measured(measurements)
    for path in tables:
        table, ratios, beyond = rows(path), [], []
        for (collective, size), times in points.items():
            best = min(times, key=lambda name: times[name][0])
            name = chosen(table, collective, shape, size, times)
            ratio = times[name][0] / times[best][0]
            ratios.append(ratio)
            if ratio > GOAL_WORST * max(1, times[name][1]) * max(1, times[best][1]):
                beyond.append(f"  {collective} {size}: {name} {times[name][0]:.1f} us, {best} {times[best][0]:.1f} us: {ratio:.2f}")
        print(f"{path}: {len(ratios)} points, chosen / best: median {statistics.median(ratios):.3f} (goal {GOAL_MEDIAN:.2f}), "
              f"worst {max(ratios):.3f}, worse than {GOAL_WORST} beyond the spread: {len(beyond)}")
        print("\n".join(beyond), end="\n" if beyond else "", flush=True)


def main():
    parser = argparse.ArgumentParser(description="Compares the choices of a selection table with the fastest algorithms.")
    parser.add_argument("--shape", required=True, metavar="GROUPSxRANKS", help="in which it was measured, say 2x4")
    parser.add_argument("--measured", required=True, action="append", help="what horing-tune --measure-algorithms wrote; several jobs differ: give some")
    parser.add_argument("tables", nargs="+", help="tables, as horing-info selection prints them")
    arguments = parser.parse_args()
    report(arguments.shape, arguments.measured, arguments.tables)
    return 0


if __name__ == "__main__":
    sys.exit(main())
