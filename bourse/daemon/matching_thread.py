"""The matcher thread: commands in, records to the journal, events out; without the GIL.

    command ring ──► take a group ──► 1. hand its records to the journal ring (record before match)
                                      2. execute one by one into the event ring
                                      3. publish, ring the gateway's bell

A group is what is there, at most GROUP_MAX commands. It ends before a command whose record carries
the digests (every CHECKPOINT_INTERVAL-th), because those are the digests before that command.

A command whose events do not fit into the event ring publishes what it has and waits for room; its
record is with the journal already, so the release gate opens and the gateway makes room.

Waiting: `busy` spins and yields (with a log, for SPIN_JOURNALED_NS before it parks), `adaptive`
spins for SPIN_NS and then parks, `block` parks at once.
"""

import cython
from cython.cimports.bourse.core.atomics import (
    cpu_relax,
    prefetch_read,
    prefetch_write,
    store_relaxed,
    store_seq_cst,
    yield_cpu,
)
from cython.cimports.bourse.core.books import BooksPtr
from cython.cimports.bourse.core.engine import Engine
from cython.cimports.bourse.core.exports import (
    Impact,
    export_depth,
    export_halted,
    export_impact,
    export_instruments,
    export_orders,
    export_sessions,
)
from cython.cimports.bourse.core.foresight import (
    Foresight,
    foresee,
    foresee_first,
    foresight_pays,
)
from cython.cimports.bourse.core.killpoint import MATCHED, RECORDED, passing
from cython.cimports.bourse.core.parking import (
    doorbell_arm,
    doorbell_disarm,
    doorbell_ring,
    doorbell_sleep,
)
from cython.cimports.bourse.core.records import Command, Event, EventWindow
from cython.cimports.bourse.core.ring import (
    Ring,
    RingMemory,
    ring_publish,
    ring_ready,
    ring_ready_now,
    ring_release,
    ring_room,
    ring_slot,
)
from cython.cimports.bourse.core.scheduling import short_slice
from cython.cimports.bourse.daemon.shared import (
    DEPTH_LEVELS_MAX,
    DepthBuffer,
    Shared,
    SharedMemory,
    SnapshotImage,
    mono_ns,
)
from cython.cimports.bourse.daemon.stamps import StampClock, stamp_ns, stamp_start
from cython.cimports.bourse.journal.writer import JournalSlot
from cython.cimports.libc.stdint import int64_t, uint32_t, uint64_t
from cython.cimports.libc.string import memset

from bourse.domain import CommandKind, EventKind, PollMode
from bourse.journal.format import CHECKPOINT_INTERVAL

GROUP_MAX = 64
"""Commands between two looks at the rings' other sides.

One publish and one clock read are shared by as many.
"""
SPIN_NS = 50_000
"""How long `adaptive` spins before it parks: about what waking an idle virtual CPU costs."""
SPIN_JOURNALED_NS = 10_000
"""How long `busy` spins where a disk is waited for.

Longer, the matcher only takes the CPU from the gateway and the clients: p50 of a durable round trip
on 2 CPUs was 147 us with a matcher that never parked, 142 us so.
"""
YIELD_POLLS = 8
"""Polls between two sched_yield where somebody else wants the CPU: a fifth of a microsecond.

Three spinners on two cores starve each other otherwise (measured). Where the gateway shares the
matcher's CPU it waits for as long: p50 of a round trip is 24 us with 64 polls, 20 us with 8.
"""
YIELD_POLLS_ALONE = 512
"""The same where nobody does: a yield that comes back at once doubles the polls, up to so many.

In a yield no command is seen. Somebody who becomes ready waits for these polls at most, once: the
yield that lets him in takes long and sets them back.
"""
YIELD_ALONE_NS = 1_000
"""A yield that took less let nobody in."""
JOURNAL_SLOT_BYTES = cython.sizeof(JournalSlot)
"""What one slot of the journal ring takes."""

