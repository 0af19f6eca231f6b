"""horing.torch.paro: models and programs that do something else than forward, backward, step. Right, or an exception that names
the parameter."""

from __future__ import annotations

import contextlib
import copy
import os
import signal

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.checkpoint import checkpoint

from horing.torch import paro
from names import needs_paro
from paro_models import WIDTH, Gpt, join_nodes, loss_of, made, train
from ranks import run
from test_paro import close_to, on_nodes

pytestmark = needs_paro

SOME = ("NNG", "IIG", "GGG")  # parameters whole, in groups, over all


class Layers(nn.Module):
    """Layers in an order, or several times, as `order` says. One has no use, one is frozen."""

    def __init__(self, order):
        super().__init__()
        self.order = order
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(4))
        self.layers[2].requires_grad_(False)
        self.unused = nn.Parameter(torch.ones(5))

    def forward(self, inputs):
        for number in self.order:
            inputs = self.layers[number](inputs)
        return inputs


def inputs_of(number: int, rank: int) -> torch.Tensor:
    return torch.randn(3, WIDTH, generator=torch.Generator().manual_seed(100 * number + rank)).double()


def one_step(net, optimizer, ranks, number=0, forward=None) -> None:
    optimizer.zero_grad()
    forward = forward or net
    sum(forward(inputs_of(number, rank)).square().mean() / len(ranks) for rank in ranks).backward()
    optimizer.step()


def adam(net) -> torch.optim.Optimizer:
    return torch.optim.AdamW(net.parameters(), lr=0.05, weight_decay=0.5)


def as_alone(run, make, strategies=SOME):
    """run(net, optimizer, ranks) leaves the same parameters with every strategy as in one process."""
    def body(rank, size):
        alone = make()
        run(alone, adam(alone), range(size))
        for strategy in strategies:
            net = paro.shard(make(), strategy=strategy)
            run(net, adam(net), [rank])
            close_to(net.state_dict(), alone.state_dict())

    on_nodes(body)


def test_layers_used_twice_in_another_order_and_never():
    def run(net, optimizer, ranks):
        for number, order in enumerate(([0, 1, 2, 3], [0, 1, 0, 2], [3, 2, 1], [2, 0], [1, 1, 3], [0, 1, 2, 3])):
            net.order = order
            one_step(net, optimizer, ranks, number)
        net.eval()
        with torch.no_grad():
            net(inputs_of(0, 0))
        with torch.inference_mode():
            net(inputs_of(0, 0))
        one_step(net, optimizer, ranks, 9)

    as_alone(run, lambda: made(Layers, [0]))


def test_graphs_that_overlap_and_backward_passes_that_repeat():
    def run(net, optimizer, ranks):
        for number in range(2):
            losses = [sum(net(inputs_of(10 * number + each, rank)).square().mean() / len(ranks) for rank in ranks) for each in range(2)]
            losses[0].backward(retain_graph=True)
            losses[1].backward()
            losses[0].backward()
            net(inputs_of(0, 0))  # an unused graph
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)

    as_alone(run, lambda: made(Layers, [0, 1, 2, 1]))


@pytest.mark.parametrize("use_reentrant", (False, True))
def test_checkpoints_around_layers(use_reentrant):
    def run(net, optimizer, ranks):
        def forward(inputs):
            hidden = net.layers[0](inputs)
            hidden = checkpoint(net.layers[1], hidden, use_reentrant=use_reentrant)
            return checkpoint(lambda value: net.layers[3](net.layers[1](value)), hidden, use_reentrant=use_reentrant)

        for number in range(2):
            one_step(net, optimizer, ranks, number, forward)

    as_alone(run, lambda: made(Layers, []))


