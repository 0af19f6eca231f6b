"""The goals of the comparison with peers, and whether a comparison meets them."""
import statistics
from typing import NamedTuple

import chart
import report
from libraries import OURS
from main_job_report import LABELS

KIB, MIB = 1 << 10, 1 << 20
MOST_ON_ONE_NODE = 1.10  # over the fastest other library, at any size
REDUCING_FROM_1_MIB = 1 / 1.5
LEAST_OF_MEMORY = 0.80
MOST_ROUND_TRIPS = 3
MOST_BETWEEN_NODES = 1.0  # or within the spread
WIRE_FROM_1_MIB, SHAPES_OF_THAT = 1.10, [(2, 4), (4, 2)]
WIRE_FROM_16_MIB = 1.06


class Mark(NamedTuple):
    figure: str
    goal: str = ""
    measured: str = ""
    met: bool | None = None  # None: no figure


def shape(job):
    return f"{job['nodes']} x {job['ranks_per_node']}"


def ratios(job, least_bytes=0, collectives=tuple(LABELS)):
    """[(horing over the fastest other library, where)]"""
    return [(ratio, f"{LABELS[collective]}, {chart.bytes_text(size)}, {shape(job)}") for collective in collectives
            for ratio, size in report.ratios(job, collective) if size >= least_bytes]


def distances(job, least_bytes, name=OURS):
    """[(time over the bound, where)]"""
    found = []
    for (collective, size), times in sorted(report.medians(job).items()):
        least = report.least_s(job, collective, size)
        if size >= least_bytes and name in times and least:
            found.append((times[name] / least, f"{LABELS[collective]}, {chart.bytes_text(size)}, {shape(job)}"))
    return found


def at_worst(figure, goal, values, allowed):
    """No line where nothing was measured."""
    if not values:
        return []
    worst, where = max(values)
    return [Mark(figure, goal, f"{worst:.3f} at worst ({where}); {sum(1 for value, _ in values if value <= allowed)} of "
                               f"{len(values)} cases", worst <= allowed)]


def not_slower(figure, jobs, least_bytes):
    """Where ours and a peer's both take what the wire needs, which of them is ahead is chance: only a difference above the run's own
    spread counts."""
    values = [(ratio, report.spread(job, collective, size), f"{LABELS[collective]}, {chart.bytes_text(size)}, {shape(job)}")
              for job in jobs for collective in LABELS for ratio, size in report.ratios(job, collective) if size >= least_bytes]
    if not values:
        return []
    ratio, spread, where = max(values)
    within = sum(1 for value in values if value[0] <= max(MOST_BETWEEN_NODES, value[1]))
    return [Mark(figure, "≤ 1, or within the run's spread",
                 f"{ratio:.3f} at worst ({where}; spread {spread:.3f}); {sum(1 for value in values if value[0] <= MOST_BETWEEN_NODES)} of "
                 f"{len(values)} cases ≤ 1, {within} with the spread", within == len(values))]


def of_one_node(job):
    ranks = f"{job['ranks_per_node']} ranks on one node"
    marks = []
    means = {collective: report.geometric_mean([ratio for ratio, _ in found]) for collective in LABELS
             if (found := report.ratios(job, collective))}
    if means:
        marks.append(Mark(f"horing / fastest of the peers, {ranks}, geometric mean over sizes", "< 1",
                          ", ".join(f"{LABELS[collective]} {mean:.3f}" for collective, mean in means.items()),
                          max(means.values()) < 1))
    marks += at_worst(f"... at each size, {ranks}", "≤ 1.10", ratios(job), MOST_ON_ONE_NODE)
    marks += at_worst(f"... all-reduce and reduce-scatter from 1 MiB, {ranks}", "≤ 0.667",
                      ratios(job, MIB, ("all_reduce", "reduce_scatter")), REDUCING_FROM_1_MIB)
    name = next((name for name in report.names_of([job]) if name == f"{OURS} MemAlloc"), OURS)
    shares = [(1 / distance, where) for distance, where in distances(job, 16 * MIB, name)]
    if shares:
        least, where = min(shares)
        marks.append(Mark(f"share of the memory limit from 16 MiB, {name}, {ranks}", "≥ 0.80",
                          f"{least:.2f} at worst ({where})", least >= LEAST_OF_MEMORY))
    return marks + latency(job)


def latency(job):
    times = report.medians(job).get(("all_reduce", 8), {})
    if job["ranks_per_node"] != 2 or OURS not in times or not job["limits"]:
        return []
    trip_s = statistics.median(limit["round_trip_ns"] for limit in job["limits"]) * 1e-9
    trips = times[OURS] / trip_s
    return [Mark("8-byte all-reduce of 2 ranks / round trip in shared memory", "≤ 3",
                 f"{trips:.2f} ({times[OURS] * 1e9:.0f} ns / {trip_s * 1e9:.0f} ns)", trips <= MOST_ROUND_TRIPS)]


def between_nodes(jobs):
    def every(values_of):
        return [value for job in jobs for value in values_of(job)]

    named = [job for job in jobs if (job["nodes"], job["ranks_per_node"]) in SHAPES_OF_THAT]
    return (not_slower("horing / fastest of the peers between nodes, from 4 KiB", jobs, 4 * KIB)
            + at_worst("horing / wire bound from 1 MiB, 2 x 4 and 4 x 2", "≤ 1.10",
                       [value for job in named for value in distances(job, MIB)], WIRE_FROM_1_MIB)
            + at_worst("horing / wire bound from 16 MiB", "≤ 1.06", every(lambda job: distances(job, 16 * MIB)), WIRE_FROM_16_MIB))


def marks(results):
    jobs = results["jobs"]
    found = [mark for job in jobs if job["nodes"] == 1 for mark in of_one_node(job)]
    return found + between_nodes([job for job in jobs if job["nodes"] > 1])
