"""Collective communication between the ranks of a job, on host and GPU memory.

    import horing, numpy as np

    with horing.Communicator.from_environment() as comm:   # under horing-run, mpirun, srun or torchrun
        gradients = np.full(1 << 20, comm.rank, np.float32)
        comm.all_reduce(gradients)                         # in place; complete on return

Buffers are whatever has memory: NumPy arrays, tensors of PyTorch, bytearrays, anything that speaks DLPack. Neither NumPy nor
PyTorch is needed. Calls release the GIL.
"""

from typing import Optional

from . import _capi
from ._capi import DType, Op
from ._version import __version__
from .buffers import View, view
from .collectives import PreMulSum
from .communicator import Communicator, Place, unique_id
from .errors import (CudaError, HoringError, InternalError, InvalidArgumentError, InvalidUsageError, RemoteError,
                     SystemCallError, TimeoutError)
from .group import group
from .memory import Memory, Registration, mem_alloc
from .stream import Stream

__all__ = ["Communicator", "CudaError", "DType", "HoringError", "InternalError", "InvalidArgumentError", "InvalidUsageError",
           "Memory", "Op", "Place", "PreMulSum", "Registration", "RemoteError", "Stream", "SystemCallError", "TimeoutError",
           "View", "group", "library_version", "mem_alloc", "set_default", "unique_id", "view"]


def library_version() -> str:
    """The version of the libhoring that is loaded."""
    number = _capi.version()
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


def set_default(name: str, value: Optional[str]) -> None:
    """Sets the default of the variable `name` (`horing-info` lists them) for communicators made from now on; the environment has
    precedence. None: the built-in default. Process-wide, any thread. Raises InvalidArgumentError."""
    _capi.check(_capi.horingSetDefault(name.encode(), None if value is None else value.encode()))
