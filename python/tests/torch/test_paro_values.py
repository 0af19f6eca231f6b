"""horing.torch.paro: whole and sharded values, mixed precision, memory and its summary."""

from __future__ import annotations

import copy
import re

import pytest
import torch
from torch import nn

from horing.torch import paro
from names import MixedPrecisionPolicy, fully_shard, needs_fsdp2_on_cpu, needs_paro
from paro_models import STRATEGIES, Gpt, loss_of, made, mean_over_ranks, train
from test_paro import close_to, on_groups, on_nodes

pytestmark = needs_paro


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
        for wrong, what in ((1, "a int"), (torch.ones(8) * 1j, "a tensor of torch.complex64")):
            with pytest.raises(TypeError, match=f"norm.bias is {what}"):
                second.load_state_dict({**whole, "norm.bias": wrong})
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
        shards = kept[0]["shards"]
        for wrong in ({key: value for key, value in shards.items() if key != "places"}, {**shards, "places": torch.zeros(99, 1)}):
            with pytest.raises(ValueError, match="the shard of parameter places is "):
                again.load_sharded_state_dict({**kept[0], "shards": wrong})
        with pytest.raises(ValueError, match="this has no 'buffers'"):
            again.load_sharded_state_dict(shards)
        layout = copy.deepcopy(kept[0]["layout"])
        layout["elements"]["places"][0] += 1  # as many elements, that begin elsewhere
        with pytest.raises(ValueError, match="another layout: elements is "):
            again.load_sharded_state_dict({**kept[0], "layout": layout})
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


def test_reductions_in_float32_where_asked():
    """256 and ones: sums that bfloat16 cannot hold."""
    def body(rank, size):
        for strategy in ("NNN", "NIG", "IIG", "GGG"):
            for reduce_dtype, expected in ((torch.float32, (256 + 2 * size - 1) / size), (None, 256 / size)):
                net = paro.shard(nn.Linear(3, 5, bias=False).bfloat16(), strategy=strategy, reduce_dtype=reduce_dtype)
                for micro in range(2):
                    inputs = torch.full((1, 3), 256.0 if rank + micro == 0 else 1.0, dtype=torch.bfloat16)
                    net(inputs).sum().backward()
                grad = net.weight.grad
                assert grad.dtype == torch.float32
                if reduce_dtype:
                    assert all(value == expected for value in grad.as_subclass(torch.Tensor).flatten().tolist()), strategy
                else:
                    assert all(value != (256 + 2 * size - 1) / size for value in grad.as_subclass(torch.Tensor).flatten().tolist()), strategy
        with pytest.raises(ValueError, match="reduce_dtype is torch.float16: expected torch.float32, or None"):
            paro.shard(nn.Linear(3, 5), reduce_dtype=torch.float16)

    on_nodes(body)


@needs_fsdp2_on_cpu
def test_bfloat16_with_float32_reduction_trains_as_fsdp2_does():
    def body(rank, size):
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        theirs = made(Gpt).bfloat16().float()  # weights that both begin with
        for part in (*theirs.layers, theirs):
            fully_shard(part, mp_policy=policy)
        expected = mean_over_ranks(train(theirs, [rank], steps=4, largest_norm=None))
        for strategy in ("IIG", "GGG"):
            net = paro.shard(made(Gpt).bfloat16(), strategy=strategy, reduce_dtype=torch.float32)
            got = mean_over_ranks(train(net, [rank], steps=4, largest_norm=None))
            torch.testing.assert_close(got, expected, rtol=1e-3, atol=0)

    on_nodes(body)


@needs_fsdp2_on_cpu
def test_parameters_of_float32_gathered_in_bfloat16_train_as_with_fsdp2():
    """The bound is FSDP2's own distance from a training in float32."""
    def body(rank, size):
        exact = torch.tensor(train(made(Gpt, frozen=True).float(), range(size), steps=6, largest_norm=None), dtype=torch.float64)
        for reduce_dtype in (torch.float32, None):
            policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=reduce_dtype)
            theirs = made(Gpt, frozen=True).float()
            for part in (*theirs.layers, theirs):
                fully_shard(part, mp_policy=policy)
            expected = mean_over_ranks(train(theirs, [rank], steps=6, largest_norm=None))
            bound = (expected - exact).abs().max()
            assert bound > 1e-5
            for strategy in ("NNI", "IIG", "GGG"):
                net = paro.shard(made(Gpt, frozen=True).float(), strategy=strategy, gather_dtype=torch.bfloat16, reduce_dtype=reduce_dtype)
                got = mean_over_ranks(train(net, [rank], steps=6, largest_norm=None))
                assert (got - expected).abs().max() <= bound, (strategy, got, expected, exact)

    on_nodes(body)


