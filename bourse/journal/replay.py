"""Replay: rebuilds the book from the log, for people and tests, beside a running daemon or not.

It opens every file first, takes no lock and writes nothing. Beside a daemon it stops at the first
record that is not there yet and says `live`; segments that are begun or archived meanwhile do not
disturb it. There is no clock here: the caller measures the time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bourse.core.engine import Engine
from bourse.errors import JournalError, UsageError
from bourse.journal import format as layout
from bourse.journal import segment, snapshot, storage
from bourse.journal.apply import Applier, ReachedError
from bourse.journal.segment import Ending, Log, Tail

OPENS_MAX = 5
"""How often the segments may change while they are opened; a daemon changes them once a minute."""


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """What a replay came to."""

    engine: Engine
    path: Path
    store_id: bytes
    segment_count: int
    records: int
    """Records executed: all of the log, or those after `snapshot_path`."""
    last_wal_seq: int
    events: int
    """Numbered events since the log's first record (event_seq)."""
    resting_orders: int
    best_bid: int | None
    best_ask: int | None
    state_digest: int
    event_digest: int
    bytes_read: int
    torn_tail: bool
    """The log ends in a torn batch, and no daemon is writing it."""
    torn_bytes: int
    end_found: str
    """What is wrong where it ends; empty for a clean end."""
    live: bool
    """A daemon owns the directory: there may be more records by now."""
    snapshot_path: Path | None
    """The snapshot that it starts from, because the segments before it are gone."""
    snapshots_compared: int
    """Snapshots whose digests were compared on the way."""
    snapshots_skipped: tuple[tuple[Path, str], ...]
    """Snapshots that are not valid, and why; a full replay needs none."""


def replay(
    path: Path,
    progress: Callable[[int, int], None] | None = None,
    on_events: Callable[[bytes], None] | None = None,
    make_engine: Callable[[], Engine] = Engine,
    until: int | None = None,
) -> ReplayResult:
    """Replay a log.

    Args:
        path: a segment file, or a data directory.
        progress: called with bytes done and bytes in all (the end's zeros included).
        on_events: called with the bytes of events, in order, 64 bytes each.
        make_engine: makes an empty engine.
        until: the last record to execute; None is the log's last.

    Raises:
        UsageError: the log does not reach from its start to `until`; there is no log at `path`, or
            a segment that cannot be replayed alone.
        CorruptError: damage in what was durable.
        JournalError: a file cannot be read, a segment is missing.
    """
    data_dir, segments = _files(path)
    was_live = data_dir is not None and storage.is_owned(data_dir)
    with _open(path, segments) as log:
        skipped: list[tuple[Path, str]] = []
        snapshots = _load_snapshots(data_dir, log, skipped) if path.is_dir() and data_dir else []
        engine = make_engine()
        start_path, start = _start(path, log, snapshots)
        if start is not None:
            engine.restore(start.state, start.instruments, start.sessions, start.orders)
        start_seq = start.wal_seq if start is not None else 0
        if until is not None and until < start_seq:
            raise UsageError(
                f"record {until} is before the first that can be replayed: {start_path} stands "
                f"for those up to {start_seq}"
            )
        expected = [(one.wal_seq, one.digests) for _, one in snapshots]
        applier = Applier(engine, start_seq, on_events, expected, until)
        total_bytes = log.size_bytes()
        tail: Tail | None = None
        try:
            if until == start_seq:
                raise ReachedError
            tail = segment.walk_log(
                log,
                applier.run_with,
                None
                if progress is None
                else lambda done: progress(min(done, total_bytes), total_bytes),
                start_seq + 1,
            )
        except ReachedError:
            pass
        if until is not None and engine.wal_seq < until:
            raise UsageError(f"the log ends with record {engine.wal_seq}, before record {until}")
        if progress is not None:
            progress(total_bytes, total_bytes)
        live = data_dir is not None and (was_live or storage.is_owned(data_dir))
        return ReplayResult(
            engine=engine,
            path=path,
            store_id=log.store_id,
            segment_count=len(log.segments),
            records=applier.executed_count,
            last_wal_seq=engine.wal_seq,
            events=engine.event_seq,
            resting_orders=engine.live_order_count,
            # Killed right after it was made, a log does not even define the instrument.
            best_bid=engine.best_bid() if engine.instruments() else None,
            best_ask=engine.best_ask() if engine.instruments() else None,
            state_digest=engine.state_digest,
            event_digest=engine.event_digest,
            bytes_read=applier.bytes_read,
            torn_tail=tail is not None and tail.ending is Ending.TORN and not live,
            torn_bytes=tail.torn_bytes if tail is not None else 0,
            end_found=tail.found if tail is not None else "",
            live=live,
            snapshot_path=start_path,
            snapshots_compared=sum(
                start_seq < one.wal_seq <= engine.wal_seq for _, one in snapshots
            ),
            snapshots_skipped=tuple(skipped),
        )


