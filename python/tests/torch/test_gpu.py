"""Tensors on a GPU: of the emulated driver, on whose streams operations, copies and whatever a test holds up run in order."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

import emulated_gpu
import ranks
from emulated_gpu import KIND, hold, recording
from ranks import check, run


@pytest.fixture(autouse=True)
def _on_gpu(monkeypatch):
    emulated_gpu.need()
    monkeypatch.setattr(ranks, "on_gpu", True)


DEVICE = f"{KIND}:0"


def module():
    return torch.get_device_module(KIND)


def full(value: float, count: int = 1000) -> torch.Tensor:
    return torch.full((count,), float(value))


def meet() -> None:
    """The first operation on GPUs waits on the host until all ranks have made it."""
    dist.all_reduce(full(0))
    module().synchronize()


def test_the_device_is_one_of_torch():
    def body(rank, size):
        tensor = torch.arange(6.0).reshape(2, 3)
        assert tensor.device == torch.device(DEVICE) and not tensor.is_cpu
        assert torch.equal((tensor.t() * 2).cpu(), torch.arange(6.0).reshape(2, 3).t() * 2)
        first, second = module().current_stream(), module().Stream(DEVICE)
        source, target = full(1), full(2)
        with hold(first):
            target.copy_(source)
            event = first.record_event()
            second.wait_event(event)
            assert not event.query() and not second.query()
        second.synchronize()
        assert event.query() and (target.cpu() == 1).all()

    check(1, body)


def test_all_reduce_and_broadcast():
    def body(rank, size):
        for async_op in (False, True):
            for count in (0, 1, 1000, 300_000):
                tensor = full(rank + 1, count)
                work = dist.all_reduce(tensor, async_op=async_op)
                if async_op:
                    assert work.wait()
                assert (tensor.cpu() == sum(range(size + 1))).all()
                dist.broadcast(tensor.fill_(rank), 1)
                assert (tensor.cpu() == 1).all()

    check(3, body)


def test_an_operation_reads_what_the_stream_before_it_wrote():
    def body(rank, size):
        tensor, written = full(-100), full(rank + 1)
        with hold(module().current_stream()):
            tensor.copy_(written)
            work = dist.all_reduce(tensor, async_op=True)
            begin = time.monotonic()
            assert work.wait() and time.monotonic() - begin < 1  # blocks no thread
            result = tensor.clone()  # on the stream, so of the sum
            assert not work.is_completed()
            time.sleep(0.05)
        assert (result.cpu() == 3).all() and work.is_completed()

    check(2, body)


def test_an_operation_runs_beside_the_stream_of_its_caller():
    def body(rank, size):
        tensor = full(rank + 1)
        module().synchronize()
        work = dist.all_reduce(tensor, async_op=True)
        with hold(module().current_stream()):
            work.wait(timedelta(seconds=10))
            assert work.is_completed()
        assert (tensor.cpu() == 3).all()

    check(2, body)


def test_wait_orders_the_stream_that_waits():
    def body(rank, size):
        tensor, side = full(rank + 1), module().Stream(DEVICE)
        first = module().current_stream()
        with hold(first):
            work = dist.all_reduce(tensor, async_op=True)
            with side:
                work.wait()
                result = tensor.clone()
            assert not side.query()
        side.synchronize()
        assert (result.cpu() == 3).all()

    check(2, body)


@pytest.mark.parametrize("holder", ("handle", "nobody", "future"))
@pytest.mark.parametrize("layout", (lambda base: base, lambda base: base[::2]))
def test_memory_that_only_the_operation_holds(holder, layout):
    """The next tensor takes the memory of one that is gone, behind it on its stream but not behind the operation."""
    def body(rank, size):
        sources = [torch.arange(10000) + 10000.0 * (10 * rank + number) for number in range(5)]
        outputs = [torch.empty(size * len(layout(sources[0]))) for _ in sources]
        kept = []
        module().synchronize()
        with hold(module().current_stream()):
            for source, output in zip(sources, outputs):
                tensor = source.clone()
                work = dist.all_gather_into_tensor(output, layout(tensor), async_op=True)
                kept.append(work if holder == "handle" else work.get_future() if holder == "future" else None)
                del tensor, work
                gc.collect()
        for each in kept:
            if each is not None:
                each.wait()
        module().synchronize()
        for number, output in enumerate(outputs):
            expected = torch.cat([layout(torch.arange(10000) + 10000.0 * (10 * each + number)) for each in range(size)])
            assert torch.equal(output.cpu(), expected.cpu()), number

    check(2, body)


@pytest.mark.parametrize("layout", (lambda base: base, lambda base: base[::2]))
def test_memory_of_an_operation_that_another_stream_waits_for(layout):
    def body(rank, size):
        meet()
        junk, side, result = full(77), module().Stream(DEVICE), torch.empty(size * 1000)
        source = layout(full(rank + 1, 1000 * (2000 // len(layout(full(0, 2000))))))
        module().synchronize()
        if rank == 1:
            time.sleep(0.5)
        tensor = source.clone() if source.is_contiguous() else source
        work = dist.all_gather_into_tensor(result, tensor, async_op=True)
        with side:
            work.wait()
        del work, tensor
        others = [torch.empty(1000).copy_(junk) for _ in range(4)]
        module().synchronize()
        assert torch.equal(result.cpu(), torch.arange(1.0, size + 1, device="cpu").repeat_interleave(1000))
        assert all((other.cpu() == 77).all() for other in others)

    check(2, body)


def aborts_when_started(rank):
    """Rank 1 aborts the group as soon as another says "started" in its store: whether this was that rank."""
    if rank != 1:
        return False
    dist.group.WORLD.get_group_store().wait(["started"])
    dist.group.WORLD.abort()
    return True


def test_memory_of_an_operation_that_failed():
    def body(rank, size):
        meet()
        if aborts_when_started(rank):
            return
        tensor = full(1)
        address = tensor.data_ptr()
        with hold(module().current_stream()):
            work = dist.all_reduce(tensor, async_op=True)
            del tensor
            dist.group.WORLD.get_group_store().set("started", "")
            time.sleep(0.5)
            with pytest.raises(dist.DistBackendError, match="rank 1"):
                work.wait()
            del work
            gc.collect()
            is_reused = torch.empty(1000).data_ptr() == address
        module().synchronize()
        assert not is_reused

    outcomes = run(2, body)
    assert outcomes[0].error is None, outcomes[0].error


def test_memory_of_a_call_that_was_given_up():
    """A call that waits has no handle that could keep its tensors."""
    def body(rank, size):
        meet()
        tensor = full(1)
        address = tensor.data_ptr()
        with hold(module().current_stream()):
            with pytest.raises(TimeoutError):
                dist.group.WORLD.allreduce([tensor], timeout=timedelta(seconds=0.1))
            del tensor
            gc.collect()
            is_reused = torch.empty(1000).data_ptr() == address
        module().synchronize()
        assert not is_reused

    check(2, body)


def test_timeouts():
    def body(rank, size):
        meet()
        tensor = full(1)
        if rank == 1:
            time.sleep(1)
        work = dist.all_reduce(tensor, async_op=True)
        if rank == 0:
            with pytest.raises(TimeoutError, match="all_reduce #2 of .*rank 0 of 2: not complete after 0.1 s"):
                work.wait(timedelta(seconds=0.1))
        assert work.wait(timedelta(seconds=10)) and work.is_completed() and work.is_success()
        assert (tensor.cpu() == size).all()

    check(2, body)


def test_futures():
    def body(rank, size):
        tensor, written = full(0), full(rank + 1)
        with hold(module().current_stream()):
            tensor.copy_(written)
            future = dist.all_reduce(tensor, async_op=True).get_future()
            assert future.done()
            copied = future.then(lambda done: done.value()[0].clone())
            side = module().Stream(DEVICE)
            with side:
                result = future.wait()[0].clone()
            assert not side.query()
        side.synchronize()
        assert (result.cpu() == 3).all() and (copied.wait().cpu() == 3).all()
        assert dist.barrier(async_op=True).get_future().wait() == []

    check(2, body)


@pytest.mark.parametrize("are_groups_two", (True, False))
def test_a_future_waits_for_its_own_operation_only(are_groups_two):
    """Rank 1 makes the second operation only after it has the result of the third, which is behind the future of the first on rank 0."""
    def body(rank, size):
        one, other = dist.new_group([0, 1]), dist.new_group([0, 1])
        second_on = other if are_groups_two else one
        for group in (one, other):
            dist.all_reduce(full(0), group=group)
        tensors = [full(rank + 1) for _ in range(3)]
        module().synchronize()
        first = dist.all_reduce(tensors[0], group=one, async_op=True)
        if rank == 0:
            second = dist.all_reduce(tensors[1], group=second_on, async_op=True)
            later, earlier = second.get_future(), first.get_future()
            earlier.wait()
        first.wait()
        dist.all_reduce(tensors[2], group=one if are_groups_two else other)
        if rank == 1:
            assert (tensors[2].cpu() == 3).all()
            second = dist.all_reduce(tensors[1], group=second_on, async_op=True)
            later = second.get_future()
        later.wait()
        assert all((tensor.cpu() == 3).all() for tensor in tensors)

    check(2, body, group_timeout=5)


def test_a_barrier_waits_for_the_work_of_all_gpus():
    def body(rank, size):
        tensor, written = full(0), full(1)
        dist.all_reduce(tensor)
        with hold(module().current_stream()):
            tensor.copy_(written)
            work = dist.barrier(async_op=True)
            time.sleep(0.1)
            assert not work.is_completed()
        work.wait()
        assert module().current_stream().query()
        dist.barrier()
        dist.barrier(device_ids=[0])
        dist.group.WORLD.monitored_barrier()

    check(2, body)


def test_messages_in_any_order():
    def body(rank, size):
        tensor, written, received = full(0), full(rank), full(-1)
        left, right = (rank - 1) % size, (rank + 1) % size
        with hold(module().current_stream()):
            tensor.copy_(written)
            works = [dist.irecv(received, left), dist.isend(tensor, right)]
            time.sleep(0.05)
            assert not any(work.is_completed() for work in works)
        for work in works:
            work.wait()
        assert (received.cpu() == left).all()
        with hold(module().current_stream()):
            tensor.copy_(written)
            works = [dist.isend(tensor, rank, tag=3)]
        works.append(dist.irecv(received, rank, tag=3))
        for work in works:
            work.wait()
        assert (received.cpu() == rank).all()

    check(3, body)


def test_a_receive_meets_its_message_whatever_its_stream_waits_for():
    def body(rank, size):
        meet()
        store, count = dist.group.WORLD.get_group_store(), 4 << 20
        tensor = full(rank, count)
        if rank == 1:
            dist.isend(tensor, 0).wait(timedelta(seconds=10))
            store.set("sent", "")
            return
        with hold(module().current_stream()):
            work = dist.irecv(tensor, 1)
            store.wait(["sent"], timedelta(seconds=10))
            assert not work.is_completed()
        work.wait()
        assert (tensor.cpu() == 1).all()

    check(2, body)


def test_groups_do_not_share_streams():
    def body(rank, size):
        groups = [dist.new_group([rank], use_local_synchronization=True) for _ in range(20)]
        for group in groups:
            dist.all_reduce(full(1), group=group)
        gpus = [each.gpu for group in groups for each in group._on_gpus.values()]
        streams = [gpu._stream.stream_id for gpu in gpus] + [gpus[0]._copies.stream_id]
        assert len(gpus) == 20 and len(set(streams)) == len(streams)

    check(1, body)


def test_refused_by_name():
    def body(rank, size):
        for wrong, words in ((lambda: dist.all_gather_into_tensor(torch.empty(2 * size, device="cpu"), torch.ones(2)), "tensors on .* and on cpu"),
                             (lambda: dist.all_reduce(torch.ones(2), dist.ReduceOp.BAND), "BAND of torch.float32"),
                             (lambda: dist.all_reduce(torch.ones(2, device="meta")), f"dense tensors on cpu, .*{KIND}, not .* on meta")):
            with pytest.raises(TypeError, match=words):
                wrong()
        tensor = full(1)
        dist.all_reduce(tensor)  # nothing was sent, so the group goes on
        assert (tensor.cpu() == size).all()

    check(2, body)


def test_device_id():
    def body(rank, size, folder):
        device = torch.device(KIND, rank)
        module().set_device(rank)
        store = dist.FileStore(os.path.join(folder, "store"), size)
        dist.init_process_group(f"cpu:horing,{KIND}:horing", store=store, rank=rank, world_size=size, timeout=timedelta(seconds=20),
                                device_id=device)
        tensor = torch.full((10,), 1.0 + rank, device=device)
        dist.all_reduce(tensor)
        pair = dist.new_group([0, 1])
        dist.broadcast(tensor, 1, group=pair)
        dist.barrier()
        assert (tensor.cpu() == 3).all() and tensor.device == device
        words = [None] * size
        dist.all_gather_object(words, rank)
        assert words == list(range(size))
        dist.destroy_process_group()

    check(2, body, group=False)


def test_a_graph_takes_no_operation_that_copies():
    """Those of this device are such: the library's kernels are not here (emulated_gpu.py)."""

    def body(rank, size):
        meet()
        tensor, blocks, side = full(rank + 1), torch.empty(size * 1000), module().Stream(DEVICE)
        with side, recording(side):
            for call in (dist.all_reduce, lambda each: dist.all_gather_into_tensor(blocks, each)):
                with pytest.raises(dist.DistBackendError, match="graph"):
                    call(tensor)
        dist.all_reduce(tensor)
        assert (tensor.cpu() == 3).all()

    check(2, body)


