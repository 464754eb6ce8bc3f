"""Journal reader: goes through the items of a segment in memory, and says why it stopped.

    bytes ─► Scanner.advance() ─► RECORD   a command, in place
                                  BATCH    a batch header
                                  MORE     give it more bytes from `offset_bytes` on
                                  END      the file ends where an item is due
                                  ZEROS    zeros where an item is due: the end, if only zeros follow
                                  BAD      no valid item: torn or corrupt (`find_proof` decides)
                                  WRONG    intact and yet impossible: corrupt wherever it stands

It never raises for bad bytes, reads no file and keeps no bytes. What is valid is specified in
format.py. Compiled; `advance` and the loops run without the GIL.
"""

import cython
from cython.cimports.bourse.core.records import Command
from cython.cimports.bourse.journal.crc32c import crc32c_extend, load_word
from cython.cimports.bourse.journal.format import BatchHeader, RecordDigests, RecordHeader
from cython.cimports.bourse.journal.reader import (
    STEP_BAD,
    STEP_BATCH,
    STEP_END,
    STEP_MORE,
    STEP_RECORD,
    STEP_WRONG,
    STEP_ZEROS,
    Step,
)
from cython.cimports.cpython.bytes import PyBytes_FromStringAndSize
from cython.cimports.libc.stdint import uint8_t, uint32_t, uint64_t

from bourse.journal import format as layout

RECORD = 1
BATCH = 2
MORE = 3
END = 4
ZEROS = 5
BAD = 6
WRONG = 7

_CUT = cython.declare(cython.int, 1)
_NO_ITEM = cython.declare(cython.int, 2)
_LENGTH = cython.declare(cython.int, 3)
_RECORD_CRC = cython.declare(cython.int, 4)
_BATCH_CRC = cython.declare(cython.int, 5)
_BATCH_PLACE = cython.declare(cython.int, 6)
_BATCH_CHAIN = cython.declare(cython.int, 7)
_BATCH_MARK = cython.declare(cython.int, 8)
_OUTSIDE = cython.declare(cython.int, 9)
_SEQUENCE = cython.declare(cython.int, 10)
_VERSION = cython.declare(cython.int, 11)
_TYPE_LENGTH = cython.declare(cython.int, 12)
_BATCH_LENGTH = cython.declare(cython.int, 13)

FAULTS = {
    0: "nothing is wrong",
    1: "the file ends inside an item",
    2: "there is neither a record nor a batch header",
    3: "the record's length is impossible",
    4: "the record's CRC does not match",
    5: "the batch header's CRC does not match",
    6: "the batch header was made for another offset",
    7: "the batch header does not continue the record before it",
    8: "the batch header's durable mark lies after the header",
    9: "the record belongs to no batch",
    10: "the record's number does not follow the one before",
    11: "the record has an unknown version or type (written by a newer release?)",
    12: "the record's length is not that of its type",
    13: "the batch's records are not as long as its header says",
    14: "the record holds a command of a kind that is never logged",
    15: "the digests in the record are not those of the replayed book",
    16: "the replayed book is not that of the snapshot taken after this record",
}
"""What `Scanner.fault` means; from 14 on set by who executes the records (apply.py)."""

_BATCH_MAGIC = cython.declare(uint32_t, layout.BATCH_MAGIC)
_BATCH_HEADER_SIZE = cython.declare(uint64_t, layout.BATCH_HEADER_SIZE)
_RECORD_HEADER_SIZE = cython.declare(uint32_t, layout.RECORD_HEADER_SIZE)
_RECORD_SIZE_MAX = cython.declare(uint32_t, layout.RECORD_SIZE_MAX)
_RECORD_VERSION = cython.declare(cython.ushort, layout.RECORD_VERSION)
_TYPE_COMMAND = cython.declare(cython.ushort, layout.TYPE_COMMAND)
_TYPE_CHECKPOINT = cython.declare(cython.ushort, layout.TYPE_CHECKPOINT)
_COMMAND_RECORD_SIZE = cython.declare(uint32_t, layout.COMMAND_RECORD_SIZE)
_CHECKPOINT_RECORD_SIZE = cython.declare(uint32_t, layout.CHECKPOINT_RECORD_SIZE)


