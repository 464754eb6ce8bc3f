"""Snapshots by themselves, what they let go, and a disk with too little space."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bourse.admin.messages import CancelParams, OrderParams
from bourse.domain import Reason
from bourse.journal import storage
from tests.integration.harness import Daemon, LogView, buy, sell


def wait_until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("retention", ["delete", "archive"])
def test_snapshots_by_records_let_segments_go(
    new_daemon: Callable[..., Daemon], retention: str
) -> None:
    daemon = new_daemon(
        snapshot_every_records=400,
        snapshots_kept=2,
        wal_retention=retention,
        wal_segment_bytes=1 << 16,
    ).start()
    client = daemon.connect()
    newest = 0
    for start in range(1, 4001, 500):
        client.ask(*[buy(n) for n in range(start, start + 500)], answers=500)
        wait_until(lambda before=newest: newest_snapshot(daemon) > before)  # type: ignore[misc]
        newest = newest_snapshot(daemon)
    wait_until(lambda: len(storage.list_snapshots(daemon.data_dir)) == 2)
    wait_until(lambda: (storage.segment_index_of(first_segment(daemon)) or 0) > 1)
    status = daemon.settled()
    daemon.kill()
    assert newest > 3500
    archive = daemon.data_dir / "archive"
    assert archive.exists() == (retention == "archive")
    status_again = daemon.start().settled()
    assert status_again.live_orders == 4000
    assert status_again.state_digest == status.state_digest
    assert daemon.stop() == 0
    if retention == "archive":
        # Put back, the whole log is there.
        for path in archive.iterdir():
            path.rename(daemon.data_dir / "wal" / path.name)
        assert LogView.of(daemon.data_dir).result.resting_orders == 4000


def newest_snapshot(daemon: Daemon) -> int:
    return max((one.wal_seq for one in daemon.call("wal").snapshots), default=0)


def first_segment(daemon: Daemon) -> Path:
    return storage.list_segments(daemon.data_dir)[0]


def test_a_snapshot_at_shutdown_leaves_nothing_to_replay(new_daemon: Callable[..., Daemon]) -> None:
    daemon = new_daemon(snapshot_at_shutdown=True).start()
    client = daemon.connect()
    client.ask(*[buy(n) for n in range(1, 101)], answers=100)
    assert daemon.stop() == 0
    (path,) = storage.list_snapshots(daemon.data_dir)
    daemon.start()
    assert daemon.log_lines(f"restored {path}")
    assert daemon.log_lines("replayed 0;")
    assert daemon.call("status").live_orders == 100
    # Nothing but the snapshot's own consequences is new: no second one.
    assert daemon.stop() == 0
    assert storage.list_snapshots(daemon.data_dir) == [path]


def test_low_space_refuses_new_orders_and_a_replay_agrees(
    new_daemon: Callable[..., Daemon],
) -> None:
    daemon = new_daemon().start()
    client = daemon.connect()
    client.ask(buy(1, 5, 10), buy(2, 5, 11), answers=2)
    assert not daemon.call("status").low_space
    assert daemon.stop() == 0
    # More than any disk has.
    daemon.options["low_space_bytes"] = 1 << 50
    daemon.start()
    client = daemon.connect()
    assert daemon.call("status").low_space
    assert daemon.log_lines("low space:")
    (refused,) = client.ask(sell(7, 5, 10), answers=1)
    assert refused.reason == 5  # Rejected
    depth = daemon.call("depth")
    assert depth.live_orders == 2
    order = daemon.call("order", OrderParams("sell", 1, 10))
    assert order.reason == Reason.LOW_SPACE
    gone = daemon.call("cancel", CancelParams(1))
    assert gone.reason == Reason.OPERATOR_CANCELLED
    status = daemon.settled()
    assert status.live_orders == 1
    assert daemon.stop() == 0
    daemon.log_path.unlink()  # the trouble was ours
    log = LogView.of(daemon.data_dir)
    assert int(status.state_digest, 16) == log.result.state_digest
    assert sum(event.reason == Reason.LOW_SPACE for event in log.events if event.kind < 16) == 2


def test_a_segment_that_is_taken_away_is_said_at_once_and_a_snapshot_is_the_way_out(
    new_daemon: Callable[..., Daemon],
) -> None:
    daemon = new_daemon(wal_segment_bytes=1 << 16).start()
    client = daemon.connect()
    for start in range(1, 3001, 500):
        client.ask(*[buy(n) for n in range(start, start + 500)], answers=500)
    segments = storage.list_segments(daemon.data_dir)
    segments[1].unlink()
    wait_until(lambda: bool(daemon.log_lines("critical", "segment 2 of the log")))

    # Nobody waits for less: the state is here, and a snapshot brings it over the gap.
    client.ask(buy(3001), answers=1)
    daemon.call("snapshot")
    status = daemon.settled()
    current = int(daemon.call("wal").segment_index)
    daemon.stop()
    for path in storage.list_segments(daemon.data_dir):
        if (storage.segment_index_of(path) or 0) < current:
            path.unlink()
    assert daemon.start().settled().state_digest == status.state_digest
    assert not daemon.log_lines("critical")
    assert daemon.stop() == 0
    daemon.log_path.unlink()  # the trouble was ours


def test_an_unreadable_snapshot_does_not_keep_the_daemon_from_starting(
    new_daemon: Callable[..., Daemon],
) -> None:
    daemon = new_daemon().start()
    daemon.connect().ask(buy(1), answers=1)
    daemon.call("snapshot")
    daemon.stop()
    loop = storage.snapshot_path(daemon.data_dir, 99_999)
    loop.symlink_to(loop.name)

    assert daemon.start().settled().live_orders == 1
    assert daemon.stop() == 0
