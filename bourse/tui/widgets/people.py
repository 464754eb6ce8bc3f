"""The Sessions screen: every connection in a table that can be chosen from, filtered and sorted."""

from __future__ import annotations

from typing import NamedTuple

from bourse.admin.messages import SessionInfo
from bourse.tui import glyphs
from bourse.tui.format import clean, clock, count, short_count, size
from bourse.tui.line import Cell, Row, panel
from bourse.tui.state import ConsoleState
from bourse.tui.widgets.proof import wrapped
from bourse.tui.widgets.table import Column, Table, position
from bourse.tui.widgets.wal import labelled

_STATES = {
    "open": (glyphs.LIVE, "ok"),
    "paused": (glyphs.WARNING, "warning"),
    "closing": (glyphs.FAILED, "error"),
}


class Person(NamedTuple):
    """A session with its rates."""

    info: SessionInfo
    in_per_s: float
    out_per_s: float


def _state(person: Person) -> str:
    glyph = _STATES.get(person.info.state, (glyphs.IDLE, ""))[0]
    return f"{glyph} {clean(person.info.state)}"


SESSIONS: Table[Person] = Table(
    key=lambda person: person.info.session_id,
    columns=[
        Column("id", 5, lambda person: str(person.info.session_id)),
        Column("peer", 21, lambda person: clean(person.info.peer), rank=1, left=True),
        Column(
            "state",
            9,
            _state,
            rank=2,
            left=True,
            tone=lambda person: _STATES.get(person.info.state, ("", "dim"))[1],
        ),
        Column(
            "in/s",
            6,
            lambda person: short_count(person.in_per_s),
            rank=3,
            order=lambda person: person.in_per_s,
        ),
        Column(
            "out/s",
            6,
            lambda person: short_count(person.out_per_s),
            rank=4,
            order=lambda person: person.out_per_s,
        ),
        Column(
            "orders",
            8,
            lambda person: count(person.info.open_orders),
            rank=5,
            order=lambda person: person.info.open_orders,
        ),
        Column(
            "rejects",
            9,
            lambda person: count(person.info.rejects),
            rank=6,
            order=lambda person: person.info.rejects,
        ),
        Column(
            "queued",
            10,
            lambda person: size(person.info.queued_bytes),
            rank=7,
            order=lambda person: person.info.queued_bytes,
        ),
        Column(
            "commands",
            12,
            lambda person: count(person.info.commands),
            rank=8,
            order=lambda person: person.info.commands,
        ),
        Column("events", 12, lambda person: count(person.info.events), rank=9),
        Column("since", 8, lambda person: clock(person.info.connected_ns), rank=10),
        Column("active", 8, lambda person: clock(person.info.last_active_ns), rank=11),
        Column("in", 10, lambda person: size(person.info.bytes_in), rank=12),
        Column("out", 10, lambda person: size(person.info.bytes_out), rank=13),
    ],
    grows="peer",
    empty="nobody is connected",
)


def people_of(state: ConsoleState) -> list[Person]:
    """Return the table's items."""
    sessions = state.store.sessions
    return [
        Person(info, *state.store.session_rates(info))
        for info in (sessions.sessions if sessions else ())
    ]


def people_panel(state: ConsoleState, width: int, height: int) -> list[Row]:
    """Return the framed table."""
    sessions = state.store.sessions
    table = state.table("sessions")
    items = people_of(state)
    status = state.store.status
    trouble = []
    if status is not None:
        trouble.append(f"{count(status.connections_total)} since the start")
        if status.slow_reader_cuts:
            trouble.append(f"{count(status.slow_reader_cuts)} cut off")
        if status.protocol_errors:
            trouble.append(f"{count(status.protocol_errors)} bad frames")
    if sessions and sessions.total > len(items):
        trouble.append(f"{count(sessions.total - len(items))} not listed")
    return panel(
        SESSIONS.rows(items, table, width - 2, height - 2) if sessions else [],
        width,
        height,
        f"SESSIONS {count(sessions.total)}" if sessions else "SESSIONS",
        note=" · ".join(trouble),
        bottom=position(len(SESSIONS.shown(items, table)), len(items), table),
        stale=state.stale,
    )


def session_rows(state: ConsoleState, width: int, height: int) -> list[Row]:
    """Return everything that is known of the chosen session."""
    table = state.table("sessions")
    if table.cursor is None:
        return wrapped("↑↓ choose a session; o sorts, / filters", width, "dim")
    person = SESSIONS.chosen(people_of(state), table)
    if person is None:
        return wrapped(f"session {table.cursor}: gone", width, "warning")
    info = person.info
    share = info.rejects / info.commands * 100 if info.commands else 0.0
    facts: list[tuple[str, list[Cell]]] = [
        ("session", [(str(info.session_id), "bright"), (f"  {clean(info.peer)}", "text")]),
        ("state", [(_state(person), _STATES.get(info.state, ("", "dim"))[1])]),
        (
            "commands",
            [(count(info.commands), "text"), (f"  {short_count(person.in_per_s)}/s", "dim")],
        ),
        ("events", [(count(info.events), "text"), (f"  {short_count(person.out_per_s)}/s", "dim")]),
        ("orders", [(count(info.open_orders), "text"), (" live", "dim")]),
        ("rejects", [(count(info.rejects), "text"), (f"  {share:.1f}% of its commands", "dim")]),
        ("received", [(size(info.bytes_in), "text")]),
        ("sent", [(size(info.bytes_out), "text"), (f"  {size(info.queued_bytes)} queued", "dim")]),
        ("since", [(f"{clock(info.connected_ns)}Z", "text")]),
        ("active", [(f"{clock(info.last_active_ns)}Z", "text")]),
    ]
    if height >= len(facts):
        return [labelled(label, cells, width) for label, cells in facts]
    # Two columns where the panel is low.
    half = width // 2
    rows: list[Row] = []
    for left, right in zip(facts[0::2], facts[1::2], strict=True):
        rows.append((*labelled(*left, half), *labelled(*right, width - half)))
    return rows[:height]


def session_panel(state: ConsoleState, width: int, height: int) -> list[Row]:
    """Return the chosen session's panel."""
    return panel(
        session_rows(state, width - 2, height - 2), width, height, "SESSION", stale=state.stale
    )
