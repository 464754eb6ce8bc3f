"""Hostile and unlucky bytes: they cost their sender its connection, one line in the log, and nobody
anything else.
"""

import random
import struct
import time
from collections.abc import Iterator

import pytest

from bourse.protocol.messages import Accepted, Cancel, NewOrder
from tests.integration.harness import (
    ROUNDS,
    Client,
    Daemon,
    buy,
    one_daemon,
    pump,
    sell,
    wait_until,
)

GOOD = buy(1, 1, 10).pack()
CANCEL = Cancel(1).pack()

BAD_FRAMES = {
    "length 0": struct.pack("<IBB", 0, 1, 1),
    "length 1": struct.pack("<IBB", 1, 1, 1),
    "length 37": struct.pack("<I", 37) + GOOD[4:] + b"\0",
    "4 GiB": struct.pack("<IBB", 2**32 - 1, 1, 1),
    "2 GiB": struct.pack("<IBB", 2**31, 1, 1),
    "version 0": GOOD[:4] + b"\0" + GOOD[5:],
    "version 2": GOOD[:4] + b"\2" + GOOD[5:],
    "type 0": GOOD[:5] + b"\0" + GOOD[6:],
    "type 3": GOOD[:5] + b"\3" + GOOD[6:],
    "type of an execution": struct.pack("<IBB", 36, 1, 0x10) + bytes(34),
    "a cancel as long as an order": struct.pack("<IBB", 36, 1, 2) + bytes(34),
    "an order as long as a cancel": struct.pack("<IBB", 10, 1, 1) + bytes(8),
    "side 0": GOOD[:14] + b"\0" + GOOD[15:],
    "side 3": GOOD[:14] + b"\3" + GOOD[15:],
    "kind 0": GOOD[:23] + b"\0" + GOOD[24:],
    "kind 6": GOOD[:23] + b"\6" + GOOD[24:],
    "a market order with a price": GOOD[:23] + b"\2" + GOOD[24:],
    "a limit order without one": struct.pack("<I", 28) + GOOD[4:32],
    "text": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a TLS hello": bytes.fromhex("1603010200010001fc0303"),
}


@pytest.fixture(scope="module")
def shared() -> Iterator[Daemon]:
    with one_daemon(durability="memory", frame_seconds=1.0) as daemon:
        yield daemon


@pytest.fixture
def daemon(shared: Daemon) -> Iterator[Daemon]:
    yield shared
    for client in shared.clients:
        client.close()
    shared.clients.clear()
    wait_until(lambda: shared.call("status").connections == 0)
    assert not shared.trouble()


class Bystander:
    """A connection that trades on, and notices if it has to wait or gets something strange."""

    def __init__(self, daemon: Daemon) -> None:
        self.client = daemon.connect()
        self.number = 0
        self.worst_seconds = 0.0

    def trade(self) -> None:
        self.number += 1
        started = time.monotonic()
        # At a price that nobody else reaches, however a bit falls.
        answers = self.client.ask(buy(self.number, 1, -(2**63)), Cancel(self.number), answers=2)
        self.worst_seconds = max(self.worst_seconds, time.monotonic() - started)
        assert [answer.id for answer in answers] == [self.number, self.number]


def closed_lines(daemon: Daemon, client: Client) -> list[str]:
    return daemon.lines_about(client, "closed:")


@pytest.mark.parametrize("name", BAD_FRAMES)
def test_a_bad_frame_closes_its_sender_after_the_good_ones_are_answered(
    daemon: Daemon, name: str
) -> None:
    bystander = Bystander(daemon)
    bystander.trade()
    errors = daemon.call("status").protocol_errors
    client = daemon.connect()
    client.send_bytes(b"".join(buy(n, 1, 10).pack() for n in range(1, 51)) + BAD_FRAMES[name])

    answers = client.read_to_end(5.0)

    assert [answer.id for answer in answers if isinstance(answer, Accepted)] == list(range(1, 51))
    assert len(closed_lines(daemon, client)) == 1, daemon.log()
    assert daemon.call("status").protocol_errors == errors + 1
    bystander.trade()
    assert bystander.worst_seconds < 2.0


def test_what_follows_a_bad_frame_is_not_read_and_does_not_lose_the_answers(
    daemon: Daemon,
) -> None:
    client = daemon.connect(receive_buffer=4096)
    orders = b"".join(buy(n, 1, 10).pack() for n in range(1, 2001))
    client.queue(orders + BAD_FRAMES["version 2"] + orders * 20)
    # It does not read until the other side has said all it will say.
    client.reads = False
    pump([client], lambda: bool(closed_lines(daemon, client)))
    time.sleep(0.1)
    client.reads = True

    answers = client.read_to_end(5.0)

    assert [answer.id for answer in answers] == list(range(1, 2001))
    assert len(closed_lines(daemon, client)) == 1


def test_half_a_frame_and_then_silence_is_closed_after_frame_seconds(daemon: Daemon) -> None:
    bystander = Bystander(daemon)
    for cut in (1, 3, 4, 5, 6, 14, 23, 39):
        daemon.connect().send_bytes(GOOD[:cut])
    halves = daemon.clients[1:]
    started = time.monotonic()

    pump(halves, lambda: all(c.ended for c in halves), 5.0, on_pass=bystander.trade)

    assert 0.9 < time.monotonic() - started < 3.5
    for client in halves:
        (line,) = closed_lines(daemon, client)
        assert "half a frame waited" in line
        assert client.received == b""


