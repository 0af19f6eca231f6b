"""Right values: every collective, every type and reduction, on 2, 3 and 4 ranks, at once and with async_op."""

from __future__ import annotations

import itertools
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

import ranks
from ranks import check

SIZES = (2, 4)
COUNTS = (0, 1, 4, 1000)
MOVED = [getattr(torch, name) for name in (
    "float16 float32 float64 bfloat16 int8 uint8 int16 uint16 int32 uint32 int64 uint64 bool complex32 complex64 complex128 "
    "float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu").split() if hasattr(torch, name)]
REALS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
INTEGERS = [torch.int8, torch.uint8, torch.int16, torch.uint16, torch.int32, torch.int64]


def values(count: int, dtype: torch.dtype, seed: int) -> torch.Tensor:
    """Small numbers, so that all types hold them and their sums; different ones for each seed."""
    numbers = (torch.arange(count) * 3 + seed * 5 + 1) % 7
    return (numbers % 2).to(dtype) if dtype is torch.bool else numbers.to(torch.float32).to(dtype)


def same(got: torch.Tensor, expected: torch.Tensor) -> None:
    assert got.dtype is expected.dtype and got.shape == expected.shape
    assert bits(got) == bits(expected), f"{got.dtype}: {got} instead of {expected}"


def bits(tensor: torch.Tensor) -> bytes:
    tensor = tensor.contiguous().cpu()
    return bytes(tensor.view(torch.uint8).numpy()) if tensor.numel() else b""


def done(work, async_op: bool) -> None:
    if async_op:
        assert work.wait(timedelta(seconds=20) if ranks.on_gpu else timedelta(0))  # which on a GPU tells the thread, too
        assert work.is_completed() and work.is_success() and work.exception() is None
    else:
        assert work is None


def cases():
    return itertools.product(COUNTS, MOVED, (False, True))


@pytest.mark.parametrize("size", SIZES)
def test_moves(size):
    def body(rank, size):
        for count, dtype, async_op in cases():
            mine, all_of_them = values(count, dtype, rank), [values(count, dtype, each) for each in range(size)]
            for root in range(size):
                tensor = mine.clone()
                done(dist.broadcast(tensor, root, async_op=async_op), async_op)
                same(tensor, all_of_them[root])
            outputs = [torch.empty_like(mine) for _ in range(size)]
            done(dist.all_gather(outputs, mine, async_op=async_op), async_op)
            for got, expected in zip(outputs, all_of_them):
                same(got, expected)
            output = torch.empty(size * count, dtype=dtype)
            done(dist.all_gather_into_tensor(output, mine, async_op=async_op), async_op)
            same(output, torch.cat(all_of_them))

    check(size, body)


@pytest.mark.parametrize("size", SIZES)
def test_moves_with_a_root(size):
    def body(rank, size):
        for count, dtype, async_op in cases():
            mine, all_of_them = values(count, dtype, rank), [values(count, dtype, each) for each in range(size)]
            root = count % size
            outputs = [torch.empty_like(mine) for _ in range(size)] if rank == root else None
            done(dist.gather(mine, outputs, root, async_op=async_op), async_op)
            for got, expected in zip(outputs or [], all_of_them):
                same(got, expected)
            whole, options = torch.empty(size * count if rank == root else 0, dtype=dtype), dist.GatherOptions()
            options.rootRank = root
            dist.group.WORLD.gather_single(whole, mine, options).wait()
            if hasattr(dist, "gather_single"):  # torch 2.14
                done(dist.gather_single(mine, whole if rank == root else None, root, async_op=async_op), async_op)
            same(whole, torch.cat(all_of_them) if rank == root else whole)
            output = torch.empty_like(mine)
            done(dist.scatter(output, all_of_them if rank == root else None, root, async_op=async_op), async_op)
            same(output, mine)

    check(size, body)


