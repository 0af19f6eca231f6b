"""Optimizer state as whole tensors: what get_state_dict(), set_state_dict() and their kin of torch.distributed.checkpoint.state_dict give and take.

These know FSDP's parameters only. torch has hooks on an optimizer for it, but none by which to tell that they call it.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.distributed.checkpoint import state_dict as helpers
from torch.optim import Optimizer

from .checkpoint import state_value
from .gradients import State
from .layout import Entry
from .pieces import Piece
from .sharding import Sharding
from .shards import ShardParameter


@functools.cache
def install() -> None:
    """From now on the helpers see whole tensors in the optimizer of a sharded model."""
    for name, hook in (("_get_optim_state_dict", _hook_on_get), ("_load_optim_state_dict", _hook_on_set)):
        original = getattr(helpers, name, None)
        if original is None:
            raise RuntimeError(f"PaRO does not know torch {torch.__version__}, whose get_state_dict() would give shards as whole tensors: it has no {name}")
        setattr(helpers, name, _hooked(original, hook))


def _hooked(original: Callable, hook: Callable) -> Callable:
    @functools.wraps(original)
    def call(model: nn.Module, optimizers: tuple[Optimizer, ...], *arguments, **options):
        shardings = {part._paro.gradients: part._paro for part in model.modules() if isinstance(getattr(part, "_paro", None), Sharding)}
        with contextlib.ExitStack() as stack:
            for optimizer in optimizers:
                # In the same order on all ranks.
                owners = dict.fromkeys(each.owner for each in _parameters_of(optimizer) if isinstance(each, ShardParameter))
                if not owners.keys() <= shardings.keys():
                    raise TypeError("the optimizer has parameters of a sharded model that is not the one given: expected what paro.shard returned")
                for gradients in owners:
                    if not optimizer.state and gradients.state is State.NONE:  # else torch takes the optimizer as it is
                        stack.enter_context(gradients.update())
                if owners:
                    stack.callback(hook(optimizer, shardings).remove)
            return original(model, optimizers, *arguments, **options)

    return call


def _hook_on_get(optimizer: Optimizer, shardings: dict):
    def join(_, given: dict[str, Any]) -> dict[str, Any]:
        """Collective: in the same order on all ranks."""
        parameters = dict(enumerate(_parameters_of(optimizer)))
        with torch._C.DisableTorchFunctionSubclass():  # the state itself may be a shard
            return {**given, "state": {number: {key: _whole(shardings, parameters[number], key, value) for key, value in sorted(values.items())}
                                       for number, values in sorted(given["state"].items())}}

    return optimizer.register_state_dict_post_hook(join)


def _whole(shardings: dict, parameter: torch.Tensor, key: str, value: Any) -> Any:
    if not isinstance(parameter, ShardParameter):
        return value
    sharding, entry = shardings[parameter.owner], parameter.entry
    piece = state_value(entry, key, value)
    if not isinstance(piece, Piece):
        return piece
    part = piece.values if sharding.has_first_copy else piece.values[:0]
    return sharding.values.joined(entry.count, piece.first, part).view(entry.shape).to(value.device)


def _hook_on_set(optimizer: Optimizer, _: dict):
    def split(_, given: dict[str, Any]) -> dict[str, Any]:
        names = itertools.chain.from_iterable(group["params"] for group in given["param_groups"])
        parameters = dict(zip(names, _parameters_of(optimizer)))
        sharded = {name: parameter for name, parameter in parameters.items() if isinstance(parameter, ShardParameter)}
        return {**given, "state": {name: {key: _part(sharded[name].entry, key, value, optimizer.state.get(sharded[name], {}).get(key))
                                          for key, value in values.items()} if name in sharded else values
                                   for name, values in given["state"].items()}}

    return optimizer.register_load_state_dict_pre_hook(split)


def _part(entry: Entry, key: str, value: Any, present: Any) -> Any:
    """This rank's elements; `present` is the same value in the optimizer as it is now, which tells numbers from elements of a number."""
    if not isinstance(value, torch.Tensor) or value.dim() == 0 and not (isinstance(present, torch.Tensor) and present.dim() > 0):
        return value
    if isinstance(value, Piece) or hasattr(value, "full_tensor") or value.shape != entry.shape:
        raise RuntimeError(f"the optimizer's {key} of parameter {entry.name} is a {type(value).__name__} of shape {tuple(value.shape)}: expected a whole "
                           f"tensor of shape {tuple(entry.shape)}, as get_state_dict() gives")
    return value.reshape(-1)[entry.first:entry.first + entry.shard.numel()].clone().view(entry.shard.shape)


def _parameters_of(optimizer: Optimizer) -> Iterator[torch.Tensor]:
    return itertools.chain.from_iterable(group["params"] for group in optimizer.param_groups)