def test_a_backend_that_was_named_for_gpus_is_not_replaced():
    def body(rank, size, folder):
        ranks.join(rank, size, folder, backend=f"cpu:horing,{KIND}:gloo")
        dist.all_reduce(torch.ones(2, device="cpu"))
        for call in (lambda: dist.all_reduce(full(1)), lambda: dist.isend(full(1), rank)):
            with pytest.raises(TypeError, match="make a group of its own for gloo .new_group.backend=.gloo"):
                call()
        dist.destroy_process_group()

    check(1, body, group=False)


def test_an_error_reaches_wait_and_the_next_call():
    def body(rank, size):
        meet()
        if aborts_when_started(rank):
            return
        tensor = full(1)
        work = dist.all_reduce(tensor, async_op=True)
        dist.group.WORLD.get_group_store().set("started", "")
        with pytest.raises(dist.DistBackendError, match="rank 1"):
            work.wait(timedelta(seconds=10))
        assert work.is_completed() and not work.is_success() and "rank 1" in str(work.exception())
        assert work.exception().rank == 1
        with pytest.raises(dist.DistBackendError, match="rank 1"):
            work.wait()
        with pytest.raises(dist.DistBackendError, match="rank 1"):
            dist.all_reduce(tensor)
        module().synchronize()  # no stream is left waiting

    outcomes = run(2, body)
    assert outcomes[0].error is None, outcomes[0].error


