#!/usr/bin/env python3
"""Runs a feed-forward network whose weights are spread over the ranks (tensor parallelism), on the CPU.

    horing-run -n 4 -- python examples/torch/tensor_parallel.py
    torchrun --nproc-per-node 4 examples/torch/tensor_parallel.py
"""

import copy
import time

import horing.torch  # noqa: F401 - with torch 2.14 or newer, installing horing is enough
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

REQUESTS, WIDTH = 20, 256


def main() -> None:
    dist.init_process_group("horing")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)).eval()
    whole = copy.deepcopy(model)
    parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    with torch.inference_mode():
        inputs = torch.randn(4, WIDTH)
        difference = (model(inputs) - whole(inputs)).abs().max().item()
        begin = time.perf_counter()
        for _ in range(REQUESTS):
            model(inputs)
        took = (time.perf_counter() - begin) / REQUESTS
    if dist.get_rank() == 0:
        print(f"largest difference from one process: {difference:.1e}; {1e3 * took:.2f} ms a request", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
