"""The parts of a model: its parameters, the units that are gathered together, and their buckets."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import torch
from torch import nn

from ..._capi import DType
from .memory import Lease

WIRE_TYPES = {torch.float16: DType.float16, torch.bfloat16: DType.bfloat16, torch.float32: DType.float32, torch.float64: DType.float64}


class Entry:
    """A parameter of the model. `places` are the modules and attributes that have it: several where it is tied."""

    def __init__(self, index: int, name: str, given: nn.Parameter, reduce_dtype: torch.dtype | None, gather_dtype: torch.dtype | None = None):
        self.index, self.name, self.given = index, name, given
        self.shape, self.dtype, self.count, self.trainable = given.shape, given.dtype, given.numel(), given.requires_grad
        self.wire_dtype = gather_dtype or self.dtype  # in which it is gathered
        self.state_dtype = torch.float64 if self.dtype == torch.float64 else torch.float32
        self.grad_dtype = reduce_dtype if reduce_dtype and self.wire_dtype.itemsize < reduce_dtype.itemsize else self.wire_dtype
        self.places: list[tuple[nn.Module, str]] = []
        self.keys: list[str] = []  # its names in a state_dict
        self.has_values = False  # not, if the model was made on the meta device, until it is given some
        self.unit: Unit | None = None
        self.bucket: Bucket | None = None
        self.offset = 0  # in the bucket, in elements
        self.leaf: torch.Tensor | None = None  # represents the parameter in the graph, without memory
        self.first = 0  # of the shard, in the parameter, in elements
        self.shard: nn.Parameter | None = None  # the tensor that model.parameters() yields
        self.own_type = WIRE_TYPES[given.dtype]


class Bucket:
    """A vector of the C client. `lease` is the memory in which it is gathered, while it is."""

    def __init__(self, number: int, unit: Unit, first: Entry):
        self.number, self.unit, self.dtype, self.trainable = number, unit, first.wire_dtype, first.trainable
        self.grad_dtype, self.state_dtype = first.grad_dtype, first.state_dtype
        self.entries: list[Entry] = []
        self.count = 0
        self.is_gathered = False
        self.lease: Lease | None = None
        self.address = 0  # of the lease

    @property
    def bytes(self) -> int:
        return self.count * self.dtype.itemsize


class Unit:
    """Modules whose parameters are gathered together: `module` and its parts. `depth` counts their nested calls."""

    def __init__(self, number: int, name: str, module: nn.Module | None = None):
        self.number, self.name, self.module = number, name, module
        self.entries: list[Entry] = []
        self.buckets: list[Bucket] = []
        self.recurrent: list[nn.RNNBase] = []
        self.depth = 0
        self.calls = 0  # whose backward pass is to come
        self.views: list[tuple[Entry, torch.Tensor, int]] = []  # while depth > 0, with their versions


def find_entries(model: nn.Module, reduce_dtype: torch.dtype | None, gather_dtype: torch.dtype | None = None) -> list[Entry]:
    found: dict[nn.Parameter, Entry] = {}
    for module_name, module in model.named_modules():
        for attribute, parameter in module._parameters.items():
            if parameter is None:
                continue
            name = f"{module_name}.{attribute}" if module_name else attribute
            if parameter not in found:
                found[parameter] = Entry(len(found), name, _checked(name, parameter, gather_dtype), reduce_dtype, gather_dtype)
            found[parameter].places.append((module, attribute))
            found[parameter].keys.append(name)
    return list(found.values())


def _checked(name: str, parameter: nn.Parameter, gather_dtype: torch.dtype | None) -> nn.Parameter:
    if isinstance(parameter, nn.parameter.UninitializedTensorMixin):
        raise TypeError(f"parameter {name} has no size yet: run the model once, then shard it")
    if parameter.dtype not in WIRE_TYPES or parameter.layout is not torch.strided:
        raise TypeError(f"parameter {name} has {parameter.dtype}, {parameter.layout}: expected a dense tensor of float16, bfloat16, "
                        "float32 or float64")
    if gather_dtype not in (None, parameter.dtype) and parameter.dtype.itemsize <= gather_dtype.itemsize:
        raise TypeError(f"parameter {name} has {parameter.dtype}: expected gather_dtype, {gather_dtype}, or a wider type")
    if type(parameter) is not nn.Parameter:
        raise TypeError(f"parameter {name} is a {type(parameter).__name__}: expected a plain nn.Parameter")
    return parameter


def choose_units(model: nn.Module, given: Iterable | None) -> dict[nn.Module, str]:
    """The modules that are units, with their names; the other parameters belong to the root."""
    names = {module: name for name, module in model.named_modules()}
    if given is None:
        return {module: names[module] for module in _blocks(model, sum(each.numel() for each in model.parameters()) / 2)}
    given = list(given)
    classes = tuple(each for each in given if isinstance(each, type))
    chosen = {module: name for module, name in names.items() if isinstance(module, classes) and module is not model}
    for module in given:
        if isinstance(module, type):
            continue
        if module not in names or module is model:
            raise ValueError(f"units has a {type(module).__name__} that is no part of the model below its root")
        chosen[module] = names[module]
    return {module: name for module, name in names.items() if module in chosen}  # outer ones first


def _blocks(module: nn.Module, limit: float) -> list[nn.Module]:
    """The outermost elements of lists and sequences that have at most `limit` elements of parameters."""
    found = []
    for child in module.children():
        in_list = isinstance(module, (nn.ModuleList, nn.Sequential, nn.ModuleDict))
        count = sum(each.numel() for each in child.parameters())
        if in_list and 0 < count <= limit and not isinstance(child, (nn.ModuleList, nn.ModuleDict)):
            found.append(child)
        else:
            found += _blocks(child, limit)
    return found


def assign_units(model: nn.Module, entries: list[Entry], chosen: dict[nn.Module, str]) -> tuple[list[Unit], dict[nn.Module, set[Unit]]]:
    """The units, the root first, and for each module the units that a call of it needs."""
    root = Unit(0, "(root)", model)
    units, unit_of = [root], {}
    for module, name in chosen.items():
        if module in unit_of:
            continue  # part of an outer one
        units.append(Unit(len(units), name, module))
        for part in module.modules():
            unit_of.setdefault(part, units[-1])
    owners: dict[nn.Module, set[Unit]] = {}
    for entry in entries:
        homes = {unit_of.get(module, root) for module, _ in entry.places}
        entry.unit = homes.pop() if len(homes) == 1 else root  # tied across units
        entry.unit.entries.append(entry)
        for module, _ in entry.places:
            owners.setdefault(module, set()).add(entry.unit)
    needs = {}
    for module in model.modules():
        own = unit_of.get(module)
        parts = itertools.chain.from_iterable(owners.get(part, ()) for part in module.modules() if unit_of.get(part) is own)
        needed = set(parts) | ({root} if module is model and root.entries else set())
        if needed or module is model:  # its call is the pass, within which units are prefetched
            needs[module] = needed
    for unit in units:
        unit.recurrent = [module for module in model.modules() if isinstance(module, nn.RNNBase) and unit in needs.get(module, ())]
    return units, needs
