"""Heat map of one stage: time to the right, latency upwards, density as glyph and colour."""

from __future__ import annotations

from math import log1p

from bourse.tui import glyphs
from bourse.tui.format import bucket
from bourse.tui.line import Cell, Row, exactly
from bourse.tui.state import ConsoleState

LABEL_CELLS = 6
TONES = ("faint", "heat1", "heat2", "heat3", "heat4", "heat5")


def step_of(hits: int, most: int) -> int:
    """Return 0 (none) to 5 (most) on a logarithmic scale, so that single outliers are seen."""
    if hits <= 0:
        return 0
    return max(1, round(log1p(hits) / log1p(most) * 5)) if most > 0 else 1


def heat_rows(state: ConsoleState, width: int, height: int) -> list[Row]:
    """Return the picture: one column a second, newest at the right; slow at the top."""
    cells = width - LABEL_CELLS - 1
    history = state.store.latency_history.tail(cells)
    columns = [sample[state.stage][1] for sample in history if state.stage in sample]
    used = [index for column in columns for index, hits in enumerate(column) if hits]
    if not used:
        return [exactly(((" nothing measured yet", "dim"),), width)]
    low, high = min(used), max(used)
    spare = max(0, height - (high - low + 1))
    low = max(0, low - spare // 2)
    if high - low + 1 > height:
        low = high - height + 1
    high = min(35, low + height - 1)
    most = max(hits for column in columns for hits in column)

    rows: list[Row] = []
    for index in range(high, low - 1, -1):
        label = bucket(index) if (index - low) % 2 == 0 else ""
        row: list[Cell] = [(label.rjust(LABEL_CELLS) + " ", "dim")]
        row.append((" " * (cells - len(columns)), "text"))
        run, run_step = "", -1
        for column in columns:
            step = step_of(column[index], most)
            if step != run_step and run:
                row.append((run, TONES[run_step]))
                run = ""
            run_step = step
            run += glyphs.HEAT[step]
        if run:
            row.append((run, TONES[run_step]))
        rows.append(exactly(row, width))
    return rows
