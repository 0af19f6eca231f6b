"""horing.torch.paro and torch.compile, which breaks its graphs where parameters are gathered and released."""

from __future__ import annotations

import pytest
import torch
import torch._dynamo
from torch import nn

from horing.torch import paro
from names import needs_paro
from paro_models import Gpt, Mixture, made, train
from test_paro import close_to, on_nodes

pytestmark = needs_paro


@pytest.mark.parametrize("kind", (Gpt, pytest.param(Mixture, marks=pytest.mark.costly)))
@pytest.mark.parametrize("parts", ((Gpt, Mixture), (nn.Sequential,)))
def test_compiled_models_train_as_one_process_does(kind, parts):
    """The whole model, or its sequences, compiled before or after it is sharded."""
    def compile_parts(model):
        for part in model.modules():
            if isinstance(part, parts):
                part.compile(backend="aot_eager")
        return model

    def shard(model):
        return paro.shard(model, strategy="IIG")

    def body(rank, size):
        alone = made(kind)
        train(alone, range(size), steps=2, micro_steps=1)
        for first, then in ((compile_parts, shard), (shard, compile_parts)):
            torch._dynamo.reset()
            torch._dynamo.utils.counters.clear()
            net = then(first(made(kind)))
            train(net, [rank], steps=2, micro_steps=1)
            assert torch._dynamo.utils.counters["stats"]["unique_graphs"] > 0
            close_to(net.state_dict(), alone.state_dict())

    on_nodes(body)
