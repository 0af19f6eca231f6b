"""The choice of the strategy and its cost: the estimates of the C library for all fourteen."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch

from . import client as c
from .layout import Unit

_PARTITIONS = {c.WHOLE: "whole", c.BY_GROUP: "sharded in the group", c.BY_ALL: "sharded over all ranks"}
_UNITS = {"": 1, "k": 1000, "m": 1000**2, "g": 1000**3, "t": 1000**4, "ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30, "ti": 1 << 40}


AS_FAST = 1.02  # times the time of the fastest, as in src/paro


@dataclass(frozen=True)
class Shape:
    """The ranks of each group, and this rank's place."""

    sizes: tuple[int, ...]
    group: int = 0
    local: int = 0

    @property
    def ranks(self) -> int:
        return sum(self.sizes)

    @property
    def is_grid(self) -> bool:
        return len(set(self.sizes)) == 1

    def copies(self, partition: int) -> int:
        """Of what is sharded so."""
        return (self.ranks, len(self.sizes), 1)[partition]

    def __str__(self) -> str:
        return f"{len(self.sizes)} groups of {self.sizes[0]}" if self.is_grid else f"groups of {', '.join(map(str, self.sizes))}"


@dataclass(eq=False)
class Cost:
    """Of a strategy on one rank: bytes that are kept without the optimizer's state, held for use of each unit, and sent in an optimizer
    step; `most_kept` by any rank, with that state. `estimates` are those of the C library, each for a number of buckets; `seconds`, where they
    were measured, of all collectives. `held_at_uses` are the numbers of the units that are held at each use of one, once a pass has shown them. Before
    that it is the root, the unit in use and the next, in the order of the modules."""

    strategy: int
    name: str
    alias: str
    params: int
    grads: int
    state: int
    kept: int
    most_kept: int
    of_units: tuple[tuple[int, ...], ...]
    grad_buffers: int
    slow: int
    fast: int
    operations: tuple
    estimates: tuple[tuple[c.Estimate, int], ...]
    seconds: float | None = None
    held_at_uses: Sequence[tuple[int, ...]] = ()

    @property
    def gathered(self) -> int:
        """Bytes of the buffers of units that are held for use."""
        return _peak_of(self.of_units, self.held_at_uses or self._runs(2))

    @property
    def memory(self) -> int:
        """Of the rank that keeps the most."""
        return self.most_kept + self.gathered + self.grad_buffers

    @property
    def most_memory(self) -> int:
        """What a limit is compared with before a pass: one more unit is held where gradients of a unit's inputs come late."""
        return self.memory + max(0, _peak_of(self.of_units, self._runs(3)) - self.gathered)

    def _runs(self, length: int) -> Iterator[tuple[int, ...]]:
        """The root and so many neighbours, in the order of the modules and back."""
        numbers = range(len(self.of_units))
        for order in (numbers[1:], numbers[:0:-1]):
            for begin in range(max(1, len(order) - length + 1)):
                yield (0, *order[begin:begin + length])

    def take_time(self, rates: c.Rates) -> None:
        self.seconds = sum(number * c.seconds(estimate, 1, rates) for estimate, number in self.estimates)

    def where(self) -> dict[str, str]:
        return {"parameters": _PARTITIONS[self.params], "gradients": _PARTITIONS[self.grads],
                "optimizer state": _PARTITIONS[self.state]}


def parse_bytes(given: float | str | None) -> int | None:
    """40GiB, 512 MB, 1e9: a number of bytes."""
    if given is None:
        return None
    found = re.fullmatch(r"\s*([0-9.]+(?:e[+]?[0-9]+)?)\s*([kmgt]?i?)b?\s*", str(given).lower())
    if not found:
        raise ValueError(f"memory is {given!r}: expected bytes, such as '40GiB' or 512000000")
    return int(float(found[1]) * _UNITS[found[2]])


