"""Latency by stage: percentiles of the last window, and the shape of each distribution.

    │  stage        p50     p90     p99   p99.9     max   256ns  8µs  256µs  │
    │▸ matched    420ns   630ns  1.09µs  2.39µs  4.62µs  ▁█▄▂▁              │

The small pictures share one axis, a column a power of two, so that stages can be compared by eye.
A `!` behind a row: the window's p99 is over twice the p99 since the start, from 100 commands on.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import ClassVar

from bourse.admin.messages import Latency, StageLatency
from bourse.admin.store import buckets_of
from bourse.tui import glyphs
from bourse.tui.format import NOTHING, bucket, count, duration, duration_parts, foreign_stage
from bourse.tui.line import Cell, LineView, Row, exactly, panel
from bourse.tui.state import UI, ConsoleState

PERCENTILES = ("p50", "p90", "p99", "p99_9", "max")
# What stays when the panel narrows, in this order.
_BY_WIDTH = (PERCENTILES, ("p50", "p99", "p99_9", "max"), ("p50", "p99", "max"), ("p50", "p99"))
NAME_CELLS = 9
VALUE_CELLS_MIN = 7
"""A duration has at most six."""
WARN_COUNT_MIN = 100


def is_slow(stage: StageLatency) -> bool:
    """Say whether the last window is out of the ordinary for this stage."""
    return stage.window.count >= WARN_COUNT_MIN and stage.window.p99 > 2 * stage.total.p99 > 0


def value_cells(
    nanoseconds: int, measured: bool, warn: bool, chosen: bool, width: int
) -> list[Cell]:
    """Return a duration right-aligned in `width` cells, its unit dimmer than its number."""
    if not measured:
        return [(NOTHING.rjust(width), "faint")]
    number, unit = duration_parts(nanoseconds)
    tone = "warning" if warn else "bright" if chosen else "text"
    unit_tone = "warning" if warn else "slow" if unit in ("ms", "s") else "dim"
    return [(number.rjust(width - len(unit)), tone), (unit, unit_tone)]


def shape(buckets: Sequence[int], low: int, high: int) -> str:
    """Return a distribution as one line of blocks, buckets `low` to `high`.

    The height is the square root of the share, so that a tail of one in a thousand is seen.
    """
    most = max(buckets, default=0)
    if most == 0:
        return " " * (high - low + 1)
    steps = []
    for index in range(low, high + 1):
        hits = buckets[index]
        step = round(sqrt(hits / most) * 8) if hits else 0
        steps.append(glyphs.UP_EIGHTHS[max(1, step) if hits else 0])
    return "".join(steps)


def axis_for(latency: Latency, cells: int) -> tuple[int, int]:
    """Return the first and last bucket to picture: what all stages need, at most `cells`."""
    used = [
        index for stage in latency.stages for index, hits in enumerate(buckets_of(stage)) if hits
    ]
    low, high = (min(used), max(used)) if used else (8, 8 + cells - 1)
    # A steady axis: it starts at a multiple of two and is as long as there is room.
    low = max(0, min(low, 36 - cells))
    if high - low + 1 > cells:
        low = high - cells + 1
    return low, min(35, low + cells - 1)


def axis_text(low: int, high: int) -> str:
    """Return the bucket's bounds under which the pictures stand, each eight columns apart."""
    text = ""
    for index in range(low, high + 1, 8):
        label = bucket(index)
        at = index - low
        if len(text) <= at and at + len(label) <= high - low + 1:
            text = text.ljust(at) + label
    return text.ljust(high - low + 1)


