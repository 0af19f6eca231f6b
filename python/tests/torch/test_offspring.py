"""Groups that are made from a group."""

from __future__ import annotations

import os
import signal

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional

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
        dist.broadcast(word, 3, group=left)
        assert word[0] == 3
        value = left.rank(), left.size(), total[0].item()
        dist.destroy_process_group(left)
        return value

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


def test_torch_knows_derived_groups_by_global_ranks():
    def body(rank, size):
        pairs = [dist.group.WORLD.split_group([2, 0] if rank % 2 == 0 else [1, 3]) for _ in range(2)]
        low, high = (0, 2) if rank % 2 == 0 else (1, 3)
        order = [2, 0] if rank % 2 == 0 else [1, 3]
        for pair in pairs:
            assert dist.get_process_group_ranks(pair) == order and dist.get_global_rank(pair, 0) == order[0]
            assert dist.get_rank(pair) == order.index(rank) and dist.get_backend(pair) == dist.get_backend()
            word = torch.full((2,), float(rank))
            dist.broadcast(word, high, group=pair)
            assert (word == high).all()
            dist.send(word + rank, high, group=pair) if rank == low else dist.recv(word, low, group=pair)
            assert (word == (high if rank == low else high + low)).all()
            total = torch.ops._c10d_functional.all_reduce(word * 0 + rank, "sum", pair.group_name)
            assert (torch.ops._c10d_functional.wait_tensor(total) == low + high).all()
        assert (functional.all_reduce(torch.full((2,), float(rank)), "sum", [low, high]) == low + high).all()  # the first of these ranks
        one = pairs[0].split_group([0])  # of a derived group
        assert one is None or dist.get_process_group_ranks(one) == order[:1]
        dist.destroy_process_group(pairs[0])
        with pytest.raises(ValueError, match="not registered|not initialized"):
            dist.broadcast(torch.ones(1), high, group=pairs[0])

    check(4, body)


def test_a_name_that_a_group_has_is_refused():
    def body(rank, size):
        world, group = dist.distributed_c10d._world, dist.group.WORLD
        known = [world.pg_map, world.pg_names, world.pg_backend_config, world.pg_group_ranks, world.pg_to_tag]

        def held():
            return [len(each) for each in known], len(world.tags_to_pg[""]), len(os.listdir("/proc/self/fd"))

        first = group.split_group([0], group_name="tp")
        before = held()
        for _ in range(2):
            with pytest.raises(ValueError, match=r"a group named tp; torch.distributed.destroy_process_group\(group\) frees"):
                group.split_group([0], group_name="tp")
            first.shutdown()
        assert held()[:2] == before[:2]
        dist.destroy_process_group(first)
        dist.destroy_process_group(group.split_group([0], group_name="tp"))

        dist.distributed_c10d._register_process_group("odd", group)  # known to compiled code only
        before = held()
        with pytest.raises(RuntimeError, match="odd"):
            group.split_group([0], group_name="odd")
        assert held() == before

    check(1, body)
