"""Hypothesis drives engine and model side by side over every kind of command."""

from __future__ import annotations

import os
import random

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from bourse.core.records import Command
from bourse.domain import CommandFlag, CommandKind, OrderType, Side
from tests.matching.pair import Pair

U64_MAX = 2**64 - 1
I64_MIN, I64_MAX = -(2**63), 2**63 - 1
BOUNDARIES = [2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, U64_MAX - 1, U64_MAX]

SESSIONS = st.sampled_from([1, 2, 3, 4, 5])
CLIENT_IDS = st.one_of(st.integers(0, 9), st.sampled_from(BOUNDARIES))
QUANTITIES = st.one_of(
    st.integers(1, 9), st.integers(1, 9), st.integers(0, 40), st.sampled_from(BOUNDARIES)
)
PRICES = st.one_of(
    st.integers(95, 105),
    st.integers(95, 105),
    st.integers(-3, 3),
    st.sampled_from([I64_MIN, I64_MIN + 1, -(2**32), -(2**31), 2**31, 2**32, I64_MAX - 1, I64_MAX]),
)
SIDES = st.sampled_from(list(Side))
TYPES = st.sampled_from([OrderType.LIMIT, *OrderType])
WINDOWS = st.sampled_from([1, 2, 3, 256])


class EngineAgainstModel(RuleBasedStateMachine):
    """Each rule sends one command to both; `Pair.send` compares."""

    def __init__(self) -> None:
        super().__init__()
        self.pair = Pair(orders_max=40)

    @initialize()
    def start(self) -> None:
        self.pair.define(1)
        self.pair.define(2, b"OTHER")
        self.pair.open(2, 3, 4)

    def order(self, window: int, **fields: int) -> None:
        self.pair.send(Command(kind=CommandKind.NEW_ORDER, **fields), window)

    @rule(s=SESSIONS, i=CLIENT_IDS, side=SIDES, t=TYPES, price=PRICES, qty=QUANTITIES, w=WINDOWS)
    def new_order(self, s: int, i: int, side: int, t: int, price: int, qty: int, w: int) -> None:
        self.order(
            w,
            instrument_id=1,
            session_id=s,
            client_order_id=i,
            side=side,
            order_type=t,
            price_ticks=price,
            qty_lots=qty,
        )

    @rule(i=st.integers(0, 30), side=SIDES, price=st.integers(97, 103), qty=st.integers(1, 9))
    def limit_order(self, i: int, side: int, price: int, qty: int) -> None:
        self.order(
            1,
            instrument_id=1,
            session_id=2,
            client_order_id=i,
            side=side,
            order_type=OrderType.LIMIT,
            price_ticks=price,
            qty_lots=qty,
        )

    @rule(
        side=SIDES,
        t=st.sampled_from([OrderType.FOK, OrderType.FOK, OrderType.IOC, OrderType.LIMIT]),
        makers=st.integers(1, 6),
        more=st.integers(-1, 1),
        w=WINDOWS,
    )
    def sweep(self, side: int, t: int, makers: int, more: int, w: int) -> None:
        """Take the first makers exactly, or one lot less or more, at the last one's price."""
        other = Side.SELL if side == Side.BUY else Side.BUY
        taken = self.pair.model.queue(1, other)[:makers]
        lots = sum(maker.leaves for maker in taken) + more
        if taken and lots <= U64_MAX:
            self.order(
                w,
                instrument_id=1,
                session_id=4,
                client_order_id=2**40,
                side=side,
                order_type=t,
                price_ticks=taken[-1].price,
                qty_lots=lots,
            )

    @rule(side=SIDES, room=st.integers(-1, 1))
    def fill_level_up(self, side: int, room: int) -> None:
        """Bring the best level's total to the top of the range, or just below or past it."""
        queue = self.pair.model.queue(1, side)
        if not queue:
            return
        price = queue[0].price
        lots = sum(order.leaves for order in queue if order.price == price)
        if 0 <= U64_MAX - lots + room <= U64_MAX:
            self.order(
                1,
                instrument_id=1,
                session_id=3,
                client_order_id=2**41,
                side=side,
                order_type=OrderType.LIMIT,
                price_ticks=price,
                qty_lots=U64_MAX - lots + room,
            )

    @rule(
        instrument=st.sampled_from([0, 1, 2, 3, 2**32 - 1]),
        s=st.sampled_from([0, 1, 2, 3, 2**32 - 1]),
        side=st.integers(0, 3),
        t=st.sampled_from([0, 1, 2, 5, 6, 255]),
        flags=st.sampled_from([0, 0, 1, 2, 4, 255]),
        qty=QUANTITIES,
        w=WINDOWS,
    )
    def odd_order(
        self, instrument: int, s: int, side: int, t: int, flags: int, qty: int, w: int
    ) -> None:
        self.order(
            w,
            instrument_id=instrument,
            session_id=s,
            client_order_id=1,
            side=side,
            order_type=t,
            flags=flags,
            price_ticks=100,
            qty_lots=qty,
        )

    @rule(s=SESSIONS, i=CLIENT_IDS, w=WINDOWS)
    def cancel(self, s: int, i: int, w: int) -> None:
        self.pair.send(Command(kind=CommandKind.CANCEL, session_id=s, client_order_id=i), w)

    @rule(data=st.data(), w=WINDOWS)
    def cancel_live(self, data: st.DataObject, w: int) -> None:
        if not self.pair.model.orders:
            return
        order = data.draw(st.sampled_from(self.pair.model.records()))
        self.pair.send(
            Command(
                kind=CommandKind.CANCEL,
                session_id=order.session_id,
                client_order_id=order.client_order_id,
            ),
            w,
        )

    @rule(
        s=SESSIONS,
        i=CLIENT_IDS,
        price=PRICES,
        qty=QUANTITIES,
        w=WINDOWS,
        f=st.sampled_from([0, 0, 1]),
    )
    def replace(self, s: int, i: int, price: int, qty: int, w: int, f: int) -> None:
        self.pair.send(
            Command(
                kind=CommandKind.REPLACE,
                session_id=s,
                client_order_id=i,
                price_ticks=price,
                qty_lots=qty,
                flags=f,
            ),
            w,
        )

    @rule(data=st.data(), price=PRICES, move=st.booleans(), more=st.integers(-9, 9), w=WINDOWS)
    def replace_live(self, data: st.DataObject, price: int, move: bool, more: int, w: int) -> None:
        """Change a live order: its price or not, its total around the old one or what is filled."""
        if not self.pair.model.orders:
            return
        order = data.draw(st.sampled_from(self.pair.model.records()))
        base = data.draw(st.sampled_from([order.qty_lots, order.qty_lots - order.leaves_lots]))
        self.pair.send(
            Command(
                kind=CommandKind.REPLACE,
                session_id=order.session_id,
                client_order_id=order.client_order_id,
                price_ticks=price if move else order.price_ticks,
                qty_lots=min(max(base + more, 0), U64_MAX),
            ),
            w,
        )

    @rule(data=st.data(), makers=st.integers(1, 6), more=st.integers(-1, 1), w=WINDOWS)
    def replace_into_a_cross(self, data: st.DataObject, makers: int, more: int, w: int) -> None:
        """Let a live order take the first makers exactly, or one lot less or more."""
        if not self.pair.model.orders:
            return
        order = data.draw(st.sampled_from(self.pair.model.records()))
        other = Side.SELL if order.side == Side.BUY else Side.BUY
        taken = self.pair.model.queue(order.instrument_id, other)[:makers]
        lots = sum(maker.leaves for maker in taken) + order.qty_lots - order.leaves_lots + more
        if taken and lots <= U64_MAX:
            self.pair.send(
                Command(
                    kind=CommandKind.REPLACE,
                    session_id=order.session_id,
                    client_order_id=order.client_order_id,
                    price_ticks=taken[-1].price,
                    qty_lots=lots,
                ),
                w,
            )

    @rule(
        s=st.sampled_from([1, 1, 1, 2]),
        back=st.integers(-1, 20),
        flags=st.sampled_from([CommandFlag.BY_ORDER_ID, CommandFlag.BY_ORDER_ID, 2, 3]),
    )
    def cancel_by_order_id(self, s: int, back: int, flags: int) -> None:
        order_id = max(self.pair.model.next_order_id - back, 0)
        self.pair.send(
            Command(kind=CommandKind.CANCEL, session_id=s, order_id=order_id, flags=flags)
        )

    @rule(step=st.sampled_from([-1, 0, 1, 1, 1, 2]), flags=st.sampled_from([0, 0, 0, 1]))
    def session_open(self, step: int, flags: int) -> None:
        session_id = self.pair.model.last_session_id + step
        self.pair.send(Command(kind=CommandKind.SESSION_OPEN, session_id=session_id, flags=flags))

    @rule(
        s=st.sampled_from([0, 1, 2, 3, 4, 5, 6]),
        flags=st.sampled_from([0, CommandFlag.CANCEL_ORDERS, CommandFlag.CANCEL_ORDERS, 1, 3]),
        w=WINDOWS,
    )
    def session_end(self, s: int, flags: int, w: int) -> None:
        self.pair.send(Command(kind=CommandKind.SESSION_END, session_id=s, flags=flags), w)

    @rule(
        instrument=st.sampled_from([0, 1, 3, 4, 2**32 - 1]),
        symbol=st.sampled_from([b"", b"A", b"SIXTEEN-LETTERS!", b"A\0B", b"A B", b"\xc3\xa4"]),
    )
    def instrument_define(self, instrument: int, symbol: bytes) -> None:
        self.pair.define(instrument, symbol)

    @rule(
        kind=st.sampled_from([CommandKind.HALT, CommandKind.RESUME, CommandKind.RESUME]),
        instrument=st.sampled_from([1, 1, 1, 2, 3, 9]),
        s=st.sampled_from([1, 1, 1, 1, 2]),
        flags=st.sampled_from([0, 0, 0, 0, 1]),
        w=WINDOWS,
    )
    def halt(self, kind: int, instrument: int, s: int, flags: int, w: int) -> None:
        self.pair.send(Command(kind=kind, instrument_id=instrument, session_id=s, flags=flags), w)

    @rule(
        named=st.sampled_from([0, 0, 1, 2, 3, 4, 5, 2**32, 2**32 + 2]),
        until=st.sampled_from([0, 0, 1, 5, 20, U64_MAX]),
        most=st.sampled_from([0, 1, 2, 3, 7, U64_MAX]),
        s=st.sampled_from([1, 1, 1, 1, 2]),
        flags=st.sampled_from([0, 0, 0, 0, 2]),
        w=WINDOWS,
    )
    def mass_cancel(self, named: int, until: int, most: int, s: int, flags: int, w: int) -> None:
        self.pair.send(
            Command(
                kind=CommandKind.MASS_CANCEL,
                session_id=s,
                client_order_id=named,
                order_id=until,
                qty_lots=most,
                flags=flags,
            ),
            w,
        )

    @rule(kind=st.integers(0, 127), flags=st.sampled_from([0, 0, 0, 1]))
    def other_kind(self, kind: int, flags: int) -> None:
        self.pair.send(Command(kind=kind, flags=flags, session_id=2, client_order_id=1, order_id=1))

    @rule()
    def restore(self) -> None:
        self.pair.restore()


