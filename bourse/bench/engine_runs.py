"""Benchmarks of the engine alone: `walk`, `alternating` and `mixed`, with their checks.

The clock stands at the engine's own boundary (engine_loops.py): no ring, no thread, no log. Each
workload runs REPETITIONS times, each time on a new engine; its figure is that of the fastest, and
all of them must end with the same digests.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from bourse.admin.checks import Check
from bourse.bench import engine_loops, results
from bourse.bench.results import Digests, Result
from bourse.core.engine import Engine
from bourse.core.records import Command, EngineState, digest_text
from bourse.domain import CommandKind, OrderType
from bourse.errors import UsageError

REPETITIONS = 5

WARM_UP_ORDERS = 20_000
"""Orders before the clock starts: memory is touched, tables have grown."""

MIX_WARM_UP = 100_000
"""Commands of the mixed stream after it has reached its depth, before the clock starts."""

COMMAND_SIZE = 64

WALK_BOOKS = 16
"""Books that a short walk uses in turn, so that reading the clock is a small part of the span."""

SHORT_WALK = 100
"""A walk over fewer levels is short."""


class Expected(msgspec.Struct, frozen=True):
    """What an engine must have counted at the end."""

    events: int
    trades: int
    rejects: int
    live_orders: int


class Repetition(msgspec.Struct, frozen=True):
    """One run on one engine."""

    ns: float
    engine: Engine


def new_engine(sessions: int = 1, instruments: int = 1, orders_expected: int = 0) -> Engine:
    """Return an engine with so many instruments, from id 1, and sessions, from id 2."""
    engine = Engine(orders_expected=orders_expected)
    commands = [
        Command(
            kind=CommandKind.INSTRUMENT_DEFINE,
            instrument_id=1 + number,
            client_order_id=int.from_bytes(b"BENCH", "little"),
        )
        for number in range(instruments)
    ]
    commands += [
        Command(kind=CommandKind.SESSION_OPEN, session_id=2 + number) for number in range(sessions)
    ]
    engine.run(b"".join(command.pack() for command in commands))
    return engine


def walk(levels: int, samples: int) -> Result:
    """Fill N one-lot asks on N levels with one buy, again and again.

    `ns_per_op` is nanoseconds a trade; with one level those of the whole taker.

    Args:
        levels: N of walk-N.
        samples: trades, about.

    Raises:
        UsageError: a number is out of range.
    """
    if not 1 <= levels <= 1_000_000:
        raise UsageError(f"--n {levels} is not allowed; it must be 1 to 1000000")
    books = WALK_BOOKS if levels < SHORT_WALK else 1
    rounds = positive(samples) // (levels * books) or 1
    warm_rounds = WARM_UP_ORDERS // (levels * books) or 1

    def run() -> Repetition:
        engine = new_engine(instruments=books)
        engine_loops.walk(engine, levels, books, warm_rounds)
        taken_ns, _ = engine_loops.walk(engine, levels, books, rounds)
        return Repetition(taken_ns, engine)

    takers = (warm_rounds + rounds) * books
    return finish(
        f"walk-{levels}",
        rounds * books * levels,
        run,
        Expected(
            events=takers * (3 * levels + 2),
            trades=takers * levels,
            rejects=0,
            live_orders=0,
        ),
        {
            "levels": levels,
            "books": books,
            "takers": rounds * books,
            "operation": "a taker" if levels == 1 else "a trade",
        },
    )


def alternating(samples: int) -> Result:
    """Send equal bids and asks in turn; every second order fills the one before.

    Raises:
        UsageError: a number is out of range.
    """
    orders = positive(samples)
    if orders % 2:
        raise UsageError(f"--samples {samples} is not allowed; it must be an even number")

    def run() -> Repetition:
        engine = new_engine()
        engine_loops.alternating(engine, WARM_UP_ORDERS)
        return Repetition(engine_loops.alternating(engine, orders), engine)

    pairs = (WARM_UP_ORDERS + orders) // 2
    return finish(
        "alternating",
        orders,
        run,
        Expected(events=5 * pairs, trades=pairs, rejects=0, live_orders=0),
        {"operation": "an order"},
    )


def mixed(resting: int, samples: int, seed: int) -> Result:
    """Execute a seeded stream of every kind of order and of cancels that keeps a book's depth.

    Raises:
        UsageError: a number is out of range.
    """
    if not 1 <= resting <= 1_000_000:
        raise UsageError(f"--resting {resting} is not allowed; it must be 1 to 1000000")
    count = positive(samples)
    maker = new_engine(engine_loops.MIX_SESSIONS)
    # Sixteen commands for each order that is to rest are plenty.
    mix = engine_loops.Mix(maker, seed, resting, 16 * resting + count + MIX_WARM_UP + 10_000)
    parts = []
    while mix.live_orders < resting:
        parts.append(mix.fill(min(10_000, resting)))
    parts.append(mix.fill(MIX_WARM_UP))
    warm = b"".join(parts)
    before = state(maker)
    commands = mix.fill(count)
    after = state(maker)

    def run() -> Repetition:
        engine = new_engine(engine_loops.MIX_SESSIONS)
        engine.run(warm)
        return Repetition(engine_loops.stream(engine, commands), engine)

    bids, asks = maker.depth_levels()
    shares = command_shares(commands)
    trades = after.trade_count - before.trade_count
    return finish(
        f"mixed-{resting}",
        count,
        run,
        Expected(
            events=after.event_seq,
            trades=after.trade_count,
            rejects=after.reject_count,
            live_orders=after.live_order_count,
        ),
        {
            "operation": "a command",
            "resting_before": before.live_order_count,
            "resting_after": after.live_order_count,
            "levels_after": len(bids) + len(asks),
            "sessions": engine_loops.MIX_SESSIONS,
            "trades_per_command": round(trades / count, 3),
            "events_per_command": round((after.event_seq - before.event_seq) / count, 3),
            "refused_share": round((after.reject_count - before.reject_count) / count, 3),
            **shares,
        },
        seed=seed,
        twin=Digests(digest_text(after.state_digest), digest_text(after.event_digest)),
    )


def command_shares(commands: bytes) -> dict[str, float]:
    """Return which share of a stream each kind of command has."""
    count = len(commands) // COMMAND_SIZE
    kinds = commands[0::COMMAND_SIZE]
    types = commands[2::COMMAND_SIZE]
    found = {"share_cancel": kinds.count(CommandKind.CANCEL) / count}
    for order_type in OrderType:
        found[f"share_{order_type.name.lower()}"] = types.count(order_type) / count
    return {name: round(share, 3) for name, share in found.items()}


def positive(samples: int) -> int:
    """Check a number of samples.

    Raises:
        UsageError: it is not 1 to 100 million.
    """
    if not 1 <= samples <= 100_000_000:
        raise UsageError(f"--samples {samples} is not allowed; it must be 1 to 100000000")
    return samples


def state(engine: Engine) -> EngineState:
    """Return an engine's counters."""
    return EngineState.unpack(engine.state_bytes())


