"""Pictures of figures as SVG: the few elements that all of them are made from, light and dark."""

from __future__ import annotations

import math

Series = dict[str, list[tuple[int, list[float]]]]
"""Curves by name: places on the axis, each with the figures of its processes."""

STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #333 }
  .title { font-size: 15px; font-weight: 600 }
  .grid { stroke: #ccc } .axis { stroke: #666 } .cache { stroke: #999; stroke-dasharray: 2 4 }
  .bound { stroke: #c33; stroke-dasharray: 6 4 } .bound-text { fill: #c33 }
  .a { stroke: #06c; fill: #06c } .b { stroke: #b60; fill: #b60 }
  .c { stroke: #888; fill: #888 }
  .way { fill: none; stroke-width: 2 } text.a, text.b, text.c { stroke: none }
  .back { fill: #fff }
  @media (prefers-color-scheme: dark) {
    text { fill: #ddd } .grid { stroke: #444 } .axis { stroke: #999 } .cache { stroke: #777 }
    .bound { stroke: #f77 } .bound-text { fill: #f77 } .back { fill: #16181d }
    .a { stroke: #6af; fill: #6af } .b { stroke: #fa4; fill: #fa4 }
    .way { fill: none }
  }
"""


def line(kind: str, x1: float, y1: float, x2: float, y2: float) -> str:
    """Return a straight line."""
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def label(kind: str, x: float, y: float, words: str, anchor: str = "middle") -> str:
    """Return a text."""
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{words}</text>'


def way(kind: str, places: list[tuple[float, float]]) -> str:
    """Return a line through places."""
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    return f'<polyline class="way {kind}" points="{points}"/>'


def picture(width: int, height: int, title: str, parts: list[str]) -> str:
    """Return a whole picture, with its ground and its style."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" role="img" aria-label="{title}">',
            f"<style>{STYLE}</style>",
            f'<rect class="back" width="{width}" height="{height}"/>',
            *parts,
            "</svg>",
            "",
        ]
    )


# --- Curves over something that grows -------------------------------------------------------------

WIDTH, HEIGHT = 720, 360
LEFT, RIGHT, TOP, BOTTOM = 56, 24, 72, 48
KINDS = "abc"


def count_text(value: int) -> str:
    """Write a round number shortly."""
    for unit, size in (("M", 1_000_000), ("k", 1_000)):
        if value >= size:
            return f"{value // size}{unit}"
    return str(value)


def growth_picture(
    title: str,
    axis: str,
    series: Series,
    marks: dict[str, float] | None = None,
    bounds: dict[str, float] | None = None,
) -> str:
    """Draw up to three curves over a logarithmic axis: the best of each point, a bar to the worst.

    Args:
        title: says the unit of the figures.
        axis: what grows.
        series: all with the same places.
        marks: places on the axis to be named by a dotted line.
        bounds: figures to be named by a dashed line, where they fit.
    """
    places = [place for place, _ in next(iter(series.values()))]
    first, last = math.log10(places[0]), math.log10(places[-1])
    most = 1.1 * max(max(values) for points in series.values() for _, values in points)
    sizes = (digit * 10**power for power in range(1, 12) for digit in (1, 2, 2.5, 5))
    step = int(next(size for size in sizes if most / size <= 7))
    top = step * math.ceil(most / step)

    def x_of(value: float) -> float:
        share = (math.log10(value) - first) / (last - first)
        return LEFT + 16 + share * (WIDTH - LEFT - RIGHT - 32)

    def y_of(figure: float) -> float:
        return HEIGHT - BOTTOM - figure / top * (HEIGHT - TOP - BOTTOM)

    parts = [label("title", LEFT, 20, title, "start")]
    for figure in range(0, top + 1, step):
        y = y_of(figure)
        parts.append(line("grid" if figure else "axis", LEFT, y, WIDTH - RIGHT, y))
        parts.append(label("", LEFT - 8, y + 4, str(figure), "end"))
    parts += [label("", x_of(place), HEIGHT - BOTTOM + 18, count_text(place)) for place in places]
    parts.append(label("", (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, axis))
    for name, at in (marks or {}).items():
        if places[0] / 2 < at < places[-1]:
            parts.append(line("cache", x_of(at), TOP, x_of(at), HEIGHT - BOTTOM))
            parts.append(label("", x_of(at), TOP - 4, name))
    for number, (kind, name) in enumerate(zip(KINDS, series, strict=False)):
        parts.append(label(kind, LEFT + 150 * number, 42, name, "start"))
        best = [(x_of(place), min(values), max(values)) for place, values in series[name]]
        parts.append(way(kind, [(x, y_of(least)) for x, least, _ in best]))
        for x, least, worst in best:
            parts.append(line(kind, x, y_of(least), x, y_of(worst)))
            parts.append(f'<circle class="{kind}" cx="{x:.1f}" cy="{y_of(least):.1f}" r="3"/>')
            # The first one's figures stand below it, the second one's above.
            if kind != "c":
                below = 18 if kind == "a" else -8
                parts.append(label(kind, x + 4, y_of(least) + below, f"{least:.0f}"))
    for name, at in (bounds or {}).items():
        if at < top:
            parts.append(line("bound", LEFT, y_of(at), WIDTH - RIGHT, y_of(at)))
            parts.append(label("bound-text", LEFT + 4, y_of(at) - 4, name, "start"))
    return picture(WIDTH, HEIGHT, title, parts)


# --- Durations one after the other ----------------------------------------------------------------


def waterfall_picture(title: str, rows: dict[str, list[tuple[str, float]]]) -> str:
    """Draw durations as bars, each beginning where the one before ends, a field for each row.

    Args:
        title: says the unit.
        rows: names of the fields, each with names and durations in order.
    """
    bar, gap, head = 16, 6, 30
    height = TOP - 24 + sum(head + len(stages) * (bar + gap) for stages in rows.values()) + 16
    left = 130
    parts = [label("title", 16, 24, title, "start")]
    y = TOP - 24.0
    for kind, (name, stages) in zip(KINDS, rows.items(), strict=False):
        total = sum(took for _, took in stages) or 1.0
        scale = (WIDTH - left - RIGHT - 70) / total
        parts.append(label(kind, 16, y + 14, f"{name}: {total:,.1f}", "start"))
        y += head
        at = 0.0
        for stage, took in stages:
            parts.append(label("", left - 8, y + bar - 4, stage, "end"))
            parts.append(
                f'<rect class="{kind}" x="{left + at * scale:.1f}" y="{y:.1f}" '
                f'width="{max(0.5, took * scale):.1f}" height="{bar}"/>'
            )
            end = left + (at + took) * scale
            parts.append(label("", end + 6, y + bar - 4, f"{took:,.1f}", "start"))
            at += took
            y += bar + gap
    return picture(WIDTH, int(height), title, parts)
