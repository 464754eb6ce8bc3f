"""Between two cores: `pipeline` through the matcher's rings, with a ping-pong beside it; `ring`.

    this thread, one CPU ── command ring ──► MatchingThread, another CPU ── event ring ──► back

The matcher is the daemon's own, busy polling, on a thread that is pinned; the caller stands where
the gateway does (pipeline_loops.py). Batches of round trips and of the bare ping-pong of one cache
line take turns, by the same two threads: virtual CPUs are near or far from one minute to the next.
"""

from __future__ import annotations

import os
import statistics
import threading

from bourse.admin.checks import Check
from bourse.bench import results
from bourse.bench.engine_loops import tick_length_ns
from bourse.bench.engine_runs import Expected, engine_checks, new_engine, positive
from bourse.bench.faults import fault_number
from bourse.bench.pipeline_loops import (
    EVENTS_OF_CROSS,
    EVENTS_OF_MARKET,
    Ball,
    Caller,
    push_and_pop,
)
from bourse.bench.results import Digests, Result, native_int64
from bourse.config import DaemonConfig
from bourse.core.engine import Engine
from bourse.core.records import digest_text
from bourse.core.ring import RingMemory
from bourse.daemon.matching_thread import JOURNAL_SLOT_BYTES, MatchingThread
from bourse.daemon.shared import SharedMemory
from bourse.domain import PollMode
from bourse.errors import BourseError, UsageError

BATCH = 500
"""Round trips between two readings of the clock."""
BATCHES_PER_ROUND = 4
"""Batches of round trips between two of the ping-pong; every fourth is timed trip by trip."""
WARM_UP_BATCHES = 20
RECORD_BYTES = 64
RING_REPETITIONS = 5
RING_SLOTS = 256
"""16 KiB: the first cache holds it, as where a consumer keeps up."""


