"""Messages: any order of starting, tags, oneself, batches, pipelines."""

from __future__ import annotations

import os
import threading
import time
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

from ranks import check, join, passed, run
from test_failures import run_atexit_and_exit


def test_send_and_receive_of_every_type():
    def body(rank, size):
        for dtype in (torch.float32, torch.bfloat16, torch.int16, torch.bool, torch.complex64, torch.float8_e4m3fn):
            for count in (0, 1, 1000):
                sent = torch.ones(count).to(dtype)
                if rank == 0:
                    dist.send(sent, 1)
                else:
                    received = torch.zeros(count).to(dtype)
                    assert dist.recv(received, 0) == 0
                    assert torch.equal(received.to(torch.complex64), sent.to(torch.complex64))

    check(2, body)


def test_receives_started_long_before_the_sends_they_wait_for():
    def body(rank, size):
        big = 1 << 20
        received = torch.empty(big)
        if rank == 0:
            work = dist.irecv(received, 1)
            dist.barrier()
            sent = dist.isend(torch.full((big,), 5.0), 1)
            sent.wait()
            work.wait()
            assert (received == 6).all()
        else:
            dist.barrier()
            dist.recv(received, 0)
            dist.send(received + 1, 0)

    check(2, body)


def test_both_send_first():
    def body(rank, size):
        big = 1 << 20
        received = torch.empty(big)
        works = [dist.isend(torch.full((big,), 1.0 * rank), 1 - rank), dist.irecv(received, 1 - rank)]
        for work in works:
            work.wait()
        assert (received == 1 - rank).all()

    check(2, body)


def test_tags_match_whatever_the_order():
    def body(rank, size):
        if rank == 0:
            works = [dist.isend(torch.full((5,), 1.0 * tag), 1, tag=tag) for tag in (1, 2, 3)]
            for work in works:
                work.wait()
        else:
            for tag in (3, 1, 2):
                received = torch.empty(5)
                dist.recv(received, 0, tag=tag)
                assert (received == tag).all()

    check(2, body)


def test_messages_between_collectives_and_other_ranks():
    def body(rank, size):
        ring = torch.empty(100)
        for step in range(10):
            works = dist.batch_isend_irecv([dist.P2POp(dist.isend, torch.full((100,), 1.0 * rank + step), (rank + 1) % size),
                                            dist.P2POp(dist.irecv, ring, (rank - 1) % size)])
            tensor = torch.ones(1)
            dist.all_reduce(tensor)
            for work in works:
                work.wait()
            assert (ring == (rank - 1) % size + step).all() and tensor.item() == size

    check(3, body)


def test_to_oneself():
    def body(rank, size):
        received = torch.zeros(2, 2).t()
        work = dist.irecv(received, rank, tag=4)
        dist.isend(torch.arange(4.0).view(2, 2), rank, tag=4).wait()
        work.wait()
        assert torch.equal(received, torch.arange(4.0).view(2, 2))
        sent = dist.isend(torch.ones(3), rank)
        received = torch.zeros(3)
        dist.irecv(received, rank).wait()
        sent.wait()
        assert (received == 1).all()

    check(2, body)


def test_to_nobody():
    def body(rank, size):
        with pytest.raises(ValueError, match="no rank 7|not part of group"):
            dist.group.WORLD.send([torch.ones(1)], 7, 0)

    check(2, body)


def test_from_anybody():
    def body(rank, size):
        if rank:
            for step in range(3):
                dist.send(torch.full((5, 5), 10.0 * rank + step).t(), 0, tag=step)
            dist.barrier()  # a receive from any rank needs all of them
            return
        for step in range(3):
            seen = set()
            for _ in range(size - 1):
                received = torch.empty(5, 10)[:, ::2]
                source = dist.recv(received, tag=step)
                assert (received == 10 * source + step).all()
                seen.add(source)
            assert seen == set(range(1, size))
        dist.barrier()

    check(4, body)


def test_more_tags_than_channels():
    def body(rank, size):
        for step in range(200):
            tensor = torch.full((3,), 1.0 * step)
            if rank == 0:
                dist.send(tensor, 1, tag=step)
            else:
                received = torch.empty(3)
                dist.recv(received, 0, tag=step)
                assert torch.equal(received, tensor)
        assert len(dist.group.WORLD._channels) <= 64

    check(2, body)


