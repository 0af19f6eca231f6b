"""Digests of tensors of which each rank has a part: sums over the elements, independent of how these are distributed."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from .pieces import Piece

_INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32}  # other types: int64
_AT_ONCE = 1 << 20
_LIMBS = (0, 24, 48)  # a sum over ranks of smaller values does not overflow
_ALL = 1 << 64


class Digests:
    """Digests of named tensors. Pieces are parts of whole tensors; other tensors are the same on all ranks. `group` adds them up."""

    def __init__(self, sharding, group: dist.ProcessGroup):
        self._sharding, self._group = sharding, group
        self._mine: dict[str, torch.Tensor] = {}
        self._copies: dict[str, tuple[bool, int]] = {}  # does this rank have the first copy, how many there are

    def add(self, name: str, value: Any) -> None:
        if not isinstance(value, torch.Tensor):
            return
        if isinstance(value, Piece):
            self._mine[name] = _digest(value.values, value.first)
            self._copies[name] = (self._sharding.has_first_copy, self._sharding.copies) if value.by_state else (True, 1)
        else:
            self._mine[name] = _digest(value.detach().contiguous().reshape(-1), 0)
            self._copies[name] = self._sharding.group.rank() == 0, self._sharding.shape.ranks

    def of_whole_tensors(self) -> dict[str, int]:
        """Collective."""
        return self._sums({name: self._copies[name][0] for name in self._mine})

    def that_differ(self, expected: dict[str, int]) -> list[str]:
        """The tensors whose copies on any rank have changed. Collective."""
        sums = self._sums(dict.fromkeys(self._mine, True))
        return [name for name, value in sums.items() if value != expected[name] * self._copies[name][1] % _ALL]

    def _sums(self, counts: dict[str, bool]) -> dict[str, int]:
        if not counts:
            return {}
        mine = torch.stack([self._mine[name].cpu() * counts[name] for name in counts])
        limbs = torch.stack([(mine >> limb) & (0xFFFFFF if limb < 48 else 0xFFFF) for limb in _LIMBS])
        self._group.allreduce([limbs], op=dist.ReduceOp.SUM).wait()
        return {name: sum(value << limb for value, limb in zip(values, _LIMBS)) % _ALL for name, values in zip(counts, limbs.t().tolist())}


def _digest(values: torch.Tensor, first: int) -> torch.Tensor:
    """The sum of each element's bits times an odd number of its place, modulo 2^64: no change of one element goes unseen."""
    bits = values.view(_INTEGERS.get(values.element_size(), torch.int64))
    total = torch.zeros((), dtype=torch.int64, device=values.device)
    for begin in range(0, len(bits), _AT_ONCE):
        part = bits[begin:begin + _AT_ONCE].long()
        places = torch.arange(first + begin, first + begin + len(part), device=values.device)
        total += (part * (2 * places + 1)).sum()
    return total
