"""The matcher's part towards a journal thread, played by a benchmark: records in, durable_seq out.

    append ──► journal ring ──► JournalThread: one batch, pwrite, fdatasync ──► durable_seq

The journal thread is the daemon's own; only what feeds it is not. The clock runs from the first
append until the last record is durable. Without the GIL. Compiled only.
"""

from __future__ import annotations

import cython
from cython.cimports.bourse.core.atomics import cpu_relax, load_acquire, store_seq_cst, yield_cpu
from cython.cimports.bourse.core.parking import doorbell_ring
from cython.cimports.bourse.core.ring import (
    Ring,
    RingMemory,
    ring_publish,
    ring_room,
    ring_slot,
)
from cython.cimports.bourse.core.scheduling import short_slice
from cython.cimports.bourse.daemon.shared import Shared, SharedMemory, mono_ns
from cython.cimports.bourse.journal.writer import JournalSlot
from cython.cimports.libc.stdint import int64_t, uint64_t
from cython.cimports.libc.string import memset

from bourse.domain import CommandKind, OrderType, Side

GROUP_MAX = 64
"""Records that are published together, as the matcher does."""

_GROUP_MAX = cython.declare(cython.ulonglong, GROUP_MAX)
_YIELD_POLLS = cython.declare(cython.int, 8)
_NEW_ORDER = cython.declare(cython.int, CommandKind.NEW_ORDER)
_LIMIT = cython.declare(cython.int, OrderType.LIMIT)
_BUY = cython.declare(cython.int, Side.BUY)
_SELL = cython.declare(cython.int, Side.SELL)


@cython.final
@cython.cclass
class JournalFeeder:
    """The producer of a journal ring whose consumer is a running JournalThread."""

    journal: RingMemory
    memory: SharedMemory
    next_position: uint64_t
    next_seq: uint64_t

    def __init__(self, journal: RingMemory, memory: SharedMemory, next_seq: int) -> None:
        """Take the ring, still empty, and the number of the first record."""
        if journal is None or memory is None:
            raise TypeError("a ring and the shared memory are needed")
        self.journal = journal
        self.memory = memory
        self.next_position = journal.ring.tail
        self.next_seq = next_seq

    def append(self, count: int, together: bool) -> int:
        """Append records and wait until they are durable.

        Args:
            count: how many; one by one or `together` as long as the ring has room.
            together: all in groups of GROUP_MAX; else each waits until the one before is durable.

        Returns:
            Nanoseconds from the first append until the last record was durable.

        Raises:
            OSError: the journal failed; its errno.
        """
        total: uint64_t = count
        done: uint64_t = 0
        batch: uint64_t = total if together else 1
        started_ns: int64_t
        ended_ns: int64_t
        with cython.nogil:
            short_slice()
            started_ns = mono_ns()
            while done < total:
                self._put(batch)
                done += batch
                if not self._wait():
                    break
            ended_ns = mono_ns()
        if self.memory.shared.failed_errno:
            raise OSError(self.memory.shared.failed_errno, "the journal failed")
        return ended_ns - started_ns

    def finish(self) -> None:
        """Tell the journal thread that nothing more comes."""
        store_seq_cst(cython.address(self.memory.shared.matcher_done), 1)
        doorbell_ring(cython.address(self.memory.shared.journal_bell))

    @property
    def written(self) -> tuple[int, int]:
        """(bytes, batches) that the journal thread has written."""
        return self.memory.shared.written_bytes, self.memory.shared.batches

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _put(self, count: uint64_t) -> cython.void:
        """Put records into the ring; small counts become visible at once, as one group."""
        ring: cython.pointer[Ring] = self.journal.ring
        slot: cython.pointer[JournalSlot]
        pending: uint64_t = 0
        left: uint64_t = count
        group: uint64_t = count if count <= ring.count // 2 else _GROUP_MAX
        while left:
            while ring_room(ring, self.next_position + pending, 1) == 0:
                if load_acquire(cython.address(self.memory.shared.failed_errno)):
                    return
                yield_cpu()
            slot = cython.cast(
                cython.pointer[JournalSlot], ring_slot(ring, self.next_position + pending)
            )
            slot.wal_seq = self.next_seq
            slot.state_digest = 0
            slot.event_digest = 0
            slot.event_seq = 0
            memset(cython.address(slot.command), 0, cython.sizeof(slot.command))
            slot.command.kind = _NEW_ORDER
            slot.command.order_type = _LIMIT
            slot.command.side = _BUY if self.next_seq & 1 else _SELL
            slot.command.instrument_id = 1
            slot.command.session_id = 1
            slot.command.client_order_id = self.next_seq
            slot.command.price_ticks = 100
            slot.command.qty_lots = 1
            self.next_seq += 1
            pending += 1
            left -= 1
            if pending == group or left == 0:
                self.next_position += pending
                pending = 0
                ring_publish(ring, self.next_position)
                doorbell_ring(cython.address(self.memory.shared.journal_bell))

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _wait(self) -> cython.bint:
        """Wait until all that was put is durable; False when the journal failed."""
        shared: cython.pointer[Shared] = self.memory.shared
        polls: cython.int = 0
        while load_acquire(cython.address(shared.durable_seq)) < self.next_seq - 1:
            if load_acquire(cython.address(shared.failed_errno)):
                return False
            polls += 1
            if polls < _YIELD_POLLS:
                cpu_relax()
                continue
            polls = 0
            yield_cpu()
        return True
