"""A disk that fails, lies short or is slow: no acknowledgement that the disk does not back."""

import errno
import os
import random
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bourse.domain import CommandKind
from bourse.journal import segment, storage
from tests.integration.disk_shim import DiskShim, compile_shim
from tests.integration.harness import (
    ROUNDS,
    Client,
    Daemon,
    LogView,
    Orders,
    buy,
    packed,
    pump,
    request_key,
)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_shim(tmp_path_factory.mktemp("shim"))


@pytest.fixture
def shim(library: Path, tmp_path: Path) -> Iterator[DiskShim]:
    shim = DiskShim(library, tmp_path / "page")
    yield shim
    shim.close()


def run_until_it_fails(
    daemon: Daemon, seed: int, arm: Callable[[], None]
) -> dict[int, tuple[Client, Orders]]:
    """Trade with windows until the daemon is gone; returns clients by session."""
    rng = random.Random(seed)
    clients: dict[int, tuple[Client, Orders]] = {}
    for _ in range(3):
        client = daemon.connect()
        clients[daemon.session_of(client)] = (client, Orders(rng))
    connections = [client for client, _ in clients.values()]
    arm()

    def feed() -> None:
        for client, source in clients.values():
            if len(client.outgoing) < 1024 and not client.ended:
                client.queue(source.batch(rng.randrange(1, 9)))

    pump(connections, lambda: all(c.ended for c in connections), 15.0, on_pass=feed)
    return clients


def check_recovery(daemon: Daemon, clients: dict[int, tuple[Client, Orders]]) -> None:
    """Without the shim: all that was acknowledged is there, in order, once."""
    daemon.environment.clear()
    # The failure was ours: what it said is no trouble.
    daemon.log_path.unlink()
    status = daemon.start().settled()
    log = LogView.of(daemon.data_dir)
    owed, logged = log.frames(), log.requests()
    for session_id, (client, source) in clients.items():
        assert packed(owed.get(session_id, [])).startswith(bytes(client.received))
        sent = [request_key(request) for request in source.sent]
        found = logged.get(session_id, [])
        assert sent[: len(found)] == found
    assert int(status.state_digest, 16) == log.result.state_digest
    fresh = daemon.connect()
    fresh.ask(buy(1, 1, -(10**6)), answers=1)
    assert daemon.stop() == 0
    assert not LogView.of(daemon.data_dir).result.torn_tail


@pytest.mark.parametrize("calls_later", [1, 2, 3, 8, 30, *range(4, 4 * ROUNDS)])
def test_a_sync_that_fails_ends_the_daemon_and_is_never_tried_again(
    new_daemon: Callable[..., Daemon], shim: DiskShim, calls_later: int
) -> None:
    daemon = new_daemon(poll="adaptive")
    daemon.environment = shim.environment
    daemon.start()

    def arm() -> None:
        shim["sync_errno"] = errno.EIO
        shim["sync_fail_at"] = shim["syncs"] + calls_later

    clients = run_until_it_fails(daemon, calls_later, arm)

    assert daemon.wait(1.0) == 74
    assert shim["failed"] == 1
    assert shim["syncs_after_error"] == 0
    assert shim["writes_after_error"] == 0
    (line,) = daemon.log_lines("critical")
    assert "the disk failed" in line
    assert not daemon.log_lines("Traceback")
    # What left the daemon had been synced before the failure.
    acknowledged = max((c.parse()[-1].seq for c, _ in clients.values() if c.parse()), default=0)
    assert acknowledged <= events_durable(daemon.data_dir, shim["durable_end"])
    check_recovery(daemon, clients)


def events_durable(data_dir: Path, durable_bytes: int) -> int:
    """The last event of the commands whose records end within `durable_bytes`."""
    log = LogView.of(data_dir)
    # What is durable lies in the last segment that has records.
    path = storage.list_segments(data_dir)[-1]
    records = [r for r in segment.records(path) if r.offset_bytes + 88 <= durable_bytes]
    if not records:
        return 0
    last, seq = records[-1].wal_seq, 0
    for event in log.events:
        if event.kind == 16 and event.sequence > last:
            break
        seq = event.sequence if event.kind < 16 else seq
    return seq


@pytest.mark.parametrize(
    ("durability", "error", "taken"),
    [
        ("fsync", errno.ENOSPC, -1),
        ("fsync", errno.EIO, -1),
        ("fsync", errno.ENOSPC, 100),
        ("fsync", errno.EFBIG, 64),
        ("async", errno.ENOSPC, 100),
        ("async", errno.EIO, 8),
    ],
)
def test_a_write_that_fails_ends_the_daemon_and_its_bytes_are_not_built_upon(
    new_daemon: Callable[..., Daemon], shim: DiskShim, durability: str, error: int, taken: int
) -> None:
    daemon = new_daemon(poll="adaptive", durability=durability)
    daemon.environment = shim.environment
    daemon.start()

    def arm() -> None:
        shim["write_errno"] = error
        shim["write_bytes"] = taken
        shim["write_fail_at"] = shim["writes"] + 4

    clients = run_until_it_fails(daemon, error, arm)

    assert daemon.wait(1.0) == 74
    assert shim["failed"] == 1
    assert shim["syncs_after_error"] == 0
    assert shim["writes_after_error"] == 0
    assert len(daemon.log_lines("critical")) == 1
    check_recovery(daemon, clients)


