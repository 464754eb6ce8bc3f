"""Disks that really fail: one whose sync fails once and then lies, a full one (D1, D3, L4)."""

import os
import signal
import time
from collections.abc import Callable

import pytest

from bourse.journal import format as layout
from bourse.journal import storage
from tests.faults.disks import FsyncGate, FullDisk
from tests.faults.shim import FaultShim
from tests.faults.story import Story, compare_clients
from tests.integration.harness import ROUNDS, Client, Daemon, LogView, Orders, buy, pump

PAGE_BYTES = 4096


def send(client: Client, source: Orders) -> bool:
    """Send an order that rests; says whether it was answered before the connection ended."""
    number = len(source.sent) + 1
    source.sent.append(buy(number, 1, -number))
    client.queue(source.sent[-1].pack())
    pump([client], lambda: len(client.received) == 31 * number or bool(client.ended))
    return not client.ended


def fill_the_page(daemon: Daemon, client: Client, source: Orders) -> int:
    """Send orders, one a batch, until a batch ends where a page of the log does; returns where.

    An odd number of 8 bytes each: it comes within 512 orders, unless the daemon was idle for long
    enough to write a mark between; then within the next 512.
    """
    batch_bytes = layout.BATCH_HEADER_SIZE + layout.COMMAND_RECORD_SIZE
    for _ in range(10):
        end_bytes = daemon.call("wal").segment_used_bytes
        while end_bytes % PAGE_BYTES:
            assert send(client, source)
            end_bytes += batch_bytes
        if daemon.call("wal").segment_used_bytes == end_bytes:
            return end_bytes
    raise AssertionError("the machine is too slow for this test")


def test_a_real_sync_that_fails_once_and_then_lies_ends_the_daemon_for_good(
    new_daemon: Callable[..., Daemon], fsync_gate: FsyncGate, shim: FaultShim
) -> None:
    """The kernel reports the error once, calls the lost pages clean, and says yes from then on."""
    daemon = new_daemon(data=fsync_gate.data_dir, poll="adaptive", low_space_bytes=0)
    daemon.environment = shim.environment(daemon.data_dir)
    daemon.start()
    client = daemon.connect()
    session = daemon.session_of(client)
    source = Orders(None)
    from_bytes = fill_the_page(daemon, client, source)
    (path,) = storage.list_segments(daemon.data_dir)
    # Meanwhile it writes nothing: a page that is written now would have a block again.
    daemon.send_signal(signal.SIGSTOP)
    fsync_gate.run_dry(path, from_bytes)
    daemon.send_signal(signal.SIGCONT)

    while send(client, source):
        pass
    assert daemon.wait() == 74
    ended_ns = time.monotonic_ns()

    # The shim plans nothing here: it counts.
    assert shim["failed"] == 1
    assert ended_ns - shim["failed_ns"] < 1_000_000_000
    assert shim["sends_after"] == 0
    assert shim["syncs_after"] == 0
    assert shim["writes_after"] == 0
    assert len(daemon.log_lines("critical", "the disk failed")) == 1
    daemon.log_path.unlink()
    # Whoever asked a second time would have been told that all is well.
    with path.open("rb+") as file:
        os.fdatasync(file.fileno())

    fsync_gate.release()

    answered = len(client.received) // 31
    log = LogView.of(daemon.data_dir)
    assert compare_clients(log, {session: (client, source)}) == 0, "no more than was acknowledged"
    assert len(log.requests()[session]) == answered
    daemon.environment.clear()
    status = daemon.start().settled()
    assert status.live_orders == answered
    assert int(status.state_digest, 16) == log_digest(daemon)
    assert daemon.stop() == 0


def log_digest(daemon: Daemon) -> int:
    return LogView.of(daemon.data_dir).result.state_digest


@pytest.mark.parametrize(
    "full_disk", ["tmpfs"] if ROUNDS == 1 else ["tmpfs", "ext4"], indirect=True
)
def test_a_disk_that_fills_up_ends_the_daemon_and_with_room_it_goes_on(
    new_daemon: Callable[..., Daemon], full_disk: FullDisk
) -> None:
    """Twice in a row: what a full disk left half-written is never built upon (row L4)."""
    daemon = new_daemon(
        data=full_disk.data_dir, poll="adaptive", wal_segment_bytes=64 << 10, low_space_bytes=0
    )
    story = Story(daemon, seed=61)
    for _ in range(2):
        daemon.start()
        full_disk.fill(leave_bytes=10_000)
        daemon.kill()

        assert story.live() == 74

        assert daemon.log_lines("critical", "No space left on device")
        full_disk.release()
    assert story.acknowledged_bytes > 0
    daemon.log_path.unlink()
    story.end()
