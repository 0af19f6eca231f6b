"""Messages of tensors on a GPU, on the emulated one: in the order of the caller's stream, and blocking no thread."""

from __future__ import annotations

import gc
import os
import threading
import time
import weakref
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

import emulated_gpu
import ranks
from emulated_gpu import hold, recording
from horing import CudaError, _capi
from ranks import check, run
from test_gpu import DEVICE, aborts_when_started, full, meet, module

_SOON = timedelta(seconds=10)
_LARGE = 4 << 20  # elements, more than is on its way


@pytest.fixture(autouse=True)
def _on_gpu(monkeypatch):
    emulated_gpu.need()
    monkeypatch.setattr(ranks, "on_gpu", True)


def tell(what: str) -> None:
    dist.group.WORLD.get_group_store().set(what, "")


def hear(what: str) -> None:
    dist.group.WORLD.get_group_store().wait([what], _SOON)


def waits_at_once(work) -> None:
    begin = time.monotonic()
    assert work.wait() and time.monotonic() - begin < 1


def test_a_send_carries_what_its_stream_wrote_before_it():
    def body(rank, size):
        tensor, written, later = full(-100), full(5), full(-200)
        if rank == 0:
            assert (dist.recv(tensor, 1), tensor[0].item(), tensor[999].item()) == (1, 5, 5)
            return
        with hold(module().current_stream()):
            tensor.copy_(written)
            work = dist.isend(tensor, 0)
            waits_at_once(work)
            tensor.copy_(later)  # behind the wait
            assert not work.is_completed()
        work.wait(_SOON)
        assert work.is_completed()

    check(2, body)


def test_a_receive_holds_back_the_stream_that_waits_until_the_message_is_sent():
    def body(rank, size):
        tensor = full(rank, _LARGE)
        if rank == 1:
            hear("waited")
            dist.send(tensor, 0)
            return
        work = dist.irecv(tensor, 1)
        waits_at_once(work)
        result = tensor.clone()  # on the stream, so of what comes
        side = module().Stream(DEVICE)
        with side:
            tensor.record_stream(side)
            waits_at_once(work)
        time.sleep(0.05)
        assert not work.is_completed() and not module().current_stream().query() and not side.query()
        tell("waited")
        side.synchronize()
        assert (result.cpu() == 1).all() and (tensor.cpu() == 1).all() and work.is_completed()

    check(2, body)


@pytest.mark.parametrize("asks", (False, True))
def test_a_receive_writes_when_the_stream_has_come_to_it(asks):
    def body(rank, size):
        tensor, before, side = full(rank), full(-1), module().Stream(DEVICE)
        if rank == 1:
            dist.isend(tensor, 0).wait(_SOON)
            tell("sent")
            return
        with hold(module().current_stream()):
            before.copy_(tensor)
            work = dist.irecv(tensor, 1)
            hear("sent")
            time.sleep(0.05)
            if asks:
                assert not work.is_completed()
            with side:
                waits_at_once(work)
                after = tensor.clone()
        side.synchronize()
        assert (before.cpu() == 0).all() and (after.cpu() == 1).all() and work.is_completed()

    check(2, body)


def test_batches_in_both_directions():
    def body(rank, size):
        left, right = (rank - 1) % size, (rank + 1) % size
        received = [full(-1, _LARGE) for _ in range(2)]
        works = dist.batch_isend_irecv([dist.P2POp(dist.isend, full(rank, _LARGE), left), dist.P2POp(dist.isend, full(rank, _LARGE), right),
                                        dist.P2POp(dist.irecv, received[0], left), dist.P2POp(dist.irecv, received[1], right)])
        for work in works:
            waits_at_once(work)
        assert (received[0].cpu() == left).all() and (received[1].cpu() == right).all()

    check(3, body)


def test_each_receive_waits_for_its_own_message():
    def body(rank, size):
        if rank == 1:
            for tag in (3, 1, 2):
                dist.send(full(tag), 0, tag=tag)
                hear(f"has {tag}")
            return
        received = [full(-1) for _ in range(3)]
        works = [dist.irecv(tensor, 1, tag=tag + 1) for tag, tensor in enumerate(received)]
        streams = [module().Stream(DEVICE) for _ in works]
        for work, stream in zip(works, streams):
            with stream:
                waits_at_once(work)
        for tag in (3, 1, 2):
            streams[tag - 1].synchronize()
            assert (received[tag - 1].cpu() == tag).all()
            assert tag == 2 or not streams[1].query()
            tell(f"has {tag}")

    check(2, body)


