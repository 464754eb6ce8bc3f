"""The log as a line: where snapshots, restarts, slow syncs, rejects and replays stand, and now.

│─────────◆──────────────────────┃─────▲────────────◆──────────────×──────────█│

The axis is wal_seq, so that an exchange at rest draws nothing. Where several marks share a cell,
the graver one is seen.
"""

from __future__ import annotations

from collections.abc import Sequence

from bourse.admin.markers import Marker, MarkerKind
from bourse.admin.messages import Wal
from bourse.tui import glyphs
from bourse.tui.format import clean, clock, count
from bourse.tui.line import Cell, Row, exactly, join_while_fits, panel
from bourse.tui.state import ConsoleState
from bourse.tui.widgets.table import Column, Table, position

MARKS: dict[MarkerKind, tuple[str, str]] = {
    MarkerKind.SNAPSHOT: (glyphs.MARK_SNAPSHOT, "accent"),
    MarkerKind.RESTART: (glyphs.MARK_RESTART, "bright"),
    MarkerKind.REPLAY: (glyphs.MARK_REPLAY, "ok"),
    MarkerKind.SLOW_SYNC: (glyphs.MARK_SLOW, "warning"),
    MarkerKind.REJECTS: (glyphs.MARK_REJECTS, "error"),
    MarkerKind.LOST: (glyphs.MARK_LOST, "error"),
}
"""Glyph and tone, the gravest last."""
RECENT_SNAPSHOTS = 5
"""The small timeline begins at the fifth newest snapshot."""
_GRAVITY = {kind: rank for rank, kind in enumerate(MARKS)}


def newest_seq(state: ConsoleState) -> int:
    """Return the last wal_seq that is known."""
    store = state.store
    seqs = [store.wal.accepted_seq if store.wal else 0, store.status.wal_seq if store.status else 0]
    return max(seqs)


def first_seq(state: ConsoleState, recent: bool) -> int:
    """Return where the line begins: with the log, or with what is recent."""
    wal = state.store.wal
    if not recent or wal is None or len(wal.snapshots) < RECENT_SNAPSHOTS:
        return 0
    return min(snapshot.wal_seq for snapshot in wal.snapshots[:RECENT_SNAPSHOTS])


def place(seq: int, first: int, last: int, width: int) -> int:
    """Return the cell of a wal_seq on a line of `width` cells; -1 when it is not on the line."""
    if seq < first or seq > last or width < 1:
        return -1
    return (seq - first) * (width - 1) // max(1, last - first)


def line_cells(markers: Sequence[Marker], first: int, last: int, width: int) -> list[Cell]:
    """Return the line itself in exactly `width` cells."""
    marks: dict[int, MarkerKind] = {}
    for marker in markers:
        at = place(marker.wal_seq, first, last, width)
        if at >= 0 and (at not in marks or _GRAVITY[marker.kind] > _GRAVITY[marks[at]]):
            marks[at] = marker.kind
    cells: list[Cell] = []
    at = 0
    for cell in sorted([*(cell for cell in marks if cell < width - 1), width - 1]):
        if cell > at:
            cells.append((glyphs.LINE * (cell - at), "faint"))
        cells.append((glyphs.NOW, "bright") if cell == width - 1 else MARKS[marks[cell]])
        at = cell + 1
    return cells


def legend(width: int) -> str:
    """Return the signs and their meaning, as many as fit."""
    words: list[list[Cell]] = [[(f"{MARKS[kind][0]} {kind.value}", "dim")] for kind in MARKS]
    return "".join(text for text, _ in join_while_fits(words, width, "  "))


def timeline_panel(state: ConsoleState, width: int, height: int) -> list[Row]:
    """Return the small timeline of every screen: one line in a frame."""
    last = newest_seq(state)
    first = first_seq(state, recent=True)
    rows: list[Row] = []
    if last:
        rows = [exactly(line_cells(state.store.all_markers(), first, last, width - 2), width - 2)]
    since = f" from {count(first)}" if first else ""
    return panel(
        rows,
        width,
        height,
        f"TIMELINE{since}",
        note=legend(width - 16 - len(since)),
        stale=state.stale,
    )


