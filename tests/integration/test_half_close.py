"""Ends of connections: half-closed, dropped, killed; with and without cancel_on_disconnect."""

import random
from collections.abc import Callable, Iterator

import pytest

from bourse.domain import CommandFlag, CommandKind
from bourse.protocol.messages import Accepted, Done
from tests.integration.harness import (
    Daemon,
    LogView,
    Orders,
    buy,
    frames_owed,
    one_daemon,
    packed,
    sell,
    wait_until,
)


@pytest.fixture(scope="module")
def keeping() -> Iterator[Daemon]:
    """A daemon whose clients' orders outlive their connections."""
    with one_daemon(poll="adaptive") as daemon:
        yield daemon
        assert not daemon.trouble()


@pytest.fixture(scope="module")
def cancelling() -> Iterator[Daemon]:
    """A daemon that cancels orders with their connection."""
    with one_daemon(poll="adaptive", cancel_on_disconnect=True) as daemon:
        yield daemon
        assert not daemon.trouble()


def test_all_answers_come_before_the_end_of_a_half_closed_connection(keeping: Daemon) -> None:
    client = keeping.connect()
    session = keeping.session_of(client)
    client.send_bytes(Orders(random.Random(1)).batch(20_000))
    client.finish_sending()

    client.read_to_end()

    assert client.ended == "eof"
    log = LogView.of(keeping.data_dir)
    assert bytes(client.received) == packed(frames_owed(log.events)[session])
    assert len(log.requests()[session]) == 20_000


def test_orders_outlive_their_connection_and_still_trade(keeping: Daemon) -> None:
    client = keeping.connect()
    client.ask(buy(1, 3, -500), answers=1)
    client.finish_sending()
    assert client.read_to_end() == []

    assert keeping.call("depth", None).bids[-1].price_ticks <= -500


@pytest.mark.parametrize("count", [10, 20_000])
def test_a_half_closed_session_is_told_of_each_order_that_is_cancelled_with_it(
    cancelling: Daemon, count: int
) -> None:
    client = cancelling.connect()
    client.send_bytes(b"".join(buy(n, 1, n % 100).pack() for n in range(1, count + 1)))
    client.finish_sending()

    answers = client.read_to_end()

    assert client.ended == "eof"
    taken = [answer.id for answer in answers if isinstance(answer, Accepted)]
    ended = [answer.id for answer in answers if isinstance(answer, Done) and answer.reason == 2]
    assert taken == list(range(1, count + 1))
    assert ended == taken
    assert cancelling.settled().live_orders == 0


def test_a_dropped_connections_orders_are_cancelled_once(cancelling: Daemon) -> None:
    stays = cancelling.connect()
    stays.ask(buy(1, 1, 5), answers=1)
    client = cancelling.connect()
    session = cancelling.session_of(client)
    client.ask(buy(1), buy(2), sell(3, 1, 300), answers=3)
    client.abort()

    wait_until(lambda: cancelling.call("status").live_orders == 1)

    log = LogView.of(cancelling.data_dir)
    ends = [c for c in log.commands if c.kind == CommandKind.SESSION_END]
    (end,) = [c for c in ends if c.session_id == session]
    assert end.flags == CommandFlag.CANCEL_ORDERS
    stays.close()


@pytest.mark.parametrize("cancel", [False, True])
def test_sessions_of_a_killed_daemon_end_at_the_next_start(
    new_daemon: Callable[..., Daemon], cancel: bool
) -> None:
    daemon = new_daemon(cancel_on_disconnect=cancel).start()
    clients = [daemon.connect() for _ in range(3)]
    sessions = [daemon.session_of(client) for client in clients]
    for client in clients:
        client.ask(buy(1), buy(2, 1, 90), answers=2)
    daemon.kill()

    status = daemon.start().settled()

    assert status.live_orders == (0 if cancel else 6)
    log = LogView.of(daemon.data_dir)
    ends = [c for c in log.commands if c.kind == CommandKind.SESSION_END]
    assert [c.session_id for c in ends] == sessions
    fresh = daemon.connect()
    assert daemon.session_of(fresh) > max(sessions)
    if not cancel:
        # What is left of the dead trades, and can be cancelled by the operator.
        answers = fresh.ask(sell(1, 4, 90), answers=1 + 4 + 1)
        assert answers[-1].id == 1
    assert daemon.stop() == 0


def test_the_past_of_ended_sessions_is_ended_once_over_many_restarts(
    new_daemon: Callable[..., Daemon],
) -> None:
    daemon = new_daemon()
    sessions = []
    for _ in range(3):
        daemon.start()
        client = daemon.connect()
        sessions.append(daemon.session_of(client))
        client.ask(buy(1), answers=1)
        daemon.kill()
    daemon.start()

    log = LogView.of(daemon.data_dir)

    ends = [c.session_id for c in log.commands if c.kind == CommandKind.SESSION_END]
    assert ends == sessions == sorted(set(sessions))
