"""Messages: any order of starting, tags, oneself, batches, pipelines."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

from ranks import check, passed, run


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
            return
        for step in range(3):
            seen = set()
            for _ in range(size - 1):
                received = torch.empty(5, 10)[:, ::2]
                source = dist.recv(received, tag=step)
                assert (received == 10 * source + step).all()
                seen.add(source)
            assert seen == set(range(1, size))

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


def test_sizes_differ():
    def body(rank, size):
        if rank == 0:
            dist.send(torch.ones(10), 1)
        else:
            dist.recv(torch.ones(20), 0)

    outcomes = run(2, body)
    assert "40" in outcomes[1].error and "80" in outcomes[1].error, outcomes[1].error
    assert outcomes[1].exit_code == 0


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