def test_a_missed_deadline_ends_in_an_error_and_frees_the_stream():
    def body(rank, size):
        meet()
        if rank == 1:
            time.sleep(4)
            return None
        work = dist.all_reduce(full(1), async_op=True)
        work.wait()  # orders the stream, and blocks no thread
        module().synchronize()
        with pytest.raises(dist.DistBackendError, match="rank 1"):
            dist.all_reduce(full(1))
        return str(work.exception())

    outcomes = run(2, body, group_timeout=1)
    assert outcomes[0].error is None and "rank 1" in outcomes[0].value


def test_the_end_of_a_group_raises_what_nobody_has_seen():
    def body(rank, size):
        meet()
        if rank == 1:
            os._exit(3)
        tensor = full(1)
        dist.all_reduce(tensor)
        module().synchronize()
        with pytest.raises(dist.DistBackendError, match="nobody waited for.*rank 1"):
            dist.destroy_process_group()

    outcomes = run(2, body, group_timeout=10)
    assert outcomes[0].error is None, outcomes[0].error


def test_the_end_of_a_group_raises_what_was_only_asked_for():
    def body(rank, size):
        meet()
        if rank == 1:
            os._exit(3)
        works = [dist.all_reduce(full(1), async_op=True), dist.all_reduce(torch.ones(4, device="cpu"), async_op=True),
                 dist.irecv(full(1), 1)]
        number = works[0].get_future_result()
        module().synchronize()
        while not all(work.is_completed() for work in works):
            time.sleep(0.01)
        assert number.wait() == int(torch._C._distributed_c10d.WorkResult.COMM_ERROR)
        with pytest.raises(dist.DistBackendError, match="nobody waited for.*rank 1"):
            dist.destroy_process_group()
        assert dist.is_initialized()

    outcomes = run(2, body, group_timeout=10)  # which destroys the group a second time
    assert outcomes[0].error is None, outcomes[0].error