def segments_cells(wal: Wal, last: int, width: int) -> list[Cell]:
    """Return where each segment begins, under the line: a bar and its number where it fits."""
    if wal.durability == "memory":
        return [(" no log is written", "warning")]
    text = ""
    for segment in reversed(wal.segments):
        at = place(segment.first_wal_seq, 0, last, width)
        if at < len(text):
            continue
        label = f"│{segment.index}"
        if at + len(label) <= width:
            text = text.ljust(at) + label + " "
    return [(text[:width], "dim")]


def axis_row(first: int, last: int, width: int) -> Row:
    """Return numbers under the line: its ends, and steps where there is room."""
    steps = max(1, width // 24)
    text = ""
    for step in range(steps + 1):
        seq = first + (last - first) * step // steps
        label = count(seq)
        at = (width - 1) * step // steps
        start = at if step == 0 else at - len(label) + 1 if step == steps else at - len(label) // 2
        if start > len(text) or step == 0:
            text = text.ljust(start) + label
    return exactly(((text[:width], "dim"),), width)


def track_panel(state: ConsoleState, width: int, height: int) -> list[Row]:
    """Return the Time screen's line: the whole log, its axis, its segment."""
    last = newest_seq(state)
    inside = width - 2
    if not last:
        return panel([], width, height, "LOG AS A LINE", stale=state.stale)
    wal = state.store.wal
    markers = state.store.all_markers()
    chosen = MARKS_TABLE.chosen(markers, state.table("time"))
    pointer: list[Cell] = []
    if chosen is not None:
        at = max(0, place(chosen.wal_seq, 0, last, inside))
        pointer = [(" " * at + "↓", "key")]
    rows = [
        exactly(pointer, inside),
        exactly(line_cells(markers, 0, last, inside), inside),
        axis_row(0, last, inside),
        exactly(segments_cells(wal, last, inside) if wal else (), inside),
    ]
    if height - 2 < len(rows):
        rows = rows[1:] if not pointer else rows[: height - 2]
    segments = len(wal.segments) if wal else 0
    return panel(
        rows,
        width,
        height,
        "LOG AS A LINE",
        note=legend(inside - 18),
        bottom=f"{count(segments)} segment{'' if segments == 1 else 's'} · now {count(last)}",
        stale=state.stale,
    )


MARKS_TABLE: Table[Marker] = Table(
    key=lambda marker: marker.key,
    columns=[
        Column(
            "",
            1,
            lambda marker: MARKS[marker.kind][0],
            rank=0,
            left=True,
            tone=lambda marker: MARKS[marker.kind][1],
        ),
        Column("wal_seq", 14, lambda marker: count(marker.wal_seq), rank=1),
        Column(
            "time",
            8,
            lambda marker: clock(marker.time_ns) if marker.time_ns else "",
            rank=3,
            left=True,
        ),
        Column("what", 15, lambda marker: marker.kind.value, rank=2, left=True),
        Column("about", 10, lambda marker: clean(marker.text), rank=4, left=True),
    ],
    grows="about",
    empty="nothing happened yet",
)
"""What happened along the log, newest first."""


def marks_of(state: ConsoleState) -> list[Marker]:
    """Return the table's items."""
    return state.store.all_markers()[::-1]


def marks_panel(state: ConsoleState, width: int, height: int) -> list[Row]:
    """Return the Time screen's table of what happened."""
    table = state.table("time")
    items = marks_of(state)
    return panel(
        MARKS_TABLE.rows(items, table, width - 2, height - 2),
        width,
        height,
        f"MARKS {count(len(items))}",
        bottom=position(len(MARKS_TABLE.shown(items, table)), len(items), table),
        stale=state.stale,
    )