@cython.final
@cython.cclass
class Scanner:
    """Where one reader is in one segment.

    After BAD or WRONG the position is that of the bad item and `fault` says what is wrong; the same
    bytes, or newer ones from there, may be offered again.
    """

    def __init__(
        self,
        store_id: bytes,
        segment_index: cython.ulonglong,
        next_wal_seq: cython.ulonglong,
        chain_crc: cython.uint,
        offset_bytes: cython.ulonglong = layout.SEGMENT_HEADER_SIZE,
    ) -> None:
        """Start at `offset_bytes`, where record `next_wal_seq` is due after CRC `chain_crc`."""
        self.header_seed = layout.batch_header_seed(store_id, segment_index)
        self.offset_bytes = offset_bytes
        self.next_wal_seq = next_wal_seq
        self.chain_crc = chain_crc
        self.durable_wal_seq = next_wal_seq - 1
        self.durable_bytes = offset_bytes
        self.record_count = 0
        self.batch_count = 0
        self.batch_left = 0
        self.batch_bytes_left = 0
        self.fault = 0
        self.command = cython.NULL
        self.digests = cython.NULL
        self.wal_seq = 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def advance(
        self,
        start: cython.pointer[cython.const[uint8_t]],
        available_bytes: uint64_t,
        at_end: cython.bint,
    ) -> Step:
        """Take the item at `start`, which is at `offset_bytes` in the file.

        Args:
            start: bytes of the file from `offset_bytes` on.
            available_bytes: how many there are.
            at_end: the file ends after them.

        Returns:
            A step of the module's docstring; after RECORD `command`, `digests` and `wal_seq` are
            the record's, in place.

        Never raises: O(item), allocates nothing.
        """
        record: cython.pointer[cython.const[RecordHeader]]
        length_bytes: uint32_t
        crc: uint32_t
        self.fault = 0
        if available_bytes < 8:
            if available_bytes == 0:
                return STEP_END if at_end else STEP_MORE
            if not at_end:
                return STEP_MORE
            while available_bytes > 0 and start[available_bytes - 1] == 0:
                available_bytes -= 1
            return STEP_ZEROS if available_bytes == 0 else self._bad(_CUT)
        record = cython.cast(cython.pointer[cython.const[RecordHeader]], start)
        length_bytes = record.length_bytes
        if length_bytes == 0:
            return STEP_ZEROS
        if length_bytes == _BATCH_MAGIC:
            return self._batch_header(start, available_bytes, at_end)
        if length_bytes > _RECORD_SIZE_MAX:
            return self._bad(_NO_ITEM)
        if length_bytes < _RECORD_HEADER_SIZE or length_bytes & 7:
            return self._bad(_LENGTH)
        if length_bytes > available_bytes:
            return self._bad(_CUT) if at_end else STEP_MORE
        crc = crc32c_extend(self.chain_crc, start, 4)
        crc = crc32c_extend(crc, start + 8, length_bytes - 8)
        if crc != record.crc:
            return self._bad(_RECORD_CRC)
        # The bytes are what a writer wrote after the record before. From here on nothing is torn.
        if self.batch_left == 0:
            return self._wrong(_OUTSIDE)
        if record.wal_seq != self.next_wal_seq:
            return self._wrong(_SEQUENCE)
        if record.version != _RECORD_VERSION:
            return self._wrong(_VERSION)
        if record.type == _TYPE_COMMAND:
            if length_bytes != _COMMAND_RECORD_SIZE:
                return self._wrong(_TYPE_LENGTH)
            self.digests = cython.NULL
        elif record.type == _TYPE_CHECKPOINT:
            if length_bytes != _CHECKPOINT_RECORD_SIZE:
                return self._wrong(_TYPE_LENGTH)
            self.digests = cython.cast(
                cython.pointer[cython.const[RecordDigests]], start + _COMMAND_RECORD_SIZE
            )
        else:
            return self._wrong(_VERSION)
        if length_bytes > self.batch_bytes_left or (
            self.batch_left == 1 and length_bytes != self.batch_bytes_left
        ):
            return self._wrong(_BATCH_LENGTH)
        self.command = cython.cast(
            cython.pointer[cython.const[Command]], start + _RECORD_HEADER_SIZE
        )
        self.wal_seq = record.wal_seq
        self.chain_crc = crc
        self.next_wal_seq += 1
        self.record_count += 1
        self.batch_left -= 1
        self.batch_bytes_left -= length_bytes
        self.offset_bytes += length_bytes
        return STEP_RECORD

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _batch_header(
        self,
        start: cython.pointer[cython.const[uint8_t]],
        available_bytes: uint64_t,
        at_end: cython.bint,
    ) -> Step:
        header: cython.pointer[cython.const[BatchHeader]]
        if available_bytes < _BATCH_HEADER_SIZE:
            return self._bad(_CUT) if at_end else STEP_MORE
        header = cython.cast(cython.pointer[cython.const[BatchHeader]], start)
        if crc32c_extend(self.header_seed, start + 8, _BATCH_HEADER_SIZE - 8) != header.crc:
            return self._bad(_BATCH_CRC)
        if header.offset_bytes != self.offset_bytes:
            return self._wrong(_BATCH_PLACE)
        if header.first_wal_seq != self.next_wal_seq or header.chain_crc != self.chain_crc:
            return self._wrong(_BATCH_CHAIN)
        if (
            header.durable_bytes > self.offset_bytes
            or header.durable_wal_seq >= header.first_wal_seq
        ):
            return self._wrong(_BATCH_MARK)
        self.durable_bytes = header.durable_bytes
        self.durable_wal_seq = header.durable_wal_seq
        self.batch_left = header.record_count
        self.batch_bytes_left = header.length_bytes
        self.batch_count += 1
        self.offset_bytes += _BATCH_HEADER_SIZE
        return STEP_BATCH

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _bad(self, fault: cython.int) -> Step:
        self.fault = fault
        return STEP_BAD

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _wrong(self, fault: cython.int) -> Step:
        self.fault = fault
        return STEP_WRONG

    def run(self, data: cython.const[cython.uchar][::1], at_end: bool) -> int:
        """Check items until something else than a record or a batch header comes.

        Args:
            data: bytes of the file from `offset_bytes` on.
            at_end: the file ends after them.

        Returns:
            The step that stopped it: MORE, END, ZEROS, BAD or WRONG.
        """
        start: cython.pointer[cython.const[uint8_t]] = cython.NULL
        length_bytes: uint64_t = data.shape[0]
        base: uint64_t = self.offset_bytes
        done: uint64_t = 0
        is_last: cython.bint = at_end
        step: Step = STEP_RECORD
        if length_bytes > 0:
            start = cython.address(data[0])
        with cython.nogil:
            while step in (STEP_RECORD, STEP_BATCH):
                step = self.advance(start + done, length_bytes - done, is_last)
                done = self.offset_bytes - base
        return step

    def collect(self, data: cython.const[cython.uchar][::1], at_end: bool, records: list) -> int:
        """Do the same, and append each record to `records`.

        A record is (wal_seq, offset in the file, command as 64 bytes, digests), digests being
        (state digest, event digest, event_seq) or None.
        """
        start: cython.pointer[cython.const[uint8_t]] = cython.NULL
        length_bytes: uint64_t = data.shape[0]
        base: uint64_t = self.offset_bytes
        offset: uint64_t = base
        is_last: cython.bint = at_end
        step: Step = STEP_RECORD
        if length_bytes > 0:
            start = cython.address(data[0])
        while step in (STEP_RECORD, STEP_BATCH):
            offset = self.offset_bytes
            step = self.advance(start + (offset - base), length_bytes - (offset - base), is_last)
            if step == STEP_RECORD:
                command: bytes = PyBytes_FromStringAndSize(
                    cython.cast(cython.p_char, self.command), cython.sizeof(Command)
                )
                digests = None
                if self.digests != cython.NULL:
                    digests = (
                        self.digests.state_digest,
                        self.digests.event_digest,
                        self.digests.event_seq,
                    )
                records.append((self.wal_seq, offset, command, digests))
        return step


