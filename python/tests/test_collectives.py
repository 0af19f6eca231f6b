"""Every collective and message against NumPy."""

import numpy as np
import pytest

import horing
from horing import Op, _capi

SIZES = [1, 2, 3, 4]
TYPES = ["i1", "u1", "i4", "u4", "i8", "u8", "f2", "f4", "f8"]
FOLDS = {Op.SUM: np.add, Op.PROD: np.multiply, Op.MAX: np.maximum, Op.MIN: np.minimum, Op.BAND: np.bitwise_and,
         Op.BOR: np.bitwise_or, Op.BXOR: np.bitwise_xor}


def inputs(size, count, dtype):
    """One array for each rank, of small whole numbers."""
    return [np.random.default_rng(rank).integers(0, 4, count).astype(dtype) for rank in range(size)]


def fold(arrays, op=Op.SUM):
    return FOLDS[op].reduce(arrays, dtype=arrays[0].dtype)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("op", list(FOLDS))
def test_all_reduce(on_ranks, size, op):
    def call(comm):
        for dtype in TYPES:
            if op >= Op.BAND and dtype.startswith("f"):
                continue
            arrays = inputs(size, 333, dtype)
            mine, out = arrays[comm.rank].copy(), np.empty(333, dtype)
            comm.all_reduce(mine, out, op)
            np.testing.assert_array_equal(out, fold(arrays, op))
            np.testing.assert_array_equal(mine, arrays[comm.rank])
            comm.all_reduce(mine, op=op)
            np.testing.assert_array_equal(mine, out)

    on_ranks(size, call)


def test_average(on_ranks):
    def call(comm):
        one = np.full(5, comm.rank, "f4")
        comm.all_reduce(one, op=Op.AVG)
        assert (one == 1.5).all()

    on_ranks(4, call)


def test_bitwise_of_floats_is_refused(on_ranks):
    def call(comm):
        with pytest.raises(horing.InvalidArgumentError):
            comm.all_reduce(np.zeros(3, "f4"), op=Op.BXOR)

    on_ranks(2, call)


def test_bool_stays_bool(on_ranks):
    def call(comm):
        flags = np.array([comm.rank == 0, True, False])
        comm.all_reduce(flags, op=Op.MAX)
        assert flags.tolist() == [True, True, False]
        comm.all_reduce(flags, op=Op.BXOR)
        assert flags.tolist() == [False, False, False]
        with pytest.raises(TypeError, match="no bool"):
            comm.all_reduce(flags)

    on_ranks(2, call)


@pytest.mark.parametrize("size", SIZES)
def test_blocks(on_ranks, size):
    def call(comm):
        arrays = inputs(size, 10 * size, "f4")
        part = slice(10 * comm.rank, 10 * comm.rank + 10)
        mine, block, full = arrays[comm.rank].copy(), np.empty(10, "f4"), np.empty(10 * size, "f4")
        comm.reduce_scatter(mine, block)
        np.testing.assert_array_equal(block, fold(arrays)[part])
        comm.all_gather(block, full)
        np.testing.assert_array_equal(full, fold(arrays))
        comm.all_to_all(mine, full)
        np.testing.assert_array_equal(full, np.concatenate([each[part] for each in arrays]))
        # In place.
        comm.reduce_scatter(mine, mine[part])
        np.testing.assert_array_equal(mine[part], fold(arrays)[part])
        comm.all_gather(mine[part], mine)
        np.testing.assert_array_equal(mine, fold(arrays))

    on_ranks(size, call)


