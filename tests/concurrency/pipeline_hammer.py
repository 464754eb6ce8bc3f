"""The gateway's side of the real matcher and journal threads, compiled, for one process of a test.

    commands, made before ──► command ring ──► MatchingThread ──► journal ring ──► JournalThread
    events, compared later ◄── event ring ◄────────┘                                     │
                    ▲                                                                    │
                    └────────────────── release gate: durable_seq ◄──────────────────────┘

It does what Gateway and Outbound do with rings, gate and doorbell, in their order and with their
three ways to wait, but without sockets and without the GIL: turn, send, arm, look again, sleep.
`mistake` makes it do one thing wrong, for the proof that ThreadSanitizer notices.
"""

import cython
from cython.cimports.bourse.core.atomics import cpu_relax, load_seq_cst, store_relaxed, yield_cpu
from cython.cimports.bourse.core.parking import doorbell_arm, doorbell_disarm, doorbell_ring
from cython.cimports.bourse.core.records import Command, Event
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
from cython.cimports.bourse.daemon.shared import DepthBuffer, Shared, SharedMemory
from cython.cimports.cpython.bytearray import PyByteArray_AS_STRING
from cython.cimports.cpython.bytes import PyBytes_AS_STRING
from cython.cimports.libc.stdint import int64_t, uint8_t, uint32_t, uint64_t
from cython.cimports.libc.string import memcpy, memset
from cython.cimports.posix.unistd import read

from bourse.domain import (
    CommandKind,
    Durability,
    EventKind,
    OrderType,
    PollMode,
    Reason,
    Side,
)

RELAXED_PUBLISH = 1
RELAXED_RELEASE = 3
EARLY_DEPTH_READ = 4

_RELAXED_PUBLISH = cython.declare(cython.int, RELAXED_PUBLISH)
_RELAXED_RELEASE = cython.declare(cython.int, RELAXED_RELEASE)
_EARLY_DEPTH_READ = cython.declare(cython.int, EARLY_DEPTH_READ)

_MEMORY = cython.declare(cython.int, Durability.MEMORY)
_FSYNC = cython.declare(cython.int, Durability.FSYNC)
_BLOCK = cython.declare(cython.int, PollMode.BLOCK)
_BUSY = cython.declare(cython.int, PollMode.BUSY)
_BUY = cython.declare(cython.int, Side.BUY)
_NEW_ORDER = cython.declare(cython.int, CommandKind.NEW_ORDER)
_CANCEL = cython.declare(cython.int, CommandKind.CANCEL)
_FENCE = cython.declare(cython.int, CommandKind.FENCE)
_STOP = cython.declare(cython.int, CommandKind.STOP)
_DEPTH = cython.declare(cython.int, CommandKind.DEPTH)
_LIMIT = cython.declare(cython.int, OrderType.LIMIT)
_MARKET = cython.declare(cython.int, OrderType.MARKET)
_FOK = cython.declare(cython.int, OrderType.FOK)
_DONE = cython.declare(cython.int, EventKind.DONE)
_CANCELLED = cython.declare(cython.int, Reason.CANCELLED)
_HEAD = cython.declare(cython.int, EventKind.HEAD)
_DEPTH_REPLY = cython.declare(cython.int, EventKind.DEPTH_REPLY)
_EVENT_FENCE = cython.declare(cython.int, EventKind.FENCE)
_SNAPSHOT_READY = cython.declare(cython.int, EventKind.SNAPSHOT_READY)
_STOPPED = cython.declare(cython.int, EventKind.STOPPED)
_EVERYTHING = cython.declare(cython.ulonglong, 2**64 - 1)
_TURN_EVENTS = cython.declare(cython.ulonglong, 8192)
_SPINS = cython.declare(cython.int, 200)
_DEPTH_EVERY = cython.declare(cython.ulonglong, 97)
SESSION_IDS = (2, 3, 4, 5)
_FIRST_SESSION = cython.declare(cython.uint, SESSION_IDS[0])
_SESSIONS = cython.declare(cython.uint, len(SESSION_IDS))


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def shuffled(random: uint64_t) -> uint64_t:
    """The next number of an xorshift generator."""
    random ^= random << 13
    random ^= random >> 7
    random ^= random << 17
    return random


