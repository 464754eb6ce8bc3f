"""Snapshots: the engine's state after a wal_seq, as one checksummed file.

A snapshot is taken at a SNAPSHOT_MARK command, and holds the state after it. It must get its final
name only when that command is durable in the log (durable_seq >= wal_seq): a snapshot newer than
the log would be refused at the next start.

File (all integers little-endian, everything at a multiple of 8):

    offset  size  field
         0     8  magic "BOURSNAP"
         8     4  format version, 1
        12     4  size of this header with its section table, 192
        16    16  store id
        32     8  wal_seq: the last command that the state includes
        40     8  size of the file
        48     4  number of sections, 4
        52     4  zero
        56   128  section table, 32 bytes a section:
                      0  4  section: 1 engine state, 2 instruments, 3 open sessions, 4 live orders
                      4  4  size of one entry
                      8  8  number of entries
                     16  8  offset of the first entry in the file
                     24  4  CRC-32C of the section's bytes
                     28  4  zero
       184     4  CRC-32C of bytes 0..183
       188     4  zero
       192        the sections, back to back, each filled up to a multiple of 8 with zeros:
                      engine state   128 bytes   EngineState of core/records.pxd
                      instruments     32 bytes   InstrumentRecord
                      open sessions    4 bytes   session ids
                      live orders     64 bytes   OrderRecord, by priority, rising
      last 8   4  CRC-32C of everything before
               4  the end mark "SEND"

A snapshot is valid iff its magic, version, sizes and every CRC are right, the sections tile the
file, the wal_seq is that of the file's name and of the engine state, the counts are those of the
engine state, and the orders' priorities rise. Whether its digests are those of its orders is
checked by the engine that loads it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bourse.core import records
from bourse.errors import JournalError
from bourse.journal import storage
from bourse.journal.crc32c import crc32c
from bourse.journal.image import is_sorted_by_priority, sort_by_priority

MAGIC = b"BOURSNAP"
VERSION = 1
END_MARK = b"SEND"

_HEAD = struct.Struct("<8sII16sQQII")
_SECTION = struct.Struct("<IIQQII")
_STATE, _INSTRUMENTS, _SESSIONS, _ORDERS = 1, 2, 3, 4
_ENTRY_SIZES = {
    _STATE: records.ENGINE_STATE_SIZE,
    _INSTRUMENTS: 32,
    _SESSIONS: 4,
    _ORDERS: records.ORDER_RECORD_SIZE,
}
_TABLE_END = _HEAD.size + len(_ENTRY_SIZES) * _SECTION.size
_HEADER_SIZE = _TABLE_END + 8
_TRAILER_SIZE = 8
_PIECE_BYTES = 1 << 20

assert _HEADER_SIZE == 192

# Positions in EngineState (core/records.pxd), as records.ENGINE_STATE unpacks it.
_WAL_SEQ, _EVENT_SEQ, _STATE_DIGEST, _EVENT_DIGEST = 0, 1, 4, 5
_LIVE_ORDER_COUNT, _INSTRUMENT_COUNT = 6, 14


class SnapshotError(ValueError):
    """A file is no valid snapshot; the text says why, in half a sentence."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What one snapshot holds; the four parts are what `Engine.restore` takes."""

    store_id: bytes
    state: bytes
    instruments: bytes
    sessions: bytes
    orders: bytes

    @property
    def wal_seq(self) -> int:
        """The last command that the state includes."""
        return int(self._fields()[_WAL_SEQ])

    @property
    def digests(self) -> tuple[int, int, int]:
        """State digest, event digest and event_seq after that command."""
        fields = self._fields()
        return fields[_STATE_DIGEST], fields[_EVENT_DIGEST], fields[_EVENT_SEQ]

    @property
    def live_order_count(self) -> int:
        """How many orders rest."""
        return len(self.orders) // records.ORDER_RECORD_SIZE

    def _fields(self) -> tuple[int, ...]:
        return records.ENGINE_STATE.unpack(self.state)


def _sections(snapshot: Snapshot) -> list[tuple[int, bytes]]:
    return [
        (_STATE, snapshot.state),
        (_INSTRUMENTS, snapshot.instruments),
        (_SESSIONS, snapshot.sessions),
        (_ORDERS, snapshot.orders),
    ]


