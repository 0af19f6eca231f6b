"""Keeps torch.compile away from code of this backend: C++ calls it while compiled code runs (DDP's reducer, for one), and a group is
opaque to the compiler, which fails instead of leaving such a function as it is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import CodeType, ModuleType

from torch._C._dynamo import eval_frame

_PACKAGE = str(Path(__file__).parents[1])


def _skip(code: CodeType) -> None:
    if not code.co_filename.startswith(_PACKAGE):  # of a named tuple or an enumeration: it is shared with others
        return
    if hasattr(eval_frame, "skip_code"):  # older torch
        eval_frame.skip_code(code)
    elif hasattr(eval_frame, "set_code_exec_strategy"):
        skip = eval_frame._FrameAction.SKIP
        eval_frame.set_code_exec_strategy(code, eval_frame._FrameExecStrategy(skip, skip))


def leave_uncompiled(module: ModuleType) -> None:
    """The functions and methods that the module defines run as they are, whoever calls them."""
    for value in list(vars(module).values()):
        if getattr(value, "__module__", None) == module.__name__:
            for each in (value, *vars(value).values()) if isinstance(value, type) else (value,):
                for code in _codes(each):
                    _skip(code)


def _codes(function) -> Iterator[CodeType]:
    """Also those of functions in it, of a property, and of a class method."""
    if isinstance(function, CodeType):
        yield function
        for each in function.co_consts:
            yield from _codes(each)
    for name in ("__code__", "__func__", "__wrapped__", "fget", "fset"):
        if (part := getattr(function, name, None)) is not None:
            yield from _codes(part)