def test_receives_of_one_tag_do_not_wait_for_each_other():
    """The second is answered by what came first."""
    def body(rank, size):
        first, second = full(-1), full(-1)
        if rank == 1:
            dist.send(full(1), 0)
            dist.recv(first, 0)
            dist.send(first, 0)
            return
        works = [dist.irecv(tensor, 1) for tensor in (first, second)]
        waits_at_once(works[0])
        dist.send(first + 1, 1)
        waits_at_once(works[1])
        assert (second.cpu() == 2).all()

    check(2, body)


def test_a_wait_needs_no_lock_of_the_group():
    """Another thread may have it for as long as a collective on the CPU takes."""
    def body(rank, size):
        tensor = full(rank)
        if rank == 1:
            hear("waited")
            dist.send(tensor, 0)
            return
        work, done = dist.irecv(tensor, 1), threading.Event()
        locked = threading.Thread(target=_lock_until, args=(work._lane._lane._whole(), done))
        locked.start()
        waits_at_once(work)
        done.set()
        locked.join()
        tell("waited")
        assert (tensor.cpu() == 1).all()

    check(2, body)


def _lock_until(lane, done) -> None:
    with lane._lock:
        done.wait(3)


def test_a_stream_that_cannot_wait_is_an_error_of_its_wait_alone(monkeypatch):
    def body(rank, size):
        if rank == 1:
            hear("waited")
            for tag in range(2):
                dist.send(full(1), 0, tag=tag)
            return
        received = [full(-1) for _ in range(2)]
        works = [dist.irecv(tensor, 1, tag=tag) for tag, tensor in enumerate(received)]
        with monkeypatch.context() as patch:
            patch.setattr(_capi, "horingStreamWaitOnGpu", lambda *_: 1)
            with pytest.raises(CudaError, match="recv from rank 1 with tag 0"):
                works[0].wait()
        waits_at_once(works[1])
        waits_at_once(works[0])
        tell("waited")
        assert all((tensor.cpu() == 1).all() for tensor in received)

    check(2, body)


@pytest.mark.parametrize("has_come", (False, True))
def test_messages_are_not_part_of_graphs(has_come):
    def body(rank, size):
        tensor, side = full(rank), module().Stream(DEVICE)
        if rank == 1:
            hear("send")
            dist.send(tensor, 0)
            return
        work = dist.irecv(tensor, 1)
        if has_come:
            tell("send")
            work._lane.await_arrival(work._operation)
        with side, recording(side):
            for call in (work.wait, lambda: dist.isend(tensor, 1), lambda: dist.irecv(tensor, 1)):
                with pytest.raises(dist.DistBackendError, match="records a graph"):
                    call()
        tell("send")
        waits_at_once(work)
        assert (tensor.cpu() == 1).all()

    check(2, body)


def test_a_collective_goes_on_beside_a_receive():
    """Rank 1 sends behind the collective, which rank 0 calls behind its wait."""
    def body(rank, size):
        tensor, total, side = full(rank, _LARGE), full(1), module().Stream(DEVICE)
        if rank == 1:
            dist.all_reduce(total)
            module().synchronize()
            dist.send(tensor, 0)
        else:
            work = dist.irecv(tensor, 1)
            with side:
                tensor.record_stream(side)
                waits_at_once(work)
            dist.all_reduce(total)
            side.synchronize()
        assert (total.cpu() == 2).all() and (tensor.cpu() == 1).all()

    check(2, body)


