"""Ranks that are killed, stopped, or make another call end in errors through NCCL's interface: trouble_test.py LIBRARY

Three processes. Without a deadline of the caller, the other two get an error in seconds, which names the third, from the call,
ncclCommGetAsyncError and ncclGetLastError.
"""
import ctypes
import os
import signal
import subprocess
import sys
import time

from ctypes_test import FLOAT, SUM, UniqueId, check, open_library

RANKS, COUNT, LIMIT_S = 3, 1000, 15
INVALID_USAGE, REMOTE_ERROR = 5, 6
EXPECTED = {"killed": REMOTE_ERROR, "stopped": REMOTE_ERROR, "differs": INVALID_USAGE}


def run_rank(nccl, unique_id, rank, trouble):
    comm, values = ctypes.c_void_p(), (ctypes.c_float * COUNT)()
    check(nccl, nccl.ncclCommInitRank(ctypes.byref(comm), RANKS, unique_id, rank))
    check(nccl, nccl.ncclAllReduce(values, values, COUNT, FLOAT, SUM, comm, None))
    if rank == RANKS - 1 and trouble != "differs":
        os.kill(os.getpid(), {"killed": signal.SIGKILL, "stopped": signal.SIGSTOP}[trouble])
    begun = time.monotonic()
    if rank == RANKS - 1:
        nccl.ncclBroadcast(values, values, COUNT, FLOAT, 0, comm, None)
        return
    result = nccl.ncclAllReduce(values, values, COUNT, FLOAT, SUM, comm, None)
    took = time.monotonic() - begun
    later, text = ctypes.c_int(), nccl.ncclGetLastError(comm).decode()
    check(nccl, nccl.ncclCommGetAsyncError(comm, ctypes.byref(later)))
    assert result == later.value == EXPECTED[trouble], (result, later.value, text)
    assert f"rank {RANKS - 1}" in text, text
    assert took < LIMIT_S, took
    check(nccl, nccl.ncclCommAbort(comm))


def run(nccl, path, trouble):
    unique_id = UniqueId()
    check(nccl, nccl.ncclGetUniqueId(ctypes.byref(unique_id)))
    others = [subprocess.Popen([sys.executable, "-B", __file__, path, trouble, bytes(unique_id).hex(), str(rank)])
              for rank in range(1, RANKS)]
    try:
        run_rank(nccl, unique_id, 0, trouble)
        assert others[0].wait(timeout=60) == 0, f"{trouble}: rank 1 failed"
    finally:
        for other in others:
            other.kill()
            other.wait()
    print(f"{trouble}: passed", flush=True)


def main():
    nccl = open_library(sys.argv[1])
    nccl.ncclCommAbort.argtypes = [ctypes.c_void_p]
    nccl.ncclCommGetAsyncError.argtypes = [ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)]
    if len(sys.argv) == 2:
        for trouble in EXPECTED:
            run(nccl, sys.argv[1], trouble)
    else:
        run_rank(nccl, UniqueId.from_buffer_copy(bytes.fromhex(sys.argv[3])), int(sys.argv[4]), sys.argv[2])


if __name__ == "__main__":
    main()
