#!/usr/bin/env python3
"""Trains a small transformer whose parameters are sharded over the ranks (FSDP2), on the CPU, and saves a checkpoint.

    horing-run -n 4 -- python examples/torch/fsdp.py /tmp/checkpoint
    torchrun --nproc-per-node 4 examples/torch/fsdp.py /tmp/checkpoint
"""

import sys

import horing.torch  # noqa: F401 - with torch 2.14 or newer, installing horing is enough
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
from torch import nn
from torch.distributed.fsdp import fully_shard

STEPS, BATCH, LENGTH, WIDTH, WORDS = 40, 8, 16, 32, 11


def make_model() -> nn.Module:
    torch.manual_seed(0)
    layers = [nn.TransformerEncoderLayer(WIDTH, 4, 64, dropout=0.0, batch_first=True) for _ in range(2)]
    model = nn.Sequential(nn.Embedding(WORDS, WIDTH), *layers, nn.Linear(WIDTH, WORDS))
    for layer in layers:
        fully_shard(layer)
    return fully_shard(model)


def main() -> None:
    dist.init_process_group("horing")
    rank = dist.get_rank()
    model = make_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    torch.manual_seed(1 + rank)
    for step in range(STEPS):
        words = torch.randint(WORDS, (BATCH, LENGTH))
        loss = nn.functional.cross_entropy(model(words).flatten(0, 1), (words + 1).flatten() % WORDS)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0 and (step % 10 == 0 or step == STEPS - 1):
            print(f"step {step:3}: loss {loss.item():.4f}", flush=True)
    if len(sys.argv) > 1:
        checkpoint.save(model.state_dict(), checkpoint_id=sys.argv[1])
        if rank == 0:
            print(f"saved to {sys.argv[1]}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
