"""SIGTERM, SIGINT, the admin's shutdown: drain, commit, tell, exit 0."""

import random
import signal
import time
from collections.abc import Callable

import pytest

from bourse.admin.messages import Empty, ErrorCode
from bourse.errors import AdminError
from tests.integration.harness import (
    Client,
    Daemon,
    LogView,
    Orders,
    buy,
    packed,
    pump,
    request_key,
    wait_until,
)


def under_load(
    daemon: Daemon, seconds: float, stop: Callable[[], object], seed: int, client_count: int = 4
) -> dict[int, tuple[Client, Orders]]:
    """Trade, call `stop` meanwhile, and read until every connection has ended."""
    rng = random.Random(seed)
    clients: dict[int, tuple[Client, Orders]] = {}
    for _ in range(client_count):
        client = daemon.connect()
        clients[daemon.session_of(client)] = (client, Orders(rng))
    connections = [client for client, _ in clients.values()]
    stop_at = time.monotonic() + seconds
    stopped = False

    def feed() -> None:
        nonlocal stopped
        for client, source in clients.values():
            if len(client.outgoing) < 2048 and not client.ended:
                client.queue(source.batch(rng.randrange(1, 25)))
        if not stopped and time.monotonic() >= stop_at:
            stopped = True
            stop()

    pump(connections, lambda: all(client.ended for client in connections), on_pass=feed)
    return clients


@pytest.mark.parametrize("durability", ["fsync", "async"])
@pytest.mark.parametrize("way", ["SIGTERM", "SIGINT", "shutdown"])
def test_a_stop_under_load_answers_what_it_has_logged_and_exits_0(
    new_daemon: Callable[..., Daemon], way: str, durability: str
) -> None:
    daemon = new_daemon(poll="adaptive", durability=durability).start()

    def stop() -> None:
        if way == "shutdown":
            daemon.call("shutdown", Empty())
        else:
            daemon.send_signal(getattr(signal, way))

    clients = under_load(daemon, 0.15, stop, seed=7)
    assert daemon.wait(10) == 0

    log = LogView.of(daemon.data_dir)
    assert not log.result.torn_tail
    assert log.result.end_found == ""
    owed, logged = log.frames(), log.requests()
    for session_id, (client, source) in clients.items():
        sent = [request_key(request) for request in source.sent]
        assert sent[: len(logged[session_id])] == logged[session_id]
        # It reads all the time: nothing of what it is owed may be lost.
        assert bytes(client.received) == packed(owed[session_id])
    assert not daemon.admin_path.exists()


def test_a_stop_delivers_what_is_owed_to_a_client_that_is_behind_with_reading(
    new_daemon: Callable[..., Daemon],
) -> None:
    daemon = new_daemon(poll="adaptive").start()
    client = daemon.connect(receive_buffer=4096)
    session = daemon.session_of(client)
    client.queue(Orders(random.Random(3)).batch(3_000))
    client.reads = False
    pump([client], lambda: not client.outgoing)
    wait_until(lambda: daemon.call("status").commands == 3_000)
    # More than the daemon will ever take is on its way as it stops.
    client.queue(Orders(random.Random(4)).batch(200_000))
    client.write_some()
    daemon.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    client.reads = True

    pump([client], lambda: bool(client.ended), 15.0)

    assert daemon.wait(15) == 0
    owed = LogView.of(daemon.data_dir).frames()[session]
    assert bytes(client.received) == packed(owed)


def test_a_stop_without_clients_leaves_a_clean_log_and_no_socket(
    new_daemon: Callable[..., Daemon],
) -> None:
    daemon = new_daemon().start()

    assert daemon.stop() == 0

    log = LogView.of(daemon.data_dir)
    assert (log.result.last_wal_seq, log.result.torn_tail) == (1, False)
    assert not daemon.admin_path.exists()


def test_a_terminal_that_is_closed_stops_the_daemon_in_order(
    new_daemon: Callable[..., Daemon],
) -> None:
    daemon = new_daemon().start()

    assert daemon.stop(signal.SIGHUP) == 0

    assert not LogView.of(daemon.data_dir).result.torn_tail
    assert not daemon.admin_path.exists()


def test_a_daemon_under_nohup_outlives_its_terminal(new_daemon: Callable[..., Daemon]) -> None:
    was = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        daemon = new_daemon().start()
    finally:
        signal.signal(signal.SIGHUP, was)

    daemon.send_signal(signal.SIGHUP)

    assert daemon.connect().ask(buy(1), answers=1)
    assert daemon.stop() == 0


@pytest.mark.parametrize("poll", ["block", "adaptive", "busy"])
def test_an_idle_daemon_stops_soon(new_daemon: Callable[..., Daemon], poll: str) -> None:
    daemon = new_daemon(poll=poll).start()
    for _ in range(10):
        daemon.connect()
    # Asleep: nothing but the signal wakes it.
    time.sleep(0.3)
    started = time.monotonic()

    assert daemon.stop() == 0

    # Clients that do not close their side are given a second.
    assert time.monotonic() - started < 4.0


def is_shutting_down(daemon: Daemon) -> bool:
    try:
        daemon.call("status", timeout=2.0)
    except AdminError as error:
        assert error.code == ErrorCode.SHUTTING_DOWN
        return True
    return False


def test_a_second_signal_does_not_wait_for_a_client_that_does_not_read(
    new_daemon: Callable[..., Daemon],
) -> None:
    daemon = new_daemon(poll="adaptive", shutdown_seconds=60.0, slow_reader_seconds=120.0).start()
    client = daemon.connect(receive_buffer=4096)
    client.reads = False
    client.queue(b"".join(buy(n, 1, n).pack() for n in range(300_000)))
    pump(
        [client],
        lambda: any(s.queued_bytes > 0 for s in daemon.call("sessions").sessions),
    )
    daemon.send_signal(signal.SIGTERM)
    # It gives a reader time, and says so to whoever asks.
    wait_until(lambda: is_shutting_down(daemon))
    started = time.monotonic()

    code = daemon.stop()

    assert code == 0
    assert time.monotonic() - started < 3.0
    assert daemon.log_lines("were not taken by them")
    assert not LogView.of(daemon.data_dir).result.torn_tail


def test_a_stop_waits_no_longer_than_shutdown_seconds(new_daemon: Callable[..., Daemon]) -> None:
    daemon = new_daemon(poll="adaptive", shutdown_seconds=1.0).start()
    client = daemon.connect(receive_buffer=4096)
    client.reads = False
    client.queue(b"".join(buy(n, 1, n).pack() for n in range(300_000)))
    pump(
        [client],
        lambda: any(s.queued_bytes > 0 for s in daemon.call("sessions").sessions),
    )
    started = time.monotonic()

    assert daemon.stop() == 0

    assert 0.9 < time.monotonic() - started < 5.0


def test_a_stopped_daemons_directory_starts_again_where_it_was(
    new_daemon: Callable[..., Daemon],
) -> None:
    daemon = new_daemon(poll="adaptive").start()
    under_load(daemon, 0.05, lambda: daemon.send_signal(signal.SIGTERM), seed=2)
    assert daemon.wait() == 0
    log = LogView.of(daemon.data_dir)

    status = daemon.start().settled()

    assert status.recovered_wal_seq == log.result.last_wal_seq
    assert int(status.event_digest, 16) == log.result.event_digest
    assert int(status.state_digest, 16) == log.result.state_digest
    assert daemon.stop() == 0
