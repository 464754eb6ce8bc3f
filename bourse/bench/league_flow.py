"""Makes the message stream of `mixed-league`: new, cancel and modify, nearly every order cancelled.

The flow executes what it makes on an engine of its own, so that it knows which orders live and
where the touch is. Its shape is held by two things: whether a message adds or cancels follows the
number of live orders, and how far from the mid an order rests is drawn from a table that league.py
calibrates. When the mid has moved onto orders, those are cancelled or moved first, as makers do: so
quotes fade and nothing trades because of the move. Compiled only.
"""

from __future__ import annotations

import cython
from cython.cimports.bourse.bench.splitmix import random_below
from cython.cimports.bourse.core.books import BooksPtr, level_at, order_at, side_at
from cython.cimports.bourse.core.engine import Engine
from cython.cimports.bourse.core.records import Command, Event, EventWindow
from cython.cimports.bourse.core.registry import find_instrument
from cython.cimports.bourse.core.structures import LevelPtr, OrderPtr, SidePtr
from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cython.cimports.libc.stdint import int64_t, uint8_t, uint32_t, uint64_t
from cython.cimports.libc.stdlib import free, malloc
from cython.cimports.libc.string import memcpy, memset

from bourse.domain import CommandKind, EventKind, OrderType, Reason, Side

FLOW_SESSIONS = 16
"""Sessions of the flow, from id 2."""

DISTANCES = 1 << 16
"""Size of the table that distances from the mid are drawn from."""

MID_TICKS = 1_000_000
"""Where the mid begins."""

_QTY_MAX = cython.declare(uint64_t, 100)
_RECENT = cython.declare(uint64_t, 256)
_SAMPLE_EVERY = cython.declare(uint64_t, 64)
_DISTANCES = cython.declare(uint64_t, DISTANCES)
_MID = cython.declare(int64_t, MID_TICKS)

# Of a thousand messages.
_REPEATED = cython.declare(uint64_t, 20)
_REPLACES = cython.declare(uint64_t, 200)
_IOC_ORDERS = cython.declare(uint64_t, 150)
# Of a hundred orders that end: filled ones.
_FILLED_PERCENT = cython.declare(uint64_t, 5)

_STATIC = cython.declare(cython.int, 0)
_NORMAL = cython.declare(cython.int, 1)

_NEW_ORDER = cython.declare(cython.int, CommandKind.NEW_ORDER)
_CANCEL = cython.declare(cython.int, CommandKind.CANCEL)
_REPLACE = cython.declare(cython.int, CommandKind.REPLACE)
_LIMIT = cython.declare(cython.int, OrderType.LIMIT)
_IOC = cython.declare(cython.int, OrderType.IOC)
_BUY = cython.declare(cython.int, Side.BUY)
_SELL = cython.declare(cython.int, Side.SELL)
_TRADE = cython.declare(cython.int, EventKind.TRADE)
_DONE = cython.declare(cython.int, EventKind.DONE)
_FILLED = cython.declare(cython.int, Reason.FILLED)
_SESSION = cython.declare(uint32_t, 2)
_SESSIONS = cython.declare(uint32_t, FLOW_SESSIONS)

CommandPtr = cython.typedef(cython.pointer[Command])
EventPtr = cython.typedef(cython.pointer[Event])
Live = cython.struct(
    client_order_id=uint64_t,
    price_ticks=int64_t,
    qty_lots=uint64_t,
    session_id=uint32_t,
    side=uint32_t,
)
LivePtr = cython.typedef(cython.pointer[Live])


