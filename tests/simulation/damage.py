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


def mark_of(data: bytes) -> int:
    """Return the offset up to which the segment's own headers prove it durable."""
    store_id, index = struct.unpack_from("<16sQ", data, 16)
    seed = crc32c(store_id + index.to_bytes(8, "little"))
    mark = HEADER_BYTES
    at = data.find(b"BTCH", HEADER_BYTES)
    while at >= 0:
        header = data[at : at + 64]
        if len(header) == 64 and at % 8 == 0:
            crc, offset = struct.unpack_from("<IQ", header, 4)
            if offset == at and crc == crc32c(header[8:], seed):
                mark = max(mark, struct.unpack_from("<Q", header, 40)[0])
        at = data.find(b"BTCH", at + 1)
    return mark


def try_one(root: Path, rng: random.Random) -> str:
    """Flip a byte of the log's last segment, look, and put it back; returns what was tried."""
    segments = storage.list_segments(root)
    if not segments:
        return ""
    path = segments[-1]
    data = path.read_bytes()
    end = len(data.rstrip(b"\0"))
    if end <= HEADER_BYTES:
        return ""
    mark = mark_of(data)
    area = rng.choice(((0, HEADER_BYTES), (HEADER_BYTES, mark), (mark, end), (end, len(data))))
    if area[0] >= area[1]:
        return ""
    at = rng.randrange(*area)
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
        f"a flip at byte {at} (mark {mark}, end {end}) is taken for {verdict}, it is {expected}",
    )
    return f"flips taken for {verdict}"


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
