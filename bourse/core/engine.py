"""The matching engine for Python: bytes of commands in, bytes of events out, and what it holds.

executor.py is what executes; compiled hosts call `execute()` and `resume()` without the GIL
(executor.pxd). audit.py proves an engine's invariants, restoring.py rebuilds one from a snapshot.
Compiled only.
"""

from __future__ import annotations

import cython
from cython.cimports.bourse.core.books import BooksPtr, books_bytes, books_expect, side_at
from cython.cimports.bourse.core.events import WindowPtr
from cython.cimports.bourse.core.executor import CommandPtr, Executor
from cython.cimports.bourse.core.exports import (
    DepthLevelPtr,
    InstrumentRecordPtr,
    OrderRecordPtr,
    by_order_id,
    export_instruments,
    export_orders,
    export_sessions,
    fill_depth,
)
from cython.cimports.bourse.core.levels import key_of
from cython.cimports.bourse.core.records import (
    Command,
    DepthLevel,
    EngineState,
    Event,
    EventWindow,
    InstrumentRecord,
    OrderRecord,
)
from cython.cimports.bourse.core.registry import find_instrument
from cython.cimports.bourse.core.structures import SidePtr, Uint32Ptr
from cython.cimports.bourse.core.words import FIRST_READ
from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cython.cimports.libc.stdint import uint32_t, uint64_t
from cython.cimports.libc.stdlib import free, malloc, qsort
from cython.cimports.libc.string import memcpy

from bourse import domain
from bourse.core import agreement  # noqa: F401  (fails where the constants differ)

ORDERS_MAX = 1 << 30
"""Live orders that one engine can hold at most (books.py)."""

_APPLY_EVENTS = 256