@pytest.mark.parametrize("size", SIZES)
def test_all_to_all(size):
    def body(rank, size):
        for count, dtype, async_op in cases():
            inputs = [values(count, dtype, 10 * rank + each) for each in range(size)]
            expected = [values(count, dtype, 10 * each + rank) for each in range(size)]
            outputs = [torch.empty_like(each) for each in inputs]
            done(dist.all_to_all(outputs, inputs, async_op=async_op), async_op)
            for got, wanted in zip(outputs, expected):
                same(got, wanted)
            output = torch.empty(size * count, dtype=dtype)
            done(dist.all_to_all_single(output, torch.cat(inputs), async_op=async_op), async_op)
            same(output, torch.cat(expected))

    check(size, body)


def test_all_to_all_uneven():
    def body(rank, size):
        for async_op in (False, True):
            sent = [rank + each for each in range(size)]
            received = [each + rank for each in range(size)]
            rows = torch.cat([torch.full((sent[each], 3), 10.0 * rank + each) for each in range(size)])
            output = torch.empty(sum(received), 3)
            done(dist.all_to_all_single(output, rows, received, sent, async_op=async_op), async_op)
            same(output, torch.cat([torch.full((received[each], 3), 10.0 * each + rank) for each in range(size)]))
            outputs = [torch.empty(received[each]) for each in range(size)]
            done(dist.all_to_all(outputs, [torch.full((sent[each],), 1.0 * rank) for each in range(size)], async_op=async_op),
                 async_op)
            for each in range(size):
                same(outputs[each], torch.full((received[each],), 1.0 * each))

    check(3, body)


def reductions(dtype: torch.dtype):
    kind = dist.ReduceOp
    if dtype is torch.bool:
        return [kind.SUM, kind.PRODUCT, kind.MIN, kind.MAX, kind.BAND, kind.BOR, kind.BXOR]
    if dtype.is_complex:
        return [kind.SUM, kind.AVG]
    if dtype.is_floating_point:
        return [kind.SUM, kind.PRODUCT, kind.MIN, kind.MAX, kind.AVG]
    return [kind.SUM, kind.PRODUCT, kind.MIN, kind.MAX, kind.BAND, kind.BOR, kind.BXOR]


def reduced(tensors: list[torch.Tensor], op) -> torch.Tensor:
    """By torch, in a type wide enough that the order does not matter for small numbers."""
    kind, dtype = dist.ReduceOp, tensors[0].dtype
    wide = torch.complex128 if dtype.is_complex else torch.float64 if dtype.is_floating_point else torch.int64
    stack = torch.stack([tensor.to(torch.float32 if dtype.itemsize == 1 and dtype.is_floating_point else wide).to(wide)
                         for tensor in tensors])
    if op == kind.SUM:
        result = stack.sum(0)
    elif op == kind.AVG:
        result = stack.sum(0) / len(tensors)
    elif op == kind.PRODUCT:
        result = stack.prod(0)
    elif op == kind.MIN:
        result = stack.amin(0)
    elif op == kind.MAX:
        result = stack.amax(0)
    else:
        step = {kind.BAND: torch.bitwise_and, kind.BOR: torch.bitwise_or, kind.BXOR: torch.bitwise_xor}
        result = stack[0]
        for tensor in stack[1:]:
            result = next(function for key, function in step.items() if op == key)(result, tensor)
    return result.to(torch.float32).to(dtype) if dtype.itemsize == 1 and dtype.is_floating_point else result.to(dtype)


REDUCED = REALS + INTEGERS + [torch.uint32, torch.uint64, torch.bool, torch.complex64, torch.complex128,
                              torch.float8_e5m2, torch.float8_e4m3fnuz]


@pytest.mark.parametrize("size", SIZES)
def test_reductions(size):
    def body(rank, size):
        for dtype, count, async_op in itertools.product(REDUCED, (0, 4, 1000), (False, True)):
            all_of_them = [values(count, dtype, each) for each in range(size)]
            for op in reductions(dtype):
                expected = reduced(all_of_them, op)
                tensor = all_of_them[rank].clone()
                done(dist.all_reduce(tensor, op, async_op=async_op), async_op)
                same(tensor, expected)
                tensor, root = all_of_them[rank].clone(), count % size
                done(dist.reduce(tensor, root, op, async_op=async_op), async_op)
                same(tensor, expected if rank == root else all_of_them[rank])

    check(size, body)


