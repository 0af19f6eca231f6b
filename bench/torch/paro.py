#!/usr/bin/env python3
"""Tokens per second of a GPT that PaRO's strategies, FSDP2, HSDP, ZeroRedundancyOptimizer and DDP train on the CPU, in turns.

    horing-run -n 8 --nodes 2 --rate 100 -- python bench/torch/paro.py --micro-steps 4 --json FILE

Each has the same model, AdamW and batches. What FSDP2 gathers and reduces it does in every micro-step; HSDP reduces between nodes, and DDP
and ZeroRedundancyOptimizer reduce, in the last one only. The bytes are those that leave a node, by the counters of its interfaces.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

import horing.torch  # noqa: F401
from horing.torch import paro
from both_backends import init_both
from training import WORDS, Gpt

NODES = int(os.environ.get("HORING_RUN_NODES", 1))
BASES = [f"{method} {backend}" for method in ("FSDP2", "HSDP", "ZeRO", "DDP") for backend in ("Gloo", "horing")]


class Groups:
    """Of all ranks, of those of a node, and of those with one place in their nodes, for both backends."""

    def __init__(self):
        self.all = {"horing" if name == "horing" else "Gloo": group for name, group in init_both().items()}
        size = dist.get_world_size()
        members = size // NODES
        nodes = [list(range(first, first + members)) for first in range(0, size, members)]
        rails = [list(range(place, size, members)) for place in range(members)]
        self.grids = {name: DeviceMesh.from_group([_mine(rails, name.lower()), _mine(nodes, name.lower())], "cpu", mesh=nodes,
                                                  mesh_dim_names=("between", "inside")) for name in self.all} if NODES > 1 else {}
        self.flat = {name: DeviceMesh.from_group(group, "cpu") for name, group in self.all.items()}


def _mine(lists: list[list[int]], backend: str) -> dist.ProcessGroup:
    made = [dist.new_group(ranks, backend=backend) for ranks in lists]
    return next(group for group, ranks in zip(made, lists) if dist.get_rank() in ranks)


class Training:
    """One way to shard the model. `step()` is an optimizer step of several backward passes."""

    def __init__(self, name: str, arguments, groups: Groups):
        torch.manual_seed(0)
        model = Gpt(arguments.width, arguments.layers, arguments.length)
        self.parameters = sum(each.numel() for each in model.parameters())
        method, _, backend = name.partition(" ")
        if method in ("FSDP2", "HSDP"):
            mesh = (groups.flat if method == "FSDP2" else groups.grids)[backend]
            for layer in model.layers:
                fully_shard(layer, mesh=mesh)
            self.model = fully_shard(model, mesh=mesh)
        elif method in ("ZeRO", "DDP"):
            self.model = DistributedDataParallel(model, process_group=groups.all[backend], gradient_as_bucket_view=True)
        else:
            self.model = paro.shard(model, strategy=name, micro_steps=arguments.micro_steps)
        if method == "ZeRO":
            self.optimizer = ZeroRedundancyOptimizer(self.model.parameters(), torch.optim.AdamW, groups.all[backend], lr=1e-4)
        else:
            self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        torch.manual_seed(1 + dist.get_rank())
        self.batches = torch.randint(WORDS, (arguments.micro_steps, arguments.batch, arguments.length))
        self.seconds: list[float] = []
        self.sent: list[int] = []  # between nodes, by a node
        self.losses: list[float] = []

    def step(self) -> None:
        sent, begin = bytes_sent(), time.perf_counter()
        self.optimizer.zero_grad()
        for number, tokens in enumerate(self.batches):
            is_last = number == len(self.batches) - 1
            if hasattr(self.model, "set_requires_all_reduce"):
                self.model.set_requires_all_reduce(is_last)
            pauses = isinstance(self.model, DistributedDataParallel) and not is_last
            with self.model.no_sync() if pauses else contextlib.nullcontext():
                loss = nn.functional.cross_entropy(self.model(tokens).flatten(0, 1), tokens.roll(-1, 1).flatten())
                loss.backward()
        self.optimizer.step()
        dist.barrier()
        self.seconds.append(time.perf_counter() - begin)
        self.sent.append(bytes_sent() - sent)
        self.losses.append(loss.item())

    def state_bytes(self) -> int:
        """Of parameters, gradients and optimizer state on this rank, after a step."""
        if isinstance(self.model, paro.ShardedModule):
            kept = self.model.usage().kept
        else:
            kept = sum(size_of(each) + size_of(each.grad) for each in self.model.parameters())
        optimizer = getattr(self.optimizer, "optim", self.optimizer)
        return kept + sum(size_of(value) for state in optimizer.state.values() for value in state.values())


def size_of(value) -> int:
    if not isinstance(value, torch.Tensor):
        return 0
    value = value.to_local() if hasattr(value, "to_local") else value
    return value.numel() * value.element_size()


def bytes_sent() -> int:
    """By this node, to others, so far."""
    with open("/proc/net/dev") as file:
        lines = [line.split(":") for line in file if ":" in line]
    names = os.environ.get("HORING_RUN_INTERFACES", "").split(",")
    return sum(int(counts.split()[8]) for name, counts in lines if name.strip() in names)


def mean_over_ranks(value: float) -> float:
    tensor = torch.tensor(float(value), dtype=torch.float64)
    dist.all_reduce(tensor, op=dist.ReduceOp.AVG)
    return tensor.item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--others", default=",".join(BASES), help="what PaRO is compared with")
    parser.add_argument("--strategies", default="NNG,NIG,IIG,GGG,auto")
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--length", type=int, default=32, help="tokens of a sequence")
    parser.add_argument("--batch", type=int, default=1, help="sequences of a rank in a micro-step")
    parser.add_argument("--micro-steps", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5, help="steps of each, in turns, of which the median counts")
    parser.add_argument("--json", help="file for the results")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    groups = Groups()
    names = [name for name in arguments.others.split(",") if name and (NODES > 1 or not name.startswith("HSDP"))]
    trainings = {name: Training(name, arguments, groups) for name in (*names, *arguments.strategies.split(","))}
    for _ in range(1 + arguments.rounds):  # the first one warms up
        for training in trainings.values():
            training.step()
    rows = []
    for name, training in trainings.items():
        row = {"name": name, "seconds": training.seconds[1:], "sent": training.sent[1:], "state": round(mean_over_ranks(training.state_bytes())),
               "loss": mean_over_ranks(training.losses[-1])}
        if isinstance(training.model, paro.ShardedModule):
            chosen = training.model._paro
            row |= {"strategy": chosen.cost.name, "formula": round(chosen.cost.slow * dist.get_world_size() / NODES),
                    "predicted": {cost.name: cost.seconds for cost in chosen.costs if cost.seconds is not None}}
        rows.append(row)
    if dist.get_rank() == 0:
        result = {"torch": torch.__version__, "ranks": dist.get_world_size(), "nodes": NODES, "rate_mbit": float(os.environ.get("HORING_RUN_RATE_MBIT", 0)),
                  "parameters": trainings[rows[0]["name"]].parameters, "micro_steps": arguments.micro_steps,
                  "tokens": arguments.micro_steps * arguments.batch * arguments.length * dist.get_world_size(), "load": os.getloadavg(), "rows": rows}
        if arguments.json:
            with open(arguments.json, "w") as file:
                json.dump(result, file, indent=1)
        for row in rows:
            median = statistics.median(row["seconds"])
            print(f"{row['name']:<13}{1e3 * median:8.0f} ms ({1e3 * min(row['seconds']):.0f} to {1e3 * max(row['seconds']):.0f}), "
                  f"{result['tokens'] / median:6.0f} tokens/s, {statistics.median(row['sent']) / 1e6:.1f} MB from a node, "
                  f"{row['state'] / 1e6:.1f} MB of state, loss {row['loss']:.4f} {row.get('strategy', '')}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
