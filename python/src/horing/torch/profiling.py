"""What torch's profiler shows of an operation: a range for the time of its call, named like those of other backends (`horing:all_reduce`),
with the sizes and types of its tensors.

An asynchronous operation has none until it is complete: torch writes to freed memory where such a range ends after the profiler.
"""

from __future__ import annotations

from collections.abc import Callable

from torch._C._autograd import _profiler_enabled as is_profiled  # whether a profiler records this thread
from torch._C._profiler import _RecordFunctionFast

from .operation import Operation


def shown(call: Callable, operation: Operation, *arguments) -> None:
    """call(operation, *arguments), which runs or starts it."""
    if not is_profiled():
        call(operation, *arguments)
        return
    with _RecordFunctionFast(f"horing:{operation.name.partition(' ')[0]}", list(operation.tensors)):
        call(operation, *arguments)
