"""Segments of the log: made, opened in order, and gone through to their end.

`walk` goes through one segment with any runner (the scanner alone, one that collects, or the
engine's) and decides what its end is: clean, a torn tail, or corrupt. `walk_log` goes through
several and checks that each continues the one before. What is valid is specified in format.py.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from bourse.errors import CorruptError, JournalError
from bourse.journal import format as layout
from bourse.journal import reader, storage
from bourse.journal.storage import DataFile

CHUNK_BYTES = 1 << 20
"""What is read at a time: large for the disk, small enough to stay in a core's cache."""

PREALLOCATE_BYTES = 64 << 20
"""Default size of a segment: 760,000 commands, written in well under a second."""

OPEN_MAX = 128
"""Segments of a log that are open at once: half of the least that systems allow a process, 256."""

RunItems = Callable[[memoryview, bool], int]
"""Takes items at the scanner's position, with a flag for the file's end; returns reader's step."""


class Ending(enum.Enum):
    """What a segment's end is."""

    CLEAN = "clean"
    TORN = "torn"


@dataclass(frozen=True, slots=True)
class Tail:
    """Where the valid items of a segment end, and what comes after."""

    ending: Ending
    offset_bytes: int
    """Where the next batch goes."""
    next_wal_seq: int
    chain_crc: int
    durable_bytes: int
    """Everything before was durable when the last batch header was made."""
    torn_bytes: int
    """From `offset_bytes` to the last byte that is not zero."""
    missing_records: int
    """Records that the last batch header announces and that are not there."""
    found: str
    """What is wrong at `offset_bytes`; empty for a clean end."""


class Segment:
    """One segment's file, open for reading, and its header."""

    def __init__(self, path: Path) -> None:
        """Open it and check its header.

        Raises:
            CorruptError: the header is not valid or not that of the file's name.
            JournalError: it cannot be read.
        """
        self.path = path
        self.file = DataFile(path)
        try:
            block = self.file.read(layout.SEGMENT_HEADER_SIZE, 0)
            self.header = layout.unpack_segment_header(block)
            named = storage.segment_index_of(path)
            if named is not None and named != self.header.segment_index:
                raise layout.FormatError(
                    f"the file is named segment {named} and its header says "
                    f"{self.header.segment_index}"
                )
            named = storage.first_seq_of(path)
            if named is not None and named != self.header.first_wal_seq:
                raise layout.FormatError(
                    f"by its name it begins with record {named}, by its header with "
                    f"{self.header.first_wal_seq}"
                )
        except layout.FormatError as error:
            self.file.close()
            raise CorruptError(path, 0, 0, str(error)) from error
        except BaseException:
            self.file.close()
            raise

    def scanner(self) -> reader.Scanner:
        """Return a scanner at the segment's first item."""
        header = self.header
        return reader.Scanner(
            header.store_id, header.segment_index, header.first_wal_seq, header.chain_crc
        )

    def close(self) -> None:
        """Close the file."""
        self.file.close()


def create_segment(
    path: Path, header: layout.SegmentHeader, preallocate_bytes: int = PREALLOCATE_BYTES
) -> None:
    """Make a segment of zeros, durable before it has its name.

    Raises:
        JournalError: the file exists, or the disk refused.
    """
    if path.exists():
        raise JournalError(f"{path} exists already and is not made anew.")
    size_bytes = max(preallocate_bytes, layout.SEGMENT_HEADER_SIZE)
    storage.create_file(
        path,
        [header.pack()],
        size_bytes,
        f"fill with {size_bytes} bytes of zeros (wal_segment_bytes)",
    )


