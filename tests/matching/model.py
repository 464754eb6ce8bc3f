"""The reference engine: every rule of docs/matching.md in the plainest Python, and nothing else.

It shares no code with bourse/core. Books are lists that are searched and sorted; nothing is
fast.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from bourse.core.records import Command, EngineState, Event, OrderRecord
from bourse.domain import CommandFlag, CommandKind, EventKind, OrderType, Reason, Side

U64 = 2**64
P1 = 0x9E3779B185EBCA87
P2 = 0xC2B2AE3D27D4EB4F
P3 = 0x165667B19E3779F9
P4 = 0x85EBCA77C2B2AE63
P5 = 0x27D4EB2F165667C5
M1 = 0xBF58476D1CE4E5B9

OPERATOR = 1


def fold(a: int, b: int) -> int:
    """Both halves of a 128-bit product, xored."""
    product = a * b
    return (product % U64) ^ (product >> 64)


def rotl(word: int, count: int) -> int:
    """Rotate 64 bits to the left."""
    return ((word << count) | (word >> (64 - count))) % U64


@dataclass
class Order:
    """A live order, or a new one that is being matched."""

    order_id: int
    session_id: int
    client_order_id: int
    instrument_id: int
    side: int
    order_type: int
    price: int
    qty: int
    leaves: int
    priority: int = 0

    def term(self) -> int:
        """What it adds to the state digest."""
        word = self.order_id * P1 + self.priority * P2 + self.price * P3 + self.leaves * P4
        word += (self.instrument_id * 4 + self.side) * P5
        return fold(word % U64, M1)

    def record(self) -> OrderRecord:
        """As a snapshot has it."""
        return OrderRecord(
            order_id=self.order_id,
            client_order_id=self.client_order_id,
            priority=self.priority,
            leaves_lots=self.leaves,
            qty_lots=self.qty,
            price_ticks=self.price,
            session_id=self.session_id,
            instrument_id=self.instrument_id,
            side=self.side,
            order_type=self.order_type,
            flags=0,
        )


class Model:
    """One exchange. `execute()` takes a command and returns its events, HEAD first."""

    def __init__(self, orders_max: int = U64) -> None:
        self.orders_max = orders_max
        self.orders: list[Order] = []
        self.instruments: dict[int, bytes] = {}
        self.halted: set[int] = set()
        self.open_sessions = {OPERATOR}
        self.last_session_id = OPERATOR
        self.wal_seq = 0
        self.event_seq = 0
        self.next_order_id = 1
        self.next_priority = 1
        self.trade_count = 0
        self.traded_lots = 0
        self.reject_count = 0
        self.event_digest = 0
        self.events: list[Event] = []

    # --- looking ---

    def state_digest(self) -> int:
        """Computed from nothing but the live orders and the halted instruments."""
        halted = [fold((number * 4 + 3) * P5 % U64, M1) for number in self.halted]
        return (sum(order.term() for order in self.orders) + sum(halted)) % U64

    def state(self) -> EngineState:
        """All counters, as the engine has them."""
        return EngineState(
            wal_seq=self.wal_seq,
            event_seq=self.event_seq,
            next_order_id=self.next_order_id,
            next_priority=self.next_priority,
            state_digest=self.state_digest(),
            event_digest=self.event_digest,
            live_order_count=len(self.orders),
            order_count=self.next_order_id - 1,
            trade_count=self.trade_count,
            bought_lots=self.traded_lots % U64,
            sold_lots=self.traded_lots % U64,
            reject_count=self.reject_count,
            last_session_id=self.last_session_id,
            session_count=len(self.open_sessions | {order.session_id for order in self.orders}),
            instrument_count=len(self.instruments),
            spare=0,
        )

    def records(self) -> list[OrderRecord]:
        """All live orders by ascending order id."""
        return [order.record() for order in sorted(self.orders, key=lambda o: o.order_id)]

    def queue(self, instrument_id: int, side: int) -> list[Order]:
        """One side of a book: who trades first stands first."""
        found = [o for o in self.orders if o.instrument_id == instrument_id and o.side == side]
        sign = -1 if side == Side.BUY else 1
        return sorted(found, key=lambda o: (sign * o.price, o.priority))

    def depth(self, instrument_id: int, side: int) -> list[tuple[int, int, int]]:
        """Levels of one side, best first: (price, open quantity, orders)."""
        levels: dict[int, tuple[int, int]] = {}
        for order in self.queue(instrument_id, side):
            lots, count = levels.get(order.price, (0, 0))
            levels[order.price] = (lots + order.leaves, count + 1)
        return [(price, lots, count) for price, (lots, count) in levels.items()]

    def find(self, session_id: int, client_order_id: int) -> Order | None:
        """A session's live order."""
        for order in self.orders:
            if (order.session_id, order.client_order_id) == (session_id, client_order_id):
                return order
        return None

    # --- events ---

    def head(self, command: Command, reason: Reason, order_id: int = 0) -> None:
        """Write the HEAD; count a refusal."""
        is_market = (command.kind, command.order_type) == (CommandKind.NEW_ORDER, OrderType.MARKET)
        if reason:
            self.reject_count += 1
        self.events.append(
            Event(
                kind=EventKind.HEAD,
                reason=reason,
                side=command.side,
                command_kind=command.kind,
                session_id=command.session_id,
                sequence=self.wal_seq,
                client_order_id=command.client_order_id,
                order_id=order_id,
                price_ticks=0 if is_market else command.price_ticks,
                qty_lots=command.qty_lots,
                leaves_lots=0,
                instrument_id=command.instrument_id,
                spare=0,
            )
        )

    def numbered(
        self, kind: EventKind, order: Order, qty: int, reason: Reason = Reason.NONE, leaves: int = 0
    ) -> None:
        """Write a numbered event about an order and add it to the digest."""
        self.event_seq += 1
        word = kind | reason << 8 | order.side << 16 | order.instrument_id << 32
        word = (word * P1 + order.order_id * P2 + order.price * P3 + qty * P4) % U64
        self.event_digest = (rotl(self.event_digest ^ word, 29) * P1 + P5) % U64
        self.events.append(
            Event(
                kind=kind,
                reason=reason,
                side=order.side,
                command_kind=0,
                session_id=order.session_id,
                sequence=self.event_seq,
                client_order_id=order.client_order_id,
                order_id=order.order_id,
                price_ticks=order.price,
                qty_lots=qty,
                leaves_lots=leaves,
                instrument_id=order.instrument_id,
                spare=0,
            )
        )

    # --- commands ---

    def execute(self, command: Command) -> list[Event]:
        """Execute one command; return its events."""
        self.events = []
        self.wal_seq += 1
        match command.kind:
            case CommandKind.NEW_ORDER:
                self.new_order(command)
            case CommandKind.CANCEL:
                self.cancel(command)
            case CommandKind.REPLACE:
                self.replace(command)
            case CommandKind.SESSION_OPEN:
                self.session_open(command)
            case CommandKind.SESSION_END:
                self.session_end(command)
            case CommandKind.INSTRUMENT_DEFINE:
                self.instrument_define(command)
            case CommandKind.HALT | CommandKind.RESUME:
                self.halt(command)
            case CommandKind.MASS_CANCEL:
                self.mass_cancel(command)
            case CommandKind.SNAPSHOT_MARK:
                self.head(command, Reason.BAD_COMMAND if command.flags else Reason.NONE)
            case _:
                self.head(command, Reason.BAD_COMMAND)
        return self.events

    def new_order(self, command: Command) -> None:
        """docs/matching.md, section 3."""
        order = Order(
            order_id=0,
            session_id=command.session_id,
            client_order_id=command.client_order_id,
            instrument_id=command.instrument_id,
            side=command.side,
            order_type=command.order_type,
            price=0 if command.order_type == OrderType.MARKET else command.price_ticks,
            qty=command.qty_lots,
            leaves=command.qty_lots,
        )
        reason = self.refusal(command, order)
        if reason:
            self.head(command, reason)
            self.numbered(EventKind.DONE, order, order.qty, reason)
            return
        order.order_id = self.next_order_id
        self.next_order_id += 1
        self.head(command, Reason.NONE, order.order_id)
        self.numbered(EventKind.ACCEPTED, order, order.qty)
        self.trade(order)
        if order.leaves == 0:
            self.numbered(EventKind.DONE, order, 0, Reason.FILLED)
        elif order.order_type == OrderType.IOC:
            self.numbered(EventKind.DONE, order, order.leaves, Reason.EXPIRED)
        elif order.order_type == OrderType.MARKET:
            self.numbered(EventKind.DONE, order, order.leaves, Reason.NO_LIQUIDITY)
        else:
            assert order.order_type != OrderType.FOK
            self.rest(order)

    def rest(self, order: Order) -> None:
        """Make an order the last one of its level."""
        order.priority = self.next_priority
        self.next_priority += 1
        self.orders.append(order)

    def trade(self, order: Order) -> None:
        """Section 3, step 2: trade a taker with the other side."""
        for maker in self.makers(order):
            if order.leaves == 0:
                break
            lots = min(order.leaves, maker.leaves)
            order.leaves -= lots
            maker.leaves -= lots
            self.trade_count += 1
            self.traded_lots += lots
            self.numbered(EventKind.TRADE, maker, lots, leaves=maker.leaves)
            if maker.leaves == 0:
                self.orders.remove(maker)
                self.numbered(EventKind.DONE, maker, 0, Reason.FILLED)

    def makers(self, order: Order) -> list[Order]:
        """Orders that a new one may trade with, in the order in which it would."""
        other = Side.SELL if order.side == Side.BUY else Side.BUY
        found = self.queue(order.instrument_id, other)
        if order.order_type == OrderType.MARKET:
            return found
        if order.side == Side.BUY:
            return [maker for maker in found if maker.price <= order.price]
        return [maker for maker in found if maker.price >= order.price]

    def refusal(self, command: Command, order: Order) -> Reason:
        """Why a new order is refused, or NONE."""
        if order.session_id not in self.open_sessions:
            return Reason.UNKNOWN_SESSION
        if order.instrument_id not in self.instruments:
            return Reason.UNKNOWN_INSTRUMENT
        if order.side not in list(Side) or order.order_type not in list(OrderType):
            return Reason.BAD_COMMAND
        if command.flags not in (0, CommandFlag.SPACE_IS_LOW):
            return Reason.BAD_COMMAND
        if command.flags:
            return Reason.LOW_SPACE
        if order.instrument_id in self.halted:
            return Reason.HALTED
        if order.qty == 0:
            return Reason.ZERO_QUANTITY
        if self.find(order.session_id, order.client_order_id):
            return Reason.DUPLICATE_ORDER_ID
        makers = self.makers(order)
        if order.order_type == OrderType.POST_ONLY and makers:
            return Reason.POST_ONLY_WOULD_CROSS
        if order.order_type == OrderType.FOK and sum(m.leaves for m in makers) < order.qty:
            return Reason.FOK_CANNOT_FILL
        if order.order_type in (OrderType.LIMIT, OrderType.POST_ONLY):
            queue = self.queue(order.instrument_id, order.side)
            if sum(o.leaves for o in queue if o.price == order.price) + order.qty >= U64:
                return Reason.QUANTITY_OVERFLOW
            if len(self.orders) >= self.orders_max:
                return Reason.OUT_OF_MEMORY
        return Reason.NONE

    def end(self, order: Order, reason: Reason) -> None:
        """End a live order."""
        self.orders.remove(order)
        self.numbered(EventKind.DONE, order, order.leaves, reason)

    def cancel(self, command: Command) -> None:
        """docs/matching.md, section 4."""
        if command.session_id not in self.open_sessions:
            return self.head(command, Reason.UNKNOWN_SESSION)
        reason = Reason.CANCELLED
        if command.flags == 0:
            order = self.find(command.session_id, command.client_order_id)
        elif command.flags == CommandFlag.BY_ORDER_ID and command.session_id == OPERATOR:
            order = next((o for o in self.orders if o.order_id == command.order_id), None)
            if order and order.session_id != OPERATOR:
                reason = Reason.OPERATOR_CANCELLED
        else:
            return self.head(command, Reason.BAD_COMMAND)
        if order is None:
            return self.head(command, Reason.UNKNOWN_ORDER)
        self.head(command, Reason.NONE, order.order_id)
        return self.end(order, reason)

    def replace(self, command: Command) -> None:
        """docs/matching.md, section 5."""
        if command.session_id not in self.open_sessions:
            return self.head(command, Reason.UNKNOWN_SESSION)
        if command.flags:
            return self.head(command, Reason.BAD_COMMAND)
        if command.qty_lots == 0:
            return self.head(command, Reason.ZERO_QUANTITY)
        order = self.find(command.session_id, command.client_order_id)
        if order is None:
            return self.head(command, Reason.UNKNOWN_ORDER)
        if order.instrument_id in self.halted:
            return self.head(command, Reason.HALTED)
        filled = order.qty - order.leaves
        if command.qty_lots <= filled:
            self.head(command, Reason.NONE, order.order_id)
            return self.end(order, Reason.REPLACED_TO_FILLED)
        new = dataclasses.replace(
            order,
            price=command.price_ticks,
            qty=command.qty_lots,
            leaves=command.qty_lots - filled,
        )
        if order.order_type == OrderType.POST_ONLY and self.makers(new):
            return self.head(command, Reason.POST_ONLY_WOULD_CROSS)
        others = [o for o in self.queue(new.instrument_id, new.side) if o is not order]
        if sum(o.leaves for o in others if o.price == new.price) + new.leaves >= U64:
            return self.head(command, Reason.QUANTITY_OVERFLOW)
        self.head(command, Reason.NONE, order.order_id)
        self.numbered(EventKind.REPLACED, new, new.qty, leaves=new.leaves)
        self.orders.remove(order)
        if new.price == order.price and new.qty <= order.qty:
            self.orders.append(new)
            return None
        self.trade(new)
        if new.leaves == 0:
            self.numbered(EventKind.DONE, new, 0, Reason.FILLED)
        else:
            self.rest(new)
        return None

    def session_open(self, command: Command) -> None:
        """docs/matching.md, section 6."""
        if command.flags:
            return self.head(command, Reason.BAD_COMMAND)
        if command.session_id <= self.last_session_id:
            return self.head(command, Reason.DUPLICATE_SESSION)
        self.open_sessions.add(command.session_id)
        self.last_session_id = command.session_id
        return self.head(command, Reason.NONE)

    def session_end(self, command: Command) -> None:
        """docs/matching.md, section 6."""
        if command.session_id not in self.open_sessions:
            return self.head(command, Reason.UNKNOWN_SESSION)
        if command.flags not in (0, CommandFlag.CANCEL_ORDERS) or command.session_id == OPERATOR:
            return self.head(command, Reason.BAD_COMMAND)
        self.open_sessions.remove(command.session_id)
        self.head(command, Reason.NONE)
        if command.flags:
            for order in sorted(self.orders, key=lambda o: o.order_id):
                if order.session_id == command.session_id:
                    self.end(order, Reason.SESSION_ENDED)
        return None

    def instrument_define(self, command: Command) -> None:
        """docs/matching.md, section 7."""
        symbol = command.client_order_id.to_bytes(8, "little")
        symbol += command.order_id.to_bytes(8, "little")
        name = symbol.rstrip(b"\0")
        if command.flags or command.instrument_id == 0 or any(not 0x21 <= b <= 0x7E for b in name):
            return self.head(command, Reason.BAD_COMMAND)
        if command.instrument_id in self.instruments:
            return self.head(command, Reason.DUPLICATE_INSTRUMENT)
        self.instruments[command.instrument_id] = symbol
        return self.head(command, Reason.NONE)

    def halt(self, command: Command) -> None:
        """docs/matching.md, section 7: halt and resume."""
        halts = command.kind == CommandKind.HALT
        if command.flags or command.session_id != OPERATOR:
            return self.head(command, Reason.BAD_COMMAND)
        if command.instrument_id not in self.instruments:
            return self.head(command, Reason.UNKNOWN_INSTRUMENT)
        if (command.instrument_id in self.halted) == halts:
            return self.head(command, Reason.ALREADY_HALTED if halts else Reason.NOT_HALTED)
        self.halted ^= {command.instrument_id}
        return self.head(command, Reason.NONE)

    def mass_cancel(self, command: Command) -> None:
        """docs/matching.md, section 7: a batch of one session's orders."""
        if command.flags or command.session_id != OPERATOR:
            return self.head(command, Reason.BAD_COMMAND)
        if command.qty_lots == 0:
            return self.head(command, Reason.ZERO_QUANTITY)
        named = command.client_order_id
        known = self.open_sessions | {order.session_id for order in self.orders}
        if named and named not in known:
            return self.head(command, Reason.UNKNOWN_SESSION)
        until = min(command.order_id or U64, self.next_order_id - 1)
        found = [
            order
            for order in self.orders
            if order.order_id <= until and named in (0, order.session_id)
        ]
        if not found:
            return self.head(command, Reason.NOTHING_TO_CANCEL)
        lowest = min(order.session_id for order in found)
        found = [order for order in found if order.session_id == lowest]
        self.head(command, Reason.NONE, until)
        for order in sorted(found, key=lambda o: o.order_id)[: command.qty_lots]:
            self.end(order, Reason.OPERATOR_CANCELLED)
        return None
