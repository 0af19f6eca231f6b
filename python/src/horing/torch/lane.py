"""The order of the operations of one communicator.

Operations take effect in the order in which they were submitted, whoever waits when:
- One that is wanted at once is a plain call of the library, which begins after all earlier ones.
- Others are issued on a stream of the library, which carries them out in order.
- One that has to copy tensors before or after the call, and all that are submitted while such a one is under way, go through
  a thread of the lane, since the copies belong between the operations before and after it.
"""

from __future__ import annotations

import atexit
import ctypes
import itertools
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable

from .. import _capi, _interrupt
from .failures import failure
from .operation import Operation

_USAGE, _TIMEOUT = 5, 8
_LINGER = 1.0  # seconds that a lane's thread waits for more work

_issued: dict[int, tuple] = {}  # what the library's callbacks will be about
_keys = itertools.count(1)
_open_lanes: weakref.WeakSet = weakref.WeakSet()


@_capi.StreamCallback
def _on_complete(_stream, code, key):
    lane, operation = _issued.pop(key)
    lane._complete(key, operation, code)


class Lane:
    """The operations of one communicator, which `make()` makes: at once, or (lazily) on the lane's thread when it is needed.

    `describe(operation)` begins the text of errors; `name_rank(rank)` gives the global rank of one of the communicator's.
    Any thread may use a lane.
    """

    def __init__(self, make: Callable[[], int], describe: Callable[[Operation], str], name_rank: Callable[[int], int],
                 lazily: bool = False):
        self._make, self._describe, self._name_rank = make, describe, name_rank
        self._lock = threading.RLock()
        self._submitted = threading.Condition(self._lock)
        self._tasks: deque[Operation] = deque()
        self._thread: threading.Thread | None = None
        self._on_stream: dict[int, Operation] = {}
        self._end = threading.Lock()
        self._ended: BaseException | None = None
        self._interrupted = False
        self.sequence = 0  # how many operations were submitted
        self.comm = self._stream = None
        _open_lanes.add(self)
        if not lazily:
            self._open()

    # ---- Submitting ----

    def run(self, operation: Operation) -> None:
        """Carries the operation out after those before it; returns when it is complete. Raises what it failed with."""
        with self._lock:
            self._count_in(operation)
            here = not self._tasks and self.comm is not None and operation.timeout is None and \
                not (operation.before is not None and self._on_stream)
            if here:
                self._run_here(operation)
            else:
                self._pass_on(operation)
        if not here:
            self.wait(operation, operation.timeout)

    def start(self, operation: Operation) -> None:
        """Lets the operation be carried out after those before it. Raises what is wrong with its arguments."""
        with self._lock:
            self._count_in(operation)
            self._pass_on(operation)

    def wait(self, operation: Operation, seconds: float | None = None) -> None:
        """Returns when the operation is complete. Raises what it failed with, or a TimeoutError after so many seconds."""
        try:
            done = operation.wait(seconds if seconds is not None else operation.timeout)
        except KeyboardInterrupt:
            self._interrupted = True
            raise
        if not done:
            raise failure(_TIMEOUT, f"{self._describe(operation)}: not complete after {seconds or operation.timeout} s: other ranks "
                          "have not made this call yet, or are slow; the operation goes on")
        if operation.error is not None:
            raise operation.error

    def _count_in(self, operation: Operation) -> None:
        if self._ended is not None:
            raise self._ended
        self.sequence += 1
        operation.sequence = self.sequence

    # ---- Carrying out ----

    def _run_here(self, operation: Operation) -> None:
        if operation.before is not None:
            operation.before()
        code = _interrupt.run((self,), operation.call, None)
        if code:
            raise self._failure(operation, code)
        if operation.after is not None:
            operation.after()

    def _pass_on(self, operation: Operation) -> None:
        operation.begin()
        if self._tasks or self.comm is None or operation.before is not None or operation.after is not None:
            self._hand_over(operation)
        else:
            self._issue(operation)

    def _issue(self, operation: Operation) -> None:
        code = operation.call(self._stream)
        if code:
            raise self._failure(operation, code)
        key = next(_keys)
        _issued[key] = (self, operation)
        self._on_stream[key] = operation
        _capi.check(_capi.horingStreamAddCallback(self._stream, _on_complete, key))

    def _complete(self, key: int, operation: Operation, code: int) -> None:
        """Without the lock: a call that holds it may wait for this."""
        del self._on_stream[key]
        operation.end(self._failure(operation, code) if code else None)

    def _hand_over(self, operation: Operation) -> None:
        self._tasks.append(operation)
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="horing-lane", daemon=True)
            self._thread.start()
        self._submitted.notify()

    def _serve(self) -> None:
        while True:
            with self._lock:
                if not self._tasks and not self._submitted.wait_for(lambda: self._tasks, _LINGER):
                    self._thread = None
                    return
                operation = self._tasks[0]
            error = self._carry_out(operation)
            with self._lock:
                self._tasks.popleft()
            operation.end(error)

    def _carry_out(self, operation: Operation) -> BaseException | None:
        """All earlier operations have left the lane's thread; some may be on the stream."""
        try:
            if self._ended is not None:
                return self._ended
            if self.comm is None:
                self._open()
            for earlier in list(self._on_stream.values()):
                earlier.wait(None)
            if operation.before is not None:
                operation.before()
            code = operation.call(None)
            if code:
                return self._failure(operation, code)
            if operation.after is not None:
                operation.after()
        except Exception as error:  # becomes that of whoever waits
            return error
        return None

    def _failure(self, operation: Operation, code: int) -> BaseException:
        if self._ended is not None:
            return self._ended
        comm = self.comm
        text = _capi.horingGetLastError(comm) or _capi.horingGetLastError(None) or _capi.horingGetErrorString(code)
        rank = _capi.failed_rank(comm)
        return failure(code, f"{self._describe(operation)}: {text.decode(errors='replace')}",
                       None if rank is None else self._name_rank(rank))

    # ---- Beginning and ending ----

    def _open(self) -> None:
        try:
            comm = self._make()
        except Exception as error:
            self._ended = error
            raise
        stream = ctypes.c_void_p()
        _capi.check(_capi.horingStreamCreate(stream))
        self._stream, self.comm = stream.value, comm
        if self._ended is not None:  # meanwhile
            self.abort(self._ended)

    def close(self) -> None:
        """Waits until what was submitted is complete, then releases the communicator. After Ctrl-C it waits for nothing."""
        if self._interrupted:
            return self.abort(_closed())
        with self._lock:
            under_way = list(self._tasks) + list(self._on_stream.values())
        for operation in under_way:
            operation.wait(None)
        self._release(_capi.horingCommDestroy, _closed())

    def abort(self, reason: BaseException | None = None) -> None:
        """Ends what is under way with an error, here and on the other ranks. Any thread, any time."""
        self._release(_capi.horingCommAbort, reason or failure(_USAGE, "the group was aborted"))

    def _abort_interrupted(self) -> None:
        self.abort(failure(_USAGE, "the group was aborted when Ctrl-C interrupted an operation"))

    def _release(self, end_communicator: Callable, reason: BaseException) -> None:
        with self._end:
            self._ended = self._ended or reason
            comm, self.comm = self.comm, None
        if comm is None:
            return
        _open_lanes.discard(self)
        end_communicator(comm)
        stream, self._stream = self._stream, None
        if not self._on_stream:
            _capi.horingStreamDestroy(stream)

    def _leave(self) -> None:
        """The program ends."""
        busy = self._on_stream or self._tasks or self._interrupted
        self._release(_capi.horingCommAbort if busy else _capi.horingCommDestroy, _closed())

    def _forget(self) -> None:
        """This is a forked child: the communicator and its threads are the parent's."""
        self._ended = failure(_USAGE, "this group belongs to the process that forked this one: make groups of its own here")
        self.comm = self._stream = None
        self._lock, self._end = threading.RLock(), threading.Lock()

    def __del__(self):
        if self.comm is not None:
            self._leave()


def _closed() -> Exception:
    return failure(_USAGE, "the group was destroyed")


def _leave_all() -> None:
    for lane in list(_open_lanes):
        lane._leave()


def _forget_all() -> None:
    for lane in list(_open_lanes):
        lane._forget()
    _open_lanes.clear()


atexit.register(_leave_all)
os.register_at_fork(after_in_child=_forget_all)
