"""Loops that time every command while a book grows, with a bare clock and bare memory beside them.

    slice of commands, each with its span ──► the clock alone for as long
                                          ──► as many new pages touched ──► next slice

A gap that the clock alone sees, too, is the machine's: an interrupt, another process, another
virtual machine. So is a page that takes as long without an engine: where the host takes free memory
back, it has to find some again. Nothing here holds the GIL. Compiled only.
"""

from __future__ import annotations

import cython
from cython.cimports.bourse.bench.sockets import monotonic_ns
from cython.cimports.bourse.bench.ticks import ns_per_tick, ticks
from cython.cimports.bourse.core.engine import Engine
from cython.cimports.bourse.core.histogram import Histogram
from cython.cimports.bourse.core.memory import map_zeroed, unmap
from cython.cimports.bourse.core.records import Command, Event, EventWindow
from cython.cimports.libc.stdint import int64_t, uint32_t, uint64_t
from cython.cimports.libc.stdlib import free, malloc
from cython.cimports.libc.string import memset

from bourse.domain import CommandKind, OrderType, Side

TAKE_EVERY = 64
"""One command in so many takes TAKEN_LOTS one-lot orders, the others rest."""
TAKEN_LOTS = 10

_TAKE_EVERY = cython.declare(cython.longlong, TAKE_EVERY)
_PAGE_BYTES = cython.declare(cython.longlong, 4096)
_SPAN_MAX = cython.declare(uint64_t, 0xFFFFFFFF)
_TAKEN_LOTS = cython.declare(uint64_t, TAKEN_LOTS)
_TICK_SPAN_NS = cython.declare(int64_t, 5_000_000)
_NEW_ORDER = cython.declare(cython.int, CommandKind.NEW_ORDER)
_LIMIT = cython.declare(cython.int, OrderType.LIMIT)
_IOC = cython.declare(cython.int, OrderType.IOC)
_BUY = cython.declare(cython.int, Side.BUY)
_SELL = cython.declare(cython.int, Side.SELL)