_GROUP_MAX = cython.declare(cython.int, GROUP_MAX)
_SPIN_NS = cython.declare(cython.longlong, SPIN_NS)
_SPIN_JOURNALED_NS = cython.declare(cython.longlong, SPIN_JOURNALED_NS)
_YIELD_POLLS = cython.declare(cython.int, YIELD_POLLS)
_YIELD_POLLS_ALONE = cython.declare(cython.int, YIELD_POLLS_ALONE)
_AHEAD = cython.declare(cython.int, 8)
_YIELD_ALONE_NS = cython.declare(int64_t, YIELD_ALONE_NS)
_CHECKPOINT_INTERVAL = cython.declare(cython.ulonglong, CHECKPOINT_INTERVAL)
_BLOCK = cython.declare(cython.int, PollMode.BLOCK)
_BUSY = cython.declare(cython.int, PollMode.BUSY)
_FIRST_READ = cython.declare(cython.int, CommandKind.DEPTH)
_DEPTH = cython.declare(cython.int, CommandKind.DEPTH)
_FENCE = cython.declare(cython.int, CommandKind.FENCE)
_IMPACT = cython.declare(cython.int, CommandKind.IMPACT)
_STOP = cython.declare(cython.int, CommandKind.STOP)
_SNAPSHOT_MARK = cython.declare(cython.int, CommandKind.SNAPSHOT_MARK)
_EVENT_DEPTH_REPLY = cython.declare(cython.int, EventKind.DEPTH_REPLY)
_EVENT_SNAPSHOT_READY = cython.declare(cython.int, EventKind.SNAPSHOT_READY)
_EVENT_FENCE = cython.declare(cython.int, EventKind.FENCE)
_EVENT_IMPACT = cython.declare(cython.int, EventKind.IMPACT)
_EVENT_STOPPED = cython.declare(cython.int, EventKind.STOPPED)