class Pair:
    """A matcher on one CPU, and everything that a caller on another needs."""

    def __init__(self, crossing: bool, batches: int, fault: int = 0, fault_at: int = 0) -> None:
        config = DaemonConfig()
        self.engine: Engine = new_engine()
        self.commands = RingMemory(config.command_ring_count, RECORD_BYTES)
        self.events = RingMemory(config.event_ring_count, RECORD_BYTES)
        self.records = RingMemory(2, JOURNAL_SLOT_BYTES)
        self.memory = SharedMemory(-1)
        self.ball = Ball()
        self.caller = Caller(
            self.commands,
            self.events,
            self.memory,
            crossing,
            BATCH,
            BATCH * (batches // BATCHES_PER_ROUND + 1),
            self.engine.wal_seq,
            fault,
            fault_at,
        )

    def match(self, cpu: int, rounds: int) -> None:
        """Be the other thread: ping-pong, then matching until STOP, again and again."""
        os.sched_setaffinity(0, {cpu})
        for _ in range(rounds):
            for relaxed in (False, True):
                if not self.ball.answer(BATCH, relaxed):
                    return
            MatchingThread(
                self.engine,
                self.commands,
                self.events,
                self.records,
                self.memory,
                PollMode.BUSY,
                False,
            ).run()


def two_cpus() -> tuple[int, int]:
    """Choose the CPUs: the first and the last that this process may use.

    Raises:
        UsageError: there is only one.
    """
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        raise UsageError("pipeline needs two CPUs, and this process may use one")
    return cpus[0], cpus[-1]


def pipeline(workload: str, samples: int, fault: str | None = None) -> Result:
    """Measure round trips through command ring, matcher and event ring.

    Args:
        workload: market, one Market order on an empty book; or cross, a Sell that rests and the
            Buy that fills it, sent together.
        samples: round trips, about.
        fault: what happens, on purpose, to one event on its way to the checks (faults.py): to an
            Accepted of market, a Trade of cross.

    Raises:
        UsageError: a flag is wrong.
        BourseError: the other thread fell silent.
    """
    if workload not in ("market", "cross"):
        raise UsageError(f"--workload {workload} is not allowed; it must be market or cross")
    crossing = workload == "cross"
    rounds = positive(samples) // (BATCH * BATCHES_PER_ROUND) or 1
    warm_rounds = max(1, min(rounds, WARM_UP_BATCHES) // BATCHES_PER_ROUND)
    load_average = results.load_average()
    here, there = two_cpus()
    batches = (rounds + warm_rounds) * BATCHES_PER_ROUND
    middle = batches // 2 * BATCH
    fault_at = middle * EVENTS_OF_CROSS + 5 if crossing else middle * EVENTS_OF_MARKET + 2
    pair = Pair(crossing, batches, fault_number(fault), fault_at if fault else 0)
    allowed = os.sched_getaffinity(0)
    other = threading.Thread(
        target=pair.match, args=(there, rounds + warm_rounds), name="matcher", daemon=True
    )
    tick_ns = tick_length_ns()
    trips_ns: list[float] = []
    ping_pong_ns: dict[bool, list[float]] = {False: [], True: []}
    other.start()
    try:
        os.sched_setaffinity(0, {here})
        for number in range(-warm_rounds, rounds):
            for relaxed in (False, True):
                bounced_ns = _heard(pair.ball.serve(BATCH, relaxed))
                if number >= 0:
                    ping_pong_ns[relaxed].append(bounced_ns)
            for batch in range(BATCHES_PER_ROUND):
                stamped = batch == 0 and number >= 0
                trip_ns = _heard(pair.caller.round_trips(BATCH, stamped, tick_ns))
                pair.caller.verify()
                if number >= 0 and not stamped:
                    trips_ns.append(trip_ns)
            if not pair.caller.stop():
                _heard(-1.0)
        other.join(10)
    finally:
        os.sched_setaffinity(0, allowed)
    # The better of the two ways to wait is what the hardware can do.
    ping_pong = min(statistics.median(found) for found in ping_pong_ns.values())
    trips = len(trips_ns) * BATCH
    typical_ns = statistics.median(trips_ns)
    result = Result(
        workload=f"pipeline-{workload}",
        boundary="pipeline",
        policy="memory",
        poll="busy",
        samples=trips,
        seconds=round(sum(trips_ns) * BATCH / 1e9, 6),
        latency_ns=results.latencies(native_int64(pair.caller.latencies_ns())),
        rate_per_s=round(1e9 / typical_ns),
        ns_per_op=round(typical_ns, 1),
        ping_pong_ns=round(ping_pong, 1),
        digests=Digests(
            digest_text(pair.engine.state_digest), digest_text(pair.engine.event_digest)
        ),
        checks=pipeline_checks(pair, crossing, batches * BATCH),
        parameters={
            "operation": "two commands there, their events back" if crossing else "there and back",
            "events": pair.caller.counts()["events"],
            "fills": pair.caller.counts()["sold_lots"],
            "batch": BATCH,
            "batches": len(trips_ns),
            "ns_per_op_best": round(min(trips_ns), 1),
            "ping_pong_ns_best": round(min(min(found) for found in ping_pong_ns.values()), 1),
            "ping_pong_ns_spinning": round(statistics.median(ping_pong_ns[False]), 1),
            "ping_pong_ns_pausing": round(statistics.median(ping_pong_ns[True]), 1),
            "latency_ns_is_of": f"every {BATCHES_PER_ROUND}. batch, a clock reading a trip in it",
        },
    )
    pinning = f"caller to CPU {here}, matcher to CPU {there}"
    result.environment = results.environment(None, load_average, pinning)
    result.warnings = results.machine_warnings(result.environment)
    return result


def _heard(nanoseconds: float) -> float:
    """Pass a figure on.

    Raises:
        BourseError: it says that the other side was silent.
    """
    if nanoseconds < 0:
        raise BourseError("the matcher's thread was silent for seconds; is its CPU taken?")
    return nanoseconds


def pipeline_checks(pair: Pair, crossing: bool, trips: int) -> list[Check]:
    """Judge what the caller heard, then the engine."""
    found = pair.caller.counts()
    expected = trips * (EVENTS_OF_CROSS if crossing else EVENTS_OF_MARKET)
    traded = trips if crossing else 0
    heads = trips * (2 if crossing else 1)
    surprise = f"the first at event {found['first_surprise']:,}" if found["surprises"] else ""
    digest = digest_text(found["digest"])
    said = digest_text(pair.engine.event_digest)
    return [
        Check("events_heard", found["events"] == expected, f"{found['events']} of {expected}"),
        Check("events_exact", found["surprises"] == 0, surprise),
        Check("sequence_gapless", found["gaps"] == 0, f"{found['gaps']} gaps"),
        Check("no_reject", found["rejects"] == 0, f"{found['rejects']}"),
        Check(
            "heard_bought_equals_sold",
            found["bought_lots"] == found["sold_lots"] == traded,
            f"{found['bought_lots']} and {found['sold_lots']} lots",
        ),
        Check("event_digest_heard", digest == said, f"{digest}, the engine's {said}"),
        *engine_checks(
            pair.engine,
            Expected(events=expected - heads, trades=traded, rejects=0, live_orders=0),
        ),
    ]


def ring(samples: int) -> Result:
    """Push a record into a ring and pop it, on one thread.

    Raises:
        UsageError: a flag is wrong.
    """
    count = positive(samples)
    load_average = results.load_average()
    memory = RingMemory(RING_SLOTS, RECORD_BYTES)
    push_and_pop(memory, max(1, count // 10))
    found = [push_and_pop(memory, count) for _ in range(RING_REPETITIONS)]
    each_ns = [ns for ns, _ in found]
    best_ns = min(each_ns)
    wanted = count * (count - 1) // 2
    right = all(total == wanted for _, total in found)
    result = Result(
        workload="ring",
        boundary="pipeline",
        policy="memory",
        poll="none",
        samples=count,
        seconds=round(best_ns * count / 1e9, 6),
        rate_per_s=round(1e9 / best_ns),
        ns_per_op=round(best_ns, 2),
        checks=[
            Check("records_read_back", right, f"sum {found[0][1]} of {wanted}"),
            Check("ring_empty", memory.used == 0, f"{memory.used} left"),
        ],
        parameters={
            "operation": "a push and a pop",
            "slots": RING_SLOTS,
            "repetitions_ns_per_op": [round(ns, 2) for ns in each_ns],
        },
    )
    result.environment = results.environment(None, load_average)
    result.warnings = results.machine_warnings(result.environment)
    return result