@pytest.mark.parametrize("taken", [1, 64, 70])
def test_a_short_write_is_finished(
    new_daemon: Callable[..., Daemon], shim: DiskShim, taken: int
) -> None:
    daemon = new_daemon()
    daemon.environment = shim.environment
    daemon.start()
    client = daemon.connect()
    daemon.settled()
    shim["write_bytes"] = taken
    shim["write_fail_at"] = shim["writes"] + 1

    answers = client.ask(*[buy(n) for n in range(1, 20)], answers=19)

    assert [answer.id for answer in answers] == list(range(1, 20))
    daemon.kill()
    assert LogView.of(daemon.data_dir).result.resting_orders == 19


def test_a_full_disk_at_the_end_of_the_preallocated_part_ends_the_daemon(
    new_daemon: Callable[..., Daemon], shim: DiskShim
) -> None:
    # Nothing is preallocated: the first batch has to extend the file.
    daemon = new_daemon(wal_segment_bytes=1 << 16)
    daemon.environment = shim.environment
    shim["write_errno"] = errno.ENOSPC
    shim["write_bytes"] = 4096
    shim["write_fail_at"] = 1
    daemon.spawn()

    assert daemon.wait(5.0) == 74

    assert len(daemon.log_lines("critical", "No space left")) == 1
    check_recovery(daemon, {})


@pytest.mark.parametrize(("durability", "calls_later"), [("fsync", 1), ("async", 1), ("async", 2)])
def test_a_sync_that_fails_while_the_daemon_stops_is_not_a_clean_end(
    new_daemon: Callable[..., Daemon], shim: DiskShim, durability: str, calls_later: int
) -> None:
    # The interval is long: only the stop itself has to sync, under async what was written and then
    # the mark, after which nothing is left to be released.
    daemon = new_daemon(durability=durability, async_interval_ms=10_000)
    daemon.environment = shim.environment
    daemon.start()
    client = daemon.connect()
    client.ask(buy(1), answers=1)
    shim["sync_errno"] = errno.EIO
    shim["sync_fail_at"] = shim["syncs"] + calls_later

    code = daemon.stop()

    assert code == 74, daemon.log()
    assert len(daemon.log_lines("critical")) == 1
    assert not daemon.log_lines("stopped at")
    daemon.log_path.unlink()


def test_no_event_leaves_before_the_sync_of_its_command_has_returned(
    new_daemon: Callable[..., Daemon], shim: DiskShim
) -> None:
    """Each piece that arrives is compared with what had been synced by the time it was read."""
    daemon = new_daemon(poll="adaptive")
    daemon.environment = shim.environment
    daemon.start()
    client = daemon.connect()
    session = daemon.session_of(client)
    shim["sync_delay_us"] = 200_000
    seen: list[tuple[int, int]] = []  # bytes received so far, bytes durable then
    for number in range(1, 31):
        client.queue(buy(number, 1, number).pack())
        until = time.monotonic() + 0.03

        def done(until: float = until) -> bool:
            if not seen or seen[-1][0] != len(client.received):
                seen.append((len(client.received), shim["durable_end"]))
            return time.monotonic() > until

        pump([client], done)
    pump([client], lambda: len(client.received) >= 31 * 30, on_pass=lambda: done(0.0))
    seen.append((len(client.received), shim["durable_end"]))
    shim["sync_delay_us"] = 0
    assert daemon.stop() == 0

    (path,) = storage.list_segments(daemon.data_dir)
    ends = []
    for record in segment.records(path):
        kind, session_id = struct.unpack_from("<B7xI", record.command)
        if kind == CommandKind.NEW_ORDER and session_id == session:
            ends.append(record.offset_bytes + 88)
    assert len(ends) == 30
    assert len({durable for _, durable in seen}) >= 3, "several syncs, each seen"
    for received, durable in seen:
        orders = received // 31
        assert orders == 0 or ends[orders - 1] <= durable


def test_a_slow_disk_makes_batches_larger_and_acknowledges_nothing_early(
    new_daemon: Callable[..., Daemon], shim: DiskShim
) -> None:
    daemon = new_daemon(poll="block", journal_ring_count=64)
    daemon.environment = shim.environment
    daemon.start()
    client = daemon.connect()
    client.ask(buy(1), answers=1)
    shim["sync_delay_us"] = 50_000
    syncs = shim["syncs"]

    answers = client.ask(*[buy(n) for n in range(2, 402)], answers=400)

    assert len(answers) == 400
    assert 400 / 64 <= shim["syncs"] - syncs <= 40
    shim["sync_delay_us"] = 0
    assert daemon.stop() == 0


@pytest.mark.parametrize("how", ["removed", "shortened"])
def test_a_log_that_is_taken_away_ends_the_daemon(
    new_daemon: Callable[..., Daemon], how: str
) -> None:
    daemon = new_daemon(durability="fsync").start()
    client = daemon.connect()
    client.ask(buy(1, 3, 10), answers=1)
    log = next((daemon.data_dir / "wal").glob("wal-*.log"))

    if how == "removed":
        log.unlink()
    else:
        os.truncate(log, 4096)

    assert daemon.wait(5.0) == 74
    assert len(daemon.log_lines(f"was {how} by somebody")) == 1
    daemon.log_path.unlink()  # the fault was ours
