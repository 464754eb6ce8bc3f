"""The journal thread: records in, bytes to disk, durable_seq out; without the GIL.

    journal ring ──► append all that waits to one batch ──► pwrite ──► written_seq
                                                            fdatasync ──► durable_seq ──► bell

One fdatasync covers all that waited while the one before was under way (group commit): no timer, no
delay when the disk is idle. Under `async` the gate opens at written_seq and fdatasync follows at
least every interval.

A failed write or sync is final: nothing is published after it, the descriptor is never synced
again, the gateway is told and the daemon ends. The next start believes only what it reads back.

After IDLE_MARK_NS without work, and at the end, an empty batch is written whose mark says that
everything before it was durable: recovery can then tell damage from a torn write.

Segments change without a pause: near the end of one the thread plans which record begins the
next; the segment thread, which has filled that file long ago, gives it its name meanwhile; and when
the record comes, the header is written in one piece with its batch.
"""

import cython
from cython.cimports.bourse.core.atomics import (
    cpu_relax,
    load_acquire,
    load_seq_cst,
    store_relaxed,
    store_seq_cst,
    yield_cpu,
)
from cython.cimports.bourse.core.histogram import Histogram
from cython.cimports.bourse.core.killpoint import (
    AFTER_SYNC_BEFORE_ACK,
    AFTER_WRITE,
    BEFORE_SYNC,
    BEFORE_WRITE,
    SEGMENT_BEGUN,
    passing,
)
from cython.cimports.bourse.core.parking import (
    doorbell_arm,
    doorbell_disarm,
    doorbell_ring,
    doorbell_sleep,
)
from cython.cimports.bourse.core.ring import (
    Ring,
    RingMemory,
    ring_ready,
    ring_ready_now,
    ring_release,
    ring_slot,
)
from cython.cimports.bourse.core.scheduling import short_slice
from cython.cimports.bourse.daemon.shared import Shared, SharedMemory, mono_ns
from cython.cimports.bourse.journal.writer import JournalSlot, JournalWriter, Write
from cython.cimports.libc.errno import EINTR, EIO, errno
from cython.cimports.libc.stdint import int64_t, uint8_t, uint64_t
from cython.cimports.libc.stdlib import calloc, free
from cython.cimports.posix.unistd import close, fdatasync, pwrite

from bourse.domain import Durability, PollMode
from bourse.journal.format import BATCH_HEADER_SIZE, CHECKPOINT_RECORD_SIZE

IDLE_MARK_NS = 250_000_000
"""Idle for this long, the log gets its mark."""
EXTEND_BYTES = 8 << 20
"""Zeros written ahead when the preallocated part is used up: a sync then writes no file size.

A smaller segment is extended by its own size.
"""
LEAD_BYTES_MAX = 16 << 20
"""The next segment is planned an eighth of a segment ahead, at most this.

16 MiB of records take a tenth of a second at the fastest, and a rename is a hundred times faster.
"""
RECORD_BYTES_MOST = BATCH_HEADER_SIZE + CHECKPOINT_RECORD_SIZE + BATCH_HEADER_SIZE
"""What one record takes at most: alone in its batch, longest, a mark after it."""
SPIN_NS = 5_000
"""How long the thread looks for more before it parks, except under `block`.

Longer, it takes the CPU from those who have just been given something to do: 200 us cost 11 us of a
durable round trip on 2 CPUs.
"""
YIELD_POLLS = 16

WINDOW_NS = 5_000_000_000
"""The console's window of sync times is one to two of these."""

_WINDOW_NS = cython.declare(cython.longlong, WINDOW_NS)
_IDLE_MARK_NS = cython.declare(cython.longlong, IDLE_MARK_NS)
_EXTEND_BYTES = cython.declare(cython.ulonglong, EXTEND_BYTES)
_SPIN_NS = cython.declare(cython.longlong, SPIN_NS)
_YIELD_POLLS = cython.declare(cython.int, YIELD_POLLS)
_FSYNC = cython.declare(cython.int, Durability.FSYNC)
_BLOCK = cython.declare(cython.int, PollMode.BLOCK)
_ZEROS_BYTES = cython.declare(cython.ulonglong, 1 << 20)
_LEAD_BYTES_MAX = cython.declare(cython.ulonglong, LEAD_BYTES_MAX)
_RECORD_BYTES_MOST = cython.declare(cython.ulonglong, RECORD_BYTES_MOST)
_NAME_WAIT_NS = cython.declare(cython.longlong, 10_000_000)


