"""Checkpoints of torch.distributed.checkpoint, which FSDP2 reads and writes, too: model.*, optim.state.*, optim.param_groups.*.

Each rank writes and reads its shards only. The entry "paro" has the caller's step and a digest of every tensor. In the background a thread
writes copies, through a group of its own, so that its collectives do not meet those of the training.
"""

from __future__ import annotations

import dataclasses
import json
import os
import warnings
from concurrent.futures import Future, ThreadPoolExecutor, wait
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.api import CheckpointException

from .digests import Digests
from .layout import Entry
from .pieces import Piece
from .shards import ShardParameter, shape_of

_OWN = "paro"


def save(sharding, folder: str | os.PathLike, optimizer: torch.optim.Optimizer | None, step: int) -> None:
    """See ShardedModule.save_checkpoint()."""
    sharding.saver.wait()
    _write(sharding, folder, state_of(sharding, folder, optimizer), step, sharding.given_group)


class Saver:
    """Saves one checkpoint at a time while training goes on."""

    def __init__(self, sharding):
        self._sharding = sharding
        self._group: dist.ProcessGroup | None = None
        self._latest: Future | None = None

    def start(self, folder: str | os.PathLike, optimizer: torch.optim.Optimizer | None, step: int) -> Future:
        """See ShardedModule.save_checkpoint(background=True)."""
        self.wait()
        given = self._sharding.given_group
        state = _copied(state_of(self._sharding, folder, optimizer))
        if self._group is None:
            self._group = dist.new_group(dist.get_process_group_ranks(given), timeout=timedelta(seconds=given._timeout),
                                         backend=dist.get_backend(given), use_local_synchronization=True, group_desc="PaRO checkpoints")
        # Its end is waited for when the program ends, too.
        threads = ThreadPoolExecutor(1, "PaRO checkpoint", self._sharding.client.memory.begin_thread)
        self._latest = threads.submit(_write, self._sharding, folder, state, step, self._group)
        threads.shutdown(wait=False)
        return self._latest

    def wait(self) -> None:
        """Its error, if there is one, is raised by its future only."""
        if self._latest is not None:
            wait([self._latest])


def state_of(sharding, folder: str | os.PathLike, optimizer: torch.optim.Optimizer | None) -> dict[str, Any]:
    """What is saved, on the memory of the model and the optimizer. Collective."""
    sharding.values.check()
    _agree(sharding, folder, lambda: _refuse_another(folder))
    with torch.no_grad(), torch._C.DisableTorchFunctionSubclass():
        state: dict[str, Any] = {"model": _model_state(sharding)}
        if optimizer is not None:
            state["optim"] = _agree(sharding, folder, lambda: _optimizer_state(sharding, optimizer))
    return state


def _write(sharding, folder: str | os.PathLike, state: dict[str, Any], step: int, group: dist.ProcessGroup) -> None:
    with torch.no_grad(), torch._C.DisableTorchFunctionSubclass():
        digests = Digests(sharding, group)
        for name, tensor in state["model"].items():
            digests.add(f"model.{name}", tensor)
        for name, values in state.get("optim", {}).get("state", {}).items():
            for key, value in values.items():
                digests.add(f"optim.state.{name}.{key}", value)
        state[_OWN] = json.dumps({"step": step, "digests": digests.of_whole_tensors()})
        if group.rank() != 0:
            state = _pieces_in(state)
        _run(folder, lambda: dcp.save(state, storage_writer=dcp.FileSystemWriter(folder), process_group=group))


def load(sharding, folder: str | os.PathLike, optimizer: torch.optim.Optimizer | None, strict: bool) -> int:
    """See ShardedModule.load_checkpoint()."""
    sharding.saver.wait()
    with torch.no_grad(), torch._C.DisableTorchFunctionSubclass():
        plan = _agree(sharding, folder, lambda: _Plan(sharding, folder, optimizer, strict))
        planner = dcp.DefaultLoadPlanner(flatten_state_dict=False, flatten_sharded_tensors=False)
        _run(folder, lambda: dcp.load(plan.targets, storage_reader=_Reader(folder), planner=planner, process_group=sharding.given_group))
        own = json.loads(plan.targets.pop(_OWN, '{"step": 0, "digests": {}}'))
        digests = Digests(sharding, sharding.group)
        for key, value in plan.targets.items():
            if key in own["digests"] and isinstance(value, torch.Tensor) and value.dtype == plan.types[key]:
                digests.add(key, value)
        damaged = digests.that_differ(own["digests"])
        if damaged:
            raise RuntimeError(f"the checkpoint {folder} is damaged: {damaged[0]} differs from the saved values. Nothing was loaded")
        groups = _agree(sharding, folder, lambda: optimizer and plan.options_of_groups(optimizer))
    plan.apply(optimizer, groups)
    if (plan.missing or plan.unexpected) and sharding.group.rank() == 0:
        warnings.warn(f"checkpoint {folder}: it lacks {_some(plan.missing)}, which keep their values; the model lacks {_some(plan.unexpected)}", stacklevel=3)
    return own["step"]


