"""Communicators: making, asking and ending them."""

from __future__ import annotations

import ctypes
import os
import threading
import time
import weakref
from typing import Any, Callable, List, NamedTuple, Optional, Sequence

from . import _capi, _interrupt, stream as streams
from ._at_exit import at_exit
from ._launch import make_from_environment
from .collectives import Collectives
from .errors import HoringError, InvalidUsageError
from .memory import Registration
from .stream import Stream
from .group import hold, is_open

__all__ = ["Communicator", "Place", "unique_id"]

_SHORTEST_PAUSE, _LONGEST_PAUSE = 50e-6, 2e-3
_LONGEST_DESCRIPTION = 1 << 16
_SECONDS_FOR_CALLBACKS = 5.0


class Place(NamedTuple):
    """Where a rank is: the number of its group (node), and its local index there."""

    group: int
    local: int


def unique_id() -> bytes:
    """Makes an ID for one communicator, and opens in this process the port to which the ranks connect.

    Call it in the process of one rank and keep that alive until all ranks are initialised. Any process that has the ID can join:
    pass it on over a private channel. Any thread. Raises SystemCallError.
    """
    made = _capi.UniqueId()
    _capi.check(_capi.horingGetUniqueId(made))
    return bytes(made.internal)


class Communicator(Collectives):
    """One rank of a set of ranks that call the same collectives in the same order.

    ``Communicator(id, size, rank)`` makes rank `rank` of `size`: it waits until all ranks have called it with the same ID of
    :func:`unique_id`. ``name`` begins the text of :meth:`describe`; ``timeout`` and ``init_timeout`` are the seconds that an
    operation and the initialisation may take (HORING_TIMEOUT_MS, HORING_INIT_TIMEOUT_MS); ``reproducible`` makes the
    bits of reductions depend only on inputs and groups (HORING_REPRODUCIBLE).

    One thread at a time uses a communicator; ``abort``, ``rank``, ``size``, ``error``, ``failed_rank``, ``place_of``,
    ``block_of``, ``set_timeout`` and ``register`` may be used by any thread at any time. It belongs to the process that made
    it: in a forked child calls raise InvalidUsageError and leave the parent's alone.

    ``close`` ends it; a ``with`` block closes it, or aborts it if the block raises, so that the other ranks learn of it at
    once; and so does the end of the program. After the first error that left ranks out of step every collective raises it
    again; what is left is ``shrink``, ``abort`` and ``close``.
    """

    def __init__(self, id: bytes, size: int, rank: int, *, name: Optional[str] = None, timeout: Optional[float] = None,
                 init_timeout: Optional[float] = None, reproducible: Optional[bool] = None):
        if len(id) != _capi.UNIQUE_ID_BYTES:
            raise ValueError(f"id has {len(id)} bytes: expected the {_capi.UNIQUE_ID_BYTES} of horing.unique_id()")
        size = _capi.whole("size", size, 1)
        rank = _capi.whole("rank", rank, 0, size)
        config = _capi.make_config(blocking=False, name=name)
        options = _capi.make_options(timeout, init_timeout, reproducible)
        given = _capi.UniqueId.from_buffer_copy(id)
        self._adopt(_await_rank(lambda out: _capi.horingCommInitRankOptions(out, size, given, rank, config, options)))

    @classmethod
    def from_environment(cls) -> "Communicator":
        """Rank, size and rendezvous address from the launcher: horing-run, mpirun (Open MPI, MPICH), srun or torchrun.

        May be called again, also after a close: the ranks' first calls make one communicator, their second calls the next.
        Raises InvalidUsageError (no launcher, no secret), InvalidArgumentError, TimeoutError.
        """
        return cls._of(make_from_environment())

    @classmethod
    def create_all(cls, size: int) -> "List[Communicator]":
        """All ranks of a communicator in this process, each driven by its own thread, or all in a group."""
        size = _capi.whole("size", size, 1)
        handles = (ctypes.c_void_p * size)()
        _capi.check(_capi.horingCommInitAll(ctypes.cast(handles, ctypes.POINTER(ctypes.c_void_p)), size, None))
        return [cls._of(handle) for handle in handles]

    @classmethod
    def _of(cls, handle: Any) -> "Communicator":
        made = cls.__new__(cls)
        made._adopt(handle)
        return made

    def _adopt(self, handle: int) -> None:
        self._handle: Optional[int] = handle
        self._ended = "closed"  # its state, once it has no handle
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._alone = (self,)
        self._rank = self._ask(_capi.horingCommUserRank)
        self._size = self._ask(_capi.horingCommCount)
        _communicators.add(self)

    # ---- Relatives ----

    def split(self, color: Optional[int], key: Optional[int] = None) -> "Optional[Communicator]":
        """The ranks of each `color` (0 or more) get a communicator, ordered by `key` (default: their rank).

        All ranks call it; with color None a rank gets None. This communicator is unchanged, and the two are independent.
        """
        self._check_no_group("split")
        config, comm = _capi.make_config(blocking=False), self._open()
        with_color = _capi.NO_COLOR if color is None else _capi.whole("color", color, 0)
        with_key = self._rank if key is None else _capi.whole("key", key)
        handle = _await_made(lambda out: _interrupt.run(self._alone, _capi.horingCommSplit, comm, with_color,
                                                        with_key, out, config), self)
        return None if handle is None else self._of(handle)

    def shrink(self, excluded: Sequence[int], *, abort: bool = False) -> "Communicator":
        """A communicator of the ranks that are not `excluded`, which may be dead; all other ranks call it with the same list.

        Works on one in error. ``abort=True`` ends this one: calls that run on it return an error, and it can only be closed
        or aborted. Otherwise the operations that this rank has issued are waited for.
        """
        self._check_no_group("shrink")
        config, comm = _capi.make_config(blocking=False), self._open()
        ranks = (ctypes.c_int * len(excluded))(*(self._checked_rank("an entry of excluded", each) for each in excluded))
        flags = _capi.SHRINK_ABORT if abort else _capi.SHRINK_DEFAULT
        handle = _await_rank(lambda out: _interrupt.run(self._alone, _capi.horingCommShrink, comm, ranks, len(excluded), out,
                                                        config, flags), self)
        return self._of(handle)

    # ---- Asking ----

    @property
    def rank(self) -> int:
        return self._rank

    @property
    def size(self) -> int:
        return self._size

    @property
    def handle(self) -> Optional[int]:
        """The horingComm_t as a number, for the C API; None once it is closed or aborted."""
        return self._handle

    @property
    def error(self) -> Optional[HoringError]:
        """The error that sticks to the communicator, or None. Does not wait."""
        comm = self._open()
        code = self._ask(_capi.horingCommGetAsyncError)
        return None if code in (_capi.SUCCESS, _capi.IN_PROGRESS) else _capi.comm_error(code, comm)

    @property
    def failed_rank(self) -> Optional[int]:
        """The rank that the error is about; None where there is none, or it is about no single rank."""
        return _capi.failed_rank(self._handle)

    @property
    def gpu(self) -> Optional[int]:
        """The CUDA number of the GPU that the communicator works on; None while there is none."""
        device = self._ask(_capi.horingCommCuDevice)
        return None if device < 0 else device

    @property
    def memory_bytes(self) -> int:
        """The memory that this rank holds for the communicator: slots, shared segments, plans."""
        return self._ask(_capi.horingCommMemoryBytes, ctypes.c_uint64)

    def describe(self) -> str:
        """The placement of ranks, the rings, the transports, the algorithm of each collective; for humans."""
        text = ctypes.create_string_buffer(_LONGEST_DESCRIPTION)
        comm = self._open()
        _capi.check(_capi.horingCommDescribe(comm, text, len(text)), comm)
        return text.value.decode(errors="replace")

    def place_of(self, rank: int) -> Place:
        """The group (node) of a rank and its local index there."""
        group, local, comm = ctypes.c_int(), ctypes.c_int(), self._open()
        _capi.check(_capi.horingCommGroup(comm, self._checked_rank("rank", rank), group, local), comm)
        return Place(group.value, local.value)

    def block_of(self, rank: int, order: str = "rank") -> int:
        """The number of a rank's block in a buffer with one block for each rank, in that order: "rank", or "rail" (by local
        index, then by group)."""
        block, comm = ctypes.c_int(), self._open()
        _capi.check(_capi.horingCommBlock(comm, self._order(order), self._checked_rank("rank", rank), block), comm)
        return block.value

    def set_timeout(self, seconds: float) -> None:
        """The deadline of operations that begin later, in place of HORING_TIMEOUT_MS."""
        comm = self._open()
        _capi.check(_capi.horingCommSetTimeout(comm, _capi.milliseconds(seconds)), comm)

    def register(self, buffer: Any) -> Registration:
        """Announces that a buffer will be used often: RDMA devices then read and write it in place. See Registration."""
        return Registration(self, buffer)

    # ---- Ending ----

    def close(self) -> None:
        """Waits for this rank's operations and the delivery of what it has sent, then releases the communicator.

        Ranks may call it at different times; returns even when other ranks are dead. Again, after an abort, or in a forked child,
        it does nothing. Raises InvalidUsageError if a collective is running in another thread.
        """
        if not self._is_ours() or self._handle is None:
            return
        _interrupt.run(self._alone, _capi.horingCommFinalize, self._handle)  # its error was, or will be, a collective's
        handle = self._take("closed")
        if handle is None:
            return
        code = _capi.horingCommDestroy(handle)
        if code == InvalidUsageError.code:
            self._handle = handle
            raise _capi.error(code)

    def abort(self) -> None:
        """Ends the communicator without waiting: a collective that another thread is running on it raises, and the other
        ranks get a RemoteError. Any thread. Again, after a close, or in a forked child, it does nothing."""
        self._abort("aborted")

    def _abort_interrupted(self) -> None:
        self._abort("aborted by Ctrl-C")

    def _abort(self, why: str) -> None:
        if self._is_ours():
            handle = self._take(why)
            if handle is not None:
                _capi.horingCommAbort(handle)

    def _take(self, why: str) -> Optional[int]:
        with self._lock:
            handle, self._handle = self._handle, None
            if handle is not None:
                self._ended = why
            return handle

    def __enter__(self) -> "Communicator":
        return self

    def __exit__(self, kind: Any, value: Any, _: Any) -> None:
        if kind is None or (kind is SystemExit and not value.code):
            self.close()
        else:
            self.abort()

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None and self._is_ours():
            _capi.horingCommDestroy(self._take("closed"))

    def __reduce__(self) -> Any:
        raise TypeError("a Communicator belongs to the process that made it and cannot be pickled")

    def __repr__(self) -> str:
        state = "" if self._handle is not None else f", {self._ended}"
        return f"<horing.Communicator rank {self._rank} of {self._size}{state}>"

    # ---- For the package ----

    def _is_ours(self) -> bool:
        return self._pid == os.getpid()

    def _open(self) -> int:
        handle = self._handle
        if handle is None:
            raise InvalidUsageError(f"the communicator was {self._ended}: make a new one")
        return handle

    def _ask(self, function: Callable, kind: Any = ctypes.c_int) -> int:
        answer, comm = kind(), self._open()
        _capi.check(function(comm, answer))
        return answer.value

    def _check_no_group(self, what: str) -> None:
        if is_open():
            raise InvalidUsageError(f"{what} inside a group: leave the group first")

    def _issue(self, function: Callable, stream: Any, buffers: Any, *arguments: Any) -> None:
        """Makes a call that moves data: at once, in this thread's group, or on a stream, which then hold its buffers."""
        handle = self._handle
        if handle is None:
            self._open()
        own = stream if isinstance(stream, Stream) else None
        raw = stream if stream is None else own._open() if own is not None else _pointer_of(stream)
        code = _interrupt.run(self._alone, function, *arguments, handle, raw)
        if code != _capi.SUCCESS:
            raise _capi.error(code, handle)
        if is_open():
            hold(self, own, buffers)
        elif own is not None:
            own._hold(self, buffers)


