"""The forward pass: while a module is called, its attributes are the gathered parameters."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

import torch
from torch import nn
from torch.autograd.graph import register_multi_grad_hook
from torch.utils._pytree import tree_map

from .gathering import Gathering, in_backward
from .layout import Entry, Unit
from .saved import SavedTensors


class _Gathered(torch.Tensor):
    """What a module has as its parameter while it is called. Operations take it for an ordinary tensor, as they take nn.Parameter."""

    __torch_function__ = torch._C._disabled_torch_function_impl
    _is_param = True  # for torch.compile, which takes no other classes

    @property
    def data(self) -> torch.Tensor:
        return self.detach()  # whose changes are noticed

    @data.setter
    def data(self, _) -> None:
        raise RuntimeError("data of a parameter was replaced in the forward pass of its module: the change would be lost. Change model.parameters() between "
                           "backward() and the next forward pass")


def _gathered(gathering: Gathering, entry: Entry) -> torch.Tensor:
    view = gathering.view(entry)
    view.__class__ = _Gathered  # faster than to make another tensor
    return view


class _Use(torch.autograd.Function):
    """The gathered values of a parameter, whose gradient is that of its leaf."""

    @staticmethod
    def forward(ctx, leaf, gathering, entry):
        return _gathered(gathering, entry)

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None, None


class Forward:
    """Hooks on the model, and on every module that has parameters, itself or below. `needs` gives their units. `check()` runs before a call
    from outside, and `end_unit(unit)` when the gradients of all inputs of a unit are there, whatever they are used for."""

    def __init__(self, gathering: Gathering, saved: SavedTensors, needs: dict[nn.Module, set[Unit]], check: Callable[[], None],
                 end_unit: Callable[[Unit], None]):
        self._gathering, self._saved, self._check, self._end_unit = gathering, saved, check, end_unit
        self._pushed: list[bool] = []  # by the calls that are under way
        self._handled: list[BaseException | None] = []  # when they began
        for module, units in needs.items():
            ordered = sorted(units, key=lambda unit: unit.number)
            module.register_forward_pre_hook(lambda module, args, kwargs, units=ordered: self._enter(units, (args, kwargs)), prepend=True,
                                             with_kwargs=True)
            module.register_forward_hook(lambda module, args, output, units=ordered: self._leave(units), always_call=True)

    @torch.compiler.disable  # a graph ends here, and the next one has the gathered parameters
    def _enter(self, units: list[Unit], inputs) -> None:
        self._pushed.append(False)
        self._handled.append(sys.exc_info()[1])
        for unit in units:
            unit.depth += 1
        if len(self._pushed) == 1:
            self._check()
            if not in_backward():
                self._gathering.begin_pass()
        for unit in units:
            if not unit.views:
                self._gathering.use(unit)
                self._show(unit)
                self._await_end(unit, inputs)
        self._pushed[-1] = self._saved.push()

    def _await_end(self, unit: Unit, inputs) -> None:
        if in_backward() or not torch.is_grad_enabled():
            return
        differentiable = [each for each in _tensors_in(inputs) if each.grad_fn is not None]  # autograd.grad() has no hooks for leaves
        if differentiable:  # else it ends with the pass
            unit.calls += 1
            self._when_there_are_gradients(differentiable, lambda: self._end_call(unit))

    @staticmethod
    def _when_there_are_gradients(tensors: list[torch.Tensor], do: Callable[[], None]) -> None:
        """Of all that get one. Those hooks of torch keep the graph that has them for good, unless they are removed."""
        if len(tensors) == 1:
            tensors[0].register_hook(lambda gradient: do())
            return

        def once(_) -> None:
            handle.remove()
            do()

        handle = register_multi_grad_hook(tensors, once)

    def _end_call(self, unit: Unit) -> None:
        unit.calls -= 1
        if unit.calls <= 0:
            self._end_unit(unit)

    @torch.compiler.disable
    def _leave(self, units: list[Unit]) -> None:
        if self._pushed.pop():
            self._saved.pop()
        has_failed = sys.exc_info()[1] is not self._handled.pop()
        for unit in reversed(units):
            unit.depth -= 1
            if unit.depth == 0:
                changed = self._hide(unit)
                if changed is not None:
                    raise RuntimeError(f"parameter {changed.name} was changed in place in the forward pass of {unit.name}: the change would be "
                                       "lost. Change model.parameters() between backward() and the next forward pass")
                self._release(unit, has_failed)

    def _release(self, unit: Unit, has_failed: bool) -> None:
        if in_backward():  # of checkpointed layers, whose gradients come next
            return
        if torch.is_grad_enabled() and self._gathering.is_next(unit):
            return
        if has_failed:  # the objects of its frames are not used any more, and the first error counts
            with contextlib.suppress(RuntimeError):
                for bucket in unit.buckets:
                    self._gathering.release_bucket(bucket, force=True)
            return
        kept = self._gathering.release(unit)
        if kept is not None:
            raise RuntimeError(f"parameter {kept.entries[0].name}, or another of its bucket, is still referred to after the forward pass of {unit.name}: "
                               "a module may not return or keep its parameters; return a copy (clone()), or make it part of the unit that uses "
                               "them (units=)")

    def _show(self, unit: Unit) -> None:
        # Without subclasses it is faster; in inference mode tensors have no versions, by which changes are noticed.
        with torch._C.DisableTorchFunctionSubclass(), torch.inference_mode(False):
            for entry in unit.entries:
                view = self._view(entry)
                unit.views.append((entry, view, view._version))
                for module, attribute in entry.places:
                    module.__dict__[attribute] = view
        for module in unit.recurrent:
            module._flat_weights = [getattr(module, name, None) for name in module._flat_weights_names]

    def _view(self, entry: Entry) -> torch.Tensor:
        if not entry.shard.requires_grad:
            return _gathered(self._gathering, entry)
        with torch.enable_grad():  # a part of the module may enable it
            return _Use.apply(entry.leaf, self._gathering, entry)

    def _hide(self, unit: Unit) -> Entry | None:
        """The first parameter that was changed meanwhile."""
        changed = None
        for module in unit.recurrent:
            module._flat_weights = []
        for entry, view, version in unit.views:
            if changed is None and view._version != version:
                changed = entry
            for module, attribute in entry.places:
                module.__dict__.pop(attribute, None)
        unit.views.clear()
        return changed


def cast_inputs(module: nn.Module, dtype: torch.dtype) -> None:
    """From now on calls of the module get their floating-point tensors in `dtype`, as those of FSDP2 with a param_dtype do."""
    def cast(value):
        return value.to(dtype) if isinstance(value, torch.Tensor) and value.is_floating_point() else value

    module.register_forward_pre_hook(lambda _, args, kwargs: tree_map(cast, (args, kwargs)), prepend=True, with_kwargs=True)


def _tensors_in(value) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _tensors_in(each)
    elif isinstance(value, dict):
        yield from _tensors_in(list(value.values()))