def finish(
    workload: str,
    operations: int,
    run: Callable[[], Repetition],
    expected: Expected,
    parameters: dict[str, object],
    seed: int | msgspec.UnsetType = msgspec.UNSET,
    twin: Digests | None = None,
) -> Result:
    """Run all repetitions, judge them and report the fastest."""
    load_average = results.load_average()
    found = [run() for _ in range(REPETITIONS)]
    best = min(found, key=lambda repetition: repetition.ns)
    checks: list[Check] = []
    digests = {
        (digest_text(one.engine.state_digest), digest_text(one.engine.event_digest))
        for one in found
    }
    checks.append(Check("digests_repeat", len(digests) == 1, f"{REPETITIONS} runs"))
    said = Digests(digest_text(best.engine.state_digest), digest_text(best.engine.event_digest))
    if twin is not None:
        checks.append(Check("digests_of_the_twin", said == twin, f"{twin.state} {twin.events}"))
    checks += engine_checks(best.engine, expected)
    result = Result(
        workload=workload,
        boundary="engine",
        policy="memory",
        poll="none",
        seed=seed,
        samples=operations,
        seconds=round(best.ns / 1e9, 6),
        rate_per_s=round(operations * 1e9 / best.ns) if best.ns else 0,
        ns_per_op=round(best.ns / operations, 2),
        digests=said,
        checks=checks,
        parameters={
            **parameters,
            "events": state(best.engine).event_seq,
            "fills": state(best.engine).trade_count,
            "repetitions_ns_per_op": [round(one.ns / operations, 2) for one in found],
        },
    )
    result.environment = results.environment(None, load_average)
    result.warnings = results.machine_warnings(result.environment)
    return result


def engine_checks(engine: Engine, expected: Expected) -> list[Check]:
    """Judge an engine at the end of its workload; O(everything)."""
    counted = state(engine)
    checks = [
        # Numbers are given out one by one: as many as events means that there is no gap.
        Check(
            "events_expected",
            counted.event_seq == expected.events,
            f"{counted.event_seq} of {expected.events}",
        ),
        Check(
            "trades_expected",
            counted.trade_count == expected.trades,
            f"{counted.trade_count} of {expected.trades}",
        ),
        Check(
            "rejects_expected",
            counted.reject_count == expected.rejects,
            f"{counted.reject_count} of {expected.rejects}",
        ),
        Check(
            "resting_expected",
            counted.live_order_count == expected.live_orders,
            f"{counted.live_order_count} of {expected.live_orders}",
        ),
        Check(
            "bought_equals_sold",
            counted.bought_lots == counted.sold_lots,
            f"{counted.bought_lots} and {counted.sold_lots} lots",
        ),
    ]
    try:
        engine.check()
    except AssertionError as broken:
        checks.append(Check("engine_invariants", False, str(broken)))
    else:
        checks.append(
            Check("engine_invariants", True, "levels, queues, totals, indexes, state digest")
        )
    return checks
