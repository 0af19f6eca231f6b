"""horing.torch.paro: every strategy trains as one process does."""

from __future__ import annotations

import bisect
import itertools
import os

import pytest
import torch
import torch.distributed as dist
from torch import nn

from horing.torch import paro
from horing.torch.paro import client
from horing.torch.paro.layout import Entry, Unit
from horing.torch.paro.plan import Shape, costs_of
from names import needs_paro
from paro_models import STRATEGIES, Gpt, Mixture, Vision, batch, join_nodes, loss_of, made, mean_over_ranks, train
from ranks import check, join

pytestmark = needs_paro
MODELS = {"gpt": (Gpt, {}), "gpt with checkpointed layers": (Gpt, {"checkpointed": "layers"}),
          "gpt with checkpointed parts, partly frozen": (Gpt, {"checkpointed": "parts", "frozen": True}), "vision": (Vision, {}),
          "mixture of experts": (Mixture, {})}


def on_nodes(body, size: int = 4, members: int = 2, **options):
    """body(rank, size) on groups of `members` ranks."""
    def whole(rank, size, folder):
        join_nodes(rank, size, folder, members)
        return ended(body(rank, size))

    return check(size, whole, group=False, timeout=options.pop("timeout", 120), **options)


def ended(value):
    """After a body that returned it: clients wait for what is under way, as at the end of a program, while the group is there; and
    each rank waits for all, whose groups the others host."""
    client._close_all()
    dist.barrier()
    dist.destroy_process_group()
    return value


def on_groups(body, groups: tuple[int, ...]):
    """body(rank, size) on groups of these sizes."""
    ends = list(itertools.accumulate(groups))

    def whole(rank, size, folder):
        os.environ["HORING_GROUP"] = f"node{bisect.bisect_right(ends, rank)}"
        join(rank, size, folder)
        return ended(body(rank, size))

    return check(sum(groups), whole, group=False, timeout=300)


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
        return [estimate.slowBytes for estimate, _ in costs_of(Shape((2, 2)), [unit], 1, 2, 1 << 20)[0].estimates]

    found = slow_bytes(torch.float64, torch.float32, torch.bfloat16)
    assert len(set(found)) == 3
    assert slow_bytes(torch.bfloat16, torch.float32, torch.float64) == found[::-1]


@pytest.mark.parametrize("groups", [(2, 1), pytest.param((3, 1), marks=pytest.mark.costly), pytest.param((4, 3), marks=pytest.mark.costly), (1,)])
def test_groups_of_different_sizes_and_one_rank(groups):
    def body(rank, size):
        alone = made(Gpt)
        expected = torch.tensor(train(alone, range(size)), dtype=torch.float64)
        for strategy in (*STRATEGIES, "auto"):
            net = paro.shard(made(Gpt), strategy=strategy)
            torch.testing.assert_close(mean_over_ranks(train(net, [rank])), expected, rtol=1e-10, atol=1e-10, msg=lambda text: f"{strategy}: {text}")
            close_to(net.state_dict(), alone.state_dict())

    on_groups(body, groups)


def test_memory_of_each_rank_of_groups_of_different_sizes():
    def body(rank, size):
        for strategy in STRATEGIES:
            net = paro.shard(made(Gpt), strategy=strategy, optimizer_values=0)
            cost, info = net._paro.cost, net._paro.client.info()
            assert net.usage().kept == info.memoryBytes == cost.kept, strategy
            assert info.largestMemoryBytes <= cost.most_kept <= 1.02 * info.largestMemoryBytes, strategy
            assert "on 3 ranks in groups of 2, 1" in net.summary() and "most kept by a rank" in net.summary()
            if strategy == "III":
                whole = 3 * cost.most_kept // 4 + cost.gathered + cost.grad_buffers
                with pytest.raises(ValueError, match=r"on each rank: III needs the least"):
                    paro.shard(made(Gpt), strategy=strategy, optimizer_values=0, memory=whole)

    on_groups(body, (2, 1))