def find_proof(
    data: cython.const[cython.uchar][::1],
    base_offset_bytes: cython.ulonglong,
    header_seed: cython.uint,
    bad_offset_bytes: cython.ulonglong,
) -> int:
    """Look for a batch header that proves that the bytes at an offset were durable.

    Args:
        data: bytes of the file from `base_offset_bytes` (a multiple of 8) on.
        base_offset_bytes: where `data` starts in the file.
        header_seed: format.batch_header_seed of the segment.
        bad_offset_bytes: offset of the bad item.

    Returns:
        Offset in the file of the first such header, or 0.
    """
    header: cython.pointer[cython.const[BatchHeader]]
    start: cython.pointer[cython.const[uint8_t]]
    length_bytes: uint64_t = data.shape[0]
    position: uint64_t = 0
    found: uint64_t = 0
    if length_bytes < _BATCH_HEADER_SIZE:
        return 0
    start = cython.address(data[0])
    with cython.nogil:
        while position <= length_bytes - _BATCH_HEADER_SIZE:
            header = cython.cast(cython.pointer[cython.const[BatchHeader]], start + position)
            if (
                header.magic == _BATCH_MAGIC
                and header.offset_bytes == base_offset_bytes + position
                and header.durable_bytes > bad_offset_bytes
                and header.crc
                == crc32c_extend(header_seed, start + position + 8, _BATCH_HEADER_SIZE - 8)
            ):
                found = base_offset_bytes + position
                break
            position += 8
    return found


def first_nonzero(data: cython.const[cython.uchar][::1]) -> int:
    """Return the index of the first byte that is not zero, or -1."""
    length_bytes: cython.Py_ssize_t = data.shape[0]
    position: cython.Py_ssize_t = 0
    start: cython.pointer[cython.const[uint8_t]]
    if length_bytes == 0:
        return -1
    start = cython.address(data[0])
    with cython.nogil:
        while position + 8 <= length_bytes and load_word(start + position) == 0:
            position += 8
        while position < length_bytes and start[position] == 0:
            position += 1
    return position if position < length_bytes else -1


def last_nonzero(data: cython.const[cython.uchar][::1]) -> int:
    """Return the index of the last byte that is not zero, or -1."""
    position: cython.Py_ssize_t = data.shape[0]
    start: cython.pointer[cython.const[uint8_t]]
    if position == 0:
        return -1
    start = cython.address(data[0])
    with cython.nogil:
        while position >= 8 and load_word(start + position - 8) == 0:
            position -= 8
        while position > 0 and start[position - 1] == 0:
            position -= 1
    return position - 1
