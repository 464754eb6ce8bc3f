"""Loops that drive an engine at its own boundary: `walk`, `alternating` and a stream of commands.

    commands ──► Engine.execute() ──► a window of 256 events, emptied whenever it is full

Nothing else is in the loop: no ring, no thread, no journal. The window's 16 KiB stay in the first
cache, as a ring's would whose consumer keeps up. Time is read at the boundaries of what is measured
(ticks.pxd); ticks become nanoseconds by the monotonic clock around the whole run. Each loop runs
without the GIL. Compiled only.
"""

from __future__ import annotations

import cython
from cython.cimports.bourse.bench.sockets import monotonic_ns
from cython.cimports.bourse.bench.splitmix import random_below
from cython.cimports.bourse.bench.ticks import ns_per_tick, ticks
from cython.cimports.bourse.core.engine import Engine
from cython.cimports.bourse.core.records import Command, Event, EventWindow
from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cython.cimports.libc.stdint import int64_t, uint8_t, uint32_t, uint64_t
from cython.cimports.libc.stdlib import free, malloc
from cython.cimports.libc.string import memset

from bourse.domain import CommandKind, EventKind, OrderType, Side

EVENTS = 256
"""Size of the window that events go through."""

MIX_SESSIONS = 16
"""Sessions of the mixed stream, from id 2."""

_TICK_SPAN_NS = cython.declare(int64_t, 2_000_000)
_NEW_ORDER = cython.declare(cython.int, CommandKind.NEW_ORDER)
_CANCEL = cython.declare(cython.int, CommandKind.CANCEL)
_LIMIT = cython.declare(cython.int, OrderType.LIMIT)
_MARKET = cython.declare(cython.int, OrderType.MARKET)
_IOC = cython.declare(cython.int, OrderType.IOC)
_POST_ONLY = cython.declare(cython.int, OrderType.POST_ONLY)
_FOK = cython.declare(cython.int, OrderType.FOK)
_BUY = cython.declare(cython.int, Side.BUY)
_SELL = cython.declare(cython.int, Side.SELL)
_DONE = cython.declare(cython.int, EventKind.DONE)
_SESSION = cython.declare(uint32_t, 2)
_SESSIONS = cython.declare(uint32_t, MIX_SESSIONS)

CommandPtr = cython.typedef(cython.pointer[Command])
WindowPtr = cython.typedef(cython.pointer[EventWindow])
EventPtr = cython.typedef(cython.pointer[Event])


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def execute(engine: Engine, command: CommandPtr, window: WindowPtr) -> cython.void:
    """Execute one command, emptying the window before it and whenever it is full."""
    window.limit = window.next + 256
    if not engine.execute(command, window):
        while True:
            window.limit = window.next + 256
            if engine.resume(window):
                break


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def set_order(
    command: CommandPtr, side: uint8_t, client_order_id: uint64_t, price: int64_t, qty: uint64_t
) -> cython.void:
    """Make a command a Limit order of the first session."""
    memset(command, 0, cython.sizeof(Command))
    command.kind = _NEW_ORDER
    command.side = side
    command.order_type = _LIMIT
    command.instrument_id = 1
    command.session_id = _SESSION
    command.client_order_id = client_order_id
    command.price_ticks = price
    command.qty_lots = qty


def tick_length_ns() -> float:
    """Return a tick's length in nanoseconds, measured over two milliseconds."""
    return ns_per_tick(_TICK_SPAN_NS)