def walk(
    segment: Segment,
    scanner: reader.Scanner,
    run: RunItems,
    on_chunk: Callable[[int], None] | None = None,
) -> Tail:
    """Go through a segment from the scanner's position to its end.

    The file may grow meanwhile (a daemon writes it): what looks corrupt is read once more, since
    the batch header that proves it durable was written after it.

    Args:
        segment: where the bytes are.
        scanner: where to start; it ends where the valid items end.
        run: takes the items; uses `scanner`.
        on_chunk: called with the offset that was reached, after each chunk.

    Raises:
        CorruptError: there is damage in what was durable, or `run` says WRONG.
        JournalError: the file cannot be read.
    """
    file = segment.file
    buffer = memoryview(bytearray(CHUNK_BYTES))
    file.will_be_read(scanner.offset_bytes)
    read_again_at = -1
    while True:
        count = file.read_into(buffer, scanner.offset_bytes)
        step = run(buffer[:count], count < len(buffer))
        bad_at = scanner.offset_bytes
        if on_chunk is not None:
            on_chunk(bad_at)
        if step == reader.MORE:
            continue
        found = reader.FAULTS[scanner.fault]
        if step in (reader.END, reader.ZEROS):
            more_at = None if step == reader.END else _first_nonzero(file, bad_at)
            if more_at is None:
                return _tail(scanner, 0, "")
            found = f"there are zeros, and bytes again from {more_at} on"
        elif step == reader.WRONG:
            raise CorruptError(segment.path, bad_at, scanner.next_wal_seq, found)
        proof_at = _find_proof(file, scanner, bad_at)
        if proof_at == 0:
            return _tail(scanner, _torn_bytes(file, bad_at), found)
        if read_again_at == bad_at:
            raise CorruptError(
                segment.path,
                bad_at,
                scanner.next_wal_seq,
                f"{found}, and the batch header at byte {proof_at} proves that it was durable",
            )
        read_again_at = bad_at


def _tail(scanner: reader.Scanner, torn_bytes: int, found: str) -> Tail:
    """Describe the end that a scanner came to."""
    missing = scanner.batch_left
    if missing and not found:
        found = f"the last {missing} records of the last batch are not there"
    return Tail(
        ending=Ending.TORN if found else Ending.CLEAN,
        offset_bytes=scanner.offset_bytes,
        next_wal_seq=scanner.next_wal_seq,
        chain_crc=scanner.chain_crc,
        durable_bytes=scanner.durable_bytes,
        torn_bytes=torn_bytes,
        missing_records=missing,
        found=found,
    )


def _chunks(
    file: DataFile, offset_bytes: int, overlap_bytes: int
) -> Iterator[tuple[int, memoryview]]:
    """Read a file from an offset to its end; each chunk repeats the end of the one before."""
    buffer = memoryview(bytearray(CHUNK_BYTES))
    while True:
        count = file.read_into(buffer, offset_bytes)
        yield offset_bytes, buffer[:count]
        if count < len(buffer):
            return
        offset_bytes += count - overlap_bytes


def _first_nonzero(file: DataFile, offset_bytes: int) -> int | None:
    """Return the offset of the first byte from `offset_bytes` on that is not zero."""
    for base, chunk in _chunks(file, offset_bytes, 0):
        index = reader.first_nonzero(chunk)
        if index >= 0:
            return base + index
    return None


def _torn_bytes(file: DataFile, offset_bytes: int) -> int:
    """Return how far the bytes that are not zero reach from `offset_bytes` on."""
    end = offset_bytes
    for base, chunk in _chunks(file, offset_bytes, 0):
        end = max(end, base + reader.last_nonzero(chunk) + 1)
    return end - offset_bytes


def _find_proof(file: DataFile, scanner: reader.Scanner, bad_at: int) -> int:
    """Return where a later batch header proves that `bad_at` was durable, or 0."""
    overlap_bytes = layout.BATCH_HEADER_SIZE
    for base, chunk in _chunks(file, bad_at + 8, overlap_bytes):
        proof_at = reader.find_proof(chunk, base, scanner.header_seed, bad_at)
        if proof_at:
            return proof_at
    return 0


@dataclass(frozen=True, slots=True)
class Unbegun:
    """A last segment that has its name, and no header yet."""

    path: Path
    torn_bytes: int
    """To the last byte that is not zero: a crash came while it was begun."""


