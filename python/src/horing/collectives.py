"""Collectives and messages: a Communicator's operations on buffers."""

from __future__ import annotations

import ctypes
import struct
from typing import Any, Callable, List, Optional, Sequence, Tuple, Union

from . import _capi, _kinds
from ._capi import DType, Op
from ._kinds import Kind
from .buffers import View, view
from .stream import Stream

__all__ = ["Collectives", "PreMulSum"]

_ORDERS = {"rank": _capi.RANK_MAJOR, "rail": _capi.RAIL_MAJOR}


class PreMulSum:
    """A reduction that sums the ranks' inputs, each multiplied by its rank's scalar. Made by :meth:`Collectives.premul_sum`.

    ``close`` releases it, and so do a ``with`` block and the end of the communicator. Operations that were issued before
    still complete with it.
    """

    def __init__(self, communicator: Any, scalar: Any, kind: Kind):
        if kind.dtype is None or kind is _kinds.BOOL:
            raise TypeError(f"there is no scaled sum of {kind.name}")
        self.kind = kind
        self._communicator = communicator
        given = _scalar_bytes(scalar, kind)
        number, comm = ctypes.c_int(), communicator._open()
        _capi.check(_capi.horingRedOpCreatePreMulSum(number, given, kind.dtype, _capi.SCALAR_HOST_IMMEDIATE, comm), comm)
        self.number: Optional[int] = number.value

    def close(self) -> None:
        number, self.number = self.number, None
        comm = self._communicator._handle
        if number is not None and comm is not None and self._communicator._is_ours():
            _capi.check(_capi.horingRedOpDestroy(number, comm), comm)

    def __enter__(self) -> "PreMulSum":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


Reduction = Union[Op, PreMulSum]
Call = Callable[..., int]


