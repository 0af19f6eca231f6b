"""horing.torch.paro on an emulated GPU: order between the caller's streams and PaRO's, memory, devices."""

from __future__ import annotations

import contextlib
import gc
import threading

import pytest
import torch
from torch import nn

import emulated_gpu
import ranks
from emulated_gpu import KIND
from horing.torch import paro
from horing.torch.paro import memory
from names import needs_paro
from paro_models import Gpt, loss_of, made, mean_over_ranks, train
from test_paro import close_to, on_nodes

pytestmark = needs_paro
DEVICE = f"{KIND}:0"
WIDTH = 64
LATE = 0.3  # seconds


@pytest.fixture(autouse=True)
def _on_gpu(monkeypatch):
    emulated_gpu.need()
    monkeypatch.setattr(ranks, "on_gpu", True)


def module():
    return torch.get_device_module(KIND)


def late(stream) -> None:
    """The stream goes on a while later: whoever is not ordered behind it comes first."""
    held = contextlib.ExitStack()
    held.enter_context(emulated_gpu.hold(stream))
    threading.Timer(LATE, held.close).start()


def streams():
    """The client's, and another one."""
    return module().current_stream(), module().Stream(DEVICE)


class Reads(nn.Module):
    """Copies its weight to `seen` on the caller's stream."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))
        self.seen = [torch.zeros(WIDTH)]
        self.before = lambda: None

    def forward(self, inputs):
        self.before()
        self.seen[0].copy_(self.weight)
        return inputs


def readers(strategy: str = "GGG"):
    """Sharded, of values 1, 2, 3, 4, and called before, so that memory is there."""
    net = paro.shard(nn.Sequential(*(Reads() for _ in range(4))), strategy=strategy, units=[Reads])
    with torch.no_grad():
        for _ in range(2):
            net(torch.ones(1))
        net.load_state_dict({name: torch.full((WIDTH,), number + 1.0) for number, name in enumerate(net.state_dict())})
    module().synchronize()
    return net


def check_seen(net) -> None:
    module().synchronize()
    assert [sorted(set(layer.seen[0].tolist())) for layer in net] == [[1], [2], [3], [4]]


def test_a_forward_pass_on_another_stream_sees_the_gathered_values():
    def body(rank, size):
        net, (own, side) = readers(), streams()
        late(own)
        with torch.no_grad(), side:
            net(torch.ones(1))
        check_seen(net)

    on_nodes(body)


def test_memory_is_gathered_into_after_the_kernels_that_read_it():
    def body(rank, size):
        net, (_, side) = readers(), streams()
        net[0].before = lambda: late(side)
        with torch.no_grad(), side:
            net(torch.ones(1))
        check_seen(net)

    on_nodes(body)


def test_forward_passes_alone_forget_their_streams():
    def body(rank, size):
        net = readers()
        for _ in range(4):
            with torch.no_grad(), module().Stream(DEVICE):
                net(torch.ones(1))
                assert len(net._paro.client.memory._of_pass) == 1
        check_seen(net)

    on_nodes(body)


@pytest.mark.parametrize("strategy", ("NNG", "IIG", "GGG"))
def test_ranks_get_what_an_optimizer_on_another_stream_has_written(strategy):
    def body(rank, size):
        net, (_, side) = paro.shard(nn.Linear(WIDTH, 3), strategy=strategy), streams()
        new = [torch.full_like(each.detach().as_subclass(torch.Tensor), 7.0) for each in net.parameters()]
        for _ in range(2):  # the first for memory
            net(torch.ones(1, WIDTH)).sum().backward()
            assert all(each.grad is not None for each in net.parameters())
            module().synchronize()
            with torch.no_grad(), side:
                late(side)
                for parameter, values in zip(net.parameters(), new):
                    parameter.copy_(values)
                whole = net.state_dict()
            net.zero_grad()
            module().synchronize()
            assert all((value == 7).all() for value in whole.values())
            new = [torch.full_like(each, 7.0) for each in new]
            net.load_state_dict({name: torch.zeros_like(value) for name, value in whole.items()})

    on_nodes(body)


class _Late(torch.autograd.Function):
    """A gradient that a kernel writes late."""

    @staticmethod
    def forward(ctx, values, gradient):
        ctx.gradient = gradient
        return values.detach()

    @staticmethod
    def backward(ctx, _):
        late(module().current_stream())
        return torch.empty_like(ctx.gradient).copy_(ctx.gradient), None


class Scales(nn.Module):
    """By a weight, whose gradient is given and comes late, if there is one."""

    def __init__(self):
        super().__init__()
        self.weight, self.gradient = nn.Parameter(torch.ones(WIDTH)), [None]

    def forward(self, inputs):
        weight = self.weight if self.gradient[0] is None else _Late.apply(self.weight, self.gradient[0])
        return inputs * weight


class Two(nn.Module):
    """The second on another stream."""

    def __init__(self, side):
        super().__init__()
        self.parts, self.side = nn.ModuleList(Scales() for _ in range(2)), [side]

    def forward(self, inputs):
        hidden = self.parts[0](inputs)
        first, side = module().current_stream(), self.side[0]
        side.wait_stream(first)
        with side:
            hidden = self.parts[1](hidden)
        first.wait_stream(side)
        return hidden


def backward_of(net, gradient: torch.Tensor | None) -> None:
    """Of the second part's weight the gradient is `gradient`, which comes late."""
    net.parts[1].gradient[0] = gradient
    inputs = torch.ones(WIDTH, requires_grad=True)
    net(inputs).backward(torch.ones(WIDTH))


