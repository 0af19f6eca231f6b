"""paro.shard, and the methods that a model has from then on."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from .sharding import Sharding
from .shards import Shard, ShardParameter
from .summary import summary

_BUCKET_BYTES = 32 << 20


def shard(model: nn.Module, strategy: str = "auto", memory: int | str | None = None, *, group: dist.ProcessGroup | None = None,
          micro_steps: int = 1, optimizer_values: int = 2, units: Iterable | None = None, bucket_bytes: int = _BUCKET_BYTES) -> Any:
    """Shards the model's parameters, gradients and optimizer state over the ranks of `group`, and returns the model. Collective.

    `strategy`: one of the fourteen ("IIG"), an alias ("ZeRO-3"), or "auto": of those that fit into `memory` ("40GiB", of each rank,
    for parameters, gradients, optimizer state and the buffers of the two), the one that sends the least between groups. For that
    `micro_steps` is the number of backward passes in an optimizer step, and `optimizer_values` what the optimizer keeps of each
    element: 2 for Adam.

    `units` are the modules, or classes of modules, whose parameters are gathered together, before a call of one of them and released after
    it; what they do not have is gathered with the model. By default the blocks of the model: elements of lists and sequences.
    Ranks begin with the parameters and buffers of rank 0. Optimizers are made afterwards.
    """
    if isinstance(model, ShardedModule):
        raise ValueError("the model is sharded already")
    for name, part in model.named_modules():
        if isinstance(part, ShardedModule):
            raise ValueError(f"{name}, a part of the model, is sharded already: shard the whole model, with units=")
    made = Sharding(model, strategy, memory, group, micro_steps, optimizer_values, units, bucket_bytes)
    model.__class__ = type(type(model).__name__, (ShardedModule, type(model)), {"__module__": type(model).__module__})
    object.__setattr__(model, "_paro", made)
    return model


class ShardedModule(nn.Module):
    """A model after paro.shard. `parameters()` yields this rank's shards (horing.torch.paro.ShardParameter)."""

    _paro: Sharding

    def no_sync(self) -> contextlib.AbstractContextManager:
        """For scripts that have it: does nothing. Backward passes add up, and gradients are synchronized once, when they are read."""
        return contextlib.nullcontext()

    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> torch.Tensor:
        """Scales the gradients so that their norm, over all ranks, is at most `max_norm`; the norm before that. Collective."""
        return self._paro.gradients.clip(float(max_norm), float(norm_type))

    def summary(self) -> str:
        """What is where, what that costs, and why, as text. Local."""
        return summary(self._paro)

    # ---- Whole values ----

    def state_dict(self, *arguments, **options) -> dict[str, Any]:
        """Of the whole model, as if it were not sharded, on every rank. Collective. Parameters are copies, in their own types."""
        result = super().state_dict(*arguments, **options)
        prefix = options.get("prefix", arguments[1] if len(arguments) > 1 else "")
        for entry, value in self._paro.whole_values().items():
            for key in entry.keys:
                if prefix + key in result:
                    result[prefix + key] = value
        return result

    def load_state_dict(self, state_dict: dict[str, Any], strict: bool = True, assign: bool = False):
        """From a state_dict of the whole model, the same on all ranks. Collective."""
        if assign:
            raise ValueError("assign=True would replace shards: expected False")
        keys = {key: entry for entry in self._paro.entries for key in entry.keys}
        for key, entry in keys.items():
            if key in state_dict and isinstance(state_dict[key], (Shard, ShardParameter)):
                raise TypeError(f"{key} is a shard: expected the whole parameter")
            if key in state_dict and state_dict[key].shape != entry.shape:
                raise RuntimeError(f"{key} has shape {tuple(state_dict[key].shape)}, and the parameter has {tuple(entry.shape)}")
        result = super().load_state_dict({key: value for key, value in state_dict.items() if key not in keys}, strict=False)
        result.missing_keys[:] = [key for key in result.missing_keys if key not in keys or key not in state_dict]
        if strict and (result.missing_keys or result.unexpected_keys):
            raise RuntimeError(f"Error(s) in loading state_dict for {type(self).__name__}: missing keys {result.missing_keys}, unexpected keys "
                               f"{result.unexpected_keys}")
        self._paro.set_values({entry: state_dict[key] for key, entry in keys.items() if key in state_dict})
        return result

    # ---- Shards ----

    def sharded_state_dict(self) -> dict[str, Any]:
        """This rank's shards of what is trained, as the optimizer has them, the model's buffers, and the layout that fits them. Local.
        With the optimizer's own state_dict() it resumes a training to the bit, on the same ranks with the same strategy."""
        entries = [entry for entry in self._paro.entries if entry.trainable]
        with torch._C.DisableTorchFunctionSubclass():
            shards = {entry.name: entry.shard.detach().clone() for entry in entries}
        return {"layout": self._paro.layout(), "shards": shards, "buffers": {name: each.clone() for name, each in self.named_buffers()}}

    def load_sharded_state_dict(self, state: dict[str, Any]) -> None:
        """What sharded_state_dict() gave on this rank of an equal layout. Collective."""
        mine, theirs = self._paro.layout(), state["layout"]
        for what, value in mine.items():
            if theirs.get(what) != value:
                raise ValueError(f"the shards are of another layout: {what} is {theirs.get(what)}, and here {value}. A state_dict() fits any")
        self._paro.gradients.rewrite({entry: state["shards"][entry.name] for entry in self._paro.entries if entry.trainable})
        with torch.no_grad():
            for name, buffer in self.named_buffers():
                buffer.copy_(state["buffers"][name])
