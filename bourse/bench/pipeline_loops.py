"""Loops between two CPUs: a caller of the matcher's rings, a bare ping-pong, and a ring alone.

    Caller ── command ring ──► MatchingThread ── event ring ──► Caller
    Ball   ── one cache line, there and back, by the same two threads on the same two CPUs

The caller stands where the gateway does. It keeps what the events say in a log; `verify()` compares
that with what must have been said, to the last field, while the clock stands still. Its digest of
the events is computed here from docs/matching.md and shares no code with the engine's. Every loop
runs without the GIL and ends when the other side is silent for SILENCE_NS. Compiled only.
"""

from __future__ import annotations

import cython
from cython.cimports.bourse.bench.sockets import monotonic_ns
from cython.cimports.bourse.bench.ticks import ticks
from cython.cimports.bourse.core.atomics import (
    cpu_relax,
    load_acquire,
    prefetch_write,
    store_release,
)
from cython.cimports.bourse.core.parking import doorbell_ring
from cython.cimports.bourse.core.records import Command, Event
from cython.cimports.bourse.core.ring import (
    Ring,
    RingMemory,
    ring_publish,
    ring_ready,
    ring_release,
    ring_room,
    ring_slot,
)
from cython.cimports.bourse.daemon.shared import SharedMemory
from cython.cimports.libc.stdint import int64_t, uint32_t, uint64_t
from cython.cimports.libc.stdlib import free, malloc
from cython.cimports.libc.string import memset
from cython.cimports.posix.stdlib import posix_memalign

from bourse.domain import CommandKind, EventKind, OrderType, Reason, Side

SILENCE_NS = 5_000_000_000
"""A side that hears nothing for so long gives up."""

PRICE_TICKS = 100
SESSION_ID = 2
EVENTS_OF_MARKET = 3
"""Head, Accepted, Done (no liquidity)."""
EVENTS_OF_CROSS = 7
"""Head, Accepted; Head, Accepted, Trade, Done of the maker, Done of the taker."""

DROPPED = 1
DOUBLED = 2
QUANTITY_CHANGED = 3

_EVENTS_OF_MARKET = cython.declare(cython.int, EVENTS_OF_MARKET)
_EVENTS_OF_CROSS = cython.declare(cython.int, EVENTS_OF_CROSS)
_SILENCE_NS = cython.declare(int64_t, SILENCE_NS)
_POLLS_PER_LOOK = cython.declare(cython.longlong, 1 << 20)
_PRICE = cython.declare(int64_t, PRICE_TICKS)
_SESSION = cython.declare(uint32_t, SESSION_ID)
_DROPPED = cython.declare(cython.int, DROPPED)
_DOUBLED = cython.declare(cython.int, DOUBLED)
_NEW_ORDER = cython.declare(cython.int, CommandKind.NEW_ORDER)
_STOP = cython.declare(cython.int, CommandKind.STOP)
_LIMIT = cython.declare(cython.int, OrderType.LIMIT)
_MARKET = cython.declare(cython.int, OrderType.MARKET)
_BUY = cython.declare(cython.int, Side.BUY)
_SELL = cython.declare(cython.int, Side.SELL)
_ACCEPTED = cython.declare(cython.int, EventKind.ACCEPTED)
_TRADE = cython.declare(cython.int, EventKind.TRADE)
_DONE = cython.declare(cython.int, EventKind.DONE)
_HEAD = cython.declare(cython.int, EventKind.HEAD)
_FILLED = cython.declare(cython.int, Reason.FILLED)
_NO_LIQUIDITY = cython.declare(cython.int, Reason.NO_LIQUIDITY)
_REJECTS = cython.declare(cython.int, Reason.ZERO_QUANTITY)
# The primes of docs/matching.md, section 8.
_P1 = cython.declare(uint64_t, 0x9E3779B185EBCA87)
_P2 = cython.declare(uint64_t, 0xC2B2AE3D27D4EB4F)
_P3 = cython.declare(uint64_t, 0x165667B19E3779F9)
_P4 = cython.declare(uint64_t, 0x85EBCA77C2B2AE63)
_P5 = cython.declare(uint64_t, 0x27D4EB2F165667C5)

