"""What a live daemon said and what its log says: the same commands, events, books and digests."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.harness import (
    ROUNDS,
    Client,
    Daemon,
    LogView,
    Orders,
    packed,
    pump,
    request_key,
)

COMMANDS = 10_000


def trade(daemon: Daemon, seed: int, commands: int, client_count: int = 4) -> dict[int, Client]:
    """Send random commands over several connections at once; return clients by session id."""
    rng = random.Random(seed)
    clients = [daemon.connect() for _ in range(client_count)]
    sources = [Orders(rng) for _ in clients]
    sessions = {daemon.session_of(client): client for client in clients}
    left = commands

    def feed() -> None:
        nonlocal left
        for client, source in zip(clients, sources, strict=True):
            if len(client.outgoing) < 4096 and left:
                count = min(left, rng.randrange(1, 40))
                left -= count
                client.queue(source.batch(count))

    pump(clients, lambda: not left and not any(c.outgoing for c in clients), on_pass=feed)
    for client in clients:
        client.finish_sending()
    pump(clients, lambda: all(client.ended for client in clients))
    for session_id, client in sessions.items():
        assert client.ended == "eof", (session_id, client.ended)
        client.source = sources[clients.index(client)]  # type: ignore[attr-defined]
    return sessions


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_ten_thousand_random_commands_live_and_replayed_are_the_same(
    new_daemon: Callable[..., Daemon], seed: int
) -> None:
    daemon = new_daemon(poll="adaptive").start()

    sessions = trade(daemon, seed, COMMANDS)
    status = daemon.settled()
    depth = daemon.call("depth")
    assert daemon.stop() == 0

    log = LogView.of(daemon.data_dir)
    owed = log.frames()
    logged = log.requests()
    for session_id, client in sessions.items():
        assert bytes(client.received) == packed(owed[session_id])
        sent = [request_key(request) for request in client.source.sent]  # type: ignore[attr-defined]
        assert logged[session_id] == sent
    assert not log.result.torn_tail
    assert status.wal_seq == log.result.last_wal_seq
    assert status.event_seq == log.result.events
    assert status.live_orders == log.result.resting_orders
    assert int(status.state_digest, 16) == log.result.state_digest
    assert int(status.event_digest, 16) == log.result.event_digest
    assert same_depth(depth, log)


def same_depth(depth: Any, log: LogView) -> bool:
    bids, asks = log.result.engine.depth_levels()
    shown = [[tuple(level) for level in levels] for levels in plain(depth)]
    return shown == [bids[: len(shown[0])], asks[: len(shown[1])]]


def plain(depth: Any) -> list[list[tuple[int, int, int]]]:
    return [
        [(level.price_ticks, level.qty_lots, level.order_count) for level in levels]
        for levels in (depth.bids, depth.asks)
    ]


def test_a_replay_beside_the_daemon_says_live_and_agrees(
    new_daemon: Callable[..., Daemon],
) -> None:
    daemon = new_daemon().start()
    trade(daemon, 1, 500)
    status = daemon.settled()

    log = LogView.of(daemon.data_dir)

    assert log.result.live
    assert not log.result.torn_tail
    assert int(status.event_digest, 16) == log.result.event_digest


def test_the_reference_model_agrees_with_the_daemon(new_daemon: Callable[..., Daemon]) -> None:
    model_module = pytest.importorskip("tests.matching.model")
    daemon = new_daemon().start()
    trade(daemon, 2, 3_000)
    status = daemon.settled()
    assert daemon.stop() == 0
    log = LogView.of(daemon.data_dir)
    model = model_module.Model()

    events = [event for command in log.commands for event in model.execute(command)]

    assert events == log.events
    assert model.state_digest() == int(status.state_digest, 16)
    assert model.event_digest == int(status.event_digest, 16)