def text_of(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            break
        count /= 1024
    else:
        unit = "TiB"
    return f"{count:.0f} {unit}" if unit == "B" else f"{count:.2f} {unit}"


def time_of(seconds: float | None) -> str:
    return "" if seconds is None else f"{1e3 * seconds:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


class _Bucket(NamedTuple):
    """What the cost of one depends on."""

    count: int
    dtype: torch.dtype
    wire_dtype: torch.dtype
    grad_dtype: torch.dtype
    state_dtype: torch.dtype
    trainable: bool

    def model(self, shape: Shape, micro_steps: int = 1, optimizer_values: int = 0) -> c.Model:
        width, state_width = self.wire_dtype.itemsize, self.state_dtype.itemsize
        has_master = width < (state_width if self.trainable else self.dtype.itemsize)
        trainable, values = (self.count, optimizer_values) if self.trainable else (0, 0)
        sizes = None if shape.is_grid else (c.c_int * len(shape.sizes))(*shape.sizes)
        return c.Model(len(shape.sizes), shape.sizes[0], self.count, trainable, micro_steps, width, (has_master + values) * state_width,
                       self.grad_dtype.itemsize, sizes, shape.group, shape.local, 1)

    def gathered(self, shape: Shape) -> int:
        """Bytes of its parameters."""
        whole = self._replace(dtype=self.wire_dtype, trainable=False)
        return c.estimate(0, whole.model(shape)).memoryBytes


def _buckets_of(unit: Unit, bucket_bytes: int) -> list[_Bucket]:
    """As the C client lays them out."""
    found: list[_Bucket] = []
    latest: dict[tuple, int] = {}  # of each kind
    for entry in unit.entries:
        kind = entry.dtype, entry.trainable
        count = found[latest[kind]].count if kind in latest else 0
        if kind not in latest or (count > 0 and count + entry.count > bucket_bytes // entry.wire_dtype.itemsize):
            latest[kind], count = len(found), 0
            found.append(_Bucket(0, entry.dtype, entry.wire_dtype, entry.grad_dtype, entry.state_dtype, entry.trainable))
        found[latest[kind]] = found[latest[kind]]._replace(count=count + entry.count)
    return found


def costs_of(shape: Shape, units: list[Unit], micro_steps: int, optimizer_values: int, bucket_bytes: int, grad_buffers: int = 2,
             one_size: bool = False) -> list[Cost]:
    """Of each strategy. `one_size`: memory for gathered buckets is as long as the longest for each of them."""
    buckets = [_buckets_of(unit, bucket_bytes) for unit in units]
    numbers = Counter(itertools.chain.from_iterable(buckets))
    gathered = {bucket: bucket.gathered(shape) for bucket in numbers}
    longest = max(gathered.values(), default=0)
    of_units = tuple(tuple(longest if one_size else gathered[bucket] for bucket in each) for each in buckets)
    grads = {bucket: gathered[bucket] // bucket.wire_dtype.itemsize * bucket.grad_dtype.itemsize for bucket in numbers if bucket.trainable}
    on_their_way = min(grad_buffers, sum(numbers[bucket] for bucket in grads)) * max(grads.values(), default=0)
    return [_cost_of(strategy, shape, numbers, micro_steps, optimizer_values, of_units, on_their_way) for strategy in c.STRATEGIES]


def _cost_of(strategy: int, shape: Shape, buckets: Counter, micro_steps: int, optimizer_values: int,
             of_units: tuple[tuple[int, ...], ...], grad_buffers: int) -> Cost:
    row = c.strategy_info(strategy)
    kept = most_kept = slow = fast = 0
    operations: dict[tuple, list[int]] = {}
    estimates = []
    # In the same order on all ranks, so that they choose the same strategy.
    for bucket, number in buckets.items():
        own, whole = (c.estimate(strategy, bucket.model(shape, micro_steps, each)) for each in (0, optimizer_values))
        estimates.append((whole, number))
        kept, most_kept = kept + number * own.memoryBytes, most_kept + number * whole.largestMemoryBytes
        slow, fast = slow + number * whole.slowBytes, fast + number * whole.fastBytes
        for each in whole.operations[:whole.numOperations]:
            sums = operations.setdefault((each.phase, each.collective, each.scope, each.times), [0, 0])
            sums[0] += number * each.slowBytes
            sums[1] += number * each.fastBytes
    if row.params == c.WHOLE:
        of_units = ((),) * len(of_units)
    if row.grads == c.WHOLE and (shape.is_grid or row.state != c.BY_GROUP):  # no groups of different sizes exchange them
        grad_buffers = 0
    return Cost(strategy, row.name.decode(), row.alias.decode(), row.params, row.grads, row.state, kept, most_kept, of_units, grad_buffers, slow, fast,
                tuple((*key, *sums) for key, sums in operations.items()), tuple(estimates))


def _peak_of(of_units: tuple[tuple[int, ...], ...], held_at_uses: Iterable[tuple[int, ...]]) -> int:
    """Bytes of all buffers, as the C client takes them: for each bucket the smallest spare one that is long enough, or else a new one in the
    place of a spare one."""
    buffers: dict[int, list[int]] = {}
    spare: list[int] = []
    total = most = 0
    for held in held_at_uses:
        for released in buffers.keys() - held:
            spare += buffers.pop(released)
        for number in held:
            if number in buffers:
                continue
            buffers[number] = []
            for size in of_units[number]:
                best = min((each for each in spare if each >= size), default=0)
                if best:
                    spare.remove(best)
                else:
                    total += size - (spare.pop() if spare else 0)
                    most = max(most, total)
                buffers[number].append(best or size)
    return most


def fitting(name: str, memory: int | None, costs: list[Cost]) -> list[Cost]:
    """The strategies that fit into `memory` on every rank: the one of that name, or for "auto" any."""
    wanted = c.find_strategy(name)
    possible = [cost for cost in costs if wanted < 0 or cost.strategy == wanted]
    fit = [cost for cost in possible if memory is None or cost.most_memory <= memory]
    if not fit:
        least = min(possible, key=lambda cost: cost.most_memory)
        raise ValueError(f"no strategy that is asked for fits into memory={text_of(memory)} on each rank: {least.name} needs the least, "
                         f"{text_of(least.most_memory)}; smaller units, or more ranks, need less")
    return fit


def longest_vector(units: list[Unit], bucket_bytes: int) -> int:
    longest = max((entry.count * entry.wire_dtype.itemsize for unit in units for entry in unit.entries), default=0)
    units_bytes = (sum(entry.count * entry.wire_dtype.itemsize for entry in unit.entries) for unit in units)
    return max(longest, min(bucket_bytes, max(units_bytes, default=0)))


def best_of(costs: list[Cost]) -> tuple[Cost, Cost | None]:
    """Of those that are as fast as the fastest, the one that needs the least memory; and the next."""
    if len(costs) == 1:
        return costs[0], None
    limit = AS_FAST * min(cost.seconds for cost in costs)
    best = min(costs, key=lambda cost: (cost.seconds > limit, cost.memory))
    return best, min((cost for cost in costs if cost is not best), key=lambda cost: cost.seconds)
