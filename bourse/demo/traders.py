"""The traders of the demo's market: what each sends next. No sockets, no clock, seeded.

A mid price walks at random and is drawn back to where it began. Makers quote around it with
post-only orders, more and larger further out, and pull quotes that the mid has passed. Takers hit
what is there with immediate-or-cancel and market orders. Patient traders put limits near the touch
and take them back later.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from bourse.domain import OrderType, Side
from bourse.protocol.messages import Accepted, Cancel, Done, Execution, NewOrder, Trade

MAKERS = 5
TAKERS = 3
PATIENT = 2
TRADERS = MAKERS + TAKERS + PATIENT

START_TICKS = 10_000
LEVELS = 40
"""Makers quote up to so many ticks away from the mid."""
MAKER_ORDERS_MAX = 180
"""Live orders of one maker; over that it takes back the one that is furthest away."""
PATIENT_ORDERS_MAX = 40

# Client order ids of trader k count from (k + 1) * 2**40 + 1: no exchange number is as large, so in
# a Trade a trader sees which of the two orders is its own.
ID_SPACE = 1 << 40

REASON_REJECTED = 5


@dataclass
class Quote:
    """A live order of a trader."""

    side: Side
    price_ticks: int


@dataclass
class Trader:
    """One connection's orders, and what it has heard."""

    number: int
    next_id: int = 0
    live: dict[int, Quote] = field(default_factory=dict)
    orders_sent: int = 0
    cancels_sent: int = 0
    accepted: int = 0
    rejected: int = 0
    trades: int = 0
    traded_lots: int = 0
    events: int = 0
    last_sequence: int = 0
    disorders: int = 0

    def __post_init__(self) -> None:
        """Start counting ids in the trader's own space."""
        self.next_id = (self.number + 1) * ID_SPACE + 1

    def order(
        self, side: Side, qty: int, price_ticks: int, kind: OrderType, keeps: bool
    ) -> NewOrder:
        """Make an order; `keeps` when it may rest."""
        order_id = self.next_id
        self.next_id += 1
        self.orders_sent += 1
        if keeps:
            self.live[order_id] = Quote(side, price_ticks)
        return NewOrder(order_id, side, qty, kind, price_ticks, order_id)

    def cancel(self, order_id: int) -> Cancel:
        """Take an order back; it counts as gone at once."""
        del self.live[order_id]
        self.cancels_sent += 1
        return Cancel(order_id)

    def hear(self, event: Execution) -> None:
        """Take an event of this connection."""
        self.events += 1
        if event.seq <= self.last_sequence:
            self.disorders += 1
        self.last_sequence = event.seq
        if isinstance(event, Accepted):
            self.accepted += 1
        elif isinstance(event, Trade):
            self.trades += 1
            self.traded_lots += event.qty
        elif isinstance(event, Done):
            self.live.pop(event.id, None)
            self.rejected += event.reason == REASON_REJECTED


Message = NewOrder | Cancel


