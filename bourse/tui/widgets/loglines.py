"""The Log screen: what daemon and console said, newest last, equal neighbours as one line."""

from __future__ import annotations

from bourse.admin.store import LogEntry
from bourse.tui.format import clean, clock, count
from bourse.tui.line import Row, exactly, panel
from bourse.tui.state import ConsoleState
from bourse.tui.widgets.proof import wrapped
from bourse.tui.widgets.table import Column, Table, position

_TONES = {"info": "text", "warning": "warning", "error": "error", "critical": "error"}


def _text(entry: LogEntry) -> str:
    again = f"×{count(entry.count)} " if entry.count > 1 else ""
    return again + clean(entry.text)


LOG: Table[LogEntry] = Table(
    key=lambda entry: entry.key,
    columns=[
        Column("time", 12, lambda entry: clock(entry.time_ns, True), rank=1, left=True),
        Column(
            "level",
            8,
            lambda entry: clean(entry.level),
            rank=2,
            left=True,
            tone=lambda entry: _TONES.get(entry.level, "dim"),
        ),
        Column("from", 7, lambda entry: entry.source, rank=3, left=True),
        Column(
            "text",
            20,
            _text,
            left=True,
            tone=lambda entry: _TONES.get(entry.level, "text"),
        ),
    ],
    grows="text",
    empty="nothing was said yet",
)


def entries_of(state: ConsoleState) -> list[LogEntry]:
    """Return the table's items."""
    return list(state.store.log)


def log_rows(state: ConsoleState, width: int, height: int) -> list[Row]:
    """Return the newest lines at the bottom, or the page around the chosen one."""
    table = state.table("log")
    items = LOG.shown(entries_of(state), table)
    chosen = LOG.chosen(items, table)
    whole: list[Row] = []
    if chosen is not None and height >= 8:
        # The chosen line in full, under the others.
        whole = [exactly((), width), *wrapped(_text(chosen), width, "bright")][: height // 3]
    fits = height - 1 - len(whole)
    if chosen is None:
        items = items[-fits:] if fits > 0 else []
    rows = LOG.rows(items, table, width, height - len(whole))
    if not items and table.filter:
        rows = LOG.rows(entries_of(state), table, width, height)
    return [*rows, *whole]


def log_panel(state: ConsoleState, width: int, height: int) -> list[Row]:
    """Return the framed log."""
    store = state.store
    table = state.table("log")
    items = entries_of(state)
    notes = [f"{count(store.log_missed)} missed"] if store.log_missed else []
    return panel(
        log_rows(state, width - 2, height - 2),
        width,
        height,
        f"LOG {count(len(items))}",
        note=" · ".join(notes),
        bottom=position(len(LOG.shown(items, table)), len(items), table),
        stale=state.stale,
    )
