"""Engine and model side by side: every command goes to both, and all that they say is compared."""

from __future__ import annotations

from bourse.core.engine import Engine
from bourse.core.records import (
    INSTRUMENT_RECORD,
    Command,
    EngineState,
    Event,
    unpack_events,
    unpack_order_records,
)
from bourse.domain import CommandKind, Side
from tests.matching.model import Model


def packed(session_ids: list[int]) -> bytes:
    """Session ids as restore() wants them."""
    return b"".join(session_id.to_bytes(4, "little") for session_id in session_ids)


class Pair:
    """One engine and one model that must never differ."""

    def __init__(self, orders_max: int = 2**30) -> None:
        self.orders_max = orders_max
        self.engine = Engine(orders_max=orders_max)
        self.model = Model(orders_max=orders_max)

    def send(self, command: Command, events_max: int = 256, check: bool = True) -> list[Event]:
        """Execute a command on both; return its events."""
        expected = self.model.execute(command)

        events = unpack_events(self.engine.apply(command.pack(), events_max))

        assert events == expected
        if check:
            self.check()
        return events

    def check(self) -> None:
        """Compare counters, digests, orders and depth; let the engine prove its invariants."""
        self.engine.check()
        assert EngineState.unpack(self.engine.state_bytes()) == self.model.state()
        assert unpack_order_records(self.engine.orders()) == self.model.records()
        halted = {
            instrument_id
            for instrument_id, is_halted, _ in INSTRUMENT_RECORD.iter_unpack(
                self.engine.instruments()
            )
            if is_halted
        }
        assert halted == self.model.halted
        assert self.engine.sessions() == sorted(self.model.open_sessions)
        for instrument_id in self.model.instruments:
            bids, asks = self.engine.depth_levels(instrument_id=instrument_id)
            assert bids == self.model.depth(instrument_id, Side.BUY)
            assert asks == self.model.depth(instrument_id, Side.SELL)
            assert self.engine.best_bid(instrument_id) == (bids[0][0] if bids else None)
            assert self.engine.best_ask(instrument_id) == (asks[0][0] if asks else None)

    def restore(self) -> None:
        """Go on with an engine that was restored from what this one exports."""
        engine = Engine(orders_max=self.orders_max)
        engine.restore(
            self.engine.state_bytes(),
            self.engine.instruments(),
            packed(self.engine.sessions()),
            self.engine.orders(),
        )
        self.engine = engine
        self.check()

    def define(self, instrument_id: int = 1, symbol: bytes = b"DEMO") -> list[Event]:
        """Define an instrument."""
        symbol = symbol.ljust(16, b"\0")
        return self.send(
            Command(
                kind=CommandKind.INSTRUMENT_DEFINE,
                instrument_id=instrument_id,
                client_order_id=int.from_bytes(symbol[:8], "little"),
                order_id=int.from_bytes(symbol[8:], "little"),
            )
        )

    def open(self, *session_ids: int) -> None:
        """Open sessions."""
        for session_id in session_ids:
            self.send(Command(kind=CommandKind.SESSION_OPEN, session_id=session_id))