EventPtr = cython.typedef(cython.pointer[Event])
CommandPtr = cython.typedef(cython.pointer[Command])
RingPtr = cython.typedef(cython.pointer[Ring])
Uint64Ptr = cython.typedef(cython.pointer[uint64_t])


# --- Ping-pong ------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _await_value(line: Uint64Ptr, value: uint64_t, relaxed: cython.bint) -> cython.bint:
    """Spin until the line holds a value; false after SILENCE_NS."""
    polls: cython.longlong = 0
    deadline_ns: int64_t = 0
    while load_acquire(line) != value:
        if relaxed:
            cpu_relax()
        polls += 1
        if polls == _POLLS_PER_LOOK:
            polls = 0
            if deadline_ns == 0:
                deadline_ns = monotonic_ns() + _SILENCE_NS
            elif monotonic_ns() > deadline_ns:
                return False
    return True


@cython.final
@cython.cclass
class Ball:
    """One cache line that two threads write in turn; both call with the same arguments in order."""

    line: Uint64Ptr
    served: uint64_t
    answered: uint64_t

    def __init__(self) -> None:
        memory: cython.p_void = cython.NULL
        if self.line != cython.NULL:
            raise RuntimeError("a ball is made once")
        # A line and the one that the prefetcher takes with it, alone.
        if posix_memalign(cython.address(memory), 256, 256) != 0:
            raise MemoryError
        memset(memory, 0, 256)
        self.line = cython.cast(Uint64Ptr, memory)

    def __dealloc__(self):
        free(self.line)

    def serve(self, count: cython.longlong, relaxed: cython.bint) -> float:
        """Bounce it `count` times; return nanoseconds of one there and back, below 0 for silence.

        Args:
            count: how often.
            relaxed: whether both sides pause between two looks.
        """
        number: cython.longlong
        started_ns: int64_t
        heard: cython.bint = True
        value: uint64_t = self.served
        with cython.nogil:
            started_ns = monotonic_ns()
            for number in range(count):
                store_release(self.line, value + 1)
                value += 2
                if not _await_value(self.line, value, relaxed):
                    heard = False
                    break
            started_ns = monotonic_ns() - started_ns
        self.served = value
        return started_ns / cython.cast(cython.double, count) if heard else -1.0

    def answer(self, count: cython.longlong, relaxed: cython.bint) -> bool:
        """Be the other side; false for silence."""
        number: cython.longlong
        heard: cython.bint = True
        value: uint64_t = self.answered
        with cython.nogil:
            for number in range(count):
                if not _await_value(self.line, value + 1, relaxed):
                    heard = False
                    break
                value += 2
                store_release(self.line, value)
        self.answered = value
        return heard


# --- A ring alone ---------------------------------------------------------------------------------


def push_and_pop(memory: RingMemory, count: cython.longlong) -> tuple[float, int]:
    """Push a record and pop it, on one thread; return nanoseconds of both and the records' sum.

    The record's first word counts from 0; all 64 bytes are written, and the word is read back.

    Args:
        memory: an empty ring of 64-byte slots.
        count: how often.
    """
    ring: RingPtr = memory.ring
    slot: CommandPtr
    command = cython.declare(Command)
    position: uint64_t = ring.tail
    head: uint64_t = ring.head
    number: cython.longlong
    total: uint64_t = 0
    started_ns: int64_t
    if ring.slot_bytes != cython.sizeof(Command):
        raise ValueError("a ring of 64-byte slots is needed")
    with cython.nogil:
        memset(cython.address(command), 0, cython.sizeof(Command))
        started_ns = monotonic_ns()
        for number in range(count):
            if ring_room(ring, position, 1) == 0:
                break
            slot = cython.cast(CommandPtr, ring_slot(ring, position))
            slot[0] = command
            # Into the slot: a copy of what has just been changed would wait for the change.
            slot.client_order_id = number
            position += 1
            ring_publish(ring, position)
            if ring_ready(ring, head) == 0:
                break
            total += cython.cast(CommandPtr, ring_slot(ring, head)).client_order_id
            head += 1
            ring_release(ring, head)
        started_ns = monotonic_ns() - started_ns
    return started_ns / cython.cast(cython.double, count), total