def test_recurrent_layers_and_convolutions_with_buffers():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = nn.ModuleList((nn.LSTM(WIDTH, WIDTH, 2, batch_first=True), nn.Linear(WIDTH, WIDTH)))
            self.register_buffer("scale", torch.full((1,), 0.5))

        def forward(self, inputs):
            return self.parts[1](self.parts[0](inputs.unsqueeze(0))[0]) * self.scale

    def run(net, optimizer, ranks):
        for number in range(2):
            one_step(net, optimizer, ranks, number)

    as_alone(run, lambda: made(Net))


def test_exceptions_in_forward_and_in_backward():
    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(ctx, inputs):
            return inputs.clone()

        @staticmethod
        def backward(ctx, gradient):
            raise ArithmeticError("in backward")

    def run(net, optimizer, ranks):
        one_step(net, optimizer, ranks, 0)
        with pytest.raises(RuntimeError, match="mat1 and mat2"):
            net(torch.ones(3, WIDTH + 1).double())
        one_step(net, optimizer, ranks, 1)
        middle = net.layers[1].register_forward_hook(lambda module, args, output: Fails.apply(output))
        optimizer.zero_grad()
        with pytest.raises(ArithmeticError, match="in backward"):
            net(inputs_of(2, 0)).sum().backward()
        middle.remove()
        one_step(net, optimizer, ranks, 3)  # begins with zero_grad()

    as_alone(run, lambda: made(Layers, [0, 1, 2, 3]))


def test_a_backward_pass_that_fails_on_one_rank_ends_the_step_of_all():
    def fail(_):
        raise ArithmeticError("in backward")

    def body(rank, size):
        for strategy in SOME:
            alone, net = made(Layers, [0, 1, 3]), paro.shard(made(Layers, [0, 1, 3]), strategy=strategy)
            optimizers = adam(alone), adam(net)
            one_step(alone, optimizers[0], range(size), 0)
            one_step(net, optimizers[1], [rank], 0)
            optimizers[1].zero_grad()
            # The last of the backward pass: until then the rank made the same calls as the others.
            inputs = inputs_of(1, rank).requires_grad_()
            if rank == 1:
                inputs.register_hook(fail)
            error, text = (ArithmeticError, "in backward") if rank == 1 else (RuntimeError, "a backward pass failed on rank 1, so")
            with pytest.raises(error, match=text):
                net(inputs).square().mean().backward()
                optimizers[1].step()
            one_step(alone, optimizers[0], range(size), 2)
            one_step(net, optimizers[1], [rank], 2)  # begins with zero_grad()
            close_to(net.state_dict(), alone.state_dict())
            net.zero_grad()
            with contextlib.suppress(ArithmeticError):
                net(inputs).square().mean().backward()
            net.load_state_dict(alone.state_dict())  # drops gradients, whatever they are
            net.zero_grad()
            one_step(alone, optimizers[0], range(size), 3)
            one_step(net, optimizers[1], [rank], 3)
            close_to(net.state_dict(), alone.state_dict())

    on_nodes(body)


