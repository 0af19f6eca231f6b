#!/usr/bin/env python3
"""Trains a small network on all ranks with DistributedDataParallel, on the CPU.

    horing-run -n 8 --nodes 2 --rate 1000 -- python examples/torch/ddp.py
    torchrun --nproc-per-node 4 examples/torch/ddp.py
"""

import horing.torch  # noqa: F401 - with torch 2.14 or newer, installing horing is enough
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS, BATCH = 100, 32


def target(inputs: torch.Tensor) -> torch.Tensor:
    return inputs.sin().sum(1, keepdim=True)


def main() -> None:
    dist.init_process_group("horing")
    rank = dist.get_rank()
    torch.manual_seed(rank)  # other data on each rank
    net = DistributedDataParallel(nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 1)))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for step in range(STEPS):
        inputs = torch.randn(BATCH, 8)
        loss = (net(inputs) - target(inputs)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 0 or step == STEPS - 1:
            mean = loss.detach().clone()
            dist.all_reduce(mean, dist.ReduceOp.AVG)
            if rank == 0:
                print(f"step {step:3}: loss {mean.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
