"""What a call from Python costs: an all-reduce of 8 bytes through the package, and through ctypes alone.

    horing-run -n 2 --bind-to core -- python python/bench/calls.py
    horing-run -n 2 --bind-to core -- all_reduce_perf -b 8 -e 8 -n 2000      # the C call

Shows the median and the quartiles of single calls on rank 0, so that what else runs on the machine matters little.
"""

import statistics
import time

import numpy as np

import horing
from horing import _capi

CALLS = 4000


def microseconds(call):
    times = []
    for _ in range(CALLS):
        begin = time.perf_counter()
        call()
        times.append(1e6 * (time.perf_counter() - begin))
    low, middle, high = statistics.quantiles(times, n=4)
    return f"{middle:7.2f} us  ({low:.2f} to {high:.2f})"


def main():
    with horing.Communicator.from_environment() as comm, horing.Stream() as stream:
        array = np.ones(2, "f4")
        address, handle = array.ctypes.data, comm.handle

        def on_stream():
            comm.all_reduce(array, op=horing.Op.MAX, stream=stream)
            stream.synchronize()

        rows = {
            "comm.all_reduce(numpy array)": lambda: comm.all_reduce(array, op=horing.Op.MAX),
            "horingAllReduce through ctypes": lambda: _capi.horingAllReduce(address, address, 2, 7, 2, handle, None),
            "horing.view(numpy array)": lambda: horing.view(array),
            "on a stream, synchronized each time": on_stream,
        }
        for name, call in rows.items():
            text = microseconds(call)
            if comm.rank == 0:
                print(f"{name:36} {text}", flush=True)


if __name__ == "__main__":
    main()