def test_from_any_rank():
    def body(rank, size):
        if rank:
            if rank == 2:
                hear("first is here")
            dist.send(full(rank), 0, tag=rank)
            dist.send(full(10 * rank), 0, tag=7)
            dist.barrier()
            return
        tensor = full(-1)
        works = [dist.irecv(tensor, tag=tag) for tag in (2, 1)]
        works[1].wait(_SOON)
        assert works[1].source_rank() == 1 and (tensor.cpu() == 1).all()
        tell("first is here")
        works[0].wait()
        assert works[0].source_rank() == 2 and (tensor.cpu() == 2).all()
        sources = [dist.recv(tensor, tag=7) for _ in range(2)]
        assert sorted(sources) == [1, 2] and (tensor.cpu() == 10 * sources[1]).all()
        dist.barrier()  # a receive from any rank fails when one has left

    check(3, body)


def test_what_is_asked_for_is_there_without_a_wait():
    def body(rank, size):
        tensor = torch.full((100, 2), float(rank))[:, 1]
        if rank == 1:
            dist.send(tensor, 0)
            return
        work = dist.irecv(tensor, 1)
        while not work.is_completed():
            time.sleep(0.001)
        with module().Stream(DEVICE):
            assert work.is_success() and (tensor.cpu() == 1).all()
        waits_at_once(work)

    check(2, body)


def test_futures_of_messages():
    def body(rank, size):
        tensor = full(rank)
        if rank == 1:
            hear("asked")
            assert dist.isend(tensor, 0).get_future().wait() == []
            return
        work = dist.irecv(tensor, 1)
        future, number = work.get_future(), work.get_future_result()
        then = future.then(lambda ready: ready.value()[0] + 1)
        assert not future.done()
        tell("asked")
        assert (then.wait().cpu() == 2).all() and number.wait() == int(torch._C._distributed_c10d.WorkResult.SUCCESS)
        assert (future.value()[0].cpu() == 1).all()
        waits_at_once(work)
        assert work.get_future().value()[0] is work.result()[0] is tensor

    check(2, body)


def test_a_group_keeps_no_tensor_or_buffer_of_a_message_that_has_come():
    def body(rank, size):
        count, tensors, buffers = 40, [], []
        for number in range(count):
            if rank == 1:
                hear(f"waited {number}")
                dist.send(full(number), 0)
                continue
            tensor = full(-1)
            work = dist.irecv(tensor, 1)
            tensors.append(weakref.ref(tensor))
            buffers.append(weakref.ref(work._operation.tensors[0]))
            waits_at_once(work)
            assert work.result()[0] is tensor
            del tensor, work
            tell(f"waited {number}")
            module().synchronize()
        gc.collect()
        assert not any(tensor() is not None for tensor in tensors) and sum(buffer() is not None for buffer in buffers) <= 1

    check(2, body)


@pytest.mark.parametrize("layout", (lambda base: base, lambda base: base[::2]))
def test_memory_that_only_the_message_holds(layout):
    """The next tensor takes the memory of one that is gone."""
    def body(rank, size):
        count, side = 10000, module().Stream(DEVICE)
        if rank == 0:
            for number in range(4):
                received = torch.empty(len(layout(torch.empty(count))))
                dist.recv(received, 1, tag=number)
                assert torch.equal(received.cpu(), layout(torch.arange(float(count), device="cpu")) + number)
            return
        sources = [torch.arange(float(count)) + number for number in range(4)]
        module().synchronize()
        with hold(side):
            for number, source in enumerate(sources):
                tensor = source.clone()
                side.wait_event(module().current_stream().record_event())
                with side:
                    dist.isend(layout(tensor), 0, tag=number)
                del tensor
                gc.collect()
                torch.full((count,), -1.0)

    check(2, body)


def test_a_message_to_oneself_blocks_no_thread():
    def body(rank, size):
        tensor, written = full(0), full(5)
        received, result = full(-1), full(-1)
        with hold(module().current_stream()):
            tensor.copy_(written)
            begin = time.monotonic()
            works = [dist.isend(tensor, rank)]
            with module().Stream(DEVICE):
                works.append(dist.irecv(received, rank))
            assert time.monotonic() - begin < 1
            for work in works:
                waits_at_once(work)
            result.copy_(received)
            time.sleep(0.05)
            assert not any(work.is_completed() for work in works)
        assert (result.cpu() == 5).all() and all(work.is_completed() for work in works)

    check(1, body)


