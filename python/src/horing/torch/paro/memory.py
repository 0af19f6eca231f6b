"""Where the C client keeps everything: on the host, or on a GPU. What torch is asked about that GPU and its streams is asked here."""

from __future__ import annotations

import bisect
import contextlib
import ctypes
import functools
import math
import sys

import torch
from torch import nn
from torch.utils.dlpack import from_dlpack, to_dlpack

from ..devices import KINDS
from . import client as c

CPU = torch.device("cpu")


class Lease:
    """Memory of the client for tensors, which may be counted as its users."""

    def __init__(self, device: torch.device):
        self._device = device
        self._users_at_first = self._users()

    def tensor(self, dtype: torch.dtype, first: int, shape: tuple[int, ...]) -> torch.Tensor:
        """From element `first` on. Not a view for autograd, which would complain about changes before we can."""
        count = math.prod(shape)
        if count == 0:
            return torch.empty(shape, dtype=dtype, device=self._device)
        return self.at(first * dtype.itemsize, count * dtype.itemsize, dtype, shape)

    def at(self, byte: int, size: int, dtype: torch.dtype, shape: tuple[int, ...], *stride: tuple[int, ...]) -> torch.Tensor:
        return torch.empty(0, dtype=dtype, device=self._device).set_(self._storage(byte, size), 0, shape, *stride)

    def is_used(self) -> bool:
        """Whether a tensor refers to it."""
        return self._users() > self._users_at_first


class _OnHost(Lease):
    def __init__(self, address: int, size: int, owner: object):
        self._bytes = _array_type(size).from_address(address)
        self._bytes.owner = owner  # of the memory, which tensors on it keep
        super().__init__(CPU)

    def _storage(self, byte: int, size: int) -> torch.UntypedStorage:
        return torch.frombuffer(self._bytes, dtype=torch.uint8, count=size, offset=byte).untyped_storage()

    def _users(self) -> int:
        return sys.getrefcount(self._bytes)


@functools.cache
def _array_type(size: int) -> type[ctypes.Array]:
    return type("Memory", (ctypes.c_char * size,), {})  # which may have attributes


class _OnGpu(Lease):
    """`memory`, which tensors on it keep: bytes of a tensor, behind a storage of their own."""

    def __init__(self, memory: torch.Tensor):
        self._bytes = _with_own_storage(memory)
        super().__init__(memory.device)

    def _storage(self, byte: int, size: int) -> torch.UntypedStorage:
        return _with_own_storage(self._bytes[byte:byte + size]).untyped_storage()

    def _users(self) -> int:
        return torch._C._storage_Use_Count(self._bytes.untyped_storage()._cdata)


def _with_own_storage(tensor: torch.Tensor) -> torch.Tensor:
    return from_dlpack(to_dlpack(tensor))


class Host:
    """Memory of the library. Calls of the client are complete, or wait, on the calling thread."""

    device = CPU
    settings = None  # for the client
    one_size = False  # whether gathered buckets get memory of one size

    def current(self):
        """While the client is made."""
        return contextlib.nullcontext()

    def follow(self) -> None:
        """The client goes on behind what the caller's stream holds."""

    def lead(self) -> None:
        """The caller's stream goes on behind what the client has enqueued."""

    def end_pass(self) -> None:
        """Callers' streams have joined the one that began the pass."""

    def keep(self, tensors: list[torch.Tensor | None]) -> None:
        """Their memory is not given to others before what the client has enqueued is complete."""

    def lease(self, address: int, size: int, owner: object) -> Lease:
        return _OnHost(address, size, owner)

    def begin_thread(self) -> None:
        """A thread that may use the memory begins."""


class Gpu:
    """Memory from torch's allocator, and the stream that is current when the model is sharded. Work on the client's memory is ordered by that
    stream; callers on another one are ordered with it, both ways, at every call. It goes on behind all streams of a pass: one may read what is
    released while another is current."""

    one_size = True

    def __init__(self, device: torch.device):
        self.device = device
        self._torch = getattr(torch, device.type)
        self._stream = self._torch.current_stream(device)
        self._blocks: dict[int, torch.Tensor] = {}
        self._begins: list[int] = []  # of blocks, ascending
        self._of_pass: dict[int, torch.Stream] = {}  # other streams that may use the client's memory, by number
        self._functions = c.Allocate(self._allocate), c.Release(self._release)
        with self.current():
            self.settings = c.Memory(1, self._stream.cuda_stream, *self._functions, None)

    def current(self):
        return self._torch.stream(self._stream)  # which makes its GPU the current one

    def follow(self) -> None:
        self._callers()
        for stream in self._of_pass.values():
            self._stream.wait_stream(stream)

    def lead(self) -> None:
        if (callers := self._callers()) is not None:
            callers.wait_stream(self._stream)

    def _callers(self) -> torch.Stream | None:
        """The caller's stream, unless it is the client's."""
        callers = self._torch.current_stream(self.device)
        if callers == self._stream:
            return None
        return self._of_pass.setdefault(callers.stream_id, callers)

    def end_pass(self) -> None:
        self.follow()
        self._of_pass.clear()

    def keep(self, tensors: list[torch.Tensor | None]) -> None:
        for tensor in tensors:
            if tensor is not None:
                tensor.record_stream(self._stream)

    def lease(self, address: int, size: int, owner: object) -> Lease:
        if size == 0:
            return _OnGpu(torch.empty(0, dtype=torch.uint8, device=self.device))
        begin = self._begins[bisect.bisect_right(self._begins, address) - 1]
        return _OnGpu(self._blocks[begin][address - begin:address - begin + size])

    def begin_thread(self) -> None:
        self._torch.set_device(self.device)

    def _allocate(self, size: int, _) -> int | None:
        try:
            with self.current():
                block = torch.empty(size, dtype=torch.uint8, device=self.device)
        except RuntimeError:  # out of memory, of which the client makes an error on all ranks
            return None
        address = block.data_ptr()
        self._blocks[address] = block
        bisect.insort(self._begins, address)
        return address

    def _release(self, address: int, *_) -> None:
        del self._blocks[address]
        self._begins.remove(address)


def memory_for(model: nn.Module, asked: torch.device | str | None) -> Host | Gpu:
    """On the device that is asked for, or else that of the parameters; the CPU if all are on the meta device. Raises a TypeError that names a
    parameter which is elsewhere."""
    given = [(name, parameter.device) for name, parameter in model.named_parameters() if not parameter.is_meta]
    device = _with_index(torch.device(asked)) if asked is not None else given[0][1] if given else CPU
    if device.type not in ("cpu", *KINDS):
        raise TypeError(f"{'device' if asked is not None else f'parameter {given[0][0]}'} is on {device}: expected {', '.join(['cpu', *KINDS])}, or the meta "
                        "device")
    for name, where in given:
        if where != device:
            other = "device=" if asked is not None else f"parameter {given[0][0]} on"
            raise TypeError(f"parameter {name} is on {where}, and {other} {device}: expected all on one device, or on the meta device")
    return Host() if device.type == "cpu" else Gpu(device)


def _with_index(device: torch.device) -> torch.device:
    if device.type == "cpu":
        return CPU
    if device.type in KINDS and device.index is None:
        return torch.device(device.type, getattr(torch, device.type).current_device())
    return device
