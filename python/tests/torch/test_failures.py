"""What goes wrong ends in an exception that names the rank; programs end with their own exit code."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest
import torch
import torch.distributed as dist

from ranks import check, join, run


def test_a_killed_rank_is_named_within_seconds():
    def body(rank, size):
        tensor = torch.ones(100_000)
        dist.all_reduce(tensor)
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        begin = time.monotonic()
        with pytest.raises(dist.DistBackendError, match="rank 1") as caught:
            while True:
                dist.all_reduce(tensor)
        assert time.monotonic() - begin < 5
        return caught.value.rank, type(caught.value).__name__

    outcomes = run(4, body)
    assert outcomes[1].exit_code == -signal.SIGKILL
    for rank in (0, 2, 3):
        assert outcomes[rank].value == (1, "RemoteError"), outcomes[rank]


def test_a_killed_rank_of_a_group_is_named_by_its_global_number():
    def body(rank, size):
        group = dist.new_group([1, 3])
        if rank == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        if rank == 1:
            with pytest.raises(dist.DistBackendError) as caught:
                dist.all_reduce(torch.ones(1), group=group, async_op=True).wait()
            return caught.value.rank, str(caught.value)
        time.sleep(1)

    outcomes = run(4, body)
    rank, text = outcomes[1].value
    assert rank == 3 and re.match(r"all_reduce( #\d+)? of group \S+, rank 0 of 2 \(its global ranks are \[1, 3\]\): ", text), text


def test_a_late_rank_is_named_at_the_deadline():
    def body(rank, size):
        tensor = torch.ones(3)
        if rank == 1:
            time.sleep(3.5)
            return None
        begin = time.monotonic()
        with pytest.raises(TimeoutError, match="rank 1"):
            dist.all_reduce(tensor)
        assert 1.5 < time.monotonic() - begin < 4
        return "timed out"

    outcomes = run(3, body, group_timeout=2)
    assert outcomes[0].value == outcomes[2].value == "timed out", outcomes


def test_a_missed_deadline_is_torchs_and_the_call_has_one_number():
    """This rank has counted a barrier and a message, too, and the library its own calls."""

    def body(rank, size):
        dist.all_reduce(torch.ones(3))
        dist.barrier()
        if rank == 1:
            time.sleep(3)
            return None
        with pytest.raises(TimeoutError) as caught:
            dist.all_reduce(torch.ones(3))
        return str(caught.value)

    text = run(2, body, group_timeout=1)[0].value
    assert len(re.findall(r"#\d", text)) == 1 and "(timeout= of the group)" in text and "HORING_TIMEOUT_MS" not in text, text


def test_a_late_rank_before_the_deadline_is_no_error():
    def body(rank, size):
        if rank == 1:
            time.sleep(2.5)
        tensor = torch.ones(3)
        dist.all_reduce(tensor)
        assert (tensor == size).all()

    check(2, body, group_timeout=10)


@pytest.mark.parametrize("differ", ("sizes", "types", "operations", "collectives", "roots", "blocks", "blocks for a root", "blocks to reduce",
                                    "splits"))
def test_ranks_that_disagree(differ):
    calls = {
        "sizes": lambda odd: dist.all_reduce(torch.ones(11 if odd else 10)),
        "types": lambda odd: dist.all_reduce(torch.ones(10, dtype=torch.int32 if odd else torch.float32)),
        "operations": lambda odd: dist.all_reduce(torch.ones(10), dist.ReduceOp.MAX if odd else dist.ReduceOp.SUM),
        "collectives": lambda odd: dist.broadcast(torch.ones(10), 0) if odd else dist.all_reduce(torch.ones(10)),
        "roots": lambda odd: dist.broadcast(torch.ones(10), 1 if odd else 0),
        "blocks": lambda odd: dist.all_gather([torch.ones(10 + odd) for _ in range(3)], torch.ones(10 + odd)),
        "blocks for a root": lambda odd: dist.gather(torch.ones(10 + odd), [torch.ones(10)] * 3 if dist.get_rank() == 0 else None, 0),
        "blocks to reduce": lambda odd: dist.reduce_scatter(torch.ones(10 + odd), [torch.ones(10 + odd) for _ in range(3)]),
        "splits": lambda odd: dist.all_to_all_single(torch.ones(6), torch.ones(6), [2, 2, 2], [3, 2, 1] if odd else [2, 2, 2]),
    }

    def body(rank, size):
        with pytest.raises(dist.DistBackendError) as caught:
            calls[differ](rank == 1)
            time.sleep(1)  # a rank may be done before another one notices
            dist.barrier()
        return str(caught.value)

    for outcome in run(3, body, group_timeout=5):
        assert outcome.exit_code == 0 and outcome.value and "rank" in outcome.value, outcome


def test_abort_ends_what_is_under_way():
    def body(rank, size):
        if rank == 0:
            threading.Timer(0.5, dist.group.WORLD.abort).start()
            with pytest.raises(dist.DistBackendError):
                dist.all_reduce(torch.ones(3))
            with pytest.raises(dist.DistBackendError, match="aborted"):
                dist.all_reduce(torch.ones(3))
        else:
            time.sleep(1.5)
            with pytest.raises(dist.DistBackendError, match="rank 0"):
                dist.all_reduce(torch.ones(3))

    check(2, body)


@pytest.mark.parametrize("async_op", (False, True))
def test_ctrl_c_is_a_keyboard_interrupt_within_a_second(async_op):
    def body(rank, size, folder):
        join(rank, size, folder)
        if rank == 1:
            time.sleep(2)
            return None
        sent = []

        def interrupt():
            sent.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)

        threading.Timer(0.5, interrupt).start()
        with pytest.raises(KeyboardInterrupt):
            work = dist.all_reduce(torch.ones(3), async_op=async_op)
            work.wait()
        took = time.monotonic() - sent[0]
        dist.destroy_process_group()
        return took, time.monotonic() - sent[0]

    outcomes = run(2, body, group=False)
    assert outcomes[0].value and outcomes[0].value[0] < 1 and outcomes[0].value[1] < 4, outcomes[0]


@pytest.mark.parametrize("state", ("idle", "waiting", "under way"))
def test_a_program_that_just_ends_has_its_own_exit_code(state):
    def body(rank, size, folder):
        join(rank, size, folder)
        dist.all_reduce(torch.ones(3))
        if state == "under way" and rank == 0:
            dist.all_reduce(torch.ones(3), async_op=True)
        if state == "waiting" and rank == 1:
            time.sleep(0.5)
        run_atexit_and_exit(7 if rank == 0 else 0)

    begin = time.monotonic()
    outcomes = run(2, body, group=False)
    assert [outcome.exit_code for outcome in outcomes] == [7, 0], outcomes
    assert time.monotonic() - begin < 10


def test_an_interpreter_that_ends_while_an_operation_is_under_way(tmp_path):
    program = """
        import sys
        import torch
        import torch.distributed as dist
        import horing.torch
        rank = int(sys.argv[1])
        dist.init_process_group("horing", init_method="file://" + sys.argv[2], rank=rank, world_size=2)
        dist.all_reduce(torch.ones(3))
        if rank == 0:
            work = dist.all_reduce(torch.ones(10, 2)[:, 0], async_op=True)
            message = dist.irecv(torch.ones(3), 1)
        sys.exit(7 - rank)
        """
    ranks = [subprocess.Popen([sys.executable, "-c", textwrap.dedent(program), str(rank), str(tmp_path / "store")],
                              stderr=subprocess.PIPE, text=True) for rank in range(2)]
    try:
        texts = [rank.communicate(timeout=60)[1] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [7, 6], texts
    assert not any("Traceback" in text or "Fatal" in text or "terminate" in text for text in texts), texts


def run_atexit_and_exit(code: int):
    """As an interpreter ends; a child of multiprocessing ends without exit handlers."""
    import atexit
    atexit._run_exitfuncs()
    sys.stdout.flush()
    os._exit(code)


def test_forked_children_live_and_end_as_if_there_were_no_group():
    def body(rank, size):
        group = dist.group.WORLD
        dist.all_reduce(torch.ones(3))
        child = os.fork()
        if child == 0:
            code = 1
            try:
                with pytest.raises(RuntimeError, match="belongs to the parent of this forked"):
                    group.allreduce([torch.ones(1)])
                code = 5
            finally:
                run_atexit_and_exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
        loader = torch.utils.data.DataLoader(torch.arange(16.0), batch_size=4, num_workers=2, multiprocessing_context="fork")
        total = sum(batch.sum() for batch in loader)
        dist.all_reduce(total)
        assert total.item() == size * 120

    check(2, body)


def test_a_deadline_that_is_changed():
    def body(rank, size):
        from datetime import timedelta
        if rank == 1:
            time.sleep(3)
            return
        dist.group.WORLD.set_timeout(timedelta(seconds=1))
        begin = time.monotonic()
        with pytest.raises(TimeoutError, match="rank 1"):
            dist.all_reduce(torch.ones(3))
        assert 0.9 < time.monotonic() - begin < 3

    check(2, body)
