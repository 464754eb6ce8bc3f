"""Damage: one flipped byte, and whether recovery says what it is.

Where the flip is, and where the last durable mark points to, decide what recovery must say, by the
rule of docs/wal-format.md; the marks are found here by a reader of its own.
"""

from __future__ import annotations

import random
import struct
from pathlib import Path

from bourse.errors import BourseError, CorruptError
from bourse.journal import recovery, storage
from bourse.journal.crc32c import crc32c
from tests.simulation.truth import require

HEADER_BYTES = 4096


def is_begun(data: bytes) -> bool:
    """Say whether a segment has its header."""
    return crc32c(data[: HEADER_BYTES - 4]) == int.from_bytes(
        data[HEADER_BYTES - 4 : HEADER_BYTES], "little"
    )


def mark_of(data: bytes) -> int:
    """Return the offset up to which the segment's own headers prove it durable."""
    store_id, index = struct.unpack_from("<16sQ", data, 16)
    seed = crc32c(store_id + index.to_bytes(8, "little"))
    # The first segment of all had its header before it had its name.
    mark = HEADER_BYTES if index == 1 else 0
    at = data.find(b"BTCH", HEADER_BYTES)
    while at >= 0:
        header = data[at : at + 64]
        if len(header) == 64 and at % 8 == 0:
            crc, offset = struct.unpack_from("<IQ", header, 4)
            if offset == at and crc == crc32c(header[8:], seed):
                mark = max(mark, struct.unpack_from("<Q", header, 40)[0])
        at = data.find(b"BTCH", at + 1)
    return mark


def try_log(root: Path, rng: random.Random) -> str:
    """Flip a byte of a segment that recovery reads, look, and put it back; returns what was seen.

    The segments before the one that holds the first record after the newest snapshot are not read.
    """
    snapshots = storage.list_snapshots(root)
    start_seq = (storage.snapshot_seq_of(snapshots[0]) or 0) + 1 if snapshots else 1
    begun = [path for path in storage.list_segments(root) if is_begun(path.read_bytes())]
    if not begun:
        return ""
    read = [
        path
        for path, after in zip(begun, [*begun[1:], None], strict=True)
        if after is None or (storage.first_seq_of(after) or 1) > start_seq
    ]
    path = rng.choice(read) if rng.random() < 0.3 else read[-1]
    data = path.read_bytes()
    end = max(HEADER_BYTES, len(data.rstrip(b"\0")))
    mark = mark_of(data) if path == read[-1] else len(data)
    area = rng.choice(((0, HEADER_BYTES), (HEADER_BYTES, mark), (mark, end), (end, len(data))))
    if area[0] >= area[1] or (path != read[-1] and end < len(data) and area[0] == end):
        return ""
    at = rng.randrange(*area)
    if at >= mark and at < HEADER_BYTES:
        # Written with a first batch that nothing proves durable: the segment is not begun then.
        return ""
    damaged = bytearray(data)
    damaged[at] ^= rng.randrange(1, 256)
    path.write_bytes(damaged)
    try:
        verdict = _verdict(root, is_torn=at >= mark)
    finally:
        path.write_bytes(data)
    expected = "torn" if at >= mark else "corrupt"
    require(
        verdict == expected,
        f"a flip at byte {at} of {path.name} (mark {mark}, end {end}) is taken for {verdict}, "
        f"it is {expected}",
    )
    return f"flips taken for {verdict}"


def try_snapshot(root: Path, rng: random.Random) -> str:
    """Flip a byte of the newest snapshot: an older one, or the whole log, leads to the same book.

    Where neither is there, the start must be refused, with nothing changed.
    """
    snapshots = storage.list_snapshots(root)
    segments = storage.list_segments(root)
    if not snapshots or not segments:
        return ""
    whole = recovery.recover(root, dry_run=True)
    newest = snapshots[0]
    data = newest.read_bytes()
    damaged = bytearray(data)
    damaged[rng.randrange(len(data))] ^= rng.randrange(1, 256)
    first_seq = storage.first_seq_of(segments[0]) or 1
    older = [storage.snapshot_seq_of(path) or 0 for path in snapshots[1:]]
    is_covered = first_seq == 1 or any(seq >= first_seq - 1 for seq in older)
    newest.write_bytes(damaged)
    before = _contents(root)
    try:
        found = recovery.recover(root, dry_run=is_covered)
    except BourseError as error:
        require(not is_covered, f"{newest.name} is damaged, another would do, and: {error}")
        require(_contents(root) == before, "recovery refused to start and has changed something")
        return "damaged snapshots refused"
    finally:
        newest.write_bytes(data)
    require(is_covered, f"{newest.name} is damaged and used")
    require(found.snapshots_skipped != [], f"{newest.name} is damaged, and nobody says so")
    require(
        found.engine.state_bytes() == whole.engine.state_bytes(),
        f"without {newest.name} the book is another one",
    )
    return "damaged snapshots passed over"


def _verdict(root: Path, is_torn: bool) -> str:
    """Return what recovery calls the damage; where it must refuse, it may not write either."""
    before = _contents(root)
    try:
        # A torn tail would be cut; where damage is due, recovery itself must not touch it.
        found = recovery.recover(root, dry_run=is_torn)
    except CorruptError:
        require(_contents(root) == before, "recovery refused the log and has changed it")
        return "corrupt"
    except BourseError as error:
        return f"something else: {error}"
    return "torn" if found.torn_found else "whole"


def _contents(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in root.rglob("*") if path.is_file()}