def test_what_parameters_yields():
    def body(rank, size):
        alone = made(Gpt)
        loss_of(alone, 0, range(size)).backward()
        names = dict(alone.named_parameters())
        for strategy, copies in (("NNN", 4), ("III", 2), ("GGG", 1)):
            net = paro.shard(made(Gpt), strategy=strategy)
            assert [(name, each.dim()) for name, each in net.named_parameters()] == [(name, each.dim()) for name, each in names.items()]
            counts = torch.tensor([each.numel() for each in net.parameters()])
            dist.all_reduce(counts)
            assert counts.tolist() == [copies * each.numel() for each in names.values()]
            assert all(isinstance(each, paro.ShardParameter) and each.grad is None for each in net.parameters())
            loss_of(net, 0, [rank]).backward()
            for order in (2.0, 3.0, float("inf")):
                grads = [each.grad for each in net.parameters()]
                expected = nn.utils.get_total_norm([each.grad for each in names.values()], order)
                torch.testing.assert_close(nn.utils.get_total_norm(grads, order), expected)
                torch.testing.assert_close(grads[0].norm(order), next(iter(names.values())).grad.norm(order))
                torch.testing.assert_close(net.clip_grad_norm_(1e9, order), expected)
            total = nn.utils.clip_grad_norm_(net.parameters(), 0.01)
            torch.testing.assert_close(net.clip_grad_norm_(1.0), torch.tensor(0.01).double(), rtol=1e-4, atol=0)
            assert total > 0.1
            weight = net.layers[0].mlp[0].weight
            name = "layers.0.mlp.0.weight"
            for wrong in (lambda: weight.sum(), lambda: weight.grad.pow(2).mean(), lambda: weight.grad.abs().max(), lambda: weight.norm(dim=0),
                          lambda: nn.functional.linear(torch.ones(1, WIDTH).double(), weight), lambda: copy.deepcopy(weight),
                          lambda: weight.data.mean(), lambda: torch.mm(weight, weight.t()), lambda: torch.isfinite(weight.grad).all(),
                          lambda: torch.cat([weight.grad.flatten()]).norm(), lambda: nn.utils.parameters_to_vector([weight]), lambda: weight.T,
                          lambda: torch.sum(input=weight), lambda: torch.linalg.svdvals(weight), lambda: nn.functional.normalize(weight),
                          lambda: weight.detach().numpy(), lambda: weight[0], lambda: weight.tril(), lambda: torch.randn_like(weight),
                          lambda: torch.ones(2, WIDTH).double() * weight, lambda: weight.max(0), lambda: torch._foreach_max([weight])):
                with pytest.raises((RuntimeError, TypeError), match=name):
                    wrong()
            with pytest.raises(RuntimeError, match="sharded: its type, device and memory are fixed"):
                net.float()
            with pytest.raises(TypeError, match="state_dict"):
                copy.deepcopy(net)

    on_nodes(body)


def test_gradients_that_would_be_lost():
    def body(rank, size):
        for strategy in SOME:
            net = paro.shard(made(Layers, [0, 1]), strategy=strategy)
            weight, optimizer = net.layers[1][0].weight, adam(net)
            with pytest.raises(RuntimeError, match="norm.* of the shard of parameter layers.1.0.weight has no gradient"):
                net(inputs_of(0, rank)).sum() + weight.norm()
            with torch.no_grad():
                assert not weight.norm().requires_grad
            assert torch.equal(weight.detach().norm(), nn.utils.get_total_norm([weight]))
            loss = net(inputs_of(0, rank)).sum()
            for wanted in (lambda: torch.autograd.backward([loss, weight * 2], [None, torch.ones_like(weight)]), lambda: (weight * 2).sum(),
                           lambda: torch.autograd.grad(loss, weight), lambda: loss.backward(inputs=[weight])):
                with pytest.raises(RuntimeError, match="parameter layers.1.0.weight"):
                    wanted()
            with pytest.raises(RuntimeError, match="the gradient of parameter layers.1.0.weight was set before there was one"):
                weight.grad = torch.ones_like(weight)
            one_step(net, optimizer, [rank])
            optimizer.zero_grad(set_to_none=False)
            weight.grad.add_(1)  # so it is not cleared any more
            with pytest.raises(RuntimeError, match="the gradient of parameter layers.1.0.weight from the last optimizer step was not cleared"):
                net(inputs_of(0, rank)).sum().backward()

    on_nodes(body)


