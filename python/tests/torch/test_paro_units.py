"""horing.torch.paro: which units are gathered at the same time."""

from __future__ import annotations

import torch
from torch import nn

from horing.torch import paro
from names import needs_paro
from test_paro import on_nodes

pytestmark = needs_paro


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
