"""What a watching console does to others' round trips: pairs of runs, one without, one with it.

One daemon, one console on a terminal whose other end takes every byte. Without it means that the
console is stopped (SIGSTOP): it gives no credit then, so the daemon builds nothing for it, and the
pair's two runs follow each other within a second. Identical runs differ by more than a console
costs, so single figures say nothing: what counts is the median of the pairs' ratios. Every second
pair begins with the watched run, so that a drift of the machine cancels out.
"""

from __future__ import annotations

import contextlib
import signal
import statistics
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from bourse.bench import rtt
from bourse.bench.console_cost import Terminal
from bourse.bench.private_daemon import PrivateDaemon
from bourse.bench.results import Percentiles
from bourse.bench.run import Options
from bourse.domain import Durability, PollMode

SETTLE_SECONDS = 0.3
"""After the console was stopped or let go on."""
START_SECONDS_MAX = 30.0


class Ratios(msgspec.Struct, frozen=True):
    """With a console over without it: the medians of all pairs."""

    pairs: int
    p50: float
    p99: float
    p50_ns: int
    """Median of the runs without a console."""
    p99_ns: int


def compare(
    size: tuple[int, int], rate_hz: int, pairs: int, samples: int, data: Path | None
) -> Ratios:
    """Run the pairs.

    Args:
        size: columns and rows of the console's terminal.
        rate_hz: paints a second.
        pairs: how many pairs of runs; at least 1.
        samples: round trips in each run.
        data: where the daemon's temporary data directory is made.
    """
    with PrivateDaemon(Durability.MEMORY, PollMode.ADAPTIVE, data) as daemon:
        admin = Path(daemon.banner.admin)
        options = Options(samples=samples, connect=daemon.banner.listen, admin=admin)
        runs: dict[bool, list[tuple[int, int]]] = {False: [], True: []}
        with _console(admin, size, rate_hz) as terminal:
            rtt.run(options)  # the daemon's pools and the processor's caches
            for pair in range(pairs):
                first = pair % 2 == 1
                for is_watched in (first, not first):
                    terminal.send_signal(signal.SIGCONT if is_watched else signal.SIGSTOP)
                    time.sleep(SETTLE_SECONDS)
                    found = rtt.run(options).latency_ns
                    assert isinstance(found, Percentiles)
                    assert isinstance(found.p50, int)
                    assert isinstance(found.p99, int)
                    runs[is_watched].append((found.p50, found.p99))
            terminal.send_signal(signal.SIGCONT)
    alone, watched = runs[False], runs[True]
    p50, p99 = (
        statistics.median(
            after[which] / before[which] for before, after in zip(alone, watched, strict=True)
        )
        for which in (0, 1)
    )
    return Ratios(
        pairs=pairs,
        p50=p50,
        p99=p99,
        p50_ns=round(statistics.median(run[0] for run in alone)),
        p99_ns=round(statistics.median(run[1] for run in alone)),
    )


@contextlib.contextmanager
def _console(admin: Path, size: tuple[int, int], rate_hz: int) -> Iterator[Terminal]:
    """Put a console on a terminal, and take what it writes until the end."""
    terminal = Terminal(admin, size, rate_hz)
    ending = threading.Event()

    def take() -> None:
        while not ending.is_set():
            terminal.take(0.2)

    taking = threading.Thread(target=take, name="terminal")
    try:
        terminal.wait_for_first_frame(START_SECONDS_MAX)
        taking.start()
        yield terminal
    finally:
        terminal.send_signal(signal.SIGCONT)
        ending.set()
        if taking.is_alive():
            taking.join()
        terminal.close()
