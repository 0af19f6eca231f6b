"""Buffers for tensors that the library cannot read or write where they are: strided ones, and types that it computes in wider
ones. Copied right before and after the call."""

from __future__ import annotations

import torch

from .tensors import CPU, Blocks, check_input, check_output, extent, is_plain, movable, sizes_array


class Flat:
    """Blocks of one buffer that follow each other; the same attributes as Blocks."""

    __slots__ = ("base", "end", "dtype", "counts", "displacements")

    def __init__(self, buffer: torch.Tensor, parts: list[torch.Tensor]):
        moved = [movable(part)[1] for part in parts]
        (self.base, self.end), self.dtype = extent(buffer), movable(buffer)[0]
        self.counts = sizes_array(moved)
        self.displacements = sizes_array([sum(moved[:i]) for i in range(len(moved))])


class Staging:
    """The buffers of one operation. `tensors` are those that it was given; `before` and `after`, for Operation, keep copies of them."""

    def __init__(self):
        self.tensors: list[torch.Tensor] = []
        self._loads: list[tuple] = []
        self._stores: list[tuple] = []

    def input(self, tensor: torch.Tensor, wider: torch.dtype | None = None) -> torch.Tensor:
        """A plain tensor with the same elements, when the call begins."""
        check_input(tensor)
        return self._stage(tensor, wider, load=True)

    def output(self, tensor: torch.Tensor, wider: torch.dtype | None = None) -> torch.Tensor:
        """A plain tensor for the elements to come."""
        check_output(tensor)
        return self._stage(tensor, wider, store=True)

    def both(self, tensor: torch.Tensor, wider: torch.dtype | None = None) -> torch.Tensor:
        check_output(tensor)
        return self._stage(tensor, wider, load=True, store=True)

    def inputs(self, tensors: list[torch.Tensor], other: tuple[int, int], wider: torch.dtype | None = None):
        """Blocks with the elements of the tensors; `other` is the extent that the call writes."""
        for tensor in tensors:
            check_input(tensor)
        return self._stage_blocks(tensors, other, wider, load=True)

    def outputs(self, tensors: list[torch.Tensor], other: tuple[int, int], in_place: int | None = None):
        """Blocks for the results; `other` is the extent that the call reads, which may be block `in_place`."""
        for tensor in tensors:
            check_output(tensor)
        return self._stage_blocks(tensors, other, None, store=True, in_place=in_place)

    def exchanged(self, inputs: list[torch.Tensor], outputs: list[torch.Tensor]) -> tuple:
        """Blocks of an all-to-all, whose tensors are kept elsewhere: all in place, or all copied, since a copy may be between two others."""
        for tensor in inputs:
            check_input(tensor)
        for tensor in outputs:
            check_output(tensor)
        if all(map(is_plain, inputs + outputs)):
            sent, received = Blocks(inputs), Blocks(outputs)
            if sent.usable and received.usable and _apart((sent.base, sent.end), (received.base, received.end)):
                return sent, received
        return self._copied(inputs, None, load=True), self._copied(outputs, None, store=True)

    @property
    def before(self):
        return self._load if self._loads or self._stores else None

    @property
    def after(self):
        return self._store if self._stores else None

    def _stage(self, tensor, wider, load=False, store=False):
        self.tensors.append(tensor)
        if wider is None and is_plain(tensor):
            return tensor
        buffer = torch.empty(tensor.shape, dtype=wider or tensor.dtype, device=CPU)
        self._connect(buffer, tensor, load, store)
        return buffer

    def _stage_blocks(self, tensors, other, wider, load=False, store=False, in_place=None):
        self.tensors += tensors
        if wider is None and all(map(is_plain, tensors)):
            blocks = Blocks(tensors)
            is_own = in_place is not None and other == extent(tensors[in_place])
            if blocks.usable and (is_own or _apart((blocks.base, blocks.end), other)):
                return blocks
        return self._copied(tensors, wider, load, store)

    def _copied(self, tensors, wider, load=False, store=False) -> Flat:
        buffer = torch.empty(sum(tensor.numel() for tensor in tensors), dtype=wider or tensors[0].dtype, device=CPU)
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
