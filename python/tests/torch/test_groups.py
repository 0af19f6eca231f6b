"""Groups: made by some ranks only, in any order, again, on a store that outlives them, and many."""

from __future__ import annotations

import gc
import os
import resource
import time
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

from ranks import check, join, run


def test_some_ranks_in_different_orders():
    def body(rank, size):
        pairs = [dist.new_group([0, 1]), dist.new_group([2, 3]), dist.new_group([1, 3]), dist.new_group([0, 2])]
        mine = [group for group in pairs if isinstance(group, dist.ProcessGroup)]
        assert len(mine) == 2
        works, tensors = [], [torch.full((10,), 1.0 * rank) for _ in mine]
        order = (0, 1) if rank % 2 else (1, 0)
        for number in order:
            works.append(dist.all_reduce(tensors[number], group=mine[number], async_op=True))
        for work in works:
            work.wait()
        for tensor, group in zip(tensors, mine):
            assert (tensor == sum(dist.get_process_group_ranks(group))).all()

    check(4, body)


def test_made_by_their_members_only():
    def body(rank, size):
        if rank == 2:
            return
        group = dist.new_group([0, 1], use_local_synchronization=True)
        tensor = torch.ones(3)
        dist.all_reduce(tensor, group=group)
        assert (tensor == 2).all()

    check(3, body)


def test_init_destroy_and_init_again():
    def body(rank, size, folder):
        held = []
        for _ in range(3):
            join(rank, size, folder)
            tensor = torch.ones(3)
            dist.all_reduce(tensor)
            assert (tensor == size).all()
            held.append(dist.group.WORLD)
            dist.destroy_process_group()
        if hasattr(dist.ProcessGroup, "shutdown"):  # else torch does not tell a group that it is destroyed
            with pytest.raises(RuntimeError, match="the group was destroyed"):
                held[0].allreduce([torch.ones(1)])
        held[0].shutdown()  # again: nothing

    check(3, body, group=False)


def test_a_store_that_lives_on():
    """The keys of earlier groups are there, also of one that was never completed."""

    def body(rank, size, folder):
        store = dist.FileStore(os.path.join(folder, "store"), -1)
        from horing.torch import ProcessGroupHoring
        if rank == 0:  # as if rank 0 had been here, before the job failed and started again
            lonely = pytest.raises(TimeoutError, ProcessGroupHoring, store, 0, size, timedelta(seconds=1))
            assert "no sign of rank 1" in str(lonely.value)
            store.set("go on", "now")
        store.wait(["go on"], timedelta(seconds=20))
        for _ in range(3):
            group = ProcessGroupHoring(store, rank, size, timedelta(seconds=20))
            tensor = torch.ones(2)
            group.allreduce([tensor])
            assert (tensor == size).all()
            group.shutdown()

    check(2, body, group=False)


def test_a_rank_that_does_not_come_is_named():
    def body(rank, size, folder):
        if rank != 2:
            join(rank, size, folder, timeout=2)

    outcomes = run(3, body, group=False)
    for rank in (0, 1):
        assert "TimeoutError" in outcomes[rank].error and "no sign of rank 2." in outcomes[rank].error, outcomes[rank].error


def test_two_backends_in_a_process():
    def body(rank, size):
        gloo = dist.new_group(backend="gloo")
        mine, theirs = torch.ones(5), torch.ones(5)
        works = [dist.all_reduce(theirs, group=gloo, async_op=True), dist.all_reduce(mine, async_op=True)]
        for work in works:
            work.wait()
        assert (mine == size).all() and (theirs == size).all()
        assert dist.get_backend() == "horing" and dist.get_backend(gloo) == "gloo"

    check(2, body)


def test_many_groups_made_and_destroyed():
    def body(rank, size):
        def descriptors():
            return len(os.listdir("/proc/self/fd"))

        before = None
        for _ in range(10):
            groups = [dist.new_group() for _ in range(8)]
            tensor = torch.ones(1)
            for group in groups:
                dist.all_reduce(tensor, group=group)
            for group in groups:
                dist.destroy_process_group(group)
            before = before or descriptors()
        assert tensor.item() == size ** 8
        assert descriptors() <= before + 2, (before, descriptors())

    check(2, body, timeout=60)


