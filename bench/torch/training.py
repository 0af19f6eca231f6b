#!/usr/bin/env python3
"""Tokens per second of a GPT under DistributedDataParallel on the CPU, on the backends horing and gloo, side by side.

    horing-run -n 2 -- python bench/torch/training.py
    horing-run -n 4 --nodes 2 --rate 1000 -- python bench/torch/training.py --timeline overlap.json

Both backends train their own copy of the model in turns, and the medians of the turns' steps are compared. With --timeline rank 0
writes one step on horing for https://ui.perfetto.dev: the backward pass, and each bucket's all-reduce from its start to its end.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import horing.torch  # noqa: F401
from both_backends import init_both

WORDS = 4096


class Gpt(nn.Module):
    def __init__(self, width: int, layers: int, length: int):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, width), nn.Embedding(length, width)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(width, width // 64, 4 * width, dropout=0.0, batch_first=True,
                                                               norm_first=True) for _ in range(layers))
        self.head = nn.Linear(width, WORDS, bias=False)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(length))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        hidden = self.words(tokens) + self.places.weight
        for layer in self.layers:
            hidden = layer(hidden, src_mask=self.mask, is_causal=True)
        return self.head(hidden)


class Training:
    """A separate model on one backend; `step()` trains on a batch."""

    def __init__(self, group, arguments):
        torch.manual_seed(0)
        self.model = DistributedDataParallel(Gpt(arguments.width, arguments.layers, arguments.length), process_group=group)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.tokens = torch.randint(WORDS, (arguments.batch, arguments.length))
        self.spans: list[tuple[str, float, float]] = []

    def step(self) -> None:
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.model(self.tokens).flatten(0, 1), self.tokens.roll(-1, 1).flatten())
        begin = time.perf_counter()
        loss.backward()
        self.spans.append(("backward pass", begin, time.perf_counter()))
        self.optimizer.step()

    def watch_buckets(self) -> None:
        """Notes when each bucket's all-reduce begins and ends."""
        def reduce(group, bucket):
            begin, number = time.perf_counter(), bucket.index()
            work = dist.all_reduce(bucket.buffer().div_(group.size()), group=group, async_op=True)

            def done(future):
                self.spans.append((f"all-reduce of bucket {number}", begin, time.perf_counter()))
                return future.value()[0]

            return work.get_future().then(done)

        self.model.register_comm_hook(self.model.process_group, reduce)


def seconds_of(step, repeats: int) -> list[float]:
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        step()
        times.append(time.perf_counter() - begin)
    return times


def write_timeline(path: str, training: Training) -> None:
    training.watch_buckets()
    training.step()
    dist.barrier()
    training.spans.clear()
    training.step()
    if dist.get_rank() == 0:
        first = min(begin for _, begin, _ in training.spans)
        with open(path, "w") as file:
            json.dump([{"name": name, "ph": "X", "pid": 0, "tid": name.split(" of ")[0], "ts": round(1e6 * (begin - first)),
                        "dur": round(1e6 * (end - begin))} for name, begin, end in sorted(training.spans, key=lambda span: span[1])],
                      file, indent=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--length", type=int, default=32, help="tokens of a sequence")
    parser.add_argument("--batch", type=int, default=4, help="sequences of a rank")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each backend, of which the median counts")
    parser.add_argument("--steps", type=int, default=2, help="steps of a turn")
    parser.add_argument("--timeline", help="file for one step on horing")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    groups = init_both()
    trainings = {backend: Training(group, arguments) for backend, group in groups.items()}
    alone = Training(dist.new_subgroups(1)[0], arguments)  # the time of the computation
    times: dict[str, list[float]] = {"alone": [], "horing": [], "gloo": []}
    for name, training in {"alone": alone, **trainings}.items():
        training.step()
    for _ in range(arguments.rounds):
        for name, training in {"alone": alone, **trainings}.items():
            dist.barrier()
            times[name].append(statistics.median(seconds_of(training.step, arguments.steps)))
    if dist.get_rank() == 0:
        parameters = sum(each.numel() for each in alone.model.parameters())
        tokens = arguments.batch * arguments.length * dist.get_world_size()
        medians = {name: statistics.median(values) for name, values in times.items()}
        print(f"{parameters / 1e6:.1f} M parameters, {dist.get_world_size()} ranks, {os.environ.get('HORING_RUN_NODES', 1)} nodes, "
              f"{os.environ.get('HORING_RUN_RATE_MBIT', '-')} Mbit/s: "
              + ", ".join(f"{name} {1e3 * median:.0f} ms a step, {tokens / median:.0f} tokens/s" for name, median in medians.items())
              + f"; horing/gloo {medians['gloo'] / medians['horing']:.2f}", flush=True)
    if arguments.timeline:
        write_timeline(arguments.timeline, trainings["horing"])
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