@cython.final
@cython.cclass
class MatchingThread:
    """Owner of the engine; `run()` is the thread's body and returns after a STOP command.

    Obligations: every ring and the shared memory outlive the thread; nobody else touches the engine
    between the thread's start and its end.
    """

    engine: Engine
    commands: RingMemory
    events: RingMemory
    journal: RingMemory
    memory: SharedMemory
    poll_mode: cython.int
    journaled: cython.bint
    # What the thread writes all the time, off the lines of whatever the heap has put beside it.
    pad0: uint64_t[16]
    command_head: uint64_t
    journal_next: uint64_t
    window: EventWindow
    clock: StampClock
    looked_ns: int64_t  # when the commands were looked for last
    patience: cython.int  # polls until the next yield
    pad1: uint64_t[16]

    def __init__(
        self,
        engine: Engine,
        commands: RingMemory,
        events: RingMemory,
        journal: RingMemory,
        memory: SharedMemory,
        poll_mode: cython.int,
        journaled: cython.bint,
    ):
        if (
            engine is None
            or commands is None
            or events is None
            or journal is None
            or memory is None
        ):
            raise TypeError("an engine, three rings and the shared memory are needed")
        self.engine = engine
        self.commands = commands
        self.events = events
        self.journal = journal
        self.memory = memory
        self.poll_mode = poll_mode
        self.journaled = journaled

    def run(self) -> None:
        """Serve until STOP; never holds the GIL meanwhile."""
        with cython.nogil:
            short_slice()
            self._begin()
            while self._serve_group(self._wait_for_commands()):
                pass

    def begin(self) -> None:
        """Prepare for step(): what run() does first."""
        self._begin()

    def step(self, most: cython.ulonglong) -> bool:
        """Serve one group of at most `most` commands that are ready, if any are.

        For a caller that decides itself in which order the stages take turns (tests/simulation).
        The event ring must have room for the group's events and the journal ring for one record:
        else it waits for ever.

        Returns:
            False when run() would have returned.
        """
        ready: uint64_t = ring_ready_now(self.commands.ring, self.command_head)
        self.looked_ns = stamp_ns(cython.address(self.clock))
        going: cython.bint = True
        if ready and most:
            with cython.nogil:
                going = self._serve_group(min(ready, most))
        return going

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _begin(self) -> cython.void:
        events: cython.pointer[Ring] = self.events.ring
        self.command_head = self.commands.ring.head
        self.journal_next = self.journal.ring.tail
        self.window.base = cython.cast(cython.pointer[Event], events.slots)
        self.window.mask = events.mask
        self.window.next = events.tail
        self.window.limit = events.tail
        self.patience = _YIELD_POLLS
        stamp_start(cython.address(self.clock))
        self.looked_ns = stamp_ns(cython.address(self.clock))

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _serve_group(self, ready: uint64_t) -> cython.bint:
        """Serve some of the commands that are ready; False after STOP, when all have been told."""
        shared: cython.pointer[Shared] = self.memory.shared
        if self._serve(min(ready, cython.cast(uint64_t, _GROUP_MAX))):
            return True
        store_seq_cst(cython.address(shared.matcher_done), 1)
        doorbell_ring(cython.address(shared.journal_bell))
        doorbell_ring(cython.address(shared.gateway_bell))
        return False

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _wait_for_commands(self) -> uint64_t:
        """Return how many commands are ready: at least one."""
        commands: cython.pointer[Ring] = self.commands.ring
        shared: cython.pointer[Shared] = self.memory.shared
        polls: cython.int = 0
        ready: uint64_t
        deadline_ns: int64_t = 0
        ready = ring_ready(commands, self.command_head)
        if ready:
            # The last look was when the group before had been stamped.
            return ready
        while True:
            # The clock is read while there is nothing to do: a group is stamped with the last look
            # that found none, some 20 ns early, and waits for no clock when it has come.
            self.looked_ns = stamp_ns(cython.address(self.clock))
            ready = ring_ready(commands, self.command_head)
            if ready:
                return ready
            if self.poll_mode != _BLOCK:
                cpu_relax()
                polls += 1
                if polls < self.patience:
                    continue
                polls = 0
                if self.poll_mode == _BUSY and not self.journaled:
                    self._yield_alone()
                    continue
                self.patience = _YIELD_POLLS
                if deadline_ns == 0:
                    deadline_ns = self.looked_ns
                    deadline_ns += _SPIN_JOURNALED_NS if self.poll_mode == _BUSY else _SPIN_NS
                if self.looked_ns < deadline_ns:
                    yield_cpu()
                    continue
                deadline_ns = 0
            doorbell_arm(cython.address(shared.matcher_bell))
            if ring_ready_now(commands, self.command_head) == 0:
                doorbell_sleep(cython.address(shared.matcher_bell), -1)
            doorbell_disarm(cython.address(shared.matcher_bell))

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _yield_alone(self) -> cython.void:
        """Let others on this CPU run; learn from how long it took whether there are any."""
        began_ns: int64_t = stamp_ns(cython.address(self.clock))
        yield_cpu()
        if stamp_ns(cython.address(self.clock)) - began_ns >= _YIELD_ALONE_NS:
            self.patience = _YIELD_POLLS
        elif self.patience < _YIELD_POLLS_ALONE:
            self.patience *= 2

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _serve(self, count: uint64_t) -> cython.bint:
        """Serve up to `count` ready commands as one group; False after STOP."""
        commands: cython.pointer[Ring] = self.commands.ring
        events: cython.pointer[Ring] = self.events.ring
        shared: cython.pointer[Shared] = self.memory.shared
        command: cython.pointer[Command]
        head: cython.pointer[Event]
        heads: uint64_t[64]
        head_count: cython.int = 0
        position: uint64_t
        start: uint64_t
        matched_ns: int64_t
        index: cython.int
        running: cython.bint = True
        dequeued_ns: int64_t = self.looked_ns
        books: BooksPtr = cython.address(self.engine.books)
        slots: cython.pointer[Command] = cython.cast(cython.pointer[Command], commands.slots)
        ahead = cython.declare(Foresight)
        end: uint64_t
        looks_ahead: cython.bint
        # All at once, not one after another: each is on a line that the gateway's CPU has.
        for position in range(self.command_head, self.command_head + count):
            prefetch_read(ring_slot(commands, position))
        if self.journaled:
            count = self._record(count)
        end = self.command_head + count
        looks_ahead = count > 1 and foresight_pays(books)
        if looks_ahead:
            memset(cython.address(ahead), 0, cython.sizeof(Foresight))
            foresee_first(
                books, cython.address(ahead), slots, commands.mask, self.command_head, end
            )
        for position in range(self.command_head, end):
            if looks_ahead:
                foresee(books, cython.address(ahead), slots, commands.mask, position, end)
            command = cython.cast(cython.pointer[Command], ring_slot(commands, position))
            # Room for a head, so that it can be stamped below; the engine asks for the rest.
            self._wait_for_room(1)
            start = self.window.next
            if command.kind < _FIRST_READ:
                if not self.engine.execute(command, cython.address(self.window)):
                    self._publish_events()
                    self._wait_for_room(1)
                    while not self.engine.resume(cython.address(self.window)):
                        self._publish_events()
                        self._wait_for_room(1)
                else:
                    heads[head_count] = start
                    head_count += 1
                passing(MATCHED)
                if command.kind == _SNAPSHOT_MARK:
                    self._copy_image()
            elif command.kind == _DEPTH:
                self._reply_depth(command)
            elif command.kind == _FENCE:
                self._emit(_EVENT_FENCE).order_id = command.order_id
            elif command.kind == _IMPACT:
                self._reply_impact(command)
            elif command.kind == _STOP:
                self._emit(_EVENT_STOPPED)
                running = False
        # Whoever waits for the events looks at this line all the time: it takes a while to get it
        # back.
        prefetch_write(cython.address(events.tail))
        matched_ns = stamp_ns(cython.address(self.clock))
        self.looked_ns = matched_ns
        if matched_ns < dequeued_ns:
            # The counter's rate was corrected in between.
            dequeued_ns = matched_ns
        for index in range(head_count):
            # What had to be published early, for want of room, belongs to the gateway already.
            if heads[index] >= events.tail:
                head = cython.address(self.window.base[heads[index] & self.window.mask])
                head.leaves_lots = matched_ns
                head.spare = cython.cast(uint32_t, matched_ns - dequeued_ns)
        store_relaxed(cython.address(shared.matched_seq), self.engine.books.state.wal_seq)
        # Released first: the bell that rings for the events also says that commands have room.
        self.command_head += count
        ring_release(commands, self.command_head)
        self._publish_events()
        return running

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _record(self, count: uint64_t) -> uint64_t:
        """Hand the group's records to the journal; returns how many commands the group has then."""
        commands: cython.pointer[Ring] = self.commands.ring
        journal: cython.pointer[Ring] = self.journal.ring
        command: cython.pointer[Command]
        slot: cython.pointer[JournalSlot]
        taken: uint64_t
        wal_seq: uint64_t = self.engine.books.state.wal_seq
        next_position: uint64_t = self.journal_next
        for taken in range(count):
            command = cython.cast(
                cython.pointer[Command], ring_slot(commands, self.command_head + taken)
            )
            if command.kind >= _FIRST_READ:
                continue
            if (wal_seq + 1) % _CHECKPOINT_INTERVAL == 0 and taken > 0:
                # Its record carries the digests of now; they are not known before the group is
                # executed.
                count = taken
                break
            if ring_room(journal, next_position, 1) == 0:
                if taken > 0:
                    count = taken
                    break
                self._wait_for_journal(next_position)
            wal_seq += 1
            slot = cython.cast(cython.pointer[JournalSlot], ring_slot(journal, next_position))
            slot.wal_seq = wal_seq
            slot.state_digest = self.engine.books.state.state_digest
            slot.event_digest = self.engine.books.state.event_digest
            slot.event_seq = self.engine.books.state.event_seq
            slot.command = command[0]
            next_position += 1
        if next_position != self.journal_next:
            self.journal_next = next_position
            ring_publish(journal, next_position)
            doorbell_ring(cython.address(self.memory.shared.journal_bell))
            passing(RECORDED)
        return count

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _wait_for_journal(self, next_position: uint64_t) -> cython.void:
        """Wait until the journal ring has room; the disk decides how long."""
        while ring_room(self.journal.ring, next_position, 1) == 0:
            self._pause()

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _wait_for_room(self, wanted: uint64_t) -> cython.void:
        """Make the event window as wide as the ring has room; waits for at least one slot."""
        room: uint64_t = ring_room(self.events.ring, self.window.next, wanted)
        while room == 0:
            # What is finished must be visible, or the gateway has nothing to make room with.
            self._publish_events()
            self._pause()
            room = ring_room(self.events.ring, self.window.next, wanted)
        self.window.limit = self.window.next + room

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _publish_events(self) -> cython.void:
        ahead: uint64_t
        if self.events.ring.tail != self.window.next:
            ring_publish(self.events.ring, self.window.next)
            doorbell_ring(cython.address(self.memory.shared.gateway_bell))
            # A lap ago the other side read these slots: get them while there is nothing to do.
            for ahead in range(self.window.next, self.window.next + _AHEAD):
                prefetch_write(ring_slot(self.events.ring, ahead))

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _pause(self) -> cython.void:
        """Wait a little for another thread: back-pressure, not the normal way."""
        polls: cython.int
        if self.poll_mode == _BUSY:
            for polls in range(_YIELD_POLLS):
                cpu_relax()
            yield_cpu()
        else:
            # Nobody rings for room: a bell at each release would wake a matcher that waits for
            # commands.
            doorbell_arm(cython.address(self.memory.shared.matcher_bell))
            doorbell_sleep(cython.address(self.memory.shared.matcher_bell), 50_000)
            doorbell_disarm(cython.address(self.memory.shared.matcher_bell))

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _emit(self, kind: cython.int) -> cython.pointer[Event]:
        """Append a bookkeeping event; room for one was made by the caller."""
        event: cython.pointer[Event] = cython.address(
            self.window.base[self.window.next & self.window.mask]
        )
        memset(event, 0, cython.sizeof(Event))
        event.kind = kind
        event.sequence = self.engine.books.state.wal_seq
        self.window.next += 1
        return event

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _reply_depth(self, command: cython.pointer[Command]) -> cython.void:
        """Copy the book's best levels into the buffer that the command names."""
        buffer: cython.pointer[DepthBuffer] = cython.address(
            self.memory.depth_buffers[command.order_id]
        )
        levels: uint32_t = cython.cast(uint32_t, command.qty_lots)
        event: cython.pointer[Event]
        if levels > DEPTH_LEVELS_MAX:
            levels = DEPTH_LEVELS_MAX
        buffer.state = self.engine.books.state
        buffer.unknown_instrument = export_depth(
            cython.address(self.engine.books),
            command.instrument_id,
            levels,
            buffer.bids,
            cython.address(buffer.bid_count),
            buffer.asks,
            cython.address(buffer.ask_count),
            cython.address(buffer.bid_levels),
            cython.address(buffer.ask_levels),
        )
        buffer.is_halted = export_halted(cython.address(self.engine.books), command.instrument_id)
        event = self._emit(_EVENT_DEPTH_REPLY)
        event.order_id = command.order_id

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _reply_impact(self, command: cython.pointer[Command]) -> cython.void:
        """Count what a mass cancel of a session, or of everybody, would hit."""
        impact: Impact
        books: BooksPtr = cython.address(self.engine.books)
        unknown: uint32_t = export_impact(
            books, cython.cast(uint32_t, command.client_order_id), cython.address(impact)
        )
        event: cython.pointer[Event] = self._emit(_EVENT_IMPACT)
        event.client_order_id = impact.orders
        event.qty_lots = impact.lots
        event.leaves_lots = impact.sessions
        event.reason = impact.is_least
        event.side = export_halted(books, command.instrument_id)
        event.spare = unknown

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _copy_image(self) -> cython.void:
        """Copy the state as of the mark into the memory that the gateway lent."""
        image: cython.pointer[SnapshotImage] = cython.address(self.memory.image)
        books: BooksPtr = cython.address(self.engine.books)
        started_ns: int64_t = mono_ns()
        image.state = self.engine.books.state
        image.order_count = export_orders(books, image.orders, image.order_capacity)
        image.session_count = export_sessions(books, image.sessions, image.session_capacity)
        image.instrument_count = export_instruments(
            books, image.instruments, image.instrument_capacity
        )
        image.pause_ns = mono_ns() - started_ns
        self._wait_for_room(1)
        self._emit(_EVENT_SNAPSHOT_READY)
