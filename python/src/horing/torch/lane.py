"""The order of the operations of one communicator.

Operations take effect in the order in which they were submitted, independent of the order of waits:
- A synchronous operation is a plain call of the library, which begins after all earlier operations. The library lets
  one thread at a time make such calls, so there are none once the lane has branches.
- Asynchronous operations are issued on a stream of the library, which runs them in order; a thread that waits for one helps with it.
- An operation that copies tensors before or after the call, and all operations submitted while it is in progress, go through
  a thread of the lane, so that the copies happen between the operations before and after it.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable

from .. import _capi, _interrupt
from .._at_exit import at_exit
from ..errors import HoringError
from .failures import failure
from .helpers import run_on_helper
from .operation import Operation, Work

_CUDA, _USAGE, _TIMEOUT = 1, 5, 8
_LINGER = 1.0  # seconds that a lane's thread waits for more work
_LEAVE = 2.0  # seconds that operations in progress get when the program ends

_SLICE_MS = 200  # between checks for Ctrl-C
_ALL = 2**64 - 1  # a mark after all operations

_watched: dict[int, Lane] = {}  # of the library's pending callbacks
_keys = itertools.count(1)
_open_lanes: weakref.WeakSet = weakref.WeakSet()


@_capi.StreamCallback
def _on_complete(_stream, _code, key):
    _watched.pop(key)._settle()


class Lane:
    """Operations of one communicator, which `make()` makes, or which is that of another lane, the trunk.

    `describe(operation, cause)` begins the text of errors; `name_rank(rank)` gives the global rank of one of the communicator's.
    Any thread may use a lane.
    """

    Handle = Work  # of operations that begin here

    def __init__(self, make: Callable[[], int], describe: Callable[..., str], name_rank: Callable[[int], int],
                 trunk: Lane | None = None):
        self._describe, self._name_rank = describe, name_rank
        self._lock = threading.RLock()
        self._submitted = threading.Condition(self._lock)
        self._tasks: deque[Operation] = deque()
        self._thread: threading.Thread | None = None
        self._on_stream: deque[Operation] = deque()  # operations that may be incomplete
        self._end = threading.Lock()
        self.ended: BaseException | None = None  # with which every later operation ends, too
        self._interrupted = False
        self.sequence = 0  # how many operations were submitted
        self.comm = self._stream = None
        self._trunk = trunk and weakref.ref(trunk)  # which has this one
        self._branches: list[Lane] = []
        self._branching = threading.Lock()  # held where branches are made or ended
        if trunk is None:
            _open_lanes.add(self)
        self._gpus: list = []  # the streams of this lane there
        self._is_bound = False  # to a GPU
        self._error_on_gpus: BaseException | None = None  # of what was under way there at the end
        self._lost: BaseException | None = None  # of the operation for which the lane broke off
        self._is_failure_told = False  # to a caller
        self._open(make)

    def branch(self) -> Lane:
        """A lane of the same communicator, ordered in itself but not with this lane. Closed with this lane."""
        with self._branching:
            self.check_open()
            self._branches.append(Lane(lambda: self.comm, self._describe, self._name_rank, trunk=self))
            return self._branches[-1]

    def derive(self, make: Callable[[int], int]) -> int:
        """The result code of make(communicator), which makes another communicator after the operations submitted here. No other
        thread may use the communicator meanwhile."""
        while True:
            with self._lock:
                self.check_open()
                if not self._tasks:
                    self._finish_stream()
                    return _interrupt.run((self,), make, self.comm)
                latest = self._tasks[-1]
            latest.wait(None)  # its thread needs the lock

    def check_open(self) -> None:
        """Raises the error that ended the lane, if there is one."""
        if self.ended is not None:
            raise self.told(self.ended)

    def set_timeout(self, milliseconds: int) -> None:
        """The deadline of operations that begin later."""
        comm = self.comm
        self.check_open()
        _capi.check(_capi.horingCommSetTimeout(comm, milliseconds), comm)

    def _whole(self) -> Lane:
        """The lane that has the communicator."""
        return self if self._trunk is None else self._trunk()

    # ---- Submitting ----

    def run(self, operation: Operation) -> None:
        """Runs the operation after all earlier ones; returns when it is complete. Raises its error."""
        with self._lock:
            self._count_in(operation)
            here = not self._tasks and self.comm is not None and operation.timeout is None and not self._branches and \
                not (operation.before is not None and self._on_stream)
            if here:
                self._run_here(operation)
            else:
                self._pass_on(operation)
        if not here:
            self.wait(operation, operation.timeout)

    def start(self, operation: Operation) -> None:
        """Submits the operation after all earlier ones. Raises errors of its arguments."""
        with self._lock:
            self._count_in(operation)
            self._pass_on(operation)

    # ---- Operations on GPUs (on_gpu.py), which run elsewhere ----

    def add_gpu(self, gpu) -> None:
        """One that will have operations of this lane."""
        self._gpus.append(gpu)

    def submit_to_gpu(self, operation: Operation, enqueue: Callable[[Operation], int]) -> None:
        """enqueue(operation), which returns a result code, behind all earlier operations. Raises its error."""
        while True:
            with self._lock:
                self.check_open()
                if not self._tasks:
                    self._count_in(operation)
                    code = enqueue(operation)
                    if code:
                        raise self.told(self._failure(operation, code))
                    return
                latest = self._tasks[-1]
            latest.wait(None)  # its thread needs the lock

    def error_on_gpu(self, operation: Operation) -> BaseException | None:
        """That of the communicator, which has no error of its single operations there."""
        if self.comm is None:
            return self._error_on_gpus
        code = self._error_code()
        return self._failure(operation, code) if code else None

    def _error_code(self) -> int:
        """The communicator's, of whatever operation; 0: it has none, or has ended."""
        code = ctypes.c_int()
        unknown = self.comm is None or _capi.horingCommGetAsyncError(self.comm, code)
        return 0 if unknown or code.value == _capi.IN_PROGRESS else code.value

    def _is_busy_on_gpus(self) -> bool:
        return not all(gpu.is_idle() for gpu in self._gpus)

    def _finish_gpus(self) -> None:
        """Their operations end at the deadline, but a program's own work on its streams may not."""
        timeout = ctypes.c_int()
        if not self._gpus or _capi.horingCommGetTimeout(self.comm, timeout):
            return
        deadline = time.monotonic() + timeout.value / 1000 if timeout.value else math.inf
        while self._is_busy_on_gpus() and not self._error_code() and time.monotonic() < deadline:
            time.sleep(0.001)

    def bind(self, gpu, messages: threading.Lock) -> None:
        """Lets streams of the GPU wait for operations on the host. The first call does so while no other thread issues an operation, as the
        library asks: one of the lane, or a message, which begins under that lock. Raises the library's error."""
        if self._is_bound:
            return
        with self._lock, messages, gpu.entered() as stream:
            self.check_open()
            if code := _capi.horingStreamWaitOnGpu(self._stream, 0, self.comm, stream):
                raise self.told(self._failure(Operation("the first message on a GPU", None, ()), code))
            self._is_bound = True

    def hold(self, operation: Operation, stream: int) -> bool:
        """Lets a cudaStream_t wait until the operation, which is one on the host, is complete. False: it is not issued yet, and a thread
        has to. Raises the library's error."""
        comm = self.comm
        if comm is None or operation.mark is None:
            return False
        code = _capi.horingStreamWaitOnGpu(operation.stream, operation.mark, comm, stream)
        if code and not operation.complete:
            raise self.told(self._failure(operation, code))
        return True

    # ---- Waiting ----

    def wait(self, operation: Operation, seconds: float | None = None) -> None:
        """Returns when the operation is complete. Raises its error, or a TimeoutError after so many seconds."""
        seconds = operation.timeout if seconds is None else seconds
        try:
            done = operation.complete or self._wait(operation, seconds)
        except KeyboardInterrupt:
            self.note_interrupt()
            raise
        if not done:
            raise self.late(operation, seconds)
        if operation.error is not None:
            raise self.told(operation.error)

    def told(self, error: BaseException) -> BaseException:
        """The error, which is raised to a caller now: the end of the lane will not."""
        self._whole()._is_failure_told = True
        return error

    def note_interrupt(self) -> None:
        """Ctrl-C ended a wait: the lane will not wait for operations when it is closed."""
        self._whole()._interrupted = True

    def late(self, operation: Operation, seconds: float) -> BaseException:
        """The error of a thread that waited so long."""
        return failure(_TIMEOUT, f"{self._describe(operation)}: not complete after {seconds} s: other ranks have not made this call yet, or "
                       "are slow; the operation continues")

    def is_complete(self, operation: Operation) -> bool:
        return operation.complete or (operation.mark is not None and self._wait(operation, 0.0))

    def when_complete(self, operation: Operation, watcher: Callable) -> None:
        """Calls watcher() once the operation is complete: at once, or on a helper thread."""
        operation.watch(watcher)
        if operation.complete or operation.mark is None:
            return
        with self._lock:
            is_last = self._on_stream and self._on_stream[-1] is operation and self._stream is not None
            if is_last:  # a callback comes when all that was issued is complete
                key = next(_keys)
                _watched[key] = self
                _capi.check(_capi.horingStreamAddCallback(self._stream, _on_complete, key))
        if not is_last:
            run_on_helper(lambda: self._wait(operation, None))

    def _wait(self, operation: Operation, seconds: float | None) -> bool:
        if operation.mark is None:
            return operation.wait(seconds)
        deadline = None if seconds is None else time.monotonic() + seconds
        while not operation.complete:
            left = _SLICE_MS if deadline is None else max(0, min(_SLICE_MS, math.ceil(1000 * (deadline - time.monotonic()))))
            code = _capi.horingStreamWait(operation.stream, operation.mark, left)
            if code != _capi.IN_PROGRESS:
                self._settle()
            elif deadline is not None and time.monotonic() >= deadline:
                return False
        return True

    def _settle(self) -> None:
        """Ends what is complete on the stream."""
        with self._end:
            while self._on_stream:
                earliest = self._on_stream[0]
                code = _capi.horingStreamWait(earliest.stream, earliest.mark, 0)
                if code == _capi.IN_PROGRESS:
                    return
                self._on_stream.popleft()
                earliest.end(self._failure(earliest, code) if code else None)

    def _count_in(self, operation: Operation) -> None:
        self.check_open()
        self.sequence += 1
        operation.sequence = self.sequence

    # ---- Carrying out ----

    def _run_here(self, operation: Operation) -> None:
        if operation.before is not None:
            try:
                operation.before()
            except KeyboardInterrupt:
                self.note_interrupt()
                raise
        code = _interrupt.run((self,), operation.call, None)
        if code:
            raise self.told(self._failure(operation, code))
        if operation.after is not None:
            operation.after()

    def _pass_on(self, operation: Operation) -> None:
        if self._tasks or self.comm is None or operation.before is not None or operation.after is not None:
            self._hand_over(operation)
        else:
            self._issue(operation)

    def _issue(self, operation: Operation) -> None:
        self._settle()  # what nobody waits for is not kept
        code, operation.stream, operation.mark = self._put_on_stream(operation)
        if code:
            raise self.told(self._failure(operation, code))
        self._on_stream.append(operation)

    def _put_on_stream(self, operation: Operation) -> tuple[int, int, int]:
        """The result code; the stream and the mark to wait for."""
        stream, mark = self._stream, ctypes.c_uint64()
        code = operation.call(stream) or _capi.horingStreamMark(stream, mark)
        return code, stream, mark.value

    def _hand_over(self, operation: Operation) -> None:
        operation.begin()
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
            if self.ended is not None:
                return self.ended
            self._finish_stream()
            if operation.before is not None:
                self._prepare(operation)
            code, stream, mark = self._put_on_stream(operation)
            code = code or _capi.IN_PROGRESS
            while code == _capi.IN_PROGRESS:
                code = _capi.horingStreamWait(stream, mark, _SLICE_MS)
            if code:
                return self._failure(operation, code)
            if operation.after is not None:
                operation.after()
        except Exception as error:  # raised again in the thread that waits
            return error
        return None

    def _prepare(self, operation: Operation) -> None:
        try:
            operation.before()
        except Exception as error:
            if self._trunk is None:
                raise
            raise self._whole()._break_off(operation, error) from error

    def _break_off(self, operation: Operation, error: Exception) -> BaseException:
        """The library never had the message, so another rank waits for it in vain, and its sender may have dropped the handle."""
        text = f"{self._describe(operation)}: {error}"
        reason = failure(error.code, text, error.rank) if isinstance(error, HoringError) else failure(_CUDA, text)
        self._lost = None if self.ended is not None else reason
        self.abort(reason)
        return reason

    def _failure(self, operation: Operation, code: int) -> BaseException:
        if self.ended is not None:
            return self.ended
        comm = self.comm
        told = _capi.horingGetLastError(comm) or _capi.horingGetLastError(None) or _capi.horingGetErrorString(code)
        text, rank = told.decode(errors="replace"), _capi.failed_rank(comm)
        return failure(code, f"{self._describe(operation, text)}: {text}", None if rank is None else self._name_rank(rank))

    def _finish_stream(self) -> None:
        while (latest := self._latest()) is not None:
            self._wait(latest, None)

    def _latest(self) -> Operation | None:
        try:
            return self._on_stream[-1]
        except IndexError:
            return None

    # ---- Beginning and ending ----

    def _open(self, make: Callable[[], int]) -> None:
        try:
            comm = make()
        except Exception as error:
            self.ended = error
            raise
        stream = ctypes.c_void_p()
        _capi.check(_capi.horingStreamCreate(stream))
        self._stream, self.comm = stream.value, comm
        if self.ended is not None:  # meanwhile
            self.abort(self.ended)

    def is_busy(self) -> bool:
        """Whether an operation is under way."""
        latest = self._latest()
        return bool(self._tasks) or latest is not None and not self.is_complete(latest) or self._is_busy_on_gpus()

    def close(self) -> None:
        """Waits until all submitted operations are complete, then releases the communicator. After Ctrl-C it does not wait. Raises the
        error of operations on GPUs, and of a message that was not sent, if no call has raised it."""
        if self._interrupted:
            return self.abort(_closed())
        for lane in (*self._branches, self):
            with lane._lock:
                tasks = list(lane._tasks)
            for operation in tasks:
                operation.wait(None)
            lane._finish_stream()
        self._finish_gpus()
        error = None if self._is_failure_told else self._untold_error()
        self._release(_capi.horingCommDestroy, _closed())
        if error is not None:
            raise self.told(error)

    def _untold_error(self) -> BaseException | None:
        if self._lost is not None:
            return self._lost
        code = self._error_code() if self._gpus else 0
        return self._failure(Operation("an operation that nobody waited for", None, ()), code) if code else None

    def abort(self, reason: BaseException | None = None) -> None:
        """Fails operations in progress, here and on the other ranks. Any thread, any time."""
        self._release(_capi.horingCommAbort, reason or failure(_USAGE, "the group was aborted"))

    def _abort_interrupted(self) -> None:
        self._whole().abort(failure(_USAGE, "the group was aborted when Ctrl-C interrupted an operation"))

    def _release(self, end_communicator: Callable, reason: BaseException) -> None:
        with self._branching, self._end:
            self.ended = self.ended or reason
            if self._is_busy_on_gpus() or self._gpus and self._error_code():
                self._error_on_gpus = self.ended
            comm, self.comm = self.comm, None
            for lane in self._branches:
                lane.ended, lane.comm = lane.ended or reason, None
        if comm is None:
            return
        _open_lanes.discard(self)
        end_communicator(comm)
        for lane in (*self._branches, self):
            lane._finish_stream()
            stream, lane._stream = lane._stream, None
            _capi.horingStreamDestroy(stream)

    def _leave(self, deadline: float) -> None:
        """The program ends: operations that are incomplete at the deadline are aborted; after Ctrl-C at once."""
        try:
            while self._is_busy_anywhere() and not self._interrupted and time.monotonic() < deadline:
                time.sleep(0.002)
        finally:
            busy = self._interrupted or self._is_busy_anywhere()
            self._release(_capi.horingCommAbort if busy else _capi.horingCommDestroy, _closed())

    def _is_busy_anywhere(self) -> bool:
        return any(lane.is_busy() for lane in (self, *self._branches))

    def _forget(self) -> None:
        """This is a forked child: the communicator and its threads are the parent's."""
        for lane in (self, *self._branches):
            lane.ended = failure(_USAGE, "this group belongs to the parent of this forked process: create new groups here")
            lane.comm = lane._stream = None
            lane._lock, lane._end, lane._branching = threading.RLock(), threading.Lock(), threading.Lock()

    def __del__(self):
        if self.comm is not None and self._trunk is None:
            self._leave(time.monotonic() + _LEAVE)


def _closed() -> Exception:
    return failure(_USAGE, "the group was destroyed")


@at_exit
def _leave_all() -> None:
    deadline = time.monotonic() + _LEAVE
    for lane in list(_open_lanes):
        lane._leave(deadline)


def _forget_all() -> None:
    for lane in list(_open_lanes):
        lane._forget()
    _open_lanes.clear()


os.register_at_fork(after_in_child=_forget_all)
