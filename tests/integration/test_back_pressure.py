"""Full rings: nothing lost, nothing reordered, nobody stuck; in every poll mode and policy.

The smallest rings that the configuration allows make every wait and every wake-up of the pipeline
happen many times a run. A lost wake-up shows as a deadline that passes.
"""

import itertools
import random
import time
from collections.abc import Callable

import pytest

from bourse.domain import OrderType
from bourse.protocol.messages import Accepted, Done, Trade
from tests.integration.harness import (
    ROUNDS,
    Client,
    Daemon,
    LogView,
    Orders,
    buy,
    packed,
    pump,
    sell,
    wait_until,
)

TINY = {
    "command_ring_count": 64,
    "event_ring_count": 64,
    "journal_ring_count": 64,
    "async_interval_ms": 5,
}
MODES = [
    (poll, durability)
    for poll in ("block", "adaptive", "busy")
    for durability in ("memory", "async", "fsync")
]
MAKERS = 3_000
ANSWER_SECONDS_MAX = 30.0


def all_done(clients: list[Client]) -> bool:
    return all(client.ended for client in clients)


def check_streams(clients: list[Client]) -> None:
    """Each stream rises; an event that two see is one event; together they have no gap."""
    seen: dict[int, int] = {}
    for client in clients:
        seqs = [execution.seq for execution in client.parse()]
        assert all(a < b for a, b in itertools.pairwise(seqs))
        for execution in client.executions:
            seen[execution.seq] = seen.get(execution.seq, 0) + 1
    assert sorted(seen) == list(range(1, len(seen) + 1))
    assert max(seen.values(), default=1) <= 2


@pytest.mark.parametrize(("poll", "durability"), MODES)
@pytest.mark.parametrize("round_number", range(ROUNDS))
def test_tiny_rings_lose_and_reorder_nothing(
    new_daemon: Callable[..., Daemon], poll: str, durability: str, round_number: int
) -> None:
    daemon = new_daemon(poll=poll, durability=durability, **TINY).start()
    rng = random.Random(f"{poll} {durability} {round_number}")
    clients = [daemon.connect() for _ in range(4)]
    sessions = [daemon.session_of(client) for client in clients]
    for client in clients:
        client.queue(Orders(rng).batch(1_500))

    pump(clients, lambda: not any(client.outgoing for client in clients))
    event_seq = wait_until(
        lambda: daemon.settled().commands == 6_000 and daemon.settled().event_seq
    )
    pump(clients, lambda: events_seen(clients) == event_seq, ANSWER_SECONDS_MAX)

    check_streams(clients)
    assert daemon.stop() == 0
    if durability != "memory":
        owed = LogView.of(daemon.data_dir).frames()
        for session, client in zip(sessions, clients, strict=True):
            assert bytes(client.received) == packed(owed.get(session, []))


def events_seen(clients: list[Client]) -> int:
    return len({execution.seq for client in clients for execution in client.parse()})


@pytest.mark.parametrize(("poll", "durability"), MODES)
def test_one_order_that_sweeps_thousands_fills_whole_through_tiny_rings(
    new_daemon: Callable[..., Daemon], poll: str, durability: str
) -> None:
    daemon = new_daemon(poll=poll, durability=durability, **TINY).start()
    makers = [daemon.connect() for _ in range(3)]
    for number in range(1, MAKERS + 1):
        makers[number % 3].queue(sell(number, 2, number).pack())
    pump(makers, lambda: sum(len(maker.parse()) for maker in makers) == MAKERS)
    taker = daemon.connect()

    answers = taker.ask(buy(1, 2 * MAKERS - 1, MAKERS), answers=MAKERS + 2)

    pump(makers, lambda: sum(len(m.parse()) for m in makers) == 3 * MAKERS - 1, ANSWER_SECONDS_MAX)
    accepted, *trades, done = answers
    assert isinstance(accepted, Accepted)
    assert [trade.price for trade in trades if isinstance(trade, Trade)] == [*range(1, MAKERS + 1)]
    assert isinstance(done, Done)
    assert (done.leaves_qty, done.reason) == (0, 1)
    check_streams([taker, *makers])
    assert daemon.settled().live_orders == 1
    assert daemon.stop() == 0


