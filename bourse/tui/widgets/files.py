"""The WAL screen's own panels: syncs, segments, snapshots, checkpoints, and what is written."""

from __future__ import annotations

from typing import NamedTuple

from bourse.admin.messages import Percentiles, SegmentInfo, SnapshotInfo, Wal
from bourse.tui import glyphs
from bourse.tui.format import (
    NOTHING,
    clean,
    clock,
    count,
    digest,
    duration,
    rate,
    size,
    span,
)
from bourse.tui.line import Cell, Row, exactly, join_while_fits, panel
from bourse.tui.replay import CHECKPOINT_RECORDS, Verdict
from bourse.tui.state import ConsoleState, TableState
from bourse.tui.widgets.spark import spark_rows
from bourse.tui.widgets.table import Column, Table, position
from bourse.tui.widgets.wal import LABEL_CELLS, labelled

_NO_LOG = " Memory: nothing is written."

SNAPSHOTS: Table[SnapshotInfo] = Table(
    key=lambda snapshot: snapshot.wal_seq,
    columns=[
        Column("wal_seq", 14, lambda snapshot: count(snapshot.wal_seq)),
        Column("time", 8, lambda snapshot: clock(snapshot.created_ns), rank=1, left=True),
        Column("bytes", 10, lambda snapshot: size(snapshot.bytes), rank=2),
        Column(
            "file", 12, lambda snapshot: clean(snapshot.path).rsplit("/", 1)[-1], rank=3, left=True
        ),
    ],
    grows="file",
    empty="none yet; s writes one",
)


def _policy(durability: str) -> str:
    return {
        "memory": "acknowledged: matched",
        "async": "acknowledged: written, not synced",
        "fsync": "acknowledged: synced to disk",
    }.get(durability, "")


def _percentiles(label: str, values: Percentiles, width: int) -> Row:
    if not values.count:
        return labelled(label, [("none", "dim")], width)
    parts: list[list[Cell]] = [
        [(f"{name} ", "dim"), (duration(value), "text")]
        for name, value in (
            ("p50", values.p50),
            ("p99", values.p99),
            ("max", values.max),
            ("p99.9", values.p99_9),
        )
    ]
    return labelled(label, join_while_fits(parts, width - LABEL_CELLS - 1, "  "), width)


def syncs_rows(state: ConsoleState, wal: Wal, width: int) -> list[Row]:
    """Return how the disk does, and how well commands share it."""
    store = state.store
    window, ever = wal.sync_window, wal.sync
    per_batch = wal.written_bytes / wal.batches if wal.batches else 0
    slow = window.count >= 100 and window.p99 > 2 * ever.p99 > 0
    verdict: list[Cell] = [("as usual", "ok") if not slow else ("slower than usual !", "warning")]
    return [
        labelled("policy", [(clean(wal.durability), "bright")], width),
        exactly(((f" {_policy(wal.durability)}", "dim"),), width),
        _percentiles("last 10 s", window, width),
        _percentiles("ever", ever, width),
        labelled("syncs", [(count(wal.syncs), "text"), _per_s(store.rate("wal.syncs"))], width),
        labelled(
            "batches", [(count(wal.batches), "text"), _per_s(store.rate("wal.batches"))], width
        ),
        labelled(
            "a batch",
            join_while_fits(
                [
                    [(f"last {count(wal.last_batch_records)} records", "text")],
                    [(f"{size(int(per_batch))} on average" if wal.batches else "", "dim")],
                ],
                width - LABEL_CELLS - 1,
                "  ",
            ),
            width,
        ),
        labelled("disk", verdict if window.count else [(NOTHING, "dim")], width),
    ]


def _per_s(value: float) -> Cell:
    return (f"  {rate(value)}/s", "dim")


def syncs_panel(state: ConsoleState, width: int, height: int) -> list[Row]:
    """Return the framed panel of syncs."""
    wal = state.store.wal
    rows: list[Row] = []
    if wal is not None:
        rows = (
            [exactly(((_NO_LOG, "warning"),), width - 2)]
            if wal.durability == "memory"
            else syncs_rows(state, wal, width - 2)[: height - 2]
        )
    return panel(rows, width, height, "SYNCS", stale=state.stale)


