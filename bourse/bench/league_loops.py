"""The two threads of `mixed-league`: one executes messages, the other reads and checks its reports.

    commands ──► Engine.execute() ──► window ──► event ring ──► reader: counts, compares, digests

The engine writes a message's events into a window that stays in its first cache; from there they go
into the ring by stores past the caches (passing.pxd). They are published every PUBLISH_EVERY
messages, as the daemon's matcher does after a group; when the ring is full the engine's thread
waits. The clock runs from before the first message until the reader has checked the last event.
Neither thread holds the GIL. Compiled only.
"""

from __future__ import annotations

import cython
from cython.cimports.bourse.bench.sockets import monotonic_ns
from cython.cimports.bourse.core.atomics import (
    cpu_relax,
    load_acquire,
    store_release,
    yield_cpu,
)
from cython.cimports.bourse.core.digests import P1, P2, P3, P4, P5
from cython.cimports.bourse.core.engine import Engine
from cython.cimports.bourse.core.foresight import Foresight, foresee, foresight_pays
from cython.cimports.bourse.core.indexes import ALL_ONES
from cython.cimports.bourse.core.passing import pass_end, pass_line
from cython.cimports.bourse.core.records import Command, Event, EventWindow
from cython.cimports.bourse.core.ring import Ring, RingMemory, ring_ready, ring_release, ring_room
from cython.cimports.cpython.bytes import PyBytes_AS_STRING
from cython.cimports.libc.stdint import int64_t, uint64_t
from cython.cimports.libc.string import memset

from bourse.domain import EventKind, Side

PUBLISH_EVERY = 64
"""Messages that are published together."""

PUT_OFF_POLLS = 2_000
"""Polls in vain before a thread lets another one have its CPU."""

_PUBLISH_EVERY = cython.declare(cython.longlong, PUBLISH_EVERY)
_PUT_OFF_POLLS = cython.declare(cython.int, PUT_OFF_POLLS)
_READ_MAX = cython.declare(uint64_t, 256)

_ACCEPTED = cython.declare(cython.int, EventKind.ACCEPTED)
_TRADE = cython.declare(cython.int, EventKind.TRADE)
_DONE = cython.declare(cython.int, EventKind.DONE)
_REPLACED = cython.declare(cython.int, EventKind.REPLACED)
_HEAD = cython.declare(cython.int, EventKind.HEAD)
_SELL = cython.declare(cython.int, Side.SELL)

CommandPtr = cython.typedef(cython.pointer[Command])
EventPtr = cython.typedef(cython.pointer[Event])


# What both threads touch; each field has its pair of cache lines.
Signals = cython.struct(
    reading=uint64_t,
    pad0=uint64_t[15],
    ended=uint64_t,
    pad1=uint64_t[15],
    ball=uint64_t,
    pad2=uint64_t[15],
)