def encode(snapshot: Snapshot) -> Iterator[bytes]:
    """Yield a snapshot's file piece by piece; its orders must be sorted by priority."""
    table = b""
    offset_bytes = _HEADER_SIZE
    for kind, content in _sections(snapshot):
        entry_bytes = _ENTRY_SIZES[kind]
        count = len(content) // entry_bytes
        table += _SECTION.pack(kind, entry_bytes, count, offset_bytes, crc32c(content), 0)
        offset_bytes += _padded(len(content))
    head = _HEAD.pack(
        MAGIC,
        VERSION,
        _HEADER_SIZE,
        snapshot.store_id,
        snapshot.wal_seq,
        offset_bytes + _TRAILER_SIZE,
        len(_ENTRY_SIZES),
        0,
    )
    head += table
    head += struct.pack("<II", crc32c(head), 0)
    yield head
    crc = crc32c(head)
    for _, content in _sections(snapshot):
        padding = bytes(_padded(len(content)) - len(content))
        crc = crc32c(padding, crc32c(content, crc))
        yield content
        yield padding
    yield struct.pack("<I", crc) + END_MARK


def _padded(length_bytes: int) -> int:
    return (length_bytes + 7) & ~7


def write(data_dir: Path, snapshot: Snapshot) -> Path:
    """Write a snapshot into a data directory, whole and durable or not at all.

    The caller makes sure that `snapshot.wal_seq` is durable in the log first. May be called from a
    thread; the orders are sorted here.

    Raises:
        JournalError: the disk refused, or the directory is gone; older snapshots are untouched.
        ValueError: the parts do not belong together.
    """
    snapshot = Snapshot(
        snapshot.store_id,
        snapshot.state,
        snapshot.instruments,
        snapshot.sessions,
        sort_by_priority(snapshot.orders),
    )
    _check_parts(snapshot)
    if not data_dir.is_dir():
        # Made anew it would hold a snapshot without its log.
        raise JournalError(f"the data directory {data_dir} is gone, and the log with it")
    path = storage.snapshot_path(data_dir, snapshot.wal_seq)
    storage.make_inner_directory(path.parent)
    storage.create_file(path, encode(snapshot))
    return path


def load(path: Path) -> Snapshot:
    """Read a snapshot and check all of it.

    Raises:
        SnapshotError: it is not valid.
        JournalError: it cannot be read.
    """
    with storage.DataFile(path) as file:
        size_bytes = file.size_bytes()
        # The header first: it says whether there is a reason to read all that.
        _check_head(file.read(_HEADER_SIZE, 0), size_bytes)
        data = file.read(size_bytes, 0)
    snapshot = decode(data)
    named = storage.snapshot_seq_of(path)
    if named is not None and named != snapshot.wal_seq:
        raise SnapshotError(f"its name says {named} and its content {snapshot.wal_seq}")
    return snapshot


def verify(path: Path, store_id: bytes) -> None:
    """Read a snapshot back from the disk, a piece at a time, and check every CRC of it.

    Cheaper than `load` in memory, for a daemon that is trading; what only an engine can tell, the
    digest over the orders, is left to it.

    Raises:
        SnapshotError: it is not valid, or another data directory's.
        JournalError: it cannot be read.
    """
    with storage.DataFile(path) as file:
        file.forget_cached(0)
        size_bytes = file.size_bytes()
        head = file.read(_HEADER_SIZE, 0)
        entries = _check_head(head, size_bytes)
        _, _, _, theirs, wal_seq, _, _, _ = _HEAD.unpack_from(head)
        if theirs != store_id:
            raise SnapshotError("it belongs to another data directory")
        if storage.snapshot_seq_of(path) not in (None, wal_seq):
            raise SnapshotError(f"its name is not that of record {wal_seq}, which its header says")
        crc = crc32c(head)
        for kind, offset_bytes, length_bytes, section_crc in entries:
            found_crc, crc = _crc_of(file, offset_bytes, length_bytes, crc)
            if found_crc != section_crc:
                raise SnapshotError(f"the CRC of section {kind} does not match")
            padding = _padded(length_bytes) - length_bytes
            crc = crc32c(file.read(padding, offset_bytes + length_bytes), crc)
        trailer = file.read(_TRAILER_SIZE, size_bytes - _TRAILER_SIZE)
        if trailer[4:] != END_MARK or int.from_bytes(trailer[:4], "little") != crc:
            raise SnapshotError("the file's CRC or its end mark does not match")


def _crc_of(
    file: storage.DataFile, offset_bytes: int, length_bytes: int, crc: int
) -> tuple[int, int]:
    """Return the CRC of a part of a file, and `crc` extended over it."""
    own = 0
    end_bytes = offset_bytes + length_bytes
    while offset_bytes < end_bytes:
        piece = file.read(min(_PIECE_BYTES, end_bytes - offset_bytes), offset_bytes)
        if not piece:
            raise SnapshotError("it ends too early")
        own, crc = crc32c(piece, own), crc32c(piece, crc)
        offset_bytes += len(piece)
    return own, crc