EngineAgainstModel.TestCase.settings = settings(
    # 6,000 steps; with BOURSE_TORTURE=1 (`make torture`) 102,000.
    max_examples=1_700 if os.environ.get("BOURSE_TORTURE") else 100,
    stateful_step_count=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestEngineAgainstModel = EngineAgainstModel.TestCase


def random_command(source: random.Random, last_session_id: int) -> Command:
    """One command of a lively market: a band of prices, several sessions, few mistakes."""
    session_id = source.randint(max(2, last_session_id - 4), last_session_id)
    dice = source.random()
    if dice < 0.25:
        return Command(
            kind=CommandKind.CANCEL, session_id=session_id, client_order_id=source.randint(1, 60)
        )
    if dice < 0.4:
        return Command(
            kind=CommandKind.REPLACE,
            session_id=session_id,
            client_order_id=source.randint(1, 60),
            price_ticks=round(source.gauss(0, 15)),
            qty_lots=source.randint(1, 30),
        )
    if dice < 0.405:
        return Command(kind=CommandKind.SESSION_OPEN, session_id=last_session_id + 1)
    if dice < 0.41:
        return Command(
            kind=CommandKind.SESSION_END,
            session_id=session_id,
            flags=source.choice([0, CommandFlag.CANCEL_ORDERS]),
        )
    if dice < 0.412:
        return Command(
            kind=source.choice([CommandKind.HALT, *[CommandKind.RESUME] * 3]),
            session_id=1,
            instrument_id=source.choice([1, 2]),
        )
    if dice < 0.4125:
        return Command(
            kind=CommandKind.MASS_CANCEL,
            session_id=1,
            client_order_id=source.choice([0, session_id]),
            order_id=source.choice([0, source.randint(1, 20_000)]),
            qty_lots=source.choice([1, 5, 1_000]),
        )
    if dice < 0.44:
        return Command(
            kind=CommandKind.CANCEL,
            session_id=1,
            flags=CommandFlag.BY_ORDER_ID,
            order_id=source.randint(1, 20_000),
        )
    return Command(
        kind=CommandKind.NEW_ORDER,
        instrument_id=source.choice([1, 1, 2]),
        session_id=session_id,
        client_order_id=source.randint(1, 60),
        side=source.choice(list(Side)),
        order_type=source.choice([OrderType.LIMIT] * 6 + list(OrderType)),
        price_ticks=round(source.gauss(0, 15)),
        qty_lots=source.randint(1, 30),
    )


def test_ten_thousand_commands_of_a_lively_market_agree() -> None:
    pair = Pair()
    pair.define(1)
    pair.define(2)
    pair.open(2, 3, 4, 5, 6)
    source = random.Random(20_261)

    for number in range(10_000):
        command = random_command(source, pair.model.last_session_id)
        pair.send(command, events_max=source.choice([1, 5, 256]), check=number % 100 == 0)
        if number % 1_000 == 999:
            pair.restore()

    assert pair.engine.live_order_count > 20
