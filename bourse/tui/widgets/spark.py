"""Charts of the last minutes: a column a second, filled from the bottom in eighths of a cell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from bourse.tui import glyphs
from bourse.tui.format import NOTHING, clean, duration, rate
from bourse.tui.line import LineView, Row, exactly, panel
from bourse.tui.state import UI, ConsoleState


def spark_texts(samples: Sequence[float], width: int, height: int) -> list[str]:
    """Return an area chart as texts, newest at the right; the highest sample fills the height."""
    shown = list(samples)[-width:] if width > 0 else []
    most = max(shown, default=0)
    columns = [glyphs.column(value / most if most else 0, height) for value in shown]
    pad = " " * (width - len(columns))
    return [pad + "".join(column[y] for column in columns) for y in range(height)]


def spark_rows(samples: Sequence[float], width: int, height: int, tone: str) -> list[Row]:
    """Return an area chart, newest at the right; the highest sample fills the height."""
    return [exactly(((text, tone),), width) for text in spark_texts(samples, width, height)]


def commands_panel(state: ConsoleState, width: int, height: int) -> list[Row]:
    """Return the chart of commands a second."""
    samples = state.store.commands_history.tail(width - 2)
    peak = max(samples, default=0.0)
    return panel(
        spark_rows(samples, width - 2, height - 2, "chart-count"),
        width,
        height,
        f"COMMANDS/S {rate(state.store.rate('commands'))}",
        note=f"peak {rate(peak)}",
        stale=state.stale,
    )


def p99_panel(state: ConsoleState, width: int, height: int) -> list[Row]:
    """Return the chart of the chosen stage's p99."""
    history = state.store.latency_history.tail(width - 2)
    samples = [sample[state.stage][0] for sample in history if state.stage in sample]
    stage = state.store.stage(state.stage)
    now = duration(stage.window.p99) if stage and stage.window.count else NOTHING
    return panel(
        spark_rows(samples, width - 2, height - 2, "chart-latency"),
        width,
        height,
        f"P99 {clean(state.stage)} {now}",
        note=f"peak {duration(max(samples, default=0))}",
        stale=state.stale,
    )


class CommandsChart(LineView):
    """Show commands a second over the last minutes."""

    TOPICS: ClassVar[frozenset[str]] = frozenset({"status", "history"})

    def draw(self, state: ConsoleState, width: int, height: int) -> list[Row]:
        """Return the framed chart."""
        return commands_panel(state, width, height)


class P99Chart(LineView):
    """Show the chosen stage's p99 over the last minutes."""

    TOPICS: ClassVar[frozenset[str]] = frozenset({"latency", "history", UI})

    def draw(self, state: ConsoleState, width: int, height: int) -> list[Row]:
        """Return the framed chart."""
        return p99_panel(state, width, height)
