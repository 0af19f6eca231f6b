"""Messages of a rank to itself: copies, once the send and the receive are there."""

from __future__ import annotations

import functools
import threading
from collections import deque
from collections.abc import Callable

from .failures import failure
from .operation import Operation
from .tensors import check_input, check_output

_USAGE, _TIMEOUT = 5, 8


class OwnMessages:
    """In order for each tag. `describe(operation)` begins the text of errors; `timeout` is in seconds. Any thread."""

    def __init__(self, describe: Callable[[Operation], str], timeout: float):
        self._describe, self.timeout = describe, timeout
        self._lock = threading.Lock()
        self._waiting: dict[tuple[str, int], deque[Operation]] = {}  # none of them empty
        self._ended: BaseException | None = None

    def start(self, operation: Operation, tag: int) -> None:
        """Of one tensor, named "send" or "recv"; call(copy), if set, runs copies of it. Raises errors of the tensor."""
        sends = operation.name == "send"
        (check_input if sends else check_output)(operation.tensors[0])
        operation.timeout = self.timeout
        other = self._meet(operation, tag, "recv" if sends else "send")
        if other is not None:
            sent, received = (operation, other) if sends else (other, operation)
            error = self._copy(received, sent)
            operation.end(error)
            other.end(error)

    def wait(self, operation: Operation, seconds: float | None = None) -> None:
        if not operation.wait(seconds if seconds is not None else operation.timeout):
            raise failure(_TIMEOUT, f"{self._describe(operation)}: this rank has not made the other end of its message to itself")
        if operation.error is not None:
            raise operation.error

    def told(self, error: BaseException) -> BaseException:
        """As a lane's, which has no such error."""
        return error

    def is_complete(self, operation: Operation) -> bool:
        return operation.complete

    def when_complete(self, operation: Operation, watcher: Callable) -> None:
        operation.watch(watcher)

    def end(self, reason: BaseException) -> None:
        """Pending messages fail with this error, and later ones raise it."""
        with self._lock:
            self._ended = self._ended or reason
            left, self._waiting = self._waiting, {}
        for operations in left.values():
            for operation in operations:
                operation.end(reason)

    def _meet(self, operation: Operation, tag: int, counterpart: str) -> Operation | None:
        """The other end, if it waits here; otherwise this one does."""
        operation.begin()
        with self._lock:
            if self._ended is not None:
                raise self._ended
            others = self._waiting.get((counterpart, tag))
            if others is None:
                self._waiting.setdefault((operation.name, tag), deque()).append(operation)
                return None
            other = others.popleft()
            if not others:
                del self._waiting[counterpart, tag]
        return other

    def _copy(self, receive: Operation, send: Operation) -> BaseException | None:
        received, sent = receive.tensors[0], send.tensors[0]
        if received.dtype is not sent.dtype or received.numel() != sent.numel():
            return failure(_USAGE, f"a rank sent itself {sent.numel()} elements of {sent.dtype} and received {received.numel()} of "
                           f"{received.dtype}")

        def copy() -> None:
            received.detach().copy_(sent.detach().reshape(received.shape))

        for operation in (send, receive):
            if operation.call is not None:
                copy = functools.partial(operation.call, copy)
        try:
            copy()
        except Exception as error:  # becomes that of both ends
            return error
        return None
