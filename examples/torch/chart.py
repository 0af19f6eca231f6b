"""Draws the course of a training as SVG: line charts side by side, in light and dark."""

from __future__ import annotations

import math
from html import escape

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 380, 260, 64, 44, 16, 40  # of a chart, and of the margins around its lines
COLORS = ("#2f6fc4", "#c4572f")
STYLE = """text{font:11px system-ui,'DejaVu Sans',sans-serif;fill:#5a6675}.name{font-size:13px;font-weight:600;fill:#1f2733}
.page{fill:#fff}.grid{stroke:#e6e9ee}polyline{fill:none;stroke-width:2;stroke-linejoin:round}
@media (prefers-color-scheme:dark){text{fill:#a4afbd}.name{fill:#e4e8ee}.page{fill:#14181d}.grid{stroke:#2a313a}}"""

Chart = tuple[str, dict[str, list[float]]]  # its name with the unit, and a value of each step, by the names of the lines


def tick_distance(span: float) -> float:
    """About four ticks of 1, 2 or 5 times a power of ten."""
    decade = 10 ** math.floor(math.log10(span / 4))
    return next(decade * digit for digit in (1, 2, 5, 10) if span / (decade * digit) <= 5)


def draw_chart(left: float, chart: Chart) -> str:
    name, lines = chart
    values = [value for line in lines.values() for value in line]
    low, high = min(0.0, *values), 1.05 * max(*values, 1e-9)
    steps = max(2, *map(len, lines.values()))

    def x(step: float) -> float:
        return left + LEFT + step / (steps - 1) * (WIDTH - LEFT - RIGHT)

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (value - low) / (high - low) * (HEIGHT - BOTTOM - TOP)

    parts = [f'<text class="name" x="{left + 16:.0f}" y="24">{escape(name)}</text>']
    distance = tick_distance(high - low)
    for number in range(math.ceil(low / distance), math.floor(high / distance) + 1):
        at = y(number * distance)
        parts.append(f'<line class="grid" x1="{x(0):.1f}" x2="{x(steps - 1):.1f}" y1="{at:.1f}" y2="{at:.1f}"/>'
                     f'<text x="{x(0) - 8:.1f}" y="{at + 4:.1f}" text-anchor="end">{number * distance:.6g}</text>')
    for at, anchor, text in ((0, "start", "optimizer step 0"), (steps - 1, "end", str(steps - 1))):
        parts.append(f'<text x="{x(at):.1f}" y="{HEIGHT - 22}" text-anchor="{anchor}">{text}</text>')
    for number, (label, line) in enumerate(lines.items()):
        points = " ".join(f"{x(step):.1f},{y(value):.1f}" for step, value in enumerate(line))
        parts.append(f'<polyline points="{points}" stroke="{COLORS[number]}"/>')
        parts.append(f'<text x="{x(0) + 130 * number:.0f}" y="{HEIGHT - 6}" style="fill:{COLORS[number]}">{escape(label)}</text>')
    return "\n".join(parts)


def draw(title: str, charts: list[Chart]) -> str:
    """The whole picture."""
    drawn = "\n".join(draw_chart(number * WIDTH, chart) for number, chart in enumerate(charts))
    width = WIDTH * len(charts)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 -28 {width} {HEIGHT + 28}" width="{width}" height="{HEIGHT + 28}">\n'
            f'<title>{escape(title)}</title><style>{STYLE}</style><rect class="page" y="-28" width="{width}" height="{HEIGHT + 28}"/>\n'
            f'<text class="name" x="16" y="-8">{escape(title)}</text>\n{drawn}\n</svg>\n')