@cython.final
@cython.cclass
class Engine(Executor):
    """All books, orders and sessions of one exchange, and the counters and digests over them.

    Obligations of the caller: one thread at a time; after execute() or resume() said false,
    resume() until true before anything else. Invariants: see `check()`.
    """

    def __init__(self, orders_max: int = ORDERS_MAX, orders_expected: int = 0) -> None:
        """Make an engine without instruments, with one session open: the operator's.

        Args:
            orders_max: live orders that it takes at most; one more is refused as OUT_OF_MEMORY.
            orders_expected: live orders to take and touch memory for now, 100 bytes each; more are
                taken as well.

        Raises:
            ValueError: a number is out of range.
            MemoryError: there is not so much memory.
        """
        if not 1 <= orders_max <= ORDERS_MAX:
            raise ValueError(f"orders_max={orders_max}, expected 1..{ORDERS_MAX}")
        if not 0 <= orders_expected <= orders_max:
            raise ValueError(f"orders_expected={orders_expected}, expected 0..{orders_max}")
        if orders_expected and self.books.state.order_count == 0:
            if not books_expect(cython.address(self.books), orders_expected):
                raise MemoryError
        if cython.cast(uint64_t, orders_max) + 1 < self.books.order_pool.slots_max:
            self.books.order_pool.slots_max = orders_max + 1

    def apply(self, command: bytes, events_max: int = _APPLY_EVENTS) -> bytes:
        """Execute one command and return its events, HEAD first.

        Args:
            command: 64 bytes (records.Command.pack); a kind that is logged.
            events_max: size of the window that the events go through, 1..256; same result.

        Raises:
            ValueError: not 64 bytes, or a kind from 128; nothing was executed.
        """
        events = cython.declare(Event[256])
        window = cython.declare(EventWindow)
        record = cython.declare(Command)
        finished: cython.bint
        if len(command) != cython.sizeof(Command):
            raise ValueError(f"a command of {len(command)} bytes, expected 64")
        if not 1 <= events_max <= _APPLY_EVENTS:
            raise ValueError(f"events_max={events_max}, expected 1..{_APPLY_EVENTS}")
        memcpy(cython.address(record), PyBytes_AS_STRING(command), cython.sizeof(Command))
        if record.kind >= FIRST_READ:
            raise ValueError(f"kind={record.kind} is not logged, expected below {FIRST_READ}")
        window.base = cython.address(events[0])
        window.mask = _APPLY_EVENTS - 1
        window.next = 0
        window.limit = events_max
        finished = self.execute(cython.address(record), cython.address(window))
        if finished:
            return events_bytes(cython.address(window))
        parts = [events_bytes(cython.address(window))]
        while not finished:
            window.next = 0
            finished = self.resume(cython.address(window))
            parts.append(events_bytes(cython.address(window)))
        return b"".join(parts)

    def apply_all(self, commands: bytes) -> bytes:
        """Execute consecutive 64-byte commands and return all their events."""
        return b"".join([self.apply(commands[at : at + 64]) for at in range(0, len(commands), 64)])

    def run(self, commands: bytes) -> None:
        """Execute consecutive 64-byte commands without the GIL; their events are thrown away.

        Raises:
            ValueError: not whole commands, or a kind from 128; nothing was executed.
        """
        events = cython.declare(Event[256])
        window = cython.declare(EventWindow)
        first: CommandPtr
        count: uint64_t = len(commands) // cython.sizeof(Command)
        number: uint64_t
        if count * cython.sizeof(Command) != cython.cast(uint64_t, len(commands)):
            raise ValueError(f"{len(commands)} bytes are not whole commands of 64 bytes")
        first = cython.cast(CommandPtr, cython.cast(cython.p_void, PyBytes_AS_STRING(commands)))
        for number in range(count):
            if first[number].kind >= FIRST_READ:
                raise ValueError(f"kind={first[number].kind} is not logged")
        window.base = cython.address(events[0])
        window.mask = _APPLY_EVENTS - 1
        window.next = 0
        with cython.nogil:
            for number in range(count):
                window.limit = window.next + 256
                if not self.execute(first + number, cython.address(window)):
                    while True:
                        window.limit = window.next + 256
                        if self.resume(cython.address(window)):
                            break

    def orders(self) -> bytes:
        """Return every live order as 64-byte order records, by ascending order_id."""
        count: uint64_t = self.books.state.live_order_count
        data: bytes = PyBytes_FromStringAndSize(cython.NULL, count * cython.sizeof(OrderRecord))
        out: OrderRecordPtr = cython.cast(
            OrderRecordPtr, cython.cast(cython.p_void, PyBytes_AS_STRING(data))
        )
        export_orders(cython.address(self.books), out, count)
        qsort(out, count, cython.sizeof(OrderRecord), by_order_id)
        return data

    def sessions(self) -> list[int]:
        """Return the ids of the open sessions, ascending."""
        count: uint64_t = self.books.state.session_count
        out: Uint32Ptr = cython.cast(Uint32Ptr, malloc((count + 1) * cython.sizeof(uint32_t)))
        if out == cython.NULL:
            raise MemoryError
        count = export_sessions(cython.address(self.books), out, count)
        ids = sorted([out[number] for number in range(count)])
        free(out)
        return ids

    def instruments(self) -> bytes:
        """Return every instrument as 32-byte instrument records, in order of definition."""
        count: uint64_t = self.books.state.instrument_count
        data: bytes = PyBytes_FromStringAndSize(
            cython.NULL, count * cython.sizeof(InstrumentRecord)
        )
        export_instruments(
            cython.address(self.books),
            cython.cast(
                InstrumentRecordPtr,
                cython.cast(cython.p_void, PyBytes_AS_STRING(data)),
            ),
            count,
        )
        return data

    def state_bytes(self) -> bytes:
        """Return the counters and digests (records.EngineState)."""
        return PyBytes_FromStringAndSize(
            cython.cast(
                cython.p_char, cython.cast(cython.p_void, cython.address(self.books.state))
            ),
            cython.sizeof(EngineState),
        )

    def restore(self, state: bytes, instruments: bytes, sessions: bytes, orders: bytes) -> None:
        """Put a new engine into the state that another one exported.

        Args:
            state: the 128 bytes of `state_bytes()`.
            instruments: 32-byte instrument records, in order of definition.
            sessions: ids of the open sessions, 4 little-endian bytes each, any order.
            orders: 64-byte order records, any order.

        Raises:
            ValueError: the parts do not fit each other, or the engine is not new; throw it away.
        """
        if self.books.state.wal_seq != 0 or self.books.state.instrument_count != 0:
            raise ValueError("restore() into an engine that is not new")
        for name, part, size in (
            ("state", state, cython.sizeof(EngineState)),
            ("instruments", instruments, cython.sizeof(InstrumentRecord)),
            ("sessions", sessions, cython.sizeof(uint32_t)),
            ("orders", orders, cython.sizeof(OrderRecord)),
        ):
            if len(part) % size or (name == "state" and len(part) != size):
                raise ValueError(f"{name} of {len(part)} bytes, expected items of {size} bytes")
        from bourse.core import restoring

        restoring.restore(self, state, instruments, sessions, orders)

    def check(self) -> None:
        """Prove the engine's invariants; O(everything). The state digest is computed anew.

        Raises:
            AssertionError: names the first invariant that does not hold.
        """
        from bourse.core import audit

        audit.check(self)

    def best_bid(self, instrument_id: int = domain.INSTRUMENT_ID) -> int | None:
        """Return the highest price that somebody wants to buy at, in ticks."""
        return best_price(cython.address(self.books), instrument_id, 0)

    def best_ask(self, instrument_id: int = domain.INSTRUMENT_ID) -> int | None:
        """Return the lowest price that somebody wants to sell at, in ticks."""
        return best_price(cython.address(self.books), instrument_id, 1)

    def depth_levels(
        self, levels_max: int = 0xFFFF_FFFF, instrument_id: int = domain.INSTRUMENT_ID
    ) -> tuple[list[tuple[int, int, int]], list[tuple[int, int, int]]]:
        """Return bids and asks, best first, each as (price_ticks, qty_lots, order_count)."""
        books: BooksPtr = cython.address(self.books)
        slot: uint32_t = find_instrument(books, instrument_id)
        if slot == 0:
            raise ValueError(f"instrument_id={instrument_id} is not defined")
        return (
            side_levels(books, side_at(books, slot), levels_max),
            side_levels(books, side_at(books, slot + 1), levels_max),
        )

    @property
    def wal_seq(self) -> int:
        """Commands executed."""
        return self.books.state.wal_seq

    @property
    def event_seq(self) -> int:
        """Numbered events written."""
        return self.books.state.event_seq

    @property
    def state_digest(self) -> int:
        """Digest of the live orders."""
        return self.books.state.state_digest

    @property
    def event_digest(self) -> int:
        """Digest of all numbered events, in their order."""
        return self.books.state.event_digest

    @property
    def live_order_count(self) -> int:
        """Orders in the books."""
        return self.books.state.live_order_count

    @property
    def block_count(self) -> int:
        """Blocks of levels in use."""
        return self.books.block_pool.live_count

    @property
    def last_session_id(self) -> int:
        """Highest session id ever opened."""
        return self.books.state.last_session_id

    @property
    def memory_bytes(self) -> int:
        """Address space of pools and indexes; pages not yet used cost nothing."""
        return books_bytes(cython.address(self.books))


