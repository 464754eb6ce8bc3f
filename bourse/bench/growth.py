"""`growth-tail`: every command timed while a book grows to millions of orders.

    slice: a million commands ──► the clock alone for as long
                              ──► as many new pages as they took, alone ──► next slice

Indexes grow step by step and pools by chunks meanwhile, which no command's time is to show. The
same commands run several times, each time on a new engine: one that is slow in every run is slow
because of the engine, one that is slow once because of the machine. Nothing is subtracted.
"""

from __future__ import annotations

import resource

import msgspec

from bourse.admin.checks import Check
from bourse.bench import engine_runs, growth_loops, results
from bourse.bench.engine_runs import Expected
from bourse.bench.results import Digests, Percentiles, Result
from bourse.core.engine import Engine
from bourse.core.records import digest_text
from bourse.errors import UsageError

SLICE_COMMANDS = 1_000_000
REPETITIONS = 3
LEVELS = 1_000
PRICE_TICKS = 100
SHORT_NS, LONG_NS = 20_000, 200_000
"""What p99.99 and the maximum are to stay under."""
NAMED_MAX = 12
"""Slow commands that are named in the result."""


def run(
    samples: int = 10 * SLICE_COMMANDS, levels: int = LEVELS, orders_expected: int = 0
) -> Result:
    """Time every command of a growing book.

    Args:
        samples: commands, whole millions.
        levels: of the book.
        orders_expected: orders that the engine takes memory for at its start.

    Raises:
        UsageError: a number is out of range.
    """
    if samples % SLICE_COMMANDS or not 1 <= samples // SLICE_COMMANDS <= 100:
        raise UsageError(
            f"--samples {samples} is not allowed; it must be whole millions, 1 to 100 of them"
        )
    if not 10 <= levels <= 1_000_000:
        raise UsageError(f"--levels {levels} is not allowed; it must be 10 to 1000000")
    if not 0 <= orders_expected <= 100 * SLICE_COMMANDS:
        raise UsageError(
            f"--expect {orders_expected} is not allowed; it must be 0 to {100 * SLICE_COMMANDS}"
        )
    load_average = results.load_average()
    found: list[Grown] = []
    digests = set()
    for _ in range(REPETITIONS):
        # One engine at a time: ten million orders take nearly a gigabyte.
        engine = engine_runs.new_engine(orders_expected=orders_expected)
        found.append(grow(engine, samples // SLICE_COMMANDS, levels))
        digests.add((engine.state_digest, engine.event_digest))
        bytes_per_order = engine.memory_bytes / engine.live_order_count
        if len(found) < REPETITIONS:
            del engine
    best = min(found, key=lambda one: one.most_ns)
    _, p50, p90, p99, p99_9, most = best.spans.percentiles()
    results.keep_latencies(best.spans.counts())
    longest = [dict(one.spans.longest()) for one in found]
    # What is slow in every run, by its number.
    ours = set.intersection(*(set(one) for one in longest))
    expected = expectation(samples)
    result = Result(
        workload="growth-tail",
        boundary="engine",
        policy="memory",
        poll="none",
        samples=samples,
        seconds=round(best.ns / 1e9, 6),
        latency_ns=Percentiles(p50=p50, p90=p90, p99=p99, p99_9=p99_9, max=most),
        ns_per_op=round(best.ns / samples, 2),
        digests=Digests(digest_text(engine.state_digest), digest_text(engine.event_digest)),
        checks=[
            Check("digests_repeat", len(digests) == 1, f"{REPETITIONS} runs"),
            *engine_runs.engine_checks(engine, expected),
        ],
        parameters={
            "operation": f"a command with at most {growth_loops.TAKEN_LOTS} fills",
            "levels": levels,
            "orders_expected": orders_expected,
            "resting_after": expected.live_orders,
            "bytes_per_order": round(bytes_per_order, 1),
            **tail(best.spans),
            "page_faults": best.faults,
            "involuntary_switches": best.switches,
            "slow_in_every_run": len(ours),
            "slowest_in_every_run": [
                {"command": number, "ns": [one[number] for one in longest]}
                for number in sorted(ours, key=lambda one: -min(each[one] for each in longest))
            ][:NAMED_MAX],
            "repetitions": [repetition(one) for one in found],
        },
    )
    result.environment = results.environment(None, load_average)
    result.warnings = results.machine_warnings(result.environment)
    return result


class Grown(msgspec.Struct, frozen=True):
    """What one run found."""

    spans: growth_loops.Spans
    clock: growth_loops.Spans
    pages: growth_loops.Spans
    ns: float
    clock_ns: float
    faults: int
    switches: int

    @property
    def most_ns(self) -> int:
        """Return the slowest command's time."""
        return int(self.spans.percentiles()[5])


def grow(engine: Engine, slices: int, levels: int) -> Grown:
    """Run all slices on a new engine, the clock alone after each."""
    spans = growth_loops.Spans(SLICE_COMMANDS, SHORT_NS)
    clock = growth_loops.Spans(SLICE_COMMANDS, SHORT_NS)
    pages = growth_loops.Spans(SLICE_COMMANDS, SHORT_NS)
    ns = clock_ns = 0.0
    faults = switches = 0
    for _ in range(slices):
        before = resource.getrusage(resource.RUSAGE_THREAD)
        slice_ns = spans.grow(engine, levels, PRICE_TICKS)
        after = resource.getrusage(resource.RUSAGE_THREAD)
        ns += slice_ns
        new_pages = after.ru_minflt - before.ru_minflt
        faults += new_pages
        switches += after.ru_nivcsw - before.ru_nivcsw
        clock_ns += clock.idle(int(slice_ns))
        pages.touch(new_pages)
    return Grown(spans, clock, pages, ns, clock_ns, faults, switches)


def repetition(grown: Grown) -> dict[str, dict[str, float]]:
    """Return what a run saw, and what clock and memory alone saw beside it."""
    found: dict[str, dict[str, float]] = {
        name: {**tail(spans), "max": int(spans.percentiles()[5])}
        for name, spans in (
            ("commands", grown.spans),
            ("bare_clock", grown.clock),
            ("bare_pages", grown.pages),
        )
    }
    found["bare_clock"]["seconds"] = round(grown.clock_ns / 1e9, 3)
    found["bare_pages"]["pages"] = grown.faults
    return found


def expectation(samples: int) -> Expected:
    """Return what so many commands must have done."""
    takers = samples // growth_loops.TAKE_EVERY
    makers = samples - takers
    trades = takers * growth_loops.TAKEN_LOTS
    return Expected(
        # Accepted of each, a trade and a maker's end for each lot, the taker's end.
        events=samples + 2 * trades + takers,
        trades=trades,
        rejects=0,
        live_orders=makers - trades,
    )


def over(spans: growth_loops.Spans, limit_ns: int) -> int:
    """Count the spans over a limit, which is that of `longest()` or above."""
    return sum(span_ns > limit_ns for _, span_ns in spans.longest())


def tail(spans: growth_loops.Spans) -> dict[str, int]:
    """Return the far end of a distribution."""
    counts = spans.counts()
    wanted = sum(count for _, count in counts) * 0.9999
    seen = 0
    p99_99 = 0
    for value_ns, count in counts:
        seen += count
        if seen >= wanted:
            p99_99 = value_ns
            break
    return {
        "p99_99": p99_99,
        "over_20us": over(spans, SHORT_NS),
        "over_200us": over(spans, LONG_NS),
    }
