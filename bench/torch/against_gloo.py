#!/usr/bin/env python3
"""Times collectives of torch.distributed on the backends horing and gloo, side by side.

Started by horing-run or torchrun on every rank:

    horing-run -n 4 -- python bench/torch/against_gloo.py
    horing-run -n 8 --nodes 2 --rate 1000 -- python bench/torch/against_gloo.py
    horing-run --ranks-per-node 4,3 --rate 500 -- python bench/torch/against_gloo.py

Both backends are measured in turns, on the same tensors, and the medians are compared. Rank 0 prints a table for each
collective (microseconds, the slowest rank's median) and, with --json FILE, writes all of it. With --nodes it also prints the
time that the links need for the bytes that no algorithm can avoid.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import time
import warnings

import torch
import torch.distributed as dist

import horing.torch  # noqa: F401
from both_backends import init_both

COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast")


def make_call(name: str, count: int, size: int, group):
    """A call without arguments; `count` floats are the larger of its buffers, which has one for each rank at least."""
    count = max(count, size)
    large = torch.ones(count)
    small = torch.ones(max(1, count // size))
    parts, parts_too = large[:small.numel() * size], torch.ones(small.numel() * size)
    return {
        "all_reduce": lambda: dist.all_reduce(large, dist.ReduceOp.MAX, group=group),
        "all_gather": lambda: dist.all_gather_into_tensor(parts, small, group=group),
        "reduce_scatter": lambda: dist.reduce_scatter_tensor(small, parts, group=group),
        "all_to_all": lambda: dist.all_to_all_single(parts, parts_too, group=group),
        "broadcast": lambda: dist.broadcast(large, 0, group=group),
    }[name]


def crossing_bytes(name: str, count: int, nodes: list[int]) -> float:
    """What has to enter or leave the busiest node, at least, as a number of bytes. `nodes`: the ranks of each."""
    whole, size = 4 * count, sum(nodes)
    others = whole * (1 - min(nodes) / size)
    return {"all_reduce": 2 * whole * (len(nodes) - 1) / len(nodes), "all_gather": others, "reduce_scatter": others,
            "all_to_all": max(whole * ranks * (size - ranks) / size for ranks in nodes), "broadcast": whole}[name]


def ranks_of_nodes() -> list[int]:
    ranks = torch.zeros(int(os.environ.get("HORING_RUN_NODES", 1)), dtype=torch.int64)
    ranks[int(os.environ.get("HORING_RUN_NODE", 0))] = 1
    dist.all_reduce(ranks)
    return ranks.tolist()


def median_us(call, repeats: int) -> float:
    """The median of this rank's times. Ranks are in step before each, by the call before."""
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return 1e6 * statistics.median(times)


def slowest(value: float) -> float:
    tensor = torch.tensor([value], dtype=torch.float64)
    dist.all_reduce(tensor, dist.ReduceOp.MAX)
    return tensor.item()


def repeats_for(call, budget: float, least: int, most: int) -> int:
    call()
    begin = time.perf_counter()
    call()
    return max(least, min(most, int(budget / max(1e-6, slowest(time.perf_counter() - begin)))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--collectives", nargs="+", default=COLLECTIVES, choices=COLLECTIVES)
    parser.add_argument("--sizes", type=int, nargs="+", default=[8 << (3 * step) for step in range(8)] + [64 << 20],
                        help="bytes of the larger buffer")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each backend, of which the median counts")
    parser.add_argument("--budget", type=float, default=0.3, help="seconds for one backend, size and turn")
    parser.add_argument("--json", help="file for all results")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", FutureWarning)  # newer torch has other names for some of these
    groups = init_both()
    size, rank = dist.get_world_size(), dist.get_rank()
    ranks, rate = ranks_of_nodes(), float(os.environ.get("HORING_RUN_RATE_MBIT", 0))
    nodes = len(ranks)
    results = []
    for name in arguments.collectives:
        if rank == 0:
            print(f"\n{name}, {size} ranks" + (f" on {nodes} nodes at {rate:g} Mbit/s" if nodes > 1 else ""), flush=True)
            print(f"{'bytes':>10} {'gloo us':>12} {'horing us':>12} {'ratio':>7}" + (f" {'wire us':>12} {'of wire':>8}" if nodes > 1 else ""))
        for number in arguments.sizes:
            row = measure(name, number, size, groups, arguments)
            if nodes > 1:
                row["wire"] = crossing_bytes(name, number // 4, ranks) * 8 / rate
            results.append(row)
            if rank == 0:
                print_row(row)
    if rank == 0:
        print(f"\ngeometric mean of the ratios: {math.exp(statistics.fmean(math.log(row['ratio']) for row in results)):.3f}")
        if arguments.json:
            with open(arguments.json, "w") as file:
                json.dump({"ranks": size, "nodes": nodes, "ranks_of_nodes": ranks, "rate_mbit": rate, "torch": torch.__version__, "rows": results}, file, indent=1)
    dist.destroy_process_group()


def measure(name: str, number: int, size: int, groups: dict, arguments) -> dict:
    calls = {backend: make_call(name, number // 4, size, group) for backend, group in groups.items()}
    repeats = {backend: repeats_for(call, arguments.budget, 2, 200) for backend, call in calls.items()}
    medians = {backend: [] for backend in calls}
    for _ in range(arguments.rounds):
        for backend, call in calls.items():
            dist.barrier()
            medians[backend].append(slowest(median_us(call, repeats[backend])))
    row = {"collective": name, "bytes": number} | {backend: statistics.median(values) for backend, values in medians.items()}
    return row | {"ratio": row["horing"] / row["gloo"]}


def print_row(row: dict) -> None:
    wire = f" {row['wire']:>12.1f} {row['horing'] / row['wire']:>8.2f}" if "wire" in row else ""
    print(f"{row['bytes']:>10} {row['gloo']:>12.1f} {row['horing']:>12.1f} {row['ratio']:>7.3f}{wire}", flush=True)


if __name__ == "__main__":
    main()
