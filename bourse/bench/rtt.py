"""The predecessor's round trip: a Buy that fills at once, from its send to its Done, over TCP.

One connection, closed loop: Sell 1@100, wait for its Accepted; start the clock; Buy 1@100, wait for
its Done(Filled); stop. The first 100 pairs are not measured.
"""

from __future__ import annotations

import os
import time
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from bourse.bench import results
from bourse.bench.client import Client
from bourse.bench.disk import SyncTimer
from bourse.bench.results import Result, native_int64, percentiles
from bourse.bench.run import (
    Options,
    Target,
    client_busy,
    connect,
    drive,
    finish,
    options_of,
    taken_back,
    target,
)
from bourse.domain import Durability
from bourse.errors import UsageError

WARMUP_PAIRS = 100
FDATASYNC_COUNT_MAX = 1000
SLICES = 10
"""Round trips and appends take turns in so many slices: disks of virtual machines have moods."""


def measure(**flags: Any) -> Result:
    """Measure with the flags of workloads.CLIENT; see `run`."""
    return run(options_of(**flags))


def run(options: Options) -> Result:
    """Measure; see the module's text.

    Raises:
        UsageError, UnavailableError, ProtocolError: as their classes say.
    """
    if options.samples < 1:
        raise UsageError(f"--samples {options.samples} is not allowed; it must be at least 1")
    load_average = results.load_average()
    pairs = WARMUP_PAIRS + options.samples
    with target(options) as found, connect(found.address) as connection:
        busy = client_busy(options, found)
        client = Client(connection.fileno(), 2 * pairs, WARMUP_PAIRS, options.fault)
        with taken_back(connection, client):
            drive(lambda: client.round_trips(WARMUP_PAIRS, busy), client)
            seconds = 0.0
            with _sync_timer(found) as timer:
                slices = SLICES if timer is not None else 1
                for number in range(1, slices + 1):
                    if timer is not None:
                        timer.time(max(1, min(FDATASYNC_COUNT_MAX, options.samples) // slices))
                    goal = WARMUP_PAIRS + options.samples * number // slices
                    started = time.perf_counter()
                    drive(lambda goal=goal: client.round_trips(goal, busy), client)  # type: ignore[misc]
                    seconds += time.perf_counter() - started
        counts = client.counts()
        result = Result(
            workload="rtt",
            boundary="client",
            policy=found.policy,
            poll=found.poll,
            seed=options.seed,
            samples=options.samples,
            seconds=round(seconds, 6),
            latency_ns=results.latencies(native_int64(client.latencies_ns())),
            rate_per_s=round(options.samples / seconds) if seconds else 0,
            parameters={
                "operation": "a round trip",
                "warmup": WARMUP_PAIRS,
                "client_poll": "busy" if busy else "block",
                "private_daemon": found.is_private,
            },
        )
        if timer is not None:
            result.fdatasync_ns = percentiles(timer.durations_ns)
        return finish(result, found, counts, pairs, load_average, with_stages=True)


def _sync_timer(found: Target) -> AbstractContextManager[SyncTimer | None]:
    """Time the disk beside the log; not where no acknowledgement waits for it."""
    if found.policy != Durability.FSYNC.label or found.data_dir is None:
        return nullcontext()
    if not os.access(found.data_dir, os.W_OK):  # somebody else's daemon at --connect
        return nullcontext()
    return SyncTimer(found.data_dir)
