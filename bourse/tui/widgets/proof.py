"""The Time screen's replay: how far it is, what it found, and both digests beside the live ones."""

from __future__ import annotations

from bourse.tui import glyphs
from bourse.tui.format import clean, count, digest, rate, size, span
from bourse.tui.line import Cell, Row, exactly, panel
from bourse.tui.replay import ReplayOutcome, ReplayReport, Verdict
from bourse.tui.state import ConsoleState
from bourse.tui.widgets.wal import labelled

_TONES = {
    Verdict.EQUAL: (glyphs.EQUAL, "ok"),
    Verdict.CHECKPOINTS: (glyphs.EQUAL, "ok"),
    Verdict.INCOMPARABLE: (glyphs.IDLE, "text"),
    Verdict.DIFFERENT: (glyphs.DIFFERENT, "error"),
    Verdict.FAILED: (glyphs.FAILED, "error"),
}


def wrapped(text: str, width: int, tone: str) -> list[Row]:
    """Return a sentence on as many rows as it takes."""
    from textwrap import wrap

    return [exactly(((f" {line}", tone),), width) for line in wrap(clean(text), max(8, width - 2))]


def compare_row(label: str, replayed: str, live: str | None, width: int) -> Row:
    """Return a digest of the replay and the live one at the same record, where it was seen."""
    if live is None:
        sign: Cell = ("   live: not seen at this record", "dim")
        return labelled(label, [(digest(replayed), "bright"), sign], width)
    equal = int(replayed, 16) == int(live, 16) if _is_hex(replayed) and _is_hex(live) else False
    sign = (f" {glyphs.EQUAL if equal else glyphs.DIFFERENT} ", "ok" if equal else "error")
    return labelled(
        label,
        [(digest(replayed), "bright"), sign, (digest(live), "bright"), (" live", "dim")],
        width,
    )


def _is_hex(text: str) -> bool:
    try:
        int(text, 16)
    except ValueError:
        return False
    return True


def report_rows(report: ReplayReport, outcome: ReplayOutcome, width: int) -> list[Row]:
    """Return what the replay read, and the comparison."""
    live = outcome.live
    return [
        labelled(
            "records",
            [(count(report.records), "text"), (f"  {rate(report.records_per_s)}/s", "dim")],
            width,
        ),
        labelled("took", [(f"{report.seconds:.2f} s", "text")], width),
        labelled(
            "checks", [(count(report.checkpoints), "text"), (" checkpoints passed", "dim")], width
        ),
        labelled("orders", [(count(report.resting_orders), "text"), (" resting", "dim")], width),
        compare_row("book", report.digests.state, live[0] if live else None, width),
        compare_row("events", report.digests.events, live[1] if live else None, width),
    ]


def proof_rows(state: ConsoleState, width: int, height: int) -> list[Row]:
    """Return the running replay's progress, or the last one's outcome."""
    wal = state.store.wal
    rows: list[Row] = []
    if state.replay_started is not None:
        done, total = state.replay_progress
        seconds = max(0.0, state.clock() - state.replay_started)
        bar_cells = max(4, width - 2)
        share = done / total if total else 0.0
        filled = glyphs.bar(share, bar_cells).rstrip()
        rows.append(
            labelled("replay", [("running", "warning"), (f"  {span(seconds)}", "dim")], width)
        )
        rows.append(
            exactly(
                (
                    (" ", "text"),
                    (filled, "accent"),
                    (glyphs.TRACK * (bar_cells - len(filled)), "faint"),
                ),
                width,
            )
        )
        speed = f"  {size(int(done / seconds))}/s" if seconds >= 1 else ""
        rows.append(
            labelled("read", [(f"{size(done)} of {size(total)}", "text"), (speed, "dim")], width)
        )
    outcome = state.replay
    if outcome is not None:
        glyph, tone = _TONES[outcome.verdict]
        if rows:
            rows.append(exactly(((" the one before:", "dim"),), width))
        rows += wrapped(f"{glyph} {outcome.sentence}", width, tone)
        if outcome.report is not None:
            rows += report_rows(outcome.report, outcome, width)
    elif not rows:
        rows += wrapped(
            "r replays the log in a process of its own and compares its digests with live.",
            width,
            "dim",
        )
    if wal is not None:
        rows.append(
            labelled(
                "live book",
                [(digest(wal.state_digest), "bright"), (f"  @{count(wal.accepted_seq)}", "dim")],
                width,
            )
        )
        newest = wal.snapshots[0].wal_seq if wal.snapshots else 0
        since = f"{count(max(0, wal.accepted_seq - newest))} records ago" if newest else "none yet"
        rows.append(labelled("snapshot", [(since, "text" if newest else "dim")], width))
    return rows[:height]


def proof_panel(state: ConsoleState, width: int, height: int) -> list[Row]:
    """Return the framed panel."""
    return panel(
        proof_rows(state, width - 2, height - 2),
        width,
        height,
        "REPLAY against live",
        stale=state.stale,
    )
