"""Recovery: from a data directory to an engine and the place where the log goes on.

    1. open every segment, check the headers        5. judge the end: clean, torn, corrupt
    2. newest usable snapshot, if any               6. sync the end, read it again from the disk
    3. a new engine, restored from it               7. only now write: cut a torn tail, remove a
    4. from the segment that holds the record          segment that was not begun, or make the
       after it: check all, execute what follows       first segment of a new directory

Nothing is written before step 7, and a crash in step 7 leaves what the next recovery understands.
Segments before the one that step 4 begins with are looked at by their headers only.
The caller owns the directory (storage.DataLock) and measures the time; there is no clock here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from bourse.core.engine import Engine
from bourse.core.killpoint import passed
from bourse.errors import JournalError
from bourse.journal import format as layout
from bourse.journal import reader, segment, snapshot, storage
from bourse.journal.apply import Applier
from bourse.journal.segment import Ending, Log, Tail, Unbegun
from bourse.journal.writer import BUFFER_BYTES, JournalWriter

READS_MAX = 3
"""How often the log's end may read differently after a sync before recovery gives up."""


@dataclass(slots=True)
class Recovered:
    """What recovery came to."""

    data_dir: Path
    engine: Engine
    store_id: bytes
    segment_path: Path
    """The segment that the log goes on in; storage.open_segment opens it."""
    segment_index: int
    offset_bytes: int
    """Where the next batch goes."""
    chain_crc: int
    next_wal_seq: int
    is_new: bool = False
    """The directory held no log; its first segment has been made."""
    snapshot_path: Path | None = None
    snapshot_seq: int = 0
    snapshots_skipped: list[tuple[Path, str]] = field(default_factory=list)
    """Newer snapshots that could not be used, and why: damage that a person should look at."""
    records_checked: int = 0
    records_replayed: int = 0
    last_received_ns: int = 0
    """Wall clock of the last record; later ones are stamped with no less."""
    torn_bytes: int = 0
    torn_found: str = ""
    """What was wrong where the log was cut; empty for a clean end."""
    torn_path: Path | None = None
    """Where the cut bytes are kept."""
    segment_count: int = 1
    first_wal_seq: int = 1
    """The first record that is still in the log."""
    unbegun: Unbegun | None = None
    """A segment that was prepared and not begun; it is removed."""
    unbegun_path: Path | None = None
    """Where it is kept, if it held anything."""
    log_is_missing: bool = False
    """The snapshot is newer than the log's end, and that was accepted."""
    was_written: bool = True
    """False after a dry run: the torn tail is still there."""

    @property
    def last_wal_seq(self) -> int:
        """The last command that the engine has executed."""
        return self.next_wal_seq - 1

    def writer(self, buffer_bytes: int = BUFFER_BYTES) -> JournalWriter:
        """Return a writer at the log's end."""
        return JournalWriter(
            self.store_id,
            self.segment_index,
            self.offset_bytes,
            self.chain_crc,
            self.next_wal_seq,
            buffer_bytes,
        )

    @property
    def report(self) -> str:
        """Say what was done, a line a fact."""
        if self.is_new:
            return f"{self.data_dir} is new; its log starts with record 1."
        lines = [
            f"skipped {path}: {why}; restore it from a copy or remove it"
            for path, why in self.snapshots_skipped
        ]
        if self.snapshot_path is not None:
            lines.append(f"restored {self.snapshot_path}, taken after record {self.snapshot_seq}")
        if self.log_is_missing:
            lines.append(f"no record after {self.snapshot_seq} is there: accepted as asked")
        more = f" in {self.segment_count} segments" if self.segment_count > 1 else ""
        lines.append(
            f"checked {self.records_checked} records{more}, replayed {self.records_replayed}; "
            f"the last is {self.last_wal_seq}"
        )
        if self.torn_found:
            lines.append(
                f"torn tail at byte {self.offset_bytes} of {self.segment_path.name}: "
                f"{self.torn_found}"
            )
        if self.torn_path is not None:
            lines.append(f"cut {self.torn_bytes} bytes, kept in {self.torn_path}")
        elif self.torn_bytes:
            lines.append(f"{self.torn_bytes} bytes would be cut")
        if self.unbegun is not None and self.unbegun.torn_bytes:
            where = f"kept in {self.unbegun_path}" if self.unbegun_path else "would be set aside"
            lines.append(f"{self.unbegun.path.name} was torn as it was begun; {where}")
        return "\n".join(lines)


