"""Operations take effect in the order in which they were started; handles, futures, threads."""

from __future__ import annotations

import gc
import threading
import time
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

from ranks import check


def test_order_on_one_tensor_whoever_waits_when():
    def body(rank, size):
        for layout in (lambda base: base, lambda base: base[:, ::2]):
            base = torch.ones(64, 128)
            tensor = layout(base)
            works = [dist.all_reduce(tensor, async_op=True) for _ in range(5)]
            works.append(dist.broadcast(layout(base), 0, async_op=True))
            works[3].wait()
            dist.all_reduce(tensor)
            assert (tensor == float(size) ** 6).all()
            for work in reversed(works):
                work.wait()
            assert (tensor == float(size) ** 6).all()

    check(2, body)


def test_order_of_mixed_layouts():
    def body(rank, size):
        plain, base = torch.ones(1000), torch.ones(100, 20)
        strided = base[:, ::2]
        works = []
        for _ in range(20):
            works.append(dist.all_reduce(plain, async_op=True))
            works.append(dist.all_reduce(strided, async_op=True))
            plain.mul_(1)  # as a program may: nothing of it is under way twice
            for work in works:
                work.wait()
            works = []
            plain.div_(size)
            strided.div_(size)
        assert (plain == 1).all() and (strided == 1).all() and (base[:, 1::2] == 1).all()

    check(2, body)


def test_only_the_operation_holds_its_tensors():
    def body(rank, size):
        for _ in range(20):
            big = torch.ones(300_000)
            views = [dist.all_reduce(torch.ones(100_000), async_op=True) for _ in range(4)]
            work = dist.all_reduce(big, async_op=True)
            del views
            gc.collect()
            torch.full((300_000,), 9.0)
            work.wait()
            assert (big == size).all()
        tensor = torch.ones(50)
        dist.all_reduce(tensor, async_op=True)  # its handle is dropped
        dist.barrier()
        assert (tensor == size).all()

    check(2, body)


def test_futures():
    def body(rank, size):
        tensor = torch.full((4,), 1.0 + rank)
        work = dist.all_reduce(tensor, async_op=True)
        (value,) = work.get_future().wait()
        assert value.data_ptr() == tensor.data_ptr() and (tensor == 3).all()
        assert work.get_future() is work.get_future()
        chained = dist.all_reduce(tensor, async_op=True).get_future().then(lambda future: future.value()[0] * 10)
        assert (chained.wait() == 60).all()
        doubled = []

        def nested(future):  # what hangs on a future may wait for another
            doubled.append(dist.all_reduce(torch.ones(1), async_op=True).get_future().wait()[0].item())

        dist.all_reduce(tensor, async_op=True).get_future().then(nested).wait()
        assert doubled == [float(size)]
        assert dist.barrier(async_op=True).get_future().wait() == []
        outputs = [torch.empty(2) for _ in range(size)]
        dist.all_gather(outputs, torch.full((2,), 1.0 * rank), async_op=True).get_future().wait()
        assert (outputs[1] == 1).all()

    check(2, body)


def test_a_future_of_a_call_of_the_group_itself():
    """As hooks of DDP make it."""
    def body(rank, size):
        group, tensor = dist.group.WORLD, torch.full((2,), float(rank))
        assert torch.equal(group.allreduce([tensor]).get_future().then(lambda done: done.value()[0] / size).wait(), torch.full((2,), 0.5))
        assert torch.equal(group.broadcast([tensor], 0).result()[0], torch.full((2,), 1.0))

    check(2, body)


def test_a_future_of_every_operation():
    def body(rank, size):
        def two(value):
            return torch.full((2,), float(value))

        everyone, total = torch.arange(float(size)).repeat_interleave(2), two(sum(range(size)))
        pieces, whole, one = [torch.empty(2) for _ in range(size)], torch.empty(2 * size), torch.empty(2)
        at_root = rank == 0
        started = (
            (lambda t: dist.broadcast(t, 1, async_op=True), two(rank), lambda t: t, two(1)),
            (lambda t: dist.reduce(t, 0, async_op=True), two(rank), lambda t: t, total if at_root else two(rank)),
            (lambda t: dist.all_gather(pieces, t, async_op=True), two(rank), lambda t: torch.cat(pieces), everyone),
            (lambda t: dist.all_gather_into_tensor(whole, t, async_op=True), two(rank), lambda t: whole, everyone),
            (lambda t: dist.gather(t, pieces if at_root else None, 0, async_op=True), two(rank), lambda t: torch.cat(pieces), everyone),
            (lambda t: dist.scatter(one, list(t.chunk(size)) if at_root else None, 0, async_op=True), everyone, lambda t: one, two(rank)),
            (lambda t: dist.reduce_scatter(one, list(t.chunk(size)), async_op=True), everyone, lambda t: one, two(size * rank)),
            (lambda t: dist.reduce_scatter_tensor(one, t, async_op=True), everyone, lambda t: one, two(size * rank)),
            (lambda t: dist.all_to_all(pieces, list(t.chunk(size)), async_op=True), everyone, lambda t: torch.cat(pieces),
             two(rank).repeat(size)),
            (lambda t: dist.all_to_all_single(whole, t, async_op=True), everyone, lambda t: whole, two(rank).repeat(size)),
            (lambda t: dist.isend(t, 1) if at_root else dist.irecv(t, 0), two(5 if at_root else 0), lambda t: t, two(5)))
        for number, (start, tensor, read, expected) in enumerate(started):
            future = start(tensor).get_future()
            future.wait()
            assert future.done() and torch.equal(read(tensor), expected), number
        with dist._coalescing_manager(async_ops=True) as both:
            tensors = [two(rank), two(1)]
            for tensor in tensors:
                dist.all_reduce(tensor)
        both.wait()
        assert torch.equal(tensors[0], total) and torch.equal(tensors[1], two(size))

    check(2, body)


