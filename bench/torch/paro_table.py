#!/usr/bin/env python3
"""Prints results of paro.py as tables in Markdown, and draws them: python bench/torch/paro_table.py results/paro/*.json --svg FILE"""

from __future__ import annotations

import argparse
import json
import statistics
from html import escape

BAR, LEFT, WIDTH, HEAD = 16, 130, 330, 54  # of a bar, of names, of a chart, and of what is above it
STYLE = """text{font:11px system-ui,'DejaVu Sans',sans-serif;fill:#5a6675}.name{font-size:13px;font-weight:600;fill:#1f2733}
.page{fill:#fff}.paro{fill:#2f6fc4}.other{fill:#b9c1cc}
@media (prefers-color-scheme:dark){text{fill:#a4afbd}.name{fill:#e4e8ee}.page{fill:#14181d}.other{fill:#5a6675}}"""


def label_of(row: dict) -> str:
    if "strategy" not in row:
        return row["name"]
    return f"PaRO auto ({row['strategy']})" if row["name"] == "auto" else f"PaRO {row['name']}"


def tokens_of(run: dict, row: dict) -> float:
    return run["tokens"] / statistics.median(row["seconds"])


def print_table(run: dict) -> None:
    by_name = {row["name"]: row for row in run["rows"]}
    bases = [name for name in ("FSDP2 Gloo", "FSDP2 horing") if name in by_name]
    print(f"**{run['micro_steps']} micro-step{'s'[:run['micro_steps'] != 1]}, {run['nodes']} nodes of {run['ranks'] // run['nodes']} ranks, "
          f"{run['rate_mbit']:g} Mbit/s, {run['parameters'] / 1e6:.1f} M parameters** (torch {run['torch']}; load {run['load'][0]:.1f} at the end)\n")
    print("| | s a step (least to most) | tokens/s |" + "".join(f" x {name} |" for name in bases) + " state of a rank | from a node |")
    print("|---" * (5 + len(bases)) + "|")
    for row in run["rows"]:
        seconds = row["seconds"]
        ratios = "".join(f" {tokens_of(run, row) / tokens_of(run, by_name[name]):.2f} |" for name in bases)
        print(f"| {label_of(row)} | {statistics.median(seconds):.2f} ({min(seconds):.2f} to {max(seconds):.2f}) | {tokens_of(run, row):.1f} |{ratios} "
              f"{row['state'] / 1e6:.1f} MB | {statistics.median(row['sent']) / 1e6:.1f} MB |")
    print()


def draw_chart(left: int, run: dict) -> str:
    most = max(tokens_of(run, row) for row in run["rows"])
    parts = [f'<text class="name" x="{left + 8}" y="40">{run["micro_steps"]} micro-step{"s"[:run["micro_steps"] != 1]}, tokens/s</text>']
    for number, row in enumerate(run["rows"]):
        y, length = HEAD + number * (BAR + 6), tokens_of(run, row) / most * (WIDTH - LEFT - 60)
        parts.append(f'<text x="{left + LEFT - 6}" y="{y + 12}" text-anchor="end">{escape(label_of(row))}</text>'
                     f'<rect class="{"paro" if "strategy" in row else "other"}" x="{left + LEFT}" y="{y}" width="{length:.1f}" height="{BAR}"/>'
                     f'<text x="{left + LEFT + length + 4:.1f}" y="{y + 12}">{tokens_of(run, row):.0f}</text>')
    return "\n".join(parts)


def draw(runs: list[dict]) -> str:
    height = HEAD + max(len(run["rows"]) for run in runs) * (BAR + 6) + 8
    first = runs[0]
    title = (f"A GPT of {first['parameters'] / 1e6:.1f} M parameters on {first['nodes']} nodes of {first['ranks'] // first['nodes']} ranks, "
             f"{first['rate_mbit']:g} Mbit/s")
    charts = "\n".join(draw_chart(number * WIDTH, run) for number, run in enumerate(runs))
    width = WIDTH * len(runs)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">\n'
            f'<title>{escape(title)}</title><style>{STYLE}</style><rect class="page" width="{width}" height="{height}"/>\n'
            f'<text class="name" x="8" y="18">{escape(title)}</text>\n{charts}\n</svg>\n')


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="+")
    parser.add_argument("--svg", help="file for the picture")
    arguments = parser.parse_args()
    runs = []
    for path in arguments.results:
        with open(path) as file:
            runs.append(json.load(file))
    runs.sort(key=lambda run: run["micro_steps"])
    for run in runs:
        print_table(run)
    if arguments.svg:
        with open(arguments.svg, "w") as file:
            file.write(draw(runs))


if __name__ == "__main__":
    main()
