"""Making the communicator of a launcher's environment, open to Ctrl-C."""

from __future__ import annotations

import ctypes
import os
import threading
from typing import Any, Callable, Optional

from . import _capi, _interrupt


def make_from_environment() -> int:
    """The handle. The call waits for the other ranks, so in the main thread another thread makes it."""
    return _Making().wait() if _interrupt.is_main_thread() else _make()


def _make() -> int:
    out = ctypes.c_void_p()
    _capi.check(_capi.horingCommInitFromEnv(out))
    assert out.value is not None
    return out.value


class _Making:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._abandoned = False
        self._made: Optional[int] = None
        self._error: Optional[BaseException] = None
        self._use_gpu = _current_gpu()
        threading.Thread(target=self._run, name="horing-meeting", daemon=True).start()

    def wait(self) -> int:
        try:
            self._done.wait()
        except BaseException:
            with self._lock:
                self._abandoned = True
                self._abort()
            raise
        if self._error is not None:
            raise self._error
        assert self._made is not None
        return self._made

    def _run(self) -> None:
        try:
            self._use_gpu()
            self._made = _make()
        except BaseException as error:  # raised by wait
            self._error = error
        with self._lock:
            if self._abandoned:
                self._abort()
            self._done.set()

    def _abort(self) -> None:
        made, self._made = self._made, None
        if made is not None:
            _capi.horingCommAbort(made)


def _current_gpu() -> Callable[[], Any]:
    """Returns a function that makes this thread's current GPU current in another thread: a communicator works on it."""
    try:
        driver = ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOW | os.RTLD_NOLOAD)
    except OSError:  # the program has not loaded it, so none is current
        return lambda: None
    context = ctypes.c_void_p()
    if driver.cuCtxGetCurrent(ctypes.byref(context)) != 0 or not context.value:
        return lambda: None
    return lambda: driver.cuCtxSetCurrent(context)
