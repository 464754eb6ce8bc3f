"""Each stage's window p99 over the last minutes, one above the other on one time axis."""

from __future__ import annotations

from bourse.tui import glyphs
from bourse.tui.format import NOTHING, duration, foreign_stage
from bourse.tui.line import Cell, Row, exactly, panel
from bourse.tui.state import ConsoleState
from bourse.tui.widgets.spark import spark_texts
from bourse.tui.widgets.stages import NAME_CELLS

VALUE_CELLS = 8


def minutes_rows(state: ConsoleState, width: int, height: int) -> list[Row]:
    """Return a chart a stage, each on its own scale, its highest value behind it."""
    stages = state.stages
    if not stages:
        return []
    tall = max(1, min(3, height // len(stages)))
    cells = width - NAME_CELLS - 3 - 2 * VALUE_CELLS
    history = state.store.latency_history.tail(max(1, cells))
    rows: list[Row] = []
    for name in stages[-(height // tall) :]:
        samples = [sample[name][0] for sample in history if name in sample]
        stage = state.store.stage(name)
        now = duration(stage.window.p99) if stage and stage.window.count else NOTHING
        is_chosen = name == state.stage
        for y, text in enumerate(spark_texts(samples, max(0, cells), tall)):
            first = y == 0
            row: list[Cell] = [
                (f"{glyphs.CHOSEN} " if first and is_chosen else "  ", "accent"),
                (
                    foreign_stage(name if first else "", NAME_CELLS),
                    "bright" if is_chosen else "text",
                ),
                ((now if first else "").rjust(VALUE_CELLS), "text"),
                (" " + text, "chart-latency" if is_chosen else "accent"),
                (
                    (f"{duration(max(samples, default=0))}" if first else "").rjust(VALUE_CELLS),
                    "dim",
                ),
            ]
            rows.append(exactly(row, width))
    return rows[:height]


def minutes_panel(state: ConsoleState, width: int, height: int) -> list[Row]:
    """Return the framed charts."""
    return panel(
        minutes_rows(state, width - 2, height - 2),
        width,
        height,
        "P99 by stage",
        note="1 s a column, each on its own scale; now at the left, peak at the right",
        stale=state.stale,
    )
