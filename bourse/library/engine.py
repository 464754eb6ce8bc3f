"""The engine for Python: orders one by one, each call returning its fills, or NumPy arrays of them.

    limit(), market(), ioc(), ... ──► arguments.py ──► Command ─┐
                                                               ├─► core Engine.execute()
    submit(array of commands) ──► arrays.py ───────────────────┘        │
                                                                        ▼
    results.Outcome, with its Fills  ◄── one call: 256 events of the engine's own
    array of events                  ◄── submit(): written straight into the array's memory

submit() runs without the GIL, and looks ahead in a large book (core/foresight.pxd).

An answer of the exchange is a value, also when it is no: `Outcome.reason` says why. An exception
means that nothing was executed, and the engine is as it was. Compiled only.
"""

from __future__ import annotations

import cython
from cython.cimports.bourse.core.books import BooksPtr
from cython.cimports.bourse.core.engine import Engine as CoreEngine
from cython.cimports.bourse.core.events import EventPtr, WindowPtr
from cython.cimports.bourse.core.executor import CommandPtr
from cython.cimports.bourse.core.foresight import (
    Foresight,
    foresee,
    foresee_first,
    foresight_pays,
)
from cython.cimports.bourse.core.records import Command, DepthLevel, Event, EventWindow
from cython.cimports.bourse.core.words import (
    ACCEPTED,
    BUY,
    BY_ORDER_ID,
    CANCEL,
    CANCEL_ORDERS,
    DONE,
    FOK,
    INSTRUMENT_DEFINE,
    IOC,
    LIMIT,
    MARKET,
    NEW_ORDER,
    OPERATOR,
    POST_ONLY,
    REPLACE,
    REPLACED,
    SELL,
    SESSION_END,
    SESSION_OPEN,
    TRADE,
)
from cython.cimports.bourse.library.arguments import is_command, side_of, signed, unsigned
from cython.cimports.bourse.library.reads import best_price, level_at_price
from cython.cimports.bourse.library.results import Fill, Outcome
from cython.cimports.cpython.buffer import (
    Py_buffer,
    PyBUF_SIMPLE,
    PyBuffer_Release,
    PyObject_GetBuffer,
)
from cython.cimports.cpython.bytearray import (
    PyByteArray_AS_STRING,
    PyByteArray_FromStringAndSize,
    PyByteArray_GET_SIZE,
    PyByteArray_Resize,
)
from cython.cimports.cpython.ref import Py_INCREF
from cython.cimports.cpython.tuple import PyTuple_New, PyTuple_SET_ITEM
from cython.cimports.libc.stdint import int64_t, uint8_t, uint32_t, uint64_t
from cython.cimports.libc.stdlib import free, malloc
from cython.cimports.libc.string import memset

from bourse import domain
from bourse.core import records
from bourse.core.engine import ORDERS_MAX
from bourse.errors import RefusedError
from bourse.journal import snapshot as snapshots
from bourse.journal.image import sort_by_priority
from bourse.library import arguments

# Of an argument that is said to be an int or a bool, Cython would make one, also of 1.5. So numbers
# are said to be SupportsIndex, which it does not know, and arguments.py decides.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import SupportsIndex

    import numpy
    import numpy.typing

    from bourse.library import results  # for readers of types: cimported names are C's

    Flag = bool

SESSION_ID = 2
"""The session that an order belongs to if nothing else is said: the first one that is opened."""

_EVENTS = 256  # room for the events of one call; more pass through it in turns
_U32_MAX = cython.declare(uint64_t, 0xFFFF_FFFF)
_U64_MAX = cython.declare(uint64_t, 0xFFFF_FFFF_FFFF_FFFF)
_SYMBOL_BYTES = 16
# Events of a batch that room is made for at first, a command. A new order that rests has two.
_EVENTS_PER_COMMAND = 3
_EVENTS_MORE = 257


