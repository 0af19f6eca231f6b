"""A client in the manner of inference engines, which open libnccl.so.2 by its path: ctypes_test.py LIBRARY

Four ranks, two threads in each of two processes, on memory of the host; then the library is closed, as such programs do. It stays, for its
threads do.
"""
import ctypes
import subprocess
import sys
import threading

import _ctypes

RANKS = 4
COUNT = 1000
FLOAT, SUM = 7, 0


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


def open_library(path):
    nccl = ctypes.CDLL(path)
    size, number, pointer = ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p
    nccl.ncclGetErrorString.restype = nccl.ncclGetLastError.restype = ctypes.c_char_p
    nccl.ncclGetLastError.argtypes = [pointer]
    nccl.ncclCommInitRank.argtypes = [ctypes.POINTER(pointer), number, UniqueId, number]
    nccl.ncclAllReduce.argtypes = [pointer, pointer, size, number, number, pointer, pointer]
    nccl.ncclReduceScatter.argtypes = nccl.ncclAllReduce.argtypes
    nccl.ncclAllGather.argtypes = [pointer, pointer, size, number, pointer, pointer]
    nccl.ncclBroadcast.argtypes = nccl.ncclReduce.argtypes = [pointer, pointer, size, number, number, pointer, pointer]
    nccl.ncclSend.argtypes = nccl.ncclRecv.argtypes = [pointer, size, number, number, pointer, pointer]
    nccl.ncclCommDestroy.argtypes = [pointer]
    return nccl


def check(nccl, result):
    if result != 0:
        raise RuntimeError(f"{nccl.ncclGetErrorString(result)}: {nccl.ncclGetLastError(None)}")


def run_rank(nccl, unique_id, rank, passed):
    comm = ctypes.c_void_p()
    check(nccl, nccl.ncclCommInitRank(ctypes.byref(comm), RANKS, unique_id, rank))
    own = (ctypes.c_float * COUNT)(*([rank + 1] * COUNT))
    one, everything = (ctypes.c_float * COUNT)(), (ctypes.c_float * (COUNT * RANKS))()
    check(nccl, nccl.ncclAllReduce(own, one, COUNT, FLOAT, SUM, comm, None))
    assert list(one) == [10] * COUNT, one[0]
    check(nccl, nccl.ncclAllGather(own, everything, COUNT, FLOAT, comm, None))
    assert [everything[r * COUNT] for r in range(RANKS)] == [1, 2, 3, 4]
    check(nccl, nccl.ncclReduceScatter(everything, one, COUNT, FLOAT, SUM, comm, None))
    assert list(one) == [4 * (rank + 1)] * COUNT, one[0]
    check(nccl, nccl.ncclBroadcast(own, one, COUNT, FLOAT, 2, comm, None))
    assert list(one) == [3] * COUNT, one[0]
    check(nccl, nccl.ncclGroupStart())
    check(nccl, nccl.ncclSend(own, COUNT, FLOAT, (rank + 1) % RANKS, comm, None))
    check(nccl, nccl.ncclRecv(one, COUNT, FLOAT, (rank + RANKS - 1) % RANKS, comm, None))
    check(nccl, nccl.ncclGroupEnd())
    assert list(one) == [(rank + RANKS - 1) % RANKS + 1] * COUNT, one[0]
    check(nccl, nccl.ncclCommDestroy(comm))
    passed.append(rank)


def main():
    nccl = open_library(sys.argv[1])
    unique_id = UniqueId()
    other = None
    if len(sys.argv) == 2:
        check(nccl, nccl.ncclGetUniqueId(ctypes.byref(unique_id)))
        other = subprocess.Popen([sys.executable, "-B", __file__, sys.argv[1], bytes(unique_id).hex()])
    else:
        unique_id = UniqueId.from_buffer_copy(bytes.fromhex(sys.argv[2]))
    mine, passed = ([0, 1] if other else [2, 3]), []
    threads = [threading.Thread(target=run_rank, args=(nccl, unique_id, rank, passed)) for rank in mine]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    _ctypes.dlclose(nccl._handle)
    with open("/proc/self/maps", encoding="utf-8") as maps:
        assert "libnccl.so.2" in maps.read(), "the library was unloaded under its threads"
    code = other.wait(timeout=60) if other else 0
    if sorted(passed) != mine or code != 0:
        sys.exit(f"ranks {sorted(passed)} of {mine} passed, and the other process ended with {code}")


if __name__ == "__main__":
    main()