@pytest.mark.parametrize("size", SIZES)
def test_roots(on_ranks, size):
    def call(comm):
        for root in range(size):
            arrays = inputs(size, 7, "i8")
            mine = arrays[comm.rank].copy()
            comm.broadcast(mine, root)
            np.testing.assert_array_equal(mine, arrays[root])
            mine, is_root = arrays[comm.rank].copy(), comm.rank == root
            out = np.empty(7, "i8") if is_root else None
            comm.reduce(mine, out, root)
            if is_root:
                np.testing.assert_array_equal(out, fold(arrays))
            np.testing.assert_array_equal(mine, arrays[comm.rank])
            full = np.empty(7 * size, "i8") if is_root else None
            comm.gather(mine, full, root)
            if is_root:
                np.testing.assert_array_equal(full, np.concatenate(arrays))
            back = np.zeros(7, "i8")
            comm.scatter(full, back, root)
            np.testing.assert_array_equal(back, mine)

    on_ranks(size, call)


def test_a_root_may_send_what_is_read_only(on_ranks):
    def call(comm):
        text = b"hello" if comm.rank == 0 else bytearray(5)
        comm.broadcast(text)
        assert bytes(text) == b"hello"
        if comm.rank == 1:
            with pytest.raises(ValueError, match="read-only"):
                comm.broadcast(b"hello")

    on_ranks(2, call)


@pytest.mark.parametrize("spread", [False, True], ids=["dense", "displs"])
def test_uneven_blocks(on_ranks, spread):
    size, counts = 3, [4, 0, 7]
    displs = [2, 0, 9] if spread else None
    begins = displs or [0, 4, 4]
    extent = 16 if spread else 11

    def call(comm):
        n, me = counts[comm.rank], comm.rank
        full = np.full(extent, -1, "i2")
        comm.all_gather_v(np.full(n, me, "i2"), full, counts, displs)
        expected = np.full(extent, -1, "i2")
        for rank, (begin, count) in enumerate(zip(begins, counts)):
            expected[begin:begin + count] = rank
        np.testing.assert_array_equal(full, expected)
        block = np.empty(n, "f4")
        comm.reduce_scatter_v(np.arange(extent, dtype="f4"), block, counts, displs)
        np.testing.assert_array_equal(block, size * np.arange(extent, dtype="f4")[begins[me]:begins[me] + n])
        back = np.full(extent, -1, "i2") if me == 1 else None
        comm.gather_v(np.full(n, me, "i2"), back, counts if me == 1 else None, displs if me == 1 else None, root=1)
        if me == 1:
            np.testing.assert_array_equal(back, expected)
        out = np.empty(n, "i2")
        comm.scatter_v(back, out, counts if me == 1 else None, displs if me == 1 else None, root=1)
        assert (out == me).all()

    on_ranks(size, call)


def test_all_to_all_v(on_ranks):
    def call(comm):
        sent, received = [comm.rank + r for r in range(3)], [comm.rank + r for r in range(3)]
        out = np.empty(sum(received), "c8")
        comm.all_to_all_v(np.full(sum(sent), comm.rank, "c8"), sent, out, received)
        np.testing.assert_array_equal(out, np.repeat(np.arange(3), received).astype("c8"))

    on_ranks(3, call)


def test_lists(on_ranks):
    def call(comm):
        size = comm.size
        arrays = [np.full(k, comm.rank + k, "f4") for k in (0, 1, 1000)]
        comm.all_reduce_list(arrays)
        for k, each in zip((0, 1, 1000), arrays):
            assert (each == sum(r + k for r in range(size))).all()
        outs = [np.empty(k, "f4") for k in (2, 300)]
        comm.reduce_scatter_list([np.repeat(np.arange(size), k).astype("f4") for k in (2, 300)], outs)
        assert all((each == size * comm.rank).all() for each in outs)
        fulls = [np.empty(k * size, "u2") for k in (2, 300)]
        comm.all_gather_list([np.full(k, comm.rank, "u2") for k in (2, 300)], fulls)
        for k, each in zip((2, 300), fulls):
            np.testing.assert_array_equal(each, np.repeat(np.arange(size), k))
        comm.all_reduce_list([])
        with pytest.raises(TypeError, match="one type"):
            comm.all_reduce_list([np.zeros(1, "f4"), np.zeros(1, "f8")])
        with pytest.raises(ValueError, match="entries"):
            comm.all_reduce_list([np.zeros(1)], [])

    on_ranks(3, call)


