"""Groups that are made from a group: of some of its ranks, and of the ranks left after a failure.

torch.distributed's split_group and shrink_group take compiled backends only; these are methods of the group. Torch keeps the groups
that split_group and shrink return where it keeps those of new_group, until destroy_process_group: by global ranks, name and tag.
"""

from __future__ import annotations

import ctypes
from datetime import timedelta

import torch._C._distributed_c10d as _c10d
import torch.distributed as dist

from .. import _capi
from .failures import failure

_NO_COLOR = -1
_ARGUMENT = 4


def _world():
    """What torch knows of groups."""
    return dist.distributed_c10d._world


class Offspring:
    """For a group with `_lane`, `_store`, `_rank`, `_size`, `_timeout` and `_member`."""

    _derived = 0  # how many groups this one's ranks have derived, or tried to

    def split_group(self, new_ranks: list[int], timeout: timedelta | None = None, opts=None, group_name: str | None = None,
                    group_desc: str | None = None, device_types=None):
        """A group of the ranks of the list, in its order; None on the other ranks. Every rank of this group calls it,
        the ranks of one new group with the same list. A name that another group has is refused on the ranks that have it."""
        if self._rank in new_ranks and self._is_known() and group_name in _world().pg_names.values():
            raise failure(_ARGUMENT, f"split_group of {self.group_name}, {self._member}: there is a group named {group_name}; "
                          "torch.distributed.destroy_process_group(group) frees its name, shutdown() does not")
        return self._made_known(self._part(list(new_ranks), timeout, group_name, group_desc))

    def private_copy(self, description: str):
        """A group of the same ranks that torch does not know: it ends when it is dropped. Every rank of this group calls it."""
        return self._part(list(range(self._size)), None, None, description)

    def shrink(self, ranks_to_exclude: list[int], shrink_flags: int = _capi.SHRINK_DEFAULT, pg_options=None):
        """A group of the other ranks, all of which call it. The excluded ones may be dead, and this group may have failed. Flags of
        1 abort it first."""
        gone = sorted(ranks_to_exclude)
        excluded = (ctypes.c_int * len(gone))(*gone)
        handle = self._derive(lambda comm, made: _capi.horingCommShrink(comm, excluded, len(gone), made, None, shrink_flags))
        left = [rank for rank in range(self._size) if rank not in gone]
        return self._made_known(self._offspring(handle, left, None, self._name("shrunk"), None))

    def _part(self, ranks: list[int], timeout: timedelta | None, name: str | None, description: str | None):
        has_me = self._rank in ranks
        color, key = (min(ranks), ranks.index(self._rank)) if has_me else (_NO_COLOR, 0)
        handle = self._derive(lambda comm, made: _capi.horingCommSplit(comm, color, key, made, None))
        return self._offspring(handle, ranks, timeout, name or self._name("split"), description) if has_me else None

    def _name(self, how: str) -> str:
        """The same on all ranks of the new group: they derive groups in the same order."""
        return f"{self.group_name}:{how}:{self._derived}"

    def _derive(self, make) -> int | None:
        self._derived += 1
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

    def _is_known(self) -> bool:
        return self in _world().pg_map

    def _made_known(self, group: Offspring | None):
        """The group, which torch knows if it knows this one."""
        if group is None or not self._is_known():
            return group
        world, name = _world(), group.group_name
        try:
            _c10d._register_process_group(name, group)
        except RuntimeError:
            group.shutdown()
            raise
        world.pg_map[group] = (world.pg_map[self][0], group._store)
        world.pg_names[group] = name
        world.pg_backend_config[group] = world.pg_backend_config[self]
        world.pg_group_ranks[group] = {each: rank for rank, each in enumerate(group._member.global_ranks)}
        world.pg_to_tag[group] = f"ptd:{name}"
        for tag in ("", f"ptd:{name}"):
            world.tags_to_pg.setdefault(tag, []).append(group)
        return group
