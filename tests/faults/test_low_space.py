"""A disk that really fills up: new orders are refused before, cancels go on, room ends it (D4)."""

import time
from collections.abc import Callable

import pytest

from bourse.protocol.messages import Cancel
from tests.faults.disks import FullDisk
from tests.integration.harness import Client, Daemon, LogView, buy

LOW_BYTES = 4 << 20


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("full_disk", ["tmpfs"], indirect=True)
def test_a_disk_that_runs_low_takes_cancels_and_with_room_orders_again(
    new_daemon: Callable[..., Daemon], full_disk: FullDisk
) -> None:
    daemon = new_daemon(data=full_disk.data_dir, low_space_bytes=LOW_BYTES).start()
    client: Client = daemon.connect()
    client.ask(*[buy(n) for n in range(1, 11)], answers=10)
    assert not daemon.call("status").low_space

    full_disk.fill(leave_bytes=LOW_BYTES // 4)
    wait_until(lambda: daemon.call("status").low_space)
    (refused,) = client.ask(buy(11), answers=1)
    (gone,) = client.ask(Cancel(1), answers=1)

    assert refused.reason == 5  # Rejected
    assert gone.reason == 2  # Cancelled
    assert daemon.call("status").live_orders == 9

    full_disk.release()
    wait_until(lambda: not daemon.call("status").low_space)
    client.ask(buy(12), answers=1)
    status = daemon.settled()
    assert status.live_orders == 10
    assert daemon.log_lines("low space is over")
    assert daemon.stop() == 0
    daemon.log_path.unlink()  # the trouble was ours
    log = LogView.of(daemon.data_dir)
    assert int(status.state_digest, 16) == log.result.state_digest
