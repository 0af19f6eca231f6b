"""The tensors that model.parameters() yields: this rank's elements of each parameter, and of its gradient.

Element-wise operations work on them as on any tensor. A norm is computed over all ranks. Every other operation raises, and
names the parameter.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import NoReturn

import torch
from torch import nn
from torch.optim.optimizer import Optimizer, register_optimizer_step_pre_hook

_NORMS = {"norm", "linalg_norm", "linalg_vector_norm", "_foreach_norm"}
# Element by element, beside what PyTorch tags as pointwise. Without the underscores around their names.
_COMPOSED = {
    "absolute", "and", "bfloat16", "contiguous", "copy", "cpu", "cuda", "detach", "divide", "double", "fill", "float", "floor_divide", "floordiv",
    "half", "invert", "multiply", "negative", "or", "requires_grad", "subtract", "to", "type_as", "xor", "zero"}
# What they say holds for the shard itself.
_ABOUT = {"__format__", "__len__", "__repr__", "_is_view", "as_subclass", "data_ptr", "dim", "element_size", "get_device",
          "is_complex", "is_contiguous", "is_conj", "is_floating_point", "is_inference", "is_neg", "is_pinned", "is_shared", "ndimension", "nelement",
          "numel", "record_stream", "register_hook", "size", "storage_offset", "stride", "type", "untyped_storage"}
_NEW = {"zeros_like", "ones_like", "empty_like", "full_like", "new_zeros", "new_empty", "new_full", "new_ones", "new_tensor"}
_ELEMENT_WISE = {getattr(torch.optim, name) for name in ("SGD", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "RMSprop", "Adagrad", "Adadelta",
                                                         "Rprop", "ASGD")}
ORIGINAL = "_replaced_by_paro"  # an attribute of parameters that a model had before it was sharded


class Shard(torch.Tensor):
    """This rank's elements of a gradient, or of a value computed from shards. `entry` and `owner` are the parameter's."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name, sharded = getattr(function, "__name__", ""), _first_shard((*args, *kwargs.values()))
        if name == "_has_compatible_shallow_copy_type":
            return True  # so Module.to() sets `data`, which refuses what would convert the shard
        if sharded is not None and name != "__get__":
            if name in _NORMS:
                return _norm(name, *args, **kwargs)
            if name == "_amp_foreach_non_finite_check_and_unscale_":
                return _unscale(*args)
            with torch._C.DisableTorchFunctionSubclass():
                _check(name, sharded, (*args, *kwargs.values()))
        with torch._C.DisableTorchFunctionSubclass():
            result = function(*args, **kwargs)
        if name in ("zero_", "_foreach_zero_"):
            _note_cleared(args[0])
        if sharded is None or name in _NEW or name in _ABOUT or not _are_tensors(result) or name.startswith("_foreach_"):
            return result
        if not isinstance(result, torch.Tensor) or result.shape != sharded.shape:
            _refuse(function.__self__.__name__ if name == "__get__" else name, sharded)
        return shard_of(result, sharded.entry, sharded.owner) if type(result) is torch.Tensor else result

    def __repr__(self, **_) -> str:
        return f"<{type(self).__name__} of {self.entry.name} {tuple(self.entry.shape)}: {self.numel()} elements on this rank>"

    def __deepcopy__(self, _):
        raise TypeError(f"parameter {self.entry.name} is sharded, and a copy of it would not be: copy state_dict(), which has whole tensors")

    def __reduce_ex__(self, _):
        raise TypeError(f"parameter {self.entry.name} is sharded: save state_dict(), which has whole tensors, or sharded_state_dict()")


class ShardParameter(nn.Parameter):
    """This rank's elements of a parameter, in the dtype of the optimizer's state; none if the parameter is frozen.

    One dimension after the other, in a shape of as many dimensions as the parameter's: (elements, 1, ...). Its gradient is there
    after a backward pass: the first read, by an optimizer for example, synchronizes the gradients of all parameters.
    """

    __torch_function__ = Shard.__torch_function__
    __repr__, __deepcopy__, __reduce_ex__ = Shard.__repr__, Shard.__deepcopy__, Shard.__reduce_ex__

    @property
    def grad(self) -> torch.Tensor | None:
        return self.owner.read_grad(self.entry)

    @grad.setter
    def grad(self, value: torch.Tensor | None) -> None:
        self.owner.write_grad(self.entry, value)

    @property
    def data(self) -> torch.Tensor:
        return self.detach()  # whose changes are noticed, too

    @data.setter
    def data(self, value) -> None:
        if value is not self:  # as of to("cpu")
            raise RuntimeError(f"parameter {self.entry.name} is sharded: its type, device and memory are fixed; convert the model first, then "
                               "shard it")

    @property
    def requires_grad(self) -> bool:
        return super().requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> ShardParameter:
        """Until it is True again, the parameter gets no gradients."""
        if requires_grad and not self.entry.trainable:
            raise RuntimeError(f"parameter {self.entry.name} was frozen when the model was sharded, so it has no memory to be trained: let it "
                               "require a gradient first, then shard the model")
        return super().requires_grad_(requires_grad)

    def register_hook(self, *_, **__):
        raise RuntimeError(f"a hook of parameter {self.entry.name} would never run, since the parameter is sharded: read grad after the backward "
                           "pass, or use a hook of its module")

    register_post_accumulate_grad_hook = register_hook