def _open(path: Path, segments: list[Path]) -> Log:
    """Open the segments; a daemon may archive the oldest while we do."""
    for _ in range(OPENS_MAX):
        try:
            return segment.open_log(segments)
        except JournalError:
            now = _files(path)[1]
            if now == segments:
                raise
            segments = now
    return segment.open_log(segments)


def _files(path: Path) -> tuple[Path | None, list[Path]]:
    """Return the data directory, if there is one, and the segments to read."""
    if path.is_dir():
        data_dir = path.parent if path.name == storage.WAL_DIRECTORY else path
        segments = storage.list_segments(data_dir)
        if not segments:
            raise UsageError(f"{path} holds no log; give a data directory or a segment file.")
        return data_dir, segments
    if not path.exists():
        raise UsageError(f"{path} does not exist; give a data directory or a segment file.")
    if storage.segment_index_of(path) is None and not _begins_like_a_segment(path):
        raise UsageError(f"{path} is no log of bourse; give a data directory or a segment file.")
    in_place = path.absolute().parent
    return (in_place.parent if in_place.name == storage.WAL_DIRECTORY else None), [path]


def _begins_like_a_segment(path: Path) -> bool:
    """Say whether a file without a segment's name may be one; what cannot be read is said later."""
    try:
        if not path.is_file():
            return True
        with path.open("rb") as file:
            return file.read(len(layout.SEGMENT_MAGIC)) == layout.SEGMENT_MAGIC
    except OSError:
        return True


def _load_snapshots(
    data_dir: Path, log: Log, skipped: list[tuple[Path, str]]
) -> list[tuple[Path, snapshot.Snapshot]]:
    """Load the valid snapshots of this store, oldest first."""
    found: list[tuple[Path, snapshot.Snapshot]] = []
    for path in reversed(storage.list_snapshots(data_dir)):
        try:
            loaded = snapshot.load(path)
        except (snapshot.SnapshotError, JournalError) as error:
            skipped.append((path, str(error)))
            continue
        if loaded.store_id == log.store_id:
            found.append((path, loaded))
        else:
            skipped.append((path, "it belongs to another data directory"))
    return found


def _start(
    path: Path, log: Log, snapshots: list[tuple[Path, snapshot.Snapshot]]
) -> tuple[Path | None, snapshot.Snapshot | None]:
    """Choose where to start: the first record, or the oldest snapshot that reaches the log."""
    if log.first_wal_seq == 1:
        return None, None
    for where, loaded in snapshots:
        if loaded.wal_seq >= log.first_wal_seq - 1:
            return where, loaded
    if path.is_dir():
        raise JournalError(
            f"the log has a gap: {log.segments[0].path} starts with record {log.first_wal_seq} and "
            "no valid snapshot reaches it; restore the missing segments or a snapshot from a copy."
        )
    raise UsageError(
        f"{path} starts with record {log.first_wal_seq} and cannot be replayed alone; "
        "give the data directory instead."
    )
