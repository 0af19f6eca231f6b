"""horing.torch.paro: checkpoints that are saved while training goes on."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp

from horing.torch import paro
from names import needs_paro
from paro_models import Gpt, join_nodes, made
from ranks import run
from test_paro import close_to, on_nodes
from test_paro_checkpoint import adam, steps

pytestmark = needs_paro


def before_writing(do) -> None:
    """do() on the thread that saves, before it writes the first file."""
    write_data = dcp.FileSystemWriter.write_data
    dcp.FileSystemWriter.write_data = lambda self, plan, planner: (do(), write_data(self, plan, planner))[1]


def begun(strategy: str, rank: int):
    model = paro.shard(made(Gpt, frozen=True), strategy=strategy)
    optimizer = adam(model)
    steps(model, optimizer, [rank], 0, 2)
    return model, optimizer


def test_it_has_what_was_there_when_it_was_started(tmp_path):
    def body(rank, size):
        has_trained = threading.Event()
        before_writing(has_trained.wait)
        for strategy in ("NNN", "IIG", "GGG"):
            has_trained.clear()
            model, optimizer = begun(strategy, rank)
            then = model.state_dict()
            saving = model.save_checkpoint(tmp_path / strategy, optimizer, 2, background=True)
            expected = steps(model, optimizer, [rank], 2, 2)
            assert not saving.done()
            assert not (tmp_path / strategy / ".metadata").exists()
            has_trained.set()
            assert saving.result() is None
            again = paro.shard(Gpt(frozen=True).double(), strategy=strategy)
            others = adam(again)
            assert again.load_checkpoint(tmp_path / strategy, others) == 2
            close_to(again.state_dict(), then)
            assert steps(again, others, [rank], 2, 2) == expected
            later = model.save_checkpoint(tmp_path / f"{strategy} later", optimizer, 4, background=True)
            model.save_checkpoint(tmp_path / f"{strategy} last", background=True).result()
            assert later.done()  # the next one waits for it
            assert later.result() is None

    on_nodes(body)


def test_a_save_and_a_load_at_once_wait_for_it(tmp_path):
    def body(rank, size):
        before_writing(lambda: time.sleep(1))  # who does not wait for it is faster
        model, optimizer = begun("IIG", rank)
        saving = model.save_checkpoint(tmp_path / "first", optimizer, 2, background=True)
        assert model.load_checkpoint(tmp_path / "first", optimizer) == 2
        assert saving.done()
        saving = model.save_checkpoint(tmp_path / "second", optimizer, 3, background=True)
        with pytest.raises(RuntimeError, match="second: FileExistsError"):
            model.save_checkpoint(tmp_path / "second", optimizer, 4)
        assert saving.result() is None
        assert model.load_checkpoint(tmp_path / "second", optimizer) == 3

    on_nodes(body)


def test_errors_are_raised_at_the_wait_on_all_ranks(tmp_path):
    def body(rank, size):
        def fail():
            if rank == 1:
                raise OSError("no space left")

        model, optimizer = begun("IIG", rank)
        write_data = dcp.FileSystemWriter.write_data
        before_writing(fail)
        saving = model.save_checkpoint(tmp_path / "failed", optimizer, background=True)
        steps(model, optimizer, [rank], 2, 1)
        with pytest.raises(RuntimeError, match=r"failed: no space left \(on rank 1\)"):
            saving.result()
        dcp.FileSystemWriter.write_data = write_data
        model.save_checkpoint(tmp_path / "good", optimizer, background=True).result()
        with pytest.raises(RuntimeError, match="good: FileExistsError"):
            model.save_checkpoint(tmp_path / "good", optimizer, background=True)

    on_nodes(body)


def test_a_rank_that_is_killed_meanwhile_is_named(tmp_path):
    def body(rank, size, folder):
        join_nodes(rank, size, folder)
        model, optimizer = begun("III", rank)
        if rank == 1:
            before_writing(lambda: os.kill(os.getpid(), signal.SIGKILL))
        saving = model.save_checkpoint(tmp_path / "killed", optimizer, background=True)
        with pytest.raises(RuntimeError, match="rank 1"):
            saving.result()
        return "named"

    outcomes = run(4, body, group=False)
    assert outcomes[1].exit_code == -signal.SIGKILL
    assert [outcomes[rank].value for rank in (0, 2, 3)] == ["named"] * 3, outcomes
    assert not (tmp_path / "killed" / ".metadata").exists()


def test_async_save_of_torch(tmp_path):
    def body(rank, size):
        has_trained = threading.Event()
        before_writing(has_trained.wait)
        model, optimizer = begun("IIG", rank)
        then = model.state_dict()
        saving = dcp.async_save({"model": model.state_dict()}, checkpoint_id=tmp_path / "saved", process_group=dist.new_group())
        steps(model, optimizer, [rank], 2, 2)
        has_trained.set()
        saving.result()
        assert model.load_checkpoint(tmp_path / "saved") == 0
        close_to(model.state_dict(), then)

    on_nodes(body)