@pytest.mark.parametrize("fails", ("message", "future of a message", "operation on the CPU", "what was asked for its exception"))
def test_the_end_of_a_group_does_not_raise_again(fails):
    def body(rank, size):
        meet()
        if rank == 1:
            os._exit(3)
        with pytest.raises(RuntimeError, match="rank 1"):
            if fails == "what was asked for its exception":
                work = dist.all_reduce(full(1), async_op=True)
                module().synchronize()
                raise work.exception()
            elif fails == "operation on the CPU":
                dist.all_reduce(torch.ones(4, device="cpu"))
            elif fails == "message":
                dist.irecv(full(1), 1).wait(timedelta(seconds=10))
            else:
                dist.irecv(full(1), 1).get_future().wait()

    outcomes = run(2, body, group_timeout=10)
    assert outcomes[0].error is None, outcomes[0].error


def test_the_number_of_a_result_comes_with_it():
    def body(rank, size):
        meet()
        tensor = full(1)
        with hold(module().current_stream()):
            work = dist.all_reduce(tensor, async_op=True)
            number = work.get_future_result()
            time.sleep(0.05)
            assert not number.done()
        assert number.wait() == int(torch._C._distributed_c10d.WorkResult.SUCCESS) and work.is_completed()

    check(2, body)


def test_a_group_does_not_wait_after_ctrl_c():
    def body(rank, size):
        meet()
        if rank == 1:
            time.sleep(3)
            return 0
        work = dist.all_reduce(full(1), async_op=True)
        threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            work.wait(timedelta(seconds=30))
        begin = time.monotonic()
        dist.group.WORLD.shutdown()
        return time.monotonic() - begin

    outcome = run(2, body)[0]
    assert outcome.error is None and outcome.value < 2, outcome


def test_abort_frees_the_stream():
    def body(rank, size):
        meet()
        if rank == 1:
            time.sleep(1)
            return
        work = dist.all_reduce(full(1), async_op=True)
        assert not work.is_completed()
        dist.group.WORLD.abort()
        module().synchronize()
        with pytest.raises(dist.DistBackendError, match="aborted"):
            work.wait()
        with pytest.raises(dist.DistBackendError, match="aborted"):
            dist.all_reduce(full(1))

    outcomes = run(2, body)
    assert outcomes[0].error is None, outcomes[0].error


def test_operations_of_host_and_gpu_take_effect_in_order():
    def body(rank, size):
        on_host, strided = torch.ones(100, device="cpu"), torch.ones(100, 2, device="cpu")[:, 0]
        tensor, works = full(1), []
        for _ in range(5):
            works += [dist.all_reduce(each, async_op=True) for each in (on_host, strided, tensor)]
        dist.all_reduce(on_host)
        for work in works:
            work.wait()
        assert (on_host == size**6).all() and (strided == size**5).all() and (tensor.cpu() == size**5).all()

    check(2, body)
