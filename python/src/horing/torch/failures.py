"""The package's exceptions as torch knows them: each is a ``torch.distributed.DistBackendError`` (a RuntimeError), too."""

from __future__ import annotations

import functools

import torch.distributed as dist

from ..errors import class_of


@functools.cache
def _class_of(code: int) -> type:
    kind = class_of(code)
    return type(kind.__name__, (kind, dist.DistBackendError), {"__module__": __name__, "__doc__": kind.__doc__})


def failure(code: int, text: str, rank: int | None = None) -> Exception:
    """The exception for a result code. `rank` is the global rank that it is about. Deadlines are torch's here, not the library's variable."""
    return _class_of(code)(text.replace("(HORING_TIMEOUT_MS)", "(timeout= of the group)"), code, rank)