class SpentGradient(torch.Tensor):
    """Stands for a gradient of the last optimizer step, until it is cleared."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        name = getattr(function, "__name__", "")
        if name in ("detach_", "requires_grad_", "zero_", "_foreach_zero_"):
            if "zero" in name:
                for each in args[0] if isinstance(args[0], (list, tuple)) else [args[0]]:
                    each.owner.write_grad(each.entry, None)
            return args[0]
        if name == "__get__":
            with torch._C.DisableTorchFunctionSubclass():
                return function(*args, **(kwargs or {}))
        raise RuntimeError("gradients of the last optimizer step are gone since the next forward pass began: read them before it, and clear "
                           "them with zero_grad()")


def shard_of(tensor: torch.Tensor, entry, owner, kind: type = Shard) -> torch.Tensor:
    made = tensor.as_subclass(kind)
    made.entry, made.owner = entry, owner
    return made


def shape_of(count: int, dimensions: int) -> tuple[int, ...]:
    return (count, *[1] * (dimensions - 1))


def _first_shard(args) -> torch.Tensor | None:
    for each in args:
        if isinstance(each, (Shard, ShardParameter)):
            return each
        if isinstance(each, (list, tuple)) and (found := _first_shard(each)) is not None:
            return found
    return None


def _are_tensors(result) -> bool:
    return any(isinstance(each, torch.Tensor) for each in (result if isinstance(result, (list, tuple)) else [result]))


def _note_cleared(gradients) -> None:
    for each in gradients if isinstance(gradients, (list, tuple)) else [gradients]:
        if isinstance(each, Shard):
            each.owner.note_cleared(each.entry, each)


@functools.cache
def _is_element_wise(name: str) -> bool:
    plain = name.removeprefix("_foreach_").strip("_")
    names = [plain, plain.removeprefix("r")]  # as in __rsub__
    operators = [getattr(torch.ops.aten, each, None) for each in names]
    pointwise = any(torch.Tag.pointwise in getattr(each, overload).tags for each in operators if each for overload in each.overloads())
    return pointwise and plain not in ("equal", "max", "min") or bool(_COMPOSED & set(names)) or name.startswith("_fused_")


def _check(name: str, sharded, args) -> None:
    """Raises if the operation is not element by element. No TypeError: of those, operators make others that do not name the parameter."""
    if name in _NEW or name in _ABOUT:
        return
    masks = name == "__setitem__" and isinstance(args[1], torch.Tensor) and args[1].dtype is torch.bool
    if not masks and not _is_element_wise(name):
        _refuse(name, sharded)
    for each in args:
        if isinstance(each, torch.Tensor) and each.dim() > 0 and each.shape != sharded.shape:
            raise RuntimeError(f"{name}() combines this rank's shard of parameter {sharded.entry.name} with a tensor of another shape, "
                               f"{tuple(each.shape)}: outside of the forward pass of its module a parameter is no whole tensor")


def _refuse(name: str, sharded) -> NoReturn:
    raise RuntimeError(f"{name}() needs all of parameter {sharded.entry.name}, and its shard on this rank has {sharded.numel()} of its "
                       f"{sharded.entry.count} elements, one after the other. The parameter is whole in the forward pass of its module, and in "
                       "model.whole_parameters(); norms are computed over all ranks; clip_grad_norm_ works. This rank's elements, as a plain tensor: "
                       "detach().as_subclass(torch.Tensor)")


def _norm(name: str, tensor, ord=2, dim=None, keepdim=False, **kwargs):
    """Over all ranks: collective."""
    order = kwargs.pop("p", ord)
    order = 2.0 if order in (None, "fro") else float(order)
    tensors: Sequence = tensor if isinstance(tensor, (list, tuple)) else [tensor]
    if dim is not None or keepdim or any(value is not None for value in kwargs.values()) or not math.isfinite(order) and order < 0:
        raise TypeError(f"{name}() of a shard of parameter {tensors[0].entry.name}: only norms of the whole of orders from 0 to inf are "
                        "known, without dim")
    if torch.is_grad_enabled() and any(each.requires_grad for each in tensors):
        raise RuntimeError(f"{name}() of the shard of parameter {tensors[0].entry.name} has no gradient, so a loss with it would be trained without "
                           "it: take it of detach(), or under torch.no_grad(), for its value; for decay, use the optimizer's weight_decay, or "
                           "compute the norm in the forward pass of the parameter's module")
    with torch._C.DisableTorchFunctionSubclass():
        norms = tensors[0].owner.norms(tensors, order)
    return tuple(norms) if isinstance(tensor, (list, tuple)) else norms[0]


def _unscale(gradients: Sequence, found: torch.Tensor, scale: torch.Tensor) -> None:
    """For a GradScaler: multiplies the gradients by `scale`, and sets `found` to 1 if one of them is not finite, on any rank: collective."""
    owner = gradients[0].owner
    with torch._C.DisableTorchFunctionSubclass():
        torch._amp_foreach_non_finite_check_and_unscale_(gradients, found, scale)
        owner.agree_on_largest(found)


def element_wise(kind: type[Optimizer]) -> type[Optimizer]:
    """Says that an optimizer updates every element by itself, so that it may work on shards. Can be used as a decorator."""
    _ELEMENT_WISE.add(kind)
    return kind


def _check_optimizer(optimizer: Optimizer, args, kwargs) -> None:
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if hasattr(parameter, ORIGINAL):
                raise RuntimeError(f"the optimizer {type(optimizer).__name__} has parameter {getattr(parameter, ORIGINAL)} as it was before the "
                                   "model was sharded: make the optimizer after paro.shard, of model.parameters()")
            if isinstance(parameter, ShardParameter) and type(optimizer) not in _ELEMENT_WISE:
                raise TypeError(f"the optimizer {type(optimizer).__name__} is not known to work element by element, and parameter "
                                f"{parameter.entry.name} is sharded: use one that is ({', '.join(sorted(each.__name__ for each in _ELEMENT_WISE))}), "
                                "or declare yours with paro.element_wise(its class)")


register_optimizer_step_pre_hook(_check_optimizer)
