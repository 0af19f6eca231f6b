"""Exceptions: one class for each kind of failure that the library reports.

Each is a :class:`HoringError`, and where Python has a builtin exception of the same meaning, an instance of that too, so
that ``except TimeoutError`` works as in any other program.
"""

from __future__ import annotations

import builtins
from typing import Optional

__all__ = ["HoringError", "CudaError", "SystemCallError", "InternalError", "InvalidArgumentError", "InvalidUsageError",
           "RemoteError", "TimeoutError", "class_of"]


class HoringError(Exception):
    """A call of the library failed. The text names the operation, the rank and the peer, the cause, and what to do.

    ``code`` is the number of the result (``horingResult_t``). ``rank`` is the rank to blame, a candidate
    for :meth:`Communicator.shrink` to exclude; None if no single rank, or only the caller, is to blame.
    """

    code = 0

    def __init__(self, text: str, code: Optional[int] = None, rank: Optional[int] = None):
        super().__init__(text)
        self.text = text
        self.code = type(self).code if code is None else code
        self.rank = rank

    def __str__(self) -> str:
        return self.text

    def __reduce__(self):
        return type(self), (self.text, self.code, self.rank)


class CudaError(HoringError, RuntimeError):
    """A call of CUDA failed."""

    code = 1


class SystemCallError(HoringError, OSError):
    """A call of the operating system failed: no memory, no descriptors, no interface."""

    code = 2


class InternalError(HoringError, RuntimeError):
    """A bug in the library."""

    code = 3


class InvalidArgumentError(HoringError, ValueError):
    """An argument, or an environment variable, has a value that is not allowed."""

    code = 4


class InvalidUsageError(HoringError, RuntimeError):
    """Valid arguments at the wrong time or place, or ranks that disagree."""

    code = 5


class RemoteError(HoringError, ConnectionError):
    """Another rank failed, died or closed its connection."""

    code = 6


class TimeoutError(HoringError, builtins.TimeoutError):
    """A deadline passed; the text names the ranks that were missing."""

    code = 8


_CLASSES = {each.code: each for each in (CudaError, SystemCallError, InternalError, InvalidArgumentError,
                                         InvalidUsageError, RemoteError, TimeoutError)}


def class_of(code: int) -> type:
    """The exception for a result code; HoringError itself for one that this package does not know."""
    return _CLASSES.get(code, HoringError)
