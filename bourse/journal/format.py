"""The format of the write-ahead log, byte by byte, and when a byte of it is valid.

All integers are little-endian. All offsets are from the start of the file. Nothing here does I/O;
docs/wal-format.md explains a hex dump of a real file.

Files
-----

A data directory holds its log in segments ``wal/wal-IIIIIIII-SSSSSSSSSSSSSSSSSSSS.log``: I is the
segment's number, S its first wal_seq, in decimal digits (``wal-IIIIIIII.log``, as early builds
named theirs, is read as well). Numbers are consecutive from 1; earlier segments may be gone if a
snapshot covers them. A segment is

    one header block of 4096 bytes, then items back to back, then zeros to the end of the file

The header block fills a whole page so that a torn write of the first batch cannot reach it. The
first segment is filled with zeros to its size and synced, header included, before it gets its name.
A later one is filled with zeros and synced under another name while the one before it is in use.
Some records before its turn, and once the header of the one before is durable, the writer decides
which record begins it; then the file gets its name, and the directory is synced. Its header block
is written in one piece with its first batch, and made durable by the same sync. By then all of the
segment before is durable. So the last segment, and no other, may have a name and no header yet: it
has not been begun. Items may go on past the
preallocated size; the file then ends with its last item.

Segment header block (4096 bytes)

    offset  size  field
         0     8  magic "BOURSWAL"
         8     4  format version, 1; another one is refused
        12     4  size of this block, 4096
        16    16  store id: random, made with the data directory, the same in its every file
        32     8  segment index, from 1
        40     8  first wal_seq: number of the first record that this segment may hold
        48     4  chain CRC carried over: the CRC of the record before the first; for wal_seq 1,
                  CRC-32C(store id)
        52  4040  zeros
      4092     4  CRC-32C of bytes 0..4091

Items: each starts at a multiple of 8, so that its first 8 bytes cannot straddle a sector. The
first 4 bytes tell them apart: BATCH_MAGIC is a batch header, 1 to RECORD_SIZE_MAX is a record's
length, 0 is the end. Nothing else is an item.

Batch header (64 bytes): stands before the records that one write carries

    offset  size  field
         0     4  magic "BTCH"
         4     4  CRC-32C of {store id, segment index as 8 bytes, bytes 8..63 of this header}
         8     8  offset of this header in the file
        16     8  first wal_seq: number of the first record of this batch, or of the next record to
                  come if it has none
        24     4  record count, may be 0
        28     4  size of the records, in bytes
        32     8  durable mark: the last wal_seq that was durable when this header was made
        40     8  durable mark: the offset in this file up to which all bytes were durable then
        48     4  chain CRC: the CRC of the record before the first of this batch
        52    12  zeros

A batch header's CRC covers nothing but itself and where it belongs, so it can be believed even
where everything before it is damaged; a header that was copied to another offset, segment or
store does not pass. An empty batch is written by an idle or closing writer: its mark covers all
before it.

Record (88 or 112 bytes): one command

    offset  size  field
         0     4  length of the record in bytes, this header included: a multiple of 8
         4     4  chain CRC: CRC-32C of bytes 0..3 and 8..length-1, begun with the CRC of the record
                  before (so that a record stands for all before it)
         8     8  wal_seq
        16     2  record version, 1
        18     2  type: 1 command, 2 checkpoint (a command with digests)
        20     4  zero
        24    64  the command, as core/records.pxd lays it out
        88     8  type 2 only: state digest     |
        96     8  type 2 only: event digest     | running values before this command
       104     8  type 2 only: event_seq        |

A writer makes every record whose wal_seq is a multiple of 1000 a checkpoint; a reader takes one
anywhere and compares, so a replay checks itself as it goes.

When an item is valid
---------------------

A segment header is valid iff magic, block size, CRC and version are right, index and first wal_seq
are those of the file's name, and the store id is the directory's. After the first segment read,
first wal_seq and chain CRC must continue the segment before: else the log has a gap, and is
refused. Where the last of several segments has no valid header it *has not been begun*, and the log
ends in the segment before, unless a valid batch header in it has a durable offset above 0: then
the header was durable once, and is corrupt.

A batch header is valid iff magic, CRC and offset are right, first wal_seq is the number that
comes next and chain CRC that of the last record. The batch before may have fewer records than it
announced: a recovery kept the whole records of a torn batch and cut the rest.

A record is valid iff it lies within the records announced by a batch header, its length is a
multiple of 8, at least 24 and at most RECORD_SIZE_MAX and ends inside the file, its chain CRC is
right, its wal_seq is the number that comes next, version and type are known and the length is
that type's. A record whose CRC is right and that breaks one of the other rules was not torn; it
is refused as corrupt wherever it stands (a newer release may have written it).

The log ends cleanly where an item is due if nothing but zeros follows to the end of the file and
the last batch header's records are all there.

Torn or corrupt
---------------

A bad item at offset X is *corrupt* iff something proves that it was durable once: a later
segment, or a valid batch header at any later multiple of 8 in the file, however far, whose
durable offset is greater than X (of such a header only magic, CRC and offset are looked at: the
chain is broken before it). Otherwise it is a *torn tail*: writes that were never acknowledged as
durable, which a crash left in part, in any order. A torn tail is cut at X: the bytes are saved
beside the file (``.torn``) and replaced by zeros; a last segment that has not been begun is
removed, or renamed to ``.torn`` when it holds anything but zeros. The whole records before X are
kept even if their batch is not whole: they were never acknowledged, so keeping and dropping are
both right, and keeping is what every reader does.

Source for the rule: doltlite#1341 and #1890 (mid-log damage taken for a torn tail, bounded
look-ahead); etcd#6378, etcd#14098 (un-synced writes that reached the disk out of order,
zero-filled tails).
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from bourse.core.records import COMMAND_SIZE
from bourse.journal.crc32c import crc32c

FORMAT_VERSION = 1
SEGMENT_MAGIC = b"BOURSWAL"
SEGMENT_HEADER_SIZE = 4096
"""One page: the largest unit that common disks write atomically or tear as a whole."""
SEGMENT_HEADER = struct.Struct("<8sII16sQQI12x")
STORE_ID_SIZE = 16

BATCH_MAGIC = int.from_bytes(b"BTCH", "little")
BATCH_HEADER_SIZE = 64
BATCH_HEADER = struct.Struct("<IIQQIIQQI12x")

RECORD_VERSION = 1
TYPE_COMMAND = 1
TYPE_CHECKPOINT = 2
RECORD_HEADER_SIZE = 24
RECORD_HEADER = struct.Struct("<IIQHHI")
DIGESTS_SIZE = 24
DIGESTS = struct.Struct("<QQQ")
COMMAND_RECORD_SIZE = RECORD_HEADER_SIZE + COMMAND_SIZE
CHECKPOINT_RECORD_SIZE = COMMAND_RECORD_SIZE + DIGESTS_SIZE
RECORD_SIZE_MAX = 4096
"""No record type is larger; a length above it is not read, whatever it says."""
CHECKPOINT_INTERVAL = 1000
"""Every so many records one carries digests: 24 bytes in 88,000, 0.03 % of the log."""

assert BATCH_HEADER.size == BATCH_HEADER_SIZE
assert RECORD_HEADER.size == RECORD_HEADER_SIZE
assert DIGESTS.size == DIGESTS_SIZE
assert SEGMENT_HEADER.size == 64
assert BATCH_MAGIC > RECORD_SIZE_MAX
assert all(
    size % 8 == 0
    for size in (
        SEGMENT_HEADER_SIZE,
        BATCH_HEADER_SIZE,
        COMMAND_RECORD_SIZE,
        CHECKPOINT_RECORD_SIZE,
    )
)


class SegmentHeader(NamedTuple):
    """The header of one segment."""

    store_id: bytes
    segment_index: int
    first_wal_seq: int
    chain_crc: int

    def pack(self) -> bytes:
        """Return the whole header block."""
        head = SEGMENT_HEADER.pack(
            SEGMENT_MAGIC,
            FORMAT_VERSION,
            SEGMENT_HEADER_SIZE,
            self.store_id,
            self.segment_index,
            self.first_wal_seq,
            self.chain_crc,
        )
        block = head.ljust(SEGMENT_HEADER_SIZE - 4, b"\0")
        return block + crc32c(block).to_bytes(4, "little")


class FormatError(ValueError):
    """A header block is not one of ours; the text says why, in half a sentence."""


def unpack_segment_header(block: bytes) -> SegmentHeader:
    """Read and check a segment's header block.

    Raises:
        FormatError: it is not valid; the text says what was found.
    """
    if len(block) < SEGMENT_HEADER_SIZE:
        raise FormatError(f"the file ends inside its header ({len(block)} of 4096 bytes)")
    block = block[:SEGMENT_HEADER_SIZE]
    magic, version, size, store_id, segment_index, first_wal_seq, chain_crc = (
        SEGMENT_HEADER.unpack_from(block)
    )
    if magic != SEGMENT_MAGIC:
        raise FormatError(f"it does not start with {SEGMENT_MAGIC!r} but with {magic!r}")
    if crc32c(block[:-4]) != int.from_bytes(block[-4:], "little"):
        raise FormatError("the header's CRC does not match its bytes")
    if version != FORMAT_VERSION:
        raise FormatError(
            f"format version {version} is unknown; this release reads {FORMAT_VERSION}"
        )
    if size != SEGMENT_HEADER_SIZE:
        raise FormatError(f"the header says it has {size} bytes, expected {SEGMENT_HEADER_SIZE}")
    if segment_index == 0 or first_wal_seq == 0:
        raise FormatError("segments and records are numbered from 1")
    return SegmentHeader(store_id, segment_index, first_wal_seq, chain_crc)


def is_whole_header(block: bytes) -> bool:
    """Say whether a header block is as somebody wrote it, of whatever version and segment."""
    return (
        len(block) >= SEGMENT_HEADER_SIZE
        and block.startswith(SEGMENT_MAGIC)
        and crc32c(block[: SEGMENT_HEADER_SIZE - 4])
        == int.from_bytes(block[SEGMENT_HEADER_SIZE - 4 : SEGMENT_HEADER_SIZE], "little")
    )


def initial_chain_crc(store_id: bytes) -> int:
    """Return what the very first record's CRC is begun with."""
    return crc32c(store_id)


def batch_header_seed(store_id: bytes, segment_index: int) -> int:
    """Return what a batch header's CRC is begun with: who and where it is."""
    return crc32c(store_id + segment_index.to_bytes(8, "little"))