@cython.final
@cython.cclass
class JournalThread:
    """Owner of the log's file descriptors; `run()` is the thread's body.

    Without a segment thread beside it, the log stays in one segment.

    It returns after the matcher is done and everything is on disk, or after a disk error.
    """

    writer: JournalWriter
    journal: RingMemory
    memory: SharedMemory
    sync_ns: Histogram
    fd: cython.int
    old_fd: cython.int  # of the segment before: whoever looks at it meanwhile finds it open
    durability: cython.int
    poll_mode: cython.int
    interval_ns: int64_t
    # Owned by this thread.
    head: uint64_t
    last_sync_ns: int64_t
    rotated_ns: int64_t
    idle_since_ns: int64_t  # 0 while there is something to do
    marked: cython.bint  # the log's last batch proves all before it durable
    file_bytes: uint64_t
    planned_bytes: uint64_t  # what the segment was filled with zeros to
    lead_bytes: uint64_t
    segment_index: uint64_t
    zeros: cython.pointer[uint8_t]

    def __cinit__(self):
        self.fd = -1
        self.old_fd = -1
        self.zeros = cython.cast(cython.pointer[uint8_t], calloc(_ZEROS_BYTES, 1))
        if self.zeros == cython.NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.zeros)

    def __init__(
        self,
        writer: JournalWriter,
        journal: RingMemory,
        memory: SharedMemory,
        sync_ns: Histogram,
        fd: cython.int,
        file_bytes: cython.ulonglong,
        durability: cython.int,
        poll_mode: cython.int,
        interval_ms: cython.longlong,
        first_wal_seq: cython.ulonglong = 1,
    ):
        if writer is None or journal is None or memory is None or sync_ns is None:
            raise TypeError("a writer, a ring, the shared memory and a histogram are needed")
        self.writer = writer
        self.journal = journal
        self.memory = memory
        self.sync_ns = sync_ns
        self._use(fd, file_bytes)
        self.segment_index = writer.segment_index
        self.durability = durability
        self.poll_mode = poll_mode
        self.interval_ns = interval_ms * 1_000_000
        memory.shared.written_seq = writer.written_seq
        memory.shared.durable_seq = writer.durable_seq
        memory.shared.segment_used_bytes = writer.offset_bytes
        memory.shared.segment_size_bytes = file_bytes
        memory.shared.segment_index = writer.segment_index
        memory.shared.segment_first_seq = first_wal_seq
        memory.shared.segment_fd = fd

    def close_files(self) -> None:
        """Close the log, after the thread has ended."""
        for fd in (self.fd, self.old_fd):
            if fd >= 0:
                close(fd)
        self.fd = self.old_fd = -1

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _use(self, fd: cython.int, file_bytes: uint64_t) -> cython.void:
        """Write to this file from now on."""
        self.fd = fd
        self.file_bytes = file_bytes
        self.planned_bytes = file_bytes
        self.lead_bytes = file_bytes // 8
        if self.lead_bytes > _LEAD_BYTES_MAX:
            self.lead_bytes = _LEAD_BYTES_MAX

    def run(self) -> None:
        """Serve until the matcher is done or the disk fails; never holds the GIL meanwhile."""
        with cython.nogil:
            short_slice()
            self._begin()
            while self._go_on(self._wait()):
                pass

    def begin(self) -> None:
        """Prepare for step(): what run() does first."""
        self._begin()

    def step(self) -> bool:
        """Do what run() would do now, and return where it would wait.

        For a caller that decides itself in which order the stages take turns (tests/simulation).

        Returns:
            False when run() would have returned.
        """
        shared: cython.pointer[Shared] = self.memory.shared
        ready: uint64_t
        going: cython.bint = True
        with cython.nogil:
            ready = ring_ready_now(self.journal.ring, self.head)
            if (
                ready
                or load_acquire(cython.address(shared.matcher_done))
                or self._patience_ns(mono_ns()) == 0
            ):
                going = self._go_on(ready)
        return going

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _begin(self) -> cython.void:
        self.head = self.journal.ring.head
        self.last_sync_ns = mono_ns()
        self.rotated_ns = self.last_sync_ns
        self.idle_since_ns = 0
        self.marked = True

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _go_on(self, ready: uint64_t) -> cython.bint:
        """Commit what waits, or write the log's mark; False at the end, or when the disk failed."""
        shared: cython.pointer[Shared] = self.memory.shared
        ended: cython.bint = False
        if ready:
            self.idle_since_ns = 0
            self.marked = False
            return self._commit(ready)
        if (
            load_acquire(cython.address(shared.matcher_done))
            and ring_ready_now(self.journal.ring, self.head) == 0
        ):
            ended = True
        elif self._sync_is_due(mono_ns()):
            # A pause longer than the interval is no idleness: the mark comes when that is over.
            return self._sync()
        self.idle_since_ns = 0
        if not self.marked:
            if not self._mark():
                return False
            self.marked = True
        if ended:
            store_seq_cst(cython.address(shared.journal_done), 1)
            doorbell_ring(cython.address(shared.gateway_bell))
            doorbell_ring(cython.address(shared.segment_bell))
        return not ended

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _sync_is_due(self, now_ns: int64_t) -> cython.bint:
        """Say whether the window that `async` promises is over, with something to sync."""
        return self._is_behind() and now_ns - self.last_sync_ns >= self.interval_ns

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _is_behind(self) -> cython.bint:
        """Say whether `async` has let anything pass that is not synced."""
        return self.durability != _FSYNC and self.writer.durable_bytes != self.writer.written_bytes

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _patience_ns(self, now_ns: int64_t) -> int64_t:
        """Return how long an idle log may stay as it is; -1: for ever, it has its mark."""
        left_ns: int64_t
        if self.idle_since_ns == 0:
            self.idle_since_ns = now_ns
        if self.marked:
            return -1
        left_ns = self.idle_since_ns + _IDLE_MARK_NS - now_ns
        if self._is_behind() and self.last_sync_ns + self.interval_ns - now_ns < left_ns:
            left_ns = self.last_sync_ns + self.interval_ns - now_ns
        return left_ns if left_ns > 0 else 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _wait(self) -> uint64_t:
        """Return how many records wait.

        0 when the matcher is done, or a sync or the idle mark is due.
        """
        shared: cython.pointer[Shared] = self.memory.shared
        ring: cython.pointer[Ring] = self.journal.ring
        ready: uint64_t
        polls: cython.int = 0
        now_ns: int64_t
        patience_ns: int64_t
        while True:
            ready = ring_ready(ring, self.head)
            if ready or load_acquire(cython.address(shared.matcher_done)):
                return ready
            polls += 1
            if self.poll_mode != _BLOCK and polls < _YIELD_POLLS:
                cpu_relax()
                continue
            polls = 0
            now_ns = mono_ns()
            patience_ns = self._patience_ns(now_ns)
            if patience_ns == 0:
                return 0
            if self.poll_mode != _BLOCK and now_ns - self.idle_since_ns < _SPIN_NS:
                yield_cpu()
                continue
            doorbell_arm(cython.address(shared.journal_bell))
            if ring_ready_now(ring, self.head) == 0 and not load_seq_cst(
                cython.address(shared.matcher_done)
            ):
                doorbell_sleep(cython.address(shared.journal_bell), patience_ns)
            doorbell_disarm(cython.address(shared.journal_bell))

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _commit(self, ready: uint64_t) -> cython.bint:
        """Write one batch of what waits, sync it by the policy; False when the disk failed."""
        shared: cython.pointer[Shared] = self.memory.shared
        ring: cython.pointer[Ring] = self.journal.ring
        write: Write
        taken: uint64_t = 0
        if not self._turn_over():
            return False
        if not self.writer.begin_batch():
            return self._fail(EIO)
        while taken < ready and self.writer.append(
            cython.cast(cython.pointer[JournalSlot], ring_slot(ring, self.head + taken))
        ):
            taken += 1
        self.writer.end_batch(cython.address(write))
        self.head += taken
        ring_release(ring, self.head)
        if not self._write(cython.address(write)):
            return False
        self.writer.written()
        store_relaxed(cython.address(shared.batches), shared.batches + 1)
        store_relaxed(cython.address(shared.last_batch_records), taken)
        store_relaxed(
            cython.address(shared.written_bytes), shared.written_bytes + write.length_bytes
        )
        store_relaxed(
            cython.address(shared.segment_used_bytes), write.offset_bytes + write.length_bytes
        )
        if self.durability == _FSYNC:
            store_relaxed(cython.address(shared.written_seq), write.last_wal_seq)
            if not self._sync():
                return False
        else:
            store_relaxed(cython.address(shared.durable_ns), mono_ns())
            store_seq_cst(cython.address(shared.written_seq), write.last_wal_seq)
            doorbell_ring(cython.address(shared.gateway_bell))
            if mono_ns() - self.last_sync_ns >= self.interval_ns:
                return self._sync()
        return True

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _mark(self) -> cython.bint:
        """Sync what is not, then append an empty batch that says so."""
        write: Write
        if self.writer.durable_seq != self.writer.written_seq and not self._sync():
            return False
        if not self._turn_over():
            return False
        if not self.writer.begin_batch():
            return self._fail(EIO)
        self.writer.end_batch(cython.address(write))
        if not self._write(cython.address(write)):
            return False
        self.writer.written()
        store_relaxed(
            cython.address(self.memory.shared.segment_used_bytes),
            write.offset_bytes + write.length_bytes,
        )
        return self._sync()

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _write(self, write: cython.pointer[Write]) -> cython.bint:
        """Put the batch's bytes where they belong, whole; False when the disk failed."""
        if write.segment_index != self.segment_index:
            self._begin_segment(write)
        if write.offset_bytes + write.length_bytes > self.file_bytes and not self._extend(
            write.offset_bytes + write.length_bytes
        ):
            return False
        passing(BEFORE_WRITE)
        if not self._write_all(write.data, write.length_bytes, write.offset_bytes):
            return False
        passing(AFTER_WRITE)
        return True

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _begin_segment(self, write: cython.pointer[Write]) -> cython.void:
        """Change to the next segment's file, which is there."""
        shared: cython.pointer[Shared] = self.memory.shared
        if self.old_fd >= 0:
            close(self.old_fd)
        self.old_fd = self.fd
        self._use(cython.cast(cython.int, shared.spare_fd), shared.spare_bytes)
        self.segment_index = write.segment_index
        passing(SEGMENT_BEGUN)
        store_relaxed(cython.address(shared.segment_size_bytes), self.file_bytes)
        store_relaxed(cython.address(shared.segment_fd), shared.spare_fd)
        store_relaxed(cython.address(shared.segment_first_seq), shared.next_first_seq)
        store_seq_cst(cython.address(shared.segment_index), write.segment_index)
        doorbell_ring(cython.address(shared.segment_bell))

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _turn_over(self) -> cython.bint:
        """Plan the next segment in time, and see that its file is ready; False when it failed."""
        shared: cython.pointer[Shared] = self.memory.shared
        left_bytes: uint64_t = 0
        if self.writer.rotation_seq == 0:
            if (
                self.writer.offset_bytes + self.lead_bytes < self.planned_bytes
                or load_acquire(cython.address(shared.spare_index)) != self.writer.segment_index + 1
            ):
                return True
            # Two segments without a header would not be understood: the name of the next one may
            # be durable at any time from here on.
            if self.writer.durable_bytes == 0 and not self._sync():
                return False
            if self.writer.offset_bytes < self.planned_bytes:
                left_bytes = self.planned_bytes - self.writer.offset_bytes
            self.writer.plan_rotation(
                self.writer.next_wal_seq + 1 + left_bytes // _RECORD_BYTES_MOST
            )
            store_seq_cst(cython.address(shared.next_first_seq), self.writer.rotation_seq)
            doorbell_ring(cython.address(shared.segment_bell))
        if not self.writer.rotation_is_due():
            return True
        # A later segment is the proof that all of this one was durable.
        if self.writer.durable_bytes != self.writer.written_bytes and not self._sync():
            return False
        while load_acquire(cython.address(shared.named_seq)) != self.writer.rotation_seq:
            # Hardly ever: the name was asked for an eighth of a segment ago.
            if load_acquire(cython.address(shared.spare_failed_errno)):
                return self._fail(cython.cast(cython.int, shared.spare_failed_errno))
            doorbell_arm(cython.address(shared.journal_bell))
            if load_seq_cst(cython.address(shared.named_seq)) != self.writer.rotation_seq:
                doorbell_sleep(cython.address(shared.journal_bell), _NAME_WAIT_NS)
            doorbell_disarm(cython.address(shared.journal_bell))
        return True

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _write_all(
        self, data: cython.pointer[uint8_t], length_bytes: uint64_t, offset_bytes: uint64_t
    ) -> cython.bint:
        done: uint64_t = 0
        result: cython.Py_ssize_t
        while done < length_bytes:
            result = pwrite(self.fd, data + done, length_bytes - done, offset_bytes + done)
            if result < 0:
                if errno == EINTR:
                    continue
                return self._fail(errno)
            if result == 0:
                return self._fail(EIO)
            done += result
        return True

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _extend(self, end_bytes: uint64_t) -> cython.bint:
        """Write zeros ahead, so that the file covers `end_bytes` and the next few megabytes."""
        target: uint64_t = end_bytes + min(_EXTEND_BYTES, self.planned_bytes)
        chunk: uint64_t
        while self.file_bytes < target:
            chunk = target - self.file_bytes
            if chunk > _ZEROS_BYTES:
                chunk = _ZEROS_BYTES
            if not self._write_all(self.zeros, chunk, self.file_bytes):
                return False
            self.file_bytes += chunk
        store_relaxed(cython.address(self.memory.shared.segment_size_bytes), self.file_bytes)
        return True

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _sync(self) -> cython.bint:
        """Make all that is written durable and say so; False when the disk failed, for ever."""
        shared: cython.pointer[Shared] = self.memory.shared
        started_ns: int64_t = mono_ns()
        ended_ns: int64_t
        passing(BEFORE_SYNC)
        if fdatasync(self.fd) != 0:
            return self._fail(errno)
        passing(AFTER_SYNC_BEFORE_ACK)
        ended_ns = mono_ns()
        self.last_sync_ns = ended_ns
        if ended_ns - self.rotated_ns > _WINDOW_NS:
            self.sync_ns.rotate()
            self.rotated_ns = ended_ns
        self.sync_ns.record(ended_ns - started_ns, 1)
        self.writer.synced()
        store_relaxed(cython.address(shared.syncs), shared.syncs + 1)
        if self.durability == _FSYNC:
            store_relaxed(cython.address(shared.durable_ns), ended_ns)
        store_seq_cst(cython.address(shared.durable_seq), self.writer.durable_seq)
        doorbell_ring(cython.address(shared.gateway_bell))
        return True

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _fail(self, error: cython.int) -> cython.bint:
        """Record the error for the gateway and stop for ever."""
        self.writer.failed()
        store_seq_cst(cython.address(self.memory.shared.failed_errno), error if error else EIO)
        doorbell_ring(cython.address(self.memory.shared.gateway_bell))
        doorbell_ring(cython.address(self.memory.shared.segment_bell))
        return False
