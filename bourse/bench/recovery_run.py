"""How long a daemon takes from the start of its process until it accepts: `recovery`.

    1. a log of so many records, made by bursts over TCP; started again, all of it replayed
    2. so many resting orders, and a snapshot; started again from the snapshot

Both starts are made ROUNDS times on a warm cache, the fastest counts. The daemon that starts must
have the digests of the one that ended.
"""

from __future__ import annotations

import time
from pathlib import Path

from bourse.admin.checks import Check
from bourse.admin.client import call
from bourse.admin.launch import DaemonProcess
from bourse.admin.messages import SnapshotResult, Status
from bourse.bench import results
from bourse.bench.client import Client
from bourse.bench.journal_runs import scratch
from bourse.bench.resting import Drain, rest_orders, status, wait_for
from bourse.bench.results import Digests, Result
from bourse.bench.run import connect, drain_while_sending
from bourse.config import parse_address
from bourse.domain import Durability
from bourse.errors import UsageError

ROUNDS = 3
BURST_ORDERS = 500_000


class Starts:
    """A data directory whose daemon is started again and again."""

    def __init__(self, directory: Path, socket_dir: Path) -> None:
        self._directory = directory
        self.admin = socket_dir / "admin.sock"
        self.seconds = 0.0
        """From the start of the last process until it accepted."""

    def start(self) -> DaemonProcess:
        """Start a daemon and wait until it accepts."""
        # The log is to be replayed: no snapshot but the one that is asked for.
        config = self._directory / "bourse.toml"
        config.write_text("snapshot_every_records = 0\n")
        started_s = time.perf_counter()
        daemon = DaemonProcess(
            [
                *("--config", str(config)),
                *("--data", str(self._directory / "data"), "--listen", "127.0.0.1:0"),
                *("--durability", Durability.ASYNC.label, "--admin", str(self.admin)),
            ],
            self._directory / "log",
        )
        self.seconds = time.perf_counter() - started_s
        return daemon

    def again(self, name: str, before: Status) -> tuple[list[float], list[Check], list[str]]:
        """Start ROUNDS times; seconds, checks against what ended, and the last report."""
        seconds = []
        equal = True
        detail = ""
        report: list[str] = []
        for _ in range(ROUNDS):
            with self.start() as daemon:
                seconds.append(round(self.seconds, 3))
                found = status(self.admin)
                report = daemon.banner.report
            # A start writes the end of the sessions that were open: compare what it recovered.
            same = (found.live_orders, found.event_seq, found.event_digest) == (
                before.live_orders,
                before.event_seq,
                before.event_digest,
            )
            equal = equal and same and found.state_digest == before.state_digest
            detail = f"{found.state_digest} {found.event_digest}"
        return seconds, [Check(f"{name}_digests_equal", equal, detail)], report


def measure(samples: int, resting: int, data: Path | None) -> Result:
    """Measure; see the module's text.

    Args:
        samples: records of the log that is replayed.
        resting: orders in the snapshot.
        data: where the temporary directory is made.

    Raises:
        UsageError: a number is out of range.
        BourseError: a daemon did not start or did not answer.
    """
    import shutil
    import tempfile

    if not 1 <= samples <= 100_000_000:
        raise UsageError(f"--samples {samples} is not allowed; it must be 1 to 100000000")
    if not 1 <= resting <= 10_000_000:
        raise UsageError(f"--resting {resting} is not allowed; it must be 1 to 10000000")
    load_average = results.load_average()
    # Not inside the scratch directory: a socket's path has at most 107 bytes.
    socket_dir = Path(tempfile.mkdtemp(prefix="bourse-"))
    try:
        with scratch(data) as directory:
            starts = Starts(directory, socket_dir)
            with starts.start() as daemon:
                _burst(parse_address(daemon.banner.listen), starts.admin, samples)
                replayed = status(starts.admin)
            replay_s, checks, replay_report = starts.again("replay", replayed)
            with starts.start() as daemon:
                with Drain(parse_address(daemon.banner.listen)) as drain:
                    rest_orders(drain, starts.admin, resting)
                snapshot = call(starts.admin, "snapshot")
                assert isinstance(snapshot, SnapshotResult)
                before = status(starts.admin)
            snapshot_s, more, snapshot_report = starts.again("snapshot", before)
            checks += more
            checks.append(
                Check(
                    "snapshot_used",
                    any(f"{snapshot.wal_seq}" in line for line in snapshot_report),
                    "; ".join(snapshot_report),
                )
            )
            environment = results.environment(directory, load_average)
    finally:
        shutil.rmtree(socket_dir, ignore_errors=True)
    best = min(replay_s)
    result = Result(
        workload="recovery",
        boundary="journal",
        policy=Durability.ASYNC.label,
        poll="adaptive",
        samples=replayed.wal_seq,
        seconds=best,
        rate_per_s=round(replayed.wal_seq / best),
        ns_per_op=round(best * 1e9 / replayed.wal_seq, 1),
        digests=Digests(replayed.state_digest, replayed.event_digest),
        checks=checks,
        parameters={
            "operation": "a record",
            "replay_seconds": replay_s,
            "replay_report": replay_report,
            "snapshot_orders": snapshot.live_orders,
            "snapshot_bytes": snapshot.bytes,
            "snapshot_pause_ns": snapshot.pause_ns,
            "snapshot_start_seconds": min(snapshot_s),
            "snapshot_seconds": snapshot_s,
            "snapshot_report": snapshot_report,
        },
    )
    result.environment = environment
    result.warnings = results.machine_warnings(environment)
    return result


def _burst(address: tuple[str, int], admin: Path, records: int) -> None:
    """Have crossing pairs sent until the log has so many records; the book is empty afterwards."""
    while (left := records - status(admin).wal_seq) > 0:
        orders = min(BURST_ORDERS, left + left % 2)
        with connect(address) as connection:
            client = Client(connection.fileno(), orders)
            drain_while_sending(client, connection, client.send_all, False)
    wait_for(admin, "durable_seq", records)
