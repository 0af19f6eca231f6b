#!/usr/bin/env python3
"""What an all-reduce of 8 bytes costs through torch.distributed, and on a stream of the library:

    horing-run -n 2 --bind-to core -- python bench/torch/dispatch.py

The C call is made through ctypes, which adds about 1 us to each function.
"""

from __future__ import annotations

import ctypes
import statistics
import time

import torch
import torch.distributed as dist

import horing.torch  # noqa: F401
from horing import DType, Op, _capi

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

    stream = ctypes.c_void_p()
    _capi.check(_capi.horingStreamCreate(stream))
    comm, address = dist.group.WORLD._lane.comm, tensor.data_ptr()  # nothing else uses the communicator meanwhile

    def start_c(_=None):
        _capi.check(_capi.horingAllReduce(address, address, tensor.numel(), DType.float32, Op.MAX, comm, stream))

    def await_c(_=None):
        _capi.check(_capi.horingStreamSynchronize(stream))

    cases = {
        "C on a stream, the call": lambda: median_us(await_c, start_c),
        "C on a stream, the call and horingStreamSynchronize": lambda: median_us(lambda: None, lambda _: (start_c(), await_c())[1]),
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
    c_calls: dict[bool, list[float]] = {True: [], False: []}  # by whether the operation was complete on return
    for _ in range(TURNS * CALLS):
        await_c()
        begin = time.perf_counter()
        start_c()
        seconds = time.perf_counter() - begin
        c_calls[_capi.horingStreamQuery(stream) != _capi.IN_PROGRESS].append(seconds)
    await_c()
    _capi.horingStreamDestroy(stream)
    if dist.get_rank() == 0:
        for is_complete, seconds in c_calls.items():
            if seconds:
                print(f"C on a stream, {'complete' if is_complete else 'under way'} on return: {len(seconds)} calls, "
                      f"median {1e6 * statistics.median(seconds):.1f} us")
        for name, values in turns.items():
            print(f"{name}: {statistics.median(values):.1f} us ({min(values):.1f} to {max(values):.1f})", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