class _EndChangedError(Exception):
    """The log's end reads differently from disk than from the cache."""


def recover(
    data_dir: Path,
    *,
    make_engine: Callable[[], Engine] = Engine,
    preallocate_bytes: int = segment.PREALLOCATE_BYTES,
    store_id: bytes | None = None,
    dry_run: bool = False,
    progress: Callable[[int, int], None] | None = None,
    accept_snapshot_only: bool = False,
) -> Recovered:
    """Rebuild the engine from a data directory, and make the log ready to be appended to.

    Args:
        data_dir: the directory; the caller owns it (not needed for a dry run).
        make_engine: makes an empty engine, with the limits that the log was written with.
        preallocate_bytes: size that a segment is filled up to with zeros.
        store_id: identity of a new directory; 16 random bytes when None.
        dry_run: write nothing, not even a sync.
        progress: called with bytes done and bytes in all.
        accept_snapshot_only: begin from a snapshot that is newer than the log's end, or has no log
            at all; what the log held after it is given up, and its segments are archived.

    Raises:
        CorruptError: damage in what was durable; nothing was changed.
        JournalError: the log and the snapshots cannot be used together, or the disk refused.
    """
    paths = storage.list_segments(data_dir)
    if not paths:
        if accept_snapshot_only and storage.list_snapshots(data_dir):
            return _from_snapshot_alone(data_dir, make_engine, preallocate_bytes, dry_run)
        return _new_directory(data_dir, make_engine, preallocate_bytes, store_id, dry_run)
    for _ in range(READS_MAX):
        with segment.open_log(paths) as log:
            recovered, tail = _read(data_dir, log, make_engine, progress, accept_snapshot_only)
            passed("recovery_read")
            try:
                if not dry_run:
                    storage.confirm_names(data_dir)
                    _confirm_durable(log, tail)
                    passed("recovery_confirmed")
            except _EndChangedError:
                continue
        if not dry_run:
            if recovered.log_is_missing:
                _begin_anew(recovered, paths, preallocate_bytes)
            else:
                _repair(recovered, tail, preallocate_bytes)
        return recovered
    raise JournalError(
        f"the end of {paths[-1]} reads differently each time; the disk or its driver is failing. "
        "Nothing was changed; copy the data directory to another disk and start there."
    )


def _new_directory(
    data_dir: Path,
    make_engine: Callable[[], Engine],
    preallocate_bytes: int,
    store_id: bytes | None,
    dry_run: bool,
) -> Recovered:
    """Make the first segment."""
    snapshots = storage.list_snapshots(data_dir)
    if snapshots:
        raise JournalError(
            f"{data_dir} holds {snapshots[0].name} but no log; restore "
            f"{storage.WAL_DIRECTORY}/ from a copy. To give up what it held after the snapshot: "
            f"{_accept_command(data_dir)}"
        )
    store_id = store_id or storage.new_store_id()
    chain_crc = layout.initial_chain_crc(store_id)
    path = storage.segment_path(data_dir, 1)
    if not dry_run:
        storage.make_inner_directory(path.parent)
        storage.confirm_names(data_dir)
        storage.remove_unfinished(path.parent)
        header = layout.SegmentHeader(store_id, 1, 1, chain_crc)
        segment.create_segment(path, header, preallocate_bytes)
    return Recovered(
        data_dir=data_dir,
        engine=make_engine(),
        store_id=store_id,
        segment_path=path,
        segment_index=1,
        offset_bytes=layout.SEGMENT_HEADER_SIZE,
        chain_crc=chain_crc,
        next_wal_seq=1,
        is_new=True,
        was_written=not dry_run,
    )


def _accept_command(data_dir: Path) -> str:
    """Return the command that accepts a snapshot without its log."""
    return f"bourse recover --data {data_dir} --accept-snapshot-only"


