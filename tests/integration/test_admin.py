"""The admin socket of a real daemon: its file, its protocol, its patience, and the operator."""

import contextlib
import json
import os
import random
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bourse.admin.messages import (
    LINE_BYTES_MAX,
    TOPICS,
    CancelParams,
    DepthParams,
    ErrorCode,
    OrderParams,
    TradesParams,
)
from bourse.domain import Reason
from bourse.protocol.messages import Done, Trade
from tests.integration.harness import (
    Daemon,
    LogView,
    Orders,
    buy,
    frames_owed,
    one_daemon,
    packed,
    pump,
    sell,
    wait_until,
)


class Line:
    """A raw admin connection: lines out, lines in."""

    def __init__(self, daemon: Daemon) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(5.0)
        self.socket.connect(str(daemon.admin_path))
        self.file = self.socket.makefile("rb")
        self.number = 0

    def __enter__(self) -> "Line":
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()
        self.socket.close()

    def say(self, data: bytes) -> None:
        self.socket.sendall(data)

    def hear(self) -> dict[str, Any]:
        line = self.file.readline()
        assert line.endswith(b"\n"), line
        answer = json.loads(line)
        assert answer["jsonrpc"] == "2.0"
        return answer

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        self.number += 1
        request = {"jsonrpc": "2.0", "id": self.number, "method": method, "params": params}
        self.say(json.dumps(request).encode() + b"\n")
        answer = self.hear()
        assert answer["id"] == self.number
        return answer

    def tell(self, method: str, **params: Any) -> None:
        self.say(
            json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode() + b"\n"
        )

    def hello(self) -> "Line":
        assert "result" in self.ask("hello", protocol_versions=[1], client="a test")
        return self

    def is_silent(self, seconds: float) -> bool:
        self.socket.settimeout(seconds)
        try:
            line = self.file.readline()
        except TimeoutError:
            # A makefile is of no use after a time-out.
            self.file = self.socket.makefile("rb")
            return True
        finally:
            self.socket.settimeout(5.0)
        raise AssertionError(line)


@pytest.fixture(scope="module")
def shared() -> Iterator[Daemon]:
    with one_daemon(durability="memory", poll="adaptive") as daemon:
        yield daemon


@pytest.fixture
def daemon(shared: Daemon) -> Iterator[Daemon]:
    yield shared
    assert shared.is_running, shared.log()
    for client in shared.clients:
        client.close()
    shared.clients.clear()
    assert not shared.trouble()


def code(answer: dict[str, Any]) -> int:
    assert answer["error"]["message"]
    return int(answer["error"]["code"])


def test_the_socket_is_for_its_user_alone(daemon: Daemon) -> None:
    mode = daemon.admin_path.lstat().st_mode

    assert stat.S_ISSOCK(mode)
    assert stat.S_IMODE(mode) == 0o600
    assert daemon.admin_path.lstat().st_uid == os.geteuid()


def test_nothing_is_answered_before_hello(daemon: Daemon) -> None:
    with Line(daemon) as line:
        assert code(line.ask("status")) == ErrorCode.HELLO_FIRST
        assert code(line.ask("subscribe", topic="status")) == ErrorCode.HELLO_FIRST
        assert code(line.ask("shutdown")) == ErrorCode.HELLO_FIRST

        line.hello()

        assert line.ask("status")["result"]["pid"] == daemon.pid


def test_another_version_is_refused_with_a_sentence(daemon: Daemon) -> None:
    with Line(daemon) as line:
        answer = line.ask("hello", protocol_versions=[2, 99], client="from the future")

        assert code(answer) == ErrorCode.VERSION
        assert "speaks admin protocol 1" in answer["error"]["message"]
        assert code(line.ask("status")) == ErrorCode.HELLO_FIRST
        assert "result" in line.ask("hello", protocol_versions=[1, 2])


