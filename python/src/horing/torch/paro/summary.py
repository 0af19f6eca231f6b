"""The layout, its cost and the reasons: as text, and as counted."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from . import client as c
from .drawing import draw
from .plan import Cost, text_of, time_of


class Usage(NamedTuple):
    """Bytes of a rank. The optimizer's own state is not among them: it belongs to the optimizer."""

    kept: int  # parameters, gradients, and master copies of parameters in half precision
    gathered: int  # parameters held for use: as many as there were at once
    grad_buffers: int
    sent_between_groups: int
    sent_in_group: int


def usage(sharding) -> Usage:
    counted = sharding.client.usage()
    return Usage(counted.stateBytes, counted.gatheredBytes, counted.gradBufferBytes, counted.slowBytes, counted.fastBytes)


def summary(sharding, svg: str | os.PathLike | None) -> str:
    if svg is not None:
        Path(svg).write_text(draw(sharding), encoding="utf-8")
    cost: Cost = sharding.cost
    shape, used = sharding.shape, usage(sharding)
    count = sum(entry.count for entry in sharding.entries)
    trainable = sum(entry.count for entry in sharding.entries if entry.trainable)
    name = f"{cost.name} ({cost.alias})" if cost.alias else cost.name
    lines = [f"PaRO {name}: {count:,} parameters, {trainable:,} of them trainable, on {shape.ranks} ranks in {shape}, "
             f"in memory of {sharding.device}",
             "", "where"]
    lines += [f"  {what:<16}{where}" for what, where in cost.where().items()]
    lines += [f"  {'types':<16}{each}" for each in sorted({_types_of(bucket) for bucket in sharding.buckets})]
    lines += ["", "memory of a rank      expected, now"]
    lines += [f"  {what:<20}{text_of(expected)}, {text_of(now)}" for what, expected, now in (
        ("kept", cost.kept + sharding.optimizer_bytes, used.kept + sharding.optimizer_bytes), ("gathered for use", cost.gathered, used.gathered),
        ("gradient buffers", cost.grad_buffers, used.grad_buffers))]
    if not shape.is_grid:
        lines.append(f"  {'most kept by a rank':<20}{text_of(cost.most_kept)}")
    lines += ["  ('kept' has the optimizer's state, which the optimizer allocates at its first step)", "",
              f"sent by a rank in an optimizer step of {sharding.micro_steps} micro-steps: {text_of(cost.slow)} between groups, "
              f"{text_of(cost.fast)} inside; so far {text_of(used.sent_between_groups)}, {text_of(used.sent_in_group)}"]
    lines += [f"  {times} x {c.PHASES[phase]}: {c.COLLECTIVES[collective]} {c.SCOPES[scope]}, {text_of(slow)} between groups, "
              f"{text_of(fast)} inside" for phase, collective, scope, times, slow, fast in cost.operations]
    lines += ["", "units", *(_unit_line(unit) for unit in sharding.units if unit.entries), "", "why", *_choices(sharding)]
    return "\n".join(lines)


def _types_of(bucket) -> str:
    name = {dtype: str(dtype).removeprefix("torch.") for dtype in (bucket.entries[0].dtype, bucket.dtype, bucket.grad_dtype, bucket.state_dtype)}
    what = f"{name[bucket.entries[0].dtype]} parameters, gathered in {name[bucket.dtype]}"
    return what + (f", gradients in {name[bucket.grad_dtype]}, optimized in {name[bucket.state_dtype]}" if bucket.trainable else ", frozen")


def _unit_line(unit) -> str:
    size = sum(entry.count * entry.wire_dtype.itemsize for entry in unit.entries)
    frozen = sum(not entry.trainable for entry in unit.entries)
    return (f"  {unit.name}: {len(unit.entries)} parameters" + (f", {frozen} frozen" if frozen else "")
            + f", {text_of(size)} in {len(unit.buckets)} bucket{'s'[:len(unit.buckets) != 1]}")


def _choices(sharding) -> list[str]:
    limit = sharding.memory_limit
    lines = [f"  memory limit: {'none' if limit is None else text_of(limit)}", f"  {_reason(sharding)}",
             f"  {'strategy':<10}{'memory':>12}{'between':>12}{'inside':>12}{'time':>12}"]
    for cost in sharding.costs:
        note = "  <- this one" if cost is sharding.cost else "  does not fit" if limit is not None and cost.memory > limit else ""
        lines.append(f"  {cost.name:<10}{text_of(cost.memory):>12}{text_of(cost.slow):>12}{text_of(cost.fast):>12}{time_of(cost.seconds):>12}{note}")
    return lines


def _reason(sharding) -> str:
    best, other = sharding.cost, sharding.runner_up
    if sharding.was_asked_for:
        return f"{best.name} was asked for"
    if other is None:
        return f"{best.name} is the only one that fits"
    what = f"{time_of(best.seconds)} for the collectives of an optimizer step, by rates that were measured at the start"
    if other.seconds < best.seconds:
        return f"{best.name}: {what}; {other.name} takes {time_of(other.seconds)}, which is as fast, and {other.memory / best.memory:.2f} x the memory"
    return f"{best.name}: {what}; next is {other.name} with {time_of(other.seconds)} and {other.memory / best.memory:.2f} x the memory"