def test_optimizers_that_need_whole_parameters():
    def body(rank, size):
        model = made(Gpt)
        early = torch.optim.SGD(model.parameters(), lr=0.1)
        net = paro.shard(model, strategy="IIG")
        loss_of(net, 0, [rank]).backward()
        with pytest.raises(RuntimeError, match="parameter places as it was before the model was sharded"):
            early.step()

        class Own(torch.optim.SGD):
            pass

        kinds = [Own] + [getattr(torch.optim, name) for name in ("Adafactor", "Muon") if hasattr(torch.optim, name)]  # of newer torch
        for kind in kinds:
            with pytest.raises(TypeError, match=f"{kind.__name__} is not known to work element by element, and parameter"):
                kind([each for each in net.parameters() if each.dim() == 2], lr=0.1).step()
        before = net.sharded_state_dict()["shards"]
        paro.element_wise(Own)(net.parameters(), lr=0.1).step()
        assert any((value != before[name]).any() for name, value in net.sharded_state_dict()["shards"].items())

    def with_each(rank, size):
        for kind in (torch.optim.SGD, torch.optim.Adam, torch.optim.Adamax, torch.optim.NAdam, torch.optim.RAdam, torch.optim.RMSprop,
                     torch.optim.Adagrad, torch.optim.Adadelta, torch.optim.Rprop, torch.optim.ASGD):
            alone, net = made(Layers, [0, 1, 3]), paro.shard(made(Layers, [0, 1, 3]), strategy="IIG")
            for model, ranks in ((alone, range(size)), (net, [rank])):
                optimizer = kind(model.parameters(), lr=0.01)
                for number in range(2):
                    one_step(model, optimizer, ranks, number)
            close_to(net.state_dict(), alone.state_dict())

    on_nodes(body)
    on_nodes(with_each)


class _Overflow(torch.autograd.Function):
    @staticmethod
    def forward(ctx, values, factor):
        ctx.factor = factor
        return values.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.factor, None


def test_a_grad_scaler_skips_a_step_on_all_ranks():
    def run(net, ranks, unscaled, **options):
        """The scale after each step, and how many steps the optimizer made. In the third, the embedding's gradient overflows on one rank."""
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)
        optimizer, scales = torch.optim.AdamW(net.parameters(), lr=0.01, **options), []
        for number in range(4):
            optimizer.zero_grad()
            for rank in ranks:
                factor = float("inf") if (number, rank) == (2, 1) else 1.0
                hook = net.words.register_forward_hook(lambda module, args, output: _Overflow.apply(output, factor))
                scaler.scale(loss_of(net, number, [rank]) / len(ranks)).backward()
                hook.remove()
            if unscaled:
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(net.parameters(), 0.1)
            scaler.step(optimizer)
            scaler.update()
            scales.append(scaler.get_scale())
        return scales, {float(state["step"]) for state in optimizer.state.values()}

    def body(rank, size):
        for unscaled, options in ((True, {}), (False, {"fused": True})):
            alone = made(Gpt)
            expected = run(alone, range(size), unscaled, **options)
            assert expected == ([1024, 2048, 1024, 1024], {3.0})
            for strategy in SOME:
                net = paro.shard(made(Gpt), strategy=strategy)
                assert run(net, [rank], unscaled, **options) == expected
                close_to(net.state_dict(), alone.state_dict())

    on_nodes(body)


