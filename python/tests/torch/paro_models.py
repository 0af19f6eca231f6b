"""Models written with torch.nn, and how they are trained: on one process, or on ranks of which each has its part of the batch."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from ranks import join

WORDS, LENGTH, WIDTH = 13, 6, 8
STRATEGIES = ("NNN", "NNI", "NII", "INI", "III", "NNG", "NIG", "NGG", "ING", "IIG", "IGG", "GNG", "GIG", "GGG")


class Block(nn.Module):
    def __init__(self, width: int, heads: int, checkpointed: bool):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.checkpointed = checkpointed

    def forward(self, hidden, mask):
        normed = self.norms[0](hidden)
        hidden = hidden + self.attention(normed, normed, normed, attn_mask=mask, need_weights=False)[0]
        inner = self.norms[1](hidden)
        return hidden + (checkpoint(self.mlp, inner, use_reentrant=False) if self.checkpointed else self.mlp(inner))


class Gpt(nn.Module):
    """With a head that is tied to the embedding, a frozen block, and checkpointed layers: whole ones, or a part of each."""

    def __init__(self, layers: int = 3, checkpointed: str = "", frozen: bool = False):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Parameter(0.1 * torch.randn(LENGTH, WIDTH))
        self.layers = nn.ModuleList(Block(WIDTH, 2, checkpointed == "parts") for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)
        self.head.weight = self.words.weight
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(LENGTH))
        self.checkpointed = checkpointed == "layers"
        if frozen:
            self.layers[1].requires_grad_(False)
            self.layers[2].mlp[0].weight.requires_grad_(False)

    def forward(self, words):
        hidden = self.words(words) + self.places
        for layer in self.layers:
            hidden = checkpoint(layer, hidden, self.mask, use_reentrant=False) if self.checkpointed else layer(hidden, self.mask)
        return self.head(self.norm(hidden))


class Experts(nn.Module):
    """Each token goes to one of three."""

    def __init__(self):
        super().__init__()
        self.router = nn.Linear(WIDTH, 3)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(WIDTH, 16), nn.ReLU(), nn.Linear(16, WIDTH)) for _ in range(3))

    def forward(self, hidden):
        chances = self.router(hidden).softmax(-1)
        chance, chosen = chances.max(-1)
        result = torch.zeros_like(hidden)
        for number, expert in enumerate(self.experts):
            mine = chosen == number
            if mine.any():  # so ranks use different ones
                result[mine] = chance[mine].unsqueeze(-1) * expert(hidden[mine])
        return hidden + result


class Mixture(nn.Module):
    """Of experts, on words, without attention. `mixed`: the first two share their experts, the last one has frozen ones, and all are checkpointed."""

    def __init__(self, mixed: bool = False):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.mixtures = nn.ModuleList(Experts() for _ in range(3))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS)
        self.mixed = mixed
        if mixed:
            _mix(self.mixtures)

    def forward(self, words):
        hidden = self.words(words) + self.places.weight
        for mixture in self.mixtures:
            hidden = checkpoint(mixture, hidden, use_reentrant=False) if self.mixed else mixture(hidden)
        return self.head(self.norm(hidden))


def _mix(mixtures: nn.ModuleList) -> None:
    for expert, other in zip(mixtures[0].experts, mixtures[1].experts):
        expert[0].weight = other[0].weight
    mixtures[-1].experts[1:].requires_grad_(False)


class Vision(nn.Module):
    """A transformer on patches of an image, with a mixture of experts. `mixed` as for Mixture."""

    def __init__(self, mixed: bool = False):
        super().__init__()
        self.patches = nn.Conv2d(1, WIDTH, 4, 4)
        self.start = nn.Parameter(torch.randn(1, 1, WIDTH))
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(WIDTH, 2, 16, dropout=0.0, batch_first=True), 2,
                                             enable_nested_tensor=False)
        self.mixtures = nn.ModuleList(Experts() for _ in range(2))
        self.head = nn.Linear(WIDTH, WORDS)
        self.mixed = mixed
        if mixed:
            _mix(self.mixtures)
            self.encoder.layers[0].requires_grad_(False)

    def forward(self, images):
        hidden = self.patches(images).flatten(2).transpose(1, 2)
        hidden = self.encoder(torch.cat([self.start.expand(len(images), 1, WIDTH), hidden], 1))
        for mixture in self.mixtures:
            hidden = checkpoint(mixture, hidden, use_reentrant=False) if self.mixed else mixture(hidden)
        return self.head(hidden[:, 0])


def made(kind, *arguments, **options) -> nn.Module:
    torch.manual_seed(7)
    return kind(*arguments, **options).double()


def batch(model: nn.Module, number: int, rank: int):
    generator = torch.Generator().manual_seed(1000 * number + rank)
    if isinstance(model, Vision):
        return torch.randn(4, 1, 8, 8, generator=generator).double(), torch.randint(WORDS, (4,), generator=generator)
    words = torch.randint(WORDS, (3, LENGTH), generator=generator)
    return words, (words + 1) % WORDS


def loss_of(model: nn.Module, number: int, ranks) -> torch.Tensor:
    """The mean over the ranks' batches of that number."""
    losses = []
    for rank in ranks:
        inputs, targets = batch(model, number, rank)
        losses.append(functional.cross_entropy(model(inputs).flatten(0, -2), targets.flatten()))
    return sum(losses) / len(losses)


def train(model: nn.Module, ranks, steps: int = 3, micro_steps: int = 2, largest_norm: float | None = 0.5) -> list[float]:
    """With AdamW; what each step's batches lost. `ranks` are those whose batches this process has."""
    optimizer = torch.optim.AdamW([{"params": [each for each in model.parameters() if each.dim() > 1], "weight_decay": 0.1},
                                   {"params": [each for each in model.parameters() if each.dim() <= 1], "weight_decay": 0.0}], lr=0.01)
    lost = []
    for step in range(steps):
        optimizer.zero_grad()
        total = 0.0
        for micro in range(micro_steps):
            loss = loss_of(model, step * micro_steps + micro, ranks)
            loss.backward()
            total += loss.item()
        if largest_norm:
            clip = getattr(model, "clip_grad_norm_", None)
            lost.append(float(clip(largest_norm) if clip else nn.utils.clip_grad_norm_(model.parameters(), largest_norm)))
        optimizer.step()
        lost.append(total)
    return lost


def mean_over_ranks(values: list[float]) -> torch.Tensor:
    tensor = torch.tensor(values, dtype=torch.float64)
    dist.all_reduce(tensor, op=dist.ReduceOp.AVG)
    return tensor


def join_nodes(rank: int, size: int, folder: str, members: int = 2) -> None:
    """Groups of `members` ranks represent nodes."""
    os.environ["HORING_GROUP"] = f"node{rank // members}"
    join(rank, size, folder)