def _pointer_of(stream: Any) -> int:
    """A cudaStream_t: a number, or a stream of PyTorch, CuPy or cuda.core."""
    if isinstance(stream, int):
        return stream
    for name in ("cuda_stream", "ptr"):
        pointer = getattr(stream, name, None)
        if pointer is not None:
            return int(pointer)
    if hasattr(stream, "__cuda_stream__"):
        return int(stream.__cuda_stream__()[1])
    raise TypeError(f"stream is a {type(stream).__name__}: expected a horing.Stream, a CUDA stream, its number, or None")


def _await_made(begin: Callable, parent: Optional[Communicator] = None) -> Optional[int]:
    """Makes a communicator in a thread of the library while this one stays open to Ctrl-C."""
    out = ctypes.c_void_p()
    code = begin(out)
    if code not in (_capi.SUCCESS, _capi.IN_PROGRESS):
        raise _capi.error(code, None if parent is None else parent._handle)
    made = out.value
    if made is None:
        return None
    state, pause = ctypes.c_int(), _SHORTEST_PAUSE
    try:
        while _capi.horingCommGetAsyncError(made, state) == _capi.SUCCESS and state.value == _capi.IN_PROGRESS:
            time.sleep(pause)
            pause = min(1.5 * pause, _LONGEST_PAUSE)
    except BaseException:
        if parent is not None:  # whose ranks the exchange waits for
            parent._abort_interrupted()
        _capi.horingCommAbort(made)
        raise
    if state.value != _capi.SUCCESS:
        error = _capi.comm_error(state.value, made)
        _capi.horingCommDestroy(made)
        raise error
    return made


def _await_rank(begin: Callable, parent: Optional[Communicator] = None) -> int:
    """The same where there is a rank for this process in any case."""
    made = _await_made(begin, parent)
    assert made is not None
    return made


# ---- The end of the program ----

_communicators: "weakref.WeakSet[Communicator]" = weakref.WeakSet()


@at_exit
def _end_all() -> None:
    """Closes all that is still open, and abandons operations in progress."""
    for communicator in streams.communicators_under_way():
        communicator.abort()
    for communicator in list(_communicators):
        try:
            communicator.close()
        except HoringError:  # a thread is in a call on it
            communicator.abort()
    streams.await_callbacks(_SECONDS_FOR_CALLBACKS)
