"""horing.torch.paro: which units are gathered at the same time, and what that takes."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from horing.torch import paro
from horing.torch.paro.plan import text_of
from names import needs_paro
from test_paro import on_nodes

pytestmark = needs_paro


class Reads(nn.Module):
    """Blocks that all get the output of the first, whose gradient is there when they all have theirs."""

    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList(Reader() for _ in range(6))

    def forward(self, inputs):
        memory = hidden = self.parts[0](inputs, inputs)
        for part in self.parts[1:]:
            hidden = part(hidden, memory)
        return hidden


class Reader(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(64, 64))

    def forward(self, hidden, memory):
        return self[0](hidden) + memory


class Widths(nn.Module):
    """Blocks of different widths, used in an order."""

    def __init__(self, widths, order=None):
        super().__init__()
        self.parts = nn.ModuleList(nn.Sequential(nn.Linear(64, width), nn.Linear(width, 64)) for width in widths)
        self.order = order or range(len(widths))

    def forward(self, inputs):
        for number in self.order:
            inputs = self.parts[number](inputs)
        return inputs


def train(net, steps: int = 3) -> None:
    optimizer = torch.optim.AdamW(net.parameters())
    for _ in range(steps):
        optimizer.zero_grad()
        net(torch.randn(4, 64)).square().mean().backward()
        optimizer.step()


def test_the_peak_is_what_was_said():
    """With a large block every third; with one whose neighbours a pass has to show; with a last one whose inputs have no gradients until all others have."""
    def body(rank, size):
        def peaks(strategy, model):
            net = paro.shard(model, strategy=strategy, units=[nn.Sequential])
            cost = net._paro.cost
            beforehand = cost.gathered
            train(net)
            assert net.usage().grad_buffers == cost.grad_buffers and net.usage().kept == cost.kept
            assert f"{text_of(cost.gathered)}, {text_of(net.usage().gathered)}" in net.summary()
            return [beforehand, cost.gathered, net.usage().gathered, *(sum(unit) for unit in cost.of_units)]

        for strategy in ("IIG", "GGG"):
            beforehand, said, held, _, large, small, *_ = peaks(strategy, Widths([512 if number % 3 == 0 else 8 for number in range(12)]))
            assert beforehand == said == held == 2 * large > large + 2 * small
            beforehand, said, held, _, large, small, medium = peaks(strategy, Widths((512, 8, 256), (0, 2, 1)))
            assert beforehand == large + small and said == held == large + medium
            beforehand, said, held, _, each, *_ = peaks(strategy, Reads())
            assert beforehand == 2 * each and said == held == 3 * each

    on_nodes(body)


def test_a_limit_holds_where_gradients_come_late():
    def body(rank, size):
        net = paro.shard(Reads(), strategy="IIG", units=[nn.Sequential])
        train(net)
        used = net._paro.cost.memory
        with pytest.raises(ValueError, match="no strategy that is asked for fits"):
            paro.shard(Reads(), strategy="IIG", units=[nn.Sequential], memory=used - 1)
        other = paro.shard(Reads(), strategy="IIG", units=[nn.Sequential], memory=used)
        train(other)
        assert other._paro.cost.memory == used

    on_nodes(body)


def test_reading_values_records_no_uses():
    """State dicts that no forward pass follows would pile up records."""
    def body(rank, size):
        net = paro.shard(nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3)), strategy="IIG", units=(nn.Linear,))
        for _ in range(3):
            net.state_dict()
        assert net._paro.gathering._held_in_pass == []
        net(torch.ones(1, 3)).sum().backward()
        assert net._paro.gathering.held_at_uses

    on_nodes(body)


def test_a_model_without_parameters_of_its_own_is_prefetched():
    def body(rank, size):
        net = paro.shard(Widths((8, 8, 8)), strategy="GGG", units=[nn.Sequential])
        train(net, 1)
        calls, client = [], net._paro.client
        gather, release = client.gather, client.release
        client.gather = lambda bucket: (calls.append(f"gather {bucket}"), gather(bucket))
        client.release = lambda bucket: (calls.append(f"release {bucket}"), release(bucket))
        with torch.no_grad():
            net(torch.randn(4, 64))
        assert calls == ["gather 0", "gather 1", "release 0", "gather 2", "release 1", "release 2"], calls

    on_nodes(body)
