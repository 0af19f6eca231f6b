"""horing.torch.paro: the lines of FSDP2 scripts for checkpoints, get_state_dict() and set_state_dict() of torch.distributed.checkpoint."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import (StateDictOptions, get_model_state_dict, get_optimizer_state_dict, get_state_dict,
                                                     set_model_state_dict, set_optimizer_state_dict, set_state_dict)

from horing.torch import paro
from names import needs_paro
from paro_models import STRATEGIES, Gpt, made, mean_over_ranks
from test_paro import close_to, on_groups
from test_paro_checkpoint import steps

pytestmark = needs_paro


def adam(model) -> torch.optim.Optimizer:
    """Some gradients of attention are 0 but for rounding, which a smaller eps would magnify."""
    parameters = list(model.parameters())
    return torch.optim.AdamW([{"params": parameters[:3], "lr": 0.01}, {"params": parameters[3:], "weight_decay": 0.3}], lr=0.02, eps=1e-6)


def flat(state) -> dict:
    """Of an optimizer, without its groups."""
    return {f"{name}.{key}": torch.as_tensor(value) for name, values in state["state"].items() for key, value in sorted(values.items())}


# Whole state, in groups, over all ranks; then everything where shards differ in size.
@pytest.mark.parametrize("groups, strategies", (((2, 2), ("NNN", "III", "IIG", "GGG")), ((2, 1), STRATEGIES)))
def test_state_is_whole_and_any_strategy_goes_on(groups, strategies, tmp_path):
    def body(rank, size):
        alone = made(Gpt, frozen=True)
        optimizer = adam(alone)
        steps(alone, optimizer, range(size), 0, 2)
        before = get_state_dict(alone, optimizer)
        before = {name: value.clone() for name, value in before[0].items()}, {name: value.clone() for name, value in flat(before[1]).items()}
        expected = torch.tensor(steps(alone, optimizer, range(size), 2, 2), dtype=torch.float64)
        for strategy, other in zip(strategies, (*strategies[3:], *strategies[:3])):
            model = paro.shard(made(Gpt, frozen=True), strategy=strategy)
            optimizer = adam(model)
            steps(model, optimizer, [rank], 0, 2)
            state = dict(zip(("model", "optim"), get_state_dict(model, optimizer)))
            close_to(state["model"], before[0])
            close_to(flat(state["optim"]), before[1])
            dcp.save(state, checkpoint_id=tmp_path / strategy)
            model = paro.shard(Gpt(frozen=True).double(), strategy=other)
            optimizer = adam(model)
            values = model.state_dict()
            state = dict(zip(("model", "optim"), get_state_dict(model, optimizer)))
            close_to(state["model"], values)  # an optimizer without state gets some, which changes nothing
            dcp.load(state, checkpoint_id=tmp_path / strategy)
            set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optim"])
            torch.testing.assert_close(mean_over_ranks(steps(model, optimizer, [rank], 2, 2)), expected, rtol=1e-10, atol=1e-10)
            close_to(model.state_dict(), alone.state_dict())
            assert all(value.shape in ((), parameter.shape) for parameter, values in optimizer.state.items() for value in values.values())

    on_groups(body, groups)


def test_options_of_the_helpers():
    def body(rank, size):
        alone = made(Gpt)
        others = adam(alone)
        steps(alone, others, range(size), 0, 2)
        expected = flat(get_optimizer_state_dict(alone, others))
        for strategy in ("IIG", "GGG"):
            model = paro.shard(made(Gpt), strategy=strategy)
            optimizer = adam(model)
            steps(model, optimizer, [rank], 0, 2)
            full = StateDictOptions(full_state_dict=True)
            close_to(flat(get_optimizer_state_dict(model, optimizer, options=full)), expected)
            on_0 = StateDictOptions(full_state_dict=True, cpu_offload=True)
            weights, state = get_state_dict(model, optimizer, options=on_0)
            assert bool(state) == bool(weights) == (rank == 0)
            if rank == 0:
                close_to(flat(state), expected)
                close_to(weights, alone.state_dict())
            flattened = get_optimizer_state_dict(model, optimizer, options=StateDictOptions(flatten_optimizer_state_dict=True))
            torch.testing.assert_close(flattened["state.words.weight.exp_avg"], expected["words.weight.exp_avg"], rtol=1e-10, atol=1e-10)
            for options, loaded in ((full, get_state_dict(model, optimizer, options=full)),
                                    (StateDictOptions(full_state_dict=True, broadcast_from_rank0=True), (weights, state)),
                                    (StateDictOptions(flatten_optimizer_state_dict=True), (get_model_state_dict(model), flattened))):
                other = paro.shard(Gpt().double(), strategy="NIG")
                optimizer = adam(other)
                set_model_state_dict(other, dict(loaded[0]), options=options)
                set_optimizer_state_dict(other, optimizer, loaded[1], options=options)
                close_to(other.state_dict(), alone.state_dict())
                close_to(flat(get_optimizer_state_dict(other, optimizer)), expected)

    on_groups(body, (2, 1))


class Number(nn.Module):
    """With a parameter that is a number, which the optimizer of a shard has as a list of none or one."""

    def __init__(self):
        super().__init__()
        self.factor, self.part = nn.Parameter(torch.tensor(2.0)), nn.Linear(3, 3)

    def forward(self, inputs):
        return self.part(inputs) * self.factor


def test_numbers_and_optimizers_without_state():
    def body(rank, size):
        model = paro.shard(Number(), strategy="GGG")
        optimizer = torch.optim.AdamW(model.parameters())
        model(torch.ones(1, 3)).sum().backward()
        optimizer.step()
        state = get_optimizer_state_dict(model, optimizer)
        assert state["state"]["factor"]["exp_avg"].shape == () and state["state"]["factor"]["exp_avg"] != 0
        other = paro.shard(Number(), strategy="NNN")
        optimizer = torch.optim.AdamW(other.parameters())
        set_optimizer_state_dict(other, optimizer, state)
        close_to(flat(get_optimizer_state_dict(other, optimizer)), flat(state))
        state["state"]["part.weight"]["exp_avg"] = torch.zeros(2)
        with pytest.raises(RuntimeError, match=r"exp_avg of parameter part.weight is a Tensor of shape \(2,\): expected a whole tensor of shape \(3, 3\)"):
            set_optimizer_state_dict(other, optimizer, state)
        plain = torch.optim.SGD(other.parameters(), lr=0.1)
        before = other.state_dict()
        for _ in range(2):
            assert get_optimizer_state_dict(other, plain)["state"] == {}
        close_to(other.state_dict(), before)
        with pytest.raises(TypeError, match="parameters of a sharded model that is not the one given"):
            get_optimizer_state_dict(model, plain)
        dist.barrier()

    on_groups(body, (2, 1))


def test_state_that_is_a_shard():
    """SGD's momentum is the gradient itself at first."""
    def body(rank, size):
        def sgd(net):
            return torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, nesterov=True)

        alone = made(Gpt)
        others = sgd(alone)
        steps(alone, others, range(size), 0, 2)
        for strategy in ("NNN", "IIG", "GGG"):
            model = paro.shard(made(Gpt), strategy=strategy)
            optimizer = sgd(model)
            steps(model, optimizer, [rank], 0, 2)
            state = get_optimizer_state_dict(model, optimizer)
            close_to(flat(state), flat(get_optimizer_state_dict(alone, others)))
            other = paro.shard(Gpt().double(), strategy="GGG")
            optimizer = sgd(other)
            set_optimizer_state_dict(other, optimizer, state)
            close_to(flat(get_optimizer_state_dict(other, optimizer)), flat(state))

    on_groups(body, (2, 1))


def test_an_optimizer_of_several_models():
    """Their turns are taken in one order on all ranks, whatever lies where in memory."""
    def body(rank, size):
        kept = [object() for _ in range(1000 * rank)]  # other addresses on each rank
        models = [paro.shard(made(Number), strategy="GGG") for _ in range(8)]
        optimizer = torch.optim.SGD([each for model in models for each in model.parameters()], lr=0.1)
        assert get_optimizer_state_dict(nn.ModuleList(models), optimizer)["state"] == {} and len(kept) == 1000 * rank

    on_groups(body, (2, 1))
