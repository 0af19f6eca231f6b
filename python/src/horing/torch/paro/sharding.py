"""The parts of a sharded model, put together."""

from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import nn

from ... import _capi
from ..process_group import ProcessGroupHoring
from . import client as c
from .forward import Forward
from .gathering import Gathering
from .gradients import Gradients
from .layout import Bucket, Entry, assign_units, choose_units, find_entries, memory_at, tensor_on
from .plan import Cost, Shape, choose, cost_of, parse_bytes
from .saved import SavedTensors
from .shards import ORIGINAL, ShardParameter, shape_of

_STATE_TYPES = {torch.float64: torch.float64}  # of others: float32


class Sharding:
    """Of `model` over the ranks of `group`. Collective."""

    def __init__(self, model: nn.Module, strategy: str, memory: int | str | None, group: dist.ProcessGroup | None, micro_steps: int,
                 optimizer_values: int, units: Iterable | None, bucket_bytes: int):
        group = dist.group.WORLD if group is None else group
        if not isinstance(group, ProcessGroupHoring):
            raise TypeError('paro.shard needs a group of the backend horing: init_process_group("horing"), or group=')
        self.memory_limit, self.micro_steps, self.optimizer_values = parse_bytes(memory), micro_steps, optimizer_values
        self.entries = find_entries(model)
        self.units, needs = assign_units(model, self.entries, choose_units(model, units))
        everyone = list(range(group.size()))
        self._data, self.group = (group.split_group(everyone, group_desc=f"PaRO {each}") for each in ("data", "agreements"))
        self.shape = _shape_of(self._data)
        self.costs = [cost_of(number, self.shape, self.units, micro_steps, optimizer_values) for number in c.STRATEGIES]
        self.cost: Cost = choose(strategy, self.memory_limit, self.costs, self.shape)
        self.client = c.Client(self._data._lane, self.cost.strategy, [(each.count, each.wire_type, each.trainable) for each in self.entries],
                               [each.unit.number for each in self.entries], [each.name for each in self.entries], bucket_bytes)
        self.buckets = self._lay_out()
        self._fill(model)
        self._replace()
        replicas = self.shape.ranks // self.shape.divisor(self.cost.state)
        self.gradients = Gradients(self.client, self.buckets, self.group, replicas)
        self.gathering = Gathering(self.client, self.units, self.gradients.before_gather)
        self.gradients.gathering = self.gathering
        for entry in self.entries:
            entry.shard.owner = self.gradients
        Forward(self.gathering, SavedTensors(self.gathering, self.gradients.begin_pass), needs, self.gradients.end_unit)

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

    def _fill(self, model: nn.Module) -> None:
        """Every rank takes the values of rank 0."""
        with torch.no_grad():
            for bucket in self.buckets:
                flat = torch.cat([entry.given.detach().reshape(-1) for entry in bucket.entries])
                self.group.broadcast([flat], root=0).wait()
                for entry in bucket.entries:
                    self.client.set_param(entry.index, flat[entry.offset:].data_ptr(), entry.count, entry.wire_type)
            for buffer in model.buffers():
                values = buffer.contiguous()
                self.group.broadcast([values], root=0).wait()
                if values is not buffer:
                    buffer.copy_(values)

    def _replace(self) -> None:
        """The model's parameters become shards on the client's masters; the memory of the given ones goes."""
        masters = {bucket: self.client.master(bucket.number) for bucket in self.buckets if bucket.trainable}
        memories = {bucket: memory_at(master.master, master.count * _state_type(bucket.dtype).itemsize, self.client)
                    for bucket, master in masters.items() if master.count}
        for entry in self.entries:
            first = count = 0
            dtype = _state_type(entry.dtype)
            if entry.trainable:
                master = masters[entry.bucket]
                begin = max(entry.offset, master.first)
                count = max(0, min(entry.offset + entry.count, master.first + master.count) - begin)
                first = begin - master.first
            values = tensor_on(memories.get(entry.bucket), dtype, first, count).view(shape_of(count, len(entry.shape)))
            entry.shard = ShardParameter(values, requires_grad=entry.trainable)
            entry.shard.entry = entry
            for module, attribute in entry.places:
                module._parameters[attribute] = entry.shard
            if entry.trainable:
                entry.leaf = torch.zeros((), dtype=entry.dtype).expand(entry.shape).requires_grad_()
            setattr(entry.given, ORIGINAL, entry.name)
            entry.given.data = torch.empty(0, dtype=entry.dtype)
            entry.given = None

    # ---- Values ----

    def whole_values(self) -> dict[Entry, torch.Tensor]:
        """Copies of all parameters, in their own types. Collective."""
        values = {}
        for unit in self.units:
            if unit.buckets:
                self.gathering.use(unit)
                values.update({entry: self.gathering.view(entry).clone() for entry in unit.entries})
                if unit.depth == 0:
                    self.gathering.release(unit)
        return values

    def set_values(self, values: dict[Entry, torch.Tensor]) -> None:
        """The same values on all ranks. Collective; what was accumulated is dropped."""
        self.gradients.end_step()
        for entry, value in values.items():
            value = value.detach().to(dtype=entry.dtype).contiguous()
            self.client.set_param(entry.index, value.data_ptr(), entry.count, entry.wire_type)

    def layout(self) -> dict:
        """What sharded values depend on."""
        return {"strategy": self.cost.name, "groups": self.shape.groups, "ranks in each": self.shape.members, "rank": self.group.rank(),
                "elements": {entry.name: entry.shard.numel() for entry in self.entries if entry.trainable}}


def _state_type(dtype: torch.dtype) -> torch.dtype:
    return _STATE_TYPES.get(dtype, torch.float32)


def _shape_of(group: ProcessGroupHoring) -> Shape:
    counts: dict[int, int] = {}
    number, local = _capi.c_int(), _capi.c_int()
    for rank in range(group.size()):
        _capi.check(_capi.horingCommGroup(group._lane.comm, rank, number, local))
        counts[number.value] = counts.get(number.value, 0) + 1
    sizes = set(counts.values())
    return Shape(len(counts), sizes.pop(), True) if len(sizes) == 1 else Shape(group.size(), 1, False)