# ---- Saving ----

def _model_state(sharding) -> dict[str, torch.Tensor]:
    state: dict[str, torch.Tensor] = {}
    for unit in sharding.units:
        frozen = sharding.values.read([entry for entry in unit.entries if not entry.trainable])
        for entry in unit.entries:
            if entry.count:
                first, count = sharding.part_of(entry)
                values = entry.shard.detach() if entry.trainable else frozen[entry].reshape(-1)[first:first + count].clone()
                state |= dict.fromkeys(entry.keys, Piece(values, entry.shape, first, entry.trainable))
    return state | {name: buffer.detach() for name, buffer in sharding.values.kept_buffers().items()}


def _optimizer_state(sharding, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    state: dict[str, dict[str, Any]] = {}
    for entry, values in ((_entry_of(sharding, parameter), values) for parameter, values in optimizer.state.items()):
        if entry.count:
            state[entry.name] = {key: state_value(entry, key, value) for key, value in values.items()}
    groups = [{**group, "params": [_entry_of(sharding, parameter).name for parameter in group["params"]]} for group in optimizer.param_groups]
    return {"state": state, "param_groups": groups}


def state_value(entry: Entry, key: str, value: Any) -> Any:
    """A value of the optimizer: a number for the whole parameter, or a piece."""
    if not isinstance(value, torch.Tensor) or value.dim() == 0:
        return value
    if value.shape != entry.shard.shape:
        raise TypeError(f"the optimizer's {key} of parameter {entry.name} has shape {tuple(value.shape)}: expected that of the shard, "
                        f"{tuple(entry.shard.shape)}, or one number")
    return Piece(value.detach(), entry.shape or torch.Size((1,)), entry.first, True)


def _copied(value: Any) -> Any:
    """In memory of the host."""
    if isinstance(value, dict):
        return {key: _copied(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_copied(each) for each in value]
    if isinstance(value, Piece):
        return Piece(_copied(value.values), value.shape, value.first, value.by_state)
    return value.detach().to("cpu", copy=True) if isinstance(value, torch.Tensor) else value


def _pieces_in(state: dict[str, Any]) -> dict[str, Any]:
    """Whatever else there is, such as the statistics of a batch norm, is rank 0's."""
    found = {key: _pieces_in(value) if isinstance(value, dict) else value for key, value in state.items()}
    return {key: value for key, value in found.items() if isinstance(value, (dict, Piece))}


def _entry_of(sharding, parameter: torch.Tensor) -> Entry:
    if not isinstance(parameter, ShardParameter) or parameter.entry not in sharding.entries:
        raise TypeError("the optimizer has a parameter that is not one of this model's: make it of model.parameters(), after paro.shard")
    return parameter.entry


# ---- Loading ----

class _Plan:
    """Memory of the host for the values read, by their names in the checkpoint; the model is not changed before all are there. What the checkpoint or the
    model lacks is `missing` or `unexpected`, unless `strict`."""

    def __init__(self, sharding, folder: str | os.PathLike, optimizer: torch.optim.Optimizer | None, strict: bool):
        self._sharding, self._folder, self._strict = sharding, folder, strict
        self._saved = _read_metadata(folder)
        self.targets: dict[str, Any] = {}
        self.types = {key: each.properties.dtype for key, each in self._saved.items() if hasattr(each, "properties")}
        self._entries: dict[Entry, str] = {}
        self._buffers: dict[str, str] = {}
        self._state: dict[tuple[Entry, str], str] = {}
        self._plan_model()
        if optimizer is not None:
            self._plan_optimizer()
        if _OWN in self._saved:
            self.targets[_OWN] = None

    def _plan_model(self) -> None:
        entries = [entry for entry in self._sharding.entries if entry.count]
        buffers = self._sharding.values.kept_buffers()
        found = {prefix: [entry for entry in entries if any(prefix + key in self._saved for key in entry.keys)] for prefix in ("model.", "")}
        prefix = max(found, key=lambda each: len(found[each]))
        there = set(found[prefix])
        self.missing = [entry.name for entry in entries if entry not in there]
        self.missing += [name for name in buffers if prefix + name not in self._saved]
        known = {prefix + name for name in (*buffers, *(key for entry in self._sharding.entries for key in entry.keys))}
        self.unexpected = [key for key in self._saved if key.startswith(prefix) and key not in known and key != _OWN and not key.startswith("optim.")]
        if self._strict and (self.missing or self.unexpected):
            raise RuntimeError(f"it is of another model: missing {_some(self.missing)}, unexpected {_some(self.unexpected)}")
        if entries and not found[prefix]:
            raise RuntimeError(f"it has none of the model's parameters: missing {_some(self.missing)}, unexpected {_some(self.unexpected)}")
        for entry in found[prefix]:
            key = next(prefix + key for key in entry.keys if prefix + key in self._saved)
            self._expect(key, entry.shape)
            first, count = self._sharding.part_of(entry)
            self.targets[key] = Piece(torch.empty(count, dtype=self._type_of(key), device="cpu"), entry.shape, first, entry.trainable)
            self._entries[entry] = key
        for name, buffer in buffers.items():
            if prefix + name not in self._saved:
                continue
            self._expect(prefix + name, buffer.shape)
            self.targets[prefix + name] = torch.empty_like(buffer, device="cpu")
            self._buffers[name] = prefix + name

    def _expect(self, key: str, shape: torch.Size) -> None:
        size = getattr(self._saved[key], "size", None)
        if size != shape:
            raise RuntimeError(f"{key} has {'no shape' if size is None else f'shape {tuple(size)}'} there, and shape {tuple(shape)} in the model")

    def _type_of(self, key: str) -> torch.dtype:
        """As saved: the digest is of these values."""
        dtype = self.types.get(key)
        if dtype is None or not dtype.is_floating_point:
            raise RuntimeError(f"{key} has {dtype or 'no type'} there: expected a floating-point type")
        return dtype

    def _plan_optimizer(self) -> None:
        by_name = {entry.name: entry for entry in self._sharding.entries}
        if not any(key.startswith("optim.param_groups.") for key in self._saved):
            raise RuntimeError("it has no state of an optimizer (optim.param_groups.*)")
        for key, saved in self._saved.items():
            if key.startswith("optim.param_groups."):
                self.targets[key] = torch.empty(saved.size, dtype=saved.properties.dtype, device="cpu") if key in self.types else None
            elif key.startswith("optim.state."):
                name, _, what = key.removeprefix("optim.state.").rpartition(".")
                if name not in by_name or not by_name[name].trainable:
                    if not self._strict:
                        continue
                    raise RuntimeError(f"it has state of an optimizer for {name}, and the model has no trainable parameter of that name")
                if by_name[name].count:
                    self.targets[key] = self._target_of_state(by_name[name], key)
                    self._state[by_name[name], what] = key

    def _target_of_state(self, entry: Entry, key: str) -> torch.Tensor | None:
        if key not in self.types:
            return None
        if self._saved[key].size == ():
            return torch.empty((), dtype=self.types[key], device="cpu")
        self._expect(key, entry.shape or torch.Size((1,)))
        return Piece(torch.empty(entry.shard.numel(), dtype=self.types[key], device="cpu"), self._saved[key].size, entry.first, True)

    def options_of_groups(self, optimizer: torch.optim.Optimizer) -> list[dict[str, Any]]:
        """The options of each group of the optimizer, as the parameters of the group had them."""
        saved: dict[str, dict[str, Any]] = {}
        for key, value in self.targets.items():
            if key.startswith("optim.param_groups."):
                number, _, option = key.removeprefix("optim.param_groups.").partition(".")
                saved.setdefault(number, {})[option] = value
        number_of = {name: number for number, options in saved.items() for name in options.pop("params", ())}
        found = []
        for group in optimizer.param_groups:
            names = [_entry_of(self._sharding, parameter).name for parameter in group["params"]]
            unknown = [name for name in names if name not in number_of]
            if not self._strict:
                names = [name for name in names if name in number_of]
            elif unknown:
                raise RuntimeError(f"the optimizer had no parameter {unknown[0]} when it was saved")
            if len({number_of[name] for name in names}) > 1:
                raise RuntimeError(f"the parameters of a group, {_some(names)}, were in several groups of the optimizer when it was saved")
            options = saved[number_of[names[0]]] if names else {}
            # A newer torch may have an additional option; another optimizer lacks some and has different ones.
            missing, unknown = sorted(options.keys() - group.keys()), sorted(group.keys() - options.keys() - {"params"})
            if missing and unknown:  # also if not strict
                raise RuntimeError(f"it was saved of another optimizer: {type(optimizer).__name__} has no {missing[0]}, and there is no {unknown[0]}")
            found.append(options)
        return found

    def apply(self, optimizer: torch.optim.Optimizer | None, groups: list[dict[str, Any]] | None) -> None:
        values = self._sharding.values
        read = {entry: self.targets[key] for entry, key in self._entries.items()}
        values.write_shards({entry: piece.values.view(entry.shard.shape) for entry, piece in read.items() if entry.trainable})
        for entry, piece in read.items():
            if not entry.trainable:
                values.join(entry, piece.first, piece.values)
        for name, key in self._buffers.items():
            values.write_buffer(name, self.targets[key])
        if optimizer is None or groups is None:
            return
        state: dict[Entry, dict[str, Any]] = {}
        for (entry, what), key in self._state.items():
            value = self.targets[key]
            state.setdefault(entry, {})[what] = value.values.view(shape_of(value.values.numel(), len(entry.shape))) \
                if isinstance(value, Piece) else value
        packed = optimizer.state_dict()
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        loaded = {number: state[parameter.entry] for number, parameter in enumerate(parameters) if parameter.entry in state}
        kept = {number: packed["state"][number] for number, parameter in enumerate(parameters)
                if parameter.entry not in self._entries and number in packed["state"]}
        packed["state"] = {**kept, **loaded}
        packed["param_groups"] = [{**group, **options} for group, options in zip(packed["param_groups"], groups)]
        optimizer.load_state_dict(packed)


class _Reader(dcp.FileSystemReader):
    """Names the values that cannot be read."""

    def read_data(self, plan, planner):
        for item in plan.items:
            try:
                done = super().read_data(dataclasses.replace(plan, items=[item]), planner)
            except Exception as error:
                file = self.storage_data[item.storage_index].relative_path
                raise RuntimeError(f"{item.storage_index.fqn} cannot be read from {file}: {type(error).__name__}: {error}") from error
        return done if plan.items else super().read_data(plan, planner)


# ---- Files, and errors that all ranks get ----

def _refuse_another(folder: str | os.PathLike) -> None:
    if (Path(folder) / ".metadata").exists():
        raise FileExistsError("there is a checkpoint already: take another folder, so that one is complete at any time")


def _read_metadata(folder: str | os.PathLike) -> dict[str, Any]:
    if not (Path(folder) / ".metadata").exists():
        raise FileNotFoundError("there is no complete checkpoint: it has no file .metadata")
    try:
        return dcp.FileSystemReader(folder).read_metadata().state_dict_metadata
    except Exception as error:
        raise RuntimeError(f"its file .metadata cannot be read: {type(error).__name__}: {error}") from error


def _agree(sharding, folder: str | os.PathLike, do):
    """The result of do(), if it succeeds on all ranks; otherwise all of them raise."""
    result, error = None, None
    try:
        result = do()
    except Exception as raised:
        error = raised
    texts: list[str | None] = [None] * sharding.shape.ranks
    dist.all_gather_object(texts, error and f"{type(error).__name__}: {error}", group=sharding.given_group)
    failed = [rank for rank, text in enumerate(texts) if text]
    if failed:
        raise RuntimeError(f"checkpoint {folder}: {texts[failed[0]]} (on rank {failed[0]})") from error
    return result


def _run(folder: str | os.PathLike, do) -> None:
    """do() of torch.distributed.checkpoint, whose exceptions programs do not catch."""
    try:
        do()
    except CheckpointException as failed:
        rank, (error, _) = min(failed.failures.items())
        raise RuntimeError(f"checkpoint {folder}: {error} (on rank {rank})") from error


def _some(names: list[str]) -> str:
    return str(names if len(names) <= 5 else [*names[:5], f"and {len(names) - 5} more"])