class Log:
    """The segments that there are, opened in order before anything is read from them."""

    def __init__(self, segments: list[Segment], unbegun: Unbegun | None = None) -> None:
        """Take open segments in order; `open_log` makes one from paths."""
        self.segments = segments
        self.unbegun = unbegun

    @property
    def store_id(self) -> bytes:
        """Identity of the data directory that the log belongs to."""
        return self.segments[0].header.store_id

    @property
    def first_wal_seq(self) -> int:
        """The first record that the segments may hold."""
        return self.segments[0].header.first_wal_seq

    @property
    def last(self) -> Segment:
        """The segment that the log ends in."""
        return self.segments[-1]

    def holding(self, wal_seq: int) -> list[Segment]:
        """Return the segments from the one that a record belongs to on."""
        start = 0
        for index, segment in enumerate(self.segments):
            if segment.header.first_wal_seq <= wal_seq:
                start = index
        return self.segments[start:]

    def size_bytes(self) -> int:
        """Return the size of all segments."""
        return sum(segment.file.size_bytes() for segment in self.segments)

    def close(self) -> None:
        """Close every file."""
        for segment in self.segments:
            segment.close()

    def __enter__(self) -> Log:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close every file."""
        self.close()


def open_log(paths: list[Path]) -> Log:
    """Open segments and check that their headers belong together.

    The first OPEN_MAX and the last stay open, so that a daemon may remove them meanwhile; those
    between are opened again when they are read.

    Raises:
        CorruptError: a header is not valid.
        JournalError: a segment is missing, there twice, or from another data directory.
    """
    segments: list[Segment] = []
    unbegun: Unbegun | None = None
    try:
        for path in paths:
            before = segments[-1] if segments else None
            try:
                segment = Segment(path)
            except CorruptError as error:
                if before is None or path != paths[-1]:
                    raise
                unbegun = _unbegun(path, before)
                if unbegun is None:
                    # A daemon may have begun it between the two looks.
                    try:
                        segment = Segment(path)
                    except CorruptError:
                        raise error from None
                else:
                    break
            segments.append(segment)
            _check_neighbours(before, segment)
            if before is not None and len(segments) > OPEN_MAX:
                before.file.rest()
    except BaseException:
        for segment in segments:
            segment.close()
        raise
    return Log(segments, unbegun)


def _unbegun(path: Path, before: Segment) -> Unbegun | None:
    """Look at a last segment without a valid header; None when it was durable once."""
    index = storage.segment_index_of(path)
    if index is None or index != before.header.segment_index + 1:
        return None
    seed = layout.batch_header_seed(before.header.store_id, index)
    with DataFile(path) as file:
        block = file.read(layout.SEGMENT_HEADER_SIZE, 0)
        if layout.is_whole_header(block) or len(block) < layout.SEGMENT_HEADER_SIZE:
            # Another file's header, a newer release's, or a file that lost its zeros: no crash
            # does that.
            return None
        for base, chunk in _chunks(file, 0, layout.BATCH_HEADER_SIZE):
            if reader.find_proof(chunk, base, seed, 0):
                return None
        return Unbegun(path, _torn_bytes(file, 0))


def _check_neighbours(before: Segment | None, segment: Segment) -> None:
    """Check a segment's header against the one before it."""
    if before is None:
        return
    ours, theirs = segment.header, before.header
    if ours.store_id != theirs.store_id:
        raise JournalError(
            f"{segment.path} belongs to another data directory (store "
            f"{ours.store_id.hex()}, expected {theirs.store_id.hex()}); "
            "remove it, or restore the segment that was there."
        )
    if ours.segment_index == theirs.segment_index:
        raise JournalError(
            f"{before.path.name} and {segment.path.name} in {segment.path.parent} are both "
            f"segment {ours.segment_index}; keep the one that belongs there."
        )
    if ours.segment_index != theirs.segment_index + 1:
        raise JournalError(
            f"the log has a gap: segment {theirs.segment_index + 1} is missing between "
            f"{before.path.name} and {segment.path.name} in {segment.path.parent}; records from "
            f"{theirs.first_wal_seq} to {ours.first_wal_seq - 1} are not all there. "
            "Restore it from a copy."
        )


