#!/usr/bin/env python3
"""Tokens per second of a GPT that is sharded by PaRO's strategies and by FSDP2, on the CPU, in turns.

    horing-run -n 8 --nodes 2 --rate 100 -- python bench/torch/paro.py --strategies NIG,IIG,GGG --micro-steps 4
"""

from __future__ import annotations

import argparse
import os
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard

import horing.torch  # noqa: F401
from horing.torch import paro
from both_backends import init_both
from training import WORDS, Gpt


class Training:
    """One way to shard the model. `step()` is an optimizer step of several backward passes."""

    def __init__(self, name: str, arguments, groups: dict[str, dist.ProcessGroup]):
        torch.manual_seed(0)
        model = Gpt(arguments.width, arguments.layers, arguments.length)
        if name.startswith("FSDP2"):
            mesh = DeviceMesh.from_group(groups[name.split()[-1]], "cpu")
            for layer in model.layers:
                fully_shard(layer, mesh=mesh)
            self.model = fully_shard(model, mesh=mesh)
        else:
            self.model = paro.shard(model, strategy=name, micro_steps=arguments.micro_steps)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.batches = torch.randint(WORDS, (arguments.micro_steps, arguments.batch, arguments.length))

    def step(self) -> float:
        begin = time.perf_counter()
        self.optimizer.zero_grad()
        for tokens in self.batches:
            loss = nn.functional.cross_entropy(self.model(tokens).flatten(0, 1), tokens.roll(-1, 1).flatten())
            loss.backward()
        self.optimizer.step()
        dist.barrier()
        return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strategies", default="NNG,NIG,IIG,GGG")
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--length", type=int, default=32, help="tokens of a sequence")
    parser.add_argument("--batch", type=int, default=1, help="sequences of a rank in a micro-step")
    parser.add_argument("--micro-steps", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5, help="steps of each, in turns, of which the median counts")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    groups = init_both()
    names = ["FSDP2 gloo", "FSDP2 horing", *arguments.strategies.split(",")]
    trainings = {name: Training(name, arguments, groups) for name in names}
    times: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(-1, arguments.rounds):  # the first one warms up
        for name, training in trainings.items():
            seconds = training.step()
            if turn >= 0:
                times[name].append(seconds)
    if dist.get_rank() == 0:
        tokens = arguments.micro_steps * arguments.batch * arguments.length * dist.get_world_size()
        base = statistics.median(times["FSDP2 gloo"])
        print(f"{dist.get_world_size()} ranks, {os.environ.get('HORING_RUN_NODES', 1)} nodes, {os.environ.get('HORING_RUN_RATE_MBIT', '-')} "
              f"Mbit/s, {arguments.micro_steps} micro-steps")
        for name in names:
            median = statistics.median(times[name])
            sent = ""
            if not name.startswith("FSDP2"):
                cost = trainings[name].model._paro.cost
                sent = f", {cost.slow / 1e6:.1f} MB between groups, {cost.memory / 1e6:.1f} MB kept and held"
            print(f"{name:<13}{1e3 * median:7.0f} ms ({1e3 * min(times[name]):.0f} to {1e3 * max(times[name]):.0f}), {tokens / median:6.0f} "
                  f"tokens/s, {base / median:.2f} x FSDP2 on Gloo{sent}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
