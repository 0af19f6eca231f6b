#!/usr/bin/env python3
"""What an all-reduce of 8 bytes costs through torch.distributed: horing-run -n 2 --bind-to core -- python bench/torch/dispatch.py"""

from __future__ import annotations

import statistics
import time

import torch
import torch.distributed as dist

import horing.torch  # noqa: F401

TURNS, CALLS = 5, 300


def median_us(before, timed) -> float:
    """Of timed(before()), where `before` does not count."""
    times = []
    for _ in range(CALLS):
        given = before()
        begin = time.perf_counter()
        made = timed(given)
        times.append(time.perf_counter() - begin)
        if made is not None:
            made.wait()
    return 1e6 * statistics.median(times)


def main() -> None:
    dist.init_process_group("horing")
    tensor = torch.ones(2)

    def start(_=None):
        return dist.all_reduce(tensor, dist.ReduceOp.MAX, async_op=True)

    cases = {
        "blocking": lambda: median_us(lambda: None, lambda _: dist.all_reduce(tensor, dist.ReduceOp.MAX)),
        "async_op, the call": lambda: median_us(lambda: None, start),
        "async_op, the call and wait()": lambda: median_us(lambda: None, lambda _: start().wait() and None),
        "wait() 1 ms later": lambda: median_us(lambda: (start(), time.sleep(0.001))[0], lambda work: work.wait() and None),
    }
    turns: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(TURNS):
        for name, measure in cases.items():
            dist.barrier()
            turns[name].append(measure())
    if dist.get_rank() == 0:
        for name, values in turns.items():
            print(f"{name}: {statistics.median(values):.1f} us ({min(values):.1f} to {max(values):.1f})", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
