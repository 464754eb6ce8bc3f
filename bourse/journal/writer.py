"""Journal writer: collects commands into batches and says which bytes to write where.

It does no I/O. The owner of the segment file (the daemon's journal thread, or a simulated disk)
goes round this loop:

    begin_batch()                      IDLE    -> OPEN
    append(slot) ... append(slot)      until it says False (buffer full) or no command waits
    end_batch(&write)                  OPEN    -> PENDING   pwrite(write.data, length, offset)
    written()                          PENDING -> IDLE      written_seq moves
    synced()                           after fdatasync returned 0: durable_seq moves
    failed()                           any     -> FAILED    for ever: nothing more is begun

Segments: `plan_rotation(first_wal_seq)` says, some records ahead, which record begins the next one,
so that the owner can have its file made, named and its directory synced in time. The batch that
begins with that record carries the segment's header block before it, in one write to offset 0 of
the next segment (`write.segment_index`). All of the segment before must be durable by then:
`begin_batch` refuses otherwise, because a later segment proves that the one before it was durable.

A batch without a record is legal: its header's mark proves that everything before it was durable.
The owner writes one when it goes idle (`wants_mark()`) and one as it closes.

Compiled, called without the GIL from one thread. The bytes are specified in format.py.
"""

import cython
from cython.cimports.bourse.core.invariant import invariant
from cython.cimports.bourse.core.records import Command
from cython.cimports.bourse.journal.crc32c import crc32c_extend
from cython.cimports.bourse.journal.format import (
    BatchHeader,
    RecordDigests,
    RecordHeader,
    SegmentHeader,
)
from cython.cimports.bourse.journal.writer import JournalSlot, Write
from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cython.cimports.libc.stdint import uint8_t, uint32_t, uint64_t
from cython.cimports.libc.stdlib import free
from cython.cimports.libc.string import memcpy, memset
from cython.cimports.posix.stdlib import posix_memalign

from bourse.journal import format as layout

IDLE = 0
OPEN = 1
PENDING = 2
FAILED = 3

BUFFER_BYTES = 1 << 20
"""Write buffer: 11,900 commands a batch; the size that `dd` is compared with at 1 MiB."""

_IDLE = cython.declare(cython.int, IDLE)
_OPEN = cython.declare(cython.int, OPEN)
_PENDING = cython.declare(cython.int, PENDING)
_FAILED = cython.declare(cython.int, FAILED)

_BATCH_MAGIC = cython.declare(uint32_t, layout.BATCH_MAGIC)
_BATCH_HEADER_SIZE = cython.declare(uint64_t, layout.BATCH_HEADER_SIZE)
_RECORD_HEADER_SIZE = cython.declare(uint64_t, layout.RECORD_HEADER_SIZE)
_RECORD_VERSION = cython.declare(cython.ushort, layout.RECORD_VERSION)
_TYPE_COMMAND = cython.declare(cython.ushort, layout.TYPE_COMMAND)
_TYPE_CHECKPOINT = cython.declare(cython.ushort, layout.TYPE_CHECKPOINT)
_COMMAND_RECORD_SIZE = cython.declare(uint32_t, layout.COMMAND_RECORD_SIZE)
_CHECKPOINT_RECORD_SIZE = cython.declare(uint32_t, layout.CHECKPOINT_RECORD_SIZE)
_CHECKPOINT_INTERVAL = cython.declare(uint64_t, layout.CHECKPOINT_INTERVAL)
_SEGMENT_HEADER_SIZE = cython.declare(uint64_t, layout.SEGMENT_HEADER_SIZE)
_SEGMENT_MAGIC = cython.declare(uint64_t, int.from_bytes(layout.SEGMENT_MAGIC, "little"))
_FORMAT_VERSION = cython.declare(uint32_t, layout.FORMAT_VERSION)