def test_a_lost_sender_frees_the_stream_and_is_named():
    def body(rank, size):
        meet()
        if rank == 1:
            hear("waited")
            os._exit(3)
        work, never = dist.irecv(full(1), 1), dist.isend(full(1, _LARGE), 1)
        waits_at_once(work)
        assert not module().current_stream().query()
        tell("waited")
        module().synchronize()
        with pytest.raises(dist.DistBackendError, match="rank 1"):
            work.wait(_SOON)
        with pytest.raises(dist.DistBackendError, match="rank 1"):
            never.wait(_SOON)
        for failed in (work, never):
            with pytest.raises(dist.DistBackendError, match="rank 1"):
                failed.wait()
            assert failed.is_completed() and not failed.is_success() and failed.exception().rank == 1
        with pytest.raises(dist.DistBackendError, match="rank 1"):
            dist.irecv(full(1), 1).wait(_SOON)  # a wait that only orders the stream need not know of the error yet

    outcomes = run(2, body, group_timeout=10)
    assert outcomes[0].error is None, outcomes[0].error


def shorten(seconds: float) -> None:
    """The group's deadline, once the ranks have met, which takes longer on a busy machine."""
    dist.group.WORLD.set_timeout(timedelta(seconds=seconds))


def test_a_message_that_nobody_sends_ends_at_the_deadline():
    def body(rank, size):
        meet()
        shorten(1)
        if rank == 1:
            time.sleep(3)
            return None
        work = dist.irecv(full(1), 1)
        with pytest.raises(TimeoutError, match="recv from rank 1 with tag 0"):
            work.wait(timedelta(milliseconds=50))
        waits_at_once(work)
        module().synchronize()
        while not work.is_completed():
            time.sleep(0.001)
        return str(work.exception())

    outcomes = run(2, body)
    assert outcomes[0].error is None and "rank 1" in outcomes[0].value, outcomes[0]


def test_a_send_whose_stream_never_comes_ends_at_the_deadline():
    def body(rank, size):
        meet()
        shorten(1)
        if rank == 1:
            time.sleep(3)
            return
        tensor = full(1)
        with hold(module().current_stream()):
            work = dist.isend(tensor, 1)
            with pytest.raises(dist.DistBackendError, match="the work before it on the GPU is not complete after 1"):
                work.wait(_SOON)

    outcomes = run(2, body)
    assert outcomes[0].error is None, outcomes[0].error


@pytest.mark.parametrize("call", (lambda: dist.all_reduce(full(1)), lambda: dist.irecv(full(1), 1), dist.barrier, dist.destroy_process_group))
def test_a_send_that_is_lost_is_told_to_both_ends(call):
    def body(rank, size):
        meet()
        tensor = full(1)
        if rank == 1:
            time.sleep(1)
            with pytest.raises(ConnectionError, match="rank 0"):
                dist.irecv(tensor, 0).wait(_SOON)
            return
        shorten(2)
        with hold(module().current_stream()):
            dist.send(tensor, 1)
            time.sleep(2.5)
        module().synchronize()
        with pytest.raises(dist.DistBackendError, match="send to rank 1 with tag 0.*the work before it on the GPU is not complete after 2"):
            call()

    outcomes = run(2, body)
    assert outcomes[0].error is None, outcomes[0].error
    assert outcomes[1].error is None, outcomes[1].error


def test_abort_frees_a_stream_that_waits_for_a_message():
    def body(rank, size):
        meet()
        if rank == 1:
            time.sleep(1)
            return
        work = dist.irecv(full(1), 1)
        waits_at_once(work)
        dist.group.WORLD.abort()
        module().synchronize()
        with pytest.raises(dist.DistBackendError, match="aborted"):
            work.wait()
        with pytest.raises(dist.DistBackendError, match="aborted"):
            dist.irecv(full(1), 1)

    outcomes = run(2, body)
    assert outcomes[0].error is None, outcomes[0].error


def test_the_end_of_a_group_raises_the_error_of_a_message():
    def body(rank, size):
        meet()
        if aborts_when_started(rank):
            return
        dist.recv(full(1), 1)
        tell("started")
        with pytest.raises(dist.DistBackendError, match="nobody waited for.*rank 1"):
            dist.destroy_process_group()

    outcomes = run(2, body)
    assert outcomes[0].error is None, outcomes[0].error