@pytest.mark.parametrize("size", SIZES)
def test_reduce_scatter(size):
    def body(rank, size):
        for dtype, count, async_op in itertools.product(REDUCED, (0, 4, 1000), (False, True)):
            if dtype.is_complex:
                continue  # torch does not offer it
            inputs = [[values(count, dtype, 10 * source + target) for target in range(size)] for source in range(size)]
            for op in reductions(dtype):
                expected = reduced([inputs[source][rank] for source in range(size)], op)
                output = torch.empty(count, dtype=dtype)
                done(dist.reduce_scatter(output, [each.clone() for each in inputs[rank]], op, async_op=async_op), async_op)
                same(output, expected)
                output = torch.empty(count, dtype=dtype)
                done(dist.reduce_scatter_tensor(output, torch.cat(inputs[rank]), op, async_op=async_op), async_op)
                same(output, expected)

    check(size, body)


def test_premultiplied_sum():
    def body(rank, size):
        for dtype in REALS:
            for factor in (0.5, torch.tensor(0.25)):
                tensor = torch.full((5,), 4.0 * (rank + 1), dtype=dtype)
                dist.all_reduce(tensor, dist._make_nccl_premul_sum(factor))
                same(tensor, torch.full((5,), 4.0 * float(factor) * size * (size + 1) / 2, dtype=dtype))
                output = torch.empty(2, dtype=dtype)
                work = dist.reduce_scatter_tensor(output, torch.ones(2 * size, dtype=dtype), dist._make_nccl_premul_sum(factor),
                                                  async_op=True)
                work.wait()
                same(output, torch.full((2,), float(factor) * size, dtype=dtype))

    check(2, body)


def test_uneven_lists():
    def body(rank, size):
        for async_op in (False, True):
            outputs = [torch.full((each + 1,), -1.0) for each in range(size)]
            done(dist.all_gather(outputs, torch.full((rank + 1,), 1.0 * rank), async_op=async_op), async_op)
            for each in range(size):
                same(outputs[each], torch.full((each + 1,), 1.0 * each))
            output = torch.empty(rank + 1)
            done(dist.reduce_scatter(output, [torch.ones(each + 1) for each in range(size)], async_op=async_op), async_op)
            same(output, torch.full((rank + 1,), 1.0 * size))
            outputs = [torch.empty(each) for each in range(size)] if rank == 1 else None
            done(dist.gather(torch.full((rank,), 7.0), outputs, 1, async_op=async_op), async_op)
            for each in outputs or []:
                same(each, torch.full_like(each, 7.0))
            output = torch.empty(rank)
            parts = [torch.full((each,), 1.0 * each) for each in range(size)] if rank == 0 else None
            done(dist.scatter(output, parts, 0, async_op=async_op), async_op)
            same(output, torch.full((rank,), 1.0 * rank))

    check(3, body)


@pytest.mark.costly
def test_counts_above_32_bits():
    def body(rank, size):
        count = 2**31 + 5
        tensor = torch.zeros(count, dtype=torch.int8)
        tensor[-3:] = 1 + rank
        dist.broadcast(tensor, 1)
        assert (tensor[-3:] == 2).all() and not tensor[:-3].any()
        dist.all_reduce(tensor)
        assert (tensor[-3:] == 2 * size).all() and tensor[-4] == 0

    check(2, body, timeout=200, group_timeout=150)


