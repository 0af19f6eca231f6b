"""Groups that are made from a group: of some of its ranks, and of the ranks left after a failure.

torch.distributed's split_group and shrink_group take compiled backends only; these are methods of the group.
"""

from __future__ import annotations

import ctypes
from datetime import timedelta

import torch.distributed as dist

from .. import _capi
from .failures import failure

_NO_COLOR = -1


class Offspring:
    """For a group with `_lane`, `_store`, `_rank`, `_size`, `_timeout` and `_member`."""

    def split_group(self, new_ranks: list[int], timeout: timedelta | None = None, opts=None, group_name: str | None = None,
                    group_desc: str | None = None, device_types=None):
        """A group of the ranks of the list, in its order; None on the other ranks. Every rank of this group calls it,
        the ranks of one new group with the same list."""
        has_me = self._rank in new_ranks
        color, key = (min(new_ranks), new_ranks.index(self._rank)) if has_me else (_NO_COLOR, 0)
        handle = self._derive(lambda comm, made: _capi.horingCommSplit(comm, color, key, made, None))
        return self._offspring(handle, list(new_ranks), timeout, group_name or f"{self.group_name}:split", group_desc) if has_me else None

    def shrink(self, ranks_to_exclude: list[int], shrink_flags: int = _capi.SHRINK_DEFAULT, pg_options=None):
        """A group of the other ranks, all of which call it. The excluded ones may be dead, and this group may have failed. Flags of
        1 abort it first."""
        gone = sorted(ranks_to_exclude)
        excluded = (ctypes.c_int * len(gone))(*gone)
        handle = self._derive(lambda comm, made: _capi.horingCommShrink(comm, excluded, len(gone), made, None, shrink_flags))
        left = [rank for rank in range(self._size) if rank not in gone]
        return self._offspring(handle, left, None, f"{self.group_name}:shrunk", None)

    def _derive(self, make) -> int | None:
        handle = ctypes.c_void_p()
        code = self._lane.derive(lambda comm: make(comm, handle))
        if code:
            text = _capi.horingGetLastError(self._lane.comm) or _capi.horingGetErrorString(code)
            raise failure(code, text.decode(errors="replace"))
        return handle.value

    def _offspring(self, handle, ranks, timeout, name, description):
        group = type(self)(dist.PrefixStore(f"{name}/", self._store), ranks.index(self._rank), len(ranks),
                           timeout or timedelta(seconds=self._timeout), [self._member.global_rank(rank) for rank in ranks], lambda: handle)
        group.setGroupName(name)
        group.setGroupDesc(description or name)
        return group
