"""The predecessor's round trip: a Buy that fills at once, from its send to its Done, over TCP.

One connection, closed loop: Sell 1@100, wait for its Accepted; start the clock; Buy 1@100, wait for
its Done(Filled); stop. The first 100 pairs are not measured.
"""

from __future__ import annotations

import os

from bourse.bench import results
from bourse.bench.client import Client
from bourse.bench.disk import fdatasync_ns
from bourse.bench.results import Result, native_int64, percentiles
from bourse.bench.run import Options, Target, client_busy, connect, drive, finish, target
from bourse.domain import Durability
from bourse.errors import UsageError

WARMUP_PAIRS = 100
FDATASYNC_COUNT_MAX = 500
"""Timed before and again after the round trips: disks of virtual machines have moods."""


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
        syncs_ns = _time_syncs(found, options.samples)
        busy = client_busy(options, found)
        client = Client(connection.fileno(), 2 * pairs, WARMUP_PAIRS)
        drive(lambda: client.round_trips(pairs, busy), client)
        counts = client.counts()
        syncs_ns += _time_syncs(found, options.samples)
        seconds = (counts["finished_ns"] - counts["started_ns"]) / 1e9
        result = Result(
            workload="rtt",
            boundary="client",
            policy=found.policy,
            poll=found.poll,
            seed=options.seed,
            samples=options.samples,
            seconds=round(seconds, 6),
            latency_ns=percentiles(native_int64(client.latencies_ns())),
            rate_per_s=round(options.samples / seconds) if seconds else 0,
            parameters={
                "warmup": WARMUP_PAIRS,
                "client_poll": "busy" if busy else "block",
                "private_daemon": found.is_private,
            },
        )
        if syncs_ns:
            result.fdatasync_ns = percentiles(syncs_ns)
        return finish(result, found, counts, pairs, load_average, with_stages=True)


def _time_syncs(found: Target, samples: int) -> list[int]:
    """Time the disk beside the log; nothing where no acknowledgement waits for it."""
    if found.policy != Durability.FSYNC.label or found.data_dir is None:
        return []
    if not os.access(found.data_dir, os.W_OK):  # somebody else's daemon at --connect
        return []
    return fdatasync_ns(found.data_dir, min(FDATASYNC_COUNT_MAX, samples))
