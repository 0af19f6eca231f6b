"""Table and picture of the main job (bench/main_job.py). Text from values; nothing here runs or measures."""
from xml.sax.saxutils import escape

MIB = 1 << 20
COLLECTIVES = ["all_gather", "reduce_scatter", "all_reduce"]
LABELS = {"all_gather": "all-gather", "reduce_scatter": "reduce-scatter", "all_reduce": "all-reduce"}

# The goals of the project; the first by MiB.
OVER_WIRE_BOUND = {16: 1.06, 64: 1.04}
OVER_RAW_STREAM = 1.02
RING_OVER_OWN_BOUND = 1.05
OF_THEORY_AT_64_MIB = 0.95
LINK_BYTES = 1.03


def find(shape, kind, **wanted):
    """The shape's one line of that kind with those values, or None."""
    for line in shape["lines"]:
        if line["line"] == kind and all(line.get(key) == value for key, value in wanted.items()):
            return line
    return None


def sizes(shape):
    return sorted({line["bytes"] for line in shape["lines"] if line["line"] == "time"})


def cases(shape):
    """(bytes, collective, ring, ho_ring, comparison, raw) of each measured pair."""
    for size in sizes(shape):
        for collective in COLLECTIVES:
            of = {"bytes": size, "collective": collective}
            ring = find(shape, "time", algorithm="ring", **of)
            ho_ring = find(shape, "time", algorithm="ho_ring", **of)
            if ring and ho_ring:
                yield size, collective, ring, ho_ring, find(shape, "comparison", **of), find(shape, "raw", bytes=size)


def misses(size, ring, ho_ring, comparison, raw):
    """Which of the project's own marks this case misses."""
    mib = size // MIB
    found = []
    if mib in OVER_WIRE_BOUND:
        allowed = OVER_WIRE_BOUND[mib]
        if mib == 64 and raw:
            allowed = max(allowed, OVER_RAW_STREAM * raw["over_wire_bound"])
        if ho_ring["over_wire_bound"] > allowed:
            found.append(f"x wire > {allowed:.2f}")
        if ring["over_own_bound"] > RING_OVER_OWN_BOUND:
            found.append(f"x own > {RING_OVER_OWN_BOUND:.2f}")
    if mib == 64 and comparison["of_theory"] < OF_THEORY_AT_64_MIB:
        found.append(f"ring / ho_ring < {OF_THEORY_AT_64_MIB:.2f} of theory")
    if ho_ring.get("link_bytes_over_wire_bound", 0) > LINK_BYTES:
        found.append(f"bytes x > {LINK_BYTES:.2f}")
    return found


def shape_title(shape):
    return f"{shape['nodes']} nodes × {shape['ranks_per_node']} ranks, {shape['rate_mbit']} Mbit/s"


# ---- the table ----

HEADER = """\
                               ho_ring                    raw     ring           ring / ho_ring
collective       MiB       ms   [min    max]  x wire    x wire      ms  x own   measured  theory   bytes x
"""
LEGEND = """\
Times are medians, of the slowest rank; other work on this machine makes them longer. x wire: over what the links need
at their nominal rate for the bytes that no algorithm can avoid. raw: a plain TCP stream in both directions of the same
links. x own: over the same for a flat ring, which moves more. bytes x: what crossed the busiest link, headers included,
over the same bound. misses: the columns that do not meet a mark, and that mark (bench/README.md).
"""


def table_row(case):
    size, collective, ring, ho_ring, comparison, raw = case
    raw_text = f"{raw['over_wire_bound']:.3f}" if raw else "-"
    bytes_text = f"{ho_ring['link_bytes_over_wire_bound']:.3f}" if "link_bytes_over_wire_bound" in ho_ring else "-"
    missed = misses(size, ring, ho_ring, comparison, raw)
    note = "   misses: " + ", ".join(missed) if missed else ""
    return (f"{LABELS[collective]:<15} {size / MIB:>4.0f} {ho_ring['median_ms']:>8.1f}  [{ho_ring['min_ms']:>6.1f} "
            f"{ho_ring['max_ms']:>6.1f}] {ho_ring['over_wire_bound']:>6.3f}  {raw_text:>7} {ring['median_ms']:>8.1f} "
            f"{ring['over_own_bound']:>6.3f}   {comparison['ring_over_ho_ring']:>7.3f} {comparison['theory']:>7.3f} "
            f"{bytes_text:>9}{note}\n")


