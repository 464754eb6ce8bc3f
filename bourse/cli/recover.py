"""bourse recover: what a start would make of a data directory, without starting."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Annotated

import typer

from bourse.cli.options import JsonOption, command_app
from bourse.cli.output import say, say_json, say_rows

app = command_app()


@app.command()
def recover(
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            metavar="DIR",
            help="Data directory. Default: this user's state directory.",
            show_default=False,
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only look: write nothing, take no lock.")
    ] = False,
    accept_snapshot_only: Annotated[
        bool,
        typer.Option(
            "--accept-snapshot-only",
            help="Go on from a snapshot that is newer than the log, or has none: what came after "
            "it is given up, and the log's segments are archived.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> int:
    """Recover a data directory as a start would, say what was done, and end.

    It finds the newest usable snapshot, executes the records after it, and cuts a torn tail. With
    --dry-run it changes nothing; beside a running daemon it then shows what a start would find now.

    \b
    Examples:
      bourse recover --dry-run
      bourse recover --data ./data --dry-run --json

    \b
    Exit codes:
      0   the directory can be started from
      2   there is nothing to recover
      4   a daemon owns the directory
      65  the log is corrupt, or has a gap; the sentence says where
    """
    from bourse.config import default_data_dir
    from bourse.core.records import digest_text
    from bourse.errors import UsageError
    from bourse.journal import recovery, storage

    data_dir = data.expanduser().absolute() if data else default_data_dir("default")
    if not storage.list_segments(data_dir) and not storage.list_snapshots(data_dir):
        raise UsageError(f"{data_dir} holds nothing to recover; give another with --data.")
    started = time.perf_counter()
    in_use = dry_run and storage.is_owned(data_dir)
    with contextlib.nullcontext() if dry_run else storage.DataLock(data_dir):
        found = recovery.recover(
            data_dir, dry_run=dry_run, accept_snapshot_only=accept_snapshot_only
        )
    seconds = time.perf_counter() - started
    engine = found.engine
    state, events = digest_text(engine.state_digest), digest_text(engine.event_digest)
    if as_json:
        say_json(
            {
                "data": str(data_dir),
                "dry_run": dry_run,
                "in_use": in_use,
                "last_wal_seq": found.last_wal_seq,
                "first_wal_seq": found.first_wal_seq,
                "segments": found.segment_count,
                "snapshot": str(found.snapshot_path) if found.snapshot_path else None,
                "snapshot_seq": found.snapshot_seq,
                "snapshots_skipped": [
                    {"path": str(path), "why": why} for path, why in found.snapshots_skipped
                ],
                "records_checked": found.records_checked,
                "records_replayed": found.records_replayed,
                "torn_bytes": found.torn_bytes,
                "torn_found": found.torn_found,
                "torn_kept": str(found.torn_path) if found.torn_path else None,
                "log_is_missing": found.log_is_missing,
                "resting_orders": engine.live_order_count,
                "digests": {"state": state, "events": events},
                "seconds": round(seconds, 6),
            }
        )
        return 0
    say(f"{data_dir}: {'looked at' if dry_run else 'recovered'} in {seconds:.3f} s")
    if in_use:
        say("  a daemon has it in use: this is what a start would find if that one ended now")
    for line in found.report.splitlines():
        say(f"  {line}")
    say_rows(
        [
            ("last wal_seq", f"{found.last_wal_seq:,}"),
            ("resting orders", f"{engine.live_order_count:,}"),
            ("state digest", state),
            ("event digest", events),
        ]
    )
    return 0
