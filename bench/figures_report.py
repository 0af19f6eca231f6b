"""The commands of bench/figures.py, and the figures in their results: rows of (figure, goal, measured, command)."""
import json
import statistics
import re
import sys
from pathlib import Path
from typing import NamedTuple

sys.path.append(str(Path(__file__).resolve().parent / "peers"))
import main_job_report
import marks
from main_job_report import LABELS, MIB

MICRO = ["--benchmark_min_time=0.1", "--benchmark_repetitions=7", "--benchmark_enable_random_interleaving=true",
         "--benchmark_report_aggregates_only=true", "--benchmark_out_format=json"]

# {bin}: folder of the programs; {results}: where output belongs. The name is that of the results.
COMMANDS = {
    "main_job": ["python3", "bench/main_job.py", "--bin", "{bin}", "--out", "{results}/main_job"],
    "peers": ["python3", "bench/peers/sweep.py", "--bin", "{bin}", "--out", "{results}/peers"],
    "interpreter": ["{bin}/interpreter_bench"],
    "plan": ["{bin}/plan_bench", *MICRO, "--benchmark_out={results}/plan.json"],
    "oversubscription": ["python3", "bench/oversubscription.py", "--bin", "{bin}", "--json",
                         "{results}/oversubscription.json"],
    "limits": ["python3", "bench/limits.py", "--bin", "{bin}", "--json", "{results}/limits.json"],
    "fold": ["{bin}/fold_bench", *MICRO, "--benchmark_filter=(memcpy|sum/k2/d1)/65536", "--benchmark_out={results}/fold.json"],
    "transport": ["{bin}/transport_bench"],
    "socket": ["{bin}/socket_bench"],
    "sim": ["python3", "bench/sim/simulator.py", "--bin", "{bin}", "--out", "{results}/sim"],
}

# As one types them: without the options that only concern the results.
SHOWN = {
    "main_job": "python3 bench/main_job.py",
    "peers": "./tools/dev bench --peers",
    "interpreter": "interpreter_bench",
    "plan": "plan_bench",
    "oversubscription": "python3 bench/oversubscription.py",
    "limits": "python3 bench/limits.py",
    "fold": "fold_bench --benchmark_filter='(memcpy\\|sum/k2/d1)/65536'",
    "transport": "transport_bench",
    "socket": "socket_bench",
    "sim": "python3 bench/sim/simulator.py",
}


# The name of a row without results.
ABOUT = {
    "main_job": ("`ho_ring` and `ring` against the wire and each other", "≤ 1.06, 1.04, 1.05; ≥ 0.95; bytes ≤ 1.03"),
    "peers": ("horing / the fastest of Open MPI, MPICH and Gloo", "< 1"),
    "interpreter": ("interpreter / ring by hand, 8 KiB to 16 MiB", "≤ 1.03"),
    "plan": ("build, verify and cache a plan, n = 8, 64, 512, 4096", ""),
    "oversubscription": ("all-reduce of 8 B and 64 KiB, 16 ranks / 2 ranks; an idle rank", "≤ 16; < 2 % of a core"),
    "limits": ("making 64 ranks; all-to-all and uneven blocks over the wire bound", "< 2 s; ≤ 1.10"),
    "fold": ("fold / memcpy", ""),
    "transport": ("shm", ""),
    "socket": ("socket transport / raw TCP", ""),
    "sim": ("simulating 2,048 x 8 ranks; the outer ring against the wire; a schedule at 16,384 ranks", "< 60 s, < 8 GiB; ≥ 0.95; < 5 ms, < 1 MiB"),
}


class Row(NamedTuple):
    figure: str
    goal: str = ""
    measured: str = ""
    met: bool | None = None  # None: there is no goal, or no figure


# ---- one function for each command: the folder of results to rows ----


def worst_of(figure, goal, values, met, pick=max):
    """`values`: pairs of (number, where). The row names the worst."""
    if not values:
        return Row(figure, goal)
    number, where = pick(values)
    return Row(figure, goal, f"{number:.3f} at worst ({where})", met)


