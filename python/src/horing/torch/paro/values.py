"""Whole tensors: initial values, values read and written, and tensors without values yet (the meta device)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import nn

from .layout import WIRE_TYPES, Entry
from .shards import ShardParameter


class Values:
    """The values of the parameters and buffers of `model`. Calls are collective unless stated otherwise; rank 0's values count."""

    def __init__(self, sharding, model: nn.Module):
        self._sharding, self._model = sharding, model
        self._are_complete = False
        self._lent_by = ""  # the module whose parameters are whole at present

    def check(self) -> None:
        """Raises if something has no values, or was put in the place of a shard. Local."""
        if self._lent_by:
            raise RuntimeError(f"the parameters of {self._lent_by} are whole at present: leave whole_parameters() first")
        for entry in self._sharding.entries:
            if any(module._parameters.get(attribute) is not entry.shard for module, attribute in entry.places):
                raise RuntimeError(f"parameter {entry.name} was replaced or removed after the model was sharded: change it in "
                                   "`with model.whole_parameters(module)`, or before paro.shard")
        for module in self._model.modules():
            for attribute, parameter in module._parameters.items():
                if parameter is not None and type(parameter) is not ShardParameter:
                    raise RuntimeError(f"parameter {attribute} of a {type(module).__name__} was added after the model was sharded, and would differ "
                                       "between ranks: add it before paro.shard")
        if self._are_complete:
            return
        missing = next((f"parameter {entry.name}" for entry in self._sharding.entries if not entry.has_values), None) or \
            next((f"buffer {name}" for name, buffer in self._model.named_buffers() if buffer.is_meta), None)
        if missing:
            raise RuntimeError(f"{missing} has no values yet, since the model was made on the meta device: initialise it in "
                               "`with model.whole_parameters(module)`, where NaN counts as no value, or load it")
        self._are_complete = True

    def begin(self) -> None:
        """Every rank takes the values of rank 0. Tensors on the meta device there have none yet."""
        entries, buffers = self._sharding.entries, _buffers_of(self._model.modules())
        given = self._of_rank_0([not entry.given.is_meta for entry in entries] + [not module._buffers[name].is_meta for module, name in buffers])
        has_values = dict(zip(entries, given))
        with torch.no_grad():
            for bucket in self._sharding.buckets:
                self._take({entry: entry.given for entry in bucket.entries if has_values[entry]})
            for place, is_given in zip(buffers, given[len(entries):]):
                if is_given:
                    self._take_buffer(*place)

    # ---- Reading and writing ----

    def read(self, entries: list[Entry]) -> dict[Entry, torch.Tensor]:
        """Copies of parameters, in their own types."""
        values, gathering = {}, self._sharding.gathering
        for unit in self._sharding.units:
            wanted = [entry for entry in unit.entries if entry in entries]
            exact = [entry for entry in wanted if entry.wire_dtype == entry.dtype]
            if exact:
                gathering.use(unit)
                values.update({entry: gathering.view(entry).clone() for entry in exact})
                if unit.depth == 0:
                    gathering.release(unit)
            for bucket in unit.buckets:
                if any(entry in wanted for entry in bucket.entries) and bucket.dtype != bucket.entries[0].dtype:
                    values.update({entry: value for entry, value in gathering.masters(bucket).items() if entry in wanted})
        return values

    def write(self, values: dict[Entry, torch.Tensor]) -> None:
        """Sets the same values on all ranks; drops accumulated gradients."""
        self._sharding.gradients.end_step()
        self._keep(values)

    def write_shards(self, values: dict[Entry, torch.Tensor]) -> None:
        """Of trainable parameters, this rank's."""
        self._sharding.gradients.rewrite(values)
        for entry in values:
            entry.has_values = True

    def write_buffer(self, name: str, value: torch.Tensor) -> None:
        """The same value on all ranks. Local."""
        path, _, attribute = name.rpartition(".")
        buffers = self._model.get_submodule(path)._buffers
        if buffers[attribute].is_meta:
            buffers[attribute] = torch.empty_like(buffers[attribute], device=self._sharding.device)
        with torch.no_grad():
            buffers[attribute].copy_(value)

    def join(self, entry: Entry, first: int, part: torch.Tensor) -> None:
        """Each rank has a disjoint part of a parameter, from element `first` on."""
        self.write({entry: self.joined(entry.count, first, part.to(entry.dtype))})

    def joined(self, count: int, first: int, part: torch.Tensor) -> torch.Tensor:
        """The same on all ranks, on the host: `count` elements of which each rank has a disjoint part, from element `first` on."""
        whole = torch.zeros(count, dtype=part.dtype, device="cpu")
        whole[first:first + len(part)] = part
        self._sharding.group.allreduce([whole.view(torch.uint8)], op=dist.ReduceOp.SUM).wait()
        return whole

    def kept_buffers(self) -> dict[str, torch.Tensor]:
        """The buffers that a state_dict has. Local."""
        return {f"{path}.{name}" if path else name: module._buffers[name] for path, module in self._model.named_modules()
                for _, name in _buffers_of([module]) if name not in module._non_persistent_buffers_set}

    def _keep(self, values: dict[Entry, torch.Tensor]) -> None:
        for entry, value in values.items():
            value = value.detach().to(self._sharding.device, entry.dtype).contiguous()
            self._sharding.client.set_param(entry.index, value, entry.own_type)
            entry.has_values = True

    def _take(self, values: dict[Entry, torch.Tensor]) -> None:
        """Keeps rank 0's values of parameters of one type. On other ranks they may be on the meta device."""
        if not values:
            return
        device = self._sharding.device
        flat = torch.cat([(torch.empty_like(each, device=device) if each.is_meta else each.detach()).reshape(-1) for each in values.values()])
        self._broadcast(flat)
        self._keep(dict(zip(values, flat.split([entry.count for entry in values]))))

    def _take_buffer(self, module: nn.Module, name: str) -> None:
        buffer = module._buffers[name]
        values = torch.empty_like(buffer, device=self._sharding.device) if buffer.is_meta else buffer.contiguous()
        self._broadcast(values)
        if buffer.is_meta:
            module._buffers[name] = values
        elif values is not buffer:
            buffer.copy_(values)

    def _broadcast(self, tensor: torch.Tensor) -> None:
        self._sharding.group.broadcast([tensor], root=0).wait()

    def _of_rank_0(self, flags: list[bool]) -> list[bool]:
        tensor = torch.tensor(flags, dtype=torch.uint8, device="cpu")
        self._broadcast(tensor)
        return [bool(flag) for flag in tensor.tolist()]

    # ---- Whole parameters for a while ----

    @contextlib.contextmanager
    def whole(self, module: nn.Module, recurse: bool) -> Iterator[None]:
        """See ShardedModule.whole_parameters()."""
        name = next((name or "the model" for name, part in self._model.named_modules() if part is module), None)
        if name is None:
            raise ValueError(f"a {type(module).__name__} that is no part of the model")
        if self._lent_by:
            raise RuntimeError(f"the parameters of {self._lent_by} are whole already")
        self._sharding.gradients.refuse_accumulated("whole_parameters()")
        self._sharding.gradients.end_step()
        parts = list(module.modules()) if recurse else [module]
        entries = [entry for entry in self._sharding.entries if any(owner in parts for owner, _ in entry.places)]
        values = self.read([entry for entry in entries if entry.has_values])
        buffers = _buffers_of(parts)
        metas = {(part, name): part._buffers[name] for part, name in buffers if part._buffers[name].is_meta}
        device = self._sharding.device
        unknown = {place: _unknown(meta.shape, meta.dtype, device) for place, meta in metas.items()}
        for entry in entries:
            _put(entry, nn.Parameter(values[entry] if entry in values else _unknown(entry.shape, entry.dtype, device), entry.trainable))
        del values
        for (part, attribute), buffer in unknown.items():
            part._buffers[attribute] = buffer
        self._lent_by = name
        try:
            yield
            given = {entry: _given(entry, device) for entry in entries}
        finally:
            self._lent_by = ""
            for entry in entries:
                _put(entry, entry.shard)
            for (part, attribute), buffer in unknown.items():
                if part._buffers.get(attribute) is buffer and _is_unknown(buffer):
                    part._buffers[attribute] = metas[part, attribute]
        with torch.no_grad():
            buffers = _buffers_of(parts)
            known = self._of_rank_0([entry.has_values or not _is_unknown(given[entry]) for entry in entries] +
                                    [not part._buffers[attribute].is_meta for part, attribute in buffers])
            for entry, is_known in zip(entries, known):
                if is_known:
                    self._take({entry: given.pop(entry)})
            for place, is_known in zip(buffers, known[len(entries):]):
                if is_known:
                    self._take_buffer(*place)


