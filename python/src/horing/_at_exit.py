"""What is done before the process ends, the latest first.

At the interpreter's exit, and at the end of a process that multiprocessing has forked: that one ends without the interpreter's exit, so
that the other ranks would take it for dead.
"""

from __future__ import annotations

import atexit
import multiprocessing
import multiprocessing.util
from typing import Callable


class _Registered(list):
    """Functions. multiprocessing holds the list by a weak reference, which a plain list has none of."""


_functions = _Registered()


def at_exit(function: Callable[[], None]) -> Callable[[], None]:
    """Calls the function at the end; maybe twice."""
    _functions.append(function)
    atexit.register(function)
    if multiprocessing.parent_process() is not None:
        _at_childs_end(function)
    return function


def _at_childs_end(function: Callable[[], None]) -> None:
    multiprocessing.util.Finalize(None, function, exitpriority=0)


def _in_child(functions: list) -> None:
    for function in functions:
        _at_childs_end(function)


multiprocessing.util.register_after_fork(_functions, _in_child)
