"""What a call from Python costs: an all-reduce of 8 bytes through the package, and through ctypes alone.

    horing-run -n 2 --bind-to core -- python python/bench/calls.py
    horing-run -n 2 --bind-to core -- all_reduce_perf -b 8 -e 8 -n 20000      # the C call
"""

import statistics
import time

import numpy as np

import horing
from horing import _capi

CALLS, SAMPLES = 5000, 9


def microseconds(call):
    """Median over samples, each the mean of many calls."""
    samples = []
    for _ in range(SAMPLES):
        begin = time.perf_counter()
        for _ in range(CALLS):
            call()
        samples.append(1e6 * (time.perf_counter() - begin) / CALLS)
    return f"{statistics.median(samples):6.2f} us  ({min(samples):.2f} to {max(samples):.2f})"


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
