"""One operation of a group, and the handle that torch gives its caller."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta

import torch
import torch._C._distributed_c10d as _c10d
import torch.distributed as dist

from .helpers import run_on_helper


class Operation:
    """One operation: `call(stream)` returns the library's result code.

    `before` and `after` copy tensors that the library cannot read or write where they are; they run on the caller's or on the
    lane's thread, right before and after the call. `tensors` are kept until the operation is complete. `result` is the value of
    its future. On a stream, `stream` and `mark` give its place; on a GPU, `event` does, `stream` is that of the caller, and `future` is there.
    """

    __slots__ = ("name", "call", "tensors", "result", "before", "after", "timeout", "sequence", "error", "complete", "stream", "mark",
                 "event", "future", "_waiting", "_watchers")

    def __init__(self, name: str, call: Callable, tensors, result=(), before=None, after=None, timeout: float | None = None):
        self.name, self.call, self.tensors, self.result = name, call, tensors, result
        self.before, self.after, self.timeout = before, after, timeout
        self.sequence = 0
        self.error: BaseException | None = None
        self.complete = False
        self.stream = self.mark = self.event = self.future = None
        self._waiting: threading.Lock | None = None
        self._watchers: list[Callable] = []

    def begin(self) -> None:
        """Call this before another thread can complete it, if threads wait for it here."""
        self._waiting = threading.Lock()
        self._waiting.acquire()

    def end(self, error: BaseException | None) -> None:
        """Once; any thread."""
        self.error = error
        self.let_go()
        self.complete = True
        if self._waiting is not None:
            self._waiting.release()
        self._tell_watchers()

    def let_go(self) -> None:
        """Nobody touches its tensors any more."""
        self.tensors = self.call = self.before = self.after = None

    def wait(self, seconds: float | None) -> bool:
        """Whether it is complete after at most so many seconds (None: until its own deadline)."""
        if not self.complete:
            if not self._waiting.acquire(timeout=-1 if seconds is None else seconds):
                return False
            self._waiting.release()
        return True

    def watch(self, watcher: Callable) -> None:
        """Calls watcher() when it ends: at once, or on a helper thread."""
        self._watchers.append(watcher)
        if self.complete:
            self._tell_watchers(run=lambda each: each())

    def _tell_watchers(self, run=run_on_helper) -> None:
        while self._watchers:
            try:
                watcher = self._watchers.pop(0)
            except IndexError:  # another thread took it
                return
            run(watcher)


_LARGE = 1 << 16  # bytes


def _tensors_in(result) -> list[torch.Tensor]:
    """Of a tensor, or of lists of tensors."""
    if isinstance(result, torch.Tensor):
        return [result]
    return [tensor for part in result or () for tensor in _tensors_in(part)]


class Work(dist.Work):
    """The handle of an operation that was started with async_op. Any thread may use it.

    The operation, and the tensors that it needs, live on without it. `unasked`, if set, returns a list or None: a handle that Python drops
    before anyone has waited for it or its future lives on in the list, since C++ may have it (DDP's join passes one on), would find none
    of these methods then, and wait for ever. Large results are not kept for that: its future has no value then.
    """

    unasked: Callable | None = None
    _asked = False

    def __init__(self, lane, operation: Operation):
        super().__init__()
        self._lane, self._operation = lane, operation
        self._future = None
        self._registered: list[torch.Tensor] = []

    def __del__(self):
        if not self._asked and self.unasked is not None and (kept := self.unasked()) is not None:
            if sum(tensor.nbytes for tensor in _tensors_in(self._operation.result)) > _LARGE:
                self._operation.result = self._operation.future = None
                self._registered.clear()
            kept.append(self)

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Blocks until the operation is complete, at most `timeout` (zero or negative: the group's own).

        Raises its error, or a TimeoutError; in that case the operation continues.
        """
        self._asked = True
        seconds = timeout.total_seconds()
        self._lane.wait(self._operation, seconds if seconds > 0 else None)
        while self._registered:
            torch.ops._c10d_functional.wait_tensor(self._registered.pop())
        return True

    def register(self, tensors: list[torch.Tensor]) -> None:
        """Lets compiled code that takes one of the tensors wait for this."""
        for tensor in tensors:
            _c10d._register_work(tensor, self)
        self._registered = list(tensors)

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        return self._operation.complete or self._lane.is_complete(self._operation)

    def is_success(self) -> bool:
        return self.is_completed() and self._operation.error is None

    def exception(self) -> BaseException | None:
        self.is_completed()
        error = self._operation.error
        return None if error is None else self._lane.told(error)

    def result(self) -> list[torch.Tensor]:
        return self._operation.result

    def get_future(self) -> torch.futures.Future:
        """A future of the tensors that the operation writes, completed by a helper thread. Always the same one."""
        self._asked = True
        if self._future is None:
            self._future = _future_of(self._lane, self._operation, self.result())
        return self._future

    def get_future_result(self) -> torch.futures.Future:
        """A future of the number of a WorkResult, which is there when the operation is complete, on a GPU, too."""
        self._asked = True
        kind, operation, future = _c10d.WorkResult, self._operation, torch.futures.Future()

        def deliver() -> None:
            future.set_result(int(kind.COMM_ERROR if operation.error else kind.SUCCESS))

        if operation.complete:
            deliver()
        else:
            self._lane.when_complete(operation, deliver)
        return future

    def _get_sequence_number(self) -> int:
        return self._operation.sequence

    def _source_rank(self) -> int:
        return self.source_rank()

    def source_rank(self) -> int:
        raise RuntimeError(f"{self._operation.name} has no source rank: only a receive does")


def _future_of(lane, operation: Operation, result) -> torch.futures.Future:
    if operation.event is not None:
        return lane.future(operation)
    devices = {tensor.device for tensor in _tensors_in(result) if not tensor.is_cpu}
    future = torch.futures.Future(devices=list(devices))

    def deliver(_) -> object:
        lane.wait(operation)  # raises an error, so that callers in C++ (DDP's reducer) see it, too
        return result

    delivered = future.then(deliver)
    if operation.complete:
        future.set_result(None)
    else:
        lane.when_complete(operation, lambda: future.set_result(None))
    return delivered


class WorkOnGpu(Work):
    """Of an operation on a GPU (on_gpu.py)."""

    def __del__(self):
        self._lane.abandon(self._operation)
        super().__del__()


class Together(dist.Work):
    """The handle of several operations."""

    def __init__(self, works: list[dist.Work]):
        super().__init__()
        self._works = works

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        for work in self._works:
            work.wait(timeout)
        return True

    def is_completed(self) -> bool:
        return all(work.is_completed() for work in self._works)

    def get_future(self) -> torch.futures.Future:
        return torch.futures.collect_all([work.get_future() for work in self._works])


class _Complete(Work):
    """Of an operation that was complete when its call returned."""

    def __init__(self):
        operation = Operation("a complete operation", None, ())
        operation.end(None)
        super().__init__(None, operation)

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        return True


COMPLETE = _Complete()