def table(shapes):
    text = "\n" + HEADER
    met = total = 0
    for shape in shapes:
        text += f"\n{shape_title(shape)}\n"
        if shape["failure"]:
            text += f"  not measured: {shape['failure']}\n"
        for case in cases(shape):
            text += table_row(case)
            total += 1
            met += 0 if misses(case[0], *case[2:]) else 1
    return text + f"\n{met} of {total} cases meet the project's own marks.\n\n" + LEGEND


def one_node_table(shape):
    text = f"\n1 node x {shape['ranks_per_node']} ranks, shared memory: no slow link, so nothing for ho_ring to save\n"
    text += "collective       MiB   ho_ring ms      ring ms   ring / ho_ring\n"
    if shape["failure"]:
        text += f"  not measured: {shape['failure']}\n"
    for size, collective, ring, ho_ring, comparison, _ in cases(shape):
        text += (f"{LABELS[collective]:<15} {size / MIB:>4.0f} {ho_ring['median_ms']:>12.2f} {ring['median_ms']:>12.2f} "
                 f"{comparison['ring_over_ho_ring']:>16.3f}\n")
    return text


# ---- the picture ----

STYLE = """
  .page { fill: #ffffff } text { font-family: system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif; fill: #1c232c }
  .title { font-size: 21px; font-weight: 650 } .subtitle { font-size: 13px } .panel { font-size: 14px; font-weight: 650 }
  .label { font-size: 13px } .value { font-size: 12px } .strong { font-size: 13px; font-weight: 650 }
  .muted { fill: #5c6774 } .axis { stroke: #d9dee4; stroke-width: 1 } .bound { stroke: #1c232c; stroke-width: 1.5 }
  .ring { fill: #a9b4c0 } .ho { fill: #1769c2 } .hotext { fill: #1257a3 }
  .theory { stroke: #5c6774; stroke-width: 1.5; stroke-dasharray: 3 2 }
  @media (prefers-color-scheme: dark) {
    .page { fill: #11161d } text { fill: #e8ecf1 } .muted { fill: #9aa6b4 } .axis { stroke: #2c3641 }
    .bound { stroke: #e8ecf1 } .ring { fill: #5d6b7a } .ho { fill: #4a9df2 } .hotext { fill: #7cbaf7 }
    .theory { stroke: #9aa6b4 }
  }
"""

PANEL_WIDTH, PANEL_HEIGHT = 520, 236
LEFT, BAR_START, BAR_WIDTH = 30, 136, 206
ROW_HEIGHT, BAR_HEIGHT = 58, 16


def text_at(x, y, words, style, anchor="start"):
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{style}" text-anchor="{anchor}">{escape(words)}</text>\n'


def bar(y, length, style):
    return f'<rect x="{BAR_START}" y="{y:.1f}" width="{length:.1f}" height="{BAR_HEIGHT}" rx="2" class="{style}"/>\n'


def vertical(x, top, bottom, style):
    return f'<line x1="{x:.1f}" y1="{top:.1f}" x2="{x:.1f}" y2="{bottom:.1f}" class="{style}"/>\n'


def duration(ms):
    if ms >= 1000:
        return f"{ms / 1000:.2f} s"
    return f"{ms:.0f} ms" if ms >= 100 else f"{ms:.3g} ms"


def scale_of(shapes):
    """Pixels for 1 x the bound: the longest bar of all panels fits, so that lengths compare between panels."""
    longest = [case[2]["over_wire_bound"] for shape in shapes for case in cases(shape)]
    longest += [case[3]["over_wire_bound"] for shape in shapes for case in cases(shape)]
    return BAR_WIDTH / max(longest + [1.0])


def row(case, y, scale):
    _, collective, ring, ho_ring, comparison, _ = case
    out = text_at(BAR_START - 10, y + BAR_HEIGHT + 5, LABELS[collective], "label", "end")
    for line, top, style in ((ho_ring, y, "ho"), (ring, y + BAR_HEIGHT + 3, "ring")):
        length = line["over_wire_bound"] * scale
        out += bar(top, length, style)
        out += text_at(BAR_START + length + 6, top + 12.5, duration(line["median_ms"]), "value muted")
    theory = BAR_START + comparison["theory"] * scale
    out += vertical(theory, y + BAR_HEIGHT + 1, y + 2 * BAR_HEIGHT + 5, "theory")
    faster = PANEL_WIDTH - 14
    out += text_at(faster, y + 12, f"{comparison['ring_over_ho_ring']:.2f}× as fast", "strong hotext", "end")
    out += text_at(faster, y + 29, f"theory {comparison['theory']:.2f}×", "value muted", "end")
    return out