def main_job_cases(shapes):
    for shape in shapes:
        for size, collective, ring, ho_ring, comparison, raw in main_job_report.cases(shape):
            where = (f"{LABELS[collective]}, {size // MIB} MiB, {shape['nodes']} x {shape['ranks_per_node']} at "
                     f"{shape['rate_mbit']}")
            yield size // MIB, where, ring, ho_ring, comparison, raw


def main_job(results):
    shapes = json.loads((results / "main_job" / "results.json").read_text(encoding="utf-8"))["shapes"]
    cases = [case for case in main_job_cases(shapes) if case[0] in main_job_report.OVER_WIRE_BOUND]
    of_mib = {mib: [case for case in cases if case[0] == mib] for mib in main_job_report.OVER_WIRE_BOUND}
    allowed_64 = {where: max(1.04, 1.02 * raw["over_wire_bound"] if raw else 0) for _, where, *_, raw in of_mib[64]}
    over = {mib: [(ho["over_wire_bound"], where) for _, where, _, ho, _, _ in of_mib[mib]] for mib in of_mib}
    own = [(ring["over_own_bound"], where) for _, where, ring, *_ in cases]
    theory = [(comparison["of_theory"], where) for _, where, _, _, comparison, _ in of_mib[64]]
    crossed = [(ho["link_bytes_over_wire_bound"], where) for _, where, _, ho, _, _ in cases
               if "link_bytes_over_wire_bound" in ho]
    return [
        worst_of("`ho_ring` over the wire bound, 16 MiB", "≤ 1.06", over[16], all(x <= 1.06 for x, _ in over[16])),
        worst_of("`ho_ring` over the wire bound, 64 MiB", "≤ 1.04, or 1.02 x raw TCP", over[64],
                 all(x <= allowed_64[where] for x, where in over[64])),
        worst_of("`ring` over its own bound", "≤ 1.05", own, all(x <= 1.05 for x, _ in own)),
        worst_of("`ring` / `ho_ring` at 64 MiB, of theory", "≥ 0.95", theory, all(x >= 0.95 for x, _ in theory), min),
        worst_of("bytes over the busiest link, over the bound", "≤ 1.03", crossed, all(x <= 1.03 for x, _ in crossed)),
    ]


def peers(results):
    return [Row(*mark) for mark in marks.marks(json.loads((results / "peers" / "peers.json").read_text(encoding="utf-8")))]


INTERPRETER_LINE = re.compile(r"^(\d) threads? +(\d+) +(\w+) +(\d+) +[\d.]+ +[\d.]+ +([\d.]+)$", re.MULTILINE)


def interpreter(results):
    found = INTERPRETER_LINE.findall((results / "interpreter.txt").read_text(encoding="utf-8"))
    rows = []
    for threads, ranks in sorted({line[:2] for line in found}, reverse=True):
        ratios = {int(kib): float(ratio) for t, r, collective, kib, ratio in found
                  if (t, r, collective) == (threads, ranks, "all_reduce")}
        measured = ", ".join(f"{ratio:.3f}" for ratio in ratios.values())
        sizes = ", ".join(f"{kib} KiB" if kib < 1024 else f"{kib // 1024} MiB" for kib in ratios)
        rows.append(Row(f"interpreter / ring by hand, all-reduce of {sizes}, {ranks} ranks in {threads} thread"
                        f"{'s' if threads != '1' else ''}", "≤ 1.03", measured, max(ratios.values()) <= 1.03))
    return rows


def medians_us(path):
    """CPU time in microseconds, by name."""
    scale = {"ns": 1e-3, "us": 1, "ms": 1e3}
    report = json.loads(path.read_text(encoding="utf-8"))["benchmarks"]
    return {line["run_name"]: line["cpu_time"] * scale[line["time_unit"]] for line in report
            if line.get("aggregate_name") == "median"}


SHAPE_OF_RANKS = {8: "2/4", 64: "8/8", 512: "64/8", 4096: "512/8"}


