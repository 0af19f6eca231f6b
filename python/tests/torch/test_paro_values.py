"""horing.torch.paro: whole and sharded values, mixed precision, memory and what the summary says of it."""

from __future__ import annotations

import copy
import re

import pytest
import torch
from torch import nn

from horing.torch import paro
from paro_models import Gpt, loss_of, made, mean_over_ranks, train
from test_paro import close_to, on_nodes


def steps(net, optimizer, rank, first, count):
    lost = []
    for number in range(first, first + count):
        optimizer.zero_grad()
        loss = loss_of(net, number, [rank])
        loss.backward()
        optimizer.step()
        lost.append(loss.item())
    return lost


def test_whole_values_fit_the_model_and_any_strategy():
    def body(rank, size):
        first = paro.shard(made(Gpt, frozen=True), strategy="IIG")
        train(first, [rank], steps=1)
        whole = first.state_dict()
        alone = made(Gpt, frozen=True)
        alone.load_state_dict(whole)  # strict
        expected = train(alone, range(size), steps=1)
        second = paro.shard(made(Gpt, frozen=True), strategy="GGG")
        assert str(second.load_state_dict(whole)) == "<All keys matched successfully>"
        torch.testing.assert_close(mean_over_ranks(train(second, [rank], steps=1)), torch.tensor(expected, dtype=torch.float64), rtol=1e-10, atol=1e-10)
        close_to(second.state_dict(), alone.state_dict())
        some = {key: value for key, value in whole.items() if key != "norm.bias"}
        with pytest.raises(RuntimeError, match=r"missing keys \['norm.bias'\], unexpected keys \['other'\]"):
            second.load_state_dict({**some, "other": torch.ones(1)})
        assert second.load_state_dict(some, strict=False).missing_keys == ["norm.bias"]
        with pytest.raises(RuntimeError, match=r"norm.bias has shape \(3,\), and the parameter has \(8,\)"):
            second.load_state_dict({**whole, "norm.bias": torch.ones(3)})
        with pytest.raises(TypeError, match="norm.bias is a shard"):
            second.load_state_dict({**whole, "norm.bias": second.norm.bias})

    on_nodes(body)


def test_shards_resume_a_training_to_the_bit():
    def body(rank, size):
        for strategy in ("NNG", "IIG", "III"):
            net = paro.shard(made(Gpt), strategy=strategy)
            optimizer = torch.optim.Adam(net.parameters())
            steps(net, optimizer, rank, 0, 2)
            kept = net.sharded_state_dict(), copy.deepcopy(optimizer.state_dict())
            expected = steps(net, optimizer, rank, 2, 2)
            torch.manual_seed(rank)
            again = paro.shard(Gpt().double(), strategy=strategy)
            again.load_sharded_state_dict(kept[0])
            optimizer = torch.optim.Adam(again.parameters())
            optimizer.load_state_dict(kept[1])
            assert steps(again, optimizer, rank, 2, 2) == expected
        other = paro.shard(made(Gpt), strategy="GGG")
        with pytest.raises(ValueError, match="another layout: strategy is III, and here GGG"):
            other.load_sharded_state_dict(kept[0])

    on_nodes(body)


def test_ranks_begin_with_the_values_of_rank_0():
    def body(rank, size):
        torch.manual_seed(rank)
        net = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
        net[1].running_mean.fill_(rank)
        torch.manual_seed(0)
        expected = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)).state_dict()
        close_to(paro.shard(net, strategy="IIG").state_dict(), expected)

    on_nodes(body)


def test_bfloat16_with_masters_of_float32():
    def body(rank, size):
        alone = made(Gpt).float()
        expected = torch.tensor(train(alone, range(size), steps=4, largest_norm=None))
        for strategy in ("NNI", "IIG", "GGG"):
            net = paro.shard(made(Gpt).bfloat16(), strategy=strategy)
            assert all(each.dtype == torch.float32 for each in net.parameters())
            got = mean_over_ranks(train(net, [rank], steps=4, largest_norm=None)).float()
            torch.testing.assert_close(got, expected, rtol=0.03, atol=0)
            assert net.state_dict()["norm.weight"].dtype == torch.bfloat16

    on_nodes(body)