def test_requests_that_do_not_fit_are_refused_one_by_one(daemon: Daemon) -> None:
    with Line(daemon) as line:
        line.hello()
        assert code(line.ask("fly")) == ErrorCode.METHOD_NOT_FOUND
        assert code(line.ask("depth", levels="many")) == ErrorCode.INVALID_PARAMS
        assert code(line.ask("subscribe", topic="weather")) == ErrorCode.INVALID_PARAMS
        assert code(line.ask("subscribe")) == ErrorCode.INVALID_PARAMS
        assert code(line.ask("order", side="hold", qty_lots=1)) == ErrorCode.INVALID_PARAMS
        assert code(line.ask("order", side="buy", qty_lots=1)) == ErrorCode.INVALID_PARAMS
        assert code(line.ask("order", side="buy", qty_lots=-1, price_ticks=1)) < 0
        assert code(line.ask("order", side="buy", qty_lots=2**64, price_ticks=1)) < 0
        assert code(line.ask("order", side="buy", qty_lots=1, price_ticks=2**63)) < 0
        assert code(line.ask("order", side="buy", qty_lots=1, price_ticks=1, type="wish")) < 0
        assert code(line.ask("cancel", order_id=-1)) == ErrorCode.INVALID_PARAMS
        assert code(line.ask("cancel")) == ErrorCode.INVALID_PARAMS

        assert line.ask("status")["result"]["pid"] == daemon.pid


@pytest.mark.parametrize(
    "garbage",
    [
        b"hello?\n",
        b"\xff\xfe\x00\n",
        b"{}\n",
        b"[]\n",
        b'{"method": 7}\n',
        b'{"method": "status", "id": 1.5}\n',
        b'{"method": "status", "id": {}}\n',
        b'{"method": "status\n',
        b'{"method":"\xff"}\n',
        b"[" * 200_000 + b"\n",
        b'{"method":"status","id":1,"params":' + b"[" * 200_000 + b"]" * 200_000 + b"}\n",
        b'{"method":"depth","id":1,"params":{"x":' + b"[" * 90_000 + b"]" * 90_000 + b"}}\n",
    ],
    ids=range(12),
)
def test_a_line_of_garbage_is_refused_and_the_connection_goes_on(
    daemon: Daemon, garbage: bytes
) -> None:
    with Line(daemon) as line:
        line.hello()

        line.say(garbage)

        assert code(line.hear()) < 0
        assert line.ask("status")["result"]["pid"] == daemon.pid


def test_empty_lines_and_a_request_in_pieces_are_understood(daemon: Daemon) -> None:
    with Line(daemon) as line:
        line.say(b"\n\r\n  \n")
        request = b'{"jsonrpc":"2.0","id":1,"method":"hello","params":{"protocol_versions":[1]}}\n'
        for at in range(len(request)):
            line.say(request[at : at + 1])

        assert line.hear()["result"]["pid"] == daemon.pid


def test_a_line_without_end_closes_its_connection_alone(daemon: Daemon) -> None:
    with Line(daemon) as line, Line(daemon) as other:
        other.hello()
        line.hello()
        with contextlib.suppress(ConnectionError):
            line.say(b"x" * (LINE_BYTES_MAX + 70_000))
        with contextlib.suppress(ConnectionError):
            assert code(line.hear()) == ErrorCode.PARSE
            assert line.file.readline() == b""

        assert other.ask("status")["result"]["pid"] == daemon.pid


def test_connections_that_come_and_go_leave_nothing_behind(daemon: Daemon) -> None:
    for number in range(150):
        with Line(daemon) as line:
            if number % 2:
                line.hello()
                line.tell("subscribe", topic="depth")
            if number % 3 == 0:
                line.say(b'{"method":')

    with Line(daemon) as line:
        assert line.hello().ask("status")["result"]["pid"] == daemon.pid


# --- subscriptions