def test_rail_order(on_ranks):
    def call(comm):
        out = np.empty(2 * comm.size, "i4")
        comm.all_gather(np.full(2, comm.rank, "i4"), out, order="rail")
        for rank in range(comm.size):
            block = comm.block_of(rank, "rail")
            assert (out[2 * block:2 * block + 2] == rank).all()
        with pytest.raises(ValueError, match="order"):
            comm.all_gather(np.zeros(1), np.zeros(comm.size), order="column")

    on_ranks(4, call)


def test_messages(on_ranks):
    def call(comm):
        if comm.rank == 0:
            comm.send(np.arange(5, dtype="c16"), 1)
        else:
            got = np.empty(5, "c16")
            comm.recv(got, 0)
            np.testing.assert_array_equal(got, np.arange(5))
        mine, theirs = np.full(100000, comm.rank), np.empty(100000, int)
        with horing.group():
            comm.recv(theirs, 1 - comm.rank)
            comm.send(mine, 1 - comm.rank)
        assert (theirs == 1 - comm.rank).all()

    on_ranks(2, call)


def test_messages_with_tags(on_ranks):
    def call(comm):
        if comm.rank == 0:
            comm.send(np.array([1.0]), 2, tag=7)
            comm.send(np.array([2.0]), 2, tag=2**64 - 1)
        elif comm.rank == 1:
            comm.send(np.array([3.0]), 2, tag=5)
        else:
            got = np.zeros(1)
            assert comm.recv(got, 0, tag=2**64 - 1) == 0 and got[0] == 2  # not in the order of the sends
            assert comm.recv(got, tag=5) == 1 and got[0] == 3
            with horing.Stream() as stream:
                assert comm.recv(got, tag=7, stream=stream) in (0, None)
                stream.synchronize()
            assert got[0] == 1
        with pytest.raises(ValueError, match="tag"):
            comm.recv(np.zeros(1))
        with pytest.raises(ValueError, match="tag"):
            comm.send(np.zeros(1), 0, tag=-1)

    on_ranks(3, call)


def test_only_memory_that_is_held_is_given_for_the_sender(on_ranks, monkeypatch):
    """On a stream that is a number nobody holds it until the message arrives."""
    given, receive = [], _capi.horingRecvTagged
    monkeypatch.setattr(_capi, "horingRecvTagged", lambda *arguments: given.append(arguments[5]) or receive(*arguments))

    def call(comm):
        if comm.rank == 1:
            for tag in range(3):
                comm.send(np.ones(1), 0, tag=tag)
            return None
        inbox = np.zeros(1)
        with horing.Stream() as stream:
            found = [comm.recv(inbox, tag=tag, stream=where) for tag, where in enumerate((None, stream, stream.handle))]
            stream.synchronize()
        return found[0], found[2], inbox[0]

    assert on_ranks(2, call)[0] == (1, None, 1)
    assert given[0] and given[1] and given[2] is None


def test_scaled_sum(on_ranks):
    def call(comm):
        for dtype, scalar in (("float32", 0.5), ("float64", 0.25), ("int32", 3), ("float16", np.float16(2))):
            array = np.full(9, comm.rank + 1, dtype)
            with comm.premul_sum(scalar if comm.rank == 0 else 0, dtype) if comm.rank == 0 or dtype != "float16" else \
                    comm.premul_sum(np.zeros(1, "f2"), dtype) as op:
                comm.all_reduce(array, op=op)
                assert (array == float(scalar)).all()
                with pytest.raises(TypeError, match="is for"):
                    comm.all_reduce(np.zeros(3, "i8"), op=op)
            with pytest.raises(ValueError, match="closed"):
                comm.all_reduce(array, op=op)
        halves = np.full(4, 0x4000, "u2")  # 2.0 in bfloat16
        with comm.premul_sum(1.5, "bfloat16") as op:
            comm.all_reduce(halves, op=op, dtype="bfloat16")
        assert (halves == 0x40c0).all()  # 6.0

    on_ranks(2, call)


