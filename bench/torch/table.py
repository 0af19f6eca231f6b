#!/usr/bin/env python3
"""Prints results of against_gloo.py as tables in Markdown: python bench/torch/table.py results/*.json"""

import json
import math
import statistics
import sys

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


def main() -> None:
    for path in sys.argv[1:]:
        with open(path) as file:
            run = json.load(file)
        rows = {(row["collective"], row["bytes"]): row for row in run["rows"]}
        sizes = run.get("ranks_of_nodes", [run["ranks"] // run["nodes"]] * run["nodes"])
        of_each = f"{sizes[0]} ranks" if len(set(sizes)) == 1 else " + ".join(map(str, sizes)) + " ranks"
        where = f"{run['nodes']} nodes of {of_each}, {run['rate_mbit']:g} Mbit/s" if run["nodes"] > 1 else f"{run['ranks']} ranks on one node"
        mean = math.exp(statistics.fmean(math.log(row["ratio"]) for row in run["rows"]))
        print(f"**{where}** (torch {run['torch']}; geometric mean {mean:.2f})\n")
        print("| bytes | " + " | ".join(COLLECTIVES) + " |\n|---" + "|---" * len(COLLECTIVES) + "|")
        for number in sorted({number for _, number in rows}):
            print(f"| {size_of(number)} | " + " | ".join(cell(rows[name, number]) for name in COLLECTIVES if (name, number) in rows) + " |")
        print()


if __name__ == "__main__":
    main()
