"""The benchmark's compiled client: framing, clocks and checks, against a small server."""

import importlib.util
import socket
import threading
import time
from pathlib import Path
from types import ModuleType

import pytest

from bourse.admin.checks import Check
from bourse.bench.client import EVENTS_PER_PAIR, FINISHED, Client
from bourse.bench.results import native_int64
from bourse.bench.run import connect, drive, event_checks
from bourse.errors import ProtocolError, UnavailableError


def load_server() -> ModuleType:
    path = Path(__file__).with_name("matching_server.py")
    spec = importlib.util.spec_from_file_location("matching_server", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


server_module = load_server()
matching_server = server_module.matching_server


def failed(checks: list[Check]) -> set[str]:
    return {check.name for check in checks if not check.ok}


def trade_pairs(
    address: tuple[str, int], pairs: int, busy: bool = False, warmup: int = 0
) -> Client:
    with connect(address) as connection:
        client = Client(connection.fileno(), 2 * pairs, warmup)
        drive(lambda: client.round_trips(pairs, busy), client)
        return client


def burst(address: tuple[str, int], orders: int) -> Client:
    with connect(address) as connection:
        client = Client(connection.fileno(), orders)
        writer = threading.Thread(target=client.send_all)
        writer.start()
        try:
            drive(lambda: client.drain(False), client)
        finally:
            writer.join()
        return client


@pytest.mark.parametrize("busy", [False, True])
def test_round_trips_are_timed_and_verified(busy: bool) -> None:
    with matching_server() as server:
        client = trade_pairs(server.address, 50, busy, warmup=10)

    latencies_ns = native_int64(client.latencies_ns())
    assert len(latencies_ns) == 40
    assert all(0 < value < 10**10 for value in latencies_ns)
    counts = client.counts()
    assert counts["started_ns"] < counts["finished_ns"]
    assert not failed(event_checks(counts, 50, is_private=True))


@pytest.mark.parametrize("piece_bytes", [1, 7, 31, 32, 33, 100])
def test_frames_may_arrive_in_pieces_of_any_size(piece_bytes: int) -> None:
    with matching_server(piece_bytes=piece_bytes) as server:
        client = burst(server.address, 20)

    assert not failed(event_checks(client.counts(), 10, is_private=True))


def test_a_burst_is_counted_to_the_last_event() -> None:
    with matching_server() as server:
        client = burst(server.address, 20_000)

    counts = client.counts()
    assert counts["events"] == 10_000 * EVENTS_PER_PAIR
    assert counts["last_sequence"] == 50_000
    assert not failed(event_checks(counts, 10_000, is_private=True))


def spoil_order(number_wanted: int, change):  # type: ignore[no-untyped-def]
    return lambda number, frames: change(frames) if number == number_wanted else frames


def replaced(index: int, frame: bytes):  # type: ignore[no-untyped-def]
    return lambda frames: [*frames[:index], frame, *frames[index + 1 :]]


@pytest.mark.parametrize(
    ("change", "names"),
    [
        # Order 4 is the second buy: its events are numbers 7 to 10.
        (
            replaced(0, server_module.accepted(4, 1, 8)),
            {"sequence_gapless"},
        ),
        (replaced(0, server_module.accepted(5, 1, 7)), {"events_exact"}),
        (replaced(0, server_module.accepted(4, 2, 7)), {"events_exact"}),
        (replaced(1, server_module.trade(4, 3, 101, 1, 8)), {"prices_right"}),
        (replaced(1, server_module.trade(4, 3, 100, 2, 8)), {"events_exact", "bought_equals_sold"}),
        (replaced(1, server_module.trade(4, 6, 100, 1, 8)), {"events_exact", "bought_equals_sold"}),
        (replaced(2, server_module.done(3, 1, 1, 9)), {"leaves_zero"}),
        (
            replaced(2, server_module.done(3, 0, 2, 9)),
            {"events_exact", "no_reject", "orders_filled"},
        ),
        (lambda frames: [frames[0], frames[2], frames[1], frames[3]], {"events_exact"}),
        (
            lambda frames: [frames[0], *frames[2:]],
            {"events_expected", "sequence_gapless", "bought_equals_sold"},
        ),
        (lambda frames: [frames[0], *frames], {"events_expected", "sequence_gapless"}),
    ],
)
def test_every_wrong_event_fails_its_check(change, names: set[str]) -> None:  # type: ignore[no-untyped-def]
    with matching_server(spoil_order(4, change)) as server:
        client = trade_pairs(server.address, 5)

    assert names <= failed(event_checks(client.counts(), 5, is_private=True))


def test_gaps_are_allowed_where_others_trade_too() -> None:
    def skip_numbers(number: int, frames: list[bytes]) -> list[bytes]:
        return [
            frame[:-8] + (int.from_bytes(frame[-8:], "little") * 3).to_bytes(8, "little")
            for frame in frames
        ]

    with matching_server(skip_numbers) as server:
        client = trade_pairs(server.address, 5)

    assert not failed(event_checks(client.counts(), 5, is_private=False))
    assert failed(event_checks(client.counts(), 5, is_private=True)) == {"sequence_gapless"}


@pytest.mark.parametrize(
    "frame",
    [
        b"\x1b\0\0\0\x02\x10\x01" + bytes(24),  # version 2
        b"\x1b\0\0\0\x01\x11\x01" + bytes(24),  # another type
        b"\x1b\0\0\0\x01\x10\x04" + bytes(24),  # another execution
        b"\x1c\0\0\0\x01\x10\x01" + bytes(25),  # Accepted that is too long
        b"\xff\xff\xff\xff\x01\x10\x01" + bytes(24),  # 4 GiB
        b"\0\0\0\0\0\0\0",
    ],
)
def test_a_frame_of_no_known_kind_ends_the_run(frame: bytes) -> None:
    with (
        matching_server(spoil_order(4, lambda frames: [frame, *frames])) as server,
        pytest.raises(ProtocolError, match="a frame that version 1 does not know, after 6 events"),
    ):
        trade_pairs(server.address, 5)


def test_a_daemon_that_hangs_up_is_said_to_have_done_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            connection.recv(40)
            connection.close()

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(ProtocolError, match="closed the connection after 0 events"):
            trade_pairs(listener.getsockname(), 5)
        thread.join()


def test_silence_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bourse.bench.run.SILENCE_SECONDS_MAX", 0.5)
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        pytest.raises(UnavailableError, match="no event for"),
    ):
        trade_pairs(listener.getsockname(), 5)


