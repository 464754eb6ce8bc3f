"""How long matching stands still while a snapshot is taken: `snapshot-stall`.

So many orders rest; pairs that trade at once flow at a fixed rate; SNAPSHOTS snapshots are taken.
The figure is the daemon's own: how long its matcher copied. Beside it stands what a client saw, the
longest time without an answer, while snapshots were taken and while none was.
"""

from __future__ import annotations

import struct
import threading
import time
from pathlib import Path

from bourse.admin.checks import Check, replay_check
from bourse.admin.client import call
from bourse.admin.messages import SnapshotResult
from bourse.bench import results
from bourse.bench.private_daemon import PrivateDaemon
from bourse.bench.resting import BEST_TICKS, ID_OFFSET, Drain, rest_orders, status, wait_for
from bourse.bench.results import Digests, Result
from bourse.config import parse_address
from bourse.domain import Durability, OrderType, PollMode, Side
from bourse.errors import UsageError
from bourse.protocol.messages import NewOrder

SNAPSHOTS = 5
TURN_SECONDS = 0.002
CALM_SECONDS = 1.0
RATE_KEPT = 0.95
"""Below this share of the rate that was asked for, the result says so."""


class Flow:
    """Pairs of orders that trade at once, at a fixed rate, from a thread of its own."""

    def __init__(self, drain: Drain, rate_per_s: int) -> None:
        pair = [
            NewOrder(0, side, 1, OrderType.LIMIT, BEST_TICKS + 10).pack()
            for side in (Side.SELL, Side.BUY)
        ]
        self._frame_bytes = len(pair[0])
        self._pairs = max(1, round(rate_per_s * TURN_SECONDS / 2))
        self._turn = bytearray(b"".join(pair * self._pairs))
        self._drain = drain
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="flow", daemon=True)
        self.turns = 0
        self.seconds = 0.0

    @property
    def orders(self) -> int:
        """Orders that were sent."""
        return self.turns * self._pairs * 2

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def stop(self) -> None:
        """Send no more; returns when the last turn is with the kernel."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        # Ids live no longer than their turn: the same ones serve again and again.
        for number in range(2 * self._pairs):
            struct.pack_into(
                "<Q", self._turn, number * self._frame_bytes + ID_OFFSET, (1 << 40) + number
            )
        started_s = time.monotonic()
        while not self._stop.is_set():
            self._drain.connection.sendall(self._turn)
            self.turns += 1
            ahead = started_s + self.turns * TURN_SECONDS - time.monotonic()
            if ahead > 0:
                time.sleep(ahead)
        self.seconds = time.monotonic() - started_s


def measure(resting: int, rate: int, durability: str, data: Path | None) -> Result:
    """Measure; see the module's text.

    Args:
        resting: orders in the book.
        rate: orders a second that flow meanwhile.
        durability: policy of the daemon.
        data: where its temporary data directory is made.

    Raises:
        UsageError: a number is out of range.
        BourseError: the daemon did not start or did not answer.
    """
    if not 0 <= resting <= 10_000_000:
        raise UsageError(f"--resting {resting} is not allowed; it must be 0 to 10000000")
    if not 1_000 <= rate <= 1_000_000:
        raise UsageError(f"--rate {rate} is not allowed; it must be 1000 to 1000000")
    policy = {one.label: one for one in Durability}.get(durability)
    if policy is None or policy is Durability.MEMORY:
        raise UsageError(
            f"--durability {durability} is not allowed; it must be async or fsync, since policy "
            "memory takes no snapshots"
        )
    load_average = results.load_average()
    with PrivateDaemon(policy, PollMode.ADAPTIVE, data) as daemon:
        admin = Path(daemon.banner.admin)
        address = parse_address(daemon.banner.listen)
        with Drain(address) as holder, Drain(address) as drain:
            rest_orders(holder, admin, resting)
            before = status(admin)
            flow = Flow(drain, rate)
            flow.start()
            time.sleep(CALM_SECONDS)
            drain.longest_gap_ns = 0
            time.sleep(CALM_SECONDS)
            calm_gap_ns, drain.longest_gap_ns = drain.longest_gap_ns, 0
            taken = []
            for _ in range(SNAPSHOTS):
                result_of_one = call(admin, "snapshot")
                assert isinstance(result_of_one, SnapshotResult)
                taken.append(result_of_one)
            gap_ns = drain.longest_gap_ns
            flow.stop()
            wait_for(admin, "trades", before.trades + flow.orders // 2)
            after = status(admin)
            environment = results.environment(daemon.data_dir, load_average)
        pauses_ns = [one.pause_ns for one in taken]
        orders = min(one.live_orders for one in taken)
        checks = [
            Check(
                "trades_expected",
                after.trades - before.trades == flow.orders // 2,
                f"{after.trades - before.trades} of {flow.orders // 2}",
            ),
            Check("no_reject", after.rejects == 0, f"{after.rejects}"),
            Check("snapshots_hold_the_book", orders >= resting, f"{orders} of {resting}"),
        ]
        # The connections are gone, and with them an event of each is in the log: ask again.
        ended = _settled(admin)
        checks.append(Check("daemon_stopped_cleanly", daemon.stop() == 0))
        checks.append(replay_check(daemon.data_dir, ended.state, ended.events))
    seen = flow.orders / flow.seconds
    result = Result(
        workload=f"snapshot-stall-{resting}",
        boundary="client",
        policy=policy.label,
        poll=PollMode.ADAPTIVE.label,
        samples=SNAPSHOTS,
        seconds=round(flow.seconds, 3),
        latency_ns=results.latencies(pauses_ns),
        digests=ended,
        checks=checks,
        parameters={
            "operation": "a pause",
            "resting": resting,
            "rate_per_s": rate,
            "rate_seen_per_s": round(seen),
            "pause_ns_max": max(pauses_ns),
            "pauses_ns": pauses_ns,
            "snapshot_seconds": [round(one.seconds, 3) for one in taken],
            "snapshot_bytes": taken[0].bytes,
            "client_gap_ns_max": gap_ns,
            "client_gap_ns_max_without_snapshot": calm_gap_ns,
        },
    )
    result.environment = environment
    result.warnings = results.machine_warnings(environment)
    if seen < RATE_KEPT * rate:
        # The pause is the matcher's own, at whatever rate: the figure holds, for this rate.
        result.warnings.append(f"{seen:,.0f} orders a second flowed, {rate:,} were wanted")
    return result


def _settled(admin: Path) -> Digests:
    """Return the digests once the connections have ended."""
    deadline = time.monotonic() + 10
    while (found := status(admin)).connections and time.monotonic() < deadline:
        time.sleep(0.01)
    return Digests(found.state_digest, found.event_digest)
