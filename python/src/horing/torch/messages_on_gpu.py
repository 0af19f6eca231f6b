"""Messages of tensors on a GPU. They pass through pinned memory of the host, in which the library sends and receives them.

A send is copied there on its caller's stream. A receive begins at once, and is copied from there on the stream of who waits for it, which
waits until the message has come: no message delays another, nor a collective. For each channel with sends a thread waits for the copies.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import torch

from .devices import Gpu, await_all
from .lane import Lane
from .operation import Operation
from .own_messages import OwnMessages
from .tensors import CPU, check_input, check_output, plain


def _pinned(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty(tensor.shape, dtype=tensor.dtype, device=CPU, pin_memory=True)


class _Passing:
    """A message, in place of the lane that has it. Any thread."""

    after = None

    def __init__(self, gpu: Gpu):
        self._gpu = gpu
        self._lane: Lane | OwnMessages | None = None

    def on(self, lane: Lane | OwnMessages) -> _Passing:
        self._lane, self.tensors = lane, []  # its operation has them
        return self

    def when_complete(self, operation: Operation, watcher: Callable) -> None:
        """As of a lane, once the library is done with the message; who then waits orders a stream behind the copy."""
        self._lane.when_complete(operation, watcher)

    def told(self, error: BaseException) -> BaseException:
        return self._lane.told(error)

    def await_arrival(self, operation: Operation) -> None:
        """Blocks until the library is done with the message. Raises its error."""
        self._lane.wait(operation, None)

    def _raise_error(self, operation: Operation, seconds: float | None) -> None:
        """One that is known by now; with a timeout, that of the message."""
        if seconds is not None or self._lane.is_complete(operation):
            self._lane.wait(operation, seconds)


class SendFromGpu(_Passing):
    def __init__(self, gpu: Gpu, seconds: float):
        super().__init__(gpu)
        self._seconds = seconds

    def input(self, tensor: torch.Tensor) -> torch.Tensor:
        """The memory that the tensor is copied to."""
        check_input(tensor)
        buffer = _pinned(tensor)
        self.tensors = [buffer]
        self._copied = self._gpu.copy(buffer, plain(tensor.detach()))
        self._gpu.keep_here(tensor)
        return buffer

    def before(self) -> None:
        await_all([self._copied], self._seconds)

    def wait(self, operation: Operation, seconds: float | None = None) -> None:
        """Orders the caller's stream behind the copy, after which the tensor may be written. Raises an error that is known by then; with a
        timeout, blocks until the message is complete."""
        self._raise_error(operation, seconds)
        self._gpu.order_behind(self._copied)

    def is_complete(self, operation: Operation) -> bool:
        return self._lane.is_complete(operation)


class ReceiveOnGpu(_Passing):
    before = None

    def __init__(self, gpu: Gpu, seconds: float):
        super().__init__(gpu)
        self._lock = threading.Lock()
        self._copied = None  # an event

    def output(self, tensor: torch.Tensor) -> torch.Tensor:
        """The memory that the tensor will be copied from."""
        check_output(tensor)
        self._buffer = _pinned(tensor)
        self._tensor = tensor.detach()
        self.tensors = [self._buffer]
        self._free = self._gpu.mark()  # where the tensor may be written
        return self._buffer

    def wait(self, operation: Operation, seconds: float | None = None) -> None:
        """Orders the caller's stream behind the message. Raises an error that is known by then; with a timeout, blocks until it has come."""
        self._gpu.check_not_recording()
        self._raise_error(operation, seconds)
        with self._lock:
            if self._copied is None:
                with self._gpu.entered() as stream:
                    self._gpu.order_behind(self._free)
                    if not operation.complete and not self._lane.hold(operation, stream):
                        self._lane.wait(operation)  # in its stead
                    self._copy()
                return
        self._gpu.order_behind(self._copied)

    def is_complete(self, operation: Operation) -> bool:
        if not self._lane.is_complete(operation):
            return False
        if operation.error is not None:
            return True
        with self._lock:
            if self._copied is None:
                if not self._free.query():
                    return False
                with self._gpu.beside():
                    self._copy()
            return self._copied.query()

    def _copy(self) -> None:
        """On the current stream."""
        self._copied = self._gpu.copy(self._tensor, self._buffer)
        self._gpu.keep_here(self._tensor)
        self._tensor = self._buffer = None


class ToOneself(_Passing):
    """An end of a message that never leaves the GPU."""

    def __init__(self, gpu: Gpu, tensor: torch.Tensor):
        super().__init__(gpu)
        self._begin, self._copied, self._tensor = gpu.mark(), None, tensor

    def run(self, copy: Callable[[], None]) -> None:
        """copy(), on the current stream, once both ends are there."""
        self._gpu.order_behind(self._begin)
        copy()
        self._gpu.keep_here(self._tensor)
        self._copied, self._tensor = self._gpu.mark(), None

    def wait(self, operation: Operation, seconds: float | None = None) -> None:
        """Blocks until the other end is there, and orders the caller's stream behind the copy."""
        self._lane.wait(operation, seconds)
        if seconds is None:
            self._gpu.order_behind(self._copied)
        else:
            await_all([self._copied], seconds)

    def is_complete(self, operation: Operation) -> bool:
        return self._lane.is_complete(operation) and (self._copied is None or self._copied.query())