def _check_head(head: bytes, size_bytes: int) -> list[tuple[int, int, int, int]]:
    """Check a snapshot's header; returns (kind, offset, length, CRC) of its sections.

    Raises:
        SnapshotError: it is not valid.
    """
    if size_bytes < _HEADER_SIZE + _TRAILER_SIZE:
        raise SnapshotError(f"it has only {size_bytes} bytes")
    magic, version, header_size, _, _, size, count, zero = _HEAD.unpack_from(head)
    if magic != MAGIC:
        raise SnapshotError(f"it starts with {magic!r}, expected {MAGIC!r}")
    header_crc, spare = struct.unpack_from("<II", head, _TABLE_END)
    if crc32c(head[:_TABLE_END]) != header_crc or spare or zero:
        raise SnapshotError("its header's CRC does not match")
    if version != VERSION:
        raise SnapshotError(f"format version {version} is unknown")
    if (header_size, count, size) != (_HEADER_SIZE, len(_ENTRY_SIZES), size_bytes):
        raise SnapshotError(f"it has {size_bytes} bytes where its header says {size}")
    entries = []
    due_bytes = _HEADER_SIZE
    for index, (expected, expected_size) in enumerate(_ENTRY_SIZES.items()):
        kind, entry_bytes, count, offset_bytes, crc, _ = _SECTION.unpack_from(
            head, _HEAD.size + index * _SECTION.size
        )
        if (kind, entry_bytes, offset_bytes) != (expected, expected_size, due_bytes):
            raise SnapshotError(f"section {expected} is not where it belongs")
        entries.append((kind, offset_bytes, entry_bytes * count, crc))
        due_bytes += _padded(entry_bytes * count)
    if due_bytes != size_bytes - _TRAILER_SIZE:
        raise SnapshotError("its sections do not fill it")
    return entries


def decode(data: bytes) -> Snapshot:
    """Read a snapshot file's bytes and check all of them.

    Raises:
        SnapshotError: they are not a valid snapshot.
    """
    entries = _check_head(data[:_HEADER_SIZE], len(data))
    _, _, _, store_id, wal_seq, _, _, _ = _HEAD.unpack_from(data)
    crc, end_mark = struct.unpack_from("<I4s", data, len(data) - _TRAILER_SIZE)
    if end_mark != END_MARK:
        raise SnapshotError("its end mark is missing")
    if crc32c(memoryview(data)[:-_TRAILER_SIZE]) != crc:
        raise SnapshotError("the file's CRC does not match")
    parts: dict[int, bytes] = {}
    for kind, offset_bytes, length_bytes, section_crc in entries:
        parts[kind] = data[offset_bytes : offset_bytes + length_bytes]
        if crc32c(parts[kind]) != section_crc:
            raise SnapshotError(f"the CRC of section {kind} does not match")
    snapshot = Snapshot(
        store_id, parts[_STATE], parts[_INSTRUMENTS], parts[_SESSIONS], parts[_ORDERS]
    )
    try:
        _check_parts(snapshot)
    except ValueError as error:
        raise SnapshotError(str(error)) from error
    if snapshot.wal_seq != wal_seq:
        raise SnapshotError(f"its header says {wal_seq} and its state {snapshot.wal_seq}")
    return snapshot


def _check_parts(snapshot: Snapshot) -> None:
    """Check that the parts belong together.

    Raises:
        ValueError: they do not.
    """
    if len(snapshot.store_id) != 16 or len(snapshot.state) != records.ENGINE_STATE_SIZE:
        raise ValueError("the store id or the engine state has a wrong size")
    for kind, content in _sections(snapshot):
        if len(content) % _ENTRY_SIZES[kind]:
            raise ValueError(f"section {kind} is no whole number of entries")
    fields = records.ENGINE_STATE.unpack(snapshot.state)
    if fields[_LIVE_ORDER_COUNT] != snapshot.live_order_count:
        raise ValueError(
            f"it holds {snapshot.live_order_count} orders where its state counts "
            f"{fields[_LIVE_ORDER_COUNT]}"
        )
    if fields[_INSTRUMENT_COUNT] * _ENTRY_SIZES[_INSTRUMENTS] != len(snapshot.instruments):
        raise ValueError("its instruments are not as many as its state counts")
    if not is_sorted_by_priority(snapshot.orders):
        raise ValueError("its orders are not sorted by priority")
