"""Open loop: orders at a fixed offered rate over TCP, each timed from the moment it was due.

The predecessor's pairs, Sell 1@100 then Buy 1@100, sent by a thread that keeps to the schedule
whatever the daemon does. A Sell is answered by its Accepted, a Buy by its Done. An order that goes
out late, because the socket was full or this machine was busy, was due all the same: its wait is in
its latency, and so a stall is charged to every order that it delayed (no coordinated omission).
"""

from __future__ import annotations

from typing import Any

from bourse.admin.checks import Check
from bourse.bench import results
from bourse.bench.client import Client
from bourse.bench.results import Result, native_int64
from bourse.bench.run import Options, connect, drain_while_sending, finish, options_of, target
from bourse.errors import UsageError

ORDERS_MAX = 50_000_000


def measure(*, rate: int, seconds: float, **flags: Any) -> Result:
    """Measure with the flags of workloads.CLIENT; see `run`.

    Raises:
        UsageError: a flag is out of range.
    """
    if not 1 <= rate <= 10_000_000:
        raise UsageError(f"--rate {rate} is not allowed; it must be 1 to 10000000")
    orders = round(rate * seconds / 2) * 2 if 0 < seconds <= 86_400 else 0
    if not 2 <= orders <= ORDERS_MAX:
        raise UsageError(
            f"--rate {rate} for --seconds {seconds:g} is not allowed; "
            f"it must come to 2 to {ORDERS_MAX} orders"
        )
    return run(options_of(samples=orders, **flags), rate)


def run(options: Options, rate: int) -> Result:
    """Measure `options.samples` orders at `rate` a second; see the module's text.

    Raises:
        UsageError, UnavailableError, ProtocolError: as their classes say.
    """
    orders = options.samples
    load_average = results.load_average()
    with target(options) as found, connect(found.address) as connection:
        busy = bool(options.client_busy)
        client = Client(connection.fileno(), orders, fault=options.fault)
        client.begin_open_loop(1e9 / rate)
        sent_whole = drain_while_sending(client, connection, client.send_paced, busy)
        counts = client.counts()
        latencies = native_int64(client.latencies_ns())
        seconds = (counts["finished_ns"] - counts["started_ns"]) / 1e9
        result = Result(
            workload=f"load-{rate}",
            boundary="client",
            policy=found.policy,
            poll=found.poll,
            seed=options.seed,
            samples=len(latencies),
            seconds=round(seconds, 6),
            latency_ns=results.latencies(latencies),
            rate_per_s=round(orders / seconds),
            parameters={
                "operation": "an order since due",
                "offered_per_s": rate,
                "client_poll": "busy" if busy else "block",
                "private_daemon": found.is_private,
                "sent_whole": sent_whole,
            },
        )
        finish(result, found, counts, orders // 2, load_average, with_stages=True)
        result.checks.insert(
            0, Check("answers_timed", len(latencies) == orders, f"{len(latencies)} of {orders}")
        )
        return result
