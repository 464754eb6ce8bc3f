"""Snapshots taken by command from a real daemon, and recovery from them."""

import os
import random
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bourse.errors import AdminError, BourseError
from bourse.journal.recovery import recover
from bourse.journal.replay import replay
from tests.integration.harness import (
    ROUNDS,
    Client,
    Daemon,
    LogView,
    Orders,
    buy,
    packed,
    pump,
    sell,
)


def same_after_recovery(data_dir: Path, base: Path) -> None:
    """Recover with the snapshots and without them: the same engine, to the last order."""
    with_snapshots, without = base / "with", base / "without"
    shutil.copytree(data_dir, with_snapshots)
    shutil.copytree(data_dir, without)
    shutil.rmtree(without / "snapshots")

    first = recover(with_snapshots)
    second = recover(without)

    assert first.snapshot_path is not None
    assert not first.snapshots_skipped
    assert second.snapshot_path is None
    assert first.records_replayed < second.records_replayed
    one, two = first.engine, second.engine
    one.check()
    assert one.state_bytes() == two.state_bytes()
    assert sorted_records(one.orders()) == sorted_records(two.orders())
    assert one.depth_levels() == two.depth_levels()
    assert one.sessions() == two.sessions()
    assert one.instruments() == two.instruments()
    # Both go on in the same way.
    shutil.rmtree(with_snapshots)
    shutil.rmtree(without)


def sorted_records(data: bytes) -> list[bytes]:
    return sorted(data[at : at + 64] for at in range(0, len(data), 64))


def load(daemon: Daemon, seconds: float, seed: int, during: Callable[[], None]) -> list[Client]:
    """Trade while `during` runs in a thread of its own."""
    rng = random.Random(seed)
    clients = [daemon.connect() for _ in range(3)]
    sources = [Orders(rng) for _ in clients]
    failures: list[BaseException] = []

    def run() -> None:
        try:
            during()
        except BaseException as error:
            failures.append(error)

    helper = threading.Thread(target=run)
    helper.start()
    until = time.monotonic() + seconds

    def feed() -> None:
        for client, source in zip(clients, sources, strict=True):
            if len(client.outgoing) < 2048 and time.monotonic() < until:
                client.queue(source.batch(rng.randrange(1, 20)))

    pump(
        clients,
        lambda: (
            time.monotonic() > until
            and not helper.is_alive()
            and not any(client.outgoing for client in clients)
        ),
        on_pass=feed,
    )
    helper.join()
    if failures:
        raise failures[0]
    return clients


@pytest.mark.parametrize("durability", ["fsync", "async"])
def test_snapshots_under_load_recover_to_the_same_state_as_the_whole_log(
    new_daemon: Callable[..., Daemon], disk_path: Path, durability: str
) -> None:
    daemon = new_daemon(poll="adaptive", durability=durability, snapshots_kept=5).start()
    taken = []

    def take() -> None:
        for _ in range(5):
            time.sleep(0.05)
            result = daemon.call("snapshot")
            # Never ahead of what is on disk.
            assert daemon.call("wal").durable_seq >= result.wal_seq
            taken.append(result)

    load(daemon, 0.5, 1, take)
    status = daemon.settled()
    assert daemon.stop() == 0

    assert [result.wal_seq for result in taken] == sorted({result.wal_seq for result in taken})
    same_after_recovery(daemon.data_dir, disk_path)
    log = LogView.of(daemon.data_dir)
    # The replay compared its digests with those of each snapshot on the way.
    assert log.result.snapshots_compared == 5
    assert log.result.snapshots_skipped == ()
    assert int(status.state_digest, 16) == log.result.state_digest
    daemon.start()
    assert daemon.log_lines("restored")
    assert daemon.settled().state_digest == status.state_digest
    assert daemon.settled().event_digest == status.event_digest


def test_a_snapshot_of_fifty_thousand_orders_is_whole(
    new_daemon: Callable[..., Daemon], disk_path: Path
) -> None:
    daemon = new_daemon(poll="adaptive", wal_segment_bytes=8 << 20).start()
    client = daemon.connect()
    orders = [buy(n, 1 + n % 7, -(n % 5000)) for n in range(1, 25_001)]
    orders += [sell(25_000 + n, 1 + n % 7, 1 + n % 5000) for n in range(1, 25_001)]
    random.Random(1).shuffle(orders)
    client.queue(packed(orders))  # type: ignore[arg-type]
    pump([client], lambda: len(client.received) >= 31 * 50_000)

    result = daemon.call("snapshot")

    assert result.live_orders == 50_000
    client.ask(buy(60_001, 10, 50), answers=1 + 2)
    status = daemon.settled()
    daemon.kill()
    same_after_recovery(daemon.data_dir, disk_path)
    daemon.start()
    assert daemon.settled().state_digest == status.state_digest
    assert daemon.call("wal").snapshots[0].wal_seq == result.wal_seq
    # Queue order survives: the oldest order at the best price trades first.
    fresh = daemon.connect()
    best = daemon.call("depth").asks[0]
    answers = fresh.ask(buy(1, 1, best.price_ticks), answers=2)
    assert answers[1].price == best.price_ticks
    assert daemon.stop() == 0