class Segment(NamedTuple):
    """A segment with what follows from its neighbours."""

    info: SegmentInfo
    records: int | None
    """None where a neighbour's beginning is not known."""
    used_bytes: int | None
    """Of the one that is written; the others are full."""


SEGMENTS: Table[Segment] = Table(
    key=lambda segment: segment.info.index,
    columns=[
        Column(
            "",
            1,
            lambda segment: glyphs.LIVE if segment.used_bytes is not None else glyphs.DOT,
            left=True,
            tone=lambda segment: "ok" if segment.used_bytes is not None else "faint",
        ),
        Column("segment", 8, lambda segment: count(segment.info.index)),
        Column("from", 13, lambda segment: count(segment.info.first_wal_seq), rank=1),
        Column("records", 11, lambda segment: count(segment.records), rank=3),
        Column("size", 10, lambda segment: size(segment.info.size_bytes), rank=2),
        Column("used", 6, lambda segment: _used(segment), rank=1),
    ],
    grows="records",
    empty="none yet",
)


def _used(segment: Segment) -> str:
    if segment.used_bytes is None:
        return "full"
    whole = segment.info.size_bytes
    return f"{segment.used_bytes * 100 // whole}%" if whole > 0 else NOTHING


def segments_of(wal: Wal) -> list[Segment]:
    """Return the segments, newest first, with the records in each."""
    infos = wal.segments or [SegmentInfo(wal.segment_index, 0, wal.segment_size_bytes)]
    after = wal.accepted_seq + 1
    found = []
    for info in infos:
        is_written = info.index == wal.segment_index
        knows = info.first_wal_seq > 0
        records = max(0, after - info.first_wal_seq) if knows else None
        found.append(Segment(info, records, wal.segment_used_bytes if is_written else None))
        after = info.first_wal_seq
    return found


def segments_panel(state: ConsoleState, width: int, height: int) -> list[Row]:
    """Return the segments that there are, the one that is written first."""
    wal = state.store.wal
    inside = width - 2
    if wal is None or wal.durability == "memory":
        rows = [exactly(((_NO_LOG, "warning"),), inside)] if wal else []
        return panel(rows, width, height, "SEGMENTS", stale=state.stale)
    segments = segments_of(wal)
    rows = SEGMENTS.rows(segments, TableState(), inside, height - 2)
    if len(rows) + 1 < height - 2:
        rows.append(
            exactly(((f"   {_end_of(clean(wal.segment_path), inside - 4)}", "dim"),), inside)
        )
    if wal.torn_bytes and len(rows) < height - 2:
        words = f"   {size(wal.torn_bytes)} torn at its end, cut by the last start"
        rows.append(exactly(((words, "warning"),), inside))
    return panel(
        rows,
        width,
        height,
        f"SEGMENTS {count(len(segments))}",
        note=size(sum(max(0, one.info.size_bytes) for one in segments)),
        stale=state.stale,
    )


def _end_of(path: str, cells: int) -> str:
    """Return a path's end, which tells more than its beginning."""
    return path if len(path) <= cells else "…" + path[-(cells - 1) :]


def snapshots_of(state: ConsoleState) -> list[SnapshotInfo]:
    """Return the table's items, newest first."""
    return list(state.store.wal.snapshots) if state.store.wal else []


def snapshots_panel(state: ConsoleState, width: int, height: int) -> list[Row]:
    """Return the framed table of snapshots."""
    table = state.table("wal")
    items = snapshots_of(state)
    note = "writing…" if state.snapshot_running else ""
    rows = SNAPSHOTS.rows(items, table, width - 2, height - 2)
    if state.store.wal is not None and state.store.wal.durability == "memory":
        rows = [exactly(((_NO_LOG, "warning"),), width - 2)]
    return panel(
        rows,
        width,
        height,
        f"SNAPSHOTS {count(len(items))}",
        note=note,
        bottom=position(len(SNAPSHOTS.shown(items, table)), len(items), table),
        stale=state.stale,
    )