class Market:
    """All traders and the mid that they watch."""

    def __init__(self, seed: int, start_ticks: int = START_TICKS) -> None:
        self.random = random.Random(seed)
        self.traders = [Trader(number) for number in range(TRADERS)]
        self.start_ticks = start_ticks
        self.mid = float(start_ticks)
        self.drift = 0.0
        # Takers come in short runs on one side, as real ones do.
        self.mood = Side.BUY

    def open(self) -> list[tuple[Trader, Message]]:
        """Return the first quotes: the whole ladder, before anybody takes."""
        messages: list[tuple[Trader, Message]] = []
        for maker in self.traders[:MAKERS]:
            for side in Side:
                distances = range(1 + maker.number % 2, LEVELS, 2)
                messages += [(maker, self._quote(maker, side, away)) for away in distances]
        return messages

    def step(self, count: int) -> list[tuple[Trader, Message]]:
        """Let the mid move, and return about `count` messages that the traders send now."""
        rng = self.random
        self.drift = 0.97 * self.drift + rng.gauss(0.0, 0.05)
        home = (self.start_ticks - self.mid) * 0.0005
        self.mid = min(max(self.mid + self.drift + home, 1.0), 1e15)
        messages = self._pull()
        while len(messages) < count:
            luck = rng.random()
            if luck < 0.46:
                messages.append(self._make())
            elif luck < 0.80:
                self._trim(messages)
            elif luck < 0.90:
                messages.append(self._take())
            else:
                messages += self._wait()
        return messages

    def _quote(self, maker: Trader, side: Side, distance: int) -> NewOrder:
        away = -distance if side is Side.BUY else distance
        price = round(self.mid) + away
        qty = max(1, round(self.random.lognormvariate(1.6, 0.6) * (1 + distance / 10)))
        return maker.order(side, qty, price, OrderType.POST_ONLY, keeps=True)

    def _make(self) -> tuple[Trader, Message]:
        rng = self.random
        maker = self.traders[rng.randrange(MAKERS)]
        side = Side.BUY if rng.random() < 0.5 else Side.SELL
        distance = min(LEVELS, 1 + int(rng.expovariate(1 / 9)))
        return maker, self._quote(maker, side, distance)

    def _pull(self) -> list[tuple[Trader, Message]]:
        """Take back quotes that the mid has reached, and those that it has left far behind."""
        messages: list[tuple[Trader, Message]] = []
        for maker in self.traders[:MAKERS]:
            stale = [
                order_id
                for order_id, quote in maker.live.items()
                if not 0 < self._distance(quote) <= 2 * LEVELS
            ]
            messages += [(maker, maker.cancel(order_id)) for order_id in stale]
        return messages

    def _trim(self, messages: list[tuple[Trader, Message]]) -> None:
        """Replace a maker's quote, or, when it has many, take back the one furthest away."""
        rng = self.random
        maker = self.traders[rng.randrange(MAKERS)]
        if not maker.live:
            return
        if len(maker.live) > MAKER_ORDERS_MAX:
            order_id = max(maker.live, key=lambda key: self._distance(maker.live[key]))
            messages.append((maker, maker.cancel(order_id)))
            return
        order_id = rng.choice(list(maker.live))
        quote = maker.live[order_id]
        messages.append((maker, maker.cancel(order_id)))
        distance = max(1, round(self._distance(quote)) + rng.choice((-1, 0, 0, 1)))
        messages.append((maker, self._quote(maker, quote.side, min(distance, LEVELS))))

    def _take(self) -> tuple[Trader, Message]:
        rng = self.random
        taker = self.traders[MAKERS + rng.randrange(TAKERS)]
        if rng.random() < 0.15:
            self.mood = Side.SELL if self.mood is Side.BUY else Side.BUY
        qty = max(1, round(rng.lognormvariate(2.0, 0.9)))
        if rng.random() < 0.25:
            return taker, taker.order(self.mood, qty, 0, OrderType.MARKET, keeps=False)
        reach = 3 if self.mood is Side.BUY else -3
        price = round(self.mid) + reach
        kind = OrderType.FOK if rng.random() < 0.05 else OrderType.IOC
        return taker, taker.order(self.mood, qty, price, kind, keeps=False)

    def _wait(self) -> list[tuple[Trader, Message]]:
        rng = self.random
        trader = self.traders[MAKERS + TAKERS + rng.randrange(PATIENT)]
        if len(trader.live) >= PATIENT_ORDERS_MAX:
            oldest = next(iter(trader.live))
            return [(trader, trader.cancel(oldest))]
        side = Side.BUY if rng.random() < 0.5 else Side.SELL
        away = rng.randrange(0, 6)
        price = round(self.mid) + (-away if side is Side.BUY else away)
        qty = rng.randrange(1, 30)
        return [(trader, trader.order(side, qty, price, OrderType.LIMIT, keeps=True))]

    def _distance(self, quote: Quote) -> float:
        """Ticks between the mid and a quote; at or below 0 the mid has reached it."""
        away = quote.price_ticks - self.mid
        return -away if quote.side is Side.BUY else away


class Heard:
    """How many different events reached some trader: all of them together must miss none."""

    WINDOW = 1 << 16
    """A connection is never so many events behind another; what is older is forgotten."""

    def __init__(self, first: int) -> None:
        self.count = 0
        self.last = 0
        self._next = first  # everything before it was heard, or will not come any more
        self._later: set[int] = set()

    def hear(self, sequence: int) -> None:
        """Take a sequence; a trade between two traders comes twice, and connections overtake."""
        if sequence < self._next or sequence in self._later:
            return
        self.count += 1
        self.last = max(self.last, sequence)
        self._later.add(sequence)
        if len(self._later) > self.WINDOW:
            self._next = min(self._later)
        while self._next in self._later:
            self._later.discard(self._next)
            self._next += 1