def walk(
    engine: Engine, levels: cython.int, books: cython.int, rounds: cython.longlong
) -> tuple[float, float]:
    """Rest one-lot asks on so many levels and fill them all with one buy, again and again.

    A round rests in every book, then takes from every book, and reads the clock twice: with a few
    books the two readings weigh little even where a taker has one level to fill.

    Args:
        engine: knows instruments 1 to `books` and session 2; its books are empty, before and after.
        levels: N of walk-N.
        books: instruments to use in turn.
        rounds: how often.

    Returns:
        Nanoseconds of all takers together, and of all makers; the clock's own time is in them.
    """
    events = cython.declare(Event[256])
    window = cython.declare(EventWindow)
    maker = cython.declare(Command)
    taker = cython.declare(Command)
    at: uint64_t
    now: uint64_t
    takers: uint64_t = 0
    makers: uint64_t = 0
    tick_ns: cython.double
    next_id: uint64_t = 1
    window.base = cython.address(events[0])
    window.mask = 255
    window.next = 0
    number: cython.longlong
    level: cython.int
    book: cython.int
    with cython.nogil:
        set_order(cython.address(maker), _SELL, 0, 0, 1)
        set_order(cython.address(taker), _BUY, 0, 100 + levels, levels)
        tick_ns = ns_per_tick(_TICK_SPAN_NS)
        at = ticks()
        for number in range(rounds):
            for book in range(1, books + 1):
                maker.instrument_id = book
                for level in range(levels):
                    maker.client_order_id = next_id
                    maker.price_ticks = 100 + level
                    next_id += 1
                    execute(engine, cython.address(maker), cython.address(window))
            now = ticks()
            makers += now - at
            at = now
            for book in range(1, books + 1):
                taker.instrument_id = book
                taker.client_order_id = next_id
                next_id += 1
                execute(engine, cython.address(taker), cython.address(window))
            now = ticks()
            takers += now - at
            at = now
    return takers * tick_ns, makers * tick_ns


def ladder(
    engine: Engine,
    side: int,
    orders: cython.longlong,
    levels: cython.longlong,
    price_ticks: cython.longlong,
    first_id: cython.ulonglong,
) -> float:
    """Rest one-lot orders of consecutive ids, one level after the other, round and round.

    Args:
        engine: knows instrument 1 and session 2.
        side: of all orders.
        orders: how many.
        levels: how many prices, from `price_ticks` upwards.
        price_ticks: the lowest price.
        first_id: of the first order.

    Returns:
        Nanoseconds of all orders together.
    """
    events = cython.declare(Event[256])
    window = cython.declare(EventWindow)
    command = cython.declare(Command)
    which: uint8_t = side
    start: int64_t
    spent: int64_t
    number: cython.longlong
    window.base = cython.address(events[0])
    window.mask = 255
    window.next = 0
    with cython.nogil:
        set_order(cython.address(command), which, 0, 0, 1)
        start = monotonic_ns()
        for number in range(orders):
            command.client_order_id = first_id + cython.cast(uint64_t, number)
            command.price_ticks = price_ticks + number % levels
            execute(engine, cython.address(command), cython.address(window))
        spent = monotonic_ns() - start
    return cython.cast(cython.double, spent)


def ladder_spans(
    engine: Engine,
    side: int,
    orders: cython.longlong,
    levels: cython.longlong,
    price_ticks: cython.longlong,
    first_id: cython.ulonglong,
) -> bytes:
    """Do as ladder() does and time every command.

    Returns:
        A 32-bit number of nanoseconds for each order, native order; the clock's own time is in it.
    """
    events = cython.declare(Event[256])
    window = cython.declare(EventWindow)
    command = cython.declare(Command)
    which: uint8_t = side
    number: cython.longlong
    at: uint64_t
    now: uint64_t
    tick_ns: cython.double
    found: bytes = PyBytes_FromStringAndSize(cython.NULL, orders * cython.sizeof(uint32_t))
    spans: cython.pointer[uint32_t] = cython.cast(
        cython.pointer[uint32_t], cython.cast(cython.p_void, PyBytes_AS_STRING(found))
    )
    window.base = cython.address(events[0])
    window.mask = 255
    window.next = 0
    with cython.nogil:
        # Touched beforehand, so that no page fault of its own is timed.
        memset(spans, 0, orders * cython.sizeof(uint32_t))
        set_order(cython.address(command), which, 0, 0, 1)
        tick_ns = ns_per_tick(_TICK_SPAN_NS)
        at = ticks()
        for number in range(orders):
            command.client_order_id = first_id + cython.cast(uint64_t, number)
            command.price_ticks = price_ticks + number % levels
            execute(engine, cython.address(command), cython.address(window))
            now = ticks()
            spans[number] = cython.cast(uint32_t, min((now - at) * tick_ns, 4_000_000_000.0))
            at = now
    return found


