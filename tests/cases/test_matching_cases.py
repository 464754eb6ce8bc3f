"""Runs matching.json (README.md tells its format) as far as the engine knows the features."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bourse.core.records import Command, Event
from bourse.domain import CommandKind, EventKind, OrderType, Reason, Side
from tests.matching.pair import Pair

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parent / "matching.json").read_text())
SIDES = {"B": Side.BUY, "S": Side.SELL}
TYPES = {"GTC": OrderType.LIMIT, "IOC": OrderType.IOC, "FOK": OrderType.FOK}
REFUSED = {
    Reason.DUPLICATE_ORDER_ID: "dup",
    Reason.ZERO_QUANTITY: "qty",
    Reason.POST_ONLY_WOULD_CROSS: "post",
    Reason.FOK_CANNOT_FILL: "fok",
    Reason.UNKNOWN_ORDER: "unknown",
    Reason.BAD_COMMAND: "bad",
}
ENDED = {
    Reason.CANCELLED: "user",
    Reason.EXPIRED: "ioc",
    Reason.NO_LIQUIDITY: "ioc",
}


def missing_feature(case: dict[str, Any]) -> str | None:
    """Why the engine cannot run a case yet."""
    for op in case["ops"]:
        if op[0] == "stop":
            return "the engine has no stop orders yet"
        if op[0] == "new" and len(op) > 8 and op[8] is not None:
            return "the engine has no self-trade prevention yet"
        if op[0] == "new" and op[4] < 0:
            return "a negative quantity cannot be written in a command"
    if any(event[0] == "rej" and event[2] == "px" for event in case["events_subset"]):
        return "the engine has no lowest price yet"
    return None


def parameters() -> list[Any]:
    """Every case by name; those that need a missing feature are skipped, with the reason."""
    found = []
    for case in CASES:
        reason = missing_feature(case)
        marks = [pytest.mark.skip(reason=reason)] if reason else []
        found.append(pytest.param(case, id=case["name"], marks=marks))
    return found


class Runner:
    """Maps owners to sessions and the case's ids to client order ids."""

    def __init__(self) -> None:
        self.pair = Pair()
        self.pair.define()
        self.sessions: dict[str | None, int] = {}
        self.trades: list[list[int]] = []
        self.events: list[list[Any]] = []

    def session(self, owner: str | None) -> int:
        """One session an owner; null is an owner, too."""
        if owner not in self.sessions:
            self.sessions[owner] = len(self.sessions) + 2
            self.pair.open(self.sessions[owner])
        return self.sessions[owner]

    def run(self, op: list[Any]) -> None:
        """Send one op."""
        padded = [*op, *[None] * 9]
        if op[0] == "new":
            _, order, side, price, qty, tif, owner, post_only = padded[:8]
            kind = TYPES[tif or "GTC"]
            if price is None:
                kind = OrderType.MARKET
            elif post_only:
                kind = OrderType.POST_ONLY
            command = Command(
                kind=CommandKind.NEW_ORDER,
                side=SIDES[side],
                order_type=kind,
                instrument_id=1,
                session_id=self.session(owner),
                client_order_id=order,
                price_ticks=price or 0,
                qty_lots=qty,
            )
        elif op[0] == "modify":
            _, order, price, open_qty, owner = padded[:5]
            session_id = self.session(owner)
            live = self.pair.model.find(session_id, order)
            command = Command(
                kind=CommandKind.REPLACE,
                session_id=session_id,
                client_order_id=order,
                price_ticks=price,
                qty_lots=open_qty + (live.qty - live.leaves if live else 0),
            )
        else:
            _, order, owner = padded[:3]
            command = Command(
                kind=CommandKind.CANCEL, session_id=self.session(owner), client_order_id=order
            )
        events = self.pair.send(command)
        if events[0].reason:
            self.events.append(["rej", order, REFUSED[Reason(events[0].reason)]])
            return
        for event in events[1:]:
            self.note(event, order)

    def note(self, event: Event, taker: int) -> None:
        """Translate an event into the case's words."""
        order = event.client_order_id
        if event.kind == EventKind.TRADE:
            self.trades.append([order, taker, event.price_ticks, event.qty_lots])
        elif event.kind == EventKind.ACCEPTED:
            self.events.append(["ack", order])
        elif event.kind == EventKind.DONE and event.reason != Reason.FILLED:
            self.events.append(["cxl", order, event.qty_lots, ENDED[Reason(event.reason)]])

    def depth(self, side: Side) -> list[list[Any]]:
        """Levels with their queues."""
        levels: dict[int, list[list[int]]] = {}
        for order in self.pair.model.queue(1, side):
            levels.setdefault(order.price, []).append([order.client_order_id, order.leaves])
        return [[price, queue] for price, queue in levels.items()]


@pytest.mark.parametrize("case", parameters())
def test_case(case: dict[str, Any]) -> None:
    runner = Runner()

    for op in case["ops"]:
        runner.run(op)

    assert runner.trades == case["trades"]
    for event in case["events_subset"]:
        assert event in runner.events
    assert {"B": runner.depth(Side.BUY), "S": runner.depth(Side.SELL)} == case["final_depth"]