def test_wait_with_a_timeout_leaves_the_operation():
    def body(rank, size):
        if rank == 1:
            time.sleep(1.5)
        tensor = torch.ones(3)
        work = dist.all_reduce(tensor, async_op=True)
        if rank == 0:
            with pytest.raises(TimeoutError, match="all_reduce #1 of default_pg, rank 0 of 2: not complete after 0.2 s"):
                work.wait(timedelta(seconds=0.2))
            assert not work.is_completed()
        work.wait()
        assert (tensor == size).all()

    check(2, body)


def test_threads_with_a_group_each():
    def body(rank, size):
        groups = [dist.new_group() for _ in range(4)]
        begun = time.monotonic()
        slow, quick = {}, {}

        def use(number, group):
            tensor = torch.ones(1000)
            if number == 0 and rank == 0:
                time.sleep(1.0)
            for _ in range(50):
                dist.all_reduce(tensor, group=group)
                tensor.div_(size)
            (slow if number == 0 else quick)[number] = time.monotonic() - begun
            assert (tensor == 1).all()

        threads = [threading.Thread(target=use, args=each) for each in enumerate(groups)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(slow) == 1 and len(quick) == 3
        assert slow[0] >= 0.9 and max(quick.values()) < 0.9

    check(2, body)


def test_threads_share_a_group():
    def body(rank, size):
        tensors = [torch.ones(10_000) for _ in range(4)]

        def use(tensor):
            for _ in range(20):
                dist.all_reduce(tensor)
                tensor.div_(size)

        threads = [threading.Thread(target=use, args=(tensor,)) for tensor in tensors]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert all((tensor == 1).all() for tensor in tensors)

    check(2, body)


def test_a_handle_is_waited_for_by_another_thread():
    def body(rank, size):
        tensor = torch.ones(10)
        work = dist.all_reduce(tensor, async_op=True)
        waiter = threading.Thread(target=work.wait)
        waiter.start()
        work.wait()
        waiter.join()
        assert (tensor == size).all()

    check(2, body)


def test_sequence_numbers():
    def body(rank, size):
        group = dist.group.WORLD
        assert group._get_sequence_number_for_group() == 0
        for number in range(1, 4):
            work = dist.all_reduce(torch.ones(1), async_op=True)
            assert work._get_sequence_number() == number == group._get_sequence_number_for_group()
            work.wait()

    check(2, body)


def test_compiled_code_can_wait_for_a_handle():
    from torch.distributed import _functional_collectives as funcol

    if not hasattr(funcol, "allow_inflight_collective_as_graph_input_ctx"):
        pytest.skip("compiled code of this torch cannot wait for the handles of programs")

    def body(rank, size):
        registered = torch._C._distributed_c10d._get_work_registry_size
        with funcol.allow_inflight_collective_as_graph_input_ctx():
            tensor = torch.ones(4)
            work = dist.all_reduce(tensor, async_op=True)
            assert registered() == 1
            work.wait()
            assert registered() == 0
            dist.all_reduce(tensor, async_op=True)  # its handle is dropped
            assert torch.equal(funcol.wait_tensor(tensor), torch.full((4,), 1.0 * size * size))

    check(2, body)


def test_thousands_of_operations_leak_nothing():
    def body(rank, size):
        def resident():
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * 4096

        tensor = torch.zeros(2000)
        begin = 0
        for number in range(6000):
            work = dist.all_reduce(tensor, async_op=number % 3 > 0)
            if number % 3 == 2:
                work.wait()
            if number == 1000:
                begin = resident()
        dist.barrier()
        assert resident() - begin < 8 << 20, (begin, resident())

    check(2, body)