def test_receives_do_not_hold_up_collectives():
    def body(rank, size):
        received, total = torch.empty(3), torch.ones(1000)
        work = dist.irecv(received, 1 - rank, tag=7)
        for _ in range(5):
            dist.all_reduce(total)
        assert not work.is_completed()
        dist.barrier()
        dist.isend(torch.full((3,), 1.0 * rank), 1 - rank, tag=7)
        work.wait()
        assert (total == 32).all() and (received == 1 - rank).all()

    check(2, body)


def test_sender_leaves():
    def body(rank, size):
        if rank == 0:
            dist.send(torch.full((1000,), 3.0), 1)
            return
        received = torch.empty(1000)
        dist.recv(received, 0)
        assert (received == 3).all()

    check(2, body)


def test_a_message_right_before_the_end_of_the_program_arrives():
    def body(rank, size, folder):
        join(rank, size, folder)
        dist.barrier()
        if rank == 0:
            threading.Timer(5, lambda: os._exit(8)).start()  # it waits no longer than for the message
            dist.isend(torch.full((10,), 3.0), 1)
            run_atexit_and_exit(7)
        time.sleep(0.5)
        received = torch.empty(10)
        dist.recv(received, 0)
        assert (received == 3).all()

    outcomes = run(2, body, group=False)
    assert outcomes[0].exit_code == 7 and outcomes[1].error is None, outcomes


def test_strided_receives_with_different_tags():
    def body(rank, size):
        received = {tag: torch.zeros(10, 20)[:, ::2] for tag in (1, 2)}
        works = [dist.irecv(each, 1 - rank, tag=tag) for tag, each in received.items()]
        dist.barrier()
        for tag in (2, 1):
            dist.send(torch.full((10, 20), 1.0 * tag)[:, ::2], 1 - rank, tag=tag)
        for work in works:
            work.wait()
        assert all((each == tag).all() for tag, each in received.items())

    check(2, body)


def test_strided_receive_beside_collectives():
    def body(rank, size):
        received, tensor, strided = torch.zeros(10, 20)[:, ::2], torch.ones(1000), torch.ones(10, 20)[:, ::2]
        work = dist.irecv(received, 1 - rank)
        time.sleep(0.1)
        for _ in range(10):
            dist.all_reduce(tensor)
            dist.all_reduce(strided)
            dist.barrier()
        assert not work.is_completed()
        dist.send(torch.full((10, 10), 1.0 * rank), 1 - rank)
        work.wait()
        assert (received == 1 - rank).all() and (tensor == 1024).all() and (strided == 1024).all()

    check(2, body)


def test_the_first_message_is_started_during_a_synchronous_collective():
    def body(rank, size):
        took, works = [], []

        def start():
            time.sleep(0.3)
            begin = time.monotonic()
            works.append(dist.isend(torch.full((10,), 3.0), 1))
            took.append(time.monotonic() - begin)

        if rank == 0:
            thread = threading.Thread(target=start)
            thread.start()
            dist.barrier()
            thread.join()
            works[0].wait()
            assert took[0] < 1.5, took
        else:
            time.sleep(3)
            dist.barrier()
            received = torch.empty(10)
            dist.recv(received, 0)
            assert (received == 3).all()

    check(2, body)


def test_messages_of_a_second_thread_during_a_synchronous_collective():
    """On rank 0 the collective waits for rank 1, which begins it only after the message has arrived."""

    def body(rank, size):
        dist.send(torch.ones(1), 1) if rank == 0 else dist.recv(torch.ones(1), 0)
        total, received, errors = torch.ones(1000), torch.zeros(10), []

        def exchange():
            try:
                time.sleep(0.3)
                works = [dist.isend(torch.full((10,), 1.0 * rank), 1 - rank, tag=3), dist.irecv(received, 1 - rank, tag=3)]
                for work in works:
                    work.wait()
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=exchange)
        thread.start()
        if rank == 1:
            thread.join()
        dist.all_reduce(total)
        thread.join()
        assert not errors and (received == 1 - rank).all() and (total == size).all(), errors
        dist.barrier()

    check(2, body)


