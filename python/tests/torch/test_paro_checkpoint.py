"""horing.torch.paro: checkpoints of any strategy and number of ranks, to and from FSDP2, and damaged ones."""

from __future__ import annotations

import math
import random
import shutil
import warnings
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

from horing.torch import paro
from horing.torch.paro.pieces import boxes
from names import fully_shard, needs_fsdp2_on_cpu, needs_paro
from paro_models import Gpt, loss_of, made, mean_over_ranks
from ranks import kind
from test_paro import close_to, on_nodes

pytestmark = needs_paro


def adam(model) -> torch.optim.Optimizer:
    parameters = list(model.parameters())
    return torch.optim.AdamW([{"params": parameters[:3], "lr": 0.01}, {"params": parameters[3:], "weight_decay": 0.3}], lr=0.02)


def steps(model, optimizer, ranks, first, count) -> list[float]:
    lost = []
    for number in range(first, first + count):
        optimizer.zero_grad()
        loss = loss_of(model, number, ranks)
        loss.backward()
        optimizer.step()
        lost.append(loss.item())
    return lost


def continued(loaded: nn.Module, optimizer, rank, size) -> None:
    """After two steps it continues as one process does."""
    alone = made(Gpt, frozen=True)
    others = adam(alone)
    steps(alone, others, range(4), 0, 2)
    for group in others.param_groups:
        group["lr"] *= 0.5
    mine = range(4 // size * rank, 4 // size * (rank + 1))  # of the four batches
    expected = torch.tensor(steps(alone, others, range(4), 2, 2), dtype=torch.float64)
    torch.testing.assert_close(mean_over_ranks(steps(loaded, optimizer, mine, 2, 2)), expected, rtol=1e-10, atol=1e-10)
    if isinstance(loaded, paro.ShardedModule):
        close_to(loaded.state_dict(), alone.state_dict())


def fsdp() -> tuple[nn.Module, torch.optim.Optimizer]:
    model = made(Gpt, frozen=True)
    for layer in model.layers:
        fully_shard(layer)
    return fully_shard(model), adam(model)


def test_boxes():
    generator = random.Random(1)
    for _ in range(300):
        shape = tuple(generator.randint(1, 4) for _ in range(generator.randint(0, 4)))
        whole = torch.arange(math.prod(shape)).view(shape)
        first = generator.randint(0, whole.numel())
        end = generator.randint(first, whole.numel())
        found = [whole[tuple(slice(offset, offset + size) for offset, size in zip(*box))].flatten() for box in boxes(shape, first, end)]
        assert [value for each in found for value in each.tolist()] == list(range(first, end))
        assert len(found) <= max(1, 2 * len(shape) - 1)


def test_any_strategy_and_number_of_ranks_goes_on(tmp_path):
    def save(rank, size):
        for strategy in ("IIG", "NNN", "III"):
            model = paro.shard(made(Gpt, frozen=True), strategy=strategy)
            optimizer = adam(model)
            steps(model, optimizer, [rank], 0, 2)
            for group in optimizer.param_groups:
                group["lr"] *= 0.5
            model.save_checkpoint(tmp_path / strategy, optimizer, 2)
            continued(model, optimizer, rank, size)

    def load(rank, size):
        for number, (strategy, folder) in enumerate((("GGG", "IIG"), ("NNG", "III"), ("NNN", "IIG"), ("GGG", "NNN"))):
            if number % 2:
                with torch.device("meta"):
                    model = Gpt(frozen=True).double()
            else:
                model = Gpt(frozen=True).double()
            model = paro.shard(model, strategy=strategy, device=kind())
            optimizer = adam(model)
            assert model.load_checkpoint(tmp_path / folder, optimizer) == 2
            continued(model, optimizer, rank, size)

    on_nodes(save)
    on_nodes(load, 2, 1)


class Small(nn.Module):
    """With a number and an empty parameter, and statistics that differ between ranks."""

    def __init__(self):
        super().__init__()
        self.factor, self.nothing = nn.Parameter(torch.tensor(2.0)), nn.Parameter(torch.empty(0))
        self.parts = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))

    def forward(self, inputs):
        return self.parts(inputs) * self.factor + self.nothing.sum()


def test_numbers_and_statistics(tmp_path):
    def body(rank, size):
        def step(model, optimizer):
            optimizer.zero_grad()
            model(torch.full((2, 3), rank + 1.0) + torch.eye(3)[:2]).square().sum().backward()
            optimizer.step()

        first = paro.shard(Small(), strategy="IIG")
        optimizer = torch.optim.NAdam(first.parameters(), lr=0.1)
        step(first, optimizer)
        first.save_checkpoint(tmp_path / "saved", optimizer, 7)
        second = paro.shard(Small(), strategy="GGG")
        others = torch.optim.NAdam(second.parameters(), lr=0.1)
        assert second.load_checkpoint(tmp_path / "saved", others) == 7
        statistics = first.parts[1].running_mean.clone()
        dist.broadcast(statistics, 0)
        torch.testing.assert_close(second.parts[1].running_mean, statistics)
        step(first, optimizer)
        step(second, others)
        expected, got = first.state_dict(), second.state_dict()
        for name, _ in first.named_parameters():
            torch.testing.assert_close(got[name], expected[name], msg=name)

    on_nodes(body)