def test_values_stay_in_their_own_type_where_they_are_gathered_in_another(tmp_path):
    def body(rank, size):
        model = made(Gpt, frozen=True).float()
        whole, names = model.state_dict(), dict(model.named_parameters(remove_duplicate=False))
        changed = {key: value + 1e-5 if key in names else value for key, value in whole.items()}  # which bfloat16 cannot hold
        for gather_dtype in (torch.bfloat16, torch.float16):
            for strategy in ("NNI", "IIG", "GGG"):
                net = paro.shard(made(Gpt, frozen=True).float(), strategy=strategy, gather_dtype=gather_dtype, micro_steps=1)
                close_to(net.state_dict(), whole)
                net.load_state_dict(changed)
                close_to(net.state_dict(), changed)
                net.load_state_dict(whole)
                with net.whole_parameters(net), torch.no_grad():
                    for parameter in net.parameters():
                        parameter += 1e-5
                close_to(net.state_dict(), changed)
                seen = []
                net.layers[0].register_forward_hook(lambda module, args, output, seen=seen: seen.append((args[0].dtype, output.dtype)))
                train(net, [rank], steps=1, micro_steps=1)
                train(net, [rank], steps=1, micro_steps=1)
                assert set(seen) == {(gather_dtype, gather_dtype)}
                usage, cost = net.usage(), net._paro.cost
                assert usage.kept == cost.kept
                assert usage.gathered <= cost.gathered
                assert f"float32 parameters, gathered in {str(gather_dtype)[6:]}, gradients in" in net.summary(), net.summary()
                trained = net.state_dict()
                net.save_checkpoint(tmp_path / f"{gather_dtype}-{strategy}")
                plain = paro.shard(made(Gpt, frozen=True).float(), strategy="IGG")
                plain.load_checkpoint(tmp_path / f"{gather_dtype}-{strategy}")
                close_to(plain.state_dict(), trained)
        with pytest.raises(ValueError, match="gather_dtype is torch.int8: expected torch.bfloat16"):
            paro.shard(nn.Linear(3, 5), gather_dtype=torch.int8)
        with pytest.raises(TypeError, match="parameter weight has torch.bfloat16: expected gather_dtype, torch.float16, or a wider type"):
            paro.shard(nn.Linear(3, 5).bfloat16(), gather_dtype=torch.float16)
        net = paro.shard(nn.Sequential(nn.Linear(3, 5)), strategy="GGG", gather_dtype=torch.bfloat16)
        assert net(torch.ones(2, 3)).dtype == net(input=torch.ones(2, 3)).dtype == torch.bfloat16
        net.register_forward_pre_hook(lambda *_: net.state_dict())
        with pytest.raises(RuntimeError, match="parameter 0.weight, or another of its bucket, is in use"):
            net(torch.ones(2, 3))

    on_nodes(body)


def test_the_unit_that_the_backward_pass_begins_with_is_gathered_once():
    def body(rank, size):
        net = paro.shard(made(Gpt), strategy="GGG")
        root = {bucket.number for bucket in net._paro.units[0].buckets}
        gathered = []
        gather, net._paro.client.gather = net._paro.client.gather, lambda bucket: (gathered.append(bucket), gather(bucket))[1]
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for number, expected in enumerate((2, 1, 1)):  # the first pass shows the order of uses
            gathered.clear()
            steps(net, optimizer, rank, number, 1)
            counts = {gathered.count(bucket) for bucket in root}, {gathered.count(bucket) for bucket in set(gathered) - root}
            assert counts == ({expected}, {2}), counts
        loss_of(net, 3, [rank])  # and no backward pass
        changed = {key: value + 1 for key, value in net.state_dict().items()}
        net.load_state_dict(changed)
        with torch.no_grad():
            got = loss_of(net, 4, [rank])
        alone = made(Gpt)
        alone.load_state_dict(changed)
        torch.testing.assert_close(got, loss_of(alone, 4, [rank]), rtol=1e-10, atol=1e-10)

    on_nodes(body)


