"""Protocol version 1 over a real socket: the bytes of PROTOCOL-V1, and who is told what."""

import itertools
import struct
from collections.abc import Iterator

import pytest

from bourse.domain import OrderType
from bourse.protocol.messages import Accepted, Cancel, Done, Trade
from tests.integration.harness import Client, Daemon, buy, one_daemon, pump, sell, wait_until


@pytest.fixture(scope="module")
def shared() -> Iterator[Daemon]:
    with one_daemon(durability="memory", poll="adaptive") as daemon:
        yield daemon


@pytest.fixture
def daemon(shared: Daemon) -> Iterator[Daemon]:
    """The module's daemon with an empty book."""
    yield shared
    for client in shared.clients:
        client.close()
    shared.clients.clear()
    janitor = shared.connect()
    janitor.send(sell(1, 2**63, -(2**63), OrderType.IOC), buy(2, 2**63, 2**63 - 1, OrderType.IOC))
    wait_until(lambda: shared.call("status").live_orders == 0)
    janitor.close()
    shared.clients.clear()
    wait_until(lambda: shared.call("status").connections == 0)
    assert not shared.trouble()


def event_seq(daemon: Daemon) -> int:
    return int(daemon.call("status").event_seq)


def new_order_bytes(order_id: int, side: int, qty: int, kind: int, price: int | None) -> bytes:
    """A NewOrder as the table of PROTOCOL-V1 has it, not as our own code packs it."""
    body = struct.pack("<QBQB", order_id, side, qty, kind)
    body += b"" if price is None else struct.pack("<q", price)
    body += struct.pack("<q", 1_700_000_000_000_000_000)
    return struct.pack("<IBB", len(body) + 2, 1, 0x01) + body


def accepted_bytes(order_id: int, qty: int, seq: int) -> bytes:
    return struct.pack("<IBBBQQQ", 27, 1, 0x10, 1, order_id, qty, seq)


def trade_bytes(taker: int, maker: int, price: int, qty: int, seq: int) -> bytes:
    return struct.pack("<IBBBQQqQQ", 43, 1, 0x10, 2, taker, maker, price, qty, seq)


def done_bytes(order_id: int, leaves_qty: int, reason: int, seq: int) -> bytes:
    return struct.pack("<IBBBQQBQ", 28, 1, 0x10, 3, order_id, leaves_qty, reason, seq)


def receive_bytes(client: Client, count: int) -> bytes:
    start = len(client.received) - 0
    pump([client], lambda: len(client.received) >= start + count or bool(client.ended))
    return bytes(client.received[start:])


def test_a_round_trip_of_the_predecessor_is_answered_byte_for_byte(daemon: Daemon) -> None:
    client = daemon.connect()
    seq = event_seq(daemon)
    for number in range(1, 101):
        sell_id, buy_id = 2 * number - 1, 2 * number

        client.send_bytes(new_order_bytes(sell_id, 2, 1, 1, 100))
        assert receive_bytes(client, 31) == accepted_bytes(sell_id, 1, seq + 1)
        client.send_bytes(new_order_bytes(buy_id, 1, 1, 1, 100))

        assert receive_bytes(client, 142) == (
            accepted_bytes(buy_id, 1, seq + 2)
            + trade_bytes(buy_id, sell_id, 100, 1, seq + 3)
            + done_bytes(sell_id, 0, 1, seq + 4)
            + done_bytes(buy_id, 0, 1, seq + 5)
        )
        seq += 5


def test_a_burst_of_the_predecessor_is_answered_byte_for_byte(daemon: Daemon) -> None:
    client = daemon.connect()
    seq = event_seq(daemon)
    sent, owed = bytearray(), bytearray()
    for number in range(1, 5_001):
        sell_id, buy_id = 2 * number - 1, 2 * number
        sent += new_order_bytes(sell_id, 2, 1, 1, 100) + new_order_bytes(buy_id, 1, 1, 1, 100)
        owed += accepted_bytes(sell_id, 1, seq + 1) + accepted_bytes(buy_id, 1, seq + 2)
        owed += trade_bytes(buy_id, sell_id, 100, 1, seq + 3)
        owed += done_bytes(sell_id, 0, 1, seq + 4) + done_bytes(buy_id, 0, 1, seq + 5)
        seq += 5

    client.send_bytes(bytes(sent))
    pump([client], lambda: len(client.received) >= len(owed))

    assert client.received == owed


