"""The checks: each a function of a communicator that raises AssertionError; its first line names the check."""

from __future__ import annotations

import operator
from functools import reduce
from typing import Any, Callable, Dict, List

import horing
from horing import Communicator, DType, Op

from ._values import is_float, pack

_COUNT = 1000  # elements of a block; more than one slice of nothing, less than a second for all checks


def _inputs(comm: Communicator, blocks: int = 1) -> List[List[int]]:
    """The input of each rank: zeros and ones in any mixture, so that sums of up to 4 ranks are exact in every type."""
    return [[(i >> rank) & 1 for i in range(_COUNT * blocks)] for rank in range(comm.size)]


def _fold(inputs: List[List[int]], function: Callable) -> List[int]:
    return [reduce(function, column) for column in zip(*inputs)]


def _expect(what: Any, actual: bytearray, expected: bytearray) -> None:
    if actual != expected:
        at = next(i for i, (a, b) in enumerate(zip(actual, expected)) if a != b) if len(actual) == len(expected) else "the end"
        raise AssertionError(f"{what}: the result differs from the expected one at byte {at}")


_FUNCTIONS: Dict[Op, Any] = {Op.SUM: operator.add, Op.PROD: operator.mul, Op.MAX: max, Op.MIN: min, Op.BAND: operator.and_,
              Op.BOR: operator.or_, Op.BXOR: operator.xor}


def reductions(comm: Communicator) -> int:
    """all_reduce in every type with every operation"""
    inputs, done = _inputs(comm), 0
    for dtype in DType:
        for op, function in _FUNCTIONS.items():
            if op >= Op.BAND and is_float(dtype):
                continue
            buffer = pack(inputs[comm.rank], dtype)
            comm.all_reduce(buffer, op=op, dtype=dtype)
            _expect(f"{op.name} of {dtype.name}", buffer, pack(_fold(inputs, function), dtype))
            done += 1
        buffer = pack([4] * _COUNT, dtype)
        comm.all_reduce(buffer, op=Op.AVG, dtype=dtype)
        if comm.size in (1, 2, 4) or not is_float(dtype):  # else 1/n is not exact
            _expect(f"AVG of {dtype.name}", buffer, pack([4] * _COUNT, dtype))
            done += 1
    with comm.premul_sum(comm.rank + 1, DType.float32) as scaled:
        buffer = pack([2] * _COUNT, DType.float32)
        comm.all_reduce(buffer, op=scaled, dtype="float32")
        _expect("premul_sum", buffer, pack([comm.size * (comm.size + 1)] * _COUNT, DType.float32))
    return done + 1


def blocks(comm: Communicator) -> int:
    """reduce_scatter, all_gather, gather, scatter, all_to_all in every type; both orders of blocks"""
    n, rank = comm.size, comm.rank
    inputs = _inputs(comm, n)
    for dtype in DType:
        size = len(pack([0], dtype))
        mine, full, block = pack(inputs[rank], dtype), bytearray(size * _COUNT * n), bytearray(size * _COUNT)
        part = slice(rank * len(block), (rank + 1) * len(block))
        total = pack(_fold(inputs, operator.add), dtype)
        comm.reduce_scatter(mine, block, dtype=dtype)
        _expect(f"reduce_scatter of {dtype.name}", block, total[part])
        comm.all_gather(block, full, dtype=dtype)
        _expect(f"all_gather of {dtype.name}", full, total)
        parts = [pack(each, dtype) for each in inputs]
        comm.all_to_all(mine, full, dtype=dtype)
        _expect(f"all_to_all of {dtype.name}", full, bytearray().join(each[part] for each in parts))
        root = n - 1
        comm.gather(block, full if rank == root else None, root, dtype=dtype)
        if rank == root:
            _expect(f"gather of {dtype.name}", full, total)
        comm.scatter(parts[root] if rank == root else None, block, root, dtype=dtype)
        _expect(f"scatter of {dtype.name}", block, parts[root][part])
    blocks_here = [bytes([comm.block_of(r, "rail")]) * 8 for r in range(n)]
    full = bytearray(8 * n)
    comm.all_gather(blocks_here[rank], full, order="rail")
    _expect("all_gather in rail order", full, bytearray().join(bytes([b]) * 8 for b in range(n)))
    return 5 * len(DType) + 1


def roots(comm: Communicator) -> int:
    """broadcast and reduce with every root"""
    inputs = _inputs(comm)
    for root in range(comm.size):
        buffer = pack(inputs[comm.rank], DType.int32)
        comm.broadcast(buffer, root, dtype="int32")
        _expect(f"broadcast from {root}", buffer, pack(inputs[root], DType.int32))
        out = bytearray(len(buffer)) if comm.rank == root else None
        comm.reduce(pack(inputs[comm.rank], DType.int32), out, root, dtype="int32")
        if out is not None:
            _expect(f"reduce to {root}", out, pack(_fold(inputs, operator.add), DType.int32))
    return 2 * comm.size