def _buffers_of(modules) -> list[tuple[nn.Module, str]]:
    return [(module, name) for module in modules for name, buffer in module._buffers.items() if buffer is not None]


def _put(entry: Entry, parameter: nn.Parameter) -> None:
    for module, attribute in entry.places:
        module._parameters[attribute] = parameter


def _given(entry: Entry, device: torch.device) -> torch.Tensor:
    """The object in the parameter's place."""
    found = [module._parameters.get(attribute) for module, attribute in entry.places]
    if any(each is not found[0] for each in found):
        raise RuntimeError(f"parameter {entry.name} is tied, and was replaced in one of its places: change it in place")
    if found[0] is None or found[0].shape != entry.shape or found[0].dtype != entry.dtype or found[0].device != device:
        what = "None" if found[0] is None else f"{found[0].dtype} of shape {tuple(found[0].shape)} on {found[0].device}"
        raise RuntimeError(f"parameter {entry.name} was replaced by {what}: expected {entry.dtype} of shape {tuple(entry.shape)} on {device}")
    return found[0]


def _unknown(shape: torch.Size, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Nothing was written to it yet."""
    return torch.full(shape, float("nan"), dtype=dtype, device=device) if dtype in WIRE_TYPES else torch.empty(shape, dtype=dtype, device=device)


def _is_unknown(tensor: torch.Tensor) -> bool:
    """NaN is left, or, in types that have none, nothing was written."""
    return bool(tensor.isnan().any()) if tensor.dtype in WIRE_TYPES else tensor._version == 0
