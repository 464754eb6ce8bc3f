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
from cython.cimports.posix.unistd import fdatasync, pwrite

from bourse.domain import Durability, PollMode

IDLE_MARK_NS = 250_000_000
"""Idle for this long, the log gets its mark."""
EXTEND_BYTES = 8 << 20
"""Zeros written ahead when the preallocated part is used up: a sync then writes no file size."""
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


@cython.final
@cython.cclass
class JournalThread:
    """Owner of the log's file descriptor; `run()` is the thread's body.

    It returns after the matcher is done and everything is on disk, or after a disk error.
    """

    writer: JournalWriter
    journal: RingMemory
    memory: SharedMemory
    sync_ns: Histogram
    fd: cython.int
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
    zeros: cython.pointer[uint8_t]

    def __cinit__(self):
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
    ):
        if writer is None or journal is None or memory is None or sync_ns is None:
            raise TypeError("a writer, a ring, the shared memory and a histogram are needed")
        self.writer = writer
        self.journal = journal
        self.memory = memory
        self.sync_ns = sync_ns
        self.fd = fd
        self.file_bytes = file_bytes
        self.durability = durability
        self.poll_mode = poll_mode
        self.interval_ns = interval_ms * 1_000_000
        memory.shared.written_seq = writer.written_seq
        memory.shared.durable_seq = writer.durable_seq
        memory.shared.segment_used_bytes = writer.offset_bytes
        memory.shared.segment_size_bytes = file_bytes

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
        self.idle_since_ns = 0
        if ready:
            self.marked = False
            return self._commit(ready)
        if (
            load_acquire(cython.address(shared.matcher_done))
            and ring_ready_now(self.journal.ring, self.head) == 0
        ):
            ended = True
        if not self.marked:
            if not self._mark():
                return False
            self.marked = True
        if ended:
            store_seq_cst(cython.address(shared.journal_done), 1)
            doorbell_ring(cython.address(shared.gateway_bell))
        return not ended

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _patience_ns(self, now_ns: int64_t) -> int64_t:
        """Return how long an idle log may stay as it is; -1: for ever, it has its mark."""
        limit_ns: int64_t = _IDLE_MARK_NS
        left_ns: int64_t
        if self.idle_since_ns == 0:
            self.idle_since_ns = now_ns
        if self.marked:
            return -1
        if self.durability != _FSYNC:
            # The window that `async` promises ends here, with or without new records.
            limit_ns = self.last_sync_ns + self.interval_ns - self.idle_since_ns
        left_ns = limit_ns - (now_ns - self.idle_since_ns)
        return left_ns if left_ns > 0 else 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _wait(self) -> uint64_t:
        """Return how many records wait.

        0 when the matcher is done or the log wants its idle mark.
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
        target: uint64_t = end_bytes + _EXTEND_BYTES
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
        return False
