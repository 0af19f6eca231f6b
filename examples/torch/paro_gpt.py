#!/usr/bin/env python3
"""Trains a small GPT that is sharded with PaRO, on the CPU, and saves the whole model.

    horing-run -n 4 --nodes 2 --rate 1000 -- python examples/torch/paro_gpt.py --strategy IIG --save model.pt
    torchrun --nproc-per-node 4 examples/torch/paro_gpt.py
"""

import argparse

import horing.torch  # noqa: F401 - with torch 2.14 or newer, installing horing is enough
import torch
import torch.distributed as dist
from horing.torch import paro
from torch import nn

BATCH, LENGTH, WIDTH, WORDS = 8, 16, 32, 11


class Gpt(nn.Module):
    def __init__(self, layers: int):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True)
                                    for _ in range(layers))
        self.head = nn.Linear(WIDTH, WORDS, bias=False)
        self.head.weight = self.words.weight
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(LENGTH))

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        hidden = self.words(words) + self.places.weight
        for layer in self.layers:
            hidden = layer(hidden, src_mask=self.mask, is_causal=True)
        return self.head(hidden)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strategy", default="auto", help="one of the fourteen, such as IIG, or auto")
    parser.add_argument("--memory", help="of a rank, such as 40GiB; for auto")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--micro-steps", type=int, default=2, help="backward passes of an optimizer step")
    parser.add_argument("--save", help="file for the whole model")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("horing")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = paro.shard(Gpt(3), arguments.strategy, arguments.memory, micro_steps=arguments.micro_steps)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.005)
    if rank == 0:
        print(model.summary(), flush=True)
    torch.manual_seed(1 + rank)
    for step in range(arguments.steps):
        for _ in range(arguments.micro_steps):
            words = torch.randint(WORDS, (BATCH, 1)) + torch.arange(LENGTH)
            logits = model(words % WORDS)
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), (words + 1).flatten() % WORDS) / arguments.micro_steps
            loss.backward()
        norm = model.clip_grad_norm_(1.0)
        optimizer.step()
        optimizer.zero_grad()
        if rank == 0 and (step % 10 == 0 or step == arguments.steps - 1):
            print(f"step {step:3}: loss {arguments.micro_steps * loss.item():.4f}, norm of the gradient {norm:.3f}", flush=True)
    if arguments.save:
        whole = model.state_dict()  # on all ranks
        if rank == 0:
            torch.save(whole, arguments.save)
            print(f"saved to {arguments.save}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