def test_a_client_that_leaves_with_requests_and_frames_under_way_harms_nobody(
    daemon: Daemon,
) -> None:
    # Whatever comes first: an answer, a frame or the end of the connection.
    for _ in range(25):
        with Line(daemon) as line:
            line.ask("hello", protocol_versions=[1])
            for topic in TOPICS:
                line.tell("subscribe", topic=topic, max_hz=20)
            line.say(b'{"jsonrpc":"2.0","id":1,"method":"status","params":{}}\n' * 20)

    assert daemon.is_running, daemon.log()
    assert daemon.call("status").connections == 0


@pytest.mark.parametrize("topic", TOPICS)
def test_one_frame_is_outstanding_until_its_credit_comes_back(daemon: Daemon, topic: str) -> None:
    with Line(daemon) as line:
        line.hello()
        assert line.ask("subscribe", topic=topic, max_hz=20)["result"] == {}
        first = line.hear()["params"]
        assert (first["topic"], first["number"]) == (topic, 1)
        assert line.is_silent(0.4)

        line.tell("credit", topic=topic)

        second = line.hear()["params"]
        assert second["number"] == 2
        assert second["skipped"] >= 3
        # Two credits at once are one.
        line.tell("credit", topic=topic)
        line.tell("credit", topic=topic)
        assert line.hear()["params"]["number"] == 3
        assert line.is_silent(0.3)


def test_frames_come_no_faster_than_asked_for(daemon: Daemon) -> None:
    with Line(daemon) as line:
        line.hello()
        line.ask("subscribe", topic="status", max_hz=10)
        started = time.monotonic()
        for number in range(1, 9):
            assert line.hear()["params"]["number"] == number
            line.tell("credit", topic="status")

        assert 0.65 < time.monotonic() - started < 3.0


def test_a_frame_shows_the_latest_values(daemon: Daemon) -> None:
    client = daemon.connect()
    with Line(daemon) as line:
        line.hello()
        line.ask("subscribe", topic="status", max_hz=20)
        before = line.hear()["params"]["data"]["commands"]
        for number in range(1, 51):
            client.ask(buy(number, 1, -(10**9)), answers=1)

        line.tell("credit", topic="status")

        assert line.hear()["params"]["data"]["commands"] == before + 50


def test_trades_come_once_each_and_in_order(daemon: Daemon) -> None:
    client = daemon.connect()
    with Line(daemon) as line:
        line.hello()
        line.ask("subscribe", topic="trades", max_hz=20)
        last = line.hear()["params"]["data"]["last_sequence"]
        seen: list[int] = []
        for number in range(10):
            client.ask(sell(2 * number, 1, 5), buy(2 * number + 1, 1, 5), answers=5)
            if number % 3 == 0:
                line.tell("credit", topic="trades")
                seen += [trade[0] for trade in line.hear()["params"]["data"]["trades"]]
        line.tell("credit", topic="trades")
        seen += [trade[0] for trade in line.hear()["params"]["data"]["trades"]]

    trades = [e.seq for e in client.parse() if isinstance(e, Trade)]
    assert [seq for seq in seen if seq > last] == trades
    answer = daemon.call("trades", TradesParams(after_sequence=trades[4]))
    assert [trade.sequence for trade in answer.trades] == trades[5:]


def test_an_unsubscribed_topic_ends_and_another_connection_is_not_concerned(
    daemon: Daemon,
) -> None:
    with Line(daemon) as line, Line(daemon) as other:
        for each in (line, other):
            each.hello().ask("subscribe", topic="status", max_hz=20)
            each.hear()

        assert line.ask("unsubscribe", topic="status")["result"] == {}
        line.tell("credit", topic="status")
        other.tell("credit", topic="status")

        assert line.is_silent(0.2)
        assert other.hear()["params"]["number"] == 2


