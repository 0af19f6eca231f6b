"""Lines over logarithmic axes as SVG. Text from values; knows nothing of libraries or collectives."""
import math
from typing import NamedTuple
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 430, 300  # of a panel
LEFT, RIGHT, TOP, BOTTOM = 66, 26, 34, 46
HEAD = 92  # of the page
SERIES_COLOURS = [("#1769c2", "#4a9df2"), ("#d9730d", "#f0964a"), ("#a8323e", "#e06a76"), ("#3d8a3a", "#6cc069"),
                  ("#7a5bb0", "#ab90dd"), ("#5c6774", "#9aa6b4")]


class Series(NamedTuple):
    name: str
    points: list  # of (x, y), both > 0


class Panel(NamedTuple):
    title: str
    series: list
    x_label: str
    y_label: str
    y_text: callable  # of a value on the axis
    bound: list  # points of a line that none should get below


def bytes_text(x):
    for unit, factor in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if x >= factor:
            return f"{x / factor:g} {unit}"
    return f"{x:g} B"


def seconds_text(y):
    for unit, factor in (("s", 1), ("ms", 1e-3), ("µs", 1e-6)):
        if y >= factor * 0.999:
            return f"{y / factor:g} {unit}"
    return f"{y / 1e-9:g} ns"


def factor_text(y):
    return f"{y:g}×"


def decades(low, high):
    """Powers of ten, and 2 and 5 of them where there is room."""
    marks = [10.0 ** e for e in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]
    if len([mark for mark in marks if low <= mark <= high]) < 3:
        marks = [mark * step for mark in marks for step in (1, 2, 5)]
    return [mark for mark in marks if low * 0.999 <= mark <= high * 1.001]


class Axes:
    """From values to pixels of one panel."""

    def __init__(self, panel):
        points = [point for series in panel.series for point in series.points]
        xs, ys = [x for x, _ in points], [y for _, y in points + panel.bound]
        self.x_low, self.x_high = min(xs), max(max(xs), min(xs) * 2)
        self.y_low, self.y_high = min(ys) / 1.25, max(ys) * 1.25

    def x(self, value):
        share = math.log(value / self.x_low) / math.log(self.x_high / self.x_low)
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def y(self, value):
        share = math.log(value / self.y_low) / math.log(self.y_high / self.y_low)
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)


def text_at(x, y, words, style, anchor="start"):
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{style}" text-anchor="{anchor}">{escape(words)}</text>\n'


def line(x1, y1, x2, y2, style):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{style}"/>\n'


def grid(panel, axes):
    out = ""
    for mark in decades(axes.y_low, axes.y_high):
        out += line(LEFT, axes.y(mark), WIDTH - RIGHT, axes.y(mark), "grid")
        out += text_at(LEFT - 6, axes.y(mark) + 4, panel.y_text(mark), "tick", "end")
    exponent = math.ceil(math.log2(axes.x_low))
    for mark in [2.0 ** e for e in range(exponent, math.floor(math.log2(axes.x_high)) + 1)]:
        if (int(math.log2(mark)) - exponent) % 4 == 0:
            out += line(axes.x(mark), TOP, axes.x(mark), HEIGHT - BOTTOM, "grid")
            out += text_at(axes.x(mark), HEIGHT - BOTTOM + 16, bytes_text(mark), "tick", "middle")
    middle = (TOP + HEIGHT - BOTTOM) / 2
    out += f'<text transform="translate(14,{middle:.0f}) rotate(-90)" class="tick" text-anchor="middle">{escape(panel.y_label)}</text>\n'
    return out + text_at((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, panel.x_label, "tick", "middle")


def draw_panel(panel, colours):
    out = text_at(LEFT, 22, panel.title, "panel")
    if not any(series.points for series in panel.series):
        return out + text_at(LEFT, 60, "not measured", "tick")
    axes = Axes(panel)
    out += grid(panel, axes)
    places = [(axes.x(x), axes.y(y)) for x, y in sorted(panel.bound)]
    out += f'<polyline class="bound" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in places)}"/>\n'
    # The first series is drawn last, over the others.
    for series in reversed(panel.series):
        style = f"s{colours[series.name]}"
        places = [(axes.x(x), axes.y(y)) for x, y in sorted(series.points)]
        out += f'<polyline class="line {style}" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in places)}"/>\n'
        out += "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.4" class="dot {style}"/>' for x, y in places) + "\n"
    return out


def style_sheet():
    light = "".join(f".s{i} {{ stroke: {a}; fill: {a} }} " for i, (a, _) in enumerate(SERIES_COLOURS))
    dark = "".join(f".s{i} {{ stroke: {b}; fill: {b} }} " for i, (_, b) in enumerate(SERIES_COLOURS))
    return f"""
  .page {{ fill: #ffffff }} text {{ font-family: system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif; fill: #1c232c }}
  .title {{ font-size: 21px; font-weight: 650 }} .subtitle {{ font-size: 13px }} .panel {{ font-size: 14px; font-weight: 650 }}
  .label {{ font-size: 13px }} .tick, .subtitle {{ fill: #5c6774 }} .tick {{ font-size: 11px }}
  .grid {{ stroke: #e3e7ec; stroke-width: 1 }} .bound {{ fill: none; stroke: #1c232c; stroke-width: 1.4; stroke-dasharray: 5 3 }}
  {light}
  @media (prefers-color-scheme: dark) {{
    .page {{ fill: #11161d }} text {{ fill: #e8ecf1 }} .tick, .subtitle {{ fill: #9aa6b4 }} .grid {{ stroke: #232c36 }}
    .bound {{ stroke: #e8ecf1 }} {dark}
  }}
  .line {{ fill: none; stroke-width: 1.8; stroke-linejoin: round }} .s0.line {{ stroke-width: 2.6 }}
"""


def legend(colours):
    out, x = "", LEFT
    for name, index in colours.items():
        out += f'<line x1="{x}" y1="76" x2="{x + 22}" y2="76" class="line s{index}"/><circle cx="{x + 11}" cy="76" r="3" class="s{index}"/>'
        out += text_at(x + 28, 80, name, "label")
        x += 46 + 7.4 * len(name)
    return out + line(x, 76, x + 22, 76, "bound") + text_at(x + 28, 80, "bound", "label")


def page(title, subtitle, rows, colours):
    """`rows` of panels; `colours` of series by name, in the order of the legend."""
    width, height = WIDTH * max(len(row) for row in rows), HEAD + HEIGHT * len(rows)
    body = text_at(LEFT, 34, title, "title") + text_at(LEFT, 56, subtitle, "subtitle") + legend(colours)
    for r, row in enumerate(rows):
        for c, panel in enumerate(row):
            body += f'<g transform="translate({c * WIDTH},{HEAD + r * HEIGHT})">\n{draw_panel(panel, colours)}</g>\n'
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
            f'aria-label="{escape(title)}">\n<style>{style_sheet()}</style>\n<rect width="{width}" height="{height}" class="page"/>\n'
            f'{body}</svg>\n')
