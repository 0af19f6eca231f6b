#!/usr/bin/env python3
"""Prints results of against_gloo.py as tables in Markdown, and draws them: python bench/torch/table.py results/*.json --svg FILE"""

import argparse
import json
import math
import statistics
from html import escape

COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast")


def size_of(number: int) -> str:
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if number >= unit:
            return f"{number // unit} {name}"
    return f"{number} B"


def time_of(us: float) -> str:
    return f"{us / 1000:.0f} ms" if us >= 10_000 else f"{us / 1000:.1f} ms" if us >= 1000 else f"{us:.0f} us"


def cell(row: dict) -> str:
    wire = f", {row['horing'] / row['wire']:.2f} wire" if row.get("wire", 0) > 1000 else ""
    return f"{time_of(row['horing'])} / {time_of(row['gloo'])} = {row['ratio']:.2f}{wire}"


def name_of(run: dict) -> str:
    sizes = run.get("ranks_of_nodes", [run["ranks"] // run["nodes"]] * run["nodes"])
    of_each = f"{sizes[0]} ranks" if len(set(sizes)) == 1 else " + ".join(map(str, sizes)) + " ranks"
    return f"{run['nodes']} nodes of {of_each}, {run['rate_mbit']:g} Mbit/s" if run["nodes"] > 1 else f"{run['ranks']} ranks on one node"


def print_table(run: dict) -> None:
    rows = {(row["collective"], row["bytes"]): row for row in run["rows"]}
    mean = math.exp(statistics.fmean(math.log(row["ratio"]) for row in run["rows"]))
    print(f"**{name_of(run)}** (torch {run['torch']}; geometric mean {mean:.2f})\n")
    print("| bytes | " + " | ".join(COLLECTIVES) + " |\n|---" + "|---" * len(COLLECTIVES) + "|")
    for number in sorted({number for _, number in rows}):
        print(f"| {size_of(number)} | " + " | ".join(cell(rows[name, number]) for name in COLLECTIVES if (name, number) in rows) + " |")
    print()


LEAST, MOST, SMALLEST, LARGEST = 0.005, 1.5, 8, 64 << 20  # ratios and bytes at the edges of a chart
WIDTH, HEIGHT, LEFT, TOP, ACROSS = 330, 190, 44, 30, 3  # of a chart, of what is left of and above it; charts side by side
COLORS = dict(zip(COLLECTIVES, ("#2f6fc4", "#1d9a6c", "#c9701d", "#9a4fc0", "#c43d54")))
STYLE = """text{font:11px system-ui,'DejaVu Sans',sans-serif;fill:#5a6675}.name{font-size:13px;font-weight:600;fill:#1f2733}
.page{fill:#fff}.grid{stroke:#d9dee5}.same{stroke:#5a6675;stroke-dasharray:4 3}polyline{fill:none;stroke-width:1.6}
@media (prefers-color-scheme:dark){text{fill:#a4afbd}.name{fill:#e4e8ee}.page{fill:#14181d}.grid{stroke:#2c343e}.same{stroke:#a4afbd}}"""


def share(value: float, low: float, high: float) -> float:
    return math.log(value / low) / math.log(high / low)


def draw_chart(left: int, top: int, run: dict) -> str:
    def x(size: float) -> float:
        return left + LEFT + share(size, SMALLEST, LARGEST) * (WIDTH - LEFT - 24)

    def y(ratio: float) -> float:
        return top + TOP + (1 - share(max(ratio, LEAST), LEAST, MOST)) * (HEIGHT - TOP - 26)

    parts = [f'<text class="name" x="{left + 8}" y="{top + 18}">{escape(name_of(run))}</text>']
    for ratio in (0.01, 0.1, 1):
        parts.append(f'<line class="{"same" if ratio == 1 else "grid"}" x1="{x(SMALLEST)}" x2="{x(LARGEST)}" y1="{y(ratio):.1f}" y2="{y(ratio):.1f}"/>'
                     f'<text x="{left + LEFT - 6}" y="{y(ratio) + 4:.1f}" text-anchor="end">{ratio:g}</text>')
    for size in (8, 4096, 1 << 20, 64 << 20):
        parts.append(f'<text x="{x(size):.1f}" y="{top + HEIGHT - 10}" text-anchor="middle">{size_of(size)}</text>')
    for collective in COLLECTIVES:
        points = sorted((row["bytes"], row["ratio"]) for row in run["rows"] if row["collective"] == collective)
        parts.append(f'<polyline stroke="{COLORS[collective]}" points="{" ".join(f"{x(size):.1f},{y(ratio):.1f}" for size, ratio in points)}"/>')
    return "\n".join(parts)


def draw(runs: list[dict]) -> str:
    title = "Time on horing / time on Gloo through torch.distributed, by bytes of the larger buffer"
    width, height = WIDTH * min(ACROSS, len(runs)), 48 + HEIGHT * -(-len(runs) // ACROSS)
    legend = "".join(f'<text x="{8 + 110 * number}" y="40" style="fill:{COLORS[name]}">{name}</text>' for number, name in enumerate(COLLECTIVES))
    charts = "\n".join(draw_chart(number % ACROSS * WIDTH, 48 + number // ACROSS * HEIGHT, run) for number, run in enumerate(runs))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">\n'
            f'<title>{escape(title)}</title><style>{STYLE}</style><rect class="page" width="{width}" height="{height}"/>\n'
            f'<text class="name" x="8" y="20">{escape(title)}</text>{legend}\n{charts}\n</svg>\n')


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", nargs="+")
    parser.add_argument("--svg", help="file for the picture")
    arguments = parser.parse_args()
    runs = []
    for path in arguments.results:
        with open(path) as file:
            runs.append(json.load(file))
    runs.sort(key=lambda run: (run["nodes"], run["ranks"], run["rate_mbit"]))
    for run in runs:
        print_table(run)
    if arguments.svg:
        with open(arguments.svg, "w") as file:
            file.write(draw(runs))


if __name__ == "__main__":
    main()