class Collectives:
    """The calls of a communicator that move data. n is its number of ranks.

    Buffers are objects that :func:`horing.view` supports: NumPy arrays, tensors, bytearrays, anything with DLPack. They must be
    contiguous, and writable if they receive; two buffers of a call have one type, and overlap exactly as "in place" says or not
    at all. ``dtype=`` names their type if the object cannot (bfloat16 in a uint16 array). Elements that the
    library cannot reduce (int16, complex, records) can be moved. All buffers of a call are in host memory, or all on a GPU.

    Without ``stream`` the operation is complete on return. With a :class:`horing.Stream` the call returns at once and the
    stream holds the buffers until the operation is complete; they must not be touched before. With a CUDA stream (an object
    of PyTorch or CuPy, or its number), for buffers on its GPU, it is ordered like a kernel launched there, and the caller
    keeps the buffers. Within ``with horing.group():`` calls begin when the group ends.

    All ranks call the same collectives in the same order. Wrong buffers raise TypeError or ValueError before anything is
    sent; otherwise errors are :class:`horing.HoringError`: InvalidArgumentError and InvalidUsageError (ranks that called
    different things, two threads), RemoteError (a rank died; its number is in ``rank``), TimeoutError (ranks that never came).
    Ctrl-C aborts the communicator and raises KeyboardInterrupt.
    """

    _rank: int
    _size: int

    def _issue(self, function: Call, stream: Any, buffers: Any, *arguments: Any) -> None:
        raise NotImplementedError

    # ---- Collectives ----

    def all_reduce(self, send: Any, recv: Any = None, op: Reduction = Op.SUM, *, dtype: Any = None,
                   stream: Any = None) -> None:
        """recv[i] = op over all ranks of send[i], on every rank. In place without recv."""
        source, target = _pair(send, recv, dtype)
        _expect_count("recv", target, source.count)
        number = self._reduction(op, source.kind)
        self._issue(_capi.horingAllReduce, stream, (source, target), source.address, target.address, source.count,
                    source.kind.dtype, number)

    def reduce_scatter(self, send: Any, recv: Any, op: Reduction = Op.SUM, *, order: str = "rank", dtype: Any = None,
                       stream: Any = None) -> None:
        """Rank k gets block k of the reduction of send, which has n blocks of recv's size. In place where recv is block `rank`
        of send. ``order="rail"`` numbers blocks by local index, then by group (:meth:`Communicator.block_of`)."""
        source, target = _pair(send, recv, dtype)
        _expect_count("send", source, target.count * self._size)
        number = self._reduction(op, source.kind)
        self._issue(_capi.horingReduceScatterOrdered, stream, (source, target), source.address, target.address, target.count,
                    source.kind.dtype, number, self._order(order))

    def all_gather(self, send: Any, recv: Any, *, order: str = "rank", dtype: Any = None, stream: Any = None) -> None:
        """Block r of recv is send of rank r, on every rank; recv has n blocks. In place where send is block `rank` of recv.
        ``order`` as for reduce_scatter."""
        source, target = _pair(send, recv, dtype)
        _expect_count("recv", target, source.count * self._size)
        kind, factor = source.kind.in_moves()
        self._issue(_capi.horingAllGatherOrdered, stream, (source, target), source.address, target.address,
                    source.count * factor, kind, self._order(order))

    def broadcast(self, buffer: Any, root: int = 0, *, dtype: Any = None, stream: Any = None) -> None:
        """buffer of the root goes to buffer of every rank."""
        root = self._checked_rank("root", root)
        it = view(buffer, dtype)
        if self._rank != root:
            _expect_writable(it)
        kind, factor = it.kind.in_moves()
        self._issue(_capi.horingBcast, stream, it, it.address, it.count * factor, kind, root)

    def reduce(self, send: Any, recv: Any = None, root: int = 0, op: Reduction = Op.SUM, *, dtype: Any = None,
               stream: Any = None) -> None:
        """recv[i] = op over all ranks of send[i], on the root; other ranks need no recv. In place without recv."""
        root = self._checked_rank("root", root)
        if self._rank == root:
            source, target = _pair(send, recv, dtype)
            _expect_count("recv", target, source.count)
        else:
            source = target = view(send, dtype)
        number = self._reduction(op, source.kind)
        self._issue(_capi.horingReduce, stream, (source, target), source.address, target.address, source.count,
                    source.kind.dtype, number, root)

    def gather(self, send: Any, recv: Any = None, root: int = 0, *, dtype: Any = None, stream: Any = None) -> None:
        """Block r of recv is send of rank r, on the root; other ranks need no recv. In place where send is block `root`."""
        root = self._checked_rank("root", root)
        source, address, held = view(send, dtype), None, None
        if self._rank == root:
            held = _partner(source, recv, dtype, writes=True)
            _expect_count("recv", held, source.count * self._size)
            address = held.address
        kind, factor = source.kind.in_moves()
        self._issue(_capi.horingGather, stream, (source, held), source.address, address, source.count * factor, kind, root)

    def scatter(self, send: Any, recv: Any, root: int = 0, *, dtype: Any = None, stream: Any = None) -> None:
        """Rank k gets block k of the root's send; other ranks pass None for it. In place where recv is block `root`."""
        root = self._checked_rank("root", root)
        target, address, held = _expect_writable(view(recv, dtype)), None, None
        if self._rank == root:
            held = _partner(target, send, dtype, writes=False)
            _expect_count("send", held, target.count * self._size)
            address = held.address
        kind, factor = target.kind.in_moves()
        self._issue(_capi.horingScatter, stream, (target, held), address, target.address, target.count * factor, kind, root)

    def all_to_all(self, send: Any, recv: Any, *, dtype: Any = None, stream: Any = None) -> None:
        """Block r of recv is block `rank` of rank r's send; both have n blocks, and must not overlap."""
        source, target = _pair(send, recv, dtype)
        _expect_count("recv", target, source.count)
        count, rest = divmod(source.count, self._size)
        if rest:
            raise ValueError(f"send has {source.count} elements: expected a multiple of {self._size}, the number of ranks")
        kind, factor = source.kind.in_moves()
        self._issue(_capi.horingAlltoAll, stream, (source, target), source.address, target.address, count * factor, kind)

    def barrier(self, *, stream: Any = None) -> None:
        """Complete when all ranks have called it, after their operations before."""
        byte = bytearray(1)
        self.all_reduce(byte, op=Op.MAX, stream=stream)

    # ---- Blocks of different sizes: counts has one number for each rank. Blocks begin at displs, or follow each other. ----

    def all_gather_v(self, send: Any, recv: Any, counts: Sequence[int], displs: Optional[Sequence[int]] = None, *,
                     dtype: Any = None, stream: Any = None) -> None:
        """Block r of recv, of counts[r] elements, is send of rank r. All ranks pass the same counts."""
        source, target = _pair(send, recv, dtype)
        blocks = self._blocks("recv", target, counts, displs)
        _expect_count("send", source, counts[self._rank])
        kind, factor = source.kind.in_moves()
        sizes, starts = blocks.scaled(factor)
        self._issue(_capi.horingAllGatherV, stream, (source, target), source.address, source.count * factor, target.address,
                    sizes, starts, kind)

    def reduce_scatter_v(self, send: Any, recv: Any, counts: Sequence[int], displs: Optional[Sequence[int]] = None,
                         op: Reduction = Op.SUM, *, dtype: Any = None, stream: Any = None) -> None:
        """Rank k gets block k, of counts[k] elements, of the reduction of send. All ranks pass the same counts."""
        source, target = _pair(send, recv, dtype)
        blocks = self._blocks("send", source, counts, displs)
        _expect_count("recv", target, counts[self._rank])
        number = self._reduction(op, source.kind)
        sizes, starts = blocks.scaled(1)
        self._issue(_capi.horingReduceScatterV, stream, (source, target), source.address, sizes, starts, target.address,
                    source.kind.dtype, number)

    def gather_v(self, send: Any, recv: Any = None, counts: Optional[Sequence[int]] = None,
                 displs: Optional[Sequence[int]] = None, root: int = 0, *, dtype: Any = None, stream: Any = None) -> None:
        """Block r of recv, of counts[r] elements, is send of rank r, on the root; the other ranks need no recv and counts."""
        root = self._checked_rank("root", root)
        source, target = view(send, dtype), None
        kind, factor = source.kind.in_moves()
        address = sizes = starts = None
        if self._rank == root:
            target = _partner(source, recv, dtype, writes=True)
            sizes, starts = self._blocks("recv", target, counts, displs).scaled(factor)
            address = target.address
        self._issue(_capi.horingGatherV, stream, (source, target), source.address, source.count * factor, address, sizes,
                    starts, kind, root)

    def scatter_v(self, send: Any, recv: Any, counts: Optional[Sequence[int]] = None,
                  displs: Optional[Sequence[int]] = None, root: int = 0, *, dtype: Any = None, stream: Any = None) -> None:
        """Rank k gets block k, of counts[k] elements, of the root's send; the other ranks pass None for send and no counts."""
        root = self._checked_rank("root", root)
        target, source = _expect_writable(view(recv, dtype)), None
        kind, factor = target.kind.in_moves()
        address = sizes = starts = None
        if self._rank == root:
            source = _partner(target, send, dtype, writes=False)
            sizes, starts = self._blocks("send", source, counts, displs).scaled(factor)
            address = source.address
        self._issue(_capi.horingScatterV, stream, (source, target), address, sizes, starts, target.address,
                    target.count * factor, kind, root)

    def all_to_all_v(self, send: Any, send_counts: Sequence[int], recv: Any, recv_counts: Sequence[int],
                     send_displs: Optional[Sequence[int]] = None, recv_displs: Optional[Sequence[int]] = None, *,
                     dtype: Any = None, stream: Any = None) -> None:
        """Block r of recv, of recv_counts[r] elements, is block `rank` of rank r's send. The two ranks agree on its size."""
        source, target = _pair(send, recv, dtype)
        kind, factor = source.kind.in_moves()
        send_sizes, send_starts = self._blocks("send", source, send_counts, send_displs).scaled(factor)
        recv_sizes, recv_starts = self._blocks("recv", target, recv_counts, recv_displs).scaled(factor)
        self._issue(_capi.horingAlltoAllV, stream, (source, target), source.address, send_sizes, send_starts, target.address,
                    recv_sizes, recv_starts, kind)

    # ---- Lists: one call for many buffers of one type; small ones travel together ----

    def all_reduce_list(self, sends: Sequence[Any], recvs: Optional[Sequence[Any]] = None, op: Reduction = Op.SUM, *,
                        dtype: Any = None, stream: Any = None) -> None:
        """all_reduce of each entry. All ranks pass lists of the same lengths and counts."""
        pairs = _pairs(sends, sends if recvs is None else recvs, dtype, recvs is None)
        for source, target in pairs:
            _expect_count("an entry of recvs", target, source.count)
        self._issue_list(_capi.horingAllReduceList, stream, pairs, [s.count for s, _ in pairs], op)

    def reduce_scatter_list(self, sends: Sequence[Any], recvs: Sequence[Any], op: Reduction = Op.SUM, *, dtype: Any = None,
                            stream: Any = None) -> None:
        """reduce_scatter of each entry."""
        pairs = _pairs(sends, recvs, dtype)
        for source, target in pairs:
            _expect_count("an entry of sends", source, target.count * self._size)
        self._issue_list(_capi.horingReduceScatterList, stream, pairs, [t.count for _, t in pairs], op)

    def all_gather_list(self, sends: Sequence[Any], recvs: Sequence[Any], *, dtype: Any = None, stream: Any = None) -> None:
        """all_gather of each entry."""
        pairs = _pairs(sends, recvs, dtype)
        for source, target in pairs:
            _expect_count("an entry of recvs", target, source.count * self._size)
        self._issue_list(_capi.horingAllGatherList, stream, pairs, [s.count for s, _ in pairs], None)

    # ---- Messages ----

    def send(self, buffer: Any, peer: int, *, tag: Optional[int] = None, dtype: Any = None, stream: Any = None) -> None:
        """Sends to `peer`; complete when buffer may be reused.

        Without a tag the first send from a to b meets the first recv of b from a, the second the second, and so on; that may
        need the peer's recv, so ranks that send to each other use a group. With one (0 to 2**64 - 1) the message goes to the
        first recv that names the tag; until then the receiver keeps it, up to 64 MiB in all.
        """
        it = view(buffer, dtype)
        kind, factor = it.kind.in_moves()
        peer = self._checked_rank("peer", peer)
        tagged = () if tag is None else (_capi.whole("tag", tag, 0, 2**64),)
        function = _capi.horingSend if tag is None else _capi.horingSendTagged
        self._issue(function, stream, it, it.address, it.count * factor, kind, peer, *tagged)

    def recv(self, buffer: Any, peer: Optional[int] = None, *, tag: Optional[int] = None, dtype: Any = None,
             stream: Any = None) -> Optional[int]:
        """Receives from `peer` a message of exactly this size; with a tag, from any rank if `peer` is None.

        Returns the rank that sent it; None where the operation is not complete yet (on a stream, in a group).
        """
        it = _expect_writable(view(buffer, dtype))
        kind, factor = it.kind.in_moves()
        if peer is not None:
            peer = self._checked_rank("peer", peer)
        if tag is None:
            if peer is None:
                raise ValueError("a message from any rank needs a tag")
            self._issue(_capi.horingRecv, stream, it, it.address, it.count * factor, kind, peer)
            return peer
        # Written when the message arrives; passed to the library only if an object keeps it alive until then.
        source = ctypes.c_int(-1) if stream is None or isinstance(stream, Stream) else None
        self._issue(_capi.horingRecvTagged, stream, (it, source), it.address, it.count * factor, kind,
                    _capi.ANY_RANK if peer is None else peer, _capi.whole("tag", tag, 0, 2**64),
                    None if source is None else ctypes.addressof(source))
        return None if source is None or source.value < 0 else source.value

    # ---- Reductions ----

    def premul_sum(self, scalar: Any, dtype: Any) -> PreMulSum:
        """A reduction for buffers of `dtype` that multiplies this rank's input by `scalar`, a number or a buffer of one
        element of that type, and sums. Each rank makes its own; scalars may differ."""
        return PreMulSum(self, scalar, _kinds.named(dtype))

    # ---- For these calls ----

    def _reduction(self, op: Reduction, kind: Kind) -> int:
        if isinstance(op, PreMulSum):
            if op.number is None or op._communicator is not self:
                raise ValueError("this premul_sum was closed, or belongs to another communicator")
            if op.kind is not kind:
                raise TypeError(f"this premul_sum is for {op.kind.name}, the buffers are of {kind.name}")
            return op.number
        if not isinstance(op, Op):
            raise TypeError(f"op is {op!r}: expected a horing.Op or the result of premul_sum")
        if kind.dtype is None or kind is _kinds.BOOL:
            kind.check_reducible(op)
        return op

    def _checked_rank(self, what: str, rank: Any) -> int:
        return _capi.whole(what, rank, 0, self._size)

    def _order(self, order: str) -> int:
        if order not in _ORDERS:
            raise ValueError(f"order is {order!r}: expected 'rank' or 'rail'")
        return _ORDERS[order]

    def _blocks(self, what: str, buffer: View, counts: Optional[Sequence[int]],
                displs: Optional[Sequence[int]]) -> "_Blocks":
        return _Blocks(what, buffer, self._size, counts, displs)

    def _issue_list(self, function: Call, stream: Any, pairs: List[Tuple[View, View]], counts: List[int],
                    op: Optional[Reduction]) -> None:
        if not pairs:
            return
        kind = pairs[0][0].kind
        dtype, factor = kind.in_moves() if op is None else (kind.dtype, 1)
        reduction = () if op is None else (self._reduction(op, kind),)
        length = len(pairs)
        pointers = ctypes.c_void_p * length
        self._issue(function, stream, pairs, pointers(*(s.address for s, _ in pairs)),
                    pointers(*(t.address for _, t in pairs)), (ctypes.c_size_t * length)(*(c * factor for c in counts)), length,
                    dtype, *reduction)