def test_a_client_that_never_reads_costs_the_others_nothing(daemon: Daemon) -> None:
    with Line(daemon) as deaf, Line(daemon) as other:
        deaf.hello()
        other.hello()
        request = b'{"jsonrpc":"2.0","id":1,"method":"latency","params":{}}\n'
        deaf.socket.settimeout(0.5)
        with pytest.raises(TimeoutError):
            for _ in range(100):
                deaf.say(request * 1000)

        assert other.ask("status")["result"]["pid"] == daemon.pid
        client = daemon.connect()
        client.ask(buy(1, 1, -(10**9)), answers=1)


# --- the operator


def operate(daemon: Daemon, side: str, qty: int, price: int | None, type: str = "limit") -> Any:
    return daemon.call("order", OrderParams(side, qty, price, type))


def test_the_operator_trades_with_clients_and_is_told_all(daemon: Daemon) -> None:
    client = daemon.connect()
    client.ask(sell(1, 3, 40), sell(2, 3, 41), answers=2)

    result = operate(daemon, "buy", 4, 41)

    assert (result.reason, result.filled_lots, result.leaves_lots) == (Reason.FILLED, 4, 0)
    assert [(fill.price_ticks, fill.qty_lots) for fill in result.fills] == [(40, 3), (41, 1)]
    assert not result.resting
    first, done, second = client.receive(3)
    assert isinstance(first, Trade)
    assert (first.taker, first.maker, first.qty) == (result.order_id, 1, 3)
    assert done == Done(1, 0, 1, first.seq + 1)
    assert isinstance(second, Trade)
    assert second.maker == 2
    operate(daemon, "buy", 2, None, "market")
    assert isinstance(client.receive(2)[1], Done)


def test_the_operators_order_rests_and_is_cancelled_by_its_number(daemon: Daemon) -> None:
    rests = operate(daemon, "buy", 5, -77)
    assert rests.resting
    assert (rests.reason, rests.leaves_lots, rests.filled_lots) == (Reason.NONE, 5, 0)

    gone = daemon.call("cancel", CancelParams(rests.order_id))

    assert (gone.reason, gone.leaves_lots) == (Reason.CANCELLED, 5)
    again = daemon.call("cancel", CancelParams(rests.order_id))
    assert again.reason == Reason.UNKNOWN_ORDER


def test_the_operator_cancels_a_clients_order_and_the_client_is_told(daemon: Daemon) -> None:
    client = daemon.connect()
    client.ask(buy(6, 2, -99), answers=1)
    number = daemon.call("status").orders

    result = daemon.call("cancel", CancelParams(number))

    assert result.reason == Reason.OPERATOR_CANCELLED
    (done,) = client.receive(1)
    assert (done.id, done.leaves_qty, done.reason) == (6, 2, 2)


@pytest.mark.parametrize(
    ("type", "side", "qty", "price", "reason"),
    [
        ("ioc", "buy", 1, -(2**62), Reason.EXPIRED),
        ("fok", "buy", 1, -(2**62), Reason.FOK_CANNOT_FILL),
        ("limit", "buy", 0, 1, Reason.ZERO_QUANTITY),
    ],
)
def test_the_operator_learns_why_an_order_did_not_rest(
    daemon: Daemon, type: str, side: str, qty: int, price: int, reason: Reason
) -> None:
    result = operate(daemon, side, qty, price, type)

    assert Reason(result.reason) is reason
    assert result.sentence == reason.sentence
    assert not result.resting


@pytest.mark.parametrize("makers", [100, 3_000])
def test_the_operators_sweep_of_a_deep_book_is_told_whole(daemon: Daemon, makers: int) -> None:
    client = daemon.connect()
    client.send(*[sell(n, 1, 10**7) for n in range(1, makers + 1)])
    client.receive(makers)

    result = operate(daemon, "buy", makers, 10**7)

    assert (result.filled_lots, result.leaves_lots) == (makers, 0)
    assert Reason(result.reason) is Reason.FILLED
    assert not result.resting
    assert len(result.fills) == 100
    assert len(client.receive(2 * makers)) == 2 * makers