def test_a_kill_around_a_snapshot_leaves_the_old_or_the_new_one(
    new_daemon: Callable[..., Daemon], disk_path: Path
) -> None:
    rng = random.Random(8)
    daemon = new_daemon(poll="adaptive")
    for number in range(4 * ROUNDS):
        daemon.start()

        def take(daemon: Daemon = daemon) -> None:
            time.sleep(0.03)
            killer = threading.Timer(rng.uniform(0.0, 0.03), daemon.kill)
            killer.start()
            try:
                daemon.call("snapshot")
            except BourseError:
                pass
            finally:
                killer.join()

        rng_clients = load_ignoring_end(daemon, number, take)
        log = LogView.of(daemon.data_dir)
        assert log.result.snapshots_skipped == ()
        del rng_clients
    for_sure = daemon.start().call("snapshot")
    assert for_sure.bytes > 0
    assert daemon.stop() == 0
    same_after_recovery(daemon.data_dir, disk_path)
    assert not list((daemon.data_dir / "snapshots").glob("*.new"))


def load_ignoring_end(daemon: Daemon, seed: int, during: Callable[[], None]) -> list[Client]:
    rng = random.Random(seed)
    client = daemon.connect()
    source = Orders(rng)
    helper = threading.Thread(target=during)
    helper.start()

    def feed() -> None:
        if len(client.outgoing) < 2048 and not client.ended:
            client.queue(source.batch(20))

    pump([client], lambda: bool(client.ended) and not helper.is_alive(), on_pass=feed)
    helper.join()
    return [client]


def test_a_damaged_snapshot_is_skipped_loudly_and_the_log_alone_suffices(
    new_daemon: Callable[..., Daemon],
) -> None:
    daemon = new_daemon().start()
    client = daemon.connect()
    client.ask(buy(1), buy(2), answers=2)
    older = daemon.call("snapshot")
    client.ask(buy(3), answers=1)
    newer = daemon.call("snapshot")
    status = daemon.settled()
    daemon.kill()
    data = bytearray(Path(newer.path).read_bytes())
    data[len(data) // 2] ^= 4
    Path(newer.path).write_bytes(data)

    daemon.start()

    assert daemon.log_lines("skipped", newer.path)
    assert daemon.log_lines("restored", older.path)
    assert daemon.settled().state_digest == status.state_digest


def test_two_snapshots_at_once_one_is_told_to_wait(new_daemon: Callable[..., Daemon]) -> None:
    daemon = new_daemon(poll="adaptive", durability="async", async_interval_ms=500).start()
    client = daemon.connect()
    client.send_bytes(b"".join(buy(n, 1, n).pack() for n in range(20_000)))
    outcomes: list[str] = []

    def take() -> None:
        try:
            outcomes.append(f"record {daemon.call('snapshot').wal_seq}")
        except AdminError as error:
            outcomes.append(str(error))

    takers = [threading.Thread(target=take) for _ in range(3)]
    for taker in takers:
        taker.start()
    for taker in takers:
        taker.join()

    assert sum(outcome.startswith("record") for outcome in outcomes) >= 1
    assert all(o.startswith(("record", "a snapshot is being taken")) for o in outcomes)
    assert daemon.call("snapshot").wal_seq > 0


def test_policy_memory_takes_no_snapshot_and_says_why(new_daemon: Callable[..., Daemon]) -> None:
    daemon = new_daemon(durability="memory").start()

    with pytest.raises(AdminError, match="policy memory"):
        daemon.call("snapshot")

    assert not (daemon.data_dir / "snapshots").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_snapshot_that_cannot_be_written_is_refused_and_trading_goes_on(
    new_daemon: Callable[..., Daemon],
) -> None:
    daemon = new_daemon().start()
    (daemon.data_dir / "snapshots").mkdir(mode=0o500, exist_ok=True)

    with pytest.raises(AdminError):
        daemon.call("snapshot")

    daemon.connect().ask(buy(1), answers=1)


def test_a_snapshot_does_not_make_a_removed_data_directory_anew(
    new_daemon: Callable[..., Daemon],
) -> None:
    daemon = new_daemon().start()
    shutil.rmtree(daemon.data_dir)

    with pytest.raises(BourseError, match="is gone"):
        daemon.call("snapshot")

    assert not daemon.data_dir.exists()
    daemon.log_path.write_text("")


def test_a_snapshot_where_a_file_is_in_the_way_is_refused_and_trading_goes_on(
    new_daemon: Callable[..., Daemon],
) -> None:
    daemon = new_daemon().start()
    (daemon.data_dir / "snapshots").write_text("in the way")

    with pytest.raises(AdminError):
        daemon.call("snapshot")

    daemon.connect().ask(buy(1), answers=1)
    (daemon.data_dir / "snapshots").unlink()
    assert daemon.call("snapshot").wal_seq > 0
    assert daemon.stop() == 0
    assert replay(daemon.data_dir).snapshots_compared == 1
    # The log may tell of the refused one.
    daemon.log_path.unlink()
