"""The group that torch.distributed sees."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable
from datetime import timedelta

import torch
import torch.distributed as dist

from .. import _capi
from .collectives import Collectives
from .devices import KINDS
from .lane import Lane
from .meeting import Meeting
from .member import Member
from .messages import Messages
from .offspring import Offspring
from .operation import Together

_MOST_UNASKED = 4096  # handles; a program may drop as many while C++ has one


def _milliseconds(seconds: float) -> int:
    return max(1, min(86_400_000, round(1000 * seconds)))


class ProcessGroupHoring(Collectives, Messages, Offspring, dist.ProcessGroup):
    """A process group whose ranks are joined by a communicator of horing.

    It replaces torch's group and its backend. Any thread may use it: operations take effect in the order in which
    they were started; while a synchronous one is in progress, other operations of the same group wait. `timeout` is the deadline of
    each operation, and of making the group, unless `make()` has its communicator. In a forked child it can only be dropped.
    """

    # The interface of a backend.
    supports_splitting = False
    supports_coalescing = False
    supports_shrinking = False
    supports_time_estimate = False

    @classmethod
    def create(cls, backend_options, _group_options=None) -> ProcessGroupHoring:
        """For torch.distributed.Backend.register_backend with extended_api. Collective over the group's ranks."""
        return cls(backend_options.store, backend_options.group_rank, backend_options.group_size, backend_options.timeout,
                   list(backend_options.global_ranks_in_group))

    def __init__(self, store: dist.Store, rank: int, size: int, timeout: timedelta, global_ranks: list[int] | None = None,
                 make: Callable[[], int] | None = None):
        super().__init__(rank, size)
        self._store, self._rank, self._size = store, rank, size
        self._timeout = timeout.total_seconds()
        self._member = Member(rank, global_ranks or list(range(size)))
        self._batch: list[dist.Work] | None = None  # of handles, while operations are coalesced
        self._unasked: deque[dist.Work] = deque(maxlen=_MOST_UNASKED)
        self._get_unasked = weakref.ref(self._unasked)
        self._open_messages()
        self._open_gpus()
        make = make or Meeting(store, self._member, self._timeout).communicator
        self._lane = Lane(lambda: self._new_communicator(make), self._member.describe, self._member.global_rank)

    def _new_communicator(self, make: Callable[[], int]) -> int:
        comm = make()
        _capi.check(_capi.horingCommSetTimeout(comm, _milliseconds(self._timeout)))
        return comm

    def _handle(self, work: dist.Work) -> dist.Work:
        work.unasked = self._get_unasked
        if self._batch is not None:
            self._batch.append(work)
        return work

    # ---- Names and numbers ----

    def getBackendName(self) -> str:
        return "horing"

    def _get_backend_name(self) -> str:
        return "horing"

    def name(self) -> str:
        return "horing"

    def rank(self) -> int:
        return self._rank

    def size(self) -> int:
        return self._size

    def getRank(self) -> int:
        return self._rank

    def getSize(self) -> int:
        return self._size

    def getGroupName(self) -> str:
        return self._member.group_name

    def setGroupName(self, name: str) -> None:
        self._member.group_name = name

    def getGroupDesc(self) -> str:
        return self._member.group_description

    def setGroupDesc(self, description: str) -> None:
        self._member.group_description = description

    _set_group_name, _set_group_desc = setGroupName, setGroupDesc
    group_name, group_desc = property(getGroupName), property(getGroupDesc)

    def get_group_store(self) -> dist.Store:
        return self._store

    # ---- The interface of a group and of its backends ----

    @property
    def _device_types(self) -> list[torch.device]:
        return [torch.device(kind) for kind in ("cpu", *KINDS)]

    def _get_backend(self, device: torch.device) -> ProcessGroupHoring:
        if torch.device(device).type not in ("cpu", *KINDS):
            raise RuntimeError(f"horing has no backend for {device}: it serves tensors on {', '.join(['cpu', *KINDS])}")
        return self

    @property
    def options(self) -> dist.ProcessGroup:
        return dist.Backend.Options("horing", timedelta(seconds=self._timeout))

    def eager_connect_single_device(self, device: torch.device) -> None:
        """Ranks are connected when the group is made."""

    def _set_sequence_number_for_group(self) -> None:
        """Numbers start at 0 on all ranks."""

    def _get_sequence_number_for_group(self) -> int:
        return self._lane.sequence

    def set_timeout(self, timeout: timedelta) -> None:
        """For operations that begin later."""
        seconds = timeout.total_seconds()
        self._lane.set_timeout(_milliseconds(seconds))
        self._timeout = self._own_messages.timeout = seconds

    _set_default_timeout = set_timeout

    def monitored_barrier(self, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:
        """A barrier whose error names all missing ranks, whether `wait_all_ranks` is set or not."""
        self.barrier(timeout=timeout).wait()

    def _start_coalescing(self, device: torch.device) -> None:
        """The handle that _end_coalescing returns also waits for all operations started from now on."""
        self._batch = []

    def _end_coalescing(self, device: torch.device) -> dist.Work:
        works, self._batch = self._batch, None
        return Together(works)

    # ---- Ending ----

    def shutdown(self) -> None:
        """Waits for started operations, then releases the group's connections. Later calls raise an error. Raises that of operations,
        if the group has some on GPUs, which was raised to nobody."""
        self._end(self._lane.close)

    def abort(self) -> None:
        """Fails operations in progress, here and on the other ranks. Any thread."""
        self._end(self._lane.abort)

    def _end(self, end_lane: Callable[[], None]) -> None:
        try:
            end_lane()
        finally:
            self._own_messages.end(self._lane.ended)
            self._unasked.clear()

    # ---- Older and newer names ----

    _allgather_base = Collectives.all_gather_single
    allgather_into_tensor_coalesced = Collectives.all_gather_single_coalesced
    gather_into_tensor = Collectives.gather_single
    _reduce_scatter_base = Collectives.reduce_scatter_single
    reduce_scatter_tensor_coalesced = Collectives.reduce_scatter_single_coalesced
    alltoall_base = Collectives.all_to_all_single
