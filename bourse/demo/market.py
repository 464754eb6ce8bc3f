"""python -m bourse.demo.market: the demo's traders on real connections, a process of their own.

Sends at a given rate until stdin ends or a signal comes, waits until every answer is there, and
prints one JSON object (Report) on stdout.
"""

from __future__ import annotations

import argparse
import contextlib
import selectors
import signal
import socket
import sys
import time
from collections.abc import Sequence
from types import FrameType

import msgspec

from bourse.config import parse_address
from bourse.demo.traders import START_TICKS, Heard, Market, Message, Trader
from bourse.errors import BourseError
from bourse.protocol.messages import FrameReader

STEP_SECONDS = 0.02
QUIET_SECONDS = 0.5
"""The end is reached when no event came for so long."""

END_SECONDS_MAX = 15.0


class Report(msgspec.Struct, frozen=True):
    """What the traders sent and heard, all connections together."""

    seconds: float
    orders: int
    cancels: int
    accepted: int
    rejected: int
    events: int
    trades: int
    """Trades heard; one between two traders is heard by both."""
    heard: int
    """Different events heard."""
    last_sequence: int
    live_orders: int
    """Orders of these traders that are in the book."""
    disorders: int
    """Events that came with a sequence not above the one before on their connection."""
    failure: str = ""


class Connection:
    """One trader's socket."""

    def __init__(self, trader: Trader, address: tuple[str, int]) -> None:
        self.trader = trader
        self.socket = socket.create_connection(address, timeout=10)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.reader = FrameReader()
        self.unsent = bytearray()

    def send(self) -> None:
        """Write what waits, as far as it goes."""
        if self.unsent:
            with contextlib.suppress(BlockingIOError):
                del self.unsent[: self.socket.send(self.unsent)]

    def receive(self, heard: Heard) -> None:
        """Read what is there.

        Raises:
            ConnectionError: the daemon hung up.
        """
        try:
            data = self.socket.recv(1 << 18)
        except BlockingIOError:
            return
        if not data:
            raise ConnectionError("the daemon closed a connection")
        for event in self.reader.receive_data(data):
            self.trader.hear(event)  # type: ignore[arg-type]  # a daemon sends executions only
            heard.hear(event.seq)  # type: ignore[union-attr]


class Run:
    """The traders on their connections, from the first quote to the last answer."""

    def __init__(
        self, address: tuple[str, int], seed: int, rate_per_s: float, first: int, mid: int
    ) -> None:
        self.market = Market(seed, mid)
        self.heard = Heard(first)
        self.rate_per_s = rate_per_s
        self.stopping = False
        self.selector = selectors.DefaultSelector()
        self.connections = [Connection(trader, address) for trader in self.market.traders]
        for connection in self.connections:
            self.selector.register(connection.socket, selectors.EVENT_READ, connection)

    def stop(self, number: int = 0, frame: FrameType | None = None) -> None:
        """Send no more; `trade` comes back soon."""
        self.stopping = True

    def trade(self, seconds: float) -> Report:
        """Trade until stopped, or for so many seconds; then wait for every answer."""
        started = time.monotonic()
        failure = ""
        try:
            self._queue(self.market.open())
            sent = 0.0
            while not self.stopping:
                passed = time.monotonic() - started
                if seconds and passed >= seconds:
                    break
                # After a pause of the machine the rate is kept from now on, not caught up with.
                due = min(self.rate_per_s * passed - sent, self.rate_per_s * 10 * STEP_SECONDS)
                sent = self.rate_per_s * passed
                if due >= 1:
                    self._queue(self.market.step(int(due)))
                    sent -= due - int(due)
                self._exchange(STEP_SECONDS)
            self._finish()
        except (OSError, BourseError) as error:
            failure = str(error)
        return self._report(time.monotonic() - started, failure)

    def close(self) -> None:
        """Hang up."""
        self.selector.close()
        for connection in self.connections:
            connection.socket.close()

    def _queue(self, messages: list[tuple[Trader, Message]]) -> None:
        for trader, message in messages:
            self.connections[trader.number].unsent += message.pack()
        for connection in self.connections:
            connection.send()

    def _exchange(self, seconds: float) -> bool:
        """Read for a moment; return whether anything came."""
        heard = False
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            ready = self.selector.select(left)
            for key, _ in ready:
                if key.data is None:  # stdin: its end means stop
                    self.selector.unregister(key.fileobj)
                    self.stop()
                else:
                    key.data.receive(self.heard)
                    heard = True
            if self.stopping and not heard:
                break
        return heard

    def _finish(self) -> None:
        """Send what waits and read until nothing has come for a while."""
        deadline = time.monotonic() + END_SECONDS_MAX
        quiet_since = time.monotonic()
        while time.monotonic() < deadline:
            for connection in self.connections:
                connection.send()
            if self._exchange(0.05) or any(connection.unsent for connection in self.connections):
                quiet_since = time.monotonic()
            elif time.monotonic() - quiet_since > QUIET_SECONDS:
                return

    def _report(self, seconds: float, failure: str) -> Report:
        traders = self.market.traders
        return Report(
            seconds=round(seconds, 3),
            orders=sum(trader.orders_sent for trader in traders),
            cancels=sum(trader.cancels_sent for trader in traders),
            accepted=sum(trader.accepted for trader in traders),
            rejected=sum(trader.rejected for trader in traders),
            events=sum(trader.events for trader in traders),
            trades=sum(trader.trades for trader in traders),
            heard=self.heard.count,
            last_sequence=self.heard.last,
            live_orders=sum(len(trader.live) for trader in traders),
            disorders=sum(trader.disorders for trader in traders),
            failure=failure,
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Trade as told; return 0, or 1 when a connection failed."""
    parser = argparse.ArgumentParser(prog="bourse.demo.market", description=__doc__)
    parser.add_argument("--connect", required=True, metavar="HOST:PORT")
    parser.add_argument("--seed", type=int, default=23)
    parser.add_argument("--rate", type=float, default=800.0, help="messages a second")
    parser.add_argument("--seconds", type=float, default=0.0, help="0: until stdin ends")
    parser.add_argument("--first-sequence", type=int, default=1)
    parser.add_argument("--mid", type=int, default=START_TICKS)
    given = parser.parse_args(arguments)
    address = parse_address(given.connect, "--connect")
    run = Run(address, given.seed, given.rate, given.first_sequence, given.mid)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, run.stop)
    if not given.seconds:
        run.selector.register(sys.stdin, selectors.EVENT_READ, None)
    report = run.trade(given.seconds)
    run.close()
    sys.stdout.write(msgspec.json.encode(report).decode() + "\n")
    return 1 if report.failure else 0


if __name__ == "__main__":
    sys.exit(main())
