"""The predecessor's pipelined burst: how many orders a second go through, over TCP.

N alternating Sell and Buy 1@100 encoded in one buffer, one write by a thread of its own, while the
reader drains and verifies every event. The clock runs from the write to the N/2-th Done(Filled) of
a Buy; rate = N / seconds. The latencies of a burst are queueing and are not printed.
"""

from __future__ import annotations

from typing import Any

from bourse.bench import results
from bourse.bench.client import Client
from bourse.bench.results import Result
from bourse.bench.run import Options, connect, drain_while_sending, finish, options_of, target
from bourse.errors import UsageError


def measure(**flags: Any) -> Result:
    """Measure with the flags of workloads.CLIENT; see `run`."""
    return run(options_of(**flags))


def run(options: Options) -> Result:
    """Measure; see the module's text. `options.samples` counts orders.

    Raises:
        UsageError, UnavailableError, ProtocolError: as their classes say.
    """
    orders = options.samples
    if orders < 2 or orders % 2:
        raise UsageError(f"--samples {orders} is not allowed; it must be an even number from 2")
    load_average = results.load_average()
    with target(options) as found, connect(found.address) as connection:
        # A burst's reader waits for megabytes: polling would take a core from the daemon.
        busy = bool(options.client_busy)
        client = Client(connection.fileno(), orders, fault=options.fault)
        sent_whole = drain_while_sending(client, connection, client.send_all, busy)
        counts = client.counts()
        seconds = (counts["finished_ns"] - counts["started_ns"]) / 1e9
        result = Result(
            workload="burst",
            boundary="client",
            policy=found.policy,
            poll=found.poll,
            seed=options.seed,
            samples=orders,
            seconds=round(seconds, 6),
            rate_per_s=round(orders / seconds),
            ns_per_op=round(seconds * 1e9 / orders, 1),
            parameters={
                "client_poll": "busy" if busy else "block",
                "private_daemon": found.is_private,
                "receives": counts["receives"],
                "sent_whole": sent_whole,
            },
        )
        return finish(result, found, counts, orders // 2, load_average, with_stages=False)