def bytes_kept_for_the_backward_pass(net, micro_steps):
    """Between and inside groups, in a step: the root's last module is used first in the backward pass, so the root is gathered once."""
    of_16_bytes = net._paro.shape.ranks * 16
    root, whole = (sum(-(-bucket.bytes // of_16_bytes) for bucket in buckets) for buckets in (net._paro.units[0].buckets, net._paro.buckets))
    gathers = [(slow, fast) for phase, _, _, _, slow, fast in net._paro.cost.operations if paro.client.PHASES[phase] == "gather parameters"]
    return [micro_steps * root / whole * sum(each) for each in zip((0, 0), *gathers)]


def test_memory_decides_and_the_summary_says_what_is_held():
    def body(rank, size):
        costs = {}
        for strategy in ("NNN", "NNG", "IIG", "GGG", "III"):
            # III: in bfloat16, reduced in float32
            mixed = strategy == "III"
            net = paro.shard(made(Gpt).bfloat16() if mixed else made(Gpt), strategy=strategy, micro_steps=2,
                             reduce_dtype=torch.float32 if mixed else None)
            train(net, [rank], micro_steps=2, steps=1)
            before = net.usage()
            train(net, [rank], micro_steps=2, steps=1)
            usage, cost = net.usage(), net._paro.cost
            costs[strategy] = cost
            assert usage.kept == cost.kept
            assert usage.gathered <= cost.gathered
            assert usage.grad_buffers == cost.grad_buffers
            sent = usage.sent_between_groups - before.sent_between_groups, usage.sent_in_group - before.sent_in_group
            for each, most, kept in zip(sent, (cost.slow, cost.fast), bytes_kept_for_the_backward_pass(net, 2)):
                assert abs(each - (most - kept)) <= len(net._paro.buckets), (strategy, sent, cost)
            text = net.summary()
            assert f"PaRO {strategy}" in text and "<- this one" in text and "layers.2: 12 parameters" in text, text
        assert costs["GGG"].gathered > 0 == costs["NNN"].gathered
        for limit, expected in ((None, "NNG"), (costs["NNG"].most_memory, "NNG"), (str(costs["GGG"].most_memory / 1024) + " KiB", "GGG")):
            net = paro.shard(made(Gpt), memory=limit, micro_steps=4)
            assert net._paro.cost.memory <= (costs[expected].most_memory if limit else float("inf"))
            assert limit is None or net._paro.cost.memory <= costs[expected].most_memory
        with pytest.raises(ValueError, match=r"fits into memory=1.00 KiB on each rank: \w+ needs the least, [0-9.]+ KiB"):
            paro.shard(made(Gpt), memory="1KiB")
        assert paro.shard(made(Gpt), memory=1e9)._paro.memory_limit == 10**9
        for wrong, error, text in (({"memory": "much"}, ValueError, "memory is 'much'"), ({"memory": -1}, ValueError, "memory is -1"),
                                   ({"strategy": 3}, TypeError, "strategy is a int"), ({"bucket_bytes": -5}, ValueError, "bucket_bytes is -5")):
            with pytest.raises(error, match=text):
                paro.shard(made(Gpt), **wrong)
        with pytest.raises(ValueError, match="strategy 'XYZ'|XYZ"):
            paro.shard(made(Gpt), strategy="XYZ")

    on_nodes(body)


def test_padding_of_many_small_buckets_is_counted_beforehand():
    class Rows(nn.Sequential):
        def __init__(self):
            super().__init__(*(nn.Linear(2, 2, bias=number % 2 == 0) if number % 3 else nn.Linear(2, 2).bfloat16() for number in range(30)))
            self.scale = nn.Parameter(torch.ones(1))
            self[7].requires_grad_(False)

        def forward(self, hidden):
            hidden = hidden * self.scale
            for number, each in enumerate(self):
                hidden = each(hidden.float() if number % 3 else hidden.bfloat16())
            return hidden.sum()

    def body(rank, size):
        for strategy in ("auto", *STRATEGIES):
            net = paro.shard(Rows(), strategy=strategy, units=[nn.Linear])
            optimizer = torch.optim.Adam(net.parameters())
            for _ in range(2):
                optimizer.zero_grad()
                net(torch.ones(1, 2)).backward()
                optimizer.step()
            usage, cost, info = net.usage(), net._paro.cost, net._paro.client.info()
            state = sum(each.nbytes for of in optimizer.state.values() for name, each in of.items() if name != "step")
            assert usage.kept == cost.kept and state == net._paro.optimizer_bytes, strategy
            assert usage.grad_buffers == cost.grad_buffers, strategy
            assert usage.gathered in (cost.gathered, cost.gathered * 3 // 4), strategy  # the unit used before is kept by some models only
            # Beyond that, values of the optimizer for padding, of which this has none.
            assert info.largestMemoryBytes + state <= cost.most_kept, strategy
            whole = sum(bucket.bytes for bucket in net._paro.buckets)
            assert strategy != "NNN" or usage.kept > 3 * whole  # of which padding is a good part

    on_nodes(body)


def test_more_gradient_buffers_train_the_same_and_are_counted():
    def body(rank, size):
        expected = torch.tensor(train(made(Gpt), range(size)), dtype=torch.float64)
        held = {}
        for grad_buffers in (2, 4):
            net = paro.shard(made(Gpt), strategy="GGG", grad_buffers=grad_buffers)
            torch.testing.assert_close(mean_over_ranks(train(net, [rank])), expected, rtol=1e-10, atol=1e-10)
            held[grad_buffers] = net.usage().grad_buffers
            assert held[grad_buffers] == net._paro.cost.grad_buffers
        assert held[4] == 2 * held[2]
        with pytest.raises(ValueError, match="gradBuffers is 1: expected 2 to 64"):
            paro.shard(made(Gpt), strategy="GGG", grad_buffers=1)

    on_nodes(body)


def test_the_summary_draws_what_is_where(tmp_path):
    from fractions import Fraction
    from xml.etree import ElementTree

    from horing.torch.paro.drawing import blocks_over_all

    def body(rank, size):
        for strategy in ("NNN", "IIG", "GGG", "NNG"):
            net = paro.shard(nn.Sequential(*(nn.Linear(60, 60) for _ in range(3))).double(), strategy=strategy, units=[nn.Linear])
            partitions = (net._paro.cost.params, net._paro.cost.grads, net._paro.cost.state)
            place = net._paro.shape.group, net._paro.shape.local
            if partitions[2] == 2:
                begin, end = blocks_over_all(net._paro.shape.sizes, 1 in partitions)[place[0]][place[1]]
                shard = net._paro.client.master(0)
                assert abs(shard.first - begin * 3660) <= 4 and abs(shard.first + shard.count - end * 3660) <= 4
            if rank == 1:
                path = tmp_path / f"{strategy}-{size}.svg"
                net.summary(svg=path)
                root = ElementTree.parse(path).getroot()
                texts = ["".join(each.itertext()) for each in root.iter("{http://www.w3.org/2000/svg}text")]
                assert texts[0] == f"PaRO {strategy} on {size} ranks in {net._paro.shape}"
                assert "0.1 (this one)" in texts and {"0", "1", "2"} <= set(texts), texts
                kept = net._paro.cost.kept + net._paro.optimizer_bytes
                assert any(f"{paro.summary.text_of(kept)} kept" in text for text in texts), texts
                rectangles = list(root.iter("{http://www.w3.org/2000/svg}rect"))
                # The share of this rank's row that is filled with the color of parameters.
                filled = [float(each.get("width")) for each in rectangles if each.get("fill") == "#2f6fc4" and each.get("height") == "13" and
                          float(each.get("x")) < 400]
                shares = {"NNN": [106] * size, "NNG": [106] * size}.get(strategy)
                assert len(filled) == size and (shares is None or filled == shares), filled
                if strategy == "GGG":
                    assert sum(filled) == pytest.approx(106, abs=0.1)

    assert blocks_over_all((2, 2), True) == [[(Fraction(0), Fraction(1, 4)), (Fraction(1, 2), Fraction(3, 4))],
                                             [(Fraction(1, 4), Fraction(1, 2)), (Fraction(3, 4), Fraction(1))]]
    on_nodes(body)
    on_groups(body, (3, 1))


def test_the_fastest_is_chosen_and_the_summary_says_why():
    from horing.torch.paro import client, layout, plan

    def chosen(**seconds_per_byte):
        """By rates of groups, rails and all ranks, for a model on 2 nodes of 4."""
        rates = client.Rates()
        for collective in range(3):
            for scope, name in enumerate(("inside", "between", "everywhere")):
                passes = 2 if client.COLLECTIVES[collective] == "all-reduce" else 1
                rates.of[collective][scope] = client.Rate(1e-6, passes * seconds_per_byte.get(name, 0.0))
        entries = layout.find_entries(model := made(Gpt), None)
        units, _ = layout.assign_units(model, entries, layout.choose_units(model, None))
        costs = plan.costs_of(plan.Shape((4, 4)), units, 4, 2, 32 << 20)
        for cost in costs:
            cost.take_time(rates)
        best, other = plan.best_of(costs)
        return best.name, other.seconds / best.seconds

    # Links between nodes alone take time: all that use them once are as fast, and IIG has the least memory of these, buffers included.
    assert chosen(between=1e-3, everywhere=1e-3 / 4) == ("IIG", pytest.approx(1, abs=0.02))
    # Where a collective in the node costs, too, none in each micro-step is faster; NNG is as fast as NNN.
    assert chosen(inside=1e-3, between=1e-2, everywhere=2.5e-3) == ("NNG", pytest.approx(1, abs=0.02))

    def body(rank, size):
        text = paro.shard(made(Gpt), micro_steps=4).summary()
        assert re.search(r"  [NIG]{3}: [0-9.]+ ms for the collectives of an optimizer step, by rates that were measured at the start; "
                         r"(next is [NIG]{3} with|[NIG]{3} takes) [0-9.]+ ms", text), text
        assert "  IIG was asked for\n" in paro.shard(made(Gpt), strategy="IIG").summary()
        least = min(cost.most_memory for cost in paro.shard(made(Gpt), strategy="IIG")._paro.costs)
        assert "is the only one that fits\n" in paro.shard(made(Gpt), memory=least).summary()

    on_nodes(body)


def test_units_are_released_after_use_and_prefetched_in_the_order_observed():
    def body(rank, size):
        net = paro.shard(made(Gpt), strategy="GGG", units=[type(made(Gpt).layers[0])])
        gathering, calls, client = net._paro.gathering, [], net._paro.client
        gather, release, param = client.gather, client.release, client.param
        client.gather = lambda bucket: (calls.append(f"gather {bucket}"), gather(bucket))
        client.release = lambda bucket: (calls.append(f"release {bucket}"), release(bucket))
        train(net, [rank], steps=1, micro_steps=1)
        calls.clear()
        train(net, [rank], steps=1, micro_steps=1)
        assert not any(bucket.is_gathered for bucket in net._paro.buckets)
        number = {unit.name: unit.buckets[0].number for unit in net._paro.units}
        root, layers = number["(root)"], [number[f"layers.{each}"] for each in range(3)]
        forward = [f"gather {root}", f"gather {layers[0]}", f"gather {layers[1]}", f"release {layers[0]}", f"gather {layers[2]}",
                   f"release {layers[1]}", f"release {layers[2]}"]
        assert calls[:len(forward)] == forward, (calls, forward)
        assert [calls.count(f"gather {bucket}") for bucket in (root, layers[0])] == [1, 2], calls
        assert sorted(re.findall("gather (.)", str(calls))) == sorted(re.findall("release (.)", str(calls))), calls

    on_nodes(body)


def test_other_groups_and_units_are_refused():
    def body(rank, size):
        import torch.distributed as dist
        with pytest.raises(TypeError, match="a group of the backend horing"):
            paro.shard(made(Gpt), group=dist.new_group(backend="gloo"))
        with pytest.raises(ValueError, match="units has a Linear that is no part of the model"):
            paro.shard(made(Gpt), units=[nn.Linear(1, 1)])

    on_nodes(body, 2)