def _from_snapshot_alone(
    data_dir: Path,
    make_engine: Callable[[], Engine],
    preallocate_bytes: int,
    dry_run: bool,
) -> Recovered:
    """Go on from the newest usable snapshot of a directory that has lost its log."""
    skipped: list[tuple[Path, str]] = []
    engine, path, restored = restore_newest(data_dir, None, make_engine, skipped)
    if restored is None:
        reasons = "; ".join(f"{bad.name}: {why}" for bad, why in skipped)
        raise JournalError(f"{data_dir} holds no log and no usable snapshot ({reasons}).")
    recovered = Recovered(
        data_dir=data_dir,
        engine=engine,
        store_id=restored.store_id,
        segment_path=data_dir,
        segment_index=0,
        offset_bytes=layout.SEGMENT_HEADER_SIZE,
        chain_crc=0,
        next_wal_seq=restored.wal_seq + 1,
        snapshot_path=path,
        snapshot_seq=restored.wal_seq,
        snapshots_skipped=skipped,
        log_is_missing=True,
        was_written=False,
    )
    if not dry_run:
        _begin_anew(recovered, [], preallocate_bytes)
    return recovered


def _begin_anew(recovered: Recovered, paths: list[Path], preallocate_bytes: int) -> None:
    """Archive the segments that end before the snapshot; make one that begins after it."""
    archive = recovered.data_dir / storage.ARCHIVE_DIRECTORY
    storage.make_inner_directory(archive)
    # The oldest first: until the last is gone, what remains is a log that ends too early.
    for path in paths:
        storage.move_durably(path, archive / path.name)
    index = max(
        (storage.segment_index_of(path) or 0 for path in [*paths, *archive.iterdir()]), default=0
    )
    recovered.segment_index = index + 1
    recovered.chain_crc = layout.initial_chain_crc(recovered.store_id)
    recovered.offset_bytes = layout.SEGMENT_HEADER_SIZE
    recovered.first_wal_seq = recovered.next_wal_seq
    recovered.segment_path = storage.segment_path(
        recovered.data_dir, recovered.segment_index, recovered.next_wal_seq
    )
    storage.make_inner_directory(recovered.segment_path.parent)
    storage.remove_unfinished(recovered.segment_path.parent)
    header = layout.SegmentHeader(
        recovered.store_id,
        recovered.segment_index,
        recovered.next_wal_seq,
        recovered.chain_crc,
    )
    segment.create_segment(recovered.segment_path, header, preallocate_bytes)
    recovered.was_written = True


def _read(
    data_dir: Path,
    log: Log,
    make_engine: Callable[[], Engine],
    progress: Callable[[int, int], None] | None,
    accept_snapshot_only: bool,
) -> tuple[Recovered, Tail]:
    """Steps 2 to 5: restore, check, execute, judge."""
    skipped: list[tuple[Path, str]] = []
    engine, path, restored = restore_newest(data_dir, log.store_id, make_engine, skipped)
    snapshot_seq = restored.wal_seq if restored is not None else 0
    if log.first_wal_seq > snapshot_seq + 1:
        have = f"the newest usable snapshot ends at {snapshot_seq}" if path else "no snapshot helps"
        reasons = "".join(f"; {bad.name}: {why}" for bad, why in skipped)
        raise JournalError(
            f"the log has a gap: {log.segments[0].path} starts with record {log.first_wal_seq} and "
            f"{have}{reasons}. Restore the missing segments or a snapshot from a copy."
        )
    applier = Applier(engine, snapshot_seq)
    walked = log.holding(snapshot_seq + 1)
    total_bytes = sum(one.file.size_bytes() for one in walked)
    tail = segment.walk_log(
        log,
        applier.run_with,
        None if progress is None else lambda done: progress(done, total_bytes),
        snapshot_seq + 1,
    )
    log_is_missing = tail.next_wal_seq <= snapshot_seq
    if log_is_missing and not accept_snapshot_only:
        raise JournalError(
            f"{path} was taken after record {snapshot_seq}, but the log ends with record "
            f"{tail.next_wal_seq - 1} ({log.last.path.name}, byte {tail.offset_bytes}): records "
            f"that were durable are missing. Restore {storage.WAL_DIRECTORY}/ from a copy. "
            f"To give up what came after the snapshot: {_accept_command(data_dir)}"
        )
    recovered = Recovered(
        data_dir=data_dir,
        engine=engine,
        store_id=log.store_id,
        segment_path=log.last.path,
        segment_index=log.last.header.segment_index,
        offset_bytes=tail.offset_bytes,
        chain_crc=tail.chain_crc,
        next_wal_seq=max(tail.next_wal_seq, snapshot_seq + 1),
        snapshot_path=path,
        snapshot_seq=snapshot_seq,
        snapshots_skipped=skipped,
        segment_count=len(log.segments),
        first_wal_seq=log.first_wal_seq,
        unbegun=log.unbegun,
        log_is_missing=log_is_missing,
        records_checked=tail.next_wal_seq - walked[0].header.first_wal_seq,
        records_replayed=applier.executed_count,
        last_received_ns=applier.last_received_ns,
        torn_bytes=tail.torn_bytes,
        torn_found=tail.found if tail.ending is Ending.TORN else "",
        was_written=False,
    )
    return recovered, tail