@pytest.mark.costly
def test_an_all_gather_and_a_message_of_counts_above_32_bits():
    pattern = (torch.arange(251 << 16) % 251).to(torch.int8)  # neither 2^31 nor 2^32 is a multiple of 251

    def pieces(tensor):
        return [(piece, pattern[:len(piece)]) for piece in tensor.split(len(pattern))]

    def body(rank, size):
        counts = (2**31 + 5, 3)
        blocks = [torch.zeros(count, dtype=torch.int8) for count in counts]
        mine = torch.full((counts[rank],), 2, dtype=torch.int8)
        for piece, values in pieces(mine) if rank == 0 else ():
            piece.copy_(values)
        dist.all_gather(blocks, mine)
        big = blocks[0]
        assert all(torch.equal(piece, values) for piece, values in pieces(big)) and (blocks[1] == 2).all()
        del mine
        if rank == 0:
            dist.send(big.neg_(), 1)
        else:
            dist.recv(big, 0)
        assert all(torch.equal(piece, -values) for piece, values in pieces(big))

    check(2, body, timeout=200, group_timeout=150)


def test_coalesced():
    def body(rank, size):
        counts = (0, 1, 7, 3000)
        tensors = [torch.full((count,), 1.0 * rank) for count in counts]
        with pytest.warns(FutureWarning):
            dist.all_reduce_coalesced(tensors)
        for tensor in tensors:
            same(tensor, torch.full_like(tensor, sum(range(size))))
        tensors = [torch.ones(count, dtype=dtype) for count in counts for dtype in (torch.float32, torch.int16, torch.int64)]
        with dist._coalescing_manager(async_ops=True) as coalesced:
            for tensor in tensors:
                dist.all_reduce(tensor)
        coalesced.wait()
        for tensor in tensors:
            same(tensor, torch.full_like(tensor, size))
        outputs = [torch.empty(size * count) for count in counts]
        with dist._coalescing_manager():
            for output, count in zip(outputs, counts):
                dist.all_gather_into_tensor(output, torch.full((count,), 1.0 * rank))
        for output, count in zip(outputs, counts):
            same(output, torch.arange(1.0 * size).repeat_interleave(count))
        scattered = [torch.empty(count) for count in counts]
        with dist._coalescing_manager():
            for each, count in zip(scattered, counts):
                dist.reduce_scatter_tensor(each, torch.arange(1.0 * size).repeat_interleave(count))
        for each in scattered:
            same(each, torch.full_like(each, 1.0 * size * rank))

    check(4, body)


def test_objects_and_barriers():
    def body(rank, size):
        everything = [None] * size
        dist.all_gather_object(everything, {"rank": rank, "text": "x" * (1000 * rank)})
        assert [each["rank"] for each in everything] == list(range(size))
        told = [{"from": 1}] if rank == 1 else [None]
        dist.broadcast_object_list(told, src=1)
        assert told == [{"from": 1}]
        gathered = [None] * size if rank == 0 else None
        dist.gather_object(rank * 2, gathered, 0)
        assert rank or gathered == [2 * each for each in range(size)]
        mine = [None]
        dist.scatter_object_list(mine, [f"for {each}" for each in range(size)] if rank == 0 else None, 0)
        assert mine == [f"for {rank}"]
        dist.barrier()
        dist.barrier(async_op=True).wait()
        dist.group.WORLD.monitored_barrier()

    check(3, body)


def test_refused_by_name():
    def body(rank, size):
        kind = dist.ReduceOp
        for dtype, op, words in ((torch.float32, kind.BAND, "BAND of torch.float32"), (torch.bool, kind.AVG, "AVG of torch.bool"),
                                 (torch.qint8, kind.SUM, "torch.qint8")):
            tensor = torch._empty_affine_quantized([2], scale=1.0, zero_point=0, dtype=dtype) if dtype is torch.qint8 else \
                torch.ones(2, dtype=dtype)
            with pytest.raises(TypeError, match=words):
                dist.all_reduce(tensor, op)
        with pytest.raises(TypeError, match="dense tensors on cpu"):
            dist.all_reduce(torch.ones(2, device="meta"))
        with pytest.raises(ValueError, match="has 3 elements, expected 4"):
            dist.all_gather_into_tensor(torch.empty(3), torch.ones(2))
        tensor = torch.ones(2)
        dist.all_reduce(tensor)  # nothing was sent, so the group goes on
        same(tensor, torch.full((2,), 1.0 * size))

    check(2, body)
