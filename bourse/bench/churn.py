"""A book of constant size, with the same work for each command whatever that size: for curves.

    ten commands: C x (cancel any live order, rest a new one on any level)
                  5 - C x (rest one lot between the two sides, take it)

With C = 2 a fifth are cancels, as in `mixed`; C = 4 is the hardest for a large book, whose orders
nearly all are cancelled. Orders are one lot each, on both sides' levels, of 16 sessions, in no
order: nothing is kinder to a cache than a book of such a size is. Compiled only.
"""

from __future__ import annotations

import cython
from cython.cimports.bourse.bench.sockets import monotonic_ns
from cython.cimports.bourse.bench.splitmix import random_below
from cython.cimports.bourse.core.engine import Engine
from cython.cimports.bourse.core.foresight import Foresight, foresee, foresight_pays
from cython.cimports.bourse.core.indexes import ALL_ONES
from cython.cimports.bourse.core.records import Command, Event, EventWindow
from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cython.cimports.libc.stdint import int64_t, uint8_t, uint32_t, uint64_t
from cython.cimports.libc.stdlib import free, malloc
from cython.cimports.libc.string import memset

from bourse.domain import CommandKind, OrderType, Side

CHURN_SESSIONS = 16
"""Sessions, from id 2."""
MID_TICKS = 10_000_000

_MID = cython.declare(int64_t, MID_TICKS)
_NEW_ORDER = cython.declare(cython.int, CommandKind.NEW_ORDER)
_CANCEL = cython.declare(cython.int, CommandKind.CANCEL)
_LIMIT = cython.declare(cython.int, OrderType.LIMIT)
_IOC = cython.declare(cython.int, OrderType.IOC)
_BUY = cython.declare(cython.int, Side.BUY)
_SELL = cython.declare(cython.int, Side.SELL)
_SESSION = cython.declare(uint32_t, 2)
_SESSIONS = cython.declare(uint32_t, CHURN_SESSIONS)

CommandPtr = cython.typedef(cython.pointer[Command])
Live = cython.struct(client_order_id=uint32_t, session_id=uint32_t)


@cython.final
@cython.cclass
class Churn:
    """Fills a book and makes commands that keep it as it is."""

    seed: uint64_t
    count: uint64_t
    levels: uint64_t
    next_id: uint64_t
    live: cython.pointer[Live]

    def __init__(self, seed: int, orders: int, levels: int) -> None:
        """Plan a book.

        Args:
            seed: of the random numbers.
            orders: live orders.
            levels: of both sides together, an even number.
        """
        self.seed = seed
        self.count = orders
        self.levels = levels
        self.next_id = 1
        self.live = cython.cast(cython.pointer[Live], malloc(orders * cython.sizeof(Live)))
        if self.live == cython.NULL:
            raise MemoryError

    def __dealloc__(self) -> None:
        """Give the memory back."""
        free(self.live)

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def random(self, below: uint64_t) -> uint64_t:
        """Return the next random number below a bound."""
        return random_below(cython.address(self.seed), below)

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def rest(self, command: CommandPtr, level: uint64_t, place: uint64_t) -> cython.void:
        """Make an order at a level, bids and asks by turns, that lives at a place."""
        side: uint8_t = cython.cast(uint8_t, _BUY + (level & 1))
        distance: int64_t = cython.cast(int64_t, level // 2 + 1)
        memset(command, 0, cython.sizeof(Command))
        command.kind = _NEW_ORDER
        command.side = side
        command.order_type = _LIMIT
        command.instrument_id = 1
        command.session_id = _SESSION + cython.cast(uint32_t, self.random(_SESSIONS))
        command.client_order_id = self.next_id
        command.price_ticks = _MID - distance if side == _BUY else _MID + distance
        command.qty_lots = 1
        self.live[place].client_order_id = cython.cast(uint32_t, self.next_id)
        self.live[place].session_id = command.session_id
        self.next_id += 1

    def fill(self, engine: Engine) -> None:
        """Rest all orders: first one on each level, then on any."""
        events = cython.declare(Event[256])
        window = cython.declare(EventWindow)
        command = cython.declare(Command)
        number: uint64_t
        window.base = cython.address(events[0])
        window.mask = 255
        with cython.nogil:
            for number in range(self.count):
                self.rest(
                    cython.address(command),
                    number if number < self.levels else self.random(self.levels),
                    number,
                )
                window.next = 0
                window.limit = 256
                engine.execute(cython.address(command), cython.address(window))

    def make(self, count: int, cancels: int) -> bytes:
        """Make the next commands.

        Args:
            count: how many, a multiple of ten.
            cancels: of ten commands, 0 to 5.
        """
        cancelling: uint64_t = 2 * cancels
        number: uint64_t
        total: uint64_t = count
        place: uint64_t
        if count % 10:
            raise ValueError(f"count={count}, expected a multiple of 10")
        made: bytes = PyBytes_FromStringAndSize(cython.NULL, total * cython.sizeof(Command))
        command: CommandPtr = cython.cast(
            CommandPtr, cython.cast(cython.p_void, PyBytes_AS_STRING(made))
        )
        with cython.nogil:
            number = 0
            while number < total:
                if number % 10 < cancelling:
                    place = self.random(self.count)
                    memset(command, 0, cython.sizeof(Command))
                    command.kind = _CANCEL
                    command.instrument_id = 1
                    command.session_id = self.live[place].session_id
                    command.client_order_id = self.live[place].client_order_id
                    self.rest(command + 1, self.random(self.levels), place)
                else:
                    self.cross(command, _BUY, _LIMIT)
                    self.cross(command + 1, _SELL, _IOC)
                command += 2
                number += 2
        return made

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def cross(self, command: CommandPtr, side: uint8_t, order_type: uint8_t) -> cython.void:
        """Make one of two orders that meet between the two sides."""
        memset(command, 0, cython.sizeof(Command))
        command.kind = _NEW_ORDER
        command.side = side
        command.order_type = order_type
        command.instrument_id = 1
        command.session_id = _SESSION + cython.cast(uint32_t, self.random(_SESSIONS))
        command.client_order_id = self.next_id
        command.price_ticks = _MID
        command.qty_lots = 1
        self.next_id += 1


def run(engine: Engine, commands: bytes, look_ahead: bool = True) -> float:
    """Execute consecutive 64-byte commands, looking ahead as the matcher does.

    Returns:
        Nanoseconds of all commands together.
    """
    events = cython.declare(Event[256])
    window = cython.declare(EventWindow)
    ahead = cython.declare(Foresight)
    start_ns: int64_t
    number: uint64_t
    count: uint64_t = len(commands) // cython.sizeof(Command)
    first: CommandPtr = cython.cast(
        CommandPtr, cython.cast(cython.p_void, PyBytes_AS_STRING(commands))
    )
    far: cython.bint = look_ahead and foresight_pays(cython.address(engine.books))
    memset(cython.address(ahead), 0, cython.sizeof(Foresight))
    window.base = cython.address(events[0])
    window.mask = 255
    with cython.nogil:
        start_ns = monotonic_ns()
        for number in range(count):
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
                    window.next = 0
                    if engine.resume(cython.address(window)):
                        break
        start_ns = monotonic_ns() - start_ns
    return cython.cast(cython.double, start_ns)