def us_text(us):
    return f"{us:.3g}" if us < 1000 else f"{us:.0f}"


def plan(results):
    times_us = medians_us(results / "plan.json")

    def row(figure, names):
        texts = []
        for algorithm in ("ring", "ho_ring"):
            parts = [[f"{name}/{algorithm}/{shape}" for name in names] for shape in SHAPE_OF_RANKS.values()]
            times = [us_text(sum(times_us[name] for name in part)) if all(name in times_us for name in part)
                     else "not run" for part in parts]
            texts.append(f"`{algorithm}` " + ", ".join(times))
        return Row(f"{figure}, n = {', '.join(map(str, SHAPE_OF_RANKS))}: us", "", "; ".join(texts))

    return [row("build the schedule of a rank", ["BuildOneRank"]),
            row("verify all ranks (4096: n² steps, some 10 GB)", ["VerifyValues", "VerifyProgress"]),
            row("first use of a communicator: build, bind, ask sysfs for the caches, verify if n ≤ 64", ["FirstUse"]),
            row("find the plan again and begin a call", ["CachedAndBegun"])]


def oversubscription(results):
    report = json.loads((results / "oversubscription.json").read_text(encoding="utf-8"))
    rows = [Row(f"all-reduce of {line['bytes']} B, 16 ranks / 2 ranks", "≤ 16",
                f"{line['ratio']:.1f} ({line['many_us']:.1f} us / {line['few_us']:.2f} us)", line["ratio"] <= 16)
            for line in report["ratios"]]
    barrier_us = statistics.median(report["barrier_us"])
    rows.append(Row("its floor: a barrier of 16 processes that only yield / all-reduce of 8 B, 2 ranks", "",
                    f"{barrier_us / report['ratios'][0]['few_us']:.1f} ({barrier_us:.1f} us)"))
    most = max(line["share_of_a_core"]["most"] for line in report["idle"])
    return rows + [Row("core of a rank that waits 3 s", "< 2 %", f"{100 * most:.2f} %", most < 0.02)]


def limits(results):
    report = json.loads((results / "limits.json").read_text(encoding="utf-8"))
    init_s = report["init"]["init_s"]["median"]
    rows = [Row(f"make a communicator of {report['init']['ranks']} ranks, first call to last return", "< 2 s",
                f"{init_s:.3f} s", init_s < 2)]
    worst = max(report["bounds"], key=lambda line: line["over_bound"], default=None)
    if worst:
        shape = f"{worst['nodes']} x {worst['ranks'] // worst['nodes']} at {worst['rate_mbit']:g}"
        rows.append(Row("all-to-all and uneven blocks over the wire bound, 16 MiB", "≤ 1.10",
                        f"{worst['over_bound']:.3f} at worst ({worst['collective']}, {shape}); {len(report['bounds'])} cases",
                        worst["over_bound"] <= 1.10))
    return rows


def fold(results):
    times = medians_us(results / "fold.json")
    best = next((simd for simd in ("avx512", "avx2", "plain") if f"fold/{simd}/float32/sum/k2/d1/65536" in times), None)
    if best is None:
        return [Row(*ABOUT["fold"])]
    ratios = [times[f"fold/{best}/{kind}/sum/k2/d1/65536"] / times["memcpy/65536"] for kind in ("float32", "bfloat16")]
    return [Row(f"fold of two 64 KiB operands ({best}) / memcpy of one", "",
                f"float32 {ratios[0]:.2f}, bfloat16 {ratios[1]:.2f}")]


def transport(results):
    text = (results / "transport.txt").read_text(encoding="utf-8")
    latency = re.search(r"raw flag (\d+) .*through a slot (\d+) ", text)
    slots = re.search(r"^ *256 KiB.*slots of \d+ KiB ([\d.]+) .*readv ([\d.]+) ", text, re.MULTILINE)
    return [Row("shm: 8 B through a slot / raw flag, one way; 256 KiB through slots / by `process_vm_readv`", "",
                f"{latency[2]} / {latency[1]} ns; {slots[1]} / {slots[2]} GB/s")]