class _Blocks:
    """counts and displs of one buffer, checked against it."""

    def __init__(self, what: str, buffer: View, ranks: int, counts: Optional[Sequence[int]],
                 displs: Optional[Sequence[int]]):
        for name, given in (("counts", counts), ("displs", displs)):
            if given is None and name == "displs":
                continue
            if given is None or len(given) != ranks or any(each < 0 for each in given):
                raise ValueError(f"{name} of {what} is {given}: expected {ranks} numbers of 0 or more, one for each rank")
        assert counts is not None
        end = sum(counts) if displs is None else max((d + c for d, c in zip(displs, counts) if c), default=0)
        if end > buffer.count or (displs is None and end != buffer.count):
            raise ValueError(f"{what} has {buffer.count} elements, its blocks reach to {end}")
        self._counts, self._displs = counts, displs

    def scaled(self, factor: int) -> Tuple[Any, Any]:
        array = ctypes.c_size_t * len(self._counts)
        starts = None if self._displs is None else array(*(each * factor for each in self._displs))
        return array(*(each * factor for each in self._counts)), starts


def _expect_writable(buffer: View) -> View:
    if not buffer.writable:
        raise ValueError("a buffer that is read-only cannot receive")
    return buffer


def _expect_count(what: str, buffer: View, expected: int) -> None:
    if buffer.count != expected:
        raise ValueError(f"{what} has {buffer.count} elements: expected {expected}")