def test_half_a_frame_and_then_the_end_is_one_log_line(daemon: Daemon) -> None:
    for cut in (1, 6, 39):
        client = daemon.connect()
        client.send_bytes(CANCEL + buy(cut, 1, 10).pack() + GOOD[:cut])
        client.finish_sending()

        answers = client.read_to_end(5.0)

        assert answers[-1].id == cut
        (line,) = closed_lines(daemon, client)
        assert "inside a frame" in line


def test_a_frame_that_is_slow_but_moves_within_the_limit_is_taken(daemon: Daemon) -> None:
    client = daemon.connect()
    client.send_bytes(GOOD[:20])
    time.sleep(0.4)
    client.send_bytes(GOOD[20:])

    (answer,) = client.receive(1)

    assert answer.id == 1
    assert not closed_lines(daemon, client)


def test_frames_cut_at_every_byte_are_the_same_frames(daemon: Daemon) -> None:
    client = daemon.connect()
    data = buy(1, 1, 10).pack() + NewOrder(2, 2, 1, 2).pack() + Cancel(1).pack()
    owed = client.ask(*[], answers=0) or None
    for cut in range(1, len(data)):
        client.send_bytes(data[:cut])
        # Let the first part arrive alone.
        time.sleep(0.002)
        client.send_bytes(data[cut:])

        answers = client.receive(5)

        shapes = [(type(a), getattr(a, "id", None)) for a in answers]
        owed = owed or shapes
        assert shapes == owed, cut


def test_one_byte_at_a_time_and_all_at_once_are_the_same(daemon: Daemon) -> None:
    requests = [buy(1, 5, 10), sell(2, 2, 10), Cancel(1)] * 20
    data = b"".join(request.pack() for request in requests)
    by_byte, at_once = daemon.connect(), daemon.connect()
    for byte in data:
        by_byte.send_bytes(bytes([byte]))
    first = by_byte.receive(6 * 20)

    at_once.send_bytes(data)

    second = at_once.receive(6 * 20)
    offset = second[0].seq - first[0].seq
    assert [type(a) for a in first] == [type(a) for a in second]
    assert all(b.seq - a.seq == offset for a, b in zip(first, second, strict=True))


def test_random_bytes_harm_nobody_else(daemon: Daemon) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    bystander = Bystander(daemon)
    frames = list(BAD_FRAMES.values())
    senders = []
    for number in range(1_500 * ROUNDS):
        client = daemon.connect()
        kind = rng.randrange(4)
        if kind == 0:
            data = rng.randbytes(rng.randrange(4, 200))
        elif kind == 1:
            # One bit of a good frame is wrong; some of these are good frames.
            frame = bytearray(GOOD * 3)
            frame[rng.randrange(len(frame))] ^= 1 << rng.randrange(8)
            data = bytes(frame)
        elif kind == 2:
            data = GOOD + rng.choice(frames) + rng.randbytes(rng.randrange(100))
        else:
            data = rng.choice(frames)[: rng.randrange(1, 40)]
        client.queue(data)
        pump([client], lambda client=client: not client.outgoing or bool(client.ended))
        if rng.random() < 0.3:
            client.abort()
        else:
            client.finish_sending()
            senders.append(client)
        if number % 20 == 0:
            bystander.trade()
            pump(senders, lambda: all(c.ended for c in senders), 5.0)
            for client in senders:
                assert len(closed_lines(daemon, client)) <= 1
                client.close()
            senders.clear()
            daemon.clients[1:] = []
    bystander.trade()
    assert bystander.worst_seconds < 2.0
    # One line a connection at most: each peer's port names it once.
    lines = [line.split("closed:")[0].split()[3] for line in daemon.log_lines("closed:")]
    assert len(lines) == len(set(lines))


def test_many_bad_connections_at_once_are_all_closed(daemon: Daemon) -> None:
    bystander = Bystander(daemon)
    bad = [daemon.connect() for _ in range(200)]
    for client in bad:
        client.queue(GOOD + BAD_FRAMES["type 3"])

    pump(bad, lambda: all(client.ended for client in bad), 10.0, on_pass=bystander.trade)

    assert all(len(closed_lines(daemon, client)) == 1 for client in bad)
    assert bystander.worst_seconds < 2.0


def test_a_client_that_sends_on_for_ever_after_a_bad_frame_is_dropped(daemon: Daemon) -> None:
    client = daemon.connect()
    client.send_bytes(GOOD + BAD_FRAMES["version 0"])

    def feed() -> None:
        if not client.ended and len(client.outgoing) < 65_536:
            client.queue(GOOD * 1_000)

    # It hears the end of what it is owed, and sends on.
    pump([client], lambda: daemon.call("status").connections == 0, 10.0, on_pass=feed)

    assert len(closed_lines(daemon, client)) == 1
    assert client.parse()[0].id == 1


def test_a_client_that_stays_silent_after_a_bad_frame_is_dropped(daemon: Daemon) -> None:
    client = daemon.connect()
    client.send_bytes(GOOD + BAD_FRAMES["type 0"])

    wait_until(lambda: daemon.call("status").connections == 0, 10.0)

    assert len(closed_lines(daemon, client)) == 1
