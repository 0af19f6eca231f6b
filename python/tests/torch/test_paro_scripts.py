"""horing.torch.paro: lines of scripts for FSDP2 and DDP, and models that are tied, frozen and checkpointed in all ways at once."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from horing.torch import paro
from names import needs_paro
from paro_models import STRATEGIES, WIDTH, Mixture, Vision, made, mean_over_ranks, train
from test_paro import close_to, on_nodes
from test_paro_trouble import Layers, as_alone, inputs_of

pytestmark = needs_paro


def test_parameters_that_units_share():
    class Tied(nn.Module):
        """Two blocks have one weight, and the last one's bias is the first one's, too."""

        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(4))
            self.blocks[2][0].weight = self.blocks[0][0].weight
            self.blocks[3][0].bias = self.blocks[0][0].bias

        def forward(self, inputs):
            for block in self.blocks:
                inputs = block(inputs)
            return inputs

    def run(net, optimizer, ranks):
        for number in range(3):
            optimizer.zero_grad()
            for micro in range(2):
                sum(net(inputs_of(2 * number + micro, rank)).square().mean() / len(ranks) for rank in ranks).backward()
            optimizer.step()

    as_alone(run, lambda: made(Tied), STRATEGIES)


def test_lines_of_fsdp2_and_ddp_scripts_run():
    def run(net, optimizer, ranks):
        def loss(number):
            return sum(net(inputs_of(number, rank)).square().mean() / len(ranks) for rank in ranks)

        is_sharded = isinstance(net, paro.ShardedModule)
        modules = [net, *net.layers] if is_sharded else []
        for module in modules:
            module.set_modules_to_forward_prefetch(list(net.layers[1:3]))
            module.set_modules_to_backward_prefetch(list(net.layers[:1]))
            module.set_reshard_after_forward(False)
            module.set_reshard_after_backward(False, recurse=False)
        for step in range(2):
            optimizer.zero_grad()
            for module in modules:
                module.unshard()
                module.unshard(async_op=True).wait()
            for micro in range(3):
                for module in modules:
                    module.set_is_last_backward(micro == 2)
                    module.set_requires_gradient_sync(micro == 2)
                    module.set_requires_all_reduce(micro == 2, recurse=True)
                loss(10 * step + micro).backward()
            if is_sharded:
                with net.no_sync():
                    loss(10 * step + 3).backward()
            else:
                loss(10 * step + 3).backward()
            loss(10 * step + 4).backward()
            optimizer.step()
            for module in modules:
                module.reshard()

    as_alone(run, lambda: made(Layers, [0, 1, 3]))


@pytest.mark.parametrize("kind", (Vision, Mixture))
def test_frozen_tied_and_checkpointed_layers_of_other_models(kind):
    def body(rank, size):
        alone = made(kind, mixed=True)
        expected = torch.tensor(train(alone, range(size), steps=2), dtype=torch.float64)
        for strategy in ("NNG", "III", "IIG", "GGG"):
            net = paro.shard(made(kind, mixed=True), strategy=strategy)
            torch.testing.assert_close(mean_over_ranks(train(net, [rank], steps=2)), expected, rtol=1e-10, atol=1e-10, msg=lambda text: f"{strategy}: {text}")
            close_to(net.state_dict(), alone.state_dict())

    on_nodes(body)


def test_bfloat16_with_float32_reduction_over_all_strategies():
    """The masters of one process that adds up, in float32, the gradients of bfloat16 of all ranks and micro-steps."""
    def backward(net, number, rank):
        net(inputs_of(number, rank).bfloat16()).float().square().mean().backward()

    def sgd(parameters):
        return torch.optim.SGD(parameters, lr=0.5, momentum=0.9)

    def body(rank, size):
        alone = made(Layers, [0, 1, 3]).bfloat16()
        masters = {name: nn.Parameter(each.detach().float()) for name, each in alone.named_parameters()}
        optimizer = sgd(masters.values())
        for step in range(2):
            optimizer.zero_grad()
            for number, other in ((2 * step + micro, other) for micro in range(2) for other in range(size)):
                alone.zero_grad()
                backward(alone, number, other)
                for name, each in alone.named_parameters():
                    if each.grad is not None:
                        masters[name].grad = each.grad.float() / size + (0 if masters[name].grad is None else masters[name].grad)
            optimizer.step()
            with torch.no_grad():
                for name, each in alone.named_parameters():
                    each.copy_(masters[name])
        for strategy in STRATEGIES:
            net = paro.shard(made(Layers, [0, 1, 3]).bfloat16(), strategy=strategy, reduce_dtype=torch.float32)
            optimizer = sgd(net.parameters())
            for step in range(2):
                optimizer.zero_grad()
                for micro in range(2):
                    backward(net, 2 * step + micro, rank)
                optimizer.step()
            state = net.sharded_state_dict()
            for name, shard in state["shards"].items():
                first, count = state["layout"]["elements"][name]
                expected = masters[name].detach().flatten()[first:first + count]
                torch.testing.assert_close(shard.flatten(), expected, rtol=1e-5, atol=1e-6, msg=lambda text: f"{strategy}: {name}: {text}")

    on_nodes(body)