@pytest.mark.parametrize("strategy", ("NNG", "GGG"))
@pytest.mark.parametrize("all_on_one_stream", (True, False))
def test_gradients_are_complete_before_they_are_reduced(strategy, all_on_one_stream):
    """Also where the unit's inputs have their gradients on a stream that does not wait for that of its weights."""
    def body(rank, size):
        _, side = streams()
        net = paro.shard(Two(side), strategy=strategy, units=[Scales])
        expected = torch.full((WIDTH,), 5.0)
        for gradient in (None, expected):
            net.zero_grad()
            with side if all_on_one_stream else contextlib.nullcontext():
                backward_of(net, gradient)
                grad = net.parts[1].weight.grad.as_subclass(torch.Tensor)
            module().synchronize()
        assert (grad == 5).all(), grad

    on_nodes(body)


def test_memory_of_gradients_is_given_to_others_after_they_were_reduced():
    def body(rank, size):
        own, side = streams()
        for strategy in ("NNG", "GGG"):
            net = paro.shard(Two(side), strategy=strategy, units=[Scales])
            gradients, client, poison = net._paro.gradients, net._paro.client, torch.full((WIDTH,), -100.0)
            expected = torch.full((WIDTH,), 5.0)
            reduce, reduce_grads, taken = gradients._reduce, client.reduce_grads, []

            def reduced_late(bucket, grads):
                late(own)
                reduce_grads(bucket, grads)

            def reuse(bucket):
                reduce(bucket)
                with side:  # where the second part's gradient was made
                    taken.extend(torch.empty_like(poison).copy_(poison) for _ in range(3))

            backward_of(net, None)
            net.zero_grad()
            module().synchronize()
            gradients._reduce, client.reduce_grads = reuse, reduced_late
            backward_of(net, expected)
            grad = net.parts[1].weight.grad.as_subclass(torch.Tensor)
            module().synchronize()
            assert (grad == 5).all(), grad

    on_nodes(body)


class _Saves(torch.autograd.Function):
    """Notes whether its stream has work to wait for, once the backward pass has asked for the weight."""

    @staticmethod
    def forward(ctx, weight, waits, before):
        ctx.save_for_backward(weight)
        ctx.waits, ctx.before = waits, before
        return weight.new_empty(WIDTH)

    @staticmethod
    def backward(ctx, gradient):
        ctx.before()
        _ = ctx.saved_tensors
        ctx.waits.append(not module().current_stream().query())
        return gradient, None, None


def test_each_stream_of_a_backward_pass_waits_for_the_gathered_values():
    class Net(nn.Module):
        def __init__(self, side):
            super().__init__()
            self.weight, self.side, self.waits = nn.Parameter(torch.ones(WIDTH)), [side], {"own": [], "side": []}
            self.before = lambda: None

        def forward(self, inputs):
            with self.side[0]:
                last = _Saves.apply(self.weight, self.waits["side"], lambda: None)
            return last, _Saves.apply(self.weight, self.waits["own"], self.before)  # the first of the backward pass

    def body(rank, size):
        own, side = streams()
        net = paro.shard(Net(side), strategy="GGG")
        ones = [torch.ones(WIDTH) for _ in range(2)]
        for number in range(2):
            net.zero_grad()
            if number == 1:
                net.before = lambda: late(own)
            outputs = net(torch.ones(1))
            for each in net.waits.values():
                each.clear()
            module().synchronize()
            torch.autograd.backward(outputs, ones)
        assert net.waits == {"own": [True], "side": [True]}

    on_nodes(body)


