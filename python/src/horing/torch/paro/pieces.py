"""A whole tensor of which this rank has a run of elements, as torch.distributed.checkpoint sees it: as boxes."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch.distributed.checkpoint.metadata import ChunkStorageMetadata, MetadataIndex, TensorProperties
from torch.distributed.checkpoint.planner import TensorWriteData, WriteItem, WriteItemType


class Piece(torch.Tensor):
    """The elements from `first` on of a tensor of `shape`, which are `values`. `by_state`: of the optimizer's shards."""

    def __new__(cls, values: torch.Tensor, shape: torch.Size, first: int, by_state: bool):
        made = torch.Tensor._make_wrapper_subclass(cls, shape, dtype=values.dtype, device=values.device)
        made.values, made.first, made.by_state = values.reshape(-1), first, by_state
        return made

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        raise TypeError(f"{function} of a piece of a tensor: only a checkpoint reads and writes it")

    def _boxes(self) -> Iterator[tuple[ChunkStorageMetadata, torch.Tensor]]:
        """Its parts, and the elements of each."""
        at = 0
        for offsets, sizes in boxes(tuple(self.shape), self.first, self.first + len(self.values)):
            count = math.prod(sizes)
            yield ChunkStorageMetadata(torch.Size(offsets), torch.Size(sizes)), self.values[at:at + count].view(sizes)
            at += count

    def __create_write_items__(self, name: str, _) -> list[WriteItem]:
        return [WriteItem(MetadataIndex(name, chunk.offsets), WriteItemType.SHARD,
                          tensor_data=TensorWriteData(chunk, TensorProperties(dtype=self.dtype), self.size())) for chunk, _ in self._boxes()]

    def __create_chunk_list__(self) -> list[ChunkStorageMetadata]:
        return [chunk for chunk, _ in self._boxes()]

    def __get_tensor_shard__(self, index: MetadataIndex) -> torch.Tensor:
        return next(values for chunk, values in self._boxes() if chunk.offsets == index.offset)


def boxes(shape: tuple[int, ...], first: int, end: int) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Offsets and sizes of the boxes that are the elements `first` to `end` of a tensor of that shape, in this order."""
    if first >= end:
        return
    if not shape:
        yield (), ()
        return
    row = math.prod(shape[1:])
    begin = -(-first // row)  # the first row that is whole
    if begin * row > first:
        stop = min(end, begin * row)
        base = (begin - 1) * row
        for offsets, sizes in boxes(shape[1:], first - base, stop - base):
            yield (begin - 1, *offsets), (1, *sizes)
        first = stop
    rows = (end - first) // row
    if rows:
        yield (first // row, *[0] * (len(shape) - 1)), (rows, *shape[1:])
        first += rows * row
    for offsets, sizes in boxes(shape[1:], 0, end - first):
        yield (first // row, *offsets), (1, *sizes)