@cython.cfunc
def events_bytes(window: WindowPtr) -> bytes:
    """Return what has been written to a window that started at 0."""
    return PyBytes_FromStringAndSize(
        cython.cast(cython.p_char, cython.cast(cython.p_void, window.base)),
        window.next * cython.sizeof(Event),
    )


@cython.cfunc
def best_price(books: BooksPtr, instrument_id: uint32_t, which: uint32_t) -> object:
    """Return the price at the touch of one side, None when it is empty."""
    side: SidePtr
    slot: uint32_t = find_instrument(books, instrument_id)
    if slot == 0:
        raise ValueError(f"instrument_id={instrument_id} is not defined")
    side = side_at(books, slot + which)
    return key_of(side.side, side.best_key) if side.best_level != 0 else None


@cython.cfunc
def side_levels(books: BooksPtr, side: SidePtr, levels_max: uint32_t) -> list:
    """Return the levels of a side for Python."""
    count: uint32_t = side.level_count
    out: DepthLevelPtr = cython.cast(DepthLevelPtr, malloc((count + 1) * cython.sizeof(DepthLevel)))
    if out == cython.NULL:
        raise MemoryError
    count = fill_depth(books, side, levels_max, out)
    levels = [
        (out[number].price_ticks, out[number].qty_lots, out[number].order_count)
        for number in range(count)
    ]
    free(out)
    return levels