def test_training_on_another_stream_and_another_gpu(tmp_path):
    def body(rank, size):
        with torch.device(f"{KIND}:1"):
            alone = made(Gpt)
            expected = torch.tensor(train(alone, range(size)), dtype=torch.float64)
            for strategy in ("NNG", "IIG", "GGG"):
                net = paro.shard(made(Gpt), strategy=strategy)
                assert all(each.device == torch.device(f"{KIND}:1") for each in net.parameters())
                with module().Stream(f"{KIND}:1"):
                    torch.testing.assert_close(mean_over_ranks(train(net, [rank])), expected, rtol=1e-10, atol=1e-10)
                    saving = net.save_checkpoint(tmp_path / strategy, background=True)
                    close_to(net.state_dict(), alone.state_dict())
                saving.result()
                with torch.device("cpu"):
                    on_host = paro.shard(made(Gpt), strategy="III")
                    on_host.load_checkpoint(tmp_path / strategy)
                    close_to({name: value.to(f"{KIND}:1") for name, value in on_host.state_dict().items()}, alone.state_dict())

    on_nodes(body)


def test_the_same_bits_as_on_the_host(monkeypatch):
    monkeypatch.setenv("HORING_REPRODUCIBLE", "1")  # whichever algorithms are chosen

    def trained(strategy, rank, **options):
        generator = torch.Generator().manual_seed(rank)
        net = paro.shard(nn.Sequential(*(Scales() for _ in range(3))), strategy=strategy, units=[Scales], **options)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        for _ in range(3):
            optimizer.zero_grad()
            for _ in range(2):
                net(torch.randn(WIDTH, generator=generator)).backward(torch.ones(WIDTH, dtype=options.get("gather_dtype")))
            optimizer.step()
        return {name: value.cpu() for name, value in net.state_dict().items()}

    def body(rank, size):
        for strategy in ("NNI", "NIG", "IIG", "GGG"):
            for options in ({}, {"gather_dtype": torch.bfloat16, "reduce_dtype": torch.float32}, {"gather_dtype": torch.float16}):
                on_gpu = trained(strategy, rank, **options)
                with torch.device("cpu"):
                    on_host = trained(strategy, rank, **options)
                assert all(torch.equal(value, on_host[name]) for name, value in on_gpu.items()), (strategy, options)
                assert not any(torch.equal(value, torch.ones(WIDTH, device="cpu")) for value in on_gpu.values())

    on_nodes(body)


class _CopiesInBackward(torch.autograd.Function):
    """Its backward copies the saved weight to `seen` on its stream."""

    @staticmethod
    def forward(ctx, inputs, weight, layer):
        ctx.save_for_backward(weight)
        ctx.layer = layer
        return inputs.new_empty(WIDTH)

    @staticmethod
    def backward(ctx, gradient):
        weight, = ctx.saved_tensors
        ctx.layer.before()
        ctx.layer.seen[0].copy_(weight)
        return gradient, None, None


class Saves(Reads):
    def __init__(self):
        super().__init__()
        self.weight.requires_grad = False

    def forward(self, inputs):
        return _CopiesInBackward.apply(inputs, self.weight, self)


class Branches(nn.Module):
    """One layer on a stream, nine on another."""

    def __init__(self, one, other):
        super().__init__()
        self.alone, self.many = Saves(), nn.ModuleList(Saves() for _ in range(9))
        self.streams = one, other
        self.trained = nn.Parameter(torch.ones(WIDTH))

    def forward(self, alone, many):
        caller = module().current_stream()
        for stream in self.streams:
            stream.wait_stream(caller)
        with self.streams[1]:
            for layer in self.many:
                many = layer(many)
        with self.streams[0]:
            alone = self.alone(alone)
        for stream in self.streams:
            caller.wait_stream(stream)
        return alone, many


