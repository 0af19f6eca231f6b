"""The parts of a sharded model, put together."""

from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import nn

from ... import _capi
from ..process_group import ProcessGroupHoring
from . import client as c
from .checkpoint import Saver
from .forward import Forward, cast_inputs
from .gathering import Gathering
from .gradients import Gradients
from .layout import WIRE_TYPES, Bucket, Entry, assign_units, choose_units, find_entries
from .memory import memory_for
from .plan import Shape, best_of, costs_of, longest_vector, parse_bytes, fitting
from .saved import SavedTensors
from .shards import ORIGINAL, ShardParameter, shape_of
from .values import Values


class Sharding:
    """Of `model` over the ranks of `group`. Collective."""

    def __init__(self, model: nn.Module, strategy: str, memory: float | str | None, group: dist.ProcessGroup | None, micro_steps: int,
                 optimizer_values: int, units: Iterable | None, bucket_bytes: int, reduce_dtype: torch.dtype | None,
                 gather_dtype: torch.dtype | None, grad_buffers: int, device: torch.device | str | None):
        group = dist.group.WORLD if group is None else group
        if not isinstance(group, ProcessGroupHoring):
            raise TypeError('paro.shard needs a group of the backend horing: init_process_group("horing"), or group=')
        self.given_group = group
        self.memory_limit, self.micro_steps, self.optimizer_values = parse_bytes(memory), micro_steps, optimizer_values
        memory = memory_for(model, device)
        self.device = memory.device
        self.entries = find_entries(model, reduce_dtype, gather_dtype)
        self.units, needs = assign_units(model, self.entries, choose_units(model, units))
        self._data, self.group = (group.private_copy(f"PaRO {each}") for each in ("data", "agreements"))
        self.shape, numbers = _shape_of(self._data)
        self.costs = costs_of(self.shape, self.units, micro_steps, optimizer_values, bucket_bytes, grad_buffers, memory.one_size)
        fit = fitting(strategy, self.memory_limit, self.costs)
        if len(fit) > 1:
            rates = c.measure(self._data._lane, longest_vector(self.units, bucket_bytes))
            for cost in fit:
                cost.take_time(rates)
        self.was_asked_for = c.find_strategy(strategy) >= 0
        self.cost, self.runner_up = best_of(fit)
        self.client = c.Client(self._data._lane, memory, self.cost.strategy, [(each.count, each.own_type, each.trainable) for each in self.entries],
                               [each.unit.number for each in self.entries], [each.name for each in self.entries], bucket_bytes, reduce_dtype is not None,
                               WIRE_TYPES[gather_dtype] if gather_dtype else 0, grad_buffers)
        self.buckets = self._lay_out()
        self.values = Values(self, model)
        self.saver = Saver(self)
        self.values.begin()
        self._replace()
        self.copies = self.shape.copies(self.cost.state)  # of each element of the optimizer's state
        first_of_state = {c.WHOLE: group.rank() == 0, c.BY_GROUP: numbers[group.rank()] == numbers[0], c.BY_ALL: True}
        self.has_first_copy = first_of_state[self.cost.state]
        self.gradients = Gradients(self.client, self.buckets, self.group, self.copies)
        self.gathering = Gathering(self.client, self.units, self.gradients.before_gather)
        self.gradients.gathering = self.gathering
        self.cost.held_at_uses = self.gathering.held_at_uses
        for entry in self.entries:
            entry.shard.owner = self.gradients
        Forward(self.gathering, SavedTensors(self.gathering, self.device, self.gradients.begin_pass), needs, self.values.check, self.gradients.end_unit)
        if gather_dtype is not None:
            for unit in self.units:
                cast_inputs(unit.module, gather_dtype)

    def _lay_out(self) -> list[Bucket]:
        buckets: dict[int, Bucket] = {}
        for entry in self.entries:
            place = self.client.place(entry.index)
            bucket = buckets.get(place.bucket)
            if bucket is None:
                bucket = buckets[place.bucket] = Bucket(place.bucket, entry.unit, entry)
                entry.unit.buckets.append(bucket)
            entry.bucket, entry.offset = bucket, place.offset
            bucket.entries.append(entry)
            bucket.count += entry.count
        return [buckets[number] for number in sorted(buckets)]

    def _replace(self) -> None:
        """The model's parameters become shards on the client's masters; the memory of the given ones goes."""
        masters = {bucket: self.client.master(bucket.number) for bucket in self.buckets if bucket.trainable}
        leases = {bucket: self.client.lease(master.master, master.count * bucket.state_dtype.itemsize)
                  for bucket, master in masters.items() if master.count}
        for entry in self.entries:
            first = count = 0
            if entry.trainable:
                master = masters[entry.bucket]
                begin = max(entry.offset, master.first)
                count = max(0, min(entry.offset + entry.count, master.first + master.count) - begin)
                first, entry.first = begin - master.first, begin - entry.offset
            shape = shape_of(count, len(entry.shape))
            values = leases[entry.bucket].tensor(entry.state_dtype, first, shape) if count else torch.empty(shape, dtype=entry.state_dtype, device=self.device)
            entry.shard = ShardParameter(values, requires_grad=entry.trainable)
            entry.shard.entry = entry
            for module, attribute in entry.places:
                module._parameters[attribute] = entry.shard
            if entry.trainable:
                entry.leaf = torch.zeros((), dtype=entry.wire_dtype, device=self.device).expand(entry.shape).requires_grad_()
            setattr(entry.given, ORIGINAL, entry.name)
            if not entry.given.is_meta:
                entry.given.data = torch.empty(0, dtype=entry.dtype, device=entry.given.device)
            entry.given = None

    @property
    def optimizer_bytes(self) -> int:
        """Of this rank's state, once the optimizer has allocated it."""
        return self.optimizer_values * sum(entry.shard.numel() * entry.shard.element_size() for entry in self.entries)

    def part_of(self, entry: Entry) -> tuple[int, int]:
        """The elements of a parameter that this rank writes to a checkpoint: its shard, or an equal part of one that is frozen."""
        if entry.trainable:
            return entry.first, entry.shard.numel()
        first, end = (entry.count * (self.group.rank() + each) // self.shape.ranks for each in (0, 1))
        return first, end - first

    def layout(self) -> dict:
        """The settings on which sharded values depend."""
        return {"strategy": self.cost.name, "groups": list(self.shape.sizes), "rank": self.group.rank(),
                "elements": {entry.name: [entry.first, entry.shard.numel()] for entry in self.entries if entry.trainable}}


def _shape_of(group: ProcessGroupHoring) -> tuple[Shape, list[int]]:
    """And the number of each rank's group."""
    places: list[tuple[int, int]] = []
    number, local = _capi.c_int(), _capi.c_int()
    for rank in range(group.size()):
        _capi.check(_capi.horingCommGroup(group._lane.comm, rank, number, local))
        places.append((number.value, local.value))
    numbers = [each for each, _ in places]
    return Shape(tuple(numbers.count(each) for each in range(max(numbers) + 1)), *places[group.rank()]), numbers
