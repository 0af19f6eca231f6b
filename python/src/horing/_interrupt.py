"""Ctrl-C while the main thread is inside a call of the library.

Python runs signal handlers between instructions of the main thread, so not before such a call returns. A thread of this
module gets the signal at once (``signal.set_wakeup_fd``) and aborts the communicators that the call waits for: the
call returns, the handler raises KeyboardInterrupt, and the other ranks get a RemoteError instead of waiting. This costs
calls nothing. A program with its own handler for SIGINT is left alone.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any, Optional

_MAY_END_BY_ITSELF = 0.1  # seconds that a call has, which Ctrl-C met by chance

_main = threading.main_thread().ident
_installed = False
_previous = -1  # the wakeup descriptor that was set before
_write_end = -1
_read_end = -1
# The communicators that the main thread's call waits for, in a list of that call's own; None outside calls.
_waits_for: Optional[list] = None


def run(communicators: Any, function: Any, *arguments: Any) -> int:
    """function(*arguments), a call of the library that may wait for other ranks; Ctrl-C aborts `communicators`."""
    global _waits_for
    if threading.get_ident() != _main:
        return function(*arguments)
    if not _installed:
        _install()
    _waits_for = [communicators]
    try:
        return function(*arguments)
    finally:
        _waits_for = None


def is_main_thread() -> bool:
    return threading.get_ident() == _main


def _install() -> None:
    global _installed, _previous, _read_end, _write_end
    _installed = True
    _read_end, _write_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    os.set_blocking(_read_end, True)
    _previous = signal.set_wakeup_fd(_write_end, warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(_read_end, _previous), name="horing-interrupt", daemon=True).start()


def _watch(read_end: int, previous: int) -> None:
    while True:
        signals = os.read(read_end, 64)
        if previous >= 0:
            _pass_on(signals, previous)
        if signal.SIGINT in signals and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            _end_what_waits()


def _pass_on(signals: bytes, descriptor: int) -> None:
    try:
        os.write(descriptor, signals)
    except OSError:  # closed, or full: as if we were not here
        pass


def _end_what_waits() -> None:
    call = _waits_for
    time.sleep(_MAY_END_BY_ITSELF)
    if call is not None and call is _waits_for:
        for communicator in call[0]:
            communicator._abort_interrupted()


def _forget_in_child() -> None:
    """A forked child has no such thread, and must not write into its parent's pipe."""
    global _installed, _waits_for, _main
    _main = threading.main_thread().ident
    _waits_for = None
    if not _installed:
        return
    _installed = False
    current = signal.set_wakeup_fd(_previous)
    if current != _write_end:
        signal.set_wakeup_fd(current)
    os.close(_read_end)
    os.close(_write_end)


os.register_at_fork(after_in_child=_forget_in_child)