def alternating(engine: Engine, orders: cython.longlong) -> float:
    """Send equal bids and asks in turn: every second order fills the one before.

    Args:
        engine: knows instrument 1 and session 2; its book is empty, before and after.
        orders: an even number.

    Returns:
        Nanoseconds of all orders together.
    """
    events = cython.declare(Event[256])
    window = cython.declare(EventWindow)
    bid = cython.declare(Command)
    ask = cython.declare(Command)
    start: int64_t
    spent: int64_t
    number: cython.longlong
    window.base = cython.address(events[0])
    window.mask = 255
    window.next = 0
    with cython.nogil:
        set_order(cython.address(bid), _BUY, 0, 100, 1)
        set_order(cython.address(ask), _SELL, 0, 100, 1)
        start = monotonic_ns()
        for number in range(orders // 2):
            bid.client_order_id = 2 * number + 1
            ask.client_order_id = 2 * number + 2
            execute(engine, cython.address(bid), cython.address(window))
            execute(engine, cython.address(ask), cython.address(window))
        spent = monotonic_ns() - start
    return cython.cast(cython.double, spent)


def stream(engine: Engine, commands: bytes) -> float:
    """Execute consecutive 64-byte commands.

    Returns:
        Nanoseconds of all commands together.
    """
    events = cython.declare(Event[256])
    window = cython.declare(EventWindow)
    start: int64_t
    spent: int64_t
    number: cython.longlong
    count: cython.longlong = len(commands) // cython.sizeof(Command)
    first: CommandPtr = cython.cast(
        CommandPtr, cython.cast(cython.p_void, PyBytes_AS_STRING(commands))
    )
    window.base = cython.address(events[0])
    window.mask = 255
    window.next = 0
    with cython.nogil:
        start = monotonic_ns()
        for number in range(count):
            execute(engine, first + number, cython.address(window))
        spent = monotonic_ns() - start
    return cython.cast(cython.double, spent)


# --- The mixed stream -----------------------------------------------------------------------------


Live = cython.struct(session_id=uint32_t, place=uint32_t, client_order_id=uint64_t)
LivePtr = cython.typedef(cython.pointer[Live])


@cython.final
@cython.cclass
class Mix:
    """Makes a seeded stream of commands that keeps a number of orders resting.

    It executes what it makes on an engine of its own, so that it knows which orders live: `live`
    holds them in no order, `places` finds one by its client order id (unique over all sessions).
    """

    engine: Engine
    seed: uint64_t
    resting: uint64_t
    mid: int64_t
    next_id: uint64_t
    live: LivePtr
    live_count: uint64_t
    live_capacity: uint64_t
    places: cython.pointer[uint32_t]  # place + 1, 0 when not live
    ids_max: uint64_t

    def __init__(self, engine: Engine, seed: int, resting: int, ids_max: int) -> None:
        """Take an engine with instrument 1 and sessions 2 to MIX_SESSIONS + 1 open.

        Args:
            engine: its own; another one in the same state is measured with what is made.
            seed: of the random numbers.
            resting: live orders to keep, about.
            ids_max: client order ids it may need at most.
        """
        self.engine = engine
        self.seed = seed
        self.resting = resting
        self.mid = 1_000_000
        self.next_id = 1
        self.live_capacity = 4 * resting + 4096
        self.ids_max = ids_max
        self.live = cython.cast(LivePtr, malloc(self.live_capacity * cython.sizeof(Live)))
        self.places = cython.cast(
            cython.pointer[uint32_t], malloc((ids_max + 1) * cython.sizeof(uint32_t))
        )
        if self.live == cython.NULL or self.places == cython.NULL:
            raise MemoryError
        memset(self.places, 0, (ids_max + 1) * cython.sizeof(uint32_t))

    def __dealloc__(self) -> None:
        """Give the memory back."""
        free(self.live)
        free(self.places)

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def random(self, below: uint64_t) -> uint64_t:
        """Return the next random number below a bound."""
        return random_below(cython.address(self.seed), below)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def make(self, command: CommandPtr) -> cython.void:
        """Make the next command."""
        dice: uint64_t = self.random(1000)
        side: uint8_t = cython.cast(uint8_t, _BUY + self.random(2))
        sign: int64_t = 1 if side == _BUY else -1
        is_over: cython.bint = self.live_count > self.resting
        picked: LivePtr
        if self.random(64) == 0:
            self.mid += cython.cast(int64_t, self.random(3)) - 1
        set_order(command, side, self.next_id, 0, 1 + self.random(10))
        command.session_id = _SESSION + cython.cast(uint32_t, self.random(_SESSIONS))
        if self.live_count + 8 >= self.live_capacity:
            dice = 900
        if self.live_count != 0 and dice < 220:
            picked = self.live + self.random(self.live_count)
            if dice < 200:
                # A fifth: cancels of live orders.
                command.kind = _CANCEL
                command.order_type = 0
                command.side = 0
                command.qty_lots = 0
            else:
                # An id that is live already.
                command.price_ticks = self.mid - sign * 50
            command.session_id = picked.session_id
            command.client_order_id = picked.client_order_id
            return
        self.next_id += 1
        if dice < 240:
            # A cancel of an id never seen.
            command.kind = _CANCEL
            command.order_type = 0
            command.side = 0
            command.qty_lots = 0
        elif dice < 260:
            command.order_type = _POST_ONLY
            command.price_ticks = self.mid - sign * cython.cast(int64_t, 1 + self.random(50))
        elif dice < 270:
            command.order_type = _FOK
            command.price_ticks = self.mid + sign * cython.cast(int64_t, self.random(8))
        elif dice < (460 if is_over else 330):
            command.order_type = _IOC
            command.price_ticks = self.mid + sign * cython.cast(int64_t, self.random(20))
            command.qty_lots = 1 + self.random(24)
        elif dice < (540 if is_over else 360):
            command.order_type = _MARKET
            command.qty_lots = 1 + self.random(24)
        else:
            # Nearer prices are more frequent: the smaller of two draws.
            command.price_ticks = self.mid - sign * cython.cast(
                int64_t, min(self.random(51), self.random(51))
            )

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def note(self, command: CommandPtr, window: WindowPtr, accepted: cython.bint) -> cython.void:
        """Follow which orders live, from what the command was and what became of it."""
        event: EventPtr
        place: uint32_t
        number: uint64_t
        if accepted and command.kind == _NEW_ORDER:
            self.live[self.live_count].session_id = command.session_id
            self.live[self.live_count].client_order_id = command.client_order_id
            self.places[command.client_order_id] = cython.cast(uint32_t, self.live_count + 1)
            self.live_count += 1
        for number in range(window.next):
            event = window.base + number
            if event.kind != _DONE or event.order_id == 0:
                continue
            place = self.places[event.client_order_id] - 1
            self.places[event.client_order_id] = 0
            self.live_count -= 1
            if place != self.live_count:
                self.live[place] = self.live[self.live_count]
                self.places[self.live[place].client_order_id] = place + 1

    def fill(self, count: int) -> bytes:
        """Make the next commands of the stream."""
        events = cython.declare(Event[256])
        window = cython.declare(EventWindow)
        number: cython.longlong
        total: cython.longlong = count
        accepted: cython.bint
        if self.next_id + count > self.ids_max:
            raise ValueError(f"count={count}, but ids end at {self.ids_max}")
        made: bytes = PyBytes_FromStringAndSize(cython.NULL, total * cython.sizeof(Command))
        first: CommandPtr = cython.cast(
            CommandPtr, cython.cast(cython.p_void, PyBytes_AS_STRING(made))
        )
        window.base = cython.address(events[0])
        window.mask = 255
        with cython.nogil:
            for number in range(total):
                self.make(first + number)
                window.next = 0
                window.limit = 256
                # At most 24 lots are taken at once: the events of a command fit.
                self.engine.execute(first + number, cython.address(window))
                accepted = events[0].reason == 0
                self.note(first + number, cython.address(window), accepted)
        return made

    @property
    def live_orders(self) -> int:
        """Orders that live after what was made."""
        return self.live_count