@cython.final
@cython.cclass
class Handover:
    """A ring of events between the engine's thread and the reader's, with the reader's findings."""

    memory: RingMemory
    signals: Signals
    # The engine's thread's.
    next: uint64_t
    limit: uint64_t
    full: uint64_t  # how often there was no room
    started_ns: int64_t
    written_ns: int64_t
    pad: uint64_t[16]
    # The reader's, looked at after its end.
    heads: uint64_t
    rejects: uint64_t
    accepted: uint64_t
    trades: uint64_t
    replaced: uint64_t
    dones: uint64_t
    strangers: uint64_t
    gaps: uint64_t
    bought_lots: uint64_t
    sold_lots: uint64_t
    event_digest: uint64_t
    ended_ns: int64_t

    def __init__(self, memory: RingMemory) -> None:
        """Take an empty ring of 64-byte slots."""
        self.memory = memory
        self.signals.reading = 0
        self.signals.ended = 0

    def write(self, engine: Engine, commands: bytes) -> None:
        """The engine's thread: wait for the reader, execute consecutive 64-byte commands."""
        events = cython.declare(Event[256])
        window = cython.declare(EventWindow)
        ahead = cython.declare(Foresight)
        far: cython.bint = False
        number: cython.longlong
        count: cython.longlong = len(commands) // cython.sizeof(Command)
        first: CommandPtr = cython.cast(
            CommandPtr, cython.cast(cython.p_void, PyBytes_AS_STRING(commands))
        )
        memset(cython.address(ahead), 0, cython.sizeof(Foresight))
        window.base = cython.address(events[0])
        window.mask = 255
        self.next = self.memory.ring.tail
        self.limit = self.next
        with cython.nogil:
            while load_acquire(cython.address(self.signals.reading)) == 0:
                yield_cpu()
            self.started_ns = monotonic_ns()
            for number in range(count):
                if number % _PUBLISH_EVERY == 0:
                    self.publish()
                if number % _PUBLISH_EVERY == 0:
                    far = foresight_pays(cython.address(engine.books))
                if far:
                    foresee(
                        cython.address(engine.books),
                        cython.address(ahead),
                        first,
                        ALL_ONES,
                        number,
                        count,
                    )
                window.next = 0
                window.limit = 256
                if not engine.execute(first + number, cython.address(window)):
                    while True:
                        self.hand_over(cython.address(events[0]), window.next)
                        window.next = 0
                        if engine.resume(cython.address(window)):
                            break
                self.hand_over(cython.address(events[0]), window.next)
            self.publish()
            self.written_ns = monotonic_ns()
            store_release(cython.address(self.signals.ended), 1)

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def publish(self) -> cython.void:
        """Let the reader see what was handed over."""
        pass_end()
        store_release(cython.address(self.memory.ring.tail), self.next)

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def hand_over(self, events: EventPtr, count: uint64_t) -> cython.void:
        """Put events into the ring."""
        slots: EventPtr = cython.cast(EventPtr, self.memory.ring.slots)
        mask: uint64_t = self.memory.ring.mask
        number: uint64_t
        if self.limit - self.next < count:
            self.wait_for_room(count)
        for number in range(count):
            pass_line(slots + ((self.next + number) & mask), events + number)
        self.next += count

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def wait_for_room(self, wanted: uint64_t) -> cython.void:
        """Look for room; where there is none, publish what there is and wait for the reader."""
        ring: cython.pointer[Ring] = self.memory.ring
        polls: cython.int = 0
        room: uint64_t = ring_room(ring, self.next, wanted)
        if room < wanted:
            self.full += 1
            self.publish()
        while room < wanted:
            cpu_relax()
            polls += 1
            if polls == _PUT_OFF_POLLS:
                polls = 0
                yield_cpu()
            room = ring_room(ring, self.next, wanted)
        self.limit = self.next + room

    def read(self, wal_seq: int, event_seq: int, event_digest: int) -> None:
        """The reader's thread: check events until the engine's thread has ended.

        Args:
            wal_seq: of the last command before.
            event_seq: of the last event before.
            event_digest: after it.
        """
        ring: cython.pointer[Ring] = self.memory.ring
        slots: EventPtr = cython.cast(EventPtr, ring.slots)
        next_wal: uint64_t = wal_seq
        next_event: uint64_t = event_seq
        digest: uint64_t = event_digest
        head: uint64_t = ring.head
        ready: uint64_t
        number: uint64_t
        polls: cython.int = 0
        ended: cython.bint
        event: EventPtr
        heads: uint64_t = 0
        rejects: uint64_t = 0
        accepted: uint64_t = 0
        trades: uint64_t = 0
        replaced: uint64_t = 0
        dones: uint64_t = 0
        strangers: uint64_t = 0
        gaps: uint64_t = 0
        bought_lots: uint64_t = 0
        sold_lots: uint64_t = 0
        word: uint64_t
        kind: uint64_t
        with cython.nogil:
            store_release(cython.address(self.signals.reading), 1)
            while True:
                ended = load_acquire(cython.address(self.signals.ended)) != 0
                ready = ring_ready(ring, head)
                if ready == 0:
                    if ended:
                        break
                    cpu_relax()
                    polls += 1
                    if polls == _PUT_OFF_POLLS:
                        polls = 0
                        yield_cpu()
                    continue
                polls = 0
                if ready > _READ_MAX:
                    ready = _READ_MAX
                for number in range(ready):
                    event = slots + ((head + number) & ring.mask)
                    kind = event.kind
                    if kind == _HEAD:
                        next_wal += 1
                        heads += 1
                        gaps += event.sequence != next_wal
                        rejects += event.reason != 0
                        continue
                    if kind == _DONE:
                        dones += 1
                    elif kind == _ACCEPTED:
                        accepted += 1
                    elif kind == _REPLACED:
                        replaced += 1
                    elif kind == _TRADE:
                        trades += 1
                        # The maker's side; the taker has the other one.
                        if event.side == _SELL:
                            sold_lots += event.qty_lots
                        else:
                            bought_lots += event.qty_lots
                    else:
                        strangers += 1
                    next_event += 1
                    gaps += event.sequence != next_event
                    # The digest as docs/matching.md specifies it.
                    word = (
                        kind
                        | (cython.cast(uint64_t, event.reason) << 8)
                        | (cython.cast(uint64_t, event.side) << 16)
                        | (cython.cast(uint64_t, event.instrument_id) << 32)
                    )
                    digest ^= (
                        word * P1
                        + event.order_id * P2
                        + cython.cast(uint64_t, event.price_ticks) * P3
                        + event.qty_lots * P4
                    )
                    digest = ((digest << 29) | (digest >> 35)) * P1 + P5
                head += ready
                ring_release(ring, head)
            self.ended_ns = monotonic_ns()
        self.heads = heads
        self.rejects = rejects
        self.accepted = accepted
        self.trades = trades
        self.replaced = replaced
        self.dones = dones
        self.strangers = strangers
        self.gaps = gaps
        self.bought_lots = bought_lots
        self.sold_lots = sold_lots
        self.event_digest = digest

    def serve(self, rounds: int) -> float:
        """One side of a ping-pong: pass the ball to return() and wait for it, again and again.

        Returns:
            Nanoseconds of a round trip of one cache line.
        """
        number: uint64_t
        count: uint64_t = rounds
        started_ns: int64_t
        spent_ns: int64_t
        with cython.nogil:
            while load_acquire(cython.address(self.signals.reading)) == 0:
                yield_cpu()
            started_ns = monotonic_ns()
            for number in range(count):
                store_release(cython.address(self.signals.ball), 2 * number + 1)
                self.await_ball(2 * number + 2)
            spent_ns = monotonic_ns() - started_ns
            self.signals.reading = 0
            self.signals.ball = 0
        return cython.cast(cython.double, spent_ns) / cython.cast(cython.double, count)

    def send_back(self, rounds: int) -> None:
        """The other side of serve()."""
        number: uint64_t
        count: uint64_t = rounds
        with cython.nogil:
            store_release(cython.address(self.signals.reading), 1)
            for number in range(count):
                self.await_ball(2 * number + 1)
                store_release(cython.address(self.signals.ball), 2 * number + 2)

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def await_ball(self, value: uint64_t) -> cython.void:
        """Wait until the ball has a value."""
        polls: cython.int = 0
        while load_acquire(cython.address(self.signals.ball)) != value:
            cpu_relax()
            polls += 1
            if polls == _PUT_OFF_POLLS:
                polls = 0
                yield_cpu()

    def findings(self) -> dict[str, int]:
        """Return what the reader has counted, and how long it took in nanoseconds."""
        return {
            "heads": self.heads,
            "rejects": self.rejects,
            "accepted": self.accepted,
            "trades": self.trades,
            "replaced": self.replaced,
            "dones": self.dones,
            "strangers": self.strangers,
            "gaps": self.gaps,
            "bought_lots": self.bought_lots,
            "sold_lots": self.sold_lots,
            "event_digest": self.event_digest,
            "ns": self.ended_ns - self.started_ns,
            "writing_ns": self.written_ns - self.started_ns,
            "full": self.full,
        }