def walk_log(
    log: Log,
    run_with: Callable[[reader.Scanner], RunItems],
    progress: Callable[[int], None] | None = None,
    from_wal_seq: int = 1,
) -> Tail:
    """Go through segments in order to the log's end; returns the tail of the last one.

    Args:
        log: the segments.
        run_with: given a scanner, returns what takes the items.
        progress: called with the bytes done in those gone through, after each chunk.
        from_wal_seq: begin with the segment that this record belongs to.

    Raises:
        CorruptError: damage in what was durable; all before the last segment was.
        JournalError: a file cannot be read.
    """
    tail: Tail | None = None
    done_bytes = 0
    for segment in log.holding(from_wal_seq):
        header = segment.header
        if tail is not None and (header.first_wal_seq, header.chain_crc) != (
            tail.next_wal_seq,
            tail.chain_crc,
        ):
            raise CorruptError(
                segment.path,
                0,
                tail.next_wal_seq,
                f"it starts with record {header.first_wal_seq} and does not continue the segment "
                f"before, which ends before record {tail.next_wal_seq} ({tail.found or 'cleanly'})",
            )
        was_resting = segment.file.wake()
        scanner = segment.scanner()
        base_bytes = done_bytes

        def on_chunk(offset_bytes: int, base_bytes: int = base_bytes) -> None:
            if progress is not None:
                progress(base_bytes + offset_bytes)

        tail = walk(segment, scanner, run_with(scanner), on_chunk)
        if tail.torn_bytes and segment is not log.last:
            raise CorruptError(
                segment.path,
                tail.offset_bytes,
                tail.next_wal_seq,
                f"{tail.found}, and a later segment proves that it was durable",
            )
        done_bytes += segment.file.size_bytes()
        if was_resting:
            segment.file.rest()
    if tail is None:
        raise JournalError("there is no segment to read.")
    return tail


class Record(NamedTuple):
    """One record as tools see it."""

    wal_seq: int
    offset_bytes: int
    command: bytes
    """64 bytes; core.records.Command.unpack reads them."""
    digests: tuple[int, int, int] | None
    """State digest, event digest and event_seq before the command, every 1000th record."""


def log_records(data_dir: Path) -> Iterator[Record]:
    """Yield the records of all segments of a data directory, in order.

    Raises:
        CorruptError: damage in what was durable; after the records before it.
        JournalError: a segment is missing, or a file cannot be read.
    """
    with open_log(storage.list_segments(data_dir)) as log:
        paths = [segment.path for segment in log.segments]
    for path in paths:
        yield from records(path)


def records(path: Path) -> Iterator[Record]:
    """Yield the records of one segment file, up to its end or its torn tail.

    Raises:
        CorruptError: damage in what was durable; after the records before it.
        JournalError: the file cannot be read.
    """
    segment = Segment(path)
    ready: list[tuple[int, int, bytes, tuple[int, int, int] | None]] = []
    corrupt: CorruptError | None = None
    try:
        scanner = segment.scanner()
        buffer = memoryview(bytearray(CHUNK_BYTES))
        step = reader.MORE
        while step == reader.MORE:
            count = segment.file.read_into(buffer, scanner.offset_bytes)
            step = scanner.collect(buffer[:count], count < len(buffer), ready)
            yield from (Record(*fields) for fields in ready)
            ready.clear()
        try:
            # Judge the end; what a daemon has written meanwhile is collected too.
            walk(segment, scanner, lambda data, at_end: scanner.collect(data, at_end, ready))
        except CorruptError as error:
            corrupt = error
        yield from (Record(*fields) for fields in ready)
        if corrupt is not None:
            raise corrupt
    finally:
        segment.close()
