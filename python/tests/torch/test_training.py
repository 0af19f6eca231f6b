"""What people train with: DDP, FSDP, DTensor, functional collectives, checkpoints."""

from __future__ import annotations

import copy
import os
import weakref

import pytest
import torch
import torch._dynamo  # noqa: F401 - once, instead of in every rank
import torch.distributed as dist
from torch import nn
from torch.distributed import _functional_collectives as funcol
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel

from names import MixedPrecisionPolicy, Shard, distribute_tensor, fully_shard, needs_fsdp2_on_cpu
from ranks import check, kind


def model() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4))


def batch(step: int, rank: int) -> torch.Tensor:
    return torch.randn(8, 16, generator=torch.Generator().manual_seed(100 * step + rank))


def alone(size: int, steps: int) -> nn.Module:
    """The same training in one process, on the batches of all ranks."""
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(steps):
        optimizer.zero_grad()
        net(torch.cat([batch(step, rank) for rank in range(size)])).square().mean().backward()
        optimizer.step()
    return net


def train(net: nn.Module, rank: int, steps: int, optimizer=None) -> None:
    optimizer = optimizer or torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(steps):
        optimizer.zero_grad()
        net(batch(step, rank)).square().mean().backward()
        optimizer.step()


def close_to(net: nn.Module, expected: nn.Module) -> None:
    for (name, got), wanted in zip(net.state_dict().items(), expected.state_dict().values()):
        got = got.full_tensor() if hasattr(got, "full_tensor") else got
        torch.testing.assert_close(got, wanted, msg=lambda text: f"{name}: {text}")


def test_ddp():
    def body(rank, size):
        net = DistributedDataParallel(model(), bucket_cap_mb=0.001)
        train(net, rank, 5)
        close_to(net.module, alone(size, 5))

    check(3, body)


def test_ddp_takes_the_parameters_of_rank_0_and_skips_unused_ones():
    class Either(nn.Module):
        def __init__(self, seed):
            super().__init__()
            torch.manual_seed(seed)
            self.left, self.right = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, inputs, use_left):
            return (self.left if use_left else self.right)(inputs)

    def body(rank, size):
        net = DistributedDataParallel(Either(rank), find_unused_parameters=True)
        expected = Either(0)
        assert torch.equal(net.module.left.weight, expected.left.weight)
        net(torch.ones(2, 4), rank == 0).sum().backward()
        assert torch.allclose(net.module.left.bias.grad, torch.full((4,), 2.0 / size))

    check(2, body)


def test_ddp_comm_hooks():
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

    def body(rank, size):
        net = DistributedDataParallel(model())
        net.register_comm_hook(None, default_hooks.allreduce_hook)
        train(net, rank, 3)
        close_to(net.module, alone(size, 3))
        net = DistributedDataParallel(model())
        net.register_comm_hook(None, default_hooks.fp16_compress_hook)
        train(net, rank, 1)
        net = DistributedDataParallel(model())
        state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=2)
        net.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
        train(net, rank, 4)  # its callbacks wait for collectives
        weights = [torch.empty_like(net.module[0].weight) for _ in range(size)]
        dist.all_gather(weights, net.module[0].weight.detach())
        assert all(torch.equal(each, weights[0]) for each in weights)

    check(2, body)


def test_ddp_no_sync_join_and_batch_norm():
    def body(rank, size):
        net = DistributedDataParallel(model())
        with net.no_sync():
            net(batch(0, rank)).sum().backward()
        net(batch(1, rank)).sum().backward()
        gradient = net.module[0].weight.grad
        everyone = [torch.empty_like(gradient) for _ in range(size)]
        dist.all_gather(everyone, gradient)
        assert all(torch.allclose(each, gradient) for each in everyone)
        expected = model()
        expected(batch(1, 1)).sum().backward()
        for divide_by_all in (True, False):
            uneven = DistributedDataParallel(model())
            with uneven.join(divide_by_initial_world_size=divide_by_all):
                for step in range(1 + rank):
                    uneven.zero_grad()
                    uneven(batch(step, rank)).sum().backward()
            if rank == 1:  # its second step was its own
                torch.testing.assert_close(uneven.module[0].weight.grad, expected[0].weight.grad / (size if divide_by_all else 1))
        assert net.device_ids is None

    check(2, body)