def rail(passed: int, total: int, failed: bool, width: int) -> list[Cell]:
    """Return one sign a checkpoint, or one for several where they are many."""
    if total <= 0 or width <= 0:
        return []
    cells = min(width, total)
    done = cells * passed // total
    row: list[Cell] = [(glyphs.EQUAL * done, "ok")]
    if failed and done < cells:
        row.append((glyphs.DIFFERENT, "error"))
        done += 1
    row.append((glyphs.DOT * (cells - done), "faint"))
    return row


def checks_rows(state: ConsoleState, width: int, height: int) -> list[Row]:
    """Return the rail of checkpoints and what the last replay said."""
    wal = state.store.wal
    if wal is None or wal.durability == "memory":
        return [exactly(((_NO_LOG, "warning"),), width)] if wal else []
    total = wal.durable_seq // CHECKPOINT_RECORDS
    outcome = state.replay
    report = outcome.report if outcome else None
    failed = outcome is not None and outcome.verdict is Verdict.DIFFERENT
    passed = report.last_wal_seq // CHECKPOINT_RECORDS if report else 0
    live = join_while_fits(
        [
            [(" live ", "dim"), (digest(wal.state_digest), "bright")],
            [(f"@{count(wal.accepted_seq)}", "dim")],
            [(f"{count(total)} checkpoints", "dim")],
            [(f"one each {count(CHECKPOINT_RECORDS)} records", "dim")],
        ],
        width,
        "  ",
    )
    if state.replay_started is not None:
        done, size_bytes = state.replay_progress
        seconds = max(0.0, state.clock() - state.replay_started)
        share = done / size_bytes if size_bytes else 0.0
        bar_cells = max(4, min(40, width - 40))
        filled = glyphs.bar(share, bar_cells).rstrip()
        verdict: list[Cell] = [
            (f" replay {span(seconds)} ", "warning"),
            (filled, "accent"),
            (glyphs.TRACK * (bar_cells - len(filled)), "faint"),
            (f" {size(done)} of {size(size_bytes)}", "text"),
        ]
    elif outcome is None:
        verdict = [(" not replayed yet; r does", "dim")]
    else:
        tone = "ok" if outcome.verdict in (Verdict.EQUAL, Verdict.CHECKPOINTS) else "error"
        if outcome.verdict is Verdict.INCOMPARABLE:
            tone = "text"
        verdict = [(f" {clean(outcome.sentence)}", tone)]
    rows = [
        exactly([(" ", "text"), *rail(min(passed, total), total, failed, width - 2)], width),
        exactly(verdict, width),
        exactly(live, width),
    ]
    return rows[1:3] if height < 3 and not report else rows[:height]


def checks_panel(state: ConsoleState, width: int, height: int) -> list[Row]:
    """Return the framed rail of checkpoints."""
    return panel(
        checks_rows(state, width - 2, height - 2),
        width,
        height,
        "CHECKPOINTS replay against live",
        stale=state.stale,
    )


def _chart(
    state: ConsoleState, width: int, height: int, title: str, part: int, bytes_per_s: bool
) -> list[Row]:
    samples = [sample[part] for sample in state.store.sync_history.tail(width - 2)]

    def words(value: float) -> str:
        return f"{size(int(value))}/s" if bytes_per_s else rate(value)

    now = samples[-1] if samples else 0.0
    return panel(
        spark_rows(
            samples, width - 2, height - 2, "chart-count" if bytes_per_s else "chart-latency"
        ),
        width,
        height,
        f"{title} {words(now)}",
        note=f"peak {words(max(samples, default=0.0))}",
        stale=state.stale,
    )


def sync_rate_panel(state: ConsoleState, width: int, height: int) -> list[Row]:
    """Return the chart of syncs a second."""
    return _chart(state, width, height, "SYNCS/S", 0, False)


def write_rate_panel(state: ConsoleState, width: int, height: int) -> list[Row]:
    """Return the chart of bytes written a second."""
    return _chart(state, width, height, "WRITTEN", 1, True)
