"""Groups that are made from a group."""

from __future__ import annotations

import inspect
import os
import signal

import pytest
import torch
import torch.distributed as dist

from ranks import check, run


def test_those_that_are_left_go_on_without_a_rank_that_died():
    def body(rank, size):
        group = dist.group.WORLD
        group.allreduce([torch.ones(10)])
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        with pytest.raises(dist.DistBackendError, match="rank 1") as caught:
            while True:
                group.allreduce([torch.ones(10)])
        left = group.shrink([caught.value.rank])
        total = torch.full((5,), float(rank))
        dist.all_reduce(total, group=left)
        word = torch.full((2,), float(rank))
        if "group_src" in inspect.signature(dist.broadcast).parameters:
            dist.broadcast(word, group=left, group_src=2)
        else:  # older torch
            left.broadcast([word], 2)
        assert word[0] == 3
        left.shutdown()
        return left.rank(), left.size(), total[0].item()

    outcomes = run(4, body)
    assert [outcomes[rank].value for rank in (0, 2, 3)] == [(0, 3, 5.0), (1, 3, 5.0), (2, 3, 5.0)], outcomes


def test_splitting():
    def body(rank, size):
        group = dist.group.WORLD
        works = [dist.all_reduce(torch.ones(1000, 2)[:, number], async_op=True) for number in (0, 1, 0)]  # copied by a thread
        part = group.split_group([2, 0] if rank % 2 == 0 else [1])
        total = torch.full((3,), 1.0 + rank)
        dist.all_reduce(total, group=part)
        assert part.size() == 2 - rank % 2 and part.rank() == (1, 0, 0)[rank]
        assert total[0] == (4.0 if rank % 2 == 0 else 2.0)
        first = group.split_group([0])
        assert (first is None) == (rank > 0)
        for work in works:
            work.wait()
        with pytest.raises(ValueError, match="rank"):
            group.shrink([7])
        part.shutdown()

    check(3, body)