def stage_rows(
    latency: Latency, chosen: str, width: int, height: int, with_counts: bool = False
) -> list[Row]:
    """Return a head and a row a stage, with as many columns as fit.

    Args:
        latency: what there is.
        chosen: the chosen stage.
        width: cells of each row.
        height: how many rows there are.
        with_counts: where there is room, also how many commands were measured, and the p99 since
            the start.
    """
    if with_counts and width >= 90:
        extra = [
            (
                f"{count(stage.window.count):>11}"
                + (duration(stage.total.p99) if stage.total.count else NOTHING).rjust(11),
                "text",
            )
            for stage in latency.stages
        ]
        rows = stage_rows(latency, chosen, width - 24, height)
        # Rows are the head and the last stages.
        shown = extra[len(extra) - (len(rows) - 1) :]
        over: Cell = (f"{'commands':>11}{'p99 ever':>11}  ", "dim")
        tails = [over, *((text + "  ", tone) for text, tone in shown)]
        return [exactly((*row, tail), width) for row, tail in zip(rows, tails, strict=True)]
    for columns in _BY_WIDTH:
        used = 2 + NAME_CELLS + VALUE_CELLS_MIN * len(columns) + 2
        if used <= width:
            break
    spare = width - used
    # Room goes to the picture first, then between the numbers.
    picture = min(20, spare - 1) if spare >= 12 else 0
    value = VALUE_CELLS_MIN + min(4, max(0, spare - picture - 1) // len(columns))
    picture = min(36, width - used - (value - VALUE_CELLS_MIN) * len(columns) - 1) if picture else 0
    low, high = axis_for(latency, picture) if picture else (0, 0)

    head: list[Cell] = [("  " + "stage".ljust(NAME_CELLS), "dim")]
    head += [(column.replace("_", ".").rjust(value), "dim") for column in columns]
    if picture:
        head.append(("   " + axis_text(low, high), "dim"))
    rows = [exactly(head, width)]
    # Where there is no room for all, the last ones stay: among them the total.
    for stage in latency.stages[-(height - 1) :] if height > 1 else ():
        is_chosen = stage.stage == chosen
        warn = is_slow(stage)
        window = stage.window
        mark = glyphs.CHOSEN if is_chosen else " "
        tone = "warning" if warn else "bright" if is_chosen else "text"
        cells: list[Cell] = [
            (f"{mark} ", "accent"),
            (foreign_stage(stage.stage, NAME_CELLS), tone),
        ]
        for column in columns:
            cells += value_cells(getattr(window, column), window.count > 0, warn, is_chosen, value)
        cells.append((" !" if warn else "  ", "warning"))
        if picture:
            line = shape(buckets_of(stage), low, high)
            cells.append((f" {line}", "chart-latency" if is_chosen else "accent"))
        ground = "/chosen" if is_chosen else ""
        rows.append(tuple((text, token + ground) for text, token in exactly(cells, width)))
    return rows


def stages_panel_full(state: ConsoleState, width: int, height: int) -> list[Row]:
    """Return the framed table with all that there is, for the Latency screen."""
    return stages_panel(state, width, height, with_counts=True)


def stages_panel(
    state: ConsoleState, width: int, height: int, with_counts: bool = False
) -> list[Row]:
    """Return the framed table."""
    latency = state.store.latency
    if latency is None:
        return panel([], width, height, "LATENCY")
    sampled = f" · 1 in {count(latency.sampled_one_in)}" if latency.sampled_one_in > 1 else ""
    note = f"last {latency.window_seconds:g} s{sampled}"
    if not any(stage.total.count for stage in latency.stages):
        # The operator's commands come by no read of a socket: there is no time to begin with.
        note = "of clients: none yet"
    return panel(
        stage_rows(latency, state.stage, width - 2, height - 2, with_counts),
        width,
        height,
        "LATENCY by stage",
        note=note,
        stale=state.stale,
    )


class StageTable(LineView):
    """Show each stage's percentiles."""

    TOPICS: ClassVar[frozenset[str]] = frozenset({"latency", UI})

    def draw(self, state: ConsoleState, width: int, height: int) -> list[Row]:
        """Return the framed table."""
        return stages_panel(state, width, height)