def uneven(comm: Communicator) -> int:
    """the collectives with blocks of different sizes"""
    n, rank = comm.size, comm.rank
    counts = [17 * r for r in range(n)]  # one is empty
    values = [[(r + i) % 2 for i in range(sum(counts))] for r in range(n)]
    starts = [sum(counts[:r]) for r in range(n)]
    own = [values[r][starts[r]:starts[r] + counts[r]] for r in range(n)]
    packed = [pack(each, DType.int64) for each in own]
    joined = bytearray().join(packed)
    full, block = bytearray(len(joined)), bytearray(len(packed[rank]))
    comm.all_gather_v(packed[rank], full, counts, dtype="int64")
    _expect("all_gather_v", full, joined)
    comm.reduce_scatter_v(pack(values[rank], DType.int64), block, counts, dtype="int64")
    total = _fold(values, operator.add)
    _expect("reduce_scatter_v", block, pack(total[starts[rank]:starts[rank] + counts[rank]], DType.int64))
    comm.gather_v(packed[rank], full if rank == 0 else None, counts, dtype="int64")
    comm.scatter_v(full if rank == 0 else None, block, counts, dtype="int64")
    _expect("gather_v and scatter_v", block, packed[rank])
    sent = [rank + 2 * r for r in range(n)]
    received = [r + 2 * rank for r in range(n)]
    out = bytearray(sum(received))
    comm.all_to_all_v(bytes([rank]) * sum(sent), sent, out, received)
    _expect("all_to_all_v", out, bytearray().join(bytes([r]) * received[r] for r in range(n)))
    return 4


def lists(comm: Communicator) -> int:
    """the collectives of lists"""
    n, rank = comm.size, comm.rank
    sums = [pack([rank + k] * k, DType.int32) for k in range(5)]
    comm.all_reduce_list(sums, dtype="int32")
    for k, each in enumerate(sums):
        _expect("all_reduce_list", each, pack([sum(r + k for r in range(n))] * k, DType.int32))
    sends, recvs = [bytes([rank]) * k for k in range(4)], [bytearray(k * n) for k in range(4)]
    comm.all_gather_list(sends, recvs)
    for k, each in enumerate(recvs):
        _expect("all_gather_list", each, bytearray().join(bytes([r]) * k for r in range(n)))
    outs = [bytearray(4 * k) for k in range(4)]
    comm.reduce_scatter_list([pack([r for r in range(n) for _ in range(k)], DType.int32) for k in range(4)], outs,
                             dtype="int32")
    for k, each in enumerate(outs):
        _expect("reduce_scatter_list", each, pack([n * rank] * k, DType.int32))
    return 3


def messages(comm: Communicator) -> int:
    """send and recv, in groups, alone and with tags"""
    n, rank = comm.size, comm.rank
    left, right = (rank - 1) % n, (rank + 1) % n
    inbox = bytearray(100)
    with horing.group():
        comm.send(bytes([rank]) * 100, right)
        comm.recv(inbox, left)
    _expect("messages in a ring", inbox, bytearray([left]) * 100)
    if n > 1 and rank == 0:
        comm.send(b"alone", n - 1)
        comm.send(b"tag 9", n - 1, tag=9)
    if n > 1 and rank == n - 1:
        word = bytearray(5)
        comm.recv(word, 0)
        _expect("a message alone", word, bytearray(b"alone"))
        assert comm.recv(word, tag=9) == 0
        _expect("a message with a tag", word, bytearray(b"tag 9"))
    return 3


def on_streams(comm: Communicator) -> int:
    """operations in order on a stream, and a callback"""
    called: List[Any] = []
    with horing.Stream() as stream:
        buffer = pack([1] * _COUNT, DType.int32)
        for _ in range(3):
            comm.all_reduce(buffer, dtype="int32", stream=stream)
        stream.add_callback(called.append)
        stream.synchronize()
        _expect("three operations", buffer, pack([comm.size**3] * _COUNT, DType.int32))
        comm.barrier(stream=stream)
    assert called == [None], f"the callback was called with {called}"
    return 2


def shared_memory(comm: Communicator) -> int:
    """buffers from mem_alloc, which other ranks reach in place"""
    size = 1 << 20
    one, other = horing.mem_alloc(size), horing.mem_alloc(size)
    memoryview(one).cast("B")[:] = bytes([1]) * size
    with comm.register(one) as registration:
        comm.all_reduce(one, other)
        assert registration.gains
    _expect("all_reduce in memory of the node", bytearray(other), bytearray([comm.size]) * size)
    return 1


def relatives(comm: Communicator) -> int:
    """split and shrink"""
    half = comm.split(comm.rank % 2)
    assert half is not None and half.size == (comm.size + 1 - comm.rank % 2) // 2
    half.barrier()
    half.close()
    if comm.size > 1 and comm.rank > 0:
        rest = comm.shrink([0])
        assert (rest.rank, rest.size) == (comm.rank - 1, comm.size - 1)
        rest.barrier()
        rest.close()
    comm.barrier()
    return 2


def refusals(comm: Communicator) -> int:
    """wrong buffers and arguments, refused before anything is sent"""
    cases: List[Any] = [
        (TypeError, lambda: comm.all_reduce([1, 2])),
        (ValueError, lambda: comm.all_reduce(b"read-only")),
        (ValueError, lambda: comm.all_reduce(bytearray(4), bytearray(8))),
        (TypeError, lambda: comm.all_reduce(memoryview(bytearray(4)).cast("h"))),
        (TypeError, lambda: comm.all_gather(memoryview(bytearray(4)).cast("f"), bytearray(4 * comm.size))),
        (ValueError, lambda: comm.all_reduce(memoryview(bytearray(8))[::2])),
        (ValueError, lambda: comm.all_reduce(bytearray(3), dtype="float32")),
        (horing.InvalidArgumentError, lambda: comm.broadcast(bytearray(4), comm.size)),
        (ValueError, lambda: comm.all_gather_v(b"", bytearray(), [])),
    ]
    for kind, call in cases:
        try:
            call()
        except kind:
            continue
        raise AssertionError(f"a call that should raise {kind.__name__} did not")
    comm.barrier()  # after all of them the ranks still agree
    return len(cases)


CHECKS: Dict[str, Callable[[Communicator], int]] = {
    each.__name__: each for each in (reductions, blocks, roots, uneven, lists, messages, on_streams, shared_memory, relatives,
                                     refusals)}