@cython.final
@cython.cclass
class Engine:
    """One exchange without a daemon: instruments, sessions, books.

    A new one has the instruments of `symbols`, numbered from 1, and `sessions` open sessions,
    numbered from 2 (session 1 is the operator's). The same commands always give the same events.

    Prices are whole ticks and quantities whole lots. One thread at a time may call it; a call
    while submit() runs in another thread raises RuntimeError.
    """

    core: CoreEngine
    events: EventPtr
    is_made: cython.bint
    is_busy: cython.bint
    last_instrument_id: uint32_t
    blocks: list

    def __cinit__(self) -> None:
        """Take memory for an engine that knows nothing, and for the events of one call."""
        self.events = cython.cast(EventPtr, malloc(_EVENTS * cython.sizeof(Event)))
        if self.events == cython.NULL:
            raise MemoryError
        self.core = CoreEngine()
        self.is_made = False
        self.is_busy = False
        self.last_instrument_id = 0
        self.blocks = []

    def __init__(
        self,
        *,
        symbols: Iterable[str] = ("DEMO",),
        sessions: SupportsIndex = 1,
        orders_max: SupportsIndex = ORDERS_MAX,
    ) -> None:
        """Make an empty exchange.

        Args:
            symbols: names of the instruments to define, 1 to 16 printable characters each.
            sessions: how many sessions to open.
            orders_max: live orders that it takes at most; one more is refused as OUT_OF_MEMORY.

        Raises:
            TypeError, ValueError: an argument is wrong.
            RuntimeError: it is made already.
        """
        number: uint32_t
        count: uint32_t = unsigned(sessions, "sessions", _U32_MAX - 1)
        if isinstance(symbols, (str, bytes)):
            raise TypeError("symbols is one text, expected several, such as ('DEMO',)")
        names = [_symbol_bytes(symbol) for symbol in symbols]
        most = arguments.whole_within(orders_max, "orders_max", 1, ORDERS_MAX)
        if self.is_made or self.core.books.state.wal_seq != 0:
            raise RuntimeError("an engine is made once")
        self.is_made = True
        if most != ORDERS_MAX:
            self.core = CoreEngine(most)
        for name in names:
            self.define(self.last_instrument_id + 1, name)
        for number in range(count):
            self.open_session(SESSION_ID + number)

    def __dealloc__(self) -> None:
        """Give the memory back."""
        free(self.events)

    # --- Orders one by one ---

    def limit(
        self,
        side: domain.Side | str,
        qty_lots: SupportsIndex,
        price_ticks: SupportsIndex,
        *,
        client_order_id: SupportsIndex | None = None,
        session_id: SupportsIndex = SESSION_ID,
        instrument_id: SupportsIndex = domain.INSTRUMENT_ID,
    ) -> results.Outcome:
        """Trade with what is at this price or better; the rest goes into the book.

        Args:
            side: Side.BUY, Side.SELL, "buy" or "sell".
            qty_lots: how many lots, from 1.
            price_ticks: the worst price to trade at.
            client_order_id: a number that no live order of the session has. None: the number that
                the exchange gives the order, so that one number names it in both ways.
            session_id: who asks.
            instrument_id: what to trade.

        Raises:
            TypeError, ValueError: an argument is wrong; nothing was executed.
        """
        return self.new_order(
            LIMIT, side, qty_lots, price_ticks, client_order_id, session_id, instrument_id
        )

    def market(
        self,
        side: domain.Side | str,
        qty_lots: SupportsIndex,
        *,
        client_order_id: SupportsIndex | None = None,
        session_id: SupportsIndex = SESSION_ID,
        instrument_id: SupportsIndex = domain.INSTRUMENT_ID,
    ) -> results.Outcome:
        """Trade at any price; the rest ends with NO_LIQUIDITY. Arguments as limit()'s."""
        return self.new_order(MARKET, side, qty_lots, 0, client_order_id, session_id, instrument_id)

    def ioc(
        self,
        side: domain.Side | str,
        qty_lots: SupportsIndex,
        price_ticks: SupportsIndex,
        *,
        client_order_id: SupportsIndex | None = None,
        session_id: SupportsIndex = SESSION_ID,
        instrument_id: SupportsIndex = domain.INSTRUMENT_ID,
    ) -> results.Outcome:
        """Trade at this price or better; the rest ends with EXPIRED. Arguments as limit()'s."""
        return self.new_order(
            IOC, side, qty_lots, price_ticks, client_order_id, session_id, instrument_id
        )

    def fok(
        self,
        side: domain.Side | str,
        qty_lots: SupportsIndex,
        price_ticks: SupportsIndex,
        *,
        client_order_id: SupportsIndex | None = None,
        session_id: SupportsIndex = SESSION_ID,
        instrument_id: SupportsIndex = domain.INSTRUMENT_ID,
    ) -> results.Outcome:
        """Trade all of it at this price or better, or be refused. Arguments as limit()'s."""
        return self.new_order(
            FOK, side, qty_lots, price_ticks, client_order_id, session_id, instrument_id
        )

    def post_only(
        self,
        side: domain.Side | str,
        qty_lots: SupportsIndex,
        price_ticks: SupportsIndex,
        *,
        client_order_id: SupportsIndex | None = None,
        session_id: SupportsIndex = SESSION_ID,
        instrument_id: SupportsIndex = domain.INSTRUMENT_ID,
    ) -> results.Outcome:
        """Go into the book, or be refused if it would trade at once. Arguments as limit()'s."""
        return self.new_order(
            POST_ONLY, side, qty_lots, price_ticks, client_order_id, session_id, instrument_id
        )

    def cancel(
        self, client_order_id: SupportsIndex, *, session_id: SupportsIndex = SESSION_ID
    ) -> results.Outcome:
        """End a live order of a session.

        Raises:
            TypeError, ValueError: an argument is wrong; nothing was executed.
        """
        command = cython.declare(Command)
        memset(cython.address(command), 0, cython.sizeof(Command))
        command.kind = CANCEL
        command.client_order_id = unsigned(client_order_id, "client_order_id", _U64_MAX)
        command.session_id = cython.cast(uint32_t, unsigned(session_id, "session_id", _U32_MAX))
        return self.answer(cython.address(command))

    def cancel_any(self, order_id: SupportsIndex) -> results.Outcome:
        """End any live order, by its exchange number, as the operator.

        Raises:
            TypeError, ValueError: an argument is wrong; nothing was executed.
        """
        command = cython.declare(Command)
        memset(cython.address(command), 0, cython.sizeof(Command))
        command.kind = CANCEL
        command.flags = BY_ORDER_ID
        command.order_id = unsigned(order_id, "order_id", _U64_MAX)
        command.session_id = OPERATOR
        return self.answer(cython.address(command))

    def replace(
        self,
        client_order_id: SupportsIndex,
        qty_lots: SupportsIndex,
        price_ticks: SupportsIndex,
        *,
        session_id: SupportsIndex = SESSION_ID,
    ) -> results.Outcome:
        """Give a live order of a session another price and another total quantity.

        A smaller quantity at the same price keeps the order's place; anything else loses it, and
        may trade at once.

        Args:
            client_order_id: names the order.
            qty_lots: the new total, including what is filled already.
            price_ticks: the new price.
            session_id: whose order it is.

        Raises:
            TypeError, ValueError: an argument is wrong; nothing was executed.
        """
        command = cython.declare(Command)
        memset(cython.address(command), 0, cython.sizeof(Command))
        command.kind = REPLACE
        command.client_order_id = unsigned(client_order_id, "client_order_id", _U64_MAX)
        command.qty_lots = unsigned(qty_lots, "qty_lots", _U64_MAX)
        command.price_ticks = signed(price_ticks, "price_ticks")
        command.session_id = cython.cast(uint32_t, unsigned(session_id, "session_id", _U32_MAX))
        return self.answer(cython.address(command))

    @cython.cfunc
    def new_order(
        self,
        order_type: uint8_t,
        side: object,
        qty_lots: object,
        price_ticks: object,
        client_order_id: object,
        session_id: object,
        instrument_id: object,
    ) -> Outcome:
        """Make a command of a new order's arguments and execute it."""
        command = cython.declare(Command)
        command.kind = NEW_ORDER
        command.side = side_of(side)
        command.order_type = order_type
        command.flags = 0
        command.spare = 0
        command.order_id = 0
        command.received_ns = 0
        command.client_time_ns = 0
        command.qty_lots = unsigned(qty_lots, "qty_lots", _U64_MAX)
        command.price_ticks = signed(price_ticks, "price_ticks")
        command.session_id = cython.cast(uint32_t, unsigned(session_id, "session_id", _U32_MAX))
        command.instrument_id = cython.cast(
            uint32_t, unsigned(instrument_id, "instrument_id", _U32_MAX)
        )
        if client_order_id is None:
            command.client_order_id = self.core.books.state.next_order_id
        else:
            command.client_order_id = unsigned(client_order_id, "client_order_id", _U64_MAX)
        return self.answer(cython.address(command))

    @cython.cfunc
    def answer(self, command: CommandPtr) -> Outcome:
        """Execute a command of an order and say what became of it."""
        window = cython.declare(EventWindow)
        outcome: Outcome
        trades: list
        finished: cython.bint
        if self.is_busy:
            _refuse_busy()
        outcome = Outcome.__new__(Outcome)
        outcome.client_number = command.client_order_id
        outcome.end_number = 0
        outcome.open_lots = 0
        outcome.lost_lots = 0
        outcome.traded_lots = 0
        window.base = self.events
        window.mask = _EVENTS - 1
        window.next = 0
        window.limit = _EVENTS
        finished = self.core.execute(command, cython.address(window))
        outcome.reason_number = self.events[0].reason
        outcome.order_number = self.events[0].order_id
        if command.kind == CANCEL and outcome.reason_number == 0:
            outcome.client_number = self.events[1].client_order_id
        note_events(outcome, self.events, window.next)
        if finished:
            outcome.trades = fills_tuple(self.events, window.next)
        else:
            trades = list(fills_tuple(self.events, window.next))
            while not finished:
                window.next = 0
                finished = self.core.resume(cython.address(window))
                note_events(outcome, self.events, window.next)
                trades.extend(fills_tuple(self.events, window.next))
            outcome.trades = tuple(trades)
        return outcome

    # --- Sessions and instruments ---

    def define_instrument(self, symbol: str, instrument_id: SupportsIndex | None = None) -> int:
        """Add an instrument with an empty book.

        Args:
            symbol: 1 to 16 printable ASCII characters without blanks.
            instrument_id: from 1; None: one more than the highest so far.

        Returns:
            Its instrument id.

        Raises:
            TypeError, ValueError: an argument is wrong; nothing was executed.
            RefusedError: there is such an instrument already.
        """
        number: uint64_t
        name = _symbol_bytes(symbol)
        if instrument_id is None:
            number = cython.cast(uint64_t, self.last_instrument_id) + 1
        else:
            number = arguments.whole_within(instrument_id, "instrument_id", 1, _U32_MAX)
        if number > _U32_MAX:
            raise ValueError("the highest instrument_id is in use; name another one")
        self.define(cython.cast(uint32_t, number), name)
        return number

    @cython.cfunc
    def define(self, instrument_id: uint32_t, symbol: bytes) -> object:
        """Execute the definition of an instrument."""
        command = cython.declare(Command)
        memset(cython.address(command), 0, cython.sizeof(Command))
        command.kind = INSTRUMENT_DEFINE
        command.instrument_id = instrument_id
        command.session_id = OPERATOR
        padded: bytes = symbol.ljust(_SYMBOL_BYTES, b"\0")
        command.client_order_id = int.from_bytes(padded[:8], "little")
        command.order_id = int.from_bytes(padded[8:], "little")
        self.demand(cython.address(command))
        if instrument_id > self.last_instrument_id:
            self.last_instrument_id = instrument_id
        return None

    def open_session(self, session_id: SupportsIndex | None = None) -> int:
        """Open a session, in whose name orders can be sent.

        Args:
            session_id: higher than all before; None: one more than the highest.

        Returns:
            Its session id.

        Raises:
            TypeError, ValueError: an argument is wrong; nothing was executed.
            RefusedError: the number is not higher than all before.
        """
        command = cython.declare(Command)
        number: uint64_t
        memset(cython.address(command), 0, cython.sizeof(Command))
        if session_id is None:
            number = cython.cast(uint64_t, self.core.books.state.last_session_id) + 1
            # An engine that knows the operator only has not counted it yet.
            number = max(number, cython.cast(uint64_t, SESSION_ID))
        else:
            number = arguments.whole_within(session_id, "session_id", 1, _U32_MAX)
        if number > _U32_MAX:
            raise ValueError("the highest session_id is in use")
        command.kind = SESSION_OPEN
        command.session_id = cython.cast(uint32_t, number)
        self.demand(cython.address(command))
        return number

    def end_session(
        self, session_id: SupportsIndex, *, cancel_orders: Flag = True
    ) -> tuple[int, ...]:
        """Close a session for ever.

        Args:
            session_id: not the operator's.
            cancel_orders: whether its live orders end with it.

        Returns:
            The order ids of those that have ended, rising.

        Raises:
            TypeError, ValueError: an argument is wrong; nothing was executed.
            RefusedError: the session is not open, or is the operator's.
        """
        command = cython.declare(Command)
        memset(cython.address(command), 0, cython.sizeof(Command))
        if not isinstance(cancel_orders, bool):
            raise TypeError(f"cancel_orders is a {type(cancel_orders).__name__}, expected a bool")
        command.kind = SESSION_END
        command.flags = CANCEL_ORDERS if cancel_orders else 0
        command.session_id = cython.cast(uint32_t, unsigned(session_id, "session_id", _U32_MAX))
        return tuple(self.demand(cython.address(command)))

    @cython.cfunc
    def demand(self, command: CommandPtr) -> list:
        """Execute a command that must not be refused; the order ids of all that ended."""
        window = cython.declare(EventWindow)
        finished: cython.bint
        ended: list = []
        reason: uint8_t
        if self.is_busy:
            _refuse_busy()
        window.base = self.events
        window.mask = _EVENTS - 1
        window.next = 0
        window.limit = _EVENTS
        finished = self.core.execute(command, cython.address(window))
        reason = self.events[0].reason
        while True:
            ended += [
                self.events[at].order_id
                for at in range(window.next)
                if self.events[at].kind == DONE
            ]
            if finished:
                break
            window.next = 0
            finished = self.core.resume(cython.address(window))
        if reason != 0:
            raise RefusedError(domain.Reason(reason))
        return ended

    # --- NumPy arrays ---

    def submit(
        self, commands: numpy.typing.NDArray[numpy.void]
    ) -> numpy.typing.NDArray[numpy.void]:
        """Execute an array of commands and return all their events, in their order.

        The interpreter's lock is not held meanwhile. The memory of a returned array is used again
        once nothing refers to the array any more.

        Args:
            commands: one dimension, contiguous, of dtype bourse.COMMAND_DTYPE; must not change
                during the call.

        Returns:
            An array of dtype bourse.EVENT_DTYPE: for each command its HEAD, then what followed.

        Raises:
            TypeError: not such an array; nothing was executed.
            ValueError: not contiguous, not at a multiple of 8 bytes, or a kind that is no command;
                nothing was executed.
            ImportError: NumPy is not installed.
            MemoryError: no room for the events; the text says how many commands were executed.
        """
        from bourse.library import arrays

        view = cython.declare(Py_buffer)
        block: bytearray
        count: uint64_t
        event_count: uint64_t
        arrays.check_commands(commands)
        if self.is_busy:
            _refuse_busy()
        PyObject_GetBuffer(commands, cython.address(view), PyBUF_SIMPLE)
        try:
            if cython.cast(cython.size_t, view.buf) % 8 != 0:
                raise ValueError(
                    "commands does not begin at a multiple of 8 bytes; pass commands.copy()"
                )
            count = view.len // cython.sizeof(Command)
            self.check_kinds(cython.cast(CommandPtr, view.buf), count)
            block = self.take_block(count * _EVENTS_PER_COMMAND + _EVENTS_MORE)
            event_count = self.execute_all(cython.cast(CommandPtr, view.buf), count, block)
        finally:
            PyBuffer_Release(cython.address(view))
        return arrays.events_of(block, event_count)

    @cython.cfunc
    def check_kinds(self, commands: CommandPtr, count: uint64_t) -> object:
        """Raise ValueError for the first command whose kind is none."""
        at: uint64_t
        for at in range(count):
            if not is_command(commands[at].kind):
                raise ValueError(
                    f"commands[{at}] has kind={commands[at].kind}, "
                    f"expected one of domain.CommandKind below {domain.CommandKind.DEPTH}"
                )
        return None

    @cython.cfunc
    def take_block(self, event_room: uint64_t) -> bytearray:
        """Return memory for so many events, over which no array lives."""
        block: bytearray
        size: cython.Py_ssize_t = event_room * cython.sizeof(Event)
        now: cython.Py_ssize_t
        at: cython.Py_ssize_t
        for at in range(len(self.blocks)):
            block = self.blocks[at]
            now = PyByteArray_GET_SIZE(block)
            if size <= now:
                # It is large enough; the size changes to and fro, only to see whether it may.
                size = now + (-64 if now & 64 else 64)
            try:
                PyByteArray_Resize(block, size)
            except BufferError:
                size = event_room * cython.sizeof(Event)
                continue
            return block
        block = PyByteArray_FromStringAndSize(cython.NULL, size)
        # Two, for `events = engine.submit(...)` in a loop: the old array lives until the new one is
        # there.
        if len(self.blocks) >= 2:
            del self.blocks[0]
        self.blocks.append(block)
        return block

    @cython.cfunc
    @cython.exceptval(0xFFFF_FFFF_FFFF_FFFF)
    def execute_all(self, commands: CommandPtr, count: uint64_t, block: bytearray) -> uint64_t:
        """Execute commands into a block that grows as needed; return how many events there are."""
        window = cython.declare(EventWindow)
        done_count: uint64_t = 0
        is_unfinished: cython.bint = False
        is_over: cython.bint
        window.next = 0
        window.mask = _U64_MAX
        while True:
            window.base = cython.cast(
                EventPtr, cython.cast(cython.p_void, PyByteArray_AS_STRING(block))
            )
            window.limit = PyByteArray_GET_SIZE(block) // cython.sizeof(Event)
            self.is_busy = True
            with cython.nogil:
                is_over = execute_some(
                    self.core,
                    commands,
                    count,
                    cython.address(done_count),
                    cython.address(is_unfinished),
                    cython.address(window),
                )
            self.is_busy = False
            if is_over:
                return window.next
            try:
                PyByteArray_Resize(block, 2 * PyByteArray_GET_SIZE(block))
            except MemoryError:
                self.finish_without_room()
                raise MemoryError(
                    f"no memory for the events of {count} commands; "
                    f"{done_count + 1} were executed, their events are lost"
                ) from None

    @cython.cfunc
    def finish_without_room(self) -> object:
        """Finish a command whose events nobody will see."""
        window = cython.declare(EventWindow)
        window.base = self.events
        window.mask = _EVENTS - 1
        while True:
            window.next = 0
            window.limit = _EVENTS
            if self.core.resume(cython.address(window)):
                return None

    # --- Looking ---

    def best_bid(self, instrument_id: SupportsIndex = domain.INSTRUMENT_ID) -> int | None:
        """Return the highest price that somebody wants to buy at, in ticks; None: nobody."""
        return self.best(instrument_id, BUY)

    def best_ask(self, instrument_id: SupportsIndex = domain.INSTRUMENT_ID) -> int | None:
        """Return the lowest price that somebody wants to sell at, in ticks; None: nobody."""
        return self.best(instrument_id, SELL)

    @cython.cfunc
    def best(self, instrument_id: object, side: uint32_t) -> object:
        """Return the touch of a side."""
        price_ticks: int64_t = 0
        found: cython.int
        number: uint32_t = unsigned(instrument_id, "instrument_id", _U32_MAX)
        if self.is_busy:
            _refuse_busy()
        found = best_price(self.core, number, side, cython.address(price_ticks))
        if found < 0:
            raise ValueError(f"instrument_id={number} is not defined")
        return price_ticks if found else None

    def depth(
        self, levels_max: SupportsIndex = 10, instrument_id: SupportsIndex = domain.INSTRUMENT_ID
    ) -> tuple[list[records.DepthLevel], list[records.DepthLevel]]:
        """Return the best levels of both sides, bids and asks, best first.

        Raises:
            TypeError, ValueError: an argument is wrong, or there is no such instrument.
        """
        number: uint32_t = unsigned(instrument_id, "instrument_id", _U32_MAX)
        most: uint32_t = unsigned(levels_max, "levels_max", _U32_MAX)
        if self.is_busy:
            _refuse_busy()
        bids, asks = self.core.depth_levels(most, number)
        return (
            [records.DepthLevel(*level) for level in bids],
            [records.DepthLevel(*level) for level in asks],
        )

    def depth_at(
        self,
        side: domain.Side | str,
        price_ticks: SupportsIndex,
        instrument_id: SupportsIndex = domain.INSTRUMENT_ID,
    ) -> records.DepthLevel:
        """Return what rests at one price; quantity and count are 0 where nobody does.

        Raises:
            TypeError, ValueError: an argument is wrong, or there is no such instrument.
        """
        level = cython.declare(DepthLevel)
        which: uint8_t = side_of(side)
        price: int64_t = signed(price_ticks, "price_ticks")
        number: uint32_t = unsigned(instrument_id, "instrument_id", _U32_MAX)
        if self.is_busy:
            _refuse_busy()
        if level_at_price(self.core, number, which, price, cython.address(level)) < 0:
            raise ValueError(f"instrument_id={number} is not defined")
        return records.DepthLevel(level.price_ticks, level.qty_lots, level.order_count)

    def orders(self) -> list[records.OrderRecord]:
        """Return all live orders by ascending order id."""
        if self.is_busy:
            _refuse_busy()
        return records.unpack_order_records(self.core.orders())

    @property
    def state(self) -> records.EngineState:
        """Every counter, with both digests."""
        if self.is_busy:
            _refuse_busy()
        return records.EngineState.unpack(self.core.state_bytes())

    @property
    def live_order_count(self) -> int:
        """Orders in the books."""
        return self.core.books.state.live_order_count

    @property
    def state_digest(self) -> int:
        """Digest of the live orders (docs/matching.md)."""
        return self.core.books.state.state_digest

    @property
    def event_digest(self) -> int:
        """Digest of all numbered events, in their order."""
        return self.core.books.state.event_digest

    def check(self) -> None:
        """Prove the engine's invariants; takes time in proportion to all that it holds.

        Raises:
            AssertionError: names the first one that does not hold.
        """
        if self.is_busy:
            _refuse_busy()
        self.core.check()

    def __repr__(self) -> str:
        """Say it shortly."""
        return (
            f"<bourse.Engine: {self.core.books.state.live_order_count} live orders, "
            f"state digest {records.digest_text(self.core.books.state.state_digest)}>"
        )

    # --- Snapshots ---

    def snapshot(self) -> bytes:
        """Return the whole state, in the format of the daemon's snapshot files."""
        if self.is_busy:
            _refuse_busy()
        ids = self.core.sessions()
        return b"".join(
            snapshots.encode(
                snapshots.Snapshot(
                    store_id=bytes(16),
                    state=self.core.state_bytes(),
                    instruments=self.core.instruments(),
                    sessions=b"".join([number.to_bytes(4, "little") for number in ids]),
                    orders=sort_by_priority(self.core.orders()),
                )
            )
        )

    @staticmethod
    def restore(snapshot: bytes) -> Engine:
        """Make an engine from what snapshot() returned, or from a snapshot file of a daemon.

        Raises:
            TypeError: not bytes.
            ValueError: not a whole, undamaged snapshot.
        """
        engine: Engine = Engine(symbols=(), sessions=0)
        try:
            found = snapshots.decode(snapshot)
        except snapshots.SnapshotError as error:
            raise ValueError(f"not a snapshot: {error}") from None
        engine.core.restore(found.state, found.instruments, found.sessions, found.orders)
        for at in range(0, len(found.instruments), records.INSTRUMENT_RECORD_SIZE):
            engine.last_instrument_id = max(
                engine.last_instrument_id, int.from_bytes(found.instruments[at : at + 4], "little")
            )
        return engine


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def execute_some(
    engine: CoreEngine,
    commands: CommandPtr,
    count: uint64_t,
    done_count: cython.pointer[uint64_t],
    is_unfinished: cython.pointer[cython.bint],
    window: WindowPtr,
) -> cython.bint:
    """Go on with a batch until it is over (true) or the window is full (false)."""
    at: uint64_t = done_count[0]
    ahead = cython.declare(Foresight)
    books: BooksPtr = cython.address(engine.books)
    looks_ahead: cython.bint = foresight_pays(books)
    if is_unfinished[0]:
        if not engine.resume(window):
            return False
        is_unfinished[0] = False
        at += 1
    if looks_ahead:
        memset(cython.address(ahead), 0, cython.sizeof(Foresight))
        foresee_first(books, cython.address(ahead), commands, _U64_MAX, at, count)
    while at < count:
        if looks_ahead:
            foresee(books, cython.address(ahead), commands, _U64_MAX, at, count)
        if not engine.execute(commands + at, window):
            done_count[0] = at
            is_unfinished[0] = True
            return False
        at += 1
    done_count[0] = count
    return True


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def note_events(outcome: Outcome, events: EventPtr, count: uint64_t) -> cython.void:
    """Count what a command's next events say of its own order."""
    at: uint64_t
    event: EventPtr
    if outcome.reason_number != 0:
        return
    for at in range(count):
        event = events + at
        if event.kind == TRADE:
            outcome.traded_lots += event.qty_lots
            outcome.open_lots -= event.qty_lots
        elif event.kind == ACCEPTED:
            outcome.open_lots = event.qty_lots
        elif event.kind == REPLACED:
            outcome.open_lots = event.leaves_lots
        elif event.kind == DONE and event.order_id == outcome.order_number:
            outcome.end_number = event.reason
            outcome.lost_lots = event.qty_lots
            outcome.open_lots = 0