@cython.final
@cython.cclass
class Spans:
    """Room for the spans of a slice, and the longest ones of all slices with their numbers."""

    histogram: Histogram
    spans: cython.pointer[uint32_t]  # in ticks
    slice_count: cython.longlong
    recorded: cython.longlong
    limit_ns: int64_t
    tick_ns: cython.double
    long_ones: list

    def __init__(self, slice_count: int, limit_ns: int) -> None:
        """Make room.

        Args:
            slice_count: spans of a slice.
            limit_ns: longer spans are remembered one by one.
        """
        self.histogram = Histogram()
        self.slice_count = slice_count
        self.limit_ns = limit_ns
        self.recorded = 0
        self.long_ones = []
        self.spans = cython.cast(
            cython.pointer[uint32_t], malloc(slice_count * cython.sizeof(uint32_t))
        )
        if self.spans == cython.NULL:
            raise MemoryError
        # Touched beforehand, so that no page fault of its own is timed.
        memset(self.spans, 0, slice_count * cython.sizeof(uint32_t))
        self.tick_ns = ns_per_tick(_TICK_SPAN_NS)

    def __dealloc__(self) -> None:
        """Give the memory back."""
        free(self.spans)

    @cython.cfunc
    def record(self, count: cython.longlong) -> object:
        """Count the spans of a slice."""
        number: cython.longlong
        span_ns: int64_t
        for number in range(count):
            span_ns = cython.cast(int64_t, self.spans[number] * self.tick_ns)
            self.histogram.record(span_ns, 1)
            if span_ns > self.limit_ns:
                self.long_ones.append((self.recorded + number, span_ns))
        self.recorded += count
        return None

    def grow(self, engine: Engine, levels: int, price_ticks: int) -> float:
        """Rest one-lot asks on so many levels in turn, take ten now and then; time each command.

        Args:
            engine: knows instrument 1 and session 2.
            levels: prices, from `price_ticks` upwards.
            price_ticks: the lowest price.

        Returns:
            Nanoseconds of the whole slice.
        """
        events = cython.declare(Event[256])
        window = cython.declare(EventWindow)
        maker = cython.declare(Command)
        taker = cython.declare(Command)
        number: cython.longlong
        first: cython.longlong = self.recorded
        level_count: cython.longlong = levels
        price: int64_t = price_ticks
        at: uint64_t
        now: uint64_t
        start_ns: int64_t
        window.base = cython.address(events[0])
        window.mask = 255
        memset(cython.address(maker), 0, cython.sizeof(Command))
        maker.kind = _NEW_ORDER
        maker.side = _SELL
        maker.order_type = _LIMIT
        maker.instrument_id = 1
        maker.session_id = 2
        maker.qty_lots = 1
        taker = maker
        taker.side = _BUY
        taker.order_type = _IOC
        taker.price_ticks = price + level_count
        taker.qty_lots = _TAKEN_LOTS
        with cython.nogil:
            start_ns = monotonic_ns()
            at = ticks()
            for number in range(self.slice_count):
                window.next = 0
                window.limit = 256
                if number % _TAKE_EVERY == _TAKE_EVERY - 1:
                    taker.client_order_id = cython.cast(uint64_t, first + number + 1)
                    engine.execute(cython.address(taker), cython.address(window))
                else:
                    maker.client_order_id = cython.cast(uint64_t, first + number + 1)
                    maker.price_ticks = price + number % level_count
                    engine.execute(cython.address(maker), cython.address(window))
                now = ticks()
                self.spans[number] = cython.cast(uint32_t, min(now - at, _SPAN_MAX))
                at = now
            start_ns = monotonic_ns() - start_ns
        self.record(self.slice_count)
        return cython.cast(cython.double, start_ns)

    def idle(self, duration_ns: int) -> float:
        """Read the clock again and again and time the way from one reading to the next.

        Returns:
            Nanoseconds of it all, of which at most a slice's spans are recorded at a time.
        """
        number: cython.longlong
        at: uint64_t
        now: uint64_t
        start_ns: int64_t = monotonic_ns()
        until_ns: int64_t = start_ns + cython.cast(int64_t, duration_ns)
        spent_ns: int64_t = 0
        wanted: cython.longlong = duration_ns
        while spent_ns < wanted:
            with cython.nogil:
                start_ns = monotonic_ns()
                until_ns = start_ns + wanted - spent_ns
                at = ticks()
                number = 0
                while number < self.slice_count:
                    now = ticks()
                    self.spans[number] = cython.cast(uint32_t, min(now - at, _SPAN_MAX))
                    at = now
                    number += 1
                    if number % 4096 == 0 and monotonic_ns() >= until_ns:
                        break
                spent_ns += monotonic_ns() - start_ns
            self.record(number)
        return cython.cast(cython.double, spent_ns)

    def touch(self, pages: int) -> None:
        """Take so many new pages of memory, write to each and time it; give them back.

        Args:
            pages: at most a slice's.
        """
        number: cython.longlong
        count: cython.longlong = min(pages, self.slice_count)
        at: uint64_t
        now: uint64_t
        memory: cython.p_char = cython.cast(cython.p_char, map_zeroed(count * _PAGE_BYTES + 1))
        if memory == cython.NULL:
            raise MemoryError
        with cython.nogil:
            at = ticks()
            for number in range(count):
                memory[number * _PAGE_BYTES] = 1
                now = ticks()
                self.spans[number] = cython.cast(uint32_t, min(now - at, _SPAN_MAX))
                at = now
            unmap(memory, count * _PAGE_BYTES + 1)
        self.record(count)

    def counts(self) -> list[tuple[int, int]]:
        """Return (highest value of the slot in ns, count), ascending."""
        return self.histogram.counts()

    def percentiles(self) -> tuple[int, int, int, int, int, int]:
        """Return count, p50, p90, p99, p99.9 and max in nanoseconds."""
        return self.histogram.percentiles()

    def longest(self) -> list[tuple[int, int]]:
        """Return (number, ns) of every span over the limit, in their order."""
        return self.long_ones
