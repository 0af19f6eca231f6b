"""The torchcomms backend: every call of its interface, on 2 and 4 ranks, at once and with async_op."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

torchcomms = pytest.importorskip("torchcomms", reason="torchcomms is not installed")

from torchcomms import ReduceOp  # noqa: E402

import horing.torchcomms  # noqa: E402, F401
from launching import horing_run  # noqa: E402
from ranks import passed, run  # noqa: E402

CPU = torch.device("cpu")
sizes = pytest.mark.parametrize("size", (2, 4))
waits = pytest.mark.parametrize("async_op", (False, True))


def run_with_comm(size, body, seconds=20):
    """body(comm) on each rank; how each ended."""

    def be(rank, size, folder):
        os.environ.update(TORCHCOMM_RANK=str(rank), TORCHCOMM_SIZE=str(size))
        comm = torchcomms.new_comm("horing", CPU, "main", store=dist.FileStore(f"{folder}/store", size),
                                   timeout=timedelta(seconds=seconds))
        value = body(comm)
        comm.finalize()
        return value

    return run(size, be, group=False)


def check(size, body):
    return passed(run_with_comm(size, body))


def numbers(count, seed):
    return (torch.arange(count) * 3 + seed * 5 + 1) % 7


def done(work, async_op):
    assert async_op or work.is_completed()
    work.wait()
    assert work.is_completed()


@sizes
@waits
def test_reductions(size, async_op):
    def body(comm):
        rank = comm.get_rank()
        for op, combine in ((ReduceOp.SUM, torch.sum), (ReduceOp.PRODUCT, torch.prod), (ReduceOp.MIN, torch.amin),
                            (ReduceOp.MAX, torch.amax), (ReduceOp.AVG, torch.mean)):
            inputs = [[numbers(5 + part, 10 * each + part).double() for part in range(size)] for each in range(size)]
            totals = [combine(torch.stack([mine[part] for mine in inputs]), dim=0) for part in range(size)]
            tensor = inputs[rank][0].clone()
            done(comm.all_reduce(tensor, op, async_op), async_op)
            assert torch.equal(tensor, totals[0])
            tensor, root = inputs[rank][0].clone(), size - 1
            done(comm.reduce(tensor, root, op, async_op), async_op)
            assert torch.equal(tensor, totals[0] if rank == root else inputs[rank][0])
            output = torch.empty(5 + rank, dtype=torch.float64)
            done(comm.reduce_scatter_v(output, inputs[rank], op, async_op), async_op)
            assert torch.equal(output, totals[rank])
            output, even = torch.empty(5, dtype=torch.float64), [part[:5].clone() for part in inputs[rank]]
            done(comm.reduce_scatter(output, even, op, async_op), async_op)
            assert torch.equal(output, totals[rank][:5])
            output = torch.empty(5, dtype=torch.float64)
            done(comm.reduce_scatter_single(output, torch.cat(even), op, async_op), async_op)
            assert torch.equal(output, totals[rank][:5])
        bits = torch.tensor([1 << rank, 255])
        done(comm.all_reduce(bits, ReduceOp.BXOR, async_op), async_op)
        assert bits.tolist() == [(1 << size) - 1, 0]

    check(size, body)


@sizes
@waits
def test_moves(size, async_op):
    def body(comm):
        rank = comm.get_rank()
        mine, everyone = numbers(6, rank), [numbers(6, each) for each in range(size)]
        uneven = [numbers(each, each) for each in range(size)]
        for root in range(size):
            tensor = mine.clone()
            done(comm.broadcast(tensor, root, async_op), async_op)
            assert torch.equal(tensor, everyone[root])
            outputs = [torch.empty_like(mine) for _ in range(size)] if rank == root else []
            done(comm.gather(outputs, mine, root, async_op), async_op)
            assert len(outputs) == size * (rank == root) and all(map(torch.equal, outputs, everyone))
            whole = torch.empty(6 * size if rank == root else 0, dtype=mine.dtype)
            done(comm.gather_single(whole, mine, root, async_op), async_op)
            assert rank != root or torch.equal(whole, torch.cat(everyone))
            output = torch.empty_like(mine)
            done(comm.scatter(output, everyone if rank == root else [], root, async_op), async_op)
            assert torch.equal(output, mine)
        outputs = [torch.empty_like(mine) for _ in range(size)]
        done(comm.all_gather(outputs, mine, async_op), async_op)
        assert all(map(torch.equal, outputs, everyone))
        outputs = [torch.empty_like(each) for each in uneven]
        done(comm.all_gather_v(outputs, uneven[rank], async_op), async_op)
        assert all(map(torch.equal, outputs, uneven))
        whole = torch.empty(6 * size, dtype=mine.dtype)
        done(comm.all_gather_single(whole, mine, async_op), async_op)
        assert torch.equal(whole, torch.cat(everyone))

    check(size, body)


@sizes
@waits
def test_all_to_all(size, async_op):
    def body(comm):
        rank = comm.get_rank()
        inputs = [numbers(3, 10 * rank + each) for each in range(size)]
        expected = [numbers(3, 10 * each + rank) for each in range(size)]
        outputs = [torch.empty_like(each) for each in inputs]
        done(comm.all_to_all(outputs, inputs, async_op), async_op)
        assert all(map(torch.equal, outputs, expected))
        output = torch.empty(3 * size, dtype=inputs[0].dtype)
        done(comm.all_to_all_single(output, torch.cat(inputs), async_op), async_op)
        assert torch.equal(output, torch.cat(expected))
        rows = torch.cat([torch.full((rank + each, 2), 10 * rank + each) for each in range(size)])
        splits = [rank + each for each in range(size)]
        output = torch.empty(sum(splits), 2, dtype=rows.dtype)
        done(comm.all_to_all_v_single(output, rows, splits, splits, async_op), async_op)
        assert torch.equal(output, torch.cat([torch.full((rank + each, 2), 10 * each + rank) for each in range(size)]))

    check(size, body)


@sizes
@waits
def test_messages_and_barriers(size, async_op):
    def body(comm):
        rank = comm.get_rank()
        following, previous = (rank + 1) % size, (rank - 1) % size
        got = torch.empty(9, dtype=torch.int64)
        sent = comm.send(numbers(9, rank), following, True)
        done(comm.recv(got, previous, async_op), async_op)
        done(sent, True)
        assert torch.equal(got, numbers(9, previous))
        if rank < 2:
            done(comm.send(got, 1, async_op) if rank == 0 else comm.recv(got, 0, async_op), async_op)
            assert torch.equal(got, numbers(9, size - 1))
        done(comm.barrier(async_op), async_op)

    check(size, body)


def test_names_and_hooks():
    def body(comm):
        assert (comm.get_backend(), comm.get_name(), comm.get_size()) == ("horing", "main", 2)
        assert comm.get_backend_impl().get_backend_name() == "horing" and comm.get_device() == CPU
        before, after = [], []
        hooks = (comm.register_pre_hook(lambda name, number, _args: before.append((name.name, number))),
                 comm.register_post_hook(lambda number, _args: after.append(number)))
        comm.all_reduce(torch.ones(3), ReduceOp.SUM, False)
        for hook in hooks:
            hook.remove()
        comm.barrier(False)
        assert before == [("all_reduce", after[0])] and len(after) == 1
        return comm.get_rank()

    assert check(2, body) == [0, 1]


@sizes
def test_split(size):
    def body(comm):
        rank = comm.get_rank()
        members = list(range(rank % 2, size, 2))[::-1]
        part = comm.split(members, f"parity {rank % 2}")
        assert (part.get_name(), part.get_size(), part.get_rank()) == (f"parity {rank % 2}", len(members), members.index(rank))
        total = torch.tensor([rank])
        part.all_reduce(total, ReduceOp.SUM, False)
        assert total.item() == sum(members)
        alone = comm.split([0] if rank == 0 else [], "alone")
        assert (alone is None) == (rank > 0)
        for wrong in ([size], [rank, rank], [-1], [(rank + 1) % size]):
            with pytest.raises(RuntimeError, match=f"split wrong of main on rank {rank}"):
                comm.split(wrong, "wrong")
        for each in (part, alone):
            if each is not None:
                each.finalize()

    check(size, body)


@waits
def test_a_late_rank_is_named_at_the_deadline(async_op):
    def body(comm):
        if comm.get_rank() == 1:
            return time.sleep(3)
        comm.set_timeout(timedelta(seconds=1))
        with pytest.raises(TimeoutError, match=r"all_reduce of main, rank 0 of 2.*rank 1 never called all_reduce #"):
            comm.all_reduce(torch.ones(4), ReduceOp.SUM, async_op).wait()

    check(2, body)


@waits
def test_a_killed_rank_is_named(async_op):
    def body(comm):
        comm.barrier(False)
        if comm.get_rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        with pytest.raises(dist.DistBackendError, match="of main, rank .* of 4.*rank 1") as caught:
            while True:
                comm.all_reduce(torch.ones(10), ReduceOp.SUM, async_op).wait()
        return caught.value.rank

    outcomes = run_with_comm(4, body)
    assert [outcomes[rank].value for rank in (0, 2, 3)] == [1, 1, 1], outcomes


def test_what_is_refused():
    def body(comm):
        ones = torch.ones(3)
        with pytest.raises(RuntimeError, match="no torchcomms backend for cuda"):
            torchcomms.new_comm("horing", torch.device("cuda:0"), "gpu")
        with pytest.raises(TypeError, match="PREMUL_SUM"):
            comm.all_reduce(ones, ReduceOp.PREMUL_SUM(2.0), False)
        with pytest.raises(TypeError, match="BAND of torch.float32"):
            comm.all_reduce(ones, ReduceOp.BAND, False)
        with pytest.raises(ValueError, match="has 3 elements, expected 6"):
            comm.all_gather_single(torch.empty(3), ones, False)
        comm.all_reduce(ones, ReduceOp.SUM, False)
        assert ones.tolist() == [2, 2, 2]

    check(2, body)


def test_operations_after_the_end():
    def body(comm):
        comm.finalize()
        with pytest.raises(dist.DistBackendError, match="was destroyed"):
            comm.barrier(False)

    check(2, body)


def test_ranks_meet_without_a_store_of_the_program(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(textwrap.dedent("""
        import torch, torchcomms, horing.torchcomms
        for name in ("one", "two", "one"):
            comm = torchcomms.new_comm("horing", torch.device("cpu"), name)
            total = torch.ones(4) * (1 + comm.get_rank())
            comm.all_reduce(total, torchcomms.ReduceOp.SUM, False)
            assert total.tolist() == [3.0] * 4, total
            comm.finalize()
        print("complete")
    """))
    ended = subprocess.run([*horing_run("-n", "2"), str(script)], capture_output=True, text=True, timeout=240)
    assert ended.returncode == 0 and ended.stdout.count("complete") == 2, ended


def test_a_rank_that_is_not_known():
    program = "import torch, torchcomms, horing.torchcomms; torchcomms.new_comm('horing', torch.device('cpu'), 'main')"
    unset = ("RANK", "WORLD_SIZE", "TORCHCOMM_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    ended = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=240)
    assert ended.returncode == 1 and "set TORCHCOMM_RANK and TORCHCOMM_SIZE" in ended.stderr, ended
