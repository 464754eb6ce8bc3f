"""Sessions: who is connected, how fast, and who is slow to read."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, NamedTuple

from bourse.admin.messages import SessionInfo
from bourse.tui import glyphs
from bourse.tui.format import clean, count, fit, short_count, size
from bourse.tui.line import Cell, LineView, Row, exactly, panel
from bourse.tui.state import ConsoleState

_STATES = {
    "open": (glyphs.LIVE, "ok"),
    "paused": (glyphs.WARNING, "warning"),
    "closing": (glyphs.FAILED, "error"),
}


class Column(NamedTuple):
    """One column of numbers behind peer and state."""

    title: str
    cells: int
    text: Callable[[SessionInfo, tuple[float, float]], str]


# In the order of their importance: a narrow panel keeps the first ones.
COLUMNS = (
    Column("in/s", 6, lambda session, rates: short_count(rates[0])),
    Column("out/s", 6, lambda session, rates: short_count(rates[1])),
    Column("orders", 8, lambda session, rates: count(session.open_orders)),
    Column("queued", 10, lambda session, rates: size(session.queued_bytes)),
    Column("rejects", 8, lambda session, rates: count(session.rejects)),
    Column("commands", 12, lambda session, rates: count(session.commands)),
    Column("events", 12, lambda session, rates: count(session.events)),
)
STATE_CELLS = 10
PEER_CELLS_MIN = 16


def session_rows(state: ConsoleState, width: int, height: int) -> list[Row]:
    """Return a head and a row a session; the last row counts those that do not fit."""
    sessions = state.store.sessions
    if sessions is None:
        return []
    if not sessions.sessions:
        return [exactly(((" nobody is connected", "dim"),), width)]
    id_cells = 1 + max(3, *(len(str(session.session_id)) for session in sessions.sessions))
    with_words = width >= id_cells + 1 + PEER_CELLS_MIN + STATE_CELLS + 12
    state_cells = STATE_CELLS if with_words else 2
    room = width - id_cells - 1 - state_cells - PEER_CELLS_MIN
    shown: list[Column] = []
    for column in COLUMNS:
        if column.cells > room:
            break
        shown.append(column)
        room -= column.cells
    peer_cells = min(24, PEER_CELLS_MIN + max(0, room))

    head: list[Cell] = [
        ("id".rjust(id_cells) + " ", "dim"),
        (fit("peer", peer_cells), "dim"),
        (fit(" state" if with_words else "", state_cells), "dim"),
        *((column.title.rjust(column.cells), "dim") for column in shown),
    ]
    rows = [exactly(head, width)]
    fits = height - 1
    listed = sessions.sessions
    cut = len(listed) > fits or sessions.total > len(listed)
    for session in listed[: fits - 1 if cut else fits]:
        glyph, tone = _STATES.get(session.state, (glyphs.IDLE, "dim"))
        rates = state.store.session_rates(session)
        word = (
            f" {glyph} {fit(clean(session.state), state_cells - 3)}" if with_words else f" {glyph}"
        )
        busy = "text" if rates[0] or rates[1] else "dim"
        rows.append(
            exactly(
                (
                    (str(session.session_id).rjust(id_cells) + " ", "dim"),
                    (fit(clean(session.peer), peer_cells), "text"),
                    (word, tone),
                    *((column.text(session, rates).rjust(column.cells), busy) for column in shown),
                ),
                width,
            )
        )
    if cut and fits > 0:
        more = sessions.total - max(0, fits - 1)
        rows.append(exactly(((f"  … {count(more)} more", "dim"),), width))
    return rows


def sessions_panel(state: ConsoleState, width: int, height: int) -> list[Row]:
    """Return the framed table."""
    sessions = state.store.sessions
    status = state.store.status
    trouble = []
    if status is not None:
        if status.slow_reader_cuts:
            trouble.append(f"{count(status.slow_reader_cuts)} cut off")
        if status.protocol_errors:
            trouble.append(f"{count(status.protocol_errors)} bad frames")
    return panel(
        session_rows(state, width - 2, height - 2),
        width,
        height,
        f"SESSIONS {count(sessions.total)}" if sessions else "SESSIONS",
        note=" · ".join(trouble),
        stale=state.stale,
    )


class SessionTable(LineView):
    """Show who is connected."""

    TOPICS: ClassVar[frozenset[str]] = frozenset({"sessions", "status"})

    def draw(self, state: ConsoleState, width: int, height: int) -> list[Row]:
        """Return the framed table."""
        return sessions_panel(state, width, height)
