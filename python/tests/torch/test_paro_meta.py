"""horing.torch.paro: models that are made on the meta device, and parameters that are whole for a while."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn

from horing.torch import paro
from names import needs_paro
from paro_models import LENGTH, Gpt, loss_of, made, mean_over_ranks, train
from ranks import kind
from test_paro import close_to, on_nodes

pytestmark = needs_paro


def on_meta() -> Gpt:
    with torch.device("meta"):
        return Gpt().double()


def initialise(part: nn.Module) -> None:
    if isinstance(part, Gpt):
        nn.init.normal_(part.places)
        part.mask.copy_(nn.Transformer.generate_square_subsequent_mask(LENGTH))
    elif isinstance(part, nn.MultiheadAttention):
        part._reset_parameters()
    elif hasattr(part, "reset_parameters"):
        part.reset_parameters()


def initialised_alone() -> Gpt:
    model = made(Gpt)
    torch.manual_seed(3)
    with torch.no_grad():
        for part in model.modules():
            initialise(part)
    return model


def held_whole(model: nn.Module) -> int:
    return sum(each.numel() for each in model.parameters() if not isinstance(each, paro.ShardParameter))


def test_a_model_from_the_meta_device_is_initialised_part_by_part():
    def body(rank, size):
        alone = initialised_alone()
        begin = {name: value.clone() for name, value in alone.state_dict().items()}
        expected = torch.tensor(train(alone, range(size)), dtype=torch.float64)
        for strategy in ("NNG", "IIG", "GGG"):
            net = paro.shard(on_meta(), strategy=strategy, device=kind())
            torch.manual_seed(3 if rank == 0 else 4)  # rank 0's values count
            for part in net.modules():
                with net.whole_parameters(part, recurse=isinstance(part, nn.MultiheadAttention)):
                    with torch.no_grad():
                        initialise(part)
                    assert held_whole(net) <= 4 * 8 * 8 + 4 * 8 < sum(each.numel() for each in alone.parameters()) / 4
            assert held_whole(net) == 0
            close_to(net.state_dict(), begin)
            torch.testing.assert_close(mean_over_ranks(train(net, [rank])), expected, rtol=1e-10, atol=1e-10)
            close_to(net.state_dict(), alone.state_dict())

    on_nodes(body)


def test_what_has_no_values_is_named():
    def body(rank, size):
        net = paro.shard(on_meta(), strategy="IIG", device=kind())
        missing = "parameter places has no values yet, since the model was made on the meta device"
        for use in (lambda: loss_of(net, 0, [rank]), net.state_dict):
            with pytest.raises(RuntimeError, match=missing), warnings.catch_warnings():
                warnings.simplefilter("error")  # of torch, about hooks that fail, too
                use()
        with net.whole_parameters(net):
            net.places.data.fill_(1)
            net.words.weight.data[1:] = 1  # not all of it
        with pytest.raises(RuntimeError, match="parameter words.weight has no values yet"):
            loss_of(net, 0, [rank])
        whole = made(Gpt).state_dict()
        net.load_state_dict({name: value for name, value in whole.items() if name != "mask"}, strict=False)
        with pytest.raises(RuntimeError, match="buffer mask has no values yet"):
            loss_of(net, 0, [rank])
        with net.whole_parameters(net, recurse=False):
            pass
        with pytest.raises(RuntimeError, match="buffer mask has no values yet"):
            loss_of(net, 0, [rank])
        net.load_state_dict(whole)
        close_to(net.state_dict(), whole)
        torch.testing.assert_close(loss_of(net, 0, [rank]), loss_of(made(Gpt), 0, [rank]))

    on_nodes(body)


def test_rank_0_may_have_values_where_others_have_none():
    def body(rank, size):
        expected = made(Gpt).state_dict()
        close_to(paro.shard(on_meta() if rank else made(Gpt), strategy="GGG", device=kind()).state_dict(), expected)
        with pytest.raises(RuntimeError, match="parameter places has no values yet"):
            paro.shard(made(Gpt) if rank else on_meta(), strategy="GGG", device=kind()).state_dict()
        again = paro.shard(on_meta(), strategy="IIG", device=kind())
        again.load_sharded_state_dict(paro.shard(made(Gpt), strategy="IIG").sharded_state_dict())
        close_to(again.state_dict(), expected)

    on_nodes(body)


def test_parameters_are_changed_while_they_are_whole():
    def body(rank, size):
        alone, net = made(Gpt, frozen=True), paro.shard(made(Gpt, frozen=True), strategy="IIG")
        train(alone, range(size), steps=1)
        train(net, [rank], steps=1)
        with net.whole_parameters(net.layers), torch.no_grad():
            for model in (alone, net):
                model.layers[0].mlp[0].weight.mul_(2)
                model.layers[1].norms[0].bias.fill_(0.5 if model is alone or rank == 0 else rank)
            with pytest.raises(RuntimeError, match="the parameters of layers are whole at present"):
                loss_of(net, 0, [rank])
        close_to(net.state_dict(), alone.state_dict())
        with pytest.raises(ArithmeticError), net.whole_parameters(net.head):
            net.words.weight.data.zero_()
            raise ArithmeticError
        close_to(net.state_dict(), alone.state_dict())
        for change, error in ((lambda: setattr(net.norm, "weight", nn.Parameter(torch.ones(3))), "parameter norm.weight was replaced by torch.float32"),
                              (lambda: setattr(net.head, "weight", nn.Parameter(net.head.weight.clone())), "parameter words.weight is tied")):
            with pytest.raises(RuntimeError, match=error), net.whole_parameters(net):
                change()
        close_to(net.state_dict(), alone.state_dict())
        net.zero_grad()
        loss_of(net, 0, [rank]).backward()
        with pytest.raises(RuntimeError, match="would drop the gradients that were accumulated"), net.whole_parameters(net.head):
            pass
        with pytest.raises(ValueError, match="a Linear that is no part of the model"), net.whole_parameters(nn.Linear(1, 1)):
            pass

    on_nodes(body)