def make_commands(
    seed: cython.ulonglong,
    count: cython.ulonglong,
    live_max: cython.ulonglong,
    price_spread: cython.ulonglong,
    first_id: cython.ulonglong,
    crossing: cython.bint,
) -> tuple[bytes, int]:
    """Commands of four open sessions: rest, cross, cancel, refusals; at most `live_max` live.

    Every new order first cancels the one that is `live_max` ids before it, whether that still lives
    or not. Without `crossing` all orders rest. Returns the commands and the next client order id.
    """
    data: bytearray = bytearray(count * 64)
    command: cython.pointer[Command] = cython.cast(
        cython.pointer[Command], PyByteArray_AS_STRING(data)
    )
    random: uint64_t = seed * 7919 + 362436069
    order_id: uint64_t = first_id
    index: uint64_t
    dice: uint64_t
    is_cancel: cython.bint = True
    for index in range(count):
        random = shuffled(random)
        dice = (random >> 8) % 100
        command.instrument_id = 1
        command.received_ns = 1_700_000_000 + index
        command.session_id = _FIRST_SESSION + order_id % _SESSIONS
        if is_cancel:
            command.kind = _CANCEL
            command.client_order_id = order_id - live_max
            command.session_id = _FIRST_SESSION + cython.cast(
                uint32_t, (order_id - live_max) % _SESSIONS
            )
            is_cancel = False
        elif dice < 3:
            # A refusal of each kind; the order's turn comes again.
            command.kind = _NEW_ORDER
            command.side = 1 + index % 2
            command.order_type = _LIMIT
            command.client_order_id = order_id
            command.price_ticks = 1000
            command.qty_lots = 1
            if dice == 0:
                command.qty_lots = 0
            elif dice == 1:
                command.session_id = 4_000_000
            else:
                command.instrument_id = 77
        else:
            command.kind = _NEW_ORDER
            command.side = 1 + (random >> 40) % 2
            command.order_type = _LIMIT
            if dice < 30 and crossing:
                command.order_type = _MARKET + (random >> 50) % (_FOK - _MARKET + 1)
            command.client_order_id = order_id
            command.qty_lots = 1 + (random >> 30) % 50
            command.price_ticks = 100_000 + (random >> 20) % price_spread
            # Half of the orders keep to their own side of the middle and rest there.
            if dice & 1 or not crossing:
                if command.side == _BUY:
                    command.price_ticks -= price_spread
                else:
                    command.price_ticks += price_spread
            order_id += 1
            is_cancel = True
        command += 1
    return bytes(data), order_id