# --- Through the matcher --------------------------------------------------------------------------


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _order(
    slot: CommandPtr, side: cython.int, order_type: cython.int, number: uint64_t
) -> cython.void:
    memset(slot, 0, cython.sizeof(Command))
    slot.kind = _NEW_ORDER
    slot.side = side
    slot.order_type = order_type
    slot.instrument_id = 1
    slot.session_id = _SESSION
    slot.client_order_id = number
    slot.price_ticks = _PRICE if order_type == _LIMIT else 0
    slot.qty_lots = 1


@cython.final
@cython.cclass
class Caller:
    """The measuring side: sends, awaits, keeps what it heard, and judges it afterwards."""

    commands: RingMemory
    events: RingMemory
    memory: SharedMemory
    crossing: cython.bint
    log: EventPtr
    log_capacity: cython.longlong
    log_count: cython.longlong
    latencies: cython.pointer[int64_t]
    latency_capacity: cython.longlong
    latency_count: cython.longlong
    next_position: uint64_t
    head: uint64_t
    order_number: uint64_t  # of the last order sent; also the engine's number of it
    # Fault to inject between the event ring and the log.
    fault: cython.int
    fault_at: cython.longlong
    heard: cython.longlong  # events read, all in all
    # What verify() expects and counts.
    place: cython.int  # of the next event within its trip
    verified_order: uint64_t
    wal_seq: uint64_t
    sequence: uint64_t
    events_verified: cython.longlong
    gaps: cython.longlong
    surprises: cython.longlong
    first_surprise: cython.longlong
    rejects: cython.longlong
    bought: uint64_t
    sold: uint64_t
    digest: uint64_t

    def __init__(
        self,
        commands: RingMemory,
        events: RingMemory,
        memory: SharedMemory,
        crossing: cython.bint,
        trips_max: cython.longlong,
        latencies_max: cython.longlong,
        wal_seq: cython.ulonglong,
        fault: cython.int = 0,
        fault_at: cython.longlong = 0,
    ) -> None:
        """Prepare.

        Args:
            commands: command ring of the matcher.
            events: event ring of the matcher.
            memory: where the matcher's bell is.
            crossing: rest one and cross it; else one Market order on an empty book.
            trips_max: round trips between two calls of verify().
            latencies_max: round trips that are timed one by one in all.
            wal_seq: of the last command that the engine has executed.
            fault: 0, DROPPED, DOUBLED or QUANTITY_CHANGED: what happens to one event.
            fault_at: which event, from 1.
        """
        if self.log != cython.NULL:
            raise RuntimeError("a caller is made once")
        self.commands = commands
        self.events = events
        self.memory = memory
        self.crossing = crossing
        self.fault = fault
        self.fault_at = fault_at
        self.wal_seq = wal_seq
        self.next_position = commands.ring.tail
        self.head = events.ring.head
        self.log_capacity = trips_max * EVENTS_OF_CROSS + 1
        self.latency_capacity = latencies_max
        self.log = cython.cast(EventPtr, malloc(self.log_capacity * cython.sizeof(Event)))
        self.latencies = cython.cast(
            cython.pointer[int64_t], malloc((latencies_max + 1) * cython.sizeof(int64_t))
        )
        if self.log == cython.NULL or self.latencies == cython.NULL:
            raise MemoryError
        memset(self.log, 0, self.log_capacity * cython.sizeof(Event))
        memset(self.latencies, 0, (latencies_max + 1) * cython.sizeof(int64_t))

    def __dealloc__(self):
        free(self.log)
        free(self.latencies)

    def round_trips(
        self, count: cython.longlong, stamped: cython.bint, tick_ns: cython.double
    ) -> float:
        """Make round trips one after another; return nanoseconds of one, below 0 for silence.

        Args:
            count: how many.
            stamped: whether each is timed by itself, which takes some nanoseconds of its own.
            tick_ns: length of a tick.

        Raises:
            ValueError: there is no room for so many; call verify() first.
        """
        started_ns: int64_t
        heard: cython.bint
        if self.log_count + count * EVENTS_OF_CROSS >= self.log_capacity:
            raise ValueError("verify() what was heard first")
        if stamped and self.latency_count + count > self.latency_capacity:
            raise ValueError(f"more than {self.latency_capacity} trips timed one by one")
        with cython.nogil:
            started_ns = monotonic_ns()
            heard = self._trips(count, stamped, tick_ns)
            started_ns = monotonic_ns() - started_ns
        return started_ns / cython.cast(cython.double, count) if heard else -1.0

    def stop(self) -> bool:
        """Send the matcher the command to stop and await its answer; false for silence."""
        heard: cython.bint
        with cython.nogil:
            heard = self._stop()
        return heard

    def verify(self) -> None:
        """Compare the log with what must have been said, then empty it."""
        with cython.nogil:
            self._verify()

    def latencies_ns(self) -> bytes:
        """Return the trips timed one by one: native 64-bit integers."""
        return cython.cast(cython.p_char, self.latencies)[
            : self.latency_count * cython.sizeof(int64_t)
        ]

    def counts(self) -> dict[str, int]:
        """Return everything that verify() counted."""
        return {
            "events": self.events_verified,
            "gaps": self.gaps,
            "surprises": self.surprises,
            "first_surprise": self.first_surprise,
            "rejects": self.rejects,
            "bought_lots": self.bought,
            "sold_lots": self.sold,
            "digest": self.digest,
            "orders": self.order_number,
        }

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _publish(self, position: uint64_t) -> cython.void:
        self.next_position = position
        ring_publish(self.commands.ring, position)
        doorbell_ring(cython.address(self.memory.shared.matcher_bell))
        prefetch_write(ring_slot(self.commands.ring, position))
        prefetch_write(ring_slot(self.commands.ring, position + 1))

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _await(self, tail: uint64_t) -> cython.bint:
        """Spin until the event ring's tail is there; false for silence."""
        ring: RingPtr = self.events.ring
        polls: cython.longlong = 0
        deadline_ns: int64_t = 0
        while load_acquire(cython.address(ring.tail)) < tail:
            cpu_relax()
            polls += 1
            if polls == _POLLS_PER_LOOK:
                polls = 0
                if deadline_ns == 0:
                    deadline_ns = monotonic_ns() + _SILENCE_NS
                elif monotonic_ns() > deadline_ns:
                    return False
        return True

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _trips(
        self, count: cython.longlong, stamped: cython.bint, tick_ns: cython.double
    ) -> cython.bint:
        commands: RingPtr = self.commands.ring
        events: RingPtr = self.events.ring
        expected: cython.int = _EVENTS_OF_CROSS if self.crossing else _EVENTS_OF_MARKET
        trip: cython.longlong
        index: cython.int
        position: uint64_t
        now: uint64_t
        at: uint64_t = ticks()
        for trip in range(count):
            position = self.next_position
            if ring_room(commands, position, 2) < 2:
                return False
            if self.crossing:
                _order(
                    cython.cast(CommandPtr, ring_slot(commands, position)),
                    _SELL,
                    _LIMIT,
                    self.order_number + 1,
                )
                _order(
                    cython.cast(CommandPtr, ring_slot(commands, position + 1)),
                    _BUY,
                    _LIMIT,
                    self.order_number + 2,
                )
                self.order_number += 2
                self._publish(position + 2)
            else:
                self.order_number += 1
                _order(
                    cython.cast(CommandPtr, ring_slot(commands, position)),
                    _BUY,
                    _MARKET,
                    self.order_number,
                )
                self._publish(position + 1)
            if not self._await(self.head + expected):
                return False
            for index in range(expected):
                self._hear(cython.cast(EventPtr, ring_slot(events, self.head + index)))
            self.head += expected
            ring_release(events, self.head)
            if stamped:
                now = ticks()
                self.latencies[self.latency_count] = cython.cast(int64_t, (now - at) * tick_ns)
                self.latency_count += 1
                at = now
        return True

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _hear(self, event: EventPtr) -> cython.void:
        """Keep an event, or do to it what the test wants."""
        self.heard += 1
        self.log[self.log_count] = event[0]
        self.log_count += 1
        if self.heard == self.fault_at:
            if self.fault == _DROPPED:
                self.log_count -= 1
            elif self.fault == _DOUBLED:
                self.log[self.log_count] = event[0]
                self.log_count += 1
            else:
                self.log[self.log_count - 1].qty_lots += 1

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _stop(self) -> cython.bint:
        commands: RingPtr = self.commands.ring
        slot: CommandPtr
        if ring_room(commands, self.next_position, 1) == 0:
            return False
        slot = cython.cast(CommandPtr, ring_slot(commands, self.next_position))
        memset(slot, 0, cython.sizeof(Command))
        slot.kind = _STOP
        self._publish(self.next_position + 1)
        if not self._await(self.head + 1):
            return False
        self.head += 1
        ring_release(self.events.ring, self.head)
        return True

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _expect(self, place: cython.int, want: EventPtr) -> cython.void:
        """Fill in the event that stands at a place of a trip."""
        order: uint64_t
        memset(want, 0, cython.sizeof(Event))
        want.instrument_id = 1
        want.session_id = _SESSION
        order = self.verified_order + 1
        want.side = _BUY
        want.qty_lots = 1
        if self.crossing:
            want.price_ticks = _PRICE
            if place >= 2:
                order += 1
            else:
                want.side = _SELL
        if place == 0 or (self.crossing and place == 2):
            want.kind = _HEAD
            want.command_kind = _NEW_ORDER
            want.sequence = self.wal_seq + 1
        else:
            want.kind = _ACCEPTED
            want.sequence = self.sequence + 1
            if self.crossing and (place == 4 or place == 5):  # about the maker
                order -= 1
                want.side = _SELL
            if self.crossing and place == 4:
                want.kind = _TRADE
            elif self.crossing and place >= 5:
                want.kind = _DONE
                want.reason = _FILLED
                want.qty_lots = 0
            elif not self.crossing and place == 2:
                want.kind = _DONE
                want.reason = _NO_LIQUIDITY
        want.order_id = order
        want.client_order_id = order

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _verify(self) -> cython.void:
        want = cython.declare(Event)
        event: EventPtr
        index: cython.longlong
        word: uint64_t
        places: cython.int = _EVENTS_OF_CROSS if self.crossing else _EVENTS_OF_MARKET
        for index in range(self.log_count):
            event = cython.address(self.log[index])
            self.events_verified += 1
            self._expect(self.place, cython.address(want))
            # A head carries the matcher's stamps there.
            if event.kind != _HEAD and event.leaves_lots != want.leaves_lots:
                want.kind = 0
            if (
                event.kind != want.kind
                or event.reason != want.reason
                or event.side != want.side
                or event.command_kind != want.command_kind
                or event.session_id != want.session_id
                or event.sequence != want.sequence
                or event.client_order_id != want.client_order_id
                or event.order_id != want.order_id
                or event.price_ticks != want.price_ticks
                or event.qty_lots != want.qty_lots
                or event.instrument_id != want.instrument_id
            ):
                self.surprises += 1
                if self.first_surprise == 0:
                    self.first_surprise = self.events_verified
            if event.kind == _HEAD:
                self.wal_seq = event.sequence
            else:
                if event.sequence != self.sequence + 1:
                    self.gaps += 1
                self.sequence = event.sequence
                word = event.kind | event.reason << 8 | event.side << 16
                word |= cython.cast(uint64_t, event.instrument_id) << 32
                word = (
                    word * _P1
                    + event.order_id * _P2
                    + cython.cast(uint64_t, event.price_ticks) * _P3
                    + event.qty_lots * _P4
                )
                word ^= self.digest
                self.digest = (word << 29 | word >> 35) * _P1 + _P5
            if event.reason >= _REJECTS:
                self.rejects += 1
            if event.kind == _TRADE:
                self.sold += event.qty_lots
            elif event.kind == _DONE and event.side == _BUY:
                self.bought += 1 - event.qty_lots  # every order is for one lot
            self.place += 1
            if self.place == places:
                self.place = 0
                self.verified_order += 2 if self.crossing else 1
        self.log_count = 0