def test_refused_with_the_name_of_the_parameter():
    def body(rank, size):
        net = paro.shard(made(Layers, [0, 1, 2, 3]), strategy="IIG")
        optimizer = adam(net)

        def scaled_in_place(module, args):
            with torch.no_grad():
                module[0].weight.mul_(2)

        hook = net.layers[1].register_forward_pre_hook(scaled_in_place)
        with pytest.raises(RuntimeError, match=r"parameter layers.1.0.weight was changed in place in the forward pass of layers.1"):
            net(inputs_of(0, rank))
        hook.remove()
        kept = []
        hook = net.layers[1].register_forward_hook(lambda module, args, output: kept.append(module[0].weight), prepend=True)
        with pytest.raises(RuntimeError, match=r"parameter layers.1.0.weight.* is still referred to after the forward pass of layers.1"):
            net(inputs_of(0, rank))
        kept.clear()
        try:
            raise KeyError
        except KeyError:  # an exception from before the call
            with pytest.raises(RuntimeError, match=r"parameter layers.1.0.weight.* is still referred to after the forward pass of layers.1"):
                net(inputs_of(0, rank))
        hook.remove()
        kept.clear()
        net(inputs_of(0, rank)).sum().backward()
        optimizer.step()
        loss = net(inputs_of(0, rank)).sum()
        with pytest.raises(RuntimeError, match=r"parameter .*layers.0.0.* was not cleared"):
            loss.backward()
        with pytest.raises(RuntimeError, match="gradients of the last optimizer step are gone"):
            net.layers[0][0].weight.grad.add_(1)
        with pytest.raises(RuntimeError, match="no gradients to clip"):
            net.clip_grad_norm_(1)
        one_step(net, optimizer, [rank])
        net(inputs_of(0, rank))
        with torch.no_grad():
            net.layers[3][0].weight.data.add_(1)
        with pytest.raises(RuntimeError, match="the shard of parameter layers.3.0.weight was changed outside of an optimizer step"):
            net(inputs_of(0, rank))

    def between_passes(rank, size):
        for strategy in SOME:
            net = paro.shard(made(Layers, [0]), strategy=strategy, units=[])
            optimizer = adam(net)
            for _ in range(2):  # from the second on, the unit stays gathered from the forward to the backward pass
                one_step(net, optimizer, [rank])
            loss = net(inputs_of(0, rank)).sum()
            with torch.no_grad():
                net.layers[0][0].weight.mul_(3)
            with pytest.raises(RuntimeError, match="the shard of parameter layers.0.0.weight was changed outside of an optimizer step"):
                optimizer.zero_grad()
                loss.backward()

    def when_sharded(rank, size):
        net = paro.shard(nn.Embedding(4, 2), strategy="GGG")
        for module, why in ((nn.Linear(2, 2).to(torch.complex64), "weight has torch.complex64"), (nn.LazyLinear(2), "weight has no size")):
            with pytest.raises(TypeError, match=why):
                paro.shard(module)
        with pytest.raises(ValueError, match="sharded already"):
            paro.shard(nn.Sequential(net))

    on_nodes(body)
    on_nodes(between_passes)
    on_nodes(when_sharded)


def test_sparse_gradients_are_refused():
    def body(rank, size):
        net = paro.shard(nn.Embedding(4, 2, sparse=True), strategy="GGG")
        with pytest.raises(TypeError, match="parameter weight has a sparse gradient"):
            net(torch.tensor([1])).sum().backward()

    on_nodes(body)


@pytest.mark.parametrize("strategy", ("IIG", pytest.param("GGG", marks=pytest.mark.costly)))
def test_a_killed_rank_is_named_by_its_number_among_all(strategy):
    def body(rank, size, folder):
        join_nodes(rank, size, folder)
        net = paro.shard(made(Layers, [0, 1]), strategy=strategy)
        optimizer = adam(net)
        one_step(net, optimizer, [rank])
        dist.barrier()
        if rank == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        for _ in range(100):
            one_step(net, optimizer, [rank])

    outcomes = run(4, body, group=False, timeout=120)
    for rank in (0, 1, 3):
        assert "RemoteError" in outcomes[rank].error and "rank 2" in outcomes[rank].error.splitlines()[-1], outcomes[rank].error


def test_ranks_that_do_different_things_are_told():
    def body(rank, size):
        net = paro.shard(made(Layers, [0, 1] if rank else [1, 0]), strategy="GGG")
        net(inputs_of(0, rank)).sum().backward()
        with pytest.raises(RuntimeError, match="ranks used parameters in different orders"):
            adam(net).step()

    def other_models(rank, size):
        with pytest.raises(RuntimeError, match=r"rank 1: parameter 0 \(weight\) has 16 float32 "):
            paro.shard(nn.Linear(4, 4 if rank == 1 else 5), strategy="GGG")

    on_nodes(body)
    on_nodes(other_models)