@needs_fsdp2_on_cpu
def test_fsdp():
    def body(rank, size):
        for reshard in (True, False):
            net = model()
            for layer in net:
                if isinstance(layer, nn.Linear):
                    fully_shard(layer, reshard_after_forward=reshard)
            fully_shard(net)
            train(net, rank, 5)
            close_to(net, alone(size, 5))

    check(3, body)


@needs_fsdp2_on_cpu
def test_fsdp_with_bfloat16_and_hsdp():
    def body(rank, size):
        mesh = init_device_mesh(kind(), (2, 2), mesh_dim_names=("replicate", "shard"))
        net = fully_shard(model(), mesh=mesh)
        train(net, rank, 3)
        close_to(net, alone(size, 3))
        net = fully_shard(model(), mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32))
        train(net, rank, 2)
        assert all(torch.isfinite(each.to_local()).all() for each in net.parameters())

    check(4, body)


def test_the_first_fsdp():
    from torch.distributed.fsdp import FullyShardedDataParallel

    def body(rank, size):
        net = FullyShardedDataParallel(model(), device_id=torch.device("cpu"))
        train(net, rank, 3)
        with FullyShardedDataParallel.summon_full_params(net):
            close_to(net.module, alone(size, 3))

    check(2, body)


def test_sharded_optimizer():
    from torch.distributed.optim import ZeroRedundancyOptimizer

    def body(rank, size):
        net = DistributedDataParallel(model())
        train(net, rank, 4, ZeroRedundancyOptimizer(net.parameters(), torch.optim.SGD, lr=0.1))
        close_to(net.module, alone(size, 4))

    check(2, body)