def test_memory_decides_and_the_summary_says_what_is_held():
    def body(rank, size):
        costs = {}
        for strategy in ("NNN", "NNG", "IIG", "GGG"):
            net = paro.shard(made(Gpt), strategy=strategy, micro_steps=2)
            train(net, [rank], micro_steps=2, steps=1)
            usage, cost = net._paro.client.usage(), net._paro.cost
            costs[strategy] = cost
            state = 2 * sum(each.numel() * each.element_size() for each in net.parameters())
            assert cost.kept <= usage.stateBytes + state <= cost.kept + 64 * len(net._paro.buckets)  # buckets are rounded up to whole shards
            assert usage.gatheredBytes <= cost.gathered + 64 * len(net._paro.buckets)
            assert usage.gradBufferBytes <= cost.grad_buffers + 128
            text = net.summary()
            assert f"PaRO {strategy}" in text and "<- this one" in text and "layers.2: 12 parameters" in text, text
        assert costs["GGG"].gathered > 0 == costs["NNN"].gathered
        for limit, expected in ((None, "NNG"), (costs["NNG"].memory, "NNG"), (str(costs["GGG"].memory / 1024) + " KiB", "GGG")):
            net = paro.shard(made(Gpt), memory=limit, micro_steps=4)
            assert net._paro.cost.memory <= (costs[expected].memory if limit else float("inf"))
            assert limit is None or net._paro.cost.memory <= costs[expected].memory
        with pytest.raises(ValueError, match=r"fits into memory=1.00 KiB on each rank: \w+ needs the least, [0-9.]+ KiB"):
            paro.shard(made(Gpt), memory="1KiB")
        with pytest.raises(ValueError, match="memory is 'much'"):
            paro.shard(made(Gpt), memory="much")
        with pytest.raises(ValueError, match="strategy 'XYZ'|XYZ"):
            paro.shard(made(Gpt), strategy="XYZ")

    on_nodes(body)


def test_units_are_released_after_use_and_prefetched_in_the_order_observed():
    def body(rank, size):
        net = paro.shard(made(Gpt), strategy="GGG", units=[type(made(Gpt).layers[0])])
        gathering, calls, client = net._paro.gathering, [], net._paro.client
        gather, release, param = client.gather, client.release, client.param
        client.gather = lambda bucket: (calls.append(f"gather {bucket}"), gather(bucket))
        client.release = lambda bucket: (calls.append(f"release {bucket}"), release(bucket))
        train(net, [rank], steps=2, micro_steps=1)
        assert not any(bucket.is_gathered for bucket in net._paro.buckets)
        number = {unit.name: unit.buckets[0].number for unit in net._paro.units}
        root, layers = number["(root)"], [number[f"layers.{each}"] for each in range(3)]
        forward = [f"gather {root}", f"gather {layers[0]}", f"gather {layers[1]}", f"release {layers[0]}", f"gather {layers[2]}",
                   f"release {layers[1]}", f"release {layers[2]}", f"release {root}"]
        second = calls[len(calls) // 2:]
        assert second[:len(forward)] == forward, (second, forward)
        assert second.count(f"gather {layers[0]}") == 2 and sorted(re.findall("gather (.)", str(second))) == sorted(re.findall("release (.)", str(second)))

    on_nodes(body)


def test_other_groups_and_units_are_refused():
    def body(rank, size):
        import torch.distributed as dist
        with pytest.raises(TypeError, match="a group of the backend horing"):
            paro.shard(made(Gpt), group=dist.new_group(backend="gloo"))
        with pytest.raises(ValueError, match="units has a Linear that is no part of the model"):
            paro.shard(made(Gpt), units=[nn.Linear(1, 1)])

    on_nodes(body, 2)
