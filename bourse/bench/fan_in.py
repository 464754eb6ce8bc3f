"""Many connections at once: `fan-in`, their throughput together and how long each order waits.

M connections in one thread, half of them selling 1@100 and half buying 1@100, each closed loop: the
next order goes out when the last was accepted. So M orders are on their way at any time. The clock
of an order runs from its send to its Accepted; the rate is that of all connections together, from
the first send to the last Done. Who trades with whom is not said in advance; what each connection
hears is, to the last field (fan_in_loops.py).
"""

from __future__ import annotations

import contextlib
from typing import Any

from bourse.admin.checks import Check
from bourse.bench import results
from bourse.bench.fan_in_loops import FanIn
from bourse.bench.results import Result, native_int64
from bourse.bench.run import Options, connect, drive, finish, options_of, surprise_of, target
from bourse.errors import UsageError

CONNECTIONS_MAX = 1_000
EVENTS_PER_TRADE = 5
SUM_BITS = 64
"""Sums of sequence numbers are kept in so many bits."""


def measure(*, connections: int, **flags: Any) -> Result:
    """Measure with the flags of workloads.CLIENT; see `run`.

    Raises:
        UsageError: a flag is out of range.
    """
    if connections % 2 or not 2 <= connections <= CONNECTIONS_MAX:
        raise UsageError(
            f"--connections {connections} is not allowed; "
            f"it must be an even number from 2 to {CONNECTIONS_MAX}"
        )
    return run(options_of(**flags), connections)


def run(options: Options, connections: int) -> Result:
    """Measure about `options.samples` orders, as many on each connection.

    Raises:
        UsageError, UnavailableError, ProtocolError: as their classes say.
    """
    each = options.samples // connections
    if each < 1:
        raise UsageError(
            f"--samples {options.samples} is not allowed; "
            f"it must be at least one for each of {connections} connections"
        )
    orders = each * connections
    load_average = results.load_average()
    with target(options) as found, contextlib.ExitStack() as stack:
        lines = [stack.enter_context(connect(found.address)) for _ in range(connections)]
        client = FanIn([line.fileno() for line in lines], each, options.fault)
        drive(client.run, client)
        counts = client.counts()
        latencies = native_int64(client.latencies_ns())
        seconds = (counts["finished_ns"] - counts["started_ns"]) / 1e9
        result = Result(
            workload=f"fan-in-{connections}",
            boundary="client",
            policy=found.policy,
            poll=found.poll,
            seed=options.seed,
            samples=orders,
            seconds=round(seconds, 6),
            latency_ns=results.latencies(latencies),
            rate_per_s=round(orders / seconds),
            ns_per_op=round(seconds * 1e9 / orders, 1),
            parameters={
                "operation": "an order to Accepted",
                "connections": connections,
                "orders_each": each,
                "client_poll": "block",
                "private_daemon": found.is_private,
            },
        )
        heard = heard_checks(counts, orders, found.is_private)
        heard.append(
            Check("answers_timed", len(latencies) == orders, f"{len(latencies)} of {orders}")
        )
        return finish(result, found, counts, orders // 2, load_average, True, heard)


def heard_checks(counts: dict[str, int], orders: int, is_private: bool) -> list[Check]:
    """Judge what all connections heard.

    Args:
        counts: FanIn.counts().
        orders: of all connections.
        is_private: nobody else trades there, so the numbers of all events together are consecutive.
    """
    trades = orders // 2
    # Accepted, Trade and Done of each order; a trade is heard by both of its sides.
    expected = 3 * orders
    first, last = counts["first_sequence"], counts["last_sequence"]
    numbers = EVENTS_PER_TRADE * trades
    total = numbers * (first + last) // 2 % (1 << SUM_BITS)
    made, taken = counts["trades_made"], counts["trades"]
    checks = [
        Check("sequence_increasing", counts["disorders"] == 0, f"{first} to {last}"),
        Check("events_expected", counts["events"] == expected, f"{counts['events']} of {expected}"),
        Check("events_exact", counts["surprises"] == 0, surprise_of(counts)),
        Check("no_reject", counts["rejects"] == 0, f"{counts['rejects']}"),
        Check(
            "orders_filled", counts["filled"] == orders, f"{counts['filled']} of {orders} orders"
        ),
        Check(
            "bought_equals_sold",
            counts["bought_lots"] == counts["sold_lots"] == trades,
            f"{counts['bought_lots']} and {counts['sold_lots']} lots",
        ),
        Check("prices_right", counts["wrong_prices"] == 0, f"{counts['wrong_prices']} wrong"),
        Check("leaves_zero", counts["wrong_leaves"] == 0, f"{counts['wrong_leaves']} wrong"),
    ]
    if is_private:
        checks += [
            Check(
                "trades_heard_by_both",
                made == taken == trades and counts["taken_sum"] == counts["made_sum"],
                f"{taken} by takers, {made} by makers",
            ),
            Check(
                "numbers_complete",
                last - first + 1 == numbers and counts["once_sum"] == total,
                f"{last - first + 1} of {numbers}, their sum {counts['once_sum']} of {total}",
            ),
        ]
    return checks
