"""Clients that read late, slowly or never: they wait or are cut off, and nobody else notices."""

import contextlib
import time
from collections.abc import Callable

import pytest

from bourse.protocol.messages import Accepted, Done
from tests.integration.harness import (
    Client,
    Daemon,
    buy,
    packed,
    pump,
    sell,
    wait_until,
)

BURST = 100_000


def never_reads(daemon: Daemon, orders: int) -> Client:
    """A client that pipelines orders and does not read a byte; what it could send is sent."""
    client = daemon.connect(receive_buffer=4096)
    client.reads = False
    client.queue(b"".join(buy(n, 1, 1 + n % 50).pack() for n in range(1, orders + 1)))
    return client


def round_trip(client: Client, number: int) -> float:
    started = time.monotonic()
    answers = client.ask(sell(2 * number, 1, 10**6), buy(2 * number + 1, 1, 10**6), answers=5)
    assert answers[-1].id == 2 * number + 1
    return time.monotonic() - started


def test_a_client_that_pipelines_a_burst_and_only_then_reads_is_served_whole(
    new_daemon: Callable[..., Daemon],
) -> None:
    # The high water is far below what the answers take, so reading stops and goes on many times.
    daemon = new_daemon(
        poll="adaptive", durability="memory", outbound_high_water_bytes=1 << 16
    ).start()
    client = daemon.connect()
    client.reads = False
    client.queue(b"".join(buy(n, 1, 1 + n % 50).pack() for n in range(1, BURST + 1)))
    # It sends until nothing moves any more: both directions are full.
    sent = -1
    while client.outgoing and client.sent_bytes != sent:
        sent = client.sent_bytes
        until = time.monotonic() + 0.3
        pump([client], lambda until=until: time.monotonic() > until or not client.outgoing)
    client.reads = True

    pump([client], lambda: len(client.received) >= 31 * BURST, 30.0)

    assert bytes(client.received) == packed(Accepted(n, 1, n) for n in range(1, BURST + 1))
    assert daemon.call("status").slow_reader_cuts == 0
    assert daemon.stop() == 0


def test_half_a_frame_whose_end_we_do_not_read_is_not_held_against_the_client(
    new_daemon: Callable[..., Daemon],
) -> None:
    # Above the high water it is not read from, mostly in the middle of a frame, for longer than a
    # frame may take.
    daemon = new_daemon(
        poll="adaptive",
        durability="memory",
        outbound_high_water_bytes=4096,
        frame_seconds=0.2,
        slow_reader_seconds=60.0,
    ).start()
    client = daemon.connect()
    client.reads = False
    client.queue(b"".join(buy(n, 1, 1 + n % 50).pack() for n in range(1, 4 * BURST + 1)))
    sent = -1
    while client.outgoing and client.sent_bytes != sent:
        sent = client.sent_bytes
        until = time.monotonic() + 1.3  # two looks at the deadlines are half a second apart
        pump([client], lambda until=until: time.monotonic() > until or not client.outgoing)
    assert client.outgoing, "it was read from all the while"
    client.reads = True

    pump([client], lambda: len(client.received) >= 31 * 4 * BURST or bool(client.ended), 30.0)

    assert not daemon.log_lines("half a frame")
    assert len(client.received) == 31 * 4 * BURST
    assert daemon.stop() == 0


def test_a_client_that_takes_nothing_is_cut_off_and_the_others_trade_on(
    new_daemon: Callable[..., Daemon],
) -> None:
    daemon = new_daemon(poll="adaptive", durability="memory", slow_reader_seconds=1.0).start()
    good = daemon.connect()
    bad = never_reads(daemon, 300_000)
    started = time.monotonic()
    worst = 0.0
    number = 0

    def trade() -> None:
        nonlocal worst, number
        number += 1
        worst = max(worst, round_trip(good, number))

    pump([bad], lambda: daemon.call("status").slow_reader_cuts == 1, on_pass=trade)

    assert 0.9 < time.monotonic() - started < 8.0
    assert number > 20
    assert worst < 2.0
    (line,) = daemon.log_lines("cut off")
    assert "{}:{}".format(*bad.local) in line
    assert "took none of" in line
    wait_until(lambda: daemon.call("status").connections == 1)
    bad.reads = True
    bad.outgoing.clear()
    bad.read_to_end()
    trade()


def test_a_client_that_lets_too_much_pile_up_is_cut_off(new_daemon: Callable[..., Daemon]) -> None:
    """Others' orders trade with those of a client that has stopped reading."""
    daemon = new_daemon(
        poll="adaptive",
        durability="memory",
        outbound_high_water_bytes=1 << 14,
        outbound_max_bytes=1 << 18,
        slow_reader_seconds=600.0,
    ).start()
    deaf = daemon.connect(receive_buffer=4096)
    deaf.ask(sell(1, 2**40, 7), answers=1)
    taker = daemon.connect()
    number = 0

    def trade() -> None:
        nonlocal number
        batch = b"".join(buy(number + n, 1, 7).pack() for n in range(500))
        number += 500
        taker.send_bytes(batch)
        taker.receive(1_500)

    deadline = time.monotonic() + 30.0
    while not daemon.call("status").slow_reader_cuts:
        assert time.monotonic() < deadline
        trade()

    (line,) = daemon.log_lines("cut off")
    assert "outbound_max_bytes" in line
    assert "{}:{}".format(*deaf.local) in line
    # The order itself is still good.
    trade()
    assert isinstance(taker.executions[-1], Done)
    assert daemon.call("status").live_orders == 1
    assert daemon.call("status").slow_reader_cuts == 1
    assert daemon.stop() == 0


@pytest.mark.parametrize("ends", [False, True])
def test_a_slow_but_steady_reader_is_not_cut_off(
    new_daemon: Callable[..., Daemon], ends: bool
) -> None:
    # More is owed than sockets hold, so that the daemon itself keeps some of it for seconds.
    daemon = new_daemon(
        poll="block",
        durability="memory",
        slow_reader_seconds=1.0,
        outbound_high_water_bytes=32 << 20,
    ).start()
    orders = 300_000
    client = never_reads(daemon, orders)
    pump([client], lambda: not client.outgoing)
    if ends:
        client.finish_sending()
    started = time.monotonic()
    while time.monotonic() < started + 4.0:
        with contextlib.suppress(BlockingIOError):
            client.received += client.socket.recv(60_000)
        time.sleep(0.05)
    client.reads = True

    pump([client], lambda: len(client.received) >= 31 * orders or bool(client.ended))

    assert daemon.call("status").slow_reader_cuts == 0, daemon.log()
    assert len(client.received) == 31 * orders


def test_a_connection_beyond_the_limit_is_refused_and_room_is_given_again(
    new_daemon: Callable[..., Daemon],
) -> None:
    daemon = new_daemon(durability="memory", connections_max=3).start()
    first, second, third = (daemon.connect() for _ in range(3))
    wait_until(lambda: daemon.call("status").connections == 3)
    surplus = daemon.connect()
    surplus.read_to_end()
    assert daemon.log_lines("refused a connection", "connections_max")
    first.ask(buy(1), answers=1)
    second.close()
    wait_until(lambda: daemon.call("status").connections == 2)

    again = daemon.connect()

    again.ask(buy(1), answers=1)
    third.ask(buy(1), answers=1)
