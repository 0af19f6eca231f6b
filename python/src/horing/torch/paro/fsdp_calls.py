"""Methods of FSDP2's modules that scripts call, on the model and its units. None has anything to do: a unit is gathered and released
by its calls, prefetched in the order observed, and every backward pass adds up."""

from __future__ import annotations

from torch import nn


class Handle:
    """What unshard(async_op=True) returns."""

    def wait(self) -> None:
        """Does nothing."""


class FsdpCalls:
    """Each does nothing. Others of FSDP2's methods would change what is computed, or where, and are not there."""

    def unshard(self, async_op: bool = False) -> Handle | None:
        """Parameters are gathered when a module that has them is called; outside of that they are shards. For whole ones: whole_parameters()."""
        return Handle() if async_op else None

    def reshard(self) -> None:
        """Parameters are released after each call."""

    def set_requires_gradient_sync(self, requires_gradient_sync: bool, *, recurse: bool = True) -> None:
        """Gradients are synchronized once, when they are read."""

    def set_requires_all_reduce(self, requires_all_reduce: bool, *, recurse: bool = True) -> None:
        """Gradients are synchronized once, when they are read."""

    def set_is_last_backward(self, is_last_backward: bool) -> None:
        """The last backward pass is the one before gradients are read."""

    def set_reshard_after_forward(self, reshard_after_forward: bool, recurse: bool = True) -> None:
        """The strategy says where parameters stay whole."""

    def set_reshard_after_backward(self, reshard_after_backward: bool, *, recurse: bool = True) -> None:
        """The strategy says where parameters stay whole."""

    def set_modules_to_forward_prefetch(self, modules: list[nn.Module]) -> None:
        """The next unit is prefetched, in the order observed."""

    def set_modules_to_backward_prefetch(self, modules: list[nn.Module]) -> None:
        """The next unit is prefetched, in the order observed."""


def give_calls(unit: nn.Module) -> None:
    """A unit keeps its class, and methods of its own."""
    calls = FsdpCalls()
    for name in vars(FsdpCalls):
        if not name.startswith("_") and not hasattr(unit, name):
            setattr(unit, name, getattr(calls, name))