def test_what_a_used_group_holds():
    """No more than an idle one: links take descriptors of a process once for each process that it is linked to. Some that come and go
    may be counted; a link that took two would make it 60."""

    def body(rank, size):
        groups = [dist.new_group() for _ in range(12)]
        for group in groups[:2]:
            dist.all_reduce(torch.ones(100_000), group=group)
        before = len(os.listdir("/proc/self/fd"))
        for group in groups[2:]:
            dist.all_reduce(torch.ones(100_000), group=group)
        return len(os.listdir("/proc/self/fd")) - before

    assert max(check(4, body)) < 10


def test_what_an_idle_group_holds():
    def body(rank, size):
        def held():
            return [len(os.listdir(f"/proc/self/{what}")) for what in ("fd", "task")]

        groups = [dist.new_group()]
        dist.barrier()  # opens the connections that the world's ranks share
        before = held()
        groups += [dist.new_group() for _ in range(20)]
        dist.barrier()
        return [(after - at_first) / 20 for at_first, after in zip(before, held())]

    # Each rank: a connection and a port. The one that hosts, each in turn: a connection to each rank, a port, a thread. Some
    # descriptors that come and go may be counted, but not one of each group.
    for descriptors, threads in check(4, body):
        assert 2 + 5 / 4 - 0.24 < descriptors < 2 + 5 / 4 + 0.24 and threads < 1 + 1 / 4 + 0.1, (descriptors, threads)


def _held() -> dict[str, float]:
    """Of this process: descriptors, threads, and KiB of memory, that in /dev/shm included."""
    with open("/proc/self/statm") as file:
        kib = int(file.read().split()[1]) * resource.getpagesize() / 1024
    return {"descriptors": len(os.listdir("/proc/self/fd")), "threads": len(os.listdir("/proc/self/task")), "KiB": kib}


def _grown(before: dict[str, float]) -> dict[str, float]:
    gc.collect()
    return {name: value - before[name] for name, value in _held().items()}


@pytest.mark.costly
def test_ten_thousand_collectives_and_a_thousand_groups_leak_nothing():
    def body(rank, size):
        tensor = torch.ones(100)

        def reduce(calls, group=None):
            for number in range(calls):
                work = dist.all_reduce(tensor, dist.ReduceOp.MAX, group=group, async_op=number % 2 == 0)
                if work is not None:
                    work.wait()

        def make(groups):
            for _ in range(groups):
                group = dist.new_group()
                reduce(2, group)
                dist.destroy_process_group(group)

        grown = []
        for work, first, then in ((reduce, 2000, 10_000), (make, 100, 1000)):
            work(first)
            dist.barrier()
            before = _held()
            work(then)
            dist.barrier()
            grown.append(_grown(before))
        return grown

    for grown in check(2, body, timeout=400):
        print(grown)
        for each in grown:
            assert each["descriptors"] <= 2 and each["threads"] <= 2, grown
        assert grown[0]["KiB"] < 1024 and grown[1]["KiB"] < 2 * 1000, grown


@pytest.mark.costly
@pytest.mark.parametrize("number", (32, 300))
def test_what_many_idle_groups_hold(number):
    def body(rank, size):
        dist.barrier()
        before = _held()
        begin = time.monotonic()
        groups = [dist.new_group() for _ in range(number)]
        seconds = time.monotonic() - begin
        dist.barrier()
        grown = {name: value / number for name, value in _grown(before).items()}
        assert len(groups) == number
        return grown, _held(), seconds

    values = check(8, body, timeout=500, group_timeout=200)
    for grown, held, seconds in values:
        print({name: round(value, 2) for name, value in grown.items()}, held, f"{seconds:.1f} s")
    for grown, held, _ in values:  # of each 8 groups, a rank hosts one
        assert grown["descriptors"] < 2 + 9 / 8 + 0.3 and grown["threads"] < 1 + 1 / 8 + 0.1 and held["descriptors"] < 1024, (grown, held)
        assert grown["KiB"] < 1024, grown
