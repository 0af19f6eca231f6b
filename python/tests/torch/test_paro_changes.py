"""horing.torch.paro: models that are changed after they were sharded. Right, or an exception that names the parameter."""

from __future__ import annotations

import contextlib
import gc
import os
import weakref

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm, weight_norm

from horing.torch import paro
from horing.torch.paro.digests import _digest
from names import needs_paro
from paro_models import WIDTH, made
from test_paro import close_to, on_nodes
from test_paro_trouble import Layers, adam, as_alone, inputs_of, one_step

pytestmark = needs_paro


def test_parameters_that_freeze_and_thaw():
    def run(net, optimizer, ranks):
        one_step(net, optimizer, ranks, 0)
        net.layers[0].requires_grad_(False)
        net.layers[1][0].bias.requires_grad = False
        one_step(net, optimizer, ranks, 1)
        net.layers[:2].requires_grad_(True)
        one_step(net, optimizer, ranks, 2)

    as_alone(run, lambda: made(Layers, [0, 1, 3]), ("NNG", "GGG"))


def test_gradients_of_gradients():
    def run(net, optimizer, ranks):
        for number in range(2):
            optimizer.zero_grad()
            total = 0
            for rank in ranks:
                inputs = inputs_of(number, rank).requires_grad_()
                loss = net(inputs).square().mean()
                slope, = torch.autograd.grad(loss, inputs, create_graph=True)
                total += (loss + slope.square().sum()) / len(ranks)
            total.backward()
            optimizer.step()

    as_alone(run, lambda: made(Layers, [0, 1, 3]), ("IIG", "GGG"))


def test_parametrizations():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = nn.Sequential(weight_norm(nn.Linear(WIDTH, WIDTH)), spectral_norm(nn.Linear(WIDTH, WIDTH)))

        def forward(self, inputs):
            return self.parts(inputs)

    def body(rank, size):
        alone, net = made(Net), paro.shard(made(Net), strategy="IIG")
        for model in (alone, net):
            for _ in range(2):
                one_step(model, adam(model), [0])
        close_to(net.state_dict(), alone.state_dict())

    on_nodes(body)


class Clamps(nn.Linear):
    """Changes its weight in its own forward pass, in a way."""

    def __init__(self, change=None):
        super().__init__(WIDTH, WIDTH)
        self.change = change

    def forward(self, inputs):
        scale = self.weight.data.abs().mean()  # may be read
        if self.change is not None:
            self.change(self.weight)
        return super().forward(inputs) * scale


def test_changes_in_a_forward_pass_are_named():
    def body(rank, size):
        def replace(weight):
            weight.data = torch.zeros(WIDTH, WIDTH).double()

        def clamp(weight):
            with torch.no_grad():
                weight.clamp_(-0.1, 0.1)

        for strategy in ("NNG", "IIG", "GGG"):
            for mode in (contextlib.nullcontext, torch.no_grad, torch.inference_mode):
                net = paro.shard(nn.Sequential(made(Clamps), nn.Linear(WIDTH, WIDTH).double()), strategy=strategy, units=[nn.Linear])
                for change, why in ((lambda weight: weight.data.clamp_(-0.1, 0.1), "parameter 0.weight was changed in place in the forward pass of 0"),
                                    (clamp, "parameter 0.weight was changed in place in the forward pass of 0"),
                                    (replace, "data of a parameter was replaced in the forward pass of its module")):
                    net[0].change = change
                    with pytest.raises(RuntimeError, match=why), mode():
                        net(inputs_of(0, rank))
                net[0].change = None
                with mode():
                    net(inputs_of(0, rank))

    on_nodes(body)


def test_changes_that_cannot_be_right_are_named():
    def body(rank, size):
        def refused(change, why):
            net = paro.shard(made(Layers, [0, 1, 3]), strategy="IIG")
            with pytest.raises(RuntimeError, match=why):
                change(net)
                net(inputs_of(0, rank))

        def plain():
            return nn.Parameter(torch.zeros(WIDTH, WIDTH).double())

        refused(lambda net: setattr(net.layers[0][0], "weight", plain()), "parameter layers.0.0.weight was replaced or removed")
        refused(lambda net: setattr(net.layers[0][0], "bias", None), "parameter layers.0.0.bias was replaced or removed")
        refused(lambda net: net.layers[0][0].register_parameter("extra", plain()), "parameter extra of a Linear was added after")
        refused(lambda net: net.layers.append(nn.Linear(1, 1)), "parameter weight of a Linear was added after")
        refused(lambda net: torch.func.functional_call(net, {"layers.0.0.weight": plain()}, (inputs_of(0, 0),)),
                "parameter layers.0.0.weight was replaced")
        refused(lambda net: net.layers[2].requires_grad_(True), "parameter layers.2.0.weight was frozen when the model was sharded")
        for hook in ("register_hook", "register_post_accumulate_grad_hook"):
            refused(lambda net: getattr(net.layers[0][0].weight, hook)(lambda _: None), "a hook of parameter layers.0.0.weight would never run")
        net = paro.shard(made(Layers, [0, 1, 3]), strategy="IIG")
        assert net.to(next(net.parameters()).device).double() is net
        for convert in (net.float, lambda: net.to("meta")):
            with pytest.raises(RuntimeError, match="parameter layers.0.0.weight is sharded: its type, device"):
                convert()
        one_step(net, adam(net), [rank])

    on_nodes(body)


@pytest.mark.parametrize("strategy", ("NNG", "GGG"))
def test_a_model_that_is_gone_leaves_nothing(strategy):
    def body(rank, size):
        net = paro.shard(made(Layers, [0, 1, 3]), strategy=strategy)
        for number in range(2):
            one_step(net, adam(net), [rank], number)
        client = weakref.ref(net._paro.client)
        del net
        gc.collect()
        assert client() is None

    on_nodes(body)


def test_models_that_are_gone_leave_no_groups():
    def body(rank, size):
        def held():
            gc.collect()
            return len(dist.distributed_c10d._world.pg_map), *(len(os.listdir(f"/proc/self/{what}")) for what in ("fd", "task"))

        def shard(models):
            for _ in range(models):
                one_step(net := paro.shard(made(Layers, [0, 1, 3])), adam(net), [rank])

        shard(2)
        before = held()
        shard(10)
        groups, descriptors, threads = held()
        assert groups == before[0] and descriptors <= before[1] + 2 and threads <= before[2] + 2, (before, held())

    on_nodes(body, size=1, members=1)


def test_digests_where_tensors_are_made_elsewhere_by_default():
    values = torch.arange(5.0)
    with torch.device("meta"):
        digest = _digest(values, 3)
    assert digest == _digest(values, 3)
