"""Draws a sharded model as SVG, in light and dark: which rank keeps what, and the memory of each unit."""

from __future__ import annotations

from fractions import Fraction
from html import escape

from . import client as c
from .layout import Unit
from .plan import Cost, Shape, text_of

_WIDTH, _SPLIT, _ROW, _TOP = 1000, 470, 18, 76
_MOST_RANKS, _MOST_UNITS = 16, 16
_KINDS = (("parameters", "#2f6fc4"), ("gradients", "#c4572f"), ("optimizer state", "#3b8f5a"))
_STYLE = """text{font:11px system-ui,'DejaVu Sans',sans-serif;fill:#5a6675}.name{font-size:13px;font-weight:600;fill:#1f2733}
.page{fill:#fff}.whole{fill:#e6e9ee}.gathered{fill:none;stroke:#5a6675;stroke-dasharray:3 2}
@media (prefers-color-scheme:dark){text{fill:#a4afbd}.name{fill:#e4e8ee}.page{fill:#14181d}.whole{fill:#2a313a}.gathered{stroke:#a4afbd}}"""

Block = tuple[Fraction, Fraction]  # begin and end, of a vector


def blocks_over_all(sizes: tuple[int, ...], nested: bool) -> list[list[Block]]:
    """What the ranks of each group keep of a vector that is sharded over all: as src/paro/blocks.h says. `nested`: inside their shares of the group."""
    n = sum(sizes)
    if not nested and len(set(sizes)) > 1:
        numbers = iter(range(n))
        return [[(Fraction(number, n), Fraction(number + 1, n)) for _, number in zip(range(size), numbers)] for size in sizes]
    waiting = sorted((Fraction(local + 1, size), group, local, Fraction(local, size)) for group, size in enumerate(sizes) for local in range(size))
    found: list[list[Block]] = [[(Fraction(0), Fraction(0))] * size for size in sizes]
    at, last = Fraction(0), (0, 0)
    while waiting:
        begun = next((each for each in waiting if each[3] <= at), None)
        if begun is None:  # the one before takes what no other may
            at = min(each[3] for each in waiting)
            found[last[0]][last[1]] = (found[last[0]][last[1]][0], at)
            continue
        waiting.remove(begun)
        end, group, local, _ = begun
        if end <= at:  # others have all of it
            found[group][local] = (end, end)
            continue
        found[group][local] = (at, min(at + Fraction(1, n), end))
        at, last = found[group][local][1], (group, local)
    found[last[0]][last[1]] = (found[last[0]][last[1]][0], Fraction(1))
    return found


def _blocks(partition: int, shape: Shape, nested: bool) -> list[list[Block]]:
    if partition == c.BY_ALL:
        return blocks_over_all(shape.sizes, nested)
    by_group = partition == c.BY_GROUP
    return [[(Fraction(local, size), Fraction(local + 1, size)) if by_group else (Fraction(0), Fraction(1)) for local in range(size)]
            for size in shape.sizes]


def draw(sharding) -> str:
    """The whole picture."""
    cost: Cost = sharding.cost
    partitions = (cost.params, cost.grads, cost.state)
    places = [_blocks(partition, sharding.shape, c.BY_GROUP in partitions) for partition in partitions]
    ranks, end_of_ranks = _draw_ranks(places, sharding.shape)
    shares = [float(end - begin) for begin, end in (blocks[sharding.shape.group][sharding.shape.local] for blocks in places)]
    units, end_of_units = _draw_units(sharding, shares)
    height = max(end_of_ranks, end_of_units) + 34
    title = f"PaRO {cost.name} on {sharding.shape.ranks} ranks in {sharding.shape}"
    kept = cost.kept + sharding.optimizer_bytes
    total = (f"expected of this rank: {text_of(kept)} kept, {text_of(cost.gathered)} gathered at the same time, {text_of(cost.grad_buffers)} for "
             f"gradients on their way: {text_of(kept + cost.gathered + cost.grad_buffers)}")
    legend = "".join(f'<rect x="{16 + 130 * at}" y="34" width="10" height="10" fill="{color}"/><text x="{32 + 130 * at}" y="43">{name}</text>'
                     for at, (name, color) in enumerate(_KINDS))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}">\n<title>{escape(title)}</title>'
            f'<style>{_STYLE}</style><rect class="page" width="{_WIDTH}" height="{height}"/>\n<text class="name" x="16" y="22">{escape(title)}</text>{legend}'
            f'<rect class="gathered" x="406.5" y="38.5" width="10" height="3"/><text x="422" y="43">gathered for use</text>\n{ranks}\n{units}\n'
            f'<text x="16" y="{height - 14}">{escape(total)}</text>\n</svg>\n')


