"""The operations of a lane on a GPU, which that runs in the order in which they were submitted."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from .. import _interrupt
from .devices import Gpu, has_passed
from .helpers import run_on_helper
from .lane import Lane
from .operation import Operation, WorkOnGpu


class OnGpu:
    """In place of the lane for operations on tensors of one GPU. Any thread.

    An operation that was submitted has an event. Its tensors and buffers are kept until the stream that started it is ordered behind
    that, or else their memory is: a tensor is given memory behind the stream that had it before, and behind no other.
    """

    Handle = WorkOnGpu  # as that of a lane

    def __init__(self, lane: Lane, device: torch.device):
        self._lane, self.gpu = lane, Gpu(device)
        lane.add_gpu(self.gpu)

    def run(self, operation: Operation) -> None:
        """Submits the operation, and orders the caller's stream behind it."""
        self.start(operation)
        try:
            self.wait(operation)
        except BaseException:  # nobody has a handle, and the stream may be busy with it
            self.abandon(operation)
            raise

    def start(self, operation: Operation) -> None:
        """Submits the operation behind all earlier ones of the lane, and behind the caller's stream. Raises errors of its arguments."""
        self._lane.submit_to_gpu(operation, self._enqueue)

    def _enqueue(self, operation: Operation) -> int:
        def call(stream: int) -> int:
            if operation.before is not None:
                operation.before()
            code = _interrupt.run((self._lane,), operation.call, stream)
            if not code and operation.after is not None:
                operation.after()
            return code

        operation.stream = self.gpu.current()
        code, operation.event = self.gpu.enqueue(call)
        if not code:  # here, since a stream that waited later for the event would keep the waits for others, too
            operation.future = self.gpu.future(operation.result)
        return code

    def wait(self, operation: Operation, seconds: float | None = None) -> None:
        """Orders the caller's stream behind the operation. With a timeout, blocks the thread instead until it is complete. Raises an error
        that is known by then."""
        seconds = operation.timeout if seconds is None else seconds
        if seconds is not None and not operation.complete and not self._has_passed(operation, seconds):
            self._raise_error(operation)
            raise self._lane.late(operation, seconds)
        self._raise_error(operation)
        self.gpu.order_behind(operation.event)
        if self.gpu.current() == operation.stream:
            operation.let_go()
        else:
            self.abandon(operation)

    def _has_passed(self, operation: Operation, seconds: float) -> bool:
        try:
            return has_passed(operation.event, seconds)
        except KeyboardInterrupt:
            self._lane.note_interrupt()
            raise

    def _raise_error(self, operation: Operation) -> None:
        if not operation.complete and (error := self._lane.error_on_gpu(operation)) is not None:
            self.abandon(operation)  # the stream may be busy with it, or with what is before it
            operation.end(error)
        if operation.error is not None:
            raise self._lane.told(operation.error)

    def is_complete(self, operation: Operation) -> bool:
        if operation.complete or not operation.event.query():
            return operation.complete
        operation.end(self._lane.error_on_gpu(operation))
        return True

    def told(self, error: BaseException) -> BaseException:
        return self._lane.told(error)

    def when_complete(self, operation: Operation, watcher: Callable) -> None:
        """Calls watcher() once the operation is complete: at once, or on a helper thread, which waits for that."""
        operation.watch(watcher)
        if not operation.complete:
            run_on_helper(lambda: self._finish(operation))

    def _finish(self, operation: Operation) -> None:
        try:
            has_passed(operation.event, math.inf)
            self.is_complete(operation)
        except RuntimeError as error:  # the GPU has failed
            operation.end(error)

    def future(self, operation: Operation) -> torch.futures.Future:
        return operation.future or self.gpu.future(operation.result)

    def abandon(self, operation: Operation) -> None:
        """No stream that has given it memory will wait for it."""
        if tensors := operation.tensors:  # read once: another thread may end the operation
            self.gpu.keep(tensors)
            operation.let_go()