def test_wrong_buffers_are_refused_and_nothing_is_sent(on_ranks):
    def call(comm):
        n = comm.size
        for kind, wrong in [
                (ValueError, lambda: comm.all_reduce(np.zeros(3), np.zeros(4))),
                (TypeError, lambda: comm.all_reduce(np.zeros(3, "f4"), np.zeros(3, "f8"))),
                (TypeError, lambda: comm.all_reduce(np.zeros(3, "i2"))),
                (ValueError, lambda: comm.all_reduce(b"read-only")),
                (ValueError, lambda: comm.all_gather(np.zeros(3), np.zeros(3 * n + 1))),
                (ValueError, lambda: comm.reduce_scatter(np.zeros(3 * n + 1), np.zeros(3))),
                (ValueError, lambda: comm.all_to_all(np.zeros(n + 1), np.zeros(n + 1))),
                (TypeError, lambda: comm.gather(np.zeros(3), None, comm.rank)),
                (ValueError, lambda: comm.all_gather_v(np.zeros(1), np.zeros(n), [1] * (n + 1))),
                (ValueError, lambda: comm.all_gather_v(np.zeros(1), np.zeros(n), [1] * n, [n] * n)),
                (ValueError, lambda: comm.all_gather_v(np.zeros(1), np.zeros(n), [-1] * n)),
                (ValueError, lambda: comm.gather_v(np.zeros(1), np.zeros(n), root=comm.rank)),
                (horing.InvalidArgumentError, lambda: comm.reduce(np.zeros(3), root=n)),
                (horing.InvalidArgumentError, lambda: comm.send(np.zeros(3), -1)),
                (ValueError, lambda: comm.send(np.zeros(3), 2**32 + 1 - comm.rank)),
                (ValueError, lambda: comm.recv(np.zeros(3), -1, tag=1)),
                (ValueError, lambda: comm.recv(np.zeros(3), 2**32, tag=1)),
                (ValueError, lambda: comm.send(np.zeros(3), 1 - comm.rank, tag=2**64)),
                (TypeError, lambda: comm.send(np.zeros(3), 1 - comm.rank, tag=1.5)),
                (TypeError, lambda: comm.broadcast(np.zeros(3), root="0")),
                (TypeError, lambda: comm.all_reduce(np.zeros(3), op="sum")),
                (TypeError, lambda: comm.all_reduce(np.zeros(3, bool), op="sum")),
                (ValueError, lambda: comm.premul_sum(1.5, "int32")),
                (ValueError, lambda: comm.premul_sum(2**31, "int32")),
                (ValueError, lambda: comm.premul_sum(1e300, "float32")),
                (ValueError, lambda: comm.premul_sum(1e300, "bfloat16"))]:
            with pytest.raises(kind):
                wrong()
        overlapping = np.zeros(8)
        with pytest.raises(horing.InvalidArgumentError, match="overlap"):
            comm.all_reduce(overlapping[:6], overlapping[2:])
        comm.barrier()
        assert comm.error is None

    on_ranks(2, call)


@pytest.mark.parametrize("call", ["broadcast", "reduce", "gather", "scatter", "gather_v", "scatter_v"])
def test_a_root_of_more_than_32_bits_is_no_other_root(call):
    with horing.Communicator(horing.unique_id(), 1, 0) as comm:
        buffers = (np.zeros(3),) if call in ("broadcast", "reduce") else (np.zeros(3), np.zeros(3))
        counts = {"counts": [3]} if call.endswith("_v") else {}
        getattr(comm, call)(*buffers, root=np.int64(0), **counts)
        with pytest.raises(ValueError, match="root is 4294967296"):
            getattr(comm, call)(*buffers, root=2**32, **counts)


def test_nothing_can_be_sent(on_ranks):
    def call(comm):
        comm.all_reduce(np.zeros(0, "f4"))
        comm.all_gather(bytearray(), bytearray())
        comm.broadcast(np.zeros((0, 5), "c8"))

    on_ranks(2, call)