@cython.final
@cython.cclass
class Flow:
    """A seeded stream of messages that keeps a number of orders on a number of levels.

    `live` holds the resting orders in no order, `places` finds one by its client order id (unique
    over all sessions), `recent` holds the last ones that ended.
    """

    engine: Engine
    seed: uint64_t
    resting: uint64_t
    mid_moves: cython.int  # 0 static, 1 normal, 2 swing
    mid: int64_t
    amplitude: int64_t  # of the swing; a quarter of what the normal mid may stray
    period: uint64_t  # messages of one whole swing
    distances: cython.pointer[uint32_t]
    next_id: uint64_t
    live: LivePtr
    live_count: uint64_t
    live_capacity: uint64_t
    places: cython.pointer[uint32_t]  # place + 1, 0 when not live
    ids_max: uint64_t
    recent: LivePtr
    made: uint64_t
    ended_ever: uint64_t
    # Of the measured part: since forget_counts().
    ended_count: uint64_t
    filled_count: uint64_t
    news: uint64_t
    iocs: uint64_t
    cancels: uint64_t
    replaces: uint64_t
    repeats: uint64_t
    trades: uint64_t
    traded_lots: uint64_t
    samples: uint64_t
    resting_sum: uint64_t
    levels_sum: uint64_t
    resting_least: uint64_t
    resting_most: uint64_t
    levels_least: uint64_t
    levels_most: uint64_t
    mid_least: int64_t
    mid_most: int64_t

    def __init__(
        self,
        engine: Engine,
        seed: int,
        resting: int,
        mid_moves: int,
        amplitude: int,
        period: int,
        distances: bytes,
        ids_max: int,
    ) -> None:
        """Take an engine with instrument 1 and sessions 2 to FLOW_SESSIONS + 1 open.

        Args:
            engine: its own; another one in the same state is measured with what is made.
            seed: of the random numbers.
            resting: live orders to keep.
            mid_moves: 0 never, 1 a random walk, 2 up and down again.
            amplitude: how far the mid swings to each side, in ticks.
            period: messages of a whole swing.
            distances: DISTANCES distances from the mid in ticks, 32 bits each; all from 1.
            ids_max: client order ids it may need at most.
        """
        source: cython.p_char = distances
        if len(distances) != DISTANCES * 4:
            raise ValueError(f"{len(distances)} bytes of distances, expected {DISTANCES * 4}")
        self.engine = engine
        self.seed = seed
        self.resting = resting
        self.mid_moves = mid_moves
        self.amplitude = amplitude
        self.period = period
        self.mid = _MID
        self.next_id = 1
        self.live_capacity = 2 * resting + 4096
        self.ids_max = ids_max
        self.live = cython.cast(LivePtr, malloc(self.live_capacity * cython.sizeof(Live)))
        self.recent = cython.cast(LivePtr, malloc(_RECENT * cython.sizeof(Live)))
        self.distances = cython.cast(
            cython.pointer[uint32_t], malloc(_DISTANCES * cython.sizeof(uint32_t))
        )
        self.places = cython.cast(
            cython.pointer[uint32_t], malloc((ids_max + 1) * cython.sizeof(uint32_t))
        )
        if (
            self.live == cython.NULL
            or self.recent == cython.NULL
            or self.distances == cython.NULL
            or self.places == cython.NULL
        ):
            raise MemoryError
        memcpy(self.distances, source, _DISTANCES * cython.sizeof(uint32_t))
        memset(self.places, 0, (ids_max + 1) * cython.sizeof(uint32_t))
        self.forget_counts()

    def __dealloc__(self) -> None:
        """Give the memory back."""
        free(self.live)
        free(self.recent)
        free(self.distances)
        free(self.places)

    def forget_counts(self) -> None:
        """Begin to count: what came before was warm-up."""
        self.ended_count = 0
        self.filled_count = 0
        self.news = 0
        self.iocs = 0
        self.cancels = 0
        self.replaces = 0
        self.repeats = 0
        self.trades = 0
        self.traded_lots = 0
        self.samples = 0
        self.resting_sum = 0
        self.levels_sum = 0
        self.resting_least = 0
        self.resting_most = 0
        self.levels_least = 0
        self.levels_most = 0
        self.mid_least = self.mid
        self.mid_most = self.mid

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
    def book_side(self, side: uint32_t) -> SidePtr:
        """Return one side of the flow's own book."""
        books: BooksPtr = cython.address(self.engine.books)
        return side_at(books, find_instrument(books, 1) + (side - _BUY))

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def touch(self, side: uint32_t, none: int64_t) -> int64_t:
        """Return the best price of a side, `none` when it is empty."""
        found: SidePtr = self.book_side(side)
        if found.best_level == 0:
            return none
        return found.best_key if side == _BUY else ~found.best_key

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def stale_side(self) -> uint32_t:
        """Return the side that the mid has moved onto, 0 when none."""
        if self.touch(_SELL, self.mid + 1) <= self.mid:
            return _SELL
        if self.touch(_BUY, self.mid - 1) >= self.mid:
            return _BUY
        return 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def move_mid(self) -> cython.void:
        """Move the mid by a tick, if it is time and its side of the book has faded."""
        phase: uint64_t
        quarter: uint64_t
        target: int64_t
        if self.mid_moves == _STATIC or self.stale_side() != 0:
            return
        if self.mid_moves == _NORMAL:
            if self.random(self.period // 96 + 1) == 0:
                self.mid += 1 if self.random(2) else -1
                # Not so far that it would leave its own orders behind.
                if self.mid > _MID + 4 * self.amplitude:
                    self.mid -= 2
                if self.mid < _MID - 4 * self.amplitude:
                    self.mid += 2
        else:
            phase = self.made % self.period
            quarter = self.period // 4 + 1
            if phase < quarter:
                target = cython.cast(int64_t, phase)
            elif phase < 3 * quarter:
                target = cython.cast(int64_t, 2 * quarter) - cython.cast(int64_t, phase)
            else:
                target = cython.cast(int64_t, phase) - cython.cast(int64_t, 4 * quarter)
            target = _MID + target * self.amplitude // cython.cast(int64_t, quarter)
            if target > self.mid:
                self.mid += 1
            elif target < self.mid:
                self.mid -= 1
        self.mid_least = min(self.mid_least, self.mid)
        self.mid_most = max(self.mid_most, self.mid)

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def passive_price(self, side: uint32_t) -> int64_t:
        """Draw a price that does not trade."""
        distance: int64_t = self.distances[self.random(_DISTANCES)]
        if side == _BUY:
            return min(self.mid - distance, self.touch(_SELL, self.mid + 1) - 1)
        return max(self.mid + distance, self.touch(_BUY, self.mid - 1) + 1)

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def victim(self) -> LivePtr:
        """Pick a live order: one that the mid has moved onto, else any."""
        stale: uint32_t = self.stale_side()
        level: LevelPtr
        order: OrderPtr
        if stale == 0:
            return self.live + self.random(self.live_count)
        level = level_at(cython.address(self.engine.books), self.book_side(stale).best_level)
        order = order_at(cython.address(self.engine.books), level.head)
        return self.live + (self.places[order.client_order_id] - 1)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def make(self, command: CommandPtr, only_new: cython.bint) -> cython.void:
        """Make the next message."""
        dice: uint64_t = self.random(1000)
        picked: LivePtr
        side: uint32_t
        other: uint32_t
        band: int64_t = cython.cast(int64_t, self.resting // 64 + 4)
        lack: int64_t = cython.cast(int64_t, self.resting) - cython.cast(int64_t, self.live_count)
        memset(command, 0, cython.sizeof(Command))
        command.instrument_id = 1
        self.made += 1
        if only_new or self.live_count == 0:
            dice = 1000
        else:
            self.move_mid()
        if dice < _REPEATED and self.ended_ever >= _RECENT:
            # What has ended already: half of them cancels, half replaces.
            picked = self.recent + self.random(_RECENT)
            self.repeats += 1
            command.kind = _CANCEL if dice & 1 else _REPLACE
            command.session_id = picked.session_id
            command.client_order_id = picked.client_order_id
            if command.kind == _REPLACE:
                command.price_ticks = picked.price_ticks
                command.qty_lots = picked.qty_lots
            return
        if dice < _REPEATED + _REPLACES:
            picked = self.victim()
            self.replaces += 1
            command.kind = _REPLACE
            command.session_id = picked.session_id
            command.client_order_id = picked.client_order_id
            command.price_ticks = picked.price_ticks
            command.qty_lots = picked.qty_lots
            dice = self.random(4)
            if dice < 2 or self.stale_side() != 0:
                command.price_ticks = self.passive_price(picked.side)
            elif dice == 2 and picked.qty_lots > 1:
                command.qty_lots -= 1 + self.random(picked.qty_lots - 1)
            else:
                command.qty_lots += 1 + self.random(_QTY_MAX)
            return
        if dice < _REPEATED + _REPLACES + _IOC_ORDERS:
            # Most come too late: one tick short of the other side. As many hit as keep the share of
            # orders that are filled.
            self.iocs += 1
            side = cython.cast(uint32_t, _BUY + self.random(2))
            other = cython.cast(uint32_t, _BUY + _SELL) - side
            self.new_order(command, side, _IOC)
            command.price_ticks = self.touch(other, self.mid)
            if 100 * self.filled_count >= _FILLED_PERCENT * self.ended_count:
                command.price_ticks += -1 if side == _BUY else 1
            return
        # More new orders than cancels while orders are lacking, and the other way round.
        if dice == 1000 or (
            self.live_count + 1 < self.live_capacity
            and cython.cast(int64_t, self.random(2 * band)) < band + lack
        ):
            self.news += 1
            side = cython.cast(uint32_t, _BUY + self.random(2))
            self.new_order(command, side, _LIMIT)
            command.price_ticks = self.passive_price(side)
            return
        picked = self.victim()
        self.cancels += 1
        command.kind = _CANCEL
        command.session_id = picked.session_id
        command.client_order_id = picked.client_order_id

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def new_order(self, command: CommandPtr, side: uint32_t, order_type: uint8_t) -> cython.void:
        """Begin a new order; its price is the caller's."""
        command.kind = _NEW_ORDER
        command.side = cython.cast(uint8_t, side)
        command.order_type = order_type
        command.session_id = _SESSION + cython.cast(uint32_t, self.random(_SESSIONS))
        command.client_order_id = self.next_id
        command.qty_lots = 1 + self.random(_QTY_MAX)
        self.next_id += 1

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def note(self, command: CommandPtr, first: EventPtr, count: uint64_t) -> cython.void:
        """Follow which orders live, from what the message was and what became of it."""
        event: EventPtr
        live: LivePtr
        place: uint32_t
        number: uint64_t
        if first.reason == 0 and command.kind == _NEW_ORDER and command.order_type == _LIMIT:
            live = self.live + self.live_count
            live.client_order_id = command.client_order_id
            live.session_id = command.session_id
            live.side = command.side
            live.price_ticks = command.price_ticks
            live.qty_lots = command.qty_lots
            self.live_count += 1
            self.places[command.client_order_id] = cython.cast(uint32_t, self.live_count)
        elif first.reason == 0 and command.kind == _REPLACE:
            live = self.live + (self.places[command.client_order_id] - 1)
            live.price_ticks = command.price_ticks
            live.qty_lots = command.qty_lots
        for number in range(count):
            event = first + number
            if event.kind == _TRADE:
                self.trades += 1
                self.traded_lots += event.qty_lots
            if event.kind != _DONE or event.order_id == 0:
                continue
            place = self.places[event.client_order_id]
            if place == 0:
                # An IOC order: it never rested.
                continue
            place -= 1
            self.places[event.client_order_id] = 0
            self.recent[self.ended_ever % _RECENT] = self.live[place]
            self.ended_ever += 1
            self.ended_count += 1
            if event.reason == _FILLED:
                self.filled_count += 1
            self.live_count -= 1
            if place != self.live_count:
                self.live[place] = self.live[self.live_count]
                self.places[self.live[place].client_order_id] = place + 1

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def sample(self) -> cython.void:
        """Look at the book's shape."""
        levels: uint64_t = self.book_side(_BUY).level_count + self.book_side(_SELL).level_count
        if self.samples == 0:
            self.resting_least = self.live_count
            self.levels_least = levels
        self.samples += 1
        self.resting_sum += self.live_count
        self.levels_sum += levels
        self.resting_least = min(self.resting_least, self.live_count)
        self.resting_most = max(self.resting_most, self.live_count)
        self.levels_least = min(self.levels_least, levels)
        self.levels_most = max(self.levels_most, levels)

    def fill(self, count: int, only_new: bool = False) -> bytes:
        """Make the next messages of the stream.

        Args:
            count: how many.
            only_new: make nothing but resting orders.
        """
        events = cython.declare(Event[256])
        window = cython.declare(EventWindow)
        number: cython.longlong
        total: cython.longlong = count
        new: cython.bint = only_new
        if self.next_id + count > self.ids_max:
            raise ValueError(f"count={count}, but ids end at {self.ids_max}")
        if new and self.live_count + count >= self.live_capacity:
            raise ValueError(f"count={count}, but there is room for {self.live_capacity} orders")
        made: bytes = PyBytes_FromStringAndSize(cython.NULL, total * cython.sizeof(Command))
        first: CommandPtr = cython.cast(
            CommandPtr, cython.cast(cython.p_void, PyBytes_AS_STRING(made))
        )
        window.base = cython.address(events[0])
        window.mask = 255
        with cython.nogil:
            for number in range(total):
                self.make(first + number, new)
                window.next = 0
                window.limit = 256
                # At most 100 lots are taken at once: the events of a message fit.
                self.engine.execute(first + number, cython.address(window))
                self.note(first + number, cython.address(events[0]), window.next)
                if cython.cast(uint64_t, number) % _SAMPLE_EVERY == 0:
                    self.sample()
        return made

    def counts(self) -> dict[str, int]:
        """Return what was made and what the book was like since forget_counts()."""
        return {
            "news": self.news,
            "iocs": self.iocs,
            "cancels": self.cancels,
            "replaces": self.replaces,
            "repeats": self.repeats,
            "ended": self.ended_count,
            "filled": self.filled_count,
            "trades": self.trades,
            "traded_lots": self.traded_lots,
            "samples": self.samples,
            "resting_sum": self.resting_sum,
            "levels_sum": self.levels_sum,
            "resting_least": self.resting_least,
            "resting_most": self.resting_most,
            "levels_least": self.levels_least,
            "levels_most": self.levels_most,
            "mid_range": self.mid_most - self.mid_least,
        }

    @property
    def live_orders(self) -> int:
        """Orders that live after what was made."""
        return self.live_count