def panel(shape, scale):
    out = text_at(LEFT, 20, shape_title(shape), "panel")
    bottom = 38 + len(COLLECTIVES) * ROW_HEIGHT - 16
    if shape["failure"]:
        return out + text_at(LEFT, 60, f"not measured: {shape['failure']}", "label muted")
    biggest = sizes(shape)[-1]
    out += vertical(BAR_START, 32, bottom, "axis")
    shown = [case for case in cases(shape) if case[0] == biggest]
    for index, case in enumerate(shown):
        out += row(case, 38 + index * ROW_HEIGHT, scale)
    out += vertical(BAR_START + scale, 32, bottom, "bound")
    out += text_at(BAR_START + scale, bottom + 14, "1× wire bound", "value muted", "middle")
    return out


def legend(y):
    out = f'<rect x="{LEFT}" y="{y}" width="14" height="12" rx="2" class="ho"/>' + text_at(LEFT + 20, y + 11, "HO-Ring", "label")
    out += f'<rect x="{LEFT + 96}" y="{y}" width="14" height="12" rx="2" class="ring"/>'
    out += text_at(LEFT + 116, y + 11, "flat ring", "label")
    out += vertical(LEFT + 200, y - 1, y + 13, "theory") + text_at(LEFT + 208, y + 11, "flat ring at its own bound", "label")
    out += vertical(LEFT + 402, y - 1, y + 13, "bound")
    return out + text_at(LEFT + 410, y + 11, "least that any algorithm needs on these links", "label")


def document(width, height, body):
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
            f'aria-label="HO-Ring against the flat ring">\n<style>{STYLE}</style>\n'
            f'<rect width="{width}" height="{height}" class="page"/>\n{body}</svg>\n')


def chart(shapes):
    """One panel for each shape: time at the largest size over the bound of the wire. Empty if nothing was measured."""
    measured = [shape for shape in shapes if shape["lines"]]
    if not measured:
        return ""
    size = sizes(measured[0])[-1]
    repetitions = find(measured[0], "job")["repetitions"]
    body = text_at(LEFT, 38, "HO-Ring against the flat ring, between nodes with slow links", "title")
    body += text_at(LEFT, 60, f"Time of a collective of {size / MIB:.0f} MiB float32 (shorter is better), median of {repetitions}. "
                    "Emulated nodes on one machine; links shaped in each direction.", "subtitle muted")
    body += legend(78)
    scale = scale_of(measured)
    for index, shape in enumerate(shapes):
        x, y = index % 2 * PANEL_WIDTH, 116 + index // 2 * PANEL_HEIGHT
        body += f'<g transform="translate({x},{y})">\n{panel(shape, scale)}</g>\n'
    return document(2 * PANEL_WIDTH, 116 + (len(shapes) + 1) // 2 * PANEL_HEIGHT, body)


def one_node_chart(shape):
    measured = list(cases(shape))
    if not measured:
        return ""
    shown = [case for case in measured if case[0] == sizes(shape)[-1]]
    body = text_at(LEFT, 38, "One node only: HO-Ring and the flat ring in shared memory", "title")
    body += text_at(LEFT, 60, "Emulated nodes were not available here, so there was no slow link. "
                    f"{shown[0][0] / MIB:.0f} MiB float32, {shape['ranks_per_node']} ranks.", "subtitle muted")
    scale = BAR_WIDTH / max(max(case[2]["median_ms"], case[3]["median_ms"]) for case in shown)
    for index, (_, collective, ring, ho_ring, _, _) in enumerate(shown):
        y = 84 + index * ROW_HEIGHT
        body += text_at(BAR_START - 10, y + BAR_HEIGHT + 5, LABELS[collective], "label", "end")
        for line, top, style in ((ho_ring, y, "ho"), (ring, y + BAR_HEIGHT + 3, "ring")):
            body += bar(top, line["median_ms"] * scale, style)
            body += text_at(BAR_START + line["median_ms"] * scale + 6, top + 12.5,
                            f"{'HO-Ring' if style == 'ho' else 'flat ring'} {duration(line['median_ms'])}", "value muted")
    return document(860, 84 + len(shown) * ROW_HEIGHT + 16, body)
