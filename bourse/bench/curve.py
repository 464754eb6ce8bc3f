"""The percentile curve of a run: in the terminal, in dots of braille, or as an SVG picture.

Both axes are logarithmic. To the right stands how many nines: one step from 99 % to 99.9 % is as
wide as that from 90 % to 99 %, as in the public plotting tools. The curve ends where the next step
would be a single value's: at the maximum.
"""

from __future__ import annotations

import math
from typing import Any

from bourse.bench import drawing

WIDTH, HEIGHT = 720, 360
LEFT, RIGHT, TOP, BOTTOM = 64, 24, 48, 48

STEPS_PER_NINE = 20
"""Points of the curve for each tenfold of 1 / (1 - share)."""

Curve = list[tuple[float, int]]
"""Nines (0 is the minimum, 1 is p90, 2 is p99) and nanoseconds, rising."""


def curve_of(histogram: Any) -> Curve:
    """Read the curve from an HdrHistogram; nothing from an empty one."""
    count = histogram.get_total_count()
    if not count:
        return []
    # A single value of `count` is at log10(count) nines: there is the maximum.
    nines_max = max(1.0, math.log10(count))
    steps = math.ceil(nines_max * STEPS_PER_NINE)
    most = int(histogram.get_max_value())
    points = []
    for step in range(steps):
        nines = nines_max * step / steps
        percent = 100 * (1 - 10**-nines)
        points.append((nines, min(most, int(histogram.get_value_at_percentile(percent)))))
    return [*points, (nines_max, most)]


def nines_text(nines: int) -> str:
    """Name a whole number of nines as a percentile: 0%, 90%, 99%, 99.9%."""
    if nines == 0:
        return "0%"
    return f"{100 - 100 / 10**nines:.{max(0, nines - 2)}f}%"


def decades_of(curve: Curve) -> tuple[int, int]:
    """Return the powers of ten that the curve lies between."""
    least, most = max(1, curve[0][1]), max(1, curve[-1][1])
    low = math.floor(math.log10(least))
    return low, max(low + 1, math.ceil(math.log10(most)))


def power_text(power: int) -> str:
    """Write a power of ten in nanoseconds: 10 us."""
    unit, factor = (("ns", 0), ("us", 3), ("ms", 6), ("s", 9))[min(3, max(0, power // 3))]
    return f"{10 ** (power - factor):,} {unit}"


# --- In the terminal ------------------------------------------------------------------------------

_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
"""Bits of a braille cell: left column from above, then the right one."""
_BRAILLE = 0x2800


def plot(curve: Curve, width: int = 78, height: int = 12, ascii_only: bool = False) -> list[str]:
    """Draw the curve in text.

    Args:
        curve: of at least one point.
        width: columns in all.
        height: rows of the field, without the axis below.
        ascii_only: with `*` for a cell instead of dots, where braille cannot be shown.
    """
    low, high = decades_of(curve)
    left = 9
    columns = width - left - 1
    nines_max = curve[-1][0]
    dots_x, dots_y = 2 * columns, 4 * height
    field = [[0] * columns for _ in range(height)]

    def place(nines: float, value_ns: int) -> tuple[int, int]:
        share = (math.log10(max(1, value_ns)) - low) / (high - low)
        x = round(nines / nines_max * (dots_x - 1))
        return x, round((1 - min(1.0, max(0.0, share))) * (dots_y - 1))

    before = place(*curve[0])
    for point in curve:
        after = place(*point)
        steps = max(1, abs(after[0] - before[0]), abs(after[1] - before[1]))
        for step in range(steps + 1):
            x = before[0] + round((after[0] - before[0]) * step / steps)
            y = before[1] + round((after[1] - before[1]) * step / steps)
            field[y // 4][x // 2] |= _DOTS[x % 2][y % 4]
        before = after
    marks = {
        round((high - power) / (high - low) * (height - 1)): power_text(power)
        for power in range(low, high + 1)
    }
    edge = "|" if ascii_only else "│"
    lines = []
    for y, row in enumerate(field):
        if ascii_only:
            cells = "".join("*" if bits else " " for bits in row)
        else:
            cells = "".join(chr(_BRAILLE + bits) if bits else " " for bits in row)
        lines.append(f"{marks.get(y, ''):>{left - 1}} {edge}{cells}".rstrip())
    axis = [" "] * columns
    end = 0
    for nines in range(math.floor(nines_max) + 1):
        name = nines_text(nines)
        at = min(round(nines / nines_max * (columns - 1)), columns - len(name))
        if at >= end:
            axis[at : at + len(name)] = name
            end = at + len(name) + 1
    if end <= columns - len("max"):
        axis[-len("max") :] = "max"
    corner, dash = ("+", "-") if ascii_only else ("└", "─")
    return [*lines, f"{'':>{left}}{corner}{dash * columns}", f"{'':>{left + 1}}{''.join(axis)}"]


# --- As a picture ---------------------------------------------------------------------------------


def svg(curve: Curve, title: str) -> str:
    """Draw the curve as an SVG picture."""
    low, high = decades_of(curve)
    nines_max = curve[-1][0]

    def x_of(nines: float) -> float:
        return LEFT + nines / nines_max * (WIDTH - LEFT - RIGHT)

    def y_of(value_ns: float) -> float:
        share = (math.log10(max(1.0, value_ns)) - low) / (high - low)
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    parts = [drawing.label("title", LEFT, 24, title, "start")]
    for power in range(low, high + 1):
        y = y_of(10**power)
        kind = "axis" if power == low else "grid"
        parts.append(drawing.line(kind, LEFT, y, WIDTH - RIGHT, y))
        parts.append(drawing.label("", LEFT - 8, y + 4, power_text(power), "end"))
    for nines in range(math.floor(nines_max) + 1):
        parts.append(drawing.line("grid", x_of(nines), TOP, x_of(nines), HEIGHT - BOTTOM))
        parts.append(drawing.label("", x_of(nines), HEIGHT - BOTTOM + 18, nines_text(nines)))
    parts.append(drawing.label("", (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, "percentile"))
    parts.append(drawing.way("a", [(x_of(nines), y_of(value)) for nines, value in curve]))
    return drawing.picture(WIDTH, HEIGHT, title, parts)