@cython.final
@cython.cclass
class StandIn:
    """Producer of the command ring, consumer of the event ring; one thread calls run()."""

    commands: RingMemory
    events: RingMemory
    memory: SharedMemory
    eventfd: cython.int
    durability: cython.int
    poll_mode: cython.int
    command_next: uint64_t
    event_head: uint64_t
    wal_seq = cython.declare(uint64_t, visibility="readonly")  # of the last head that passed
    depth_next: uint64_t
    depth_waits: cython.bint
    mistake = cython.declare(cython.int, visibility="public")
    kept: bytearray
    kept_room: uint64_t
    kept_bytes = cython.declare(uint64_t, visibility="readonly")
    stopped = cython.declare(cython.bint, visibility="readonly")
    errors = cython.declare(uint64_t, visibility="readonly")
    sleeps = cython.declare(uint64_t, visibility="readonly")
    full_rings = cython.declare(uint64_t, visibility="readonly")
    shut_gates = cython.declare(uint64_t, visibility="readonly")
    depth_replies = cython.declare(uint64_t, visibility="readonly")
    fences = cython.declare(uint64_t, visibility="readonly")
    cancelled = cython.declare(uint64_t, visibility="readonly")
    snapshots = cython.declare(uint64_t, visibility="readonly")
    checksum = cython.declare(uint64_t, visibility="readonly")

    def __init__(
        self,
        commands: RingMemory,
        events: RingMemory,
        memory: SharedMemory,
        eventfd: cython.int,
        durability: cython.int,
        poll_mode: cython.int,
        kept_room: cython.ulonglong,
    ) -> None:
        """`eventfd` blocks when it is read; events are kept up to `kept_room` bytes."""
        if commands is None or events is None or memory is None:
            raise TypeError("two rings and the shared memory are needed")
        self.commands = commands
        self.events = events
        self.memory = memory
        self.eventfd = eventfd
        self.durability = durability
        self.poll_mode = poll_mode
        self.kept = bytearray(kept_room)
        self.kept_room = kept_room

    @property
    def kept_events(self) -> bytes:
        """Heads and numbered events as they passed, without the matcher's time stamps."""
        return bytes(self.kept[: self.kept_bytes])

    def run(self, data: bytes) -> None:
        """Send these commands; return when the events of all of them have passed the gate.

        The last one must be a FENCE or STOP: a head passes before its command's other events.
        """
        count: uint64_t = len(data) // 64
        source: cython.pointer[Command] = cython.cast(
            cython.pointer[Command], PyBytes_AS_STRING(data)
        )
        kept: cython.pointer[uint8_t] = cython.cast(
            cython.pointer[uint8_t], PyByteArray_AS_STRING(self.kept)
        )
        with cython.nogil:
            self._run(source, count, kept)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _run(
        self, source: cython.pointer[Command], count: uint64_t, kept: cython.pointer[uint8_t]
    ) -> cython.void:
        shared: cython.pointer[Shared] = self.memory.shared
        sent: uint64_t = 0
        index: uint64_t
        target: uint64_t = self.fences
        stops: cython.bint = False
        worked: cython.bint
        polls: cython.int = 0
        counter: uint64_t
        for index in range(count):
            if source[index].kind == _FENCE:
                target += 1
            elif source[index].kind == _STOP:
                stops = True
        while self.fences < target or (stops and not self.stopped) or self.depth_waits:
            worked = self._turn(kept)
            index = self._send(source, sent, count)
            if index != sent:
                sent = index
                worked = True
            if worked:
                polls = 0
                continue
            if load_seq_cst(cython.address(shared.failed_errno)):
                self.errors += 1
                return
            if self.poll_mode != _BLOCK:
                polls += 1
                cpu_relax()
                if polls < _SPINS or self.poll_mode == _BUSY:
                    if polls % 16 == 0:
                        yield_cpu()
                    continue
                polls = 0
            doorbell_arm(cython.address(shared.gateway_bell))
            if not self._has_work() and not load_seq_cst(cython.address(shared.failed_errno)):
                self.sleeps += 1
                read(self.eventfd, cython.address(counter), 8)
            doorbell_disarm(cython.address(shared.gateway_bell))

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _send(self, source: cython.pointer[Command], sent: uint64_t, count: uint64_t) -> uint64_t:
        """Gateway._decode: fill what room there is, publish, ring; returns the new `sent`."""
        ring: cython.pointer[Ring] = self.commands.ring
        room: uint64_t
        next_position: uint64_t = self.command_next
        if sent == count:
            return sent
        room = ring_room(ring, next_position, count - sent)
        if room == 0:
            self.full_rings += 1
        while room and sent < count:
            if not self.depth_waits and next_position % _DEPTH_EVERY == 50:
                self._write_depth(ring, next_position)
            else:
                memcpy(ring_slot(ring, next_position), cython.address(source[sent]), 64)
                sent += 1
            next_position += 1
            room -= 1
        if next_position != self.command_next:
            self.command_next = next_position
            if self.mistake == _RELAXED_PUBLISH:
                store_relaxed(cython.address(ring.tail), next_position)
            else:
                ring_publish(ring, next_position)
            doorbell_ring(cython.address(self.memory.shared.matcher_bell))
        return sent

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _write_depth(self, ring: cython.pointer[Ring], position: uint64_t) -> cython.void:
        """Desk: a depth read, one at a time, the four buffers in turn."""
        command: cython.pointer[Command] = cython.cast(
            cython.pointer[Command], ring_slot(ring, position)
        )
        memset(command, 0, 64)
        command.kind = _DEPTH
        command.instrument_id = 1
        command.order_id = self.depth_next
        command.qty_lots = 20
        self.depth_next = (self.depth_next + 1) % 4
        self.depth_waits = True

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _released(self) -> uint64_t:
        """Outbound.released."""
        if self.durability == _FSYNC:
            return load_seq_cst(cython.address(self.memory.shared.durable_seq))
        if self.durability == _MEMORY:
            return _EVERYTHING
        return load_seq_cst(cython.address(self.memory.shared.written_seq))

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _has_work(self) -> cython.bint:
        """Outbound.has_work."""
        event: cython.pointer[Event]
        if ring_ready_now(self.events.ring, self.event_head) == 0:
            return False
        event = cython.cast(cython.pointer[Event], ring_slot(self.events.ring, self.event_head))
        return event.kind != _HEAD or event.sequence <= self._released()

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _turn(self, kept: cython.pointer[uint8_t]) -> cython.bint:
        """Outbound.turn: let through what is released; True when anything was."""
        ring: cython.pointer[Ring] = self.events.ring
        event: cython.pointer[Event]
        copy: cython.pointer[Event]
        start: uint64_t = self.event_head
        ready: uint64_t = ring_ready(ring, start)
        released: uint64_t
        if self.mistake == _EARLY_DEPTH_READ:
            self.checksum += self.memory.depth_buffers[0].state.state_digest
        if ready == 0:
            return False
        if ready > ring.count:
            self.errors += 1
        released = self._released()
        ready = min(ready, _TURN_EVENTS)
        while self.event_head < start + ready:
            event = cython.cast(cython.pointer[Event], ring_slot(ring, self.event_head))
            if event.kind == _HEAD:
                if event.sequence > released:
                    self.shut_gates += 1
                    break
                if event.sequence != self.wal_seq + 1:
                    self.errors += 1
                self.wal_seq = event.sequence
            if event.kind == _DONE and event.reason == _CANCELLED:
                self.cancelled += 1
            if event.kind <= _HEAD:
                if self.kept_bytes + 64 <= self.kept_room:
                    copy = cython.cast(cython.pointer[Event], kept + self.kept_bytes)
                    copy[0] = event[0]
                    if event.kind == _HEAD:
                        copy.leaves_lots = 0
                        copy.spare = 0
                    self.kept_bytes += 64
            elif event.kind == _DEPTH_REPLY:
                self._read_depth(event.order_id)
            elif event.kind == _EVENT_FENCE:
                self.fences += 1
            elif event.kind == _SNAPSHOT_READY:
                self._read_image()
            elif event.kind == _STOPPED:
                self.stopped = True
            self.event_head += 1
        if self.event_head == start:
            return False
        if self.mistake == _RELAXED_RELEASE:
            store_relaxed(cython.address(ring.head), self.event_head)
        else:
            ring_release(ring, self.event_head)
        return True

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _read_depth(self, which: uint64_t) -> cython.void:
        """SharedMemory.depth_reply: everything that the matcher has written."""
        buffer: cython.pointer[DepthBuffer] = cython.address(self.memory.depth_buffers[which])
        index: uint32_t
        worse: int64_t
        self.depth_waits = False
        self.depth_replies += 1
        self.checksum += buffer.state.state_digest + buffer.bid_levels + buffer.ask_levels
        if buffer.bid_count > 20 or buffer.ask_count > 20 or buffer.unknown_instrument:
            self.errors += 1
            return
        for index in range(buffer.bid_count):
            worse = buffer.bids[index].price_ticks
            if index and worse >= buffer.bids[index - 1].price_ticks:
                self.errors += 1
        for index in range(buffer.ask_count):
            worse = buffer.asks[index].price_ticks
            if index and worse <= buffer.asks[index - 1].price_ticks:
                self.errors += 1
        if (
            buffer.bid_count
            and buffer.ask_count
            and buffer.bids[0].price_ticks >= buffer.asks[0].price_ticks
        ):
            self.errors += 1

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _read_image(self) -> cython.void:
        """SharedMemory.take_image: everything that the matcher has copied."""
        index: uint64_t
        self.snapshots += 1
        if self.memory.image.order_count != self.memory.image.state.live_order_count:
            self.errors += 1
            return
        for index in range(self.memory.image.order_count):
            if self.memory.image.orders[index].leaves_lots == 0:
                self.errors += 1
            self.checksum += self.memory.image.orders[index].order_id
