"""Threads that complete futures.

A callback of a future may itself wait for another future, so a task never waits for a busy thread: another one starts.
"""

from __future__ import annotations

import os
import queue
import threading
import traceback
from collections.abc import Callable


class _Helpers:
    def __init__(self):
        self._tasks: queue.SimpleQueue = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)

    def run(self, task: Callable) -> None:
        if not self._idle.acquire(blocking=False):
            threading.Thread(target=self._serve, name="horing-futures", daemon=True).start()
        self._tasks.put(task)

    def _serve(self) -> None:
        while True:
            try:
                self._tasks.get()()
            except Exception:  # of a callback that the program hung on a future
                traceback.print_exc()
            self._idle.release()


_helpers = _Helpers()


def run_on_helper(task: Callable) -> None:
    """Runs task() on a helper thread. Any thread."""
    _helpers.run(task)


def _forget_in_child() -> None:
    global _helpers
    _helpers = _Helpers()


os.register_at_fork(after_in_child=_forget_in_child)
