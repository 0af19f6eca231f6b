"""The tensors that autograd saves for the backward pass: of a parameter only its place, so that its memory can be released.

The parameter is gathered again when the backward pass asks for it. Other tensors are kept, or passed on to the hooks that
were set before, such as those of torch.utils.checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch

from .gathering import Gathering
from .layout import Bucket

_hooks = torch._C._autograd


def can_be_packed() -> bool:
    """Whether this torch shows the hooks that are set, so that they can be nested in these."""
    return hasattr(_hooks, "_top_saved_tensors_default_hooks")


class _Place(NamedTuple):
    """A tensor inside the memory of a bucket."""

    bucket: Bucket
    dtype: torch.dtype
    first: int  # byte
    size: torch.Size
    stride: tuple[int, ...]


class SavedTensors:
    """`before_use()` runs when a backward pass asks for a parameter. All are on `device`."""

    def __init__(self, gathering: Gathering, device: torch.device, before_use: Callable[[], None]):
        self._gathering, self._device, self._before_use = gathering, device, before_use

    def push(self) -> bool:
        """Packs the tensors saved from now on. False if the innermost hooks are these already."""
        inner = _hooks._top_saved_tensors_default_hooks(True)
        if inner is not None and getattr(inner[0], "owner", None) is self:
            return False
        keep, restore = inner or (_keep, _restore)

        def pack(tensor: torch.Tensor):
            place = self._place_of(tensor)
            return keep(tensor) if place is None else place

        def unpack(packed):
            return self._tensor_at(packed) if type(packed) is _Place else restore(packed)

        pack.owner = self
        _hooks._push_saved_tensors_default_hooks(pack, unpack)
        return True

    def pop(self) -> None:
        _hooks._pop_saved_tensors_default_hooks()

    def _place_of(self, tensor: torch.Tensor) -> _Place | None:
        if tensor.layout is not torch.strided or tensor.device != self._device:
            return None
        address = tensor.data_ptr()
        bucket = self._gathering.bucket_at(address)
        return bucket and _Place(bucket, tensor.dtype, address - bucket.address, tensor.size(), tensor.stride())

    def _tensor_at(self, place: _Place) -> torch.Tensor:
        self._before_use()
        bucket = place.bucket
        self._gathering.use(bucket.unit)
        items, skipped = divmod(bucket.bytes - place.first, place.dtype.itemsize)
        assert skipped == 0
        return bucket.lease.at(place.first, items * place.dtype.itemsize, place.dtype, place.size, place.stride)


def _keep(tensor: torch.Tensor) -> tuple[torch.Tensor, int]:
    return tensor, tensor._version


def _restore(packed: tuple[torch.Tensor, int]) -> torch.Tensor:
    """With the check that autograd makes where there are no hooks."""
    tensor, version = packed
    if tensor._version != version:
        raise RuntimeError(f"one of the variables needed for gradient computation has been modified by an inplace operation: a tensor of "
                           f"size {list(tensor.shape)} is at version {tensor._version}; expected version {version}")
    return tensor
