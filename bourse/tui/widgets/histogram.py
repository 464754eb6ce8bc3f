"""Histogram of one stage: a row a power of two, with the percentiles where they fall.

│  256ns                                      0.2% │
│  512ns ██████████████████████████████      61.0% p50
│    1µs ██████████▎                         20.3% p90
│    2µs ███                                  6.1% p99
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from bourse.admin.messages import StageLatency
from bourse.admin.store import buckets_of
from bourse.tui import glyphs
from bourse.tui.format import bucket, clean, count, duration
from bourse.tui.line import Cell, LineView, Row, exactly, panel
from bourse.tui.state import UI, ConsoleState
from bourse.tui.widgets.heat import heat_rows

LABEL_CELLS = 6
SHARE_CELLS = 7
MARK_CELLS = 6


def span_of(buckets: Sequence[int], rows: int) -> tuple[int, int]:
    """Return the first and last bucket to show in `rows` rows, the filled ones in the middle."""
    used = [index for index, hits in enumerate(buckets) if hits]
    if not used:
        return 8, 8 + rows - 1
    low, high = used[0], used[-1]
    spare = rows - (high - low + 1)
    if spare < 0:  # the slow end tells more: what is faster is summed up in the first row
        return high - rows + 1, high
    low = max(0, low - spare // 2)
    return low, low + rows - 1


def marks_of(stage: StageLatency) -> dict[int, str]:
    """Return which percentile falls into which bucket; of several, the one most asked for."""
    marks: dict[int, str] = {}
    for name, value in (
        ("p99.9", stage.window.p99_9),
        ("p90", stage.window.p90),
        ("p99", stage.window.p99),
        ("p50", stage.window.p50),
    ):
        if value > 0:
            marks[value.bit_length() - 1] = name
    return marks


def histogram_rows(stage: StageLatency, width: int, height: int) -> list[Row]:
    """Return the picture in exactly `height` rows."""
    buckets = buckets_of(stage)
    total = sum(buckets)
    if total == 0:
        words = exactly(((" nothing measured in this window", "dim"),), width)
        return [exactly((), width)] * (height // 2) + [words]
    low, high = span_of(buckets, height)
    marks = marks_of(stage)
    with_share = width >= LABEL_CELLS + SHARE_CELLS + MARK_CELLS + 9
    bar_cells = width - LABEL_CELLS - 2 - MARK_CELLS - (SHARE_CELLS if with_share else 0)
    shown = {index: buckets[index] for index in range(low, min(high + 1, 36))}
    below = sum(buckets[:low])
    if below:
        shown[low] += below
    most = max(shown.values())
    p50 = stage.window.p50.bit_length() - 1
    p99 = stage.window.p99.bit_length() - 1

    rows = []
    for index in range(low, high + 1):
        hits = shown.get(index, 0)
        label = ("<" + bucket(index + 1)) if below and index == low else bucket(index)
        tone = "bid" if index <= p50 else "chart-latency" if index <= p99 else "heat5"
        mark = marks.get(index, "")
        cells: list[Cell] = [
            (label.rjust(LABEL_CELLS) + " ", "dim"),
            (glyphs.bar(hits / most, bar_cells), tone),
        ]
        if with_share:
            text = f"{hits / total * 100:.2f}%" if hits else ""
            cells.append((text.rjust(SHARE_CELLS), "text"))
        cells.append((" " + mark.ljust(MARK_CELLS), "bright"))
        rows.append(exactly(cells, width))
    return rows


def histogram_panel(
    state: ConsoleState, width: int, height: int, chart: str | None = None
) -> list[Row]:
    """Return the framed picture of the chosen stage: histogram or heat map."""
    name = clean(state.stage)
    stage = state.store.stage(state.stage)
    latency = state.store.latency
    seconds = latency.window_seconds if latency else 10.0
    if (chart or state.chart) == "heat":
        return panel(
            heat_rows(state, width - 2, height - 2),
            width,
            height,
            f"HEAT {name}",
            note="1 s a column",
            bottom=f"each the last {seconds:g} s",
            stale=state.stale,
        )
    if stage is None:
        return panel([], width, height, f"HISTOGRAM {name}")
    return panel(
        histogram_rows(stage, width - 2, height - 2),
        width,
        height,
        f"HISTOGRAM {name}",
        note=f"last {seconds:g} s",
        bottom=f"{count(stage.window.count)} commands · max {duration(stage.window.max)}",
        stale=state.stale,
    )


class StagePicture(LineView):
    """Show the chosen stage's distribution: histogram or heat map, as the operator chose."""

    TOPICS: ClassVar[frozenset[str]] = frozenset({"latency", "history", UI})

    def draw(self, state: ConsoleState, width: int, height: int) -> list[Row]:
        """Return the framed picture."""
        return histogram_panel(state, width, height)


class HeatMap(LineView):
    """Show the chosen stage's heat map, where there is room for both."""

    TOPICS: ClassVar[frozenset[str]] = frozenset({"latency", "history", UI})

    def draw(self, state: ConsoleState, width: int, height: int) -> list[Row]:
        """Return the framed picture that the other panel does not show."""
        other = "histogram" if state.chart == "heat" else "heat"
        return histogram_panel(state, width, height, other)
