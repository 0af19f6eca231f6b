"""Groups: operations that are launched together."""

from __future__ import annotations

import threading
from typing import Any, List, Tuple

from . import _capi, _interrupt

__all__ = ["group"]


class _OfThread(threading.local):
    depth = 0

    def __init__(self) -> None:
        self.held: List[Tuple[Any, Any, Any]] = []  # (communicator, stream, buffers) of the calls since the start


_open = _OfThread()


def is_open() -> bool:
    return _open.depth > 0


def hold(communicator: Any, stream: Any, buffers: Any) -> None:
    """Keeps the buffers of a call that was recorded in this thread's group."""
    _open.held.append((communicator, stream, buffers))


class group:
    """``with group():`` launches the calls of this thread inside the block together when it ends.

    For sends and receives that depend on each other, and for operations of several communicators. At the end operations without a
    stream are complete, the others have been issued to their streams. Groups nest; the outermost launches. An exception in
    the block drops its calls, which are not made.
    """

    def __enter__(self) -> "group":
        _capi.check(_capi.horingGroupStart())
        _open.depth += 1
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        _open.depth -= 1
        if kind is not None:
            _capi.horingGroupDiscard()
        elif _open.depth > 0:
            _capi.check(_capi.horingGroupEnd())
        held = _open.held
        if _open.depth == 0:
            _open.held = []
            if kind is None:
                _launch(held)


def _launch(held: List[Tuple[Any, Any, Any]]) -> None:
    communicators = list({id(each[0]): each[0] for each in held}.values())
    code = _interrupt.run(communicators, _capi.horingGroupEnd)
    error = _capi.error(code) if code != _capi.SUCCESS else None
    for communicator, stream, buffers in held:  # after an error, too: some may have been handed to their streams
        if stream is not None:
            stream._hold(communicator, buffers)
    if error is not None:
        ranks = (each.failed_rank for each in communicators)
        error.rank = next((rank for rank in ranks if rank is not None), None)
        raise error