def test_memory_is_gathered_into_after_all_streams_of_a_pass_that_read_it():
    """What the late branch of a backward pass reads is released while the other branch's stream is current."""
    def body(rank, size):
        one, other = module().Stream(DEVICE), module().Stream(DEVICE)
        net = paro.shard(Branches(one, other), strategy="GGG", units=[Saves])
        net.load_state_dict({name: torch.full((WIDTH,), number + 1.0) for number, name in enumerate(net.state_dict())})
        expected = [value.clone() for name, value in net.state_dict().items() if name != "trained"]
        for step in range(4):
            if step == 3:
                net.alone.before = lambda: late(one)
            with one:
                alone = torch.ones(WIDTH, requires_grad=True)
            outputs = net(alone, torch.ones(WIDTH, requires_grad=True))
            module().synchronize()
            torch.autograd.backward(outputs, [torch.ones(WIDTH), torch.ones(WIDTH)])
            module().synchronize()
            for parameter in net.parameters():
                parameter.grad  # the end of the pass
        for layer, value in zip((net.alone, *net.many), expected, strict=True):
            torch.testing.assert_close(layer.seen[0], value, rtol=0, atol=0)

    on_nodes(body)


def test_parameters_on_several_devices_are_refused_by_name():
    def body(rank, size):
        with pytest.raises(TypeError, match=rf"parameter 1.weight is on cpu, and parameter 0.weight on {DEVICE}: expected all on one device"):
            paro.shard(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2, device="cpu")))
        with pytest.raises(TypeError, match=rf"parameter weight is on {DEVICE}, and device= {KIND}:1: expected all on one device"):
            paro.shard(nn.Linear(2, 2), device=f"{KIND}:1")
        with pytest.raises(TypeError, match="device is on mps: expected cpu, emulated"):
            paro.shard(nn.Linear(2, 2, device="meta"), device="mps")
        with pytest.raises(RuntimeError, match="onGpu"):  # on some ranks only
            paro.shard(nn.Linear(2, 2, device=None if rank else "cpu"), strategy="GGG")

    on_nodes(body)


def test_memory_is_torchs_and_is_given_back():
    def body(rank, size):
        for strategy in ("NNN", "IIG", "GGG"):
            net = paro.shard(made(Gpt), strategy=strategy)
            train(net, [rank], steps=2)
            usage, client = net.usage(), net._paro.client
            assert f"in memory of {DEVICE}" in net.summary()
            held = sum(len(block) for block in client.memory._blocks.values())
            assert held == usage.kept + usage.gathered + usage.grad_buffers + 262_144
            assert usage.gathered <= net._paro.cost.gathered
            shard = next(each for each in net.parameters() if each.numel()).detach().as_subclass(torch.Tensor)
            values = shard.cpu()
            blocks = client.memory._blocks
            del net, client
            gc.collect()
            assert not blocks
            torch.full((100_000,), 3.0)
            assert torch.equal(shard.cpu(), values)  # memory that a tensor refers to stays

    on_nodes(body)


def test_memory_that_is_not_there_is_an_error_on_all_ranks(monkeypatch):
    class Limited:
        def __getattr__(self, name):
            return getattr(torch, name)

        def empty(self, *_, **__):
            raise torch.OutOfMemoryError("of the test")

    def body(rank, size):
        if rank == 1:
            monkeypatch.setattr(memory, "torch", Limited())
        with pytest.raises(RuntimeError, match="rank 1: memory.allocate gave NULL for .* bytes"):
            paro.shard(made(Gpt), strategy="GGG")

    on_nodes(body)


def test_a_rank_may_change_streams_between_calls():
    def body(rank, size):
        net = paro.shard(made(Gpt), strategy="IIG")
        alone = made(Gpt)
        for model, several in ((alone, [None]), (net, [module().Stream(DEVICE) for _ in range(3)])):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for number in range(4):
                stream = several[number % len(several)]
                with stream or contextlib.nullcontext():
                    optimizer.zero_grad()
                    loss_of(model, number, [rank] if model is net else range(size)).backward()
                    optimizer.step()
                if stream:
                    several[(number + 1) % len(several)].wait_stream(stream)
        module().synchronize()
        close_to(net.state_dict(), alone.state_dict())

    on_nodes(body)