def test_operators_orders_at_once_get_their_own_answers(daemon: Daemon) -> None:
    numbers: dict[int, int] = {}

    def run(price: int) -> None:
        for _ in range(20):
            result = operate(daemon, "buy", 1, price)
            assert result.resting
            assert result.order_id not in numbers
            numbers[result.order_id] = price

    threads = [threading.Thread(target=run, args=(-1_000_000 - n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(numbers) == 80
    for order_id in numbers:
        assert daemon.call("cancel", CancelParams(order_id)).reason == Reason.CANCELLED


# --- depth


def test_depth_is_the_book(new_daemon: Callable[..., Daemon]) -> None:
    daemon = new_daemon().start()
    client = daemon.connect()
    client.send_bytes(Orders(random.Random(5)).batch(2_000))
    daemon.settled()
    log = LogView.of(daemon.data_dir)
    bids, asks = log.result.engine.depth_levels()
    for levels in (1, 3, 20, 256):
        depth = daemon.call("depth", DepthParams(levels))

        shown = [(level.price_ticks, level.qty_lots, level.order_count) for level in depth.bids]
        assert shown == bids[:levels]
        shown = [(level.price_ticks, level.qty_lots, level.order_count) for level in depth.asks]
        assert shown == asks[:levels]
        assert (depth.bid_levels, depth.ask_levels) == (len(bids), len(asks))
        assert int(depth.state_digest, 16) == log.result.state_digest


def test_depth_read_in_tight_loops_costs_no_order_and_no_event(
    new_daemon: Callable[..., Daemon],
) -> None:
    daemon = new_daemon(poll="adaptive", command_ring_count=256, event_ring_count=256).start()
    client = daemon.connect()
    session = daemon.session_of(client)
    stop = threading.Event()
    reads = [0] * 5
    problems: list[BaseException] = []

    def read(index: int) -> None:
        try:
            with daemon.admin() as admin:
                while not stop.is_set():
                    depth = admin.call("depth", DepthParams(50))
                    if depth.bids and depth.asks:
                        assert depth.bids[0].price_ticks < depth.asks[0].price_ticks
                    reads[index] += 1
        except BaseException as error:
            problems.append(error)

    readers = [threading.Thread(target=read, args=(index,)) for index in range(len(reads))]
    for reader in readers:
        reader.start()
    try:
        client.queue(Orders(random.Random(6)).batch(15_000))
        pump([client], lambda: not client.outgoing)
        wait_until(lambda: min(reads) > 20)
    finally:
        stop.set()
        for reader in readers:
            reader.join()
    assert problems == []
    client.finish_sending()
    client.read_to_end()

    owed = frames_owed(LogView.of(daemon.data_dir).events)[session]
    assert bytes(client.received) == packed(owed)


def test_shutdown_answers_and_then_stops(new_daemon: Callable[..., Daemon]) -> None:
    daemon = new_daemon().start()
    with Line(daemon) as line, Line(daemon) as watcher:
        watcher.hello().ask("subscribe", topic="status", max_hz=20)
        line.hello()

        assert line.ask("shutdown")["result"] == {}

        assert daemon.wait(5.0) == 0
    assert not daemon.admin_path.exists()


def test_sessions_and_wal_tell_the_truth(new_daemon: Callable[..., Daemon]) -> None:
    daemon = new_daemon().start()
    client = daemon.connect()
    client.ask(buy(1), buy(2), sell(3), buy(1, 0), answers=2 + 4 + 1)
    status = daemon.settled()

    (session,) = daemon.call("sessions").sessions
    wal = daemon.call("wal")

    assert (session.commands, session.rejects, session.state) == (4, 1, "open")
    assert session.peer == "{}:{}".format(*client.local)
    assert session.bytes_in == 160
    assert session.bytes_out == len(client.received)
    assert session.open_orders == 1
    assert wal.durable_seq == wal.accepted_seq == status.wal_seq == 2 + 4
    assert wal.failed == ""
    assert wal.syncs >= 1