def test_nobody_at_the_address_is_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
    with pytest.raises(UnavailableError, match="bourse daemon start"):
        connect(address)


@pytest.mark.parametrize("order_count", [0, -2, 3])
def test_an_odd_number_of_orders_is_refused(order_count: int) -> None:
    with pytest.raises(ValueError, match="even number"):
        Client(0, order_count)


def test_the_client_is_not_the_bottleneck() -> None:
    """Drain events that are there already: recv, framing, verifying are under 100 ns a frame."""
    pairs = 1_000
    frames = []
    for pair in range(pairs):
        sell, buy, first = 2 * pair + 1, 2 * pair + 2, 5 * pair + 1
        frames += [
            server_module.accepted(sell, 1, first),
            server_module.accepted(buy, 1, first + 1),
            server_module.trade(buy, sell, 100, 1, first + 2),
            server_module.done(sell, 0, 1, first + 3),
            server_module.done(buy, 0, 1, first + 4),
        ]
    data = b"".join(frames)
    best_ns = float("inf")
    for _ in range(20):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
            theirs.sendall(data)
            client = Client(ours.fileno(), 2 * pairs)
            start_ns = time.perf_counter_ns()
            status = client.drain(False)
            best_ns = min(best_ns, time.perf_counter_ns() - start_ns)
            assert status == FINISHED
            assert not failed(event_checks(client.counts(), pairs, is_private=True))

    print(f"{best_ns / len(frames):.1f} ns a frame")
    # Well under 100 where nothing else runs; the limit leaves room for a busy machine.
    assert best_ns / len(frames) < 300