@cython.final
@cython.cclass
class JournalWriter:
    """One segment's end, growing.

    Obligations of the owner: calls come from one thread, in the order of the module's docstring;
    `written` only after the whole write succeeded, `synced` only after fdatasync returned 0 with
    nothing written since the last `written`; after the first error `failed`, and never again a
    sync on that file.

    Invariants: durable_seq <= written_seq < next_wal_seq;
    durable_bytes <= written_bytes <= offset_bytes.
    """

    def __init__(
        self,
        store_id: bytes,
        segment_index: cython.ulonglong,
        offset_bytes: cython.ulonglong,
        chain_crc: cython.uint,
        next_wal_seq: cython.ulonglong,
        buffer_bytes: cython.ulonglong = BUFFER_BYTES,
    ) -> None:
        """Continue a segment whose bytes up to `offset_bytes` are durable.

        Args:
            store_id: the data directory's 16-byte identity.
            segment_index: number of the segment, from 1.
            offset_bytes: where the next batch goes; a multiple of 8, after the header block.
            chain_crc: CRC of the record before (format.initial_chain_crc for the very first).
            next_wal_seq: number of the next record.
            buffer_bytes: size of the write buffer, a multiple of 8.

        Raises:
            ValueError: an argument is out of range.
            MemoryError: no memory for the buffer.
        """
        if self.buffer != cython.NULL:
            raise RuntimeError("a JournalWriter is initialised once")
        if len(store_id) != layout.STORE_ID_SIZE:
            raise ValueError(f"store_id has {len(store_id)} bytes, expected {layout.STORE_ID_SIZE}")
        if segment_index == 0 or next_wal_seq == 0:
            raise ValueError("segments and records are numbered from 1")
        if offset_bytes < _SEGMENT_HEADER_SIZE or offset_bytes % 8:
            raise ValueError(f"offset_bytes={offset_bytes}, expected a multiple of 8 from 4096 on")
        if buffer_bytes < 4096 or buffer_bytes > 1 << 30 or buffer_bytes % 8:
            raise ValueError(f"buffer_bytes={buffer_bytes}, expected 4096..2**30, multiple of 8")
        memory: cython.p_void = cython.NULL
        total_bytes: uint64_t = _SEGMENT_HEADER_SIZE + buffer_bytes
        if posix_memalign(cython.address(memory), 4096, total_bytes) != 0:
            raise MemoryError(f"no memory for a write buffer of {buffer_bytes} bytes")
        # Touch every page now: the first batches must not page-fault.
        memset(memory, 0, total_bytes)
        self.memory = cython.cast(cython.pointer[uint8_t], memory)
        self.buffer = self.memory + _SEGMENT_HEADER_SIZE
        self.capacity_bytes = buffer_bytes
        memcpy(cython.address(self.store_id[0]), PyBytes_AS_STRING(store_id), 16)
        self.rotation_seq = 0
        self.begins_segment = False
        self.used_bytes = 0
        self.header_seed = layout.batch_header_seed(store_id, segment_index)
        self.segment_index = segment_index
        self.offset_bytes = offset_bytes
        self.chain_crc = chain_crc
        self.batch_chain_crc = chain_crc
        self.next_wal_seq = next_wal_seq
        self.batch_first_seq = next_wal_seq
        self.written_seq = next_wal_seq - 1
        self.durable_seq = next_wal_seq - 1
        self.marked_seq = 0
        self.written_bytes = offset_bytes
        self.durable_bytes = offset_bytes
        self.stage = _IDLE

    def __dealloc__(self) -> None:
        """Give the buffer back."""
        free(self.memory)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def plan_rotation(self, first_wal_seq: uint64_t) -> cython.bint:
        """Say which record begins the next segment; False when it is too late, or one is planned.

        Args:
            first_wal_seq: at least `next_wal_seq`; batches end before it.
        """
        if self.stage != _IDLE or self.rotation_seq != 0 or first_wal_seq < self.next_wal_seq:
            return False
        self.rotation_seq = first_wal_seq
        return True

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def rotation_is_due(self) -> cython.bint:
        """Say whether the next batch begins a segment: then sync first what is written."""
        return self.rotation_seq != 0 and self.next_wal_seq == self.rotation_seq

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _begin_segment(self) -> cython.void:
        """Go on in the next segment; its header block is written with its first batch."""
        header: cython.pointer[SegmentHeader] = cython.cast(
            cython.pointer[SegmentHeader], self.memory
        )
        crc: cython.pointer[uint32_t] = cython.cast(
            cython.pointer[uint32_t], self.memory + _SEGMENT_HEADER_SIZE - 4
        )
        place = cython.declare(uint8_t[24])
        self.segment_index += 1
        memcpy(cython.address(place[0]), cython.address(self.store_id[0]), 16)
        memcpy(cython.address(place[16]), cython.address(self.segment_index), 8)
        self.header_seed = crc32c_extend(0, cython.address(place[0]), 24)
        memcpy(cython.address(header.magic[0]), cython.address(_SEGMENT_MAGIC), 8)
        header.version = _FORMAT_VERSION
        header.header_bytes = cython.cast(uint32_t, _SEGMENT_HEADER_SIZE)
        memcpy(cython.address(header.store_id[0]), cython.address(self.store_id[0]), 16)
        header.segment_index = self.segment_index
        header.first_wal_seq = self.next_wal_seq
        header.chain_crc = self.chain_crc
        crc[0] = crc32c_extend(0, self.memory, _SEGMENT_HEADER_SIZE - 4)
        self.rotation_seq = 0
        self.begins_segment = True
        self.offset_bytes = _SEGMENT_HEADER_SIZE
        # Of this file nothing is durable yet, its header neither.
        self.written_bytes = 0
        self.durable_bytes = 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def begin_batch(self) -> cython.bint:
        """Open a batch, in the next segment when its first record is due.

        Returns:
            False when a write is pending, the journal has failed, or a segment is to be begun and
            what is written to this one is not durable.
        """
        if self.stage == _PENDING or self.stage == _FAILED:
            return False
        invariant(self.stage == _IDLE, b"journal: a batch is begun inside a batch")
        if self.rotation_is_due():
            if self.durable_bytes != self.written_bytes:
                return False
            self._begin_segment()
        self.stage = _OPEN
        self.used_bytes = _BATCH_HEADER_SIZE
        self.batch_chain_crc = self.chain_crc
        self.batch_first_seq = self.next_wal_seq
        return True

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def append(self, slot: cython.pointer[cython.const[JournalSlot]]) -> cython.bint:
        """Add one command to the open batch.

        Args:
            slot: the command and its wal_seq, which must be `next_wal_seq`.

        Returns:
            False when the buffer has no room for it or it begins the next segment: nothing was
            appended, end the batch.

        Never raises: a gap in wal_seq ends the process. O(1), allocates nothing.
        """
        record: cython.pointer[RecordHeader]
        digests: cython.pointer[RecordDigests]
        start: cython.pointer[uint8_t]
        length_bytes: uint32_t = _COMMAND_RECORD_SIZE
        crc: uint32_t
        invariant(self.stage == _OPEN, b"journal: append outside a batch")
        invariant(slot.wal_seq == self.next_wal_seq, b"journal: a gap in wal_seq")
        if slot.wal_seq == self.rotation_seq:
            return False
        if slot.wal_seq % _CHECKPOINT_INTERVAL == 0:
            length_bytes = _CHECKPOINT_RECORD_SIZE
        if length_bytes > self.capacity_bytes - self.used_bytes:
            return False
        start = self.buffer + self.used_bytes
        record = cython.cast(cython.pointer[RecordHeader], start)
        record.length_bytes = length_bytes
        record.wal_seq = slot.wal_seq
        record.version = _RECORD_VERSION
        record.type = _TYPE_COMMAND
        record.spare = 0
        memcpy(start + _RECORD_HEADER_SIZE, cython.address(slot.command), cython.sizeof(Command))
        if length_bytes == _CHECKPOINT_RECORD_SIZE:
            record.type = _TYPE_CHECKPOINT
            digests = cython.cast(cython.pointer[RecordDigests], start + _COMMAND_RECORD_SIZE)
            digests.state_digest = slot.state_digest
            digests.event_digest = slot.event_digest
            digests.event_seq = slot.event_seq
        crc = crc32c_extend(self.chain_crc, start, 4)
        crc = crc32c_extend(crc, start + 8, length_bytes - 8)
        record.crc = crc
        self.chain_crc = crc
        self.used_bytes += length_bytes
        self.next_wal_seq += 1
        return True

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def end_batch(self, write: cython.pointer[Write]) -> cython.bint:
        """Complete the open batch's header and say what to write.

        Returns:
            False when no batch is open; `write` is unchanged.

        Never raises: O(1), allocates nothing.
        """
        header: cython.pointer[BatchHeader]
        if self.stage != _OPEN:
            return False
        header = cython.cast(cython.pointer[BatchHeader], self.buffer)
        header.magic = _BATCH_MAGIC
        header.offset_bytes = self.offset_bytes
        header.first_wal_seq = self.batch_first_seq
        header.record_count = cython.cast(uint32_t, self.next_wal_seq - self.batch_first_seq)
        header.length_bytes = cython.cast(uint32_t, self.used_bytes - _BATCH_HEADER_SIZE)
        header.durable_wal_seq = self.durable_seq
        header.durable_bytes = self.durable_bytes
        header.chain_crc = self.batch_chain_crc
        header.spare = 0
        header.spare2 = 0
        header.crc = crc32c_extend(self.header_seed, self.buffer + 8, _BATCH_HEADER_SIZE - 8)
        self.marked_seq = self.durable_seq
        write.offset_bytes = self.offset_bytes
        write.data = self.buffer
        write.length_bytes = self.used_bytes
        write.last_wal_seq = self.next_wal_seq - 1
        write.segment_index = self.segment_index
        if self.begins_segment:
            write.offset_bytes = 0
            write.data = self.memory
            write.length_bytes += _SEGMENT_HEADER_SIZE
        self.stage = _PENDING
        return True

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def written(self) -> cython.void:
        """Take note that the pending write is complete."""
        invariant(self.stage == _PENDING, b"journal: written without a write")
        self.offset_bytes += self.used_bytes
        self.written_bytes = self.offset_bytes
        self.written_seq = self.next_wal_seq - 1
        self.used_bytes = 0
        self.begins_segment = False
        self.stage = _IDLE

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def synced(self) -> cython.void:
        """Take note that all that was written is durable."""
        invariant(self.stage != _FAILED, b"journal: synced after a failure")
        self.durable_seq = self.written_seq
        self.durable_bytes = self.written_bytes

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def failed(self) -> cython.void:
        """Take note that a write or a sync failed: final."""
        self.stage = _FAILED

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def wants_mark(self) -> cython.bint:
        """Say whether an empty batch would prove records durable that no header proves yet."""
        return self.stage == _IDLE and self.durable_seq > self.marked_seq

    # The same for tests and tools, which have the GIL and bytes.

    def plan(self, first_wal_seq: cython.ulonglong) -> bool:
        """Plan the next segment (plan_rotation)."""
        return self.plan_rotation(first_wal_seq)

    @property
    def is_due(self) -> bool:
        """The next batch begins a segment (rotation_is_due)."""
        return self.rotation_is_due()

    def begin(self) -> bool:
        """Open a batch (begin_batch)."""
        return self.begin_batch()

    def add(
        self,
        command: bytes,
        state_digest: cython.ulonglong = 0,
        event_digest: cython.ulonglong = 0,
        event_seq: cython.ulonglong = 0,
    ) -> bool:
        """Append a packed command as record `next_wal_seq`; False when the buffer is full."""
        slot = cython.declare(JournalSlot)
        if len(command) != cython.sizeof(Command):
            raise ValueError(f"a command has 64 bytes, got {len(command)}")
        slot.wal_seq = self.next_wal_seq
        slot.state_digest = state_digest
        slot.event_digest = event_digest
        slot.event_seq = event_seq
        memcpy(cython.address(slot.command), PyBytes_AS_STRING(command), cython.sizeof(Command))
        return self.append(cython.address(slot))

    def end(self) -> tuple[int, bytes, int]:
        """End the batch: (offset_bytes, bytes, last_wal_seq) of the write to make.

        It goes to segment `segment_index`, which is a new one when the offset is 0.

        Raises:
            ValueError: no batch is open.
        """
        write = cython.declare(Write)
        if not self.end_batch(cython.address(write)):
            raise ValueError("no batch is open")
        chars: cython.p_char = cython.cast(cython.p_char, write.data)
        batch: bytes = PyBytes_FromStringAndSize(chars, write.length_bytes)
        return write.offset_bytes, batch, write.last_wal_seq

    def note_written(self) -> None:
        """Take note that the pending write is complete (written)."""
        self.written()

    def note_synced(self) -> None:
        """Take note that all that was written is durable (synced)."""
        self.synced()

    def note_failed(self) -> None:
        """Take note of a failure (failed)."""
        self.failed()

    def is_mark_wanted(self) -> bool:
        """Say whether an idle owner should write an empty batch (wants_mark)."""
        return self.wants_mark()