def socket(results):
    text = (results / "socket.txt").read_text(encoding="utf-8")
    ratios = re.findall(r"^(duplex|latency) (\d+) B.* ([\d.]+)$", text, re.MULTILINE)
    return [Row("socket transport / raw TCP over loopback", "",
                ", ".join(f"{what} of {size} B {ratio}" for what, size, ratio in ratios))]


def outer_ring(folder, rate):
    text = (folder / f"nodes_{rate}.txt").read_text(encoding="utf-8")
    nodes, efficiencies = re.search(r"^# [\d.]+ GB/s: on ([\d, ]+) nodes, (.*)$", text, re.MULTILINE).groups()
    waits = re.search(r": (not on [\d, ]+), where one row .*? M-1 hops, (.*)$", text, re.MULTILINE)
    least = min(float(number) for number in re.findall(r">= ([\d.]+)", efficiencies + (waits[2] if waits else "")))
    left = re.search(r"selection (leaves|keeps) (.*)$", text, re.MULTILINE)
    return Row(f"outer ring, wire bound / time at {rate} GB/s where it should be at the wire; the crossover", "≥ 0.95",
               f"on {nodes} nodes {efficiencies}; {waits[1] + ' (what moves inside takes longer than the wire, or nearly so): ' + waits[2] + '; ' if waits else ''}"
               f"selection {left[1]} {left[2]}", least >= 0.95)


def sim(results):
    folder = results / "sim"
    cost = json.loads((folder / "sim.json").read_text(encoding="utf-8"))
    scale = max((cost["scale"], cost["scale_direct"]), key=lambda run: run["seconds"])
    schedule = (folder / "schedule.txt").read_text(encoding="utf-8")
    built = re.findall(r"/(\w+)/2048/8 +([\d.]+) us .*bytes=([\d.]+)(k?)", schedule)
    kib = {name: float(number) * (1000 if kilo else 1) / 1024 for name, _, number, kilo in built}
    return [Row("simulating all-reduce of 1 GiB on 2,048 x 8 ranks, one core", "< 60 s, < 8 GiB",
                f"{scale['seconds']:.1f} s ({scale['core_seconds']:.1f} s of the core), {scale['mib']} MiB", scale["seconds"] < 60 and scale["mib"] < 8192),
            *(outer_ring(folder, rate) for rate in ("12.5", "50")),
            Row("build the schedule of a rank of 16,384", "< 5 ms, < 1 MiB",
                ", ".join(f"`{name}` {us} us, {kib[name]:.1f} KiB" for name, us, *_ in built),
                all(float(us) < 5000 for _, us, *_ in built) and all(size < 1024 for size in kib.values()))]


READERS = {"main_job": main_job, "peers": peers, "interpreter": interpreter, "plan": plan, "oversubscription": oversubscription,
           "limits": limits, "fold": fold, "transport": transport, "socket": socket, "sim": sim}


# ---- what people read ----


def rows_of(name, results):
    try:
        return READERS[name](results)
    except FileNotFoundError:
        return [Row(*ABOUT[name])]


def words(row):
    if not row.measured:
        return "not yet measured"
    return row.measured + {True: ": met", False: ": MISSED", None: ""}[row.met]


def machine_text(results):
    try:
        it = json.loads((results / "machine.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return "no machine yet"
    return f"{it['cpu']}, {it['cores']} cores, Linux {it['kernel']}, {it['date']}"


def summary(results):
    lines = [f"{row.figure} [{row.goal or 'no goal'}]: {words(row)}" for name in COMMANDS for row in rows_of(name, results)]
    return "\n".join([f"On {machine_text(results)}:", *lines])


def table(results):
    text = f"Measured on: {machine_text(results)}.\n\n| figure | goal | measured | command |\n|---|---|---|---|\n"
    for name in COMMANDS:
        for row in rows_of(name, results):
            text += f"| {row.figure} | {row.goal} | {words(row)} | `{SHOWN[name]}` |\n"
    return text
