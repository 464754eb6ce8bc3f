"""Runs the scenario tables of this folder (README.md says how to read them)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bourse.core.records import Command, Event
from bourse.domain import CommandFlag, CommandKind, EventKind, OrderType, Reason, Side
from tests.matching.pair import Pair

TYPES = {"ioc": OrderType.IOC, "fok": OrderType.FOK, "post": OrderType.POST_ONLY}
ENDS = {"min": -(2**63), "max": 2**63 - 1}


def scenarios() -> dict[str, list[str]]:
    """Name of each scenario -> its lines."""
    found: dict[str, list[str]] = {}
    for path in sorted(Path(__file__).parent.glob("*.txt")):
        for line in path.read_text().splitlines():
            if line.startswith("# "):
                name = f"{path.stem}: {line[2:]}"
                assert name not in found, f"two scenarios are called {name}"
                found[name] = []
            elif line.strip():
                found[name].append(line.strip())
    return found


class Table:
    """One scenario being run: names of orders, what is still unsaid of the last command."""

    def __init__(self, events_max: int) -> None:
        self.events_max = events_max
        self.pair = Pair()
        self.pair.define()
        self.pair.open(2, 3)
        self.order_ids: dict[str, int] = {}
        self.names: dict[int, str] = {}
        self.said: list[str] = []

    def run(self, lines: list[str]) -> None:
        """Send commands, compare what follows each of them."""
        position = 0
        while position < len(lines):
            line = lines[position]
            position += 1
            if line.startswith("> "):
                assert self.said == [], "the table does not mention this"
                self.command(line[2:].split())
            elif line == "book empty":
                assert self.book() == []
            elif line == "book":
                rows = []
                while position < len(lines) and lines[position].startswith(("bid ", "ask ")):
                    rows.append(lines[position])
                    position += 1
                assert self.book() == rows
            else:
                assert self.said[:1] == [line]
                self.said.pop(0)
        assert self.said == [], "the table does not mention this"

    def session_id(self, name: str) -> int:
        """A -> 2, B -> 3."""
        return ord(name[0]) - ord("A") + 2

    def command(self, words: list[str]) -> None:
        """Send one command and put what it did into words."""
        match words:
            case ["buy" | "sell" as side, name, qty, *rest]:
                market = rest == ["market"]
                command = Command(
                    kind=CommandKind.NEW_ORDER,
                    side=Side[side.upper()],
                    order_type=OrderType.MARKET if market else OrderType.LIMIT,
                    instrument_id=1,
                    session_id=self.session_id(name),
                    client_order_id=int(name[1:]),
                    qty_lots=int(qty),
                )
                if not market:
                    assert rest[0] == "@"
                    command = command._replace(price_ticks=self.price(rest[1]))
                for word in rest[2:]:
                    command = command._replace(order_type=TYPES[word])
            case ["cancel", name]:
                command = Command(
                    kind=CommandKind.CANCEL,
                    session_id=self.session_id(name),
                    client_order_id=int(name[1:]),
                )
            case ["replace", name, total, "@", price]:
                command = Command(
                    kind=CommandKind.REPLACE,
                    session_id=self.session_id(name),
                    client_order_id=int(name[1:]),
                    price_ticks=self.price(price),
                    qty_lots=int(total),
                )
            case ["operator", "cancels", name]:
                command = Command(
                    kind=CommandKind.CANCEL,
                    flags=CommandFlag.BY_ORDER_ID,
                    session_id=1,
                    order_id=self.order_ids[name],
                )
            case ["operator", "halts" | "resumes" as verb]:
                kind = CommandKind.HALT if verb == "halts" else CommandKind.RESUME
                command = Command(kind=kind, session_id=1, instrument_id=1)
                words = ["", "operator"]
            case ["operator", "cancels-all", most, *named]:
                command = Command(
                    kind=CommandKind.MASS_CANCEL,
                    session_id=1,
                    client_order_id=self.session_id(named[0]) if named else 0,
                    qty_lots=int(most),
                )
                words = ["", "operator"]
            case ["end", name, *rest]:
                assert rest in ([], ["cancel"])
                command = Command(
                    kind=CommandKind.SESSION_END,
                    flags=CommandFlag.CANCEL_ORDERS if rest else 0,
                    session_id=self.session_id(name),
                )
            case _:
                pytest.fail(f"not a command: {words}")
        name = words[1]
        events = self.pair.send(command, self.events_max)
        head = events[0]
        if command.kind == CommandKind.NEW_ORDER and not head.reason:
            self.order_ids[name] = head.order_id
            self.names[head.order_id] = name
        if head.reason:
            self.said = [f"refused {name} {self.reason(head)}"]
        else:
            self.said = [word for event in events[1:] if (word := self.words(event, name))]

    def price(self, word: str) -> int:
        return ENDS[word] if word in ENDS else int(word)

    def price_word(self, price: int) -> str:
        return {value: word for word, value in ENDS.items()}.get(price, str(price))

    def reason(self, event: Event) -> str:
        return Reason(event.reason).name.lower().replace("_", " ")

    def words(self, event: Event, taker: str) -> str:
        """A fill or an end; what goes without saying is empty."""
        name = self.names[event.order_id]
        if event.kind == EventKind.TRADE:
            return f"fill {name} {taker} {event.qty_lots} @ {self.price_word(event.price_ticks)}"
        if event.kind == EventKind.DONE and event.reason != Reason.FILLED:
            return f"ended {name} {event.qty_lots} {self.reason(event)}"
        return ""

    def book(self) -> list[str]:
        """All levels, bids from the best, then asks from the best."""
        rows: dict[tuple[str, int], list[str]] = {}
        for side, word in ((Side.BUY, "bid"), (Side.SELL, "ask")):
            for order in self.pair.model.queue(1, side):
                queue = rows.setdefault((word, order.price), [])
                queue.append(f"{self.names[order.order_id]} {order.leaves}")
        return [
            f"{word} {self.price_word(price)} | " + " | ".join(queue)
            for (word, price), queue in rows.items()
        ]


@pytest.mark.parametrize("events_max", [256, 1])
@pytest.mark.parametrize("name", scenarios())
def test_scenario(name: str, events_max: int) -> None:
    Table(events_max).run(scenarios()[name])


def test_a_wrong_table_fails() -> None:
    lines = scenarios()["priority: price-time priority"]
    wrong = [re.sub("fill A1 B1 5", "fill A1 B1 4", line) for line in lines]

    with pytest.raises(AssertionError):
        Table(256).run(wrong)
    with pytest.raises(AssertionError, match="does not mention"):
        Table(256).run([line for line in lines if "fill A2" not in line])
