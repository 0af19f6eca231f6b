"""horing.torch.paro: every strategy trains as one process does."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from torch import nn

from horing.torch import paro
from horing.torch.paro.layout import Entry, Unit
from horing.torch.paro.plan import Shape, cost_of
from names import needs_paro
from paro_models import STRATEGIES, Gpt, Mixture, Vision, batch, join_nodes, loss_of, made, mean_over_ranks, train
from ranks import check

pytestmark = needs_paro
MODELS = {"gpt": (Gpt, {}), "gpt with checkpointed layers": (Gpt, {"checkpointed": "layers"}),
          "gpt with checkpointed parts, partly frozen": (Gpt, {"checkpointed": "parts", "frozen": True}), "vision": (Vision, {}),
          "mixture of experts": (Mixture, {})}


def on_nodes(body, size: int = 4, members: int = 2, **options):
    """body(rank, size) on groups of `members` ranks."""
    def whole(rank, size, folder):
        join_nodes(rank, size, folder, members)
        value = body(rank, size)
        dist.destroy_process_group()
        return value

    return check(size, whole, group=False, timeout=options.pop("timeout", 120), **options)


def close_to(got: dict, expected: dict) -> None:
    assert list(got) == list(expected)
    for name, value in expected.items():
        torch.testing.assert_close(got[name], value, rtol=1e-10, atol=1e-10, msg=lambda text: f"{name}: {text}")


# The others have parts of what these have.
IN_SHORT = ("gpt with checkpointed parts, partly frozen", "vision")


@pytest.mark.parametrize("model", [pytest.param(name, marks=() if name in IN_SHORT else pytest.mark.costly) for name in MODELS])
def test_every_strategy_trains_as_one_process_does(model):
    kind, options = MODELS[model]

    def body(rank, size):
        alone = made(kind, **options)
        expected = torch.tensor(train(alone, range(size)), dtype=torch.float64)
        for strategy in STRATEGIES:
            net = paro.shard(made(kind, **options), strategy=strategy)
            torch.testing.assert_close(mean_over_ranks(train(net, [rank])), expected, rtol=1e-10, atol=1e-10, msg=lambda text: f"{strategy}: {text}")
            close_to(net.state_dict(), alone.state_dict())

    on_nodes(body, timeout=300)


# Sums of rounded times depend on the order, and the choice of the strategy on them.
def test_costs_have_the_same_order_on_all_ranks():
    def slow_bytes(*dtypes):
        unit = Unit(0, "")
        unit.entries = [Entry(0, "", nn.Parameter(torch.zeros(1000, dtype=dtype)), None) for dtype in dtypes]
        unit.entries += [Entry(0, "", nn.Parameter(torch.zeros(512)), None)]
        return [estimate.slowBytes for estimate, _ in cost_of(0, Shape(2, 2, True), [unit], 1, 2, 1 << 20).estimates]

    found = slow_bytes(torch.float64, torch.float32, torch.bfloat16)
    assert len(set(found)) == 3
    assert slow_bytes(torch.bfloat16, torch.float32, torch.float64) == found[::-1]


def test_groups_of_different_sizes_and_one_rank():
    def body(rank, size):
        alone = made(Gpt)
        expected = torch.tensor(train(alone, range(size)), dtype=torch.float64)
        for strategy in ("NNN", "ZeRO-1", "ngg", "GNG", "zero-3", "auto"):
            net = paro.shard(made(Gpt), strategy=strategy)
            torch.testing.assert_close(mean_over_ranks(train(net, [rank])), expected, rtol=1e-10, atol=1e-10)
        if size == 3:
            with pytest.raises(ValueError, match="IIG shards inside groups, and the groups of these ranks differ in size"):
                paro.shard(made(Gpt), strategy="IIG")

    on_nodes(body, 3)
    on_nodes(body, 1)
