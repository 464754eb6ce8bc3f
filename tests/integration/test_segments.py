"""The log in many small segments: under load, after kill -9, and what shows of it."""

import random
import time
from collections.abc import Callable

import pytest

from bourse.journal import storage
from bourse.journal.replay import replay
from tests.integration.harness import Client, Daemon, LogView, Orders, buy, pump
from tests.integration.test_crash import check_clients, load_until_killed

SEGMENT = 1 << 16
"""The smallest allowed: some hundred records each."""


@pytest.mark.parametrize("durability", ["fsync", "async"])
def test_kills_under_load_across_many_segments_lose_nothing(
    new_daemon: Callable[..., Daemon], durability: str
) -> None:
    daemon = new_daemon(poll="adaptive", durability=durability, wal_segment_bytes=SEGMENT)
    rng = random.Random(5)
    log: LogView | None = None
    rounds = 0
    # On a busy machine a round may not fill a segment.
    while rounds < 3 or (log is not None and log.result.segment_count < 3 and rounds < 12):
        rounds += 1
        status = daemon.start().settled()
        if log is not None:
            assert int(status.state_digest, 16) == log.result.state_digest
        clients: dict[int, tuple[Client, Orders]] = {}
        for _ in range(3):
            client = daemon.connect()
            clients[daemon.session_of(client)] = (client, Orders(rng))
        load_until_killed(daemon, rng, clients, 0.1)
        log = LogView.of(daemon.data_dir)
        check_clients(log, clients)
        for client, _ in clients.values():
            client.close()
    assert log is not None
    assert log.result.segment_count >= 3
    # Each is filled with zeros beforehand; at this size the disk may be behind, and one grows.
    assert {path.stat().st_size >= SEGMENT for path in storage.list_segments(daemon.data_dir)}
    status = daemon.start().settled()
    assert int(status.state_digest, 16) == log.result.state_digest
    assert daemon.stop() == 0
    assert not list((daemon.data_dir / "wal").glob("*.new"))
    last = LogView.of(daemon.data_dir, log)
    assert not last.result.torn_tail


def test_the_console_and_a_replay_follow_the_segments(new_daemon: Callable[..., Daemon]) -> None:
    daemon = new_daemon(wal_segment_bytes=SEGMENT).start()
    client = daemon.connect()
    seen = set()
    for start in range(1, 4000, 500):
        client.ask(*[buy(n) for n in range(start, start + 500)], answers=500)
        wal = daemon.call("wal")
        seen.add(wal.segment_index)
        assert wal.segment_path.endswith(".log")
        assert storage.segment_index_of(daemon.data_dir / wal.segment_path) == wal.segment_index
        assert wal.segment_used_bytes <= wal.segment_size_bytes
        beside = replay(daemon.data_dir)
        assert beside.live
        assert beside.last_wal_seq >= start + 499
    assert len(seen) >= 3
    assert daemon.stop() == 0
    assert replay(daemon.data_dir).resting_orders == 4000


def test_async_syncs_at_its_interval_and_marks_only_when_idle(
    new_daemon: Callable[..., Daemon],
) -> None:
    """A pause longer than the interval is no idleness: no mark is written for it."""
    daemon = new_daemon(durability="async", async_interval_ms=5).start()
    client = daemon.connect()
    client.ask(buy(1), answers=1)
    before = daemon.call("wal")
    for number in range(2, 12):
        client.ask(buy(number), answers=1)
        time.sleep(0.02)
    after = daemon.call("wal")
    assert after.durable_seq == after.accepted_seq, "the interval is over"
    # Each pause has its sync, and nothing is written but the ten batches of a record each.
    used = after.segment_used_bytes - before.segment_used_bytes
    assert 10 * 152 <= used <= 10 * 152 + 64
    assert 10 <= after.syncs - before.syncs <= 12
    pump([client], lambda: daemon.call("wal").segment_used_bytes == used + 64 + before_used(before))
    assert daemon.stop() == 0


def before_used(wal: object) -> int:
    return int(wal.segment_used_bytes)  # type: ignore[attr-defined]