def restore_newest(
    data_dir: Path,
    store_id: bytes | None,
    make_engine: Callable[[], Engine],
    skipped: list[tuple[Path, str]],
) -> tuple[Engine, Path | None, snapshot.Snapshot | None]:
    """Return an engine restored from the newest usable snapshot, or an empty one.

    Every newer snapshot that is not usable is added to `skipped` with the reason.
    """
    for path in storage.list_snapshots(data_dir):
        engine = make_engine()
        try:
            loaded = snapshot.load(path)
            if store_id is not None and loaded.store_id != store_id:
                raise snapshot.SnapshotError("it belongs to another data directory")
            engine.restore(loaded.state, loaded.instruments, loaded.sessions, loaded.orders)
        except (ValueError, JournalError) as error:
            skipped.append((path, str(error)))
            continue
        return engine, path, loaded
    return make_engine(), None, None


def _confirm_durable(log: Log, tail: Tail) -> None:
    """Make what follows the last mark durable, and believe only what the disk gives back.

    After a crash of the process alone, the cache holds writes that were never synced; after a
    failed sync it may hold pages that call themselves clean and are not on disk (measured on ext4:
    one EIO, then a sync that says 0, and the data are gone). So: sync, drop the cached pages, and
    check that the same records are there.

    Raises:
        _EndChangedError: they are not.
    """
    last = log.last
    last.file.sync()
    if tail.durable_bytes > layout.SEGMENT_HEADER_SIZE:
        last.file.forget_cached(tail.durable_bytes)
        if tail.durable_bytes >= tail.offset_bytes:
            return
        # A mark always ends at a batch header, which says where the chain stands.
        block = last.file.read(layout.BATCH_HEADER_SIZE, tail.durable_bytes)
        if len(block) < layout.BATCH_HEADER_SIZE:
            raise _EndChangedError
        header = layout.BATCH_HEADER.unpack(block)
        scanner = reader.Scanner(
            log.store_id, last.header.segment_index, header[3], header[8], tail.durable_bytes
        )
    else:
        # No mark: the segment's header was written with the first batch, and may be lost as well.
        last.file.forget_cached(0)
        if last.file.read(layout.SEGMENT_HEADER_SIZE, 0) != last.header.pack():
            raise _EndChangedError
        scanner = last.scanner()
    again = segment.walk(last, scanner, scanner.run)
    if (again.offset_bytes, again.next_wal_seq, again.chain_crc, again.torn_bytes) != (
        tail.offset_bytes,
        tail.next_wal_seq,
        tail.chain_crc,
        tail.torn_bytes,
    ):
        raise _EndChangedError


def _repair(recovered: Recovered, tail: Tail, preallocate_bytes: int) -> None:
    """Cut a torn tail and clear away what a crash left unfinished."""
    if tail.torn_bytes:
        recovered.torn_path = storage.cut_tail(
            recovered.segment_path, tail.offset_bytes, tail.torn_bytes, preallocate_bytes
        )
    if recovered.unbegun is not None:
        recovered.unbegun_path = storage.set_aside(
            recovered.unbegun.path, recovered.unbegun.torn_bytes
        )
    storage.remove_unfinished(recovered.segment_path.parent)
    storage.remove_unfinished(recovered.data_dir / storage.SNAPSHOT_DIRECTORY)
    passed("recovery_cleared")
    recovered.was_written = True