@pytest.mark.parametrize("first", (True, False))
def test_isend_of_a_second_thread_while_both_ranks_are_in_collectives(first):
    def body(rank, size):
        if not first:
            dist.send(torch.ones(1), 1) if rank == 0 else dist.recv(torch.ones(1), 0)
        total, received, errors = torch.ones(100_000), torch.zeros(10), []

        def exchange():
            try:
                for step in range(20):
                    sent = dist.isend(torch.full((10,), 1.0 * step), 1 - rank, tag=3)
                    dist.recv(received, 1 - rank, tag=3)
                    sent.wait()
                    assert (received == step).all()
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=exchange)
        thread.start()
        for _ in range(50):
            dist.all_reduce(total)
            total.div_(size)
        thread.join()
        assert not errors and (total == 1).all(), errors

    check(2, body)


@pytest.mark.parametrize("end", ("abort", "shutdown"))
def test_a_message_to_oneself_ends_with_its_group(end):
    def body(rank, size):
        group = dist.group.WORLD
        work = dist.irecv(torch.zeros(3), rank)
        threading.Timer(0.3, getattr(group, end)).start()
        begin = time.monotonic()
        text = "aborted" if end == "abort" else "destroyed"
        with pytest.raises(dist.DistBackendError, match=text):
            work.wait()
        assert time.monotonic() - begin < 3
        with pytest.raises(dist.DistBackendError, match=text):
            group.send([torch.zeros(3)], rank, 0)
        with pytest.raises(dist.DistBackendError, match=text):
            group.set_timeout(timedelta(seconds=1))

    check(2, body)


def test_a_message_to_oneself_that_cannot_be_copied_ends_at_both_ends():
    def body(rank, size):
        tensor = torch.zeros(4)
        work = dist.irecv(tensor[:3], rank, tag=1)
        sent = dist.isend(tensor[1:], rank, tag=1)
        for each in (work, sent):
            with pytest.raises(RuntimeError, match="memory"):
                each.wait()
        assert not dist.group.WORLD._own_messages._waiting

    check(2, body)


def test_errors_tell_the_tag_from_the_number():
    def body(rank, size):
        work = dist.irecv(torch.zeros(3), 1 - rank, tag=1)
        with pytest.raises(TimeoutError, match="recv from rank . with tag 1 #1 of default_pg"):
            work.wait(timedelta(seconds=0.1))
        dist.barrier()  # both have waited in vain
        dist.send(torch.zeros(3), 1 - rank, tag=1)
        work.wait()

    check(2, body)


def test_sizes_differ():
    def body(rank, size):
        if rank == 0:
            dist.send(torch.ones(10), 1)
        else:
            dist.recv(torch.ones(20), 0)

    outcomes = run(2, body)
    assert "40" in outcomes[1].error and "80" in outcomes[1].error, outcomes[1].error
    assert outcomes[0].error is None or "DistBackendError" in outcomes[0].error and "rank 1" in outcomes[0].error, outcomes[0].error
    assert [outcome.exit_code for outcome in outcomes] == [0, 0] and outcomes[0].seconds < 10, outcomes


def test_a_pipeline():
    """Four stages, eight micro-batches, forward and backward, receives posted ahead."""

    def body(rank, size):
        batches, last = 8, size - 1
        forward = [torch.empty(64) for _ in range(batches)]
        backward = [torch.empty(64) for _ in range(batches)]
        from_left = [dist.irecv(each, rank - 1) for each in forward] if rank else []
        from_right = [dist.irecv(each, rank + 1) for each in backward] if rank < last else []
        works = []
        for number in range(batches):
            if rank:
                from_left[number].wait()
            else:
                forward[number].fill_(number)
            if rank < last:
                works.append(dist.isend(forward[number] + 1, rank + 1))
            else:
                works.append(dist.isend(forward[number] * 2, rank - 1))
        for number in range(batches if rank < last else 0):
            from_right[number].wait()
            if rank:
                works.append(dist.isend(backward[number] + 1, rank - 1))
        for work in works:
            work.wait()
        if rank == 0:
            assert [each[0].item() for each in backward] == [2.0 * (number + last) + last - 1 for number in range(batches)]

    passed(run(4, body))