def test_every_kind_of_order_ends_as_the_table_says(daemon: Daemon) -> None:
    client = daemon.connect()
    seq = event_seq(daemon)
    cases = [
        (new_order_bytes(1, 1, 5, 1, 90), accepted_bytes(1, 5, seq + 1)),
        # Rejections are one Done with the full quantity and no Accepted.
        (new_order_bytes(1, 1, 5, 1, 90), done_bytes(1, 5, 5, seq + 2)),
        (new_order_bytes(2, 1, 0, 1, 90), done_bytes(2, 0, 5, seq + 3)),
        (new_order_bytes(3, 2, 5, 4, 90), done_bytes(3, 5, 5, seq + 4)),
        (new_order_bytes(4, 2, 6, 5, 90), done_bytes(4, 6, 5, seq + 5)),
        # An IOC expires, a market order finds no liquidity.
        (
            new_order_bytes(5, 2, 2, 3, 95),
            accepted_bytes(5, 2, seq + 6) + done_bytes(5, 2, 3, seq + 7),
        ),
        (
            new_order_bytes(6, 2, 7, 2, None),
            accepted_bytes(6, 7, seq + 8)
            + trade_bytes(6, 1, 90, 5, seq + 9)
            + done_bytes(1, 0, 1, seq + 10)
            + done_bytes(6, 2, 4, seq + 11),
        ),
        # A price has any sign; a cancel ends what is open; an unknown id is answered nothing.
        (new_order_bytes(7, 1, 2**64 - 1, 4, -(2**63)), accepted_bytes(7, 2**64 - 1, seq + 12)),
        (struct.pack("<IBBQ", 10, 1, 2, 999), b""),
        (struct.pack("<IBBQ", 10, 1, 2, 7), done_bytes(7, 2**64 - 1, 2, seq + 13)),
    ]
    for request, answer in cases:
        client.send_bytes(request)

        assert receive_bytes(client, len(answer)) == answer


def test_a_trade_shows_each_side_its_own_id_and_the_others_public_number(daemon: Daemon) -> None:
    maker, taker = daemon.connect(), daemon.connect()
    numbers = daemon.call("status").orders
    (rests,) = maker.ask(sell(77, 3, 101), answers=1)

    accepted, taker_trade, taker_done = taker.ask(buy(77, 2, 105), answers=3)

    (maker_trade,) = maker.receive(1)
    assert accepted == Accepted(77, 2, rests.seq + 1)
    # Orders are numbered over the whole exchange; this pair has the next two numbers.
    assert taker_trade == Trade(77, numbers + 1, 101, 2, rests.seq + 2)
    assert maker_trade == Trade(numbers + 2, 77, 101, 2, rests.seq + 2)
    assert taker_done == Done(77, 0, 1, rests.seq + 3)
    assert maker.pending() == []


def test_nobody_cancels_somebody_elses_order_of_the_same_id(daemon: Daemon) -> None:
    first, second = daemon.connect(), daemon.connect()
    first.ask(buy(5, 1, 50), answers=1)
    second.ask(buy(5, 2, 50), answers=1)

    (done,) = second.ask(Cancel(5), Cancel(5), answers=1)

    assert (done.id, done.leaves_qty, done.reason) == (5, 2, 2)
    assert second.pending() == first.pending() == []
    assert daemon.call("status").live_orders == 1
    (done,) = first.ask(Cancel(5), answers=1)
    assert (done.id, done.leaves_qty) == (5, 1)


def test_a_trade_with_oneself_is_told_once(daemon: Daemon) -> None:
    client = daemon.connect()
    (rests,) = client.ask(sell(1, 2, 100), answers=1)

    answers = client.ask(buy(2, 2, 100), answers=4)

    seq = rests.seq
    assert answers == [
        Accepted(2, 2, seq + 1),
        Trade(2, 1, 100, 2, seq + 2),
        Done(1, 0, 1, seq + 3),
        Done(2, 0, 1, seq + 4),
    ]
    assert client.pending() == []


def test_an_id_may_be_used_again_once_its_order_has_ended(daemon: Daemon) -> None:
    client = daemon.connect()
    for _ in range(3):
        accepted, done = client.ask(buy(9), Cancel(9), answers=2)

        assert (accepted.id, done.id, done.reason) == (9, 9, 2)


def test_a_trade_with_a_maker_whose_connection_is_gone(daemon: Daemon) -> None:
    maker, taker = daemon.connect(), daemon.connect()
    maker.ask(sell(1), answers=1)
    maker.close()
    wait_until(lambda: daemon.call("status").connections == 1)

    _, trade, done = taker.ask(buy(1), answers=3)

    assert isinstance(trade, Trade)
    assert done.reason == 1


def test_a_taker_that_is_gone_still_trades(daemon: Daemon) -> None:
    maker = daemon.connect()
    maker.ask(sell(1), sell(2), answers=2)
    taker = daemon.connect()
    taker.send(buy(1), buy(2))
    taker.abort()

    answers = maker.receive(4)

    assert [type(answer) for answer in answers] == [Trade, Done, Trade, Done]


def test_sequences_are_consecutive_over_all_connections(daemon: Daemon) -> None:
    clients = [daemon.connect() for _ in range(5)]
    first = event_seq(daemon) + 1
    for number in range(1, 41):
        for client in clients:
            client.queue(buy(number, 1, number).pack())
    pump(clients, lambda: all(len(client.parse()) >= 40 for client in clients))

    seqs = [[answer.seq for answer in client.executions] for client in clients]

    assert all(own == sorted(own) for own in seqs)
    assert sorted(itertools.chain(*seqs)) == list(range(first, first + 200))
