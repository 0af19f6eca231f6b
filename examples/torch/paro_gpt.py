#!/usr/bin/env python3
"""Trains a small GPT that is sharded with PaRO, on the CPU: loss, tokens per second, memory and bytes, also as a picture.

    horing-run -n 4 --nodes 2 --rate 1000 -- python examples/torch/paro_gpt.py --strategy IIG --save model.pt
    torchrun --nproc-per-node 4 examples/torch/paro_gpt.py --text book.txt --width 128 --steps 100 --svg training.svg
"""

import argparse
import time
from pathlib import Path

import horing.torch  # noqa: F401 - with torch 2.14 or newer, installing horing is enough
import torch
import torch.distributed as dist
from chart import draw
from horing.torch import paro
from torch import nn

COUNTING = bytes(range(11)) * 16  # the training text without --text


class Gpt(nn.Module):
    def __init__(self, words: int, layers: int, width: int, length: int):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
                                    for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
        self.head.weight = self.words.weight
        nn.init.normal_(self.words.weight, std=0.2)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(length))

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        hidden = self.words(words) + self.places.weight
        for layer in self.layers:
            hidden = layer(hidden, src_mask=self.mask, is_causal=True)
        return self.head(self.norm(hidden))


def next_word_loss(model: nn.Module, text: torch.Tensor, batch: int, length: int) -> torch.Tensor:
    """Of `batch` pieces of the text, from anywhere in it."""
    pieces = text[torch.randint(len(text) - length, (batch, 1)) + torch.arange(length + 1)]
    return nn.functional.cross_entropy(model(pieces[:, :-1]).flatten(0, 1), pieces[:, 1:].flatten())


def bytes_of(optimizer: torch.optim.Optimizer) -> int:
    values = [each for state in optimizer.state.values() for each in state.values() if isinstance(each, torch.Tensor)]
    return sum(each.numel() * each.element_size() for each in values)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strategy", default="auto", help="one of the fourteen, such as IIG, or auto")
    parser.add_argument("--memory", help="of a rank, such as 40GiB; for auto")
    parser.add_argument("--text", help="file to learn from, byte by byte; default: counting")
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--length", type=int, default=16, help="words of a piece of text")
    parser.add_argument("--batch", type=int, default=8, help="pieces of a rank in a micro-step")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--micro-steps", type=int, default=2, help="backward passes of an optimizer step")
    parser.add_argument("--save", help="file for the whole model")
    parser.add_argument("--svg", help="file for a picture")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("horing")
    rank, micro_steps = dist.get_rank(), arguments.micro_steps
    data = Path(arguments.text).read_bytes() if arguments.text else COUNTING
    text = torch.tensor(list(data))
    torch.manual_seed(0)
    model = paro.shard(Gpt(max(data) + 1, arguments.layers, arguments.width, arguments.length), arguments.strategy, arguments.memory,
                       micro_steps=micro_steps)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.005)
    if rank == 0:
        print(model.summary(), flush=True)
    torch.manual_seed(1 + rank)
    tokens = micro_steps * arguments.batch * arguments.length * dist.get_world_size()
    losses, rates, held, between, inside = [], [], [], [], []
    for step in range(arguments.steps):
        begin, loss = time.perf_counter(), torch.zeros(())
        for _ in range(micro_steps):
            part = next_word_loss(model, text, arguments.batch, arguments.length) / micro_steps
            part.backward()
            loss += part.detach()
        norm = model.clip_grad_norm_(1.0)
        optimizer.step()
        optimizer.zero_grad()
        dist.all_reduce(loss, op=dist.ReduceOp.AVG)
        usage = model.usage()
        losses.append(loss.item())
        rates.append(tokens / (time.perf_counter() - begin))
        held.append((usage.kept + usage.gathered + usage.grad_buffers + bytes_of(optimizer)) / 1e6)
        between.append(usage.sent_between_groups / 1e6)
        inside.append(usage.sent_in_group / 1e6)
        if rank == 0 and (step % 10 == 0 or step == arguments.steps - 1):
            print(f"step {step:3}: loss {losses[-1]:.4f}, norm of the gradient {norm:.3f}, {rates[-1]:.0f} tokens/s, {held[-1]:.2f} MB held by a "
                  f"rank, sent by it so far {between[-1]:.2f} MB between groups and {inside[-1]:.2f} MB inside", flush=True)
    if arguments.save:
        whole = model.state_dict()  # on all ranks
        if rank == 0:
            torch.save(whole, arguments.save)
            print(f"saved to {arguments.save}")
    if arguments.svg and rank == 0:
        title = model.summary().splitlines()[0]
        Path(arguments.svg).write_text(draw(title, [
            ("loss, nats per byte" if arguments.text else "loss", {"mean of the ranks": losses}), ("tokens per second", {"all ranks": rates}),
            ("memory of a rank, MB", {"model and optimizer": held}), ("sent by a rank, MB", {"between groups": between, "inside": inside})]))
        print(f"drawn to {arguments.svg}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
