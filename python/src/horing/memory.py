"""Memory that the other ranks of a node reach without a copy, and registration of other memory."""

from __future__ import annotations

import ctypes
import os
import weakref
from typing import TYPE_CHECKING, Any, Optional

from . import _capi
from .buffers import view

__all__ = ["Memory", "Registration", "mem_alloc"]


class Memory:
    """Zeroed bytes from :func:`mem_alloc`, with the buffer protocol: ``numpy.frombuffer(memory, dtype="float32")``.

    Views keep it alive; the last one frees it. A forked child shares the pages with its parent.
    """

    nbytes: int

    if TYPE_CHECKING:

        def __buffer__(self, flags: int, /) -> memoryview: ...  # from the ctypes arrays below

    @property
    def address(self) -> int:
        return ctypes.addressof(self)  # type: ignore[arg-type]

    def __repr__(self) -> str:
        return f"<horing.Memory of {self.nbytes} bytes>"

    def __reduce__(self) -> Any:
        raise TypeError("a Memory belongs to the process that made it and cannot be pickled")


# By size, while there is such memory: the buffer protocol of a Python class is a ctypes array's before Python 3.12.
_classes: "weakref.WeakValueDictionary[int, Any]" = weakref.WeakValueDictionary()


def mem_alloc(size: int) -> Memory:
    """Allocates `size` bytes, aligned to a page (to 2 MiB if it is that long), which the ranks of a node read and write in
    place. They are touched at once, which takes time (about 3 ms for each MiB), and cost one descriptor. The memory belongs
    to the process, not to a communicator. Any thread. Raises SystemCallError (no memory), InvalidArgumentError."""
    size = _capi.whole("size", size, 0, 2**63)
    pointer = ctypes.c_void_p()
    _capi.check(_capi.horingMemAlloc(pointer, size))
    of_size = _classes.get(size)
    if of_size is None:
        of_size = _classes[size] = type("Memory", (Memory, ctypes.c_ubyte * size), {"nbytes": size})
    if not pointer.value:
        return of_size()
    memory = of_size.from_address(pointer.value)
    weakref.finalize(memory, _free, pointer.value, os.getpid()).atexit = False
    return memory


def _free(address: int, pid: int) -> None:
    if pid == os.getpid():
        _capi.horingMemFree(address)


class Registration:
    """A buffer that will be used with a communicator; holds it until ``close``. Made by :meth:`Communicator.register`."""

    def __init__(self, communicator: Any, buffer: Any):
        self._view = view(buffer)
        self._communicator = communicator
        handle = ctypes.c_void_p()
        comm = communicator._open()
        _capi.check(_capi.horingCommRegister(comm, self._view.address, self._view.bytes, handle), comm)
        self._handle: Optional[int] = handle.value

    @property
    def gains(self) -> bool:
        """Whether registering makes the buffer any faster; False: it is served by copying."""
        return self._handle is not None

    def close(self) -> None:
        """Ends the registration; the end of the communicator does so, too."""
        handle, self._handle = self._handle, None
        comm = self._communicator._handle
        if handle is not None and comm is not None and self._communicator._is_ours():
            _capi.check(_capi.horingCommDeregister(comm, handle), comm)

    def __enter__(self) -> "Registration":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
