"""The open loop: a stall of the daemon is charged to every order that it delayed."""

import os
import signal
import threading

import pytest

from bourse.bench import load
from bourse.bench.private_daemon import PrivateDaemon
from bourse.bench.results import Percentiles, Result
from bourse.domain import Durability, PollMode
from bourse.errors import UsageError


def offered(rate: int, seconds: float, **flags: object) -> Result:
    return load.measure(rate=rate, seconds=seconds, **flags)


def test_every_order_is_timed_and_checked() -> None:
    found = offered(2_000, 0.5, durability="memory")

    assert found.exit_code == 0, found.checks
    assert found.workload == "load-2000"
    assert found.samples == 1_000
    assert found.seconds == pytest.approx(0.5, abs=0.4)


def test_a_stall_of_200_ms_is_seen_in_full() -> None:
    with PrivateDaemon(Durability.MEMORY, PollMode.ADAPTIVE) as daemon:
        pid = daemon.banner.pid
        timers = [
            threading.Timer(0.6, os.kill, (pid, signal.SIGSTOP)),
            threading.Timer(0.85, os.kill, (pid, signal.SIGCONT)),
        ]
        for timer in timers:
            timer.start()
        found = offered(
            2_000, 2.0, connect=daemon.banner.listen, admin=daemon.socket_dir / "admin.sock"
        )
        for timer in timers:
            timer.join()

    assert found.exit_code == 0, found.checks
    assert isinstance(found.latency_ns, Percentiles)
    assert isinstance(found.latency_ns.max, int)
    assert isinstance(found.latency_ns.p99_9, int)
    assert found.latency_ns.max >= 200_000_000
    # An eighth of the orders were due while it stood: a closed loop would have sent one of them.
    assert found.latency_ns.p99_9 >= 180_000_000


@pytest.mark.parametrize(("rate", "seconds"), [(0, 1.0), (10, 0.0), (10, -1.0), (10_000_000, 9e4)])
def test_wrong_flags_are_refused(rate: int, seconds: float) -> None:
    with pytest.raises(UsageError, match="is not allowed"):
        offered(rate, seconds)
