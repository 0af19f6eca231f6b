"""Training on emulated nodes of 4 and 3 ranks: as in one process, and with no more bytes between the nodes than the collectives need."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from launching import horing_run, need_emulated_nodes
from names import HAS_FSDP2_ON_CPU, HAS_PARO, fully_shard, needs_fsdp2_on_cpu, needs_paro

NODES = (4, 3)
ELEMENTS = 1 << 20
BYTES = 4 * ELEMENTS


def sent_by_this_node() -> int:
    """To the other one, so far, by the counters of its interfaces."""
    names = os.environ["HORING_RUN_INTERFACES"].split(",")
    with open("/proc/net/dev") as file:
        lines = [line.split(":") for line in file if ":" in line]
    return sum(int(counts.split()[8]) for name, counts in lines if name.strip() in names)


def sent_by_nodes(work) -> list[int]:
    """What each node sends while all ranks do `work`."""
    dist.barrier()
    before = sent_by_this_node()
    dist.barrier()
    work()
    dist.barrier()
    counts = torch.zeros(len(NODES), dtype=torch.int64)
    counts[int(os.environ["HORING_RUN_NODE"])] = sent_by_this_node() - before
    dist.all_reduce(counts, op=dist.ReduceOp.MAX)
    return counts.tolist()


def net() -> torch.nn.Module:
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(512, 1024, bias=False), torch.nn.Linear(1024, 512, bias=False))


def batch(step: int, rank: int) -> torch.Tensor:
    return torch.randn(2, 512, generator=torch.Generator().manual_seed(100 * step + rank))


def train(model: torch.nn.Module, ranks, steps: int) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(steps):
        optimizer.zero_grad()
        model(torch.cat([batch(step, rank) for rank in ranks])).square().mean().backward()
        optimizer.step()


def compare(model: torch.nn.Module, steps: int) -> None:
    expected = net()
    train(expected, range(sum(NODES)), steps)
    for got, wanted in zip(model.state_dict().values(), expected.state_dict().values(), strict=True):
        torch.testing.assert_close(got.full_tensor() if hasattr(got, "full_tensor") else got, wanted)


def collectives() -> dict:
    size = dist.get_world_size()
    whole, block = torch.ones(ELEMENTS), torch.ones(ELEMENTS // size)
    parts = torch.ones(block.numel() * size)
    calls = {"all_reduce": lambda: dist.all_reduce(whole, dist.ReduceOp.MAX),
             "all_gather": lambda: dist.all_gather_into_tensor(parts, block),
             "reduce_scatter": lambda: dist.reduce_scatter_tensor(block, parts),
             "broadcast": lambda: dist.broadcast(whole, 1)}
    for call in calls.values():
        call()
    return {name: sent_by_nodes(call) for name, call in calls.items()}


def trained(wrap, inner=lambda model: model) -> list[int]:
    """What each node sends in an optimizer step, after a first one whose result was compared with one process."""
    model, rank = wrap(net()), dist.get_rank()
    train(model, [rank], 1)
    compare(inner(model), 1)
    train(model, [rank], 1)  # what its end leaves to the next step is counted there
    return sent_by_nodes(lambda: train(model, [rank], 1))


def ddp() -> list[int]:
    from torch.nn.parallel import DistributedDataParallel

    return trained(DistributedDataParallel, lambda model: model.module)


def fsdp2() -> list[int]:
    def wrap(model):
        for layer in model:
            fully_shard(layer)
        return fully_shard(model)

    return trained(wrap)


def paro() -> dict:
    from horing.torch import paro

    return {name: trained(lambda model: paro.shard(model, strategy=name)) for name in ("NNN", "IIG", "GGG")}


def main(result: str, parts: list[str]) -> None:
    """On each rank."""
    import horing.torch  # noqa: F401

    torch.set_num_threads(1)
    dist.init_process_group("horing")
    found = {part: globals()[part]() for part in parts}
    if dist.get_rank() == 0:
        Path(result).write_text(json.dumps(found))
    dist.destroy_process_group()


# One job for all tests: most of the time goes to the import of PyTorch in every rank.
@pytest.fixture(scope="module")
def sent(tmp_path_factory) -> dict:
    """What each node sent, by part."""
    from test_examples import output

    need_emulated_nodes()
    result = tmp_path_factory.mktemp("job") / "result.json"
    parts = ["collectives", "ddp"] + ["fsdp2"] * HAS_FSDP2_ON_CPU + ["paro"] * HAS_PARO
    output(horing_run("--ranks-per-node", ",".join(map(str, NODES)), "--rate", "1000"), __file__, str(result), *parts)
    return json.loads(result.read_text())


# What a node holds of a vector that all ranks share evenly: it sends that in an all-gather, and the rest in a reduce-scatter.
PARTS = [BYTES * members / sum(NODES) for members in NODES]
# 1448 bytes take a frame of 1514, which the other node acknowledges with 66 bytes at most; the barriers and horing's control plane send a few KiB.
DATA, FRAME, ACKNOWLEDGEMENT, FEW = 1448, 1514, 66, 64 << 10


def check_sent(sent: list[int], needed: tuple[float, float]) -> None:
    most = [(FRAME * own + ACKNOWLEDGEMENT * others) / DATA + FEW for own, others in zip(needed, reversed(needed), strict=True)]
    assert all(count <= bound for count, bound in zip(sent, most, strict=True)), (sent, most)
    assert all(count >= least for count, least in zip(sent, needed, strict=True)), (sent, needed)  # or nothing was counted


def test_collectives_send_what_they_must(sent):
    check_sent(sent["collectives"]["all_reduce"], (BYTES, BYTES))
    check_sent(sent["collectives"]["all_gather"], (PARTS[0], PARTS[1]))
    check_sent(sent["collectives"]["reduce_scatter"], (PARTS[1], PARTS[0]))
    check_sent(sent["collectives"]["broadcast"], (BYTES, 0))


def test_ddp_trains_as_one_process_does(sent):
    check_sent(sent["ddp"], (BYTES, BYTES))


# Each layer is gathered forward and again backward, then its gradients are scattered.
@needs_fsdp2_on_cpu
def test_fsdp2_trains_as_one_process_does(sent):
    check_sent(sent["fsdp2"], (2 * PARTS[0] + PARTS[1], 2 * PARTS[1] + PARTS[0]))


# Of GGG both layers, the one in use and the one that is fetched ahead, stay gathered until the backward pass.
@needs_paro
def test_paro_trains_as_one_process_does(sent):
    for strategy in ("NNN", "IIG", "GGG"):
        check_sent(sent["paro"][strategy], (BYTES, BYTES))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
