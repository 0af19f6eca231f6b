"""Buffers for tensors that the library cannot read or write where they are: strided ones, and types that it computes in wider
ones. Copied right before and after the call."""

from __future__ import annotations

import torch

from .tensors import CPU, Blocks, are_in_one_storage, check_input, check_output, extent, is_plain, movable, sizes_array


class Flat:
    """Blocks of one buffer that follow each other; the same attributes as Blocks."""

    __slots__ = ("base", "end", "dtype", "counts", "displacements")

    def __init__(self, buffer: torch.Tensor, parts: list[torch.Tensor]):
        moved = [movable(part)[1] for part in parts]
        (self.base, self.end), self.dtype = extent(buffer), movable(buffer)[0]
        self.counts = sizes_array(moved)
        self.displacements = sizes_array([sum(moved[:i]) for i in range(len(moved))])


class Staging:
    """The buffers of one operation. `tensors` are those that it was given; `before` and `after`, for Operation, keep copies of them.

    `device` is that of tensors on a GPU, and of their buffers; None: none is.
    """

    device: torch.device | None = None

    def __init__(self):
        self.tensors: list[torch.Tensor] = []
        self._loads: list[tuple] = []
        self._stores: list[tuple] = []

    def input(self, tensor: torch.Tensor, wider: torch.dtype | None = None) -> torch.Tensor:
        """A plain tensor with the same elements, when the call begins."""
        if check_input(tensor):
            self.device = tensor.device
        return self._stage(tensor, wider, load=True)

    def output(self, tensor: torch.Tensor, wider: torch.dtype | None = None) -> torch.Tensor:
        """A plain tensor for the elements to come."""
        if check_output(tensor):
            self.device = tensor.device
        return self._stage(tensor, wider, store=True)

    def both(self, tensor: torch.Tensor, wider: torch.dtype | None = None) -> torch.Tensor:
        if check_output(tensor):
            self.device = tensor.device
        return self._stage(tensor, wider, load=True, store=True)

    def inputs(self, tensors: list[torch.Tensor], other: tuple[int, int], wider: torch.dtype | None = None):
        """Blocks with the elements of the tensors; `other` is the extent that the call writes."""
        self._check(check_input, tensors)
        return self._stage_blocks(tensors, other, wider, load=True)

    def outputs(self, tensors: list[torch.Tensor], other: tuple[int, int], in_place: int | None = None):
        """Blocks for the results; `other` is the extent that the call reads, which may be block `in_place`."""
        self._check(check_output, tensors)
        return self._stage_blocks(tensors, other, None, store=True, in_place=in_place)

    def exchanged(self, inputs: list[torch.Tensor], outputs: list[torch.Tensor]) -> tuple:
        """Blocks of an all-to-all, whose tensors are kept elsewhere: all in place, or all copied, since a copy may be between two others."""
        self._check(check_input, inputs)
        self._check(check_output, outputs)
        if self._are_blocks(inputs) and self._are_blocks(outputs):
            sent, received = Blocks(inputs), Blocks(outputs)
            if sent.usable and received.usable and _apart((sent.base, sent.end), (received.base, received.end)):
                return sent, received
        return self._copied(inputs, None, load=True), self._copied(outputs, None, store=True)

    def check_devices(self) -> None:
        """With all tensors there; raises a TypeError if they are not together."""
        for tensor in self.tensors:
            if tensor.device != self.device:
                raise TypeError(f"tensors on {self.device} and on {tensor.device} in one operation")

    @property
    def buffers(self) -> list[torch.Tensor]:
        """Those that hold copies."""
        return [buffer for buffer, _ in self._loads + self._stores]

    @property
    def before(self):
        return self._load if self._loads else None

    @property
    def after(self):
        return self._store if self._stores else None

    def _check(self, check, tensors) -> None:
        for tensor in tensors:
            if check(tensor):
                self.device = tensor.device

    def _stage(self, tensor, wider, load=False, store=False):
        self.tensors.append(tensor)
        if wider is None and is_plain(tensor):
            return tensor
        buffer = torch.empty(tensor.shape, dtype=wider or tensor.dtype, device=self.device or CPU)
        self._connect(buffer, tensor, load, store)
        return buffer

    def _stage_blocks(self, tensors, other, wider, load=False, store=False, in_place=None):
        self.tensors += tensors
        if wider is None and self._are_blocks(tensors):
            blocks = Blocks(tensors)
            is_own = in_place is not None and other == extent(tensors[in_place])
            if blocks.usable and (is_own or _apart((blocks.base, blocks.end), other)):
                return blocks
        return self._copied(tensors, wider, load, store)

    def _are_blocks(self, tensors) -> bool:
        """Whether a call may take them as blocks of one buffer. Memory of a GPU that was allocated apart is not one."""
        return all(map(is_plain, tensors)) and (self.device is None or are_in_one_storage(tensors))

    def _copied(self, tensors, wider, load=False, store=False) -> Flat:
        buffer = torch.empty(sum(tensor.numel() for tensor in tensors), dtype=wider or tensors[0].dtype, device=self.device or CPU)
        parts = list(buffer.split([tensor.numel() for tensor in tensors]))
        for part, tensor in zip(parts, tensors):
            self._connect(part, tensor, load, store)
        return Flat(buffer, parts)

    def _connect(self, buffer, tensor, load, store) -> None:
        pair = (buffer.view(tensor.shape), tensor.detach())
        if load:
            self._loads.append(pair)
        if store:
            self._stores.append(pair)

    def _load(self) -> None:
        for buffer, tensor in self._loads:
            buffer.copy_(tensor)

    def _store(self) -> None:
        for buffer, tensor in self._stores:
            tensor.copy_(buffer)


def _apart(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[1] <= other[0] or other[1] <= one[0]
