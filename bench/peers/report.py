"""Table and pictures of the comparison. Text from values; nothing here runs or measures.

The least time, by which distance is meant. D is the bytes of the whole vector, n the ranks, M the nodes.
Between nodes: what the links need at their nominal rate for the bytes that no algorithm can avoid: D(M-1)/M into each node,
twice that for all-reduce. Inside a node: what the memory needs, at the rate of two copying threads past the caches, for the
bytes that an algorithm reads and writes which reads every input once and writes every output once: nD + nD for
all-reduce, nD + D for reduce-scatter, D + nD for all-gather. What fits the caches can be faster than that.
"""
import math
import statistics

import chart
from libraries import LIBRARIES, OURS
from main_job_report import LABELS

SHARES_OF_MEMORY = {"all_reduce": lambda n: 2 * n, "reduce_scatter": lambda n: n + 1, "all_gather": lambda n: n + 1}
LEAST_BYTES_OF_DISTANCE = 4 << 10  # below, a call is all latency, and its distance to a bound of bytes says nothing
PASSES_OF_WIRE = {"all_reduce": 2, "reduce_scatter": 1, "all_gather": 1}


def least_s(job, collective, size):
    """0 where no bound is stated."""
    if job["nodes"] > 1 and collective in PASSES_OF_WIRE:
        return PASSES_OF_WIRE[collective] * size * (job["nodes"] - 1) / job["nodes"] * 8 / (job["rate_mbit"] * 1e6)
    if job["nodes"] == 1 and collective in SHARES_OF_MEMORY and job["limits"]:
        rate = statistics.median(limit["copy_bytes_per_s"] for limit in job["limits"])
        return SHARES_OF_MEMORY[collective](job["ranks_per_node"]) * size / rate
    return 0


def medians(job):
    """{(collective, bytes): {library: seconds}}"""
    found = {}
    for line in job["times"]:
        found.setdefault((line["collective"], line["bytes"]), {})[line["library"]] = statistics.median(line["seconds"])
    return found


def names_of(jobs):
    there = {line["library"] for job in jobs for line in job["times"]}
    known = [library.name for library in LIBRARIES]
    return [name for name in known if name in there] + sorted(there - set(known))


def collectives_of(job):
    return list(dict.fromkeys(name for name in LABELS if any(line["collective"] == name for line in job["times"])))[::-1]


def title(job):
    return (f"{job['nodes']} nodes × {job['ranks_per_node']} ranks, {job['rate_mbit']} Mbit/s" if job["nodes"] > 1
            else f"1 node × {job['ranks_per_node']} ranks")


def best_peer(times):
    """(name, seconds) of the fastest library that is not ours with whatever buffers, or None."""
    peers = [(seconds, name) for name, seconds in times.items() if not name.startswith(OURS)]
    return min(peers)[::-1] if peers else None


def geometric_mean(values):
    return math.exp(sum(math.log(value) for value in values) / len(values))


# ---- the table ----

LEGEND = """\
Times of a call in microseconds: medians over the rounds, of the slowest rank. ratio: horing over the fastest of the others, which is
named; below 1 horing is faster. x bound: horing's time over the least that the wire (between nodes) or the memory (on one node)
allows; what fits the caches may take less than the latter.
"""


def us(seconds):
    if seconds is None:
        return "-"
    value = seconds * 1e6
    return f"{value:.2f}" if value < 100 else f"{value:.0f}"


def row(job, collective, size, times, names):
    cells = "".join(f"{us(times.get(name)):>15}" for name in names)
    best, ours = best_peer(times), times.get(OURS)
    ratio = f"{ours / best[1]:>10.3f}  {best[0]}" if best and ours else f"{'-':>10}"
    least = least_s(job, collective, size)
    distance = f"{ours / least:>12.2f}" if least and ours else f"{'-':>12}"
    return f"{chart.bytes_text(size):>14}{cells}{distance}{ratio}\n"


def ratios(job, collective):
    """[(ratio to the best peer, bytes)] of all sizes where both were measured."""
    found = []
    for (name, size), times in sorted(medians(job).items()):
        best = best_peer(times)
        if name == collective and best and OURS in times:
            found.append((times[OURS] / best[1], size))
    return found


def spread(job, collective, size):
    """The spread of identical measurements in this run (A/A), as a factor: the medians of even and of odd rounds, of ours or of the best
    peer, whichever differ more. 1 where there are too few rounds."""
    rounds = {line["library"]: line["seconds"] for line in job["times"] if (line["collective"], line["bytes"]) == (collective, size)}
    best = best_peer({name: statistics.median(seconds) for name, seconds in rounds.items()})
    halves = [(statistics.median(rounds[name][::2]), statistics.median(rounds[name][1::2]))
              for name in (OURS, best and best[0]) if len(rounds.get(name, ())) >= 2]
    return max((max(half) / min(half) for half in halves), default=1)