def _partner(first: View, given: Any, dtype: Any, writes: bool) -> View:
    """The other buffer of a call."""
    other = view(given, dtype)
    if other.kind != first.kind:
        raise TypeError(f"the buffers of a call have one type, not {first.kind.name} and {other.kind.name}")
    if other.on_gpu != first.on_gpu and other.count and first.count:
        raise ValueError("one buffer is in host memory, the other on a GPU: expected both in the same place")
    return _expect_writable(other) if writes else other


def _pair(send: Any, recv: Any, dtype: Any) -> Tuple[View, View]:
    source = view(send, dtype)
    if recv is None:
        return source, _expect_writable(source)
    return source, _partner(source, recv, dtype, writes=True)


def _pairs(sends: Sequence[Any], recvs: Sequence[Any], dtype: Any, in_place: bool = False) -> List[Tuple[View, View]]:
    if len(sends) != len(recvs):
        raise ValueError(f"sends has {len(sends)} entries, recvs has {len(recvs)}")
    pairs = [_pair(send, None if in_place else recv, dtype) for send, recv in zip(sends, recvs)]
    for source, _ in pairs:
        if source.kind != pairs[0][0].kind:
            raise TypeError(f"the entries of a list have one type, not {pairs[0][0].kind.name} and {source.kind.name}")
    return pairs


