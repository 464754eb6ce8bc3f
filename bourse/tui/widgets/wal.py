"""The log: how far it is accepted, durable and published, how syncing does, what replay proved.

accepted   18,216,046
durable    18,216,043   3 behind
published  18,216,043   3 behind
sync       p50 790µs · p99 2.05ms · 200/s
segment    #1 ████████░░░░░  61% of 64.0 MiB
snapshot   @18,190,000 at 18:21:56
digest     9f3c…a17e
replay     ✓ equal @18,216,043
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from bourse.admin.messages import Wal
from bourse.tui import glyphs
from bourse.tui.format import clean, clock, count, digest, duration, fit, rate, size, span
from bourse.tui.line import Cell, LineView, Row, exactly, join_while_fits, panel, spread
from bourse.tui.replay import Verdict
from bourse.tui.state import UI, ConsoleState

LABEL_CELLS = 10


def labelled(label: str, cells: Sequence[Cell], width: int) -> Row:
    """Return a row with its label in front."""
    return exactly(((" " + label.ljust(LABEL_CELLS), "dim"), *cells), width)


def watermark_row(label: str, sequence: int, accepted: int, width: int) -> Row:
    """Return a watermark and how far it is behind what was accepted."""
    behind = max(0, accepted - sequence)
    digits = len(count(accepted))
    value: Cell = (count(sequence).rjust(digits), "bright" if label == "durable" else "text")
    if label == "accepted":
        return labelled(label, [value], width)
    room = width - LABEL_CELLS - 1 - digits - 2
    note: Cell = ("all", "ok") if behind == 0 else (f"{count(behind)} behind", "text")
    if len(note[0]) > room:
        note = (f"+{count(behind)}", "text")
    return labelled(label, [value, ("  ", "text"), note], width)


def sync_row(state: ConsoleState, wal: Wal, width: int) -> Row:
    """Return how the disk does."""
    window = wal.sync_window if wal.sync_window.count else wal.sync
    if window.count == 0:
        return labelled("sync", [("no sync yet", "dim")], width)
    parts: list[list[Cell]] = [
        [("p50 ", "dim"), (duration(window.p50), "text")],
        [("p99 ", "dim"), (duration(window.p99), "text")],
        [(f"{rate(state.store.rate('wal.syncs'))}/s", "text")],
    ]
    return labelled("sync", join_while_fits(parts, width - LABEL_CELLS - 1), width)


def batches_row(state: ConsoleState, wal: Wal, width: int) -> Row:
    """Return how well commands share a sync."""
    share = wal.accepted_seq and wal.batches
    parts: list[list[Cell]] = [
        [(count(wal.batches), "text")],
        [("last ", "dim"), (count(wal.last_batch_records), "text")],
        [(f"{size(int(state.store.rate('wal.written_bytes')))}/s", "text")],
    ]
    if not share:
        parts = [[("none yet", "dim")]]
    return labelled("batches", join_while_fits(parts, width - LABEL_CELLS - 1), width)


def segment_row(wal: Wal, width: int) -> Row:
    """Return how full the segment is."""
    if not wal.segment_size_bytes:
        return labelled("segment", [(size(wal.segment_used_bytes), "text")], width)
    share = wal.segment_used_bytes / wal.segment_size_bytes
    head = f"#{wal.segment_index} "
    tail = f" {share * 100:.0f}% of {size(wal.segment_size_bytes)}"
    room = width - LABEL_CELLS - 1 - len(head) - len(tail)
    if room < 4:
        short: list[list[Cell]] = [
            [(head.strip(), "text")],
            [(f"{share * 100:.0f}%", "text")],
            [(size(wal.segment_used_bytes), "text")],
        ]
        return labelled("segment", join_while_fits(short, width - LABEL_CELLS - 1), width)
    bar_cells = min(24, room)
    filled = glyphs.bar(share, bar_cells).rstrip()
    tone = "warning" if share > 0.9 else "accent"
    return labelled(
        "segment",
        [
            (head, "text"),
            (filled, tone),
            (glyphs.TRACK * (bar_cells - len(filled)), "faint"),
            (tail, "text"),
        ],
        width,
    )


def snapshot_row(state: ConsoleState, wal: Wal, width: int) -> Row:
    """Return the newest snapshot."""
    if state.snapshot_running:
        return labelled("snapshot", [("writing…", "warning")], width)
    if not wal.snapshots:
        none: list[list[Cell]] = [[("none", "text")], [("s writes one", "dim")]]
        return labelled("snapshot", join_while_fits(none, width - LABEL_CELLS - 1), width)
    newest = wal.snapshots[0]
    parts: list[list[Cell]] = [
        [(f"@{count(newest.wal_seq)}", "text")],
        [(clock(newest.created_ns), "text")],
        [(size(newest.bytes), "text")],
        [(f"{len(wal.snapshots)} kept", "dim")],
    ]
    return labelled("snapshot", join_while_fits(parts, width - LABEL_CELLS - 1), width)


def recovered_row(wal: Wal, width: int) -> Row:
    """Return what the last start found."""
    parts: list[list[Cell]] = [
        [(f"@{count(wal.recovered_wal_seq)}", "text")]
        if wal.recovered_wal_seq
        else [("started empty", "text")]
    ]
    if wal.torn_bytes:
        parts.append([(f"{size(wal.torn_bytes)} torn, cut", "warning")])
    return labelled("recovered", join_while_fits(parts, width - LABEL_CELLS - 1), width)


def replay_row(state: ConsoleState, width: int) -> Row:
    """Return what the last replay came to."""
    if state.replay_started is not None:
        seconds = max(0.0, state.clock() - state.replay_started)
        return labelled("replay", [(f"running… {span(seconds)}", "warning")], width)
    outcome = state.replay
    if outcome is None:
        hint = "not run · press r"
        fits = len(hint) <= width - LABEL_CELLS - 1
        return labelled("replay", [(hint if fits else "press r", "dim")], width)
    report = outcome.report
    at = f" @{count(report.last_wal_seq)}" if report else ""
    parts: list[list[Cell]]
    if outcome.verdict is Verdict.EQUAL and report is not None:
        parts = [
            [(f"{glyphs.EQUAL} equal{at}", "ok")],
            [("all", "ok"), (f" in {report.seconds:.2f} s", "dim")],
        ]
    elif outcome.verdict is Verdict.CHECKPOINTS and report is not None:
        parts = [
            [(f"{glyphs.EQUAL} equal{at}", "ok")],
            [(f"{count(report.checkpoints)} checks", "dim")],
        ]
    elif outcome.verdict is Verdict.DIFFERENT:
        parts = [[(f"{glyphs.DIFFERENT} DIFFERS{at}", "error")]]
    elif outcome.verdict is Verdict.INCOMPARABLE:
        parts = [[("live moved on", "text")], [(f"done{at}", "dim")]]
    else:
        parts = [[(f"{glyphs.FAILED} failed", "error")], [("see message", "dim")]]
    return labelled("replay", join_while_fits(parts, width - LABEL_CELLS - 1), width)


def wal_rows(state: ConsoleState, wal: Wal, width: int, height: int) -> list[Row]:
    """Return what fits, the most important rows first, in their usual order."""
    if wal.durability == "memory":
        rows = [
            exactly(((" Memory: nothing is written.", "warning"),), width),
            exactly(((" A restart begins empty.", "dim"),), width),
            labelled("accepted", [(count(wal.accepted_seq), "text")], width),
            labelled("digest", [(digest(wal.state_digest), "text")], width),
        ]
        return rows[:height]
    ranked: list[tuple[int, Row]] = [
        (3, watermark_row("accepted", wal.accepted_seq, wal.accepted_seq, width)),
        (1, watermark_row("durable", wal.durable_seq, wal.accepted_seq, width)),
        (5, watermark_row("published", wal.released_seq, wal.accepted_seq, width)),
        (2, sync_row(state, wal, width)),
        (8, batches_row(state, wal, width)),
        (6, segment_row(wal, width)),
        (7, snapshot_row(state, wal, width)),
        (9, recovered_row(wal, width)),
        (10, labelled("digest", [(digest(wal.state_digest), "text")], width)),
        (4, replay_row(state, width)),
    ]
    if wal.failed:
        words = f" {glyphs.FAILED} {clean(wal.failed)}"
        ranked.insert(0, (0, exactly(((fit(words, width), "error"),), width)))
    kept = sorted(rank for rank, _ in ranked)[: max(0, height)]
    return [row for rank, row in ranked if rank in kept]


def wal_panel(state: ConsoleState, width: int, height: int) -> list[Row]:
    """Return the framed panel."""
    wal = state.store.wal
    if wal is None:
        return panel([], width, height, "WAL")
    return panel(
        wal_rows(state, wal, width - 2, height - 2),
        width,
        height,
        f"WAL {clean(wal.durability)}",
        bottom="" if not wal.segment_path else clean(wal.segment_path).rsplit("/", 1)[-1],
        stale=state.stale,
    )


class WalPanel(LineView):
    """Show the state of the log."""

    TOPICS: ClassVar[frozenset[str]] = frozenset({"wal", UI})

    def draw(self, state: ConsoleState, width: int, height: int) -> list[Row]:
        """Return the framed panel."""
        return wal_panel(state, width, height)


__all__ = ["WalPanel", "spread", "wal_panel", "wal_rows"]