@needs_fsdp2_on_cpu
def test_fsdp2_loads_what_paro_saved(tmp_path):
    def save(rank, size):
        model = paro.shard(made(Gpt, frozen=True), strategy="IIG")
        optimizer = adam(model)
        steps(model, optimizer, [rank], 0, 2)
        for group in optimizer.param_groups:
            group["lr"] *= 0.5
        model.save_checkpoint(tmp_path / "saved", optimizer)

    def load(rank, size):
        model, optimizer = fsdp()
        state = dict(zip(("model", "optim"), get_state_dict(model, optimizer)))
        dcp.load(state, checkpoint_id=tmp_path / "saved")
        set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optim"])
        continued(model, optimizer, rank, size)

    on_nodes(save)
    on_nodes(load, 2, 1)


@needs_fsdp2_on_cpu
def test_paro_loads_what_fsdp2_saved(tmp_path):
    def save(rank, size):
        model, optimizer = fsdp()
        steps(model, optimizer, range(2 * rank, 2 * rank + 2), 0, 2)
        for group in optimizer.param_groups:
            group["lr"] *= 0.5
        dcp.save(dict(zip(("model", "optim"), get_state_dict(model, optimizer))), checkpoint_id=tmp_path / "both")
        dcp.save(model.state_dict(), checkpoint_id=tmp_path / "model")

    def load(rank, size):
        for strategy in ("IIG", "NIG"):
            model = paro.shard(Gpt(frozen=True).double(), strategy=strategy)
            optimizer = adam(model)
            assert model.load_checkpoint(tmp_path / "both", optimizer) == 0
            expected = model.state_dict()
            continued(model, optimizer, rank, size)
            assert model.load_checkpoint(tmp_path / "model") == 0
            close_to(model.state_dict(), expected)
            with pytest.raises(RuntimeError, match="it has no state of an optimizer"):
                model.load_checkpoint(tmp_path / "model", optimizer)

    on_nodes(save, 2, 1)
    on_nodes(load)


