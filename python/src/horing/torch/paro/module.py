"""paro.shard, and the methods that a model has from then on."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from concurrent.futures import Future
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from . import checkpoint, saved, whole_state
from .fsdp_calls import FsdpCalls, give_calls
from .sharding import Sharding
from .shards import Shard, ShardParameter
from .summary import Usage, summary, usage

_BUCKET_BYTES = 32 << 20


def shard(model: nn.Module, strategy: str = "auto", memory: float | str | None = None, *, group: dist.ProcessGroup | None = None,
          micro_steps: int = 1, optimizer_values: int = 2, units: Iterable | None = None, bucket_bytes: int = _BUCKET_BYTES,
          reduce_dtype: torch.dtype | None = None, gather_dtype: torch.dtype | None = None, grad_buffers: int = 2,
          device: torch.device | str | None = None) -> Any:
    """Shards the model's parameters, gradients and optimizer state over the ranks of `group`, and returns the model. Collective.

    `strategy`: one of the fourteen ("IIG"), an alias ("ZeRO-3"), or "auto": among the strategies that fit into `memory` ("40GiB", of each rank,
    for parameters, gradients, optimizer state and the buffers of the two), the one whose collectives take the least time, by rates that
    are measured first; among those within 2 % of it, the one that needs the least memory. For that `micro_steps` is the number of backward
    passes in an optimizer step, and `optimizer_values` the number of values that the optimizer keeps for each element: 2 for Adam.

    `units` are the modules, or classes of modules, whose parameters are gathered together, before a call of one of them and released after
    it; what they do not have is gathered with the model. By default the blocks of the model: elements of lists and sequences.
    `reduce_dtype`: torch.float32 to reduce the gradients of half-precision parameters in float32, and to add them up over backward passes
    in it, as MixedPrecisionPolicy(reduce_dtype=) of FSDP2 does; None: in the parameters' own types, with half the bytes.
    `gather_dtype`: torch.bfloat16 or torch.float16 for parameters, of that or a wider type, that are gathered and computed with in it, while
    optimizers and checkpoints have them in their own, as with MixedPrecisionPolicy(param_dtype=) of FSDP2: calls of the model and of units get
    floating-point inputs in it, gradients have it unless there is a `reduce_dtype`, and buffers stay as they are.
    `grad_buffers`: how many buckets of gradients may be on their way before the backward pass waits for the first: more than 2 are of use
    where a long bucket is reduced before several short ones, and take memory of the longest bucket each.
    `device`: "cuda" to keep everything on the rank's GPU, where the parameters are, too, or will be: it has to be said only where this rank
    has all of them on the meta device. By default the parameters' own device. All calls of the model and its optimizer are ordered by torch's
    streams; they may be on any stream. A module that uses another one inside lets it begin behind its caller's, which waits for it.
    Ranks begin with the parameters and buffers of rank 0. Those that rank 0 has on the meta device have no values until they are
    initialised in whole_parameters(), or loaded. Optimizers are made afterwards.
    """
    if not saved.can_be_packed():
        raise RuntimeError(f"PaRO needs torch 2.8 or newer: {torch.__version__} does not show autograd's hooks for saved tensors")
    if reduce_dtype not in (None, torch.float32):
        raise ValueError(f"reduce_dtype is {reduce_dtype}: expected torch.float32, or None for the parameters' own types")
    if gather_dtype not in (None, torch.bfloat16, torch.float16, torch.float32):
        raise ValueError(f"gather_dtype is {gather_dtype}: expected torch.bfloat16, torch.float16 or torch.float32, or None for the parameters' own types")
    if isinstance(model, ShardedModule):
        raise ValueError("the model is sharded already")
    if not isinstance(strategy, str):
        raise TypeError(f"strategy is a {type(strategy).__name__}: expected a name, such as 'IIG' or 'auto'")
    if bucket_bytes <= 0:
        raise ValueError(f"bucket_bytes is {bucket_bytes}: expected the bytes at which a bucket is full")
    for name, part in model.named_modules():
        if isinstance(part, ShardedModule):
            raise ValueError(f"{name}, a part of the model, is sharded already: shard the whole model, with units=")
    whole_state.install()
    made = Sharding(model, strategy, memory, group, micro_steps, optimizer_values, units, bucket_bytes, reduce_dtype, gather_dtype, grad_buffers,
                    device)
    model.__class__ = type(type(model).__name__, (ShardedModule, type(model)), {"__module__": type(model).__module__})
    object.__setattr__(model, "_paro", made)
    for unit in made.units[1:]:
        give_calls(unit.module)
    return model


class ShardedModule(FsdpCalls, nn.Module):
    """A model after paro.shard. `parameters()` yields this rank's shards (horing.torch.paro.ShardParameter)."""

    _paro: Sharding

    def no_sync(self) -> contextlib.AbstractContextManager:
        """For scripts that have it: does nothing. Backward passes add up, and gradients are synchronized once, when they are read."""
        return contextlib.nullcontext()

    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> torch.Tensor:
        """Scales the gradients so that their norm, over all ranks, is at most `max_norm`; the norm before that. Collective."""
        return self._paro.gradients.clip(float(max_norm), float(norm_type))

    def summary(self, svg: str | os.PathLike | None = None) -> str:
        """The layout, its cost and the reasons, as text. `svg`: a file to which a picture is drawn: which part of parameters, gradients and optimizer
        state each rank keeps, and this rank's memory by unit. Local: call it with a file on one rank."""
        return summary(self._paro, svg)

    def usage(self) -> Usage:
        """Memory that this rank holds for the model, and what it has sent, as counted until now. Local."""
        return usage(self._paro)

    # ---- Whole values ----

    def whole_parameters(self, module: nn.Module, recurse: bool = True) -> contextlib.AbstractContextManager:
        """While it is entered, the parameters of `module`, and of its parts unless `recurse` is False, are whole ordinary parameters on every rank,
        to be initialised or changed in place. Afterwards the model has the parameters and buffers of rank 0. Collective, between optimizer steps; the
        optimizer's state stays. A model from the meta device is initialised part by part, so that no rank has all of it:

            for part in model.modules():
                with model.whole_parameters(part, recurse=False):
                    initialise(part)
        """
        return self._paro.values.whole(module, recurse)

    def state_dict(self, *arguments, **options) -> dict[str, Any]:
        """Of the whole model, as if it were not sharded, on every rank. Collective. Parameters are copies, in their own types."""
        self._paro.values.check()
        result = super().state_dict(*arguments, **options)
        prefix = options.get("prefix", arguments[1] if len(arguments) > 1 else "")
        for entry, value in self._paro.values.read(self._paro.entries).items():
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
            if key in state_dict:
                _check_whole(key, state_dict[key], entry.shape)
        for name, buffer in self.named_buffers():
            if buffer.is_meta and name in state_dict:
                self._paro.values.write_buffer(name, state_dict[name])
        result = super().load_state_dict({key: value for key, value in state_dict.items() if key not in keys}, strict=False)
        result.missing_keys[:] = [key for key in result.missing_keys if key not in keys or key not in state_dict]
        if strict and (result.missing_keys or result.unexpected_keys):
            raise RuntimeError(f"Error(s) in loading state_dict for {type(self).__name__}: missing keys {result.missing_keys}, unexpected keys "
                               f"{result.unexpected_keys}")
        self._paro.values.write({entry: state_dict[key] for key, entry in keys.items() if key in state_dict})
        return result

    # ---- Checkpoints ----

    def save_checkpoint(self, folder: str | os.PathLike, optimizer: torch.optim.Optimizer | None = None, step: int = 0, *,
                        background: bool = False) -> Future | None:
        """Model, optimizer and the caller's `step` as torch.distributed.checkpoint saves them, each rank its shards. Collective.
        All ranks see the folder, which has no checkpoint yet; one that was interrupted has no file .metadata. FSDP2 reads it as
        {"model": ..., "optim": ...} of torch.distributed.checkpoint.state_dict.get_state_dict(). Errors are raised on all ranks.

        `background`: a thread saves a copy of this rank's shards, and training goes on at once. The checkpoint is there when result() of
        the future that is returned has not raised. A later save or load waits for it."""
        if background:
            return self._paro.saver.start(folder, optimizer, step)
        return checkpoint.save(self._paro, folder, optimizer, step)

    def load_checkpoint(self, folder: str | os.PathLike, optimizer: torch.optim.Optimizer | None = None, *, strict: bool = True) -> int:
        """The step of a checkpoint that save_checkpoint() or FSDP2 wrote (0 if that had none), with any strategy on any number of ranks.
        Collective. Each rank reads its shards, into separate memory: nothing is changed before all is read and, for checkpoints of
        PaRO, verified. Values of other floating-point types are converted. Accumulated gradients are dropped. Errors are raised on all ranks.

        `strict=False`, as with load_state_dict: what the checkpoint lacks keeps its values, and its state in the optimizer; what the model lacks
        is left out. A warning on the group's rank 0 names both."""
        return checkpoint.load(self._paro, folder, optimizer, strict)

    # ---- Shards ----

    def sharded_state_dict(self) -> dict[str, Any]:
        """This rank's shards of the trained parameters, as the optimizer has them, the model's buffers, and the layout that fits them. Local.
        With the optimizer's own state_dict() it resumes a training to the bit, on the same ranks with the same strategy."""
        entries = [entry for entry in self._paro.entries if entry.trainable]
        with torch._C.DisableTorchFunctionSubclass():
            shards = {entry.name: entry.shard.detach().clone() for entry in entries}
        return {"layout": self._paro.layout(), "shards": shards, "buffers": {name: each.clone() for name, each in self.named_buffers()}}

    def load_sharded_state_dict(self, state: dict[str, Any]) -> None:
        """Loads the result of sharded_state_dict() on this rank of an equal layout. Collective."""
        absent = {"layout", "shards", "buffers"} - set(state)
        if absent:
            raise ValueError(f"expected the result of sharded_state_dict(): this has no {min(absent)!r}")
        mine, theirs = self._paro.layout(), state["layout"]
        for what, value in mine.items():
            if theirs.get(what) != value:
                raise ValueError(f"the shards are of another layout: {what} is {theirs.get(what)}, and here {value}. A state_dict() fits any")
        trained = [entry for entry in self._paro.entries if entry.trainable]
        for entry in trained:
            found = state["shards"].get(entry.name)
            if not isinstance(found, torch.Tensor) or found.shape != entry.shard.shape:
                raise ValueError(f"the shard of parameter {entry.name} is {tuple(found.shape) if isinstance(found, torch.Tensor) else found}: expected "
                                 f"a tensor of shape {tuple(entry.shard.shape)}")
        self._paro.values.write_shards({entry: state["shards"][entry.name] for entry in trained})
        for name, _ in self.named_buffers():
            self._paro.values.write_buffer(name, state["buffers"][name])


def _check_whole(key: str, value: Any, shape: torch.Size) -> None:
    if isinstance(value, (Shard, ShardParameter)):
        raise TypeError(f"{key} is a shard: expected the whole parameter")
    if not isinstance(value, torch.Tensor) or value.is_complex() or value.is_meta:
        what = f"a tensor of {value.dtype} on {value.device}" if isinstance(value, torch.Tensor) else f"a {type(value).__name__}"
        raise TypeError(f"{key} is {what}: expected the values of the parameter")
    if value.shape != shape:
        raise RuntimeError(f"{key} has shape {tuple(value.shape)}, and the parameter has {tuple(shape)}")