@pytest.mark.parametrize("poll", ["block", "adaptive"])
def test_single_orders_with_pauses_always_wake_everybody(
    new_daemon: Callable[..., Daemon], poll: str
) -> None:
    # Each idle phase that one order ends is a chance to lose a wake-up.
    daemon = new_daemon(poll=poll, **TINY).start()
    client = daemon.connect()
    rng = random.Random(1)
    for number in range(1, 400 * ROUNDS):
        client.ask(buy(number, 1, 1, OrderType.IOC), answers=2)
        # Around the time at which threads go from spinning to sleeping.
        wait_a_little(rng.uniform(0, 0.0004))


def wait_a_little(seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def test_a_full_pipeline_serves_admin_reads_and_lets_connections_come_and_go(
    new_daemon: Callable[..., Daemon],
) -> None:
    daemon = new_daemon(poll="adaptive", **TINY).start()
    rng = random.Random(3)
    busy = [daemon.connect() for _ in range(3)]
    sources = [Orders(rng) for _ in busy]
    asked = 0
    left = 60

    def feed() -> None:
        nonlocal asked, left
        for client, source in zip(busy, sources, strict=True):
            if len(client.outgoing) < 4096 and left:
                client.queue(source.batch(200))
        left = max(0, left - 1)
        if left % 10 == 9:
            assert daemon.call("depth").bid_levels >= 0
            passer = daemon.connect()
            passer.send(buy(1, 1, 1, OrderType.IOC))
            passer.abort() if left % 20 == 9 else passer.finish_sending()
            asked += 1

    pump(busy, lambda: not left and not any(c.outgoing for c in busy), 60.0, on_pass=feed)
    for client in busy:
        client.finish_sending()
    pump(busy, lambda: all_done(busy), ANSWER_SECONDS_MAX)

    assert asked >= 5
    for client in daemon.clients:
        client.close()
    wait_until(lambda: daemon.call("status").connections == 0)
    log = LogView.of(daemon.data_dir)
    assert int(daemon.settled().event_digest, 16) == log.result.event_digest


def test_a_tiny_pipeline_stops_in_order_while_it_is_full(
    new_daemon: Callable[..., Daemon],
) -> None:
    daemon = new_daemon(poll="block", **TINY).start()
    clients = [daemon.connect() for _ in range(4)]
    sessions = [daemon.session_of(client) for client in clients]
    for client in clients:
        client.queue(Orders(random.Random(1)).batch(5_000))
    pump(clients, lambda: all(len(client.received) > 20_000 for client in clients))

    daemon.process.terminate()  # type: ignore[union-attr]
    pump(clients, lambda: all_done(clients))

    assert daemon.wait() == 0
    log = LogView.of(daemon.data_dir)
    assert not log.result.torn_tail
    owed = log.frames()
    for session, client in zip(sessions, clients, strict=True):
        assert bytes(client.received) == packed(owed[session])


def test_one_order_that_sweeps_more_than_a_turn_encodes_is_told_whole(
    new_daemon: Callable[..., Daemon],
) -> None:
    daemon = new_daemon(poll="adaptive").start()
    maker, taker = daemon.connect(), daemon.connect()
    count = 20_000
    maker.send_bytes(b"".join(sell(n, 1, n % 10).pack() for n in range(1, count + 1)))
    maker.receive(count)
    maker.finish_sending()
    maker.read_to_end()

    answers = taker.ask(buy(1, count + 1, 9), answers=count + 1)

    assert sum(trade.qty for trade in answers if isinstance(trade, Trade)) == count
    assert daemon.settled().live_orders == 1
    assert daemon.stop() == 0