def test_no_good_ones_change_nothing_and_are_named(tmp_path):
    def body(rank, size):
        def refused(folder, why):
            with pytest.raises(RuntimeError, match=why):
                model.load_checkpoint(tmp_path / folder, optimizer)
            assert {float(state["step"]) for state in optimizer.state.values()} == {2}
            close_to(model.state_dict(), before)

        def on_rank_0(do):
            if rank == 0:
                do()
            dist.barrier()

        model = paro.shard(made(Gpt, frozen=True), strategy="IIG")
        optimizer = adam(model)
        steps(model, optimizer, [rank], 0, 1)
        moments = optimizer.state[model.places]["exp_avg"]
        some = moments[:4].cpu().numpy().tobytes()  # rank 0 has some
        model.save_checkpoint(tmp_path / "good", optimizer)
        with pytest.raises(RuntimeError, match="good: FileExistsError: there is a checkpoint already"):
            model.save_checkpoint(tmp_path / "good", optimizer)
        steps(model, optimizer, [rank], 1, 1)
        before = model.state_dict()
        refused("nothing", "nothing: FileNotFoundError: there is no complete checkpoint")

        for name in ("flipped", "cut", "gone", "metadata"):
            on_rank_0(lambda: shutil.copytree(tmp_path / "good", tmp_path / name))
        files = sorted((tmp_path / "good").glob("*.distcp"))
        assert len(files) == size
        on_rank_0(lambda: _flip_a_bit(tmp_path / "flipped", some))
        refused("flipped", "flipped is damaged: optim.state.places.exp_avg differs from the saved values. Nothing was loaded")
        on_rank_0(lambda: (tmp_path / "cut" / files[1].name).write_bytes(files[1].read_bytes()[:len(files[1].read_bytes()) // 2]))
        refused("cut", rf"cut: (model|optim)\.\S+ cannot be read from {files[1].name}: ")
        on_rank_0(lambda: (tmp_path / "gone" / files[2].name).unlink())
        refused("gone", rf"gone: (model|optim)\.\S+ cannot be read from {files[2].name}: FileNotFoundError")
        on_rank_0(lambda: (tmp_path / "metadata" / ".metadata").write_bytes((tmp_path / "good" / ".metadata").read_bytes()[:100]))
        refused("metadata", "its file .metadata cannot be read")

        parameters = list(model.parameters())
        swapped = torch.optim.SGD([{"params": parameters[:3]}, {"params": parameters[3:]}], lr=0.1, momentum=0.9)
        with pytest.raises(RuntimeError, match="it was saved of another optimizer: SGD has no amsgrad, and there is no dampening"):
            model.load_checkpoint(tmp_path / "good", swapped)
        close_to(model.state_dict(), before)
        assert not swapped.state

        other = paro.shard(nn.Linear(3, 3).double(), strategy="GGG")
        other.save_checkpoint(tmp_path / "other", torch.optim.SGD(other.parameters(), lr=0.1))
        refused("other", r"of another model: missing \['places', .* unexpected \['model.weight', 'model.bias'\]")
        with pytest.raises(RuntimeError, match=r"model.weight has shape \(3, 3\) there, and shape \(5, 3\) in the model"):
            paro.shard(nn.Linear(3, 5).double(), strategy="GGG").load_checkpoint(tmp_path / "other")
        with pytest.raises(RuntimeError, match="TypeError: the optimizer has a parameter that is not one of this model's"):
            model.save_checkpoint(tmp_path / "mixed", torch.optim.SGD(other.parameters(), lr=0.1, momentum=0.9))
        assert model.load_checkpoint(tmp_path / "good", optimizer) == 0
        assert {float(state["step"]) for state in optimizer.state.values()} == {1}

    on_nodes(body)


class Parts(nn.Module):
    """Of linear layers with these names."""

    def __init__(self, *names: str):
        super().__init__()
        self.parts = nn.ModuleDict({name: nn.Linear(3, 3) for name in names})

    def forward(self, inputs):
        for part in self.parts.values():
            inputs = part(inputs)
        return inputs


def test_parts_are_loaded_into_other_types(tmp_path):
    def step(model, optimizer, rank):
        optimizer.zero_grad()
        model(torch.full((2, 3), rank + 1.0, dtype=torch.float64)).double().square().sum().backward()
        optimizer.step()

    def states(model, optimizer, part):
        with torch._C.DisableTorchFunctionSubclass():
            return {key: value.clone() for key, value in optimizer.state[model.parts[part].weight].items()}

    def body(rank, size):
        torch.manual_seed(3)
        saved = paro.shard(Parts("base", "head").double(), strategy="GGG")
        first = torch.optim.Adam([{"params": saved.parts.base.parameters()}, {"params": saved.parts.head.parameters(), "lr": 0.5}], lr=0.1)
        step(saved, first, rank)
        saved.save_checkpoint(tmp_path / "saved", first, 4)
        values = saved.state_dict()
        for options in ({}, {"gather_dtype": torch.bfloat16}):
            model = Parts("base", "adapter").float()
            inputs = lambda module, args: (args[0].float(),)
            if not options:
                model.register_forward_pre_hook(inputs)
            model = paro.shard(model, strategy="IIG", **options)
            second = torch.optim.Adam([{"params": model.parts.base.parameters()}, {"params": model.parts.adapter.parameters()}], lr=0.3)
            step(model, second, rank)
            step(model, second, rank)
            before, kept = model.state_dict(), states(model, second, "adapter")
            with pytest.raises(RuntimeError, match=r"of another model: missing \['parts.adapter.weight', .*unexpected \['model.parts.head.weight'"):
                model.load_checkpoint(tmp_path / "saved", second)
            close_to(model.state_dict(), before)
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                assert model.load_checkpoint(tmp_path / "saved", second, strict=False) == 4
            texts = [str(each.message) for each in told if "it lacks ['parts.adapter.weight', 'parts.adapter.bias']" in str(each.message)]
            assert len(texts) == (rank == 0) and all("the model lacks ['model.parts.head.weight', " in text for text in texts), told
            after = model.state_dict()
            close_to(after, {key: values[key].float() if "base" in key else before[key] for key in before})
            for key, value in states(model, second, "adapter").items():
                torch.testing.assert_close(value, kept[key])
            assert [group["lr"] for group in second.param_groups] == [0.1, 0.3]
            assert float(states(model, second, "base")["step"]) == 1
            step(model, second, rank)
        frozen = Parts("base").double().requires_grad_(False)
        frozen = paro.shard(frozen, strategy="IIG")
        frozen.load_checkpoint(tmp_path / "saved", strict=False)
        close_to(frozen.state_dict(), {key: value for key, value in values.items() if "base" in key})
        with pytest.raises(RuntimeError, match="it has none of the model's parameters: missing"):
            paro.shard(Parts("other")).load_checkpoint(tmp_path / "saved", strict=False)
        with pytest.raises(RuntimeError, match=r"model.weight has torch.int64 there: expected a floating-point type"):
            if rank == 0:
                dcp.save({"model": {"weight": torch.zeros(2, 2, dtype=torch.int64)}}, checkpoint_id=tmp_path / "whole", no_dist=True)
            dist.barrier()
            paro.shard(nn.Linear(2, 2, bias=False), strategy="GGG").load_checkpoint(tmp_path / "whole")

    on_nodes(body)


def _flip_a_bit(folder: Path, value: bytes) -> None:
    """Of a number in one of the files, which torch.load does not notice."""
    for path in folder.glob("*.distcp"):
        content = bytearray(path.read_bytes())
        at = content.find(value)
        if at >= 0:
            content[at] ^= 1
            path.write_bytes(content)
            return
    raise AssertionError("the value is in no file")