def summary_line(job, collective):
    found = ratios(job, collective)
    if not found:
        return ""
    worst, size = max(found)
    mean = geometric_mean([ratio for ratio, _ in found])
    faster = sum(1 for ratio, _ in found if ratio < 1)
    return (f"{title(job):<34} {LABELS[collective]:<15} ratio to the best of the others: {mean:6.3f} geometric mean, worst "
            f"{worst:6.3f} at {chart.bytes_text(size)}; faster at {faster} of {len(found)} sizes\n")


def limits_line(job):
    if not job["limits"]:
        return ""
    copy = statistics.median(limit["copy_bytes_per_s"] for limit in job["limits"])
    trip = statistics.median(limit["round_trip_ns"] for limit in job["limits"])
    return f"  memory: {copy / 1e9:.1f} GB/s read and written by two copying threads; a word there and back {trip:.0f} ns\n"


def job_table(job, names):
    text = f"\n{title(job)}\n{limits_line(job)}"
    for failure in job["failures"]:
        text += f"  {failure['library']} FAILED at {', '.join(LABELS[name] for name in failure['collectives'])}: {failure['reason']}\n"
    found = medians(job)
    for collective in collectives_of(job):
        text += f"\n{LABELS[collective]:>14}" + "".join(f"{name:>15}" for name in names) + f"{'x bound':>12}{'ratio':>10}  to\n"
        for (kind, size), times in sorted(found.items()):
            if kind == collective:
                text += row(job, collective, size, times, names)
    return text


def table(results):
    text = "".join(job_table(job, names_of([job])) for job in results["jobs"]) + "\n"
    text += "".join(summary_line(job, collective) for job in results["jobs"] for collective in collectives_of(job))
    return text + "\n" + LEGEND


# ---- the pictures ----


def lines_of(job, collective, names, value):
    """One series for each library: value(bytes, seconds), where that is not None."""
    found = medians(job)
    lines = []
    for name in names:
        points = [(size, value(size, times[name])) for (kind, size), times in found.items()
                  if kind == collective and name in times]
        lines.append(chart.Series(name, [point for point in points if point[1] is not None]))
    return lines


def time_panel(job, collective, names):
    lines = lines_of(job, collective, names, lambda size, seconds: seconds)
    floor = min((y for line in lines for _, y in line.points), default=1)
    sizes = sorted({x for line in lines for x, _ in line.points})
    bound = [(size, least_s(job, collective, size)) for size in sizes]
    return chart.Panel(f"{LABELS[collective]}, {title(job)}", lines, "bytes of the whole vector", "time of a call",
                       chart.seconds_text, [point for point in bound if point[1] >= floor])


def bound_panel(job, collective, names):
    def distance(size, seconds):
        least = least_s(job, collective, size)
        return seconds / least if least and size >= LEAST_BYTES_OF_DISTANCE else None

    lines = lines_of(job, collective, names, distance)
    ends = [x for line in lines for x, _ in line.points]
    return chart.Panel(f"{LABELS[collective]}, {title(job)}", lines, "bytes of the whole vector", "time over the bound",
                       chart.factor_text, [(x, 1.0) for x in ends])


def pictures(results):
    """{file name: SVG}."""
    files = {}
    rounds = results["settings"]["rounds"]
    for place, jobs in (("one_node", [job for job in results["jobs"] if job["nodes"] == 1]),
                        ("nodes", [job for job in results["jobs"] if job["nodes"] > 1])):
        jobs = [job for job in jobs if job["times"]]
        if not jobs:
            continue
        names = names_of(jobs)
        # The same in every picture.
        order = [library.name for library in LIBRARIES] + names
        colours = {name: order.index(name) % len(chart.SERIES_COLOURS) for name in names}
        where = "on one node" if place == "one_node" else "between emulated nodes with slow links"
        for kind, panel, what in (("time", time_panel, "Time of a collective"), ("bound", bound_panel, "Distance to the bound")):
            rows = [[panel(job, collective, names) for collective in collectives_of(job)] for job in jobs]
            files[f"peers_{kind}_{place}.svg"] = chart.page(
                f"{what} {where}", f"float32, medians of {rounds} turns of each library, taken one after the other; slowest rank. "
                + ("Bound: " + ("memory" if place == "one_node" else "wire") + ", see bench/peers/README.md."), rows, colours)
    return files
