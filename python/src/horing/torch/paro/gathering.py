"""Parameters on their way: gathered before use, released after it, the next unit prefetched in the order observed."""

from __future__ import annotations

from collections.abc import Callable

import torch

from .client import Client
from .layout import Bucket, Entry, Unit


def in_backward() -> bool:
    return torch._C._current_graph_task_id() != -1


class Gathering:
    """Which units are gathered. All ranks make the same calls in the same order; `history` is a digest of them.

    `before_gather(buckets)` runs before values of these are requested from other ranks.
    """

    def __init__(self, client: Client, units: list[Unit], before_gather: Callable[[list[Bucket]], None]):
        self._client, self._units, self._before_gather = client, units, before_gather
        self._held: list[Unit] = []  # gathered, or being so; the latest used is the last
        self._follows: dict[tuple[bool, Unit], Unit] = {}  # the unit used next in the last pass
        self._latest: tuple[bool, Unit] | None = None
        self._held_in_pass: list[tuple[int, ...]] = []  # the numbers of units, at each use since a pass began
        self.held_at_uses: list[tuple[int, ...]] = []  # in the last one that is over
        self.history = 0

    def note(self, call: int) -> None:
        self.history = (self.history * 1_000_003 + call + 1) % (1 << 61)

    def use(self, unit: Unit) -> None:
        """Returns when the unit is here, for the caller's stream. Begins to gather the one that was used next the last time."""
        use = (in_backward(), unit)
        if use != self._latest or any(bucket.lease is None for bucket in unit.buckets):
            self._use_next(use)
        self._client.memory.lead()

    def _use_next(self, use: tuple[bool, Unit]) -> None:
        unit = use[1]
        self._gather(unit)
        if self._latest is not None:
            self._follows[self._latest] = unit
        ahead = self._follows.get(use)
        if use[0]:
            self._release_unused({unit, ahead, self._latest and self._latest[1]})
        self._latest = use
        if ahead is not None and ahead is not unit:
            self._gather(ahead)
        if use[0] or unit.depth > 0:  # else values are read outside of a pass
            self._held_in_pass.append(tuple(each.number for each in self._held))
        for bucket in unit.buckets:
            if bucket.lease is None:
                bucket.address = self._client.param(bucket.entries[0].index)
                bucket.lease = self._client.lease(bucket.address, bucket.bytes)

    def is_next(self, unit: Unit) -> bool:
        """Whether it was used next the last time, as is the unit with which the backward pass begins."""
        return self._latest is not None and self._follows.get(self._latest) is unit

    def _gather(self, unit: Unit) -> None:
        missing = [bucket for bucket in unit.buckets if not bucket.is_gathered]
        if missing:
            self._before_gather(missing)
        for bucket in missing:
            self._client.gather(bucket.number)
            self.note(2 * bucket.number)
            bucket.is_gathered = True
        if unit in self._held:
            self._held.remove(unit)
        self._held.append(unit)

    def view(self, entry: Entry) -> torch.Tensor:
        """The parameter in the memory of its bucket."""
        return entry.bucket.lease.tensor(entry.wire_dtype, entry.offset, entry.shape)

    def masters(self, bucket: Bucket) -> dict[Entry, torch.Tensor]:
        """Copies of its parameters in their own type, which is wider than the one in which they are gathered for use."""
        if not self.release_bucket(bucket):
            raise RuntimeError(f"parameter {bucket.entries[0].name}, or another of its bucket, is in use: its whole value can be read after the forward pass")
        self._before_gather([bucket])
        self._client.gather_masters(bucket.number)
        self.note(2 * bucket.number)
        dtype = bucket.entries[0].dtype
        lease = self._client.lease(self._client.param(bucket.entries[0].index), bucket.count * dtype.itemsize)
        values = {entry: lease.tensor(dtype, entry.offset, entry.shape).clone() for entry in bucket.entries}
        self._client.release(bucket.number)
        return values

    # ---- Releasing ----

    def _release_unused(self, wanted: set) -> None:
        for unit in list(self._held):
            if unit.depth == 0 and unit not in wanted:
                self.release(unit)

    def release(self, unit: Unit) -> Bucket | None:
        """A bucket of it that something still refers to, and that therefore stays."""
        kept = [bucket for bucket in unit.buckets if not self.release_bucket(bucket)]
        if not kept and unit in self._held:
            self._held.remove(unit)
        return kept[0] if kept else None

    def release_bucket(self, bucket: Bucket, force: bool = False) -> bool:
        """Unless a tensor refers to its memory."""
        lease, bucket.lease = bucket.lease, None
        if lease is not None and lease.is_used() and not force:
            bucket.lease = lease
            return False
        if bucket.is_gathered:
            self._client.release(bucket.number)
            bucket.is_gathered = False
        return True

    def release_all(self) -> None:
        """At the end of a pass."""
        for unit in self._held:
            if unit.depth > 0:
                raise RuntimeError(f"unit {unit.name} is in its forward pass: gradients and parameters are synchronized after it")
        self.begin_pass()

    def begin_pass(self) -> None:
        """The order of uses starts anew, and so do the values: also those that a forward pass kept for its backward pass."""
        self._latest = None
        self._held_in_pass.clear()
        self._client.memory.end_pass()  # of a forward pass that no backward pass followed
        for unit in list(self._held):
            kept = self.release(unit)
            if kept is not None:
                raise RuntimeError(f"parameter {kept.entries[0].name}, or another of its bucket, is still referred to after the pass that "
                                   "gathered it: copy the values to keep (clone())")

    def end_pass(self) -> None:
        """After a backward pass: whatever is not used by a module is released."""
        self._latest = None
        self.held_at_uses[:] = self._held_in_pass
        self._held_in_pass.clear()
        self._release_unused(set())
        self._client.memory.end_pass()
        for unit in self._units:
            unit.calls = 0

    def bucket_at(self, address: int) -> Bucket | None:
        """The gathered bucket that has this address."""
        for unit in self._held:
            for bucket in unit.buckets:
                if bucket.lease is not None and bucket.address <= address < bucket.address + bucket.bytes:
                    return bucket
        return None
