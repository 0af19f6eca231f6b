"""Streams: operations that run in order, asynchronously."""

from __future__ import annotations

import ctypes
import itertools
import os
import sys
import threading
import time
import weakref
from collections import deque
from typing import Any, Callable, Deque, Dict, List, Optional, Tuple

from . import _capi, _interrupt
from .errors import HoringError, TimeoutError

__all__ = ["Stream"]

_MOST_HELD = 4096  # operations whose buffers a stream holds before it waits for the first to complete
_PAUSE = 2e-3
_LONGEST_WAIT_MS = 100  # inside the library, where Ctrl-C does not reach Python


class Stream:
    """An in-order queue of operations on any communicators, run by threads of the library.

    Pass it as ``stream=`` to a collective or a message: the call returns at once, and the operation runs when earlier ones
    on the stream and on the communicator are complete. The stream holds the buffers of its operations until they are.
    Any thread may use it. A ``with`` block closes it, and so does the garbage collector, which does not wait.
    """

    def __init__(self) -> None:
        handle = ctypes.c_void_p()
        _capi.check(_capi.horingStreamCreate(handle))
        self._handle: Optional[int] = handle.value
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._issued = 0
        # (number, communicator, buffers) of each operation that may be in progress.
        self._held: Deque[Tuple[int, Any, Any]] = deque()
        self._error: Optional[HoringError] = None  # the first since the last query or synchronize
        _sweep()
        _streams.add(self)

    # ---- Waiting ----

    def query(self) -> bool:
        """Whether all operations issued so far are complete. Raises the first error among them since the last call."""
        if not self._poll():
            return False
        self._raise_error()
        return True

    def synchronize(self, timeout: Optional[float] = None) -> None:
        """Waits until all operations issued so far are complete, at most `timeout` seconds (None: their own deadlines).

        Raises the first error among them since the last call, or TimeoutError; in that case, and after a
        KeyboardInterrupt, the operations continue. Other threads run meanwhile.
        """
        if timeout is None and not _interrupt.is_main_thread():
            self._take_result(_capi.horingStreamSynchronize, self._open())
        else:
            self._wait(timeout)
        self._raise_error()

    def add_callback(self, callback: Callable[[Optional[HoringError]], Any]) -> None:
        """Calls back once, when all operations issued so far are complete, with the first error among them or None.

        On a thread of the library, or on the calling one if they are complete already. Inside it, calls that wait, and
        calls that end a communicator or stream, raise InvalidUsageError; its exceptions are printed and dropped.
        """
        key = next(_keys)
        _callbacks[key] = callback
        code = _capi.horingStreamAddCallback(self._open(), _call_back, key)
        if code != _capi.SUCCESS:
            del _callbacks[key]
            raise _capi.error(code)

    # ---- Ending ----

    def close(self) -> None:
        """Waits like synchronize, then releases the stream. Called again, or in a forked child, it does nothing."""
        if self._handle is None or self._pid != os.getpid():
            return
        self.synchronize()
        self._release()

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is None:
            self.close()
        else:  # operations in progress may wait for ranks that never arrive
            self._leave()

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if getattr(self, "_handle", None) is not None and not is_finalizing():  # this module may be gone by then
            self._leave()

    def __reduce__(self) -> Any:
        raise TypeError("a Stream belongs to the process that made it and cannot be pickled")

    @property
    def handle(self) -> Optional[int]:
        """The horingStream_t as a number, for the C API; None after close."""
        return self._handle

    # ---- For the package ----

    def _open(self) -> int:
        if self._handle is None:
            raise ValueError("the stream is closed")
        return self._handle

    def _hold(self, communicator: Any, buffers: Any) -> None:
        """Keeps the buffers of an operation that was just issued."""
        with self._lock:
            self._held.append((self._issued, communicator, buffers))
            self._issued += 1
        if len(self._held) % 64 == 0:
            self._poll()
            if len(self._held) >= _MOST_HELD:
                self._wait(None)

    def _poll(self) -> bool:
        return self._take_result(_capi.horingStreamQuery, self._open())

    def _wait(self, timeout: Optional[float]) -> None:
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self._poll():
            if deadline is not None and time.monotonic() >= deadline:
                raise TimeoutError(f"operations on the stream are not complete after {timeout} s. They continue: wait longer, or "
                                   "abort their communicator")
            left = _LONGEST_WAIT_MS if deadline is None else 1000 * (deadline - time.monotonic())
            _capi.horingStreamWait(self._open(), _capi.STREAM_ALL, max(1, min(_LONGEST_WAIT_MS, int(left))))

    def _take_result(self, function: Any, handle: int) -> bool:
        """Whether all operations are complete; then releases their buffers, and keeps the first error for the next wait."""
        issued = self._issued
        code = function(handle)
        if code == _capi.IN_PROGRESS:
            return False
        error = None if code == _capi.SUCCESS else _capi.error(code)
        communicators = self._let_go(issued)
        if error is not None and self._error is None:
            ranks = (each.failed_rank for each in communicators)
            error.rank = next((rank for rank in ranks if rank is not None), None)
            self._error = error
        return True

    def _let_go(self, issued: int) -> List[Any]:
        """Drops the buffers of the operations before number `issued`. Their communicators."""
        communicators: Dict[int, Any] = {}
        with self._lock:
            while self._held and self._held[0][0] < issued:
                _, communicator, _ = self._held.popleft()
                communicators[id(communicator)] = communicator
        return list(communicators.values())

    def _raise_error(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _communicators_under_way(self) -> List[Any]:
        if self._handle is None or self._poll():
            return []
        with self._lock:
            return [communicator for _, communicator, _ in self._held]

    def _leave(self) -> None:
        """Ends without waiting: operations in progress keep their buffers until they are complete."""
        if self._pid == os.getpid() and self._poll():
            self._release()
        elif self._pid == os.getpid():
            _left.append((self._handle, self._held))
            self._handle = None

    def _release(self) -> None:
        handle, self._handle = self._handle, None
        _capi.horingStreamDestroy(handle)


_streams: "weakref.WeakSet[Stream]" = weakref.WeakSet()
_left: Deque[Tuple[Any, Any]] = deque()  # unreferenced streams, with the buffers of operations in progress


def _sweep() -> None:
    """Releases the streams without an owner that have nothing under way any more."""
    for _ in range(len(_left)):
        try:
            entry = _left.popleft()
        except IndexError:  # another thread sweeps, too
            return
        if _capi.horingStreamQuery(entry[0]) == _capi.IN_PROGRESS:
            _left.append(entry)
        else:
            _capi.horingStreamDestroy(entry[0])


def communicators_under_way() -> List[Any]:
    """The communicators with incomplete operations on any stream."""
    _sweep()
    found = [communicator for stream in list(_streams) for communicator in stream._communicators_under_way()]
    return found + [communicator for _, held in list(_left) for _, communicator, _ in held]


def await_callbacks(seconds: float) -> None:
    """Until no callback is to come any more, since none may find an interpreter that is gone."""
    deadline = time.monotonic() + seconds
    while _callbacks and time.monotonic() < deadline:
        time.sleep(_PAUSE)


_callbacks: Dict[int, Callable[[Optional[HoringError]], Any]] = {}
_keys = itertools.count(1)
os.register_at_fork(after_in_child=_callbacks.clear)  # a child has no thread that would call back


@_capi.StreamCallback
def _call_back(_stream: Any, status: int, key: int) -> None:
    callback = _callbacks[key]
    try:
        callback(None if status == _capi.SUCCESS else _capi.error(status))
    finally:
        _callbacks.pop(key, None)