# ---- Scalars ----

_PACKED = {DType.int8: "b", DType.uint8: "B", DType.int32: "i", DType.uint32: "I", DType.int64: "q", DType.uint64: "Q",
           DType.float16: "e", DType.float32: "f", DType.float64: "d"}


def _packed(scalar: Union[int, float], kind: Kind) -> bytes:
    assert kind.dtype is not None
    if kind.dtype in _PACKED:
        return struct.pack("<" + _PACKED[kind.dtype], scalar)  # only so is too large a float32 noticed
    if kind.dtype is DType.bfloat16:
        bits = struct.unpack("<I", struct.pack("<f", scalar))[0]
        rounded = bits + 0x7fff + (bits >> 16 & 1) >> 16  # to nearest, ties to even
        return struct.pack("<H", rounded & 0xffff)
    raise TypeError(f"a scalar of {kind.name} is given as a buffer of one element")


def _scalar_bytes(scalar: Any, kind: Kind) -> Any:
    """One element, in memory that the returned object keeps alive."""
    if isinstance(scalar, (int, float)):
        try:
            return ctypes.create_string_buffer(_packed(scalar, kind), kind.bytes)
        except (struct.error, OverflowError):
            raise ValueError(f"scalar is {scalar}, which is no {kind.name}") from None
    held = view(scalar, kind.name)
    _expect_count("scalar", held, 1)
    if held.on_gpu:
        raise ValueError("scalar is on a GPU: expected one in host memory")
    return ctypes.create_string_buffer(ctypes.string_at(held.address, kind.bytes), kind.bytes)