def _draw_ranks(places: list[list[list[Block]]], shape: Shape) -> tuple[str, int]:
    """What every rank keeps of each vector, and the end of the drawing."""
    width, parts = 106, ['<text class="name" x="16" y="66">What each rank keeps</text>']
    y = _TOP
    shown = 0
    for group, size in enumerate(shape.sizes):
        for local in range(size):
            if shown == _MOST_RANKS:
                return "\n".join(parts) + f'<text x="16" y="{y + 12}">and {shape.ranks - shown} more ranks</text>', y + _ROW
            mine = " (this one)" if (group, local) == (shape.group, shape.local) else ""
            parts.append(f'<text x="16" y="{y + 11}">{group}.{local}{mine}</text>')
            for at, (blocks, (_, color)) in enumerate(zip(places, _KINDS)):
                x = 100 + at * (width + 10)
                begin, end = (float(each) * width for each in blocks[group][local])
                parts.append(f'<rect class="whole" x="{x}" y="{y}" width="{width}" height="13"/>'
                             f'<rect x="{x + begin:.2f}" y="{y}" width="{end - begin:.2f}" height="13" fill="{color}"/>')
            y += _ROW
            shown += 1
        y += 6
    return "\n".join(parts) + f'<text x="16" y="{y + 10}">group.rank in the group</text>', y + 12


def _bytes_of(units: list[Unit], shares: list[float], optimizer_values: int) -> tuple[list[float], int]:
    """Of parameters, gradients and state that this rank keeps, and of what is gathered."""
    kept = [0.0, 0.0, 0.0]
    gathered = 0
    for entry in (entry for unit in units for entry in unit.entries):
        gathered += entry.count * entry.wire_dtype.itemsize
        masters = int(entry.wire_dtype != (entry.state_dtype if entry.trainable else entry.dtype))
        values = masters + (optimizer_values if entry.trainable else 0)
        for kind, width in enumerate((entry.wire_dtype.itemsize, entry.grad_dtype.itemsize * entry.trainable, values * entry.state_dtype.itemsize)):
            kept[kind] += shares[kind] * entry.count * width
    return kept, gathered


def _draw_units(sharding, shares: list[float]) -> tuple[str, int]:
    """A bar for each unit, and the end of the drawing."""
    units = [unit for unit in sharding.units if unit.entries]
    rows = [(unit.name, [unit]) for unit in units]
    if len(rows) > _MOST_UNITS:
        rows = [*rows[:_MOST_UNITS - 1], (f"{len(rows) - _MOST_UNITS + 1} more", units[_MOST_UNITS - 1:])]
    sizes = [_bytes_of(each, shares, sharding.optimizer_values) for _, each in rows]
    left, width = _SPLIT + 110, 220
    scale = width / max(1, *(max(sum(kept), gathered) for kept, gathered in sizes))
    parts = [f'<text class="name" x="{_SPLIT}" y="66">Memory of this rank, by unit</text>']
    y = _TOP
    for (name, _), (kept, gathered) in zip(rows, sizes):
        x = float(left)
        parts.append(f'<text x="{_SPLIT}" y="{y + 11}">{escape(name if len(name) <= 17 else "…" + name[-16:])}</text>')
        for size, (_, color) in zip(kept, _KINDS):
            parts.append(f'<rect x="{x:.2f}" y="{y}" width="{size * scale:.2f}" height="9" fill="{color}"/>')
            x += size * scale
        text = text_of(sum(kept))
        if sharding.cost.params != c.WHOLE:
            parts.append(f'<rect class="gathered" x="{left}" y="{y + 10.5}" width="{gathered * scale:.2f}" height="3"/>')
            text += f", gathered {text_of(gathered)}"
        parts.append(f'<text x="{max(x, left + gathered * scale) + 6:.0f}" y="{y + 11}">{text}</text>')
        y += _ROW
    return "\n".join(parts), y
