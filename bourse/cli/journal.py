"""bourse snapshot, replay: what the log and the snapshots hold."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from bourse.cli.options import AdminOption, JsonOption, admin_path, command_app
from bourse.cli.output import console, say, say_json, say_rows

PROGRESS_SECONDS = 0.1

snapshot_app = command_app()
replay_app = command_app()


@snapshot_app.command()
def snapshot(admin: AdminOption = None, as_json: JsonOption = False) -> int:
    """Write a snapshot of the running exchange; it is on disk when this returns.

    \b
    Example:
      bourse snapshot

    \b
    Exit codes:
      0  written
      1  the daemon refused, with the reason
      3  no daemon answers
    """
    from bourse.admin.client import call

    result = call(admin_path(admin), "snapshot", name="bourse snapshot")
    if as_json:
        say_json(result)
        return 0
    say(
        f"Snapshot at wal_seq {result.wal_seq:,}: {result.live_orders:,} live orders, "
        f"{result.bytes:,} bytes in {result.seconds:.3f} s; the matcher paused "
        f"{result.pause_ns / 1e6:.3f} ms."
    )
    say(f"  {result.path}")
    say(f"  state digest {result.state_digest}")
    return 0


@replay_app.command()
def replay(
    wal: Annotated[
        Path,
        typer.Option(
            "--wal",
            metavar="PATH",
            help="A data directory or a segment file, also of a daemon that runs.",
            show_default=False,
        ),
    ],
    until: Annotated[
        int | None,
        typer.Option(
            "--until",
            metavar="SEQ",
            min=0,
            max=2**64 - 1,
            help="The last record to execute. Default: the log's last.",
            show_default=False,
        ),
    ] = None,
    as_json: JsonOption = False,
    say_progress: Annotated[
        bool,
        typer.Option("--progress", hidden=True, help="Say on stderr how far it is, for programs."),
    ] = False,
) -> int:
    """Rebuild the book from the log alone and say what came out. Changes nothing, takes no lock.

    \b
    Examples:
      bourse replay --wal ~/.local/state/bourse/default
      bourse replay --wal ./data --until 1000
      bourse replay --wal ./data/wal/wal-00000001-00000000000000000001.log --json

    \b
    Exit codes:
      0   replayed; a torn tail is said, it is no error
      2   there is no log at PATH
      65  the log is corrupt
    """
    from bourse.core.records import digest_text
    from bourse.journal.replay import replay as replay_log

    started = time.perf_counter()
    with _progress("replay", say_progress) as advance:
        result = replay_log(wal, advance, until=until)
    seconds = time.perf_counter() - started
    records_per_s = round(result.records / seconds)
    state, events = digest_text(result.state_digest), digest_text(result.event_digest)
    snapshot_path = str(result.snapshot_path) if result.snapshot_path else None
    if as_json:
        say_json(
            {
                "records": result.records,
                "last_wal_seq": result.last_wal_seq,
                "resting_orders": result.resting_orders,
                "best_bid": result.best_bid,
                "best_ask": result.best_ask,
                "digests": {"state": state, "events": events},
                "seconds": round(seconds, 6),
                "records_per_s": records_per_s,
                "torn_tail": result.torn_tail,
                "live": result.live,
                "events": result.events,
                "segments": result.segment_count,
                "bytes_read": result.bytes_read,
                "torn_bytes": result.torn_bytes,
                "end_found": result.end_found,
                "snapshot": snapshot_path,
                "snapshots_compared": result.snapshots_compared,
                "snapshots_skipped": [
                    {"path": str(path), "why": why} for path, why in result.snapshots_skipped
                ],
            }
        )
        return 0
    say(
        f"{result.records:,} records in {seconds:.3f} s, {records_per_s:,} a second, "
        f"from {result.segment_count} segment{'s' if result.segment_count != 1 else ''}"
    )
    rows = [
        ("last wal_seq", f"{result.last_wal_seq:,}"),
        ("last event_seq", f"{result.events:,}"),
        ("resting orders", f"{result.resting_orders:,}"),
        ("best bid", "-" if result.best_bid is None else f"{result.best_bid:,}"),
        ("best ask", "-" if result.best_ask is None else f"{result.best_ask:,}"),
        ("state digest", state),
        ("event digest", events),
    ]
    if snapshot_path:
        rows.append(("began with", snapshot_path))
    if result.snapshots_compared:
        rows.append(("snapshots", f"{result.snapshots_compared} compared on the way, all equal"))
    rows += [("not valid", f"{path}: {why}") for path, why in result.snapshots_skipped]
    if result.torn_tail:
        rows.append(
            (
                "torn tail",
                f"{result.torn_bytes:,} bytes, which the next start cuts: {result.end_found}",
            )
        )
    if result.live:
        rows.append(("live", "a daemon is writing this log; there may be more by now"))
    say_rows(rows)
    return 0


@contextlib.contextmanager
def _progress(name: str, plain: bool = False) -> Iterator[Callable[[int, int], None]]:
    """Show a bar on stderr where that is a terminal; yields what takes (done, total) in bytes.

    Args:
        name: what is in progress.
        plain: write a line `progress DONE TOTAL` instead, ten times a second at most.
    """
    if plain:
        due_s = 0.0

        def write(done: int, total: int) -> None:
            nonlocal due_s
            if time.monotonic() >= due_s or done >= total:
                due_s = time.monotonic() + PROGRESS_SECONDS
                with contextlib.suppress(OSError):
                    sys.stderr.write(f"progress {done} {total}\n")
                    sys.stderr.flush()

        yield write
        return
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TransferSpeedColumn,
    )

    columns = (
        TextColumn(name),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console(stderr=True), transient=True) as progress:
        task = progress.add_task(name, total=None)

        def advance(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total)

        yield advance
