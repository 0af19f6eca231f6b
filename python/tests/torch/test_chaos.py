"""A rank is killed, stopped, or cut off from the network while all train: every other rank gets an exception that names it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest
import torch
import torch._dynamo  # noqa: F401 - once, instead of in every rank
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from launching import horing_run, need_emulated_nodes
from names import fully_shard, needs_fsdp2_on_cpu
from ranks import run

SIZE, FAULTY_STEP, SECONDS = 3, 20, 5
costly = pytest.mark.costly
KINDS = ("ddp", pytest.param("fsdp", marks=(needs_fsdp2_on_cpu, costly)))
VICTIMS = (1, pytest.param(0, marks=costly))  # rank 0 is where the ranks of the group meet


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def stop() -> None:
    """Until the other ranks should have noticed."""
    own = os.getpid()
    subprocess.Popen(["sh", "-c", f"kill -STOP {own}; sleep {SECONDS + 2}; kill -KILL {own}"])
    time.sleep(1)


def cut() -> None:
    subprocess.run(["ip", "link", "set", "r0", "down"], check=True)


def train_until_an_error(kind: str, rank: int, victim: int, fault) -> tuple[str, float]:
    """Its text, and how many seconds it took to come."""
    net = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 4))
    net = DistributedDataParallel(net) if kind == "ddp" else fully_shard(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    begin = None
    try:
        for step in range(100_000):
            if step == FAULTY_STEP:
                dist.barrier()
                begin = time.monotonic()
                if rank == victim:
                    fault()
            net(torch.ones(8, 16)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    except RuntimeError as error:
        return str(error), time.monotonic() - begin
    return "no error", 0.0


@pytest.mark.parametrize("victim", VICTIMS)
@pytest.mark.parametrize("fault", (kill, stop), ids=lambda fault: fault.__name__)
@pytest.mark.parametrize("kind", KINDS)
def test_a_rank_ends(kind, fault, victim):
    outcomes = run(SIZE, lambda rank, size: train_until_an_error(kind, rank, victim, fault))
    for rank in set(range(SIZE)) - {victim}:
        text, seconds = outcomes[rank].value
        assert f"rank {victim}" in text and seconds < SECONDS, outcomes[rank]


@pytest.mark.parametrize("victim", VICTIMS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_node_is_cut_off(kind, victim):
    need_emulated_nodes()
    launcher = horing_run("-n", str(SIZE), "--nodes", str(SIZE), "--rate", "1000", "--keep-going", "--timeout", "120")
    ended = subprocess.run([*launcher, __file__, kind, str(victim)], capture_output=True, text=True)
    outcomes = {each["rank"]: each for each in map(json.loads, ended.stdout.splitlines())}
    assert len(outcomes) == SIZE, ended
    for rank in set(range(SIZE)) - {victim}:
        assert f"rank {victim}" in outcomes[rank]["text"] and outcomes[rank]["seconds"] < SECONDS, outcomes
    assert outcomes[victim]["text"] != "no error", outcomes


def be_a_rank_on_a_node(kind: str, victim: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("horing")
    rank = dist.get_rank()
    text, seconds = train_until_an_error(kind, rank, int(victim), cut)
    sys.stdout.write(json.dumps({"rank": rank, "text": text, "seconds": seconds}) + "\n")  # at once, where the ranks' lines meet


if __name__ == "__main__":
    be_a_rank_on_a_node(*sys.argv[1:])