def test_tensor_parallel():
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    def body(rank, size):
        mesh = init_device_mesh(kind(), (size,))
        net = model()
        expected = copy.deepcopy(net)(batch(0, 0))
        parallelize_module(net, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
        result = net(batch(0, 0))
        torch.testing.assert_close(result, expected)
        result.sum().backward()
        rows = distribute_tensor(torch.arange(12.0).view(6, 2), mesh, [Shard(0)])
        assert torch.equal(rows.redistribute(mesh, [Shard(1)]).full_tensor(), torch.arange(12.0).view(6, 2))
        assert rows.sum().full_tensor().item() == 66

    check(2, body)


def test_functional_collectives():
    def body(rank, size):
        group, ranks = dist.group.WORLD, list(range(size))
        ones = torch.ones(4)
        assert torch.equal(funcol.all_reduce(ones, "sum", group), size * ones)
        assert torch.equal(funcol.all_gather_tensor(rank * torch.ones(2), 0, group), torch.arange(1.0 * size).repeat_interleave(2))
        assert torch.equal(funcol.reduce_scatter_tensor(torch.ones(2 * size), "avg", 0, group), torch.ones(2))
        assert torch.equal(funcol.all_to_all_single(torch.full((size,), 1.0 * rank), None, None, group), torch.arange(1.0 * size))
        assert torch.equal(funcol.broadcast(torch.full((2,), 1.0 * rank), 1, group), torch.ones(2))
        many = funcol.all_reduce_coalesced([ones, 2 * ones], "sum", ranks)
        assert torch.equal(many[1], 2 * size * ones)
        many = funcol.all_gather_into_tensor_coalesced([ones, ones[:2] * rank], ranks)
        assert torch.equal(many[1], torch.arange(1.0 * size).repeat_interleave(2))
        many = funcol.reduce_scatter_tensor_coalesced([torch.ones(size), torch.ones(2 * size)], "sum", [0, 0], ranks)
        assert torch.equal(many[1], size * torch.ones(2))

    check(2, body)


@needs_fsdp2_on_cpu
def test_checkpoints():
    import torch.distributed.checkpoint as dcp

    def body(rank, size, folder):
        from ranks import join
        join(rank, size, folder)
        net = fully_shard(model())
        train(net, rank, 2)
        path = os.path.join(folder, "checkpoint")
        dcp.save(net.state_dict(), checkpoint_id=path)
        loaded = fully_shard(model())
        state = loaded.state_dict()
        dcp.load(state, checkpoint_id=path)
        loaded.load_state_dict(state)
        close_to(loaded, alone(size, 2))
        dist.destroy_process_group()

    check(2, body, group=False)


def test_embeddings_with_sparse_gradients():
    def body(rank, size):
        torch.manual_seed(0)
        net = DistributedDataParallel(nn.Embedding(10, 3, sparse=True))
        net(torch.tensor([rank, 5])).sum().backward()
        expected = torch.zeros(10, 3)
        for each in range(size):
            expected[each] += 1.0 / size
        expected[5] = 1.0
        torch.testing.assert_close(net.module.weight.grad.to_dense(), expected)

    check(3, body)


def test_compiled_collectives():
    def body(rank, size):
        group = dist.group.WORLD

        @torch.compile(backend="aot_eager", fullgraph=True)
        def doubled(tensor):
            return 2 * funcol.all_reduce(tensor + 1, "sum", group)

        assert torch.equal(doubled(torch.ones(4)), torch.full((4,), 4.0 * size))
        net = DistributedDataParallel(torch.compile(model(), backend="aot_eager"))
        train(net, rank, 2)
        gradient = net.module.get_parameter("_orig_mod.0.weight").grad
        everyone = [torch.empty_like(gradient) for _ in range(size)]
        dist.all_gather(everyone, gradient)
        assert all(torch.equal(each, gradient) for each in everyone)

    check(2, body, timeout=120)


def test_handles_that_are_dropped_hold_no_large_tensors():
    def body(rank, size):
        tensors = [torch.ones(1 << 18) for _ in range(8)]
        for tensor in tensors:
            dist.all_reduce(tensor, async_op=True)
        dist.all_reduce(torch.ones(1), async_op=True).wait()  # all before it are complete, too
        left = [weakref.ref(tensor) for tensor in tensors]
        del tensor
        tensors.clear()
        assert [tensor() for tensor in left] == [None] * len(left)

    check(2, body)


@pytest.mark.parametrize("static", [False, True])
def test_compiled_ddp(static):
    def body(rank, size):
        net = torch.compile(DistributedDataParallel(model(), static_graph=static), backend="aot_eager")
        train(net, rank, 4)  # after the first step C++ rebuilds the buckets, by collectives
        close_to(net.module, alone(size, 4))

    check(2, body, timeout=120)


def test_paro_says_which_torch_it_needs(monkeypatch):
    from horing.torch import paro

    monkeypatch.delattr(torch._C._autograd, "_top_saved_tensors_default_hooks", raising=False)
    with pytest.raises(RuntimeError, match="PaRO needs torch 2.8 or newer"):
        paro.shard(nn.Linear(2, 2))


def test_pipeline_schedules():
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

    def body(rank, size):
        for schedule_of in (ScheduleGPipe, Schedule1F1B):
            torch.manual_seed(3)
            layers = [nn.Linear(6, 6) for _ in range(size)]
            stage = PipelineStage(layers[rank], rank, size, torch.device("cpu"), input_args=torch.empty(2, 6))
            schedule = schedule_of(stage, 4, loss_fn=lambda output, target: (output - target).square().sum())
            inputs, target = torch.randn(8, 6), torch.randn(8, 6)
            schedule.step(*([inputs] if rank == 0 else []), **({"target": target} if rank == size - 1 else {}))
            got = layers[rank].weight.grad.clone()
            whole = nn.Sequential(*copy.deepcopy(layers))
            whole.zero_grad()
            (whole(inputs) - target).square().sum().backward()
            expected = whole[rank].weight.grad  # of which some versions of torch take the mean over the parts
            torch.testing.assert_close(got / got.norm(), expected / expected.norm())

    check(3, body)


def test_debug_level_detail():
    def body(rank, size, folder):
        from ranks import join
        dist.set_debug_level(dist.DebugLevel.DETAIL)
        join(rank, size, folder)
        net = DistributedDataParallel(model())
        train(net, rank, 2)
        close_to(net.module, alone(size, 2))
        dist.destroy_process_group()

    check(2, body, group=False)
