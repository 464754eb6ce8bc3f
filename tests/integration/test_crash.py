"""kill -9: at random moments under load, during start-up, again and again on one data directory."""

import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bourse.domain import CommandKind
from bourse.journal.replay import replay
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
from tests.tally import tally

KILLS = {"fsync": 20, "async": 4}
CLIENTS = 4
LOAD_SECONDS_MAX = 0.08
"""The kill comes at a random moment within so much load."""


def load_until_killed(
    daemon: Daemon, rng: random.Random, clients: dict[int, tuple[Client, Orders]], seconds: float
) -> None:
    """Trade at full speed, kill the daemon at the given moment, then read what was on its way."""
    kill_at = time.monotonic() + seconds

    def feed() -> None:
        for client, source in clients.values():
            if len(client.outgoing) < 2048:
                client.queue(source.batch(rng.randrange(1, 25)))
        if daemon.is_running and time.monotonic() >= kill_at:
            daemon.kill()
            tally("kill -9 at a random moment")
            for client, _ in clients.values():
                client.outgoing.clear()

    connections = [client for client, _ in clients.values()]
    pump(connections, lambda: not daemon.is_running, on_pass=feed)
    pump(connections, lambda: all(client.ended for client in connections))


def check_clients(log: LogView, clients: dict[int, tuple[Client, Orders]]) -> None:
    """All that clients saw is in the log, in order, once; all that is in the log was sent, once."""
    owed, logged = log.frames(), log.requests()
    for session_id, (client, source) in clients.items():
        received = bytes(client.received)
        assert packed(owed.get(session_id, [])).startswith(received), session_id
        sent = [request_key(request) for request in source.sent]
        found = logged.get(session_id, [])
        assert sent[: len(found)] == found, session_id


@pytest.mark.parametrize("durability", KILLS)
def test_kill_at_any_moment_under_load_loses_and_repeats_nothing(
    new_daemon: Callable[..., Daemon], durability: str
) -> None:
    """What policy async has acknowledged is with the kernel, which outlives the process."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    daemon = new_daemon(poll="adaptive", durability=durability, journal_ring_count=1024)
    rng = random.Random(seed)
    acknowledged_bytes = 0
    log: LogView | None = None
    for _ in range(KILLS[durability] * ROUNDS):
        daemon.start()
        clients: dict[int, tuple[Client, Orders]] = {}
        for _ in range(CLIENTS):
            client = daemon.connect()
            clients[daemon.session_of(client)] = (client, Orders(rng))
        load_until_killed(daemon, rng, clients, rng.uniform(0.001, LOAD_SECONDS_MAX))

        log = LogView.of(daemon.data_dir, since=log)

        check_clients(log, clients)
        acknowledged_bytes += sum(len(client.received) for client, _ in clients.values())
    assert acknowledged_bytes > 0

    daemon.start()
    status = daemon.settled()
    log = LogView.of(daemon.data_dir, since=log)
    assert int(status.state_digest, 16) == log.result.state_digest
    assert int(status.event_digest, 16) == log.result.event_digest


def test_a_killed_daemons_log_means_the_same_to_the_reference_model(
    new_daemon: Callable[..., Daemon],
) -> None:
    model_module = pytest.importorskip("tests.matching.model")
    rng = random.Random(9)
    daemon = new_daemon().start()
    client = daemon.connect()
    clients = {daemon.session_of(client): (client, Orders(rng))}
    load_until_killed(daemon, rng, clients, 0.03)
    status = daemon.start().settled()
    log = LogView.of(daemon.data_dir)
    model = model_module.Model()

    events = [event for command in log.commands[:6000] for event in model.execute(command)]

    assert events == log.events[: len(events)]
    if len(log.commands) <= 6000:
        assert model.state_digest() == int(status.state_digest, 16)
        assert model.event_digest == int(status.event_digest, 16)


def test_kill_during_start_up_and_recovery_changes_nothing(
    new_daemon: Callable[..., Daemon],
) -> None:
    rng = random.Random(4)
    daemon = new_daemon(poll="adaptive").start()
    client = daemon.connect()
    clients = {daemon.session_of(client): (client, Orders(rng))}
    load_until_killed(daemon, rng, clients, 0.1)
    before = LogView.of(daemon.data_dir)
    for _ in range(6 * ROUNDS):
        daemon.spawn()
        time.sleep(rng.uniform(0.1, 0.45))
        daemon.kill()

    daemon.start()
    daemon.settled()

    log = LogView.of(daemon.data_dir)
    assert log.event_bytes.startswith(before.event_bytes)
    ends = [c.session_id for c in log.commands if c.kind == CommandKind.SESSION_END]
    assert len(ends) == len(set(ends))
    check_clients(log, clients)


def test_kill_right_after_the_first_start_leaves_a_directory_that_starts(
    new_daemon: Callable[..., Daemon],
) -> None:
    rng = random.Random(5)
    for _ in range(3 * ROUNDS):
        daemon = new_daemon()
        daemon.spawn()
        time.sleep(rng.uniform(0.15, 0.4))
        daemon.kill()

        daemon.start()
        daemon.settled()

        assert replay(daemon.data_dir).last_wal_seq == 1
        assert daemon.stop() == 0


def test_a_torn_tail_is_cut_once_reported_and_traded_over(
    new_daemon: Callable[..., Daemon],
) -> None:
    rng = random.Random(6)
    daemon = new_daemon().start()
    client = daemon.connect()
    source = Orders(rng)
    client.send_bytes(source.batch(200))
    daemon.settled()
    daemon.kill()
    segment_path = Path(daemon.data_dir) / "wal" / "wal-00000001-00000000000000000001.log"
    data = bytearray(segment_path.read_bytes())
    end = max(index for index in range(len(data)) if data[index])
    # A write that reached the disk in part: the start of a record where the next one is due.
    data[end + 64 : end + 80] = rng.randbytes(16)
    segment_path.write_bytes(data)

    daemon.start()

    assert daemon.log_lines("torn tail"), daemon.log()
    assert any("torn tail" in line for line in daemon.banner["report"])
    assert list(segment_path.parent.glob("*.torn"))
    fresh = daemon.connect()
    assert len(fresh.ask(*[Orders(random.Random(1)).next()], answers=1)) == 1
    assert daemon.stop() == 0
    daemon.start()
    assert not daemon.log_lines("torn tail")