@cython.cfunc
def fills_tuple(events: EventPtr, count: uint64_t) -> tuple:
    """Return a Fill for each trade among some events."""
    at: uint64_t
    trade_count: cython.Py_ssize_t = 0
    fill: Fill
    for at in range(count):
        trade_count += events[at].kind == TRADE
    if trade_count == 0:
        return ()
    fills: tuple = PyTuple_New(trade_count)
    trade_count = 0
    for at in range(count):
        if events[at].kind == TRADE:
            fill = Fill.__new__(Fill)
            fill.event = events[at]
            Py_INCREF(fill)  # PyTuple_SET_ITEM takes one over
            PyTuple_SET_ITEM(fills, trade_count, fill)
            trade_count += 1
    return fills


def _refuse_busy() -> None:
    raise RuntimeError("the engine is busy: submit() runs in another thread")


def _symbol_bytes(symbol: object) -> bytes:
    """Return an instrument's name as it travels.

    Raises:
        TypeError: it is no text.
        ValueError: it is no symbol.
    """
    if not isinstance(symbol, str):
        raise TypeError(f"symbol is a {type(symbol).__name__}, expected a str")
    is_printable = symbol.isascii() and all("!" <= letter <= "~" for letter in symbol)
    if not is_printable or not 1 <= len(symbol) <= _SYMBOL_BYTES:
        raise ValueError(
            f"symbol={symbol[:40]!r}, "
            f"expected 1 to {_SYMBOL_BYTES} printable ASCII characters without blanks"
        )
    return symbol.encode()
