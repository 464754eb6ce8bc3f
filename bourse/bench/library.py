"""Benchmarks of the library: a call that returns its fills, a batch beside the engine alone.

The clock stands around the calls, in Python. Each workload runs REPETITIONS times, each time on a
new engine. A twin of the core executes the same commands, and must end with the same counters and
digests.
"""

from __future__ import annotations

import statistics
import time
from itertools import repeat

import msgspec

from bourse.admin.checks import Check
from bourse.bench import engine_loops, results
from bourse.bench.engine_runs import (
    COMMAND_SIZE,
    MIX_WARM_UP,
    REPETITIONS,
    new_engine,
    positive,
    state,
)
from bourse.bench.results import Digests, Result
from bourse.core.engine import Engine as CoreEngine
from bourse.core.records import Command, EngineState, digest_text
from bourse.domain import CommandKind, OrderType, Side
from bourse.errors import UsageError
from bourse.library.engine import SESSION_ID, Engine

CALLS_PER_BLOCK = 1000
"""Makers that rest before as many takers are timed."""

WARM_UP_BLOCKS = 20


class Repetition(msgspec.Struct, frozen=True):
    """One run."""

    ns: float
    engine: Engine
    engine_only_ns: float = 0.0


def call(samples: int) -> Result:
    """Send one IOC order a call, each filling one order, and look at its fills.

    `ns_per_op` is nanoseconds a call, its loop and `.fills` in it.

    Raises:
        UsageError: a number is out of range.
    """
    blocks = positive(samples) // CALLS_PER_BLOCK or 1

    def block(engine: Engine) -> int:
        for _ in repeat(None, CALLS_PER_BLOCK):
            engine.limit(Side.SELL, 1, 100)
        ioc, buy = engine.ioc, Side.BUY
        start_ns = time.perf_counter_ns()
        for _ in repeat(None, CALLS_PER_BLOCK):
            fills = ioc(buy, 1, 100).fills
        spent_ns = time.perf_counter_ns() - start_ns
        assert len(fills) == 1
        return spent_ns

    def run() -> Repetition:
        engine = Engine(symbols=["BENCH"])
        for _ in range(WARM_UP_BLOCKS):
            block(engine)
        return Repetition(sum(block(engine) for _ in range(blocks)), engine)

    load_average = results.load_average()
    found = [run() for _ in range(REPETITIONS)]
    calls = blocks * CALLS_PER_BLOCK
    return _result(
        "library-call",
        calls,
        found,
        _twin_of_calls(WARM_UP_BLOCKS + blocks),
        {"operation": "a call and its fill"},
        load_average,
    )


def _twin_of_calls(blocks: int) -> CoreEngine:
    """Return an engine that has executed the commands of so many blocks."""
    twin = new_engine()
    maker = Command(
        kind=CommandKind.NEW_ORDER,
        side=Side.SELL,
        order_type=OrderType.LIMIT,
        instrument_id=1,
        session_id=SESSION_ID,
        price_ticks=100,
        qty_lots=1,
    )
    taker = maker._replace(side=Side.BUY, order_type=OrderType.IOC)
    makers = [maker._replace(client_order_id=1 + at) for at in range(CALLS_PER_BLOCK)]
    one = b"".join(each.pack() for each in [*makers, *repeat(taker, CALLS_PER_BLOCK)])
    for _ in range(blocks):
        twin.run(one)
    return twin


def batch(resting: int, samples: int, batch_size: int, seed: int) -> Result:
    """Execute the stream of `mixed` in arrays, in turns with the engine alone.

    `ns_per_op` is nanoseconds a command through submit(); `times_engine_only` how much that is of
    what the same commands take in a compiled loop over the engine, the median of all repetitions.

    Raises:
        UsageError: a number is out of range, or NumPy is not installed.
    """
    if not 1 <= resting <= 1_000_000:
        raise UsageError(f"--resting {resting} is not allowed; it must be 1 to 1000000")
    if not 1 <= batch_size <= 1_000_000:
        raise UsageError(f"--batch {batch_size} is not allowed; it must be 1 to 1000000")
    count = positive(samples)
    try:
        import numpy

        from bourse.library.arrays import COMMAND_DTYPE
    except ImportError as error:
        raise UsageError(str(error)) from None

    maker = new_engine(engine_loops.MIX_SESSIONS)
    mix = engine_loops.Mix(maker, seed, resting, 16 * resting + count + MIX_WARM_UP + 10_000)
    parts = []
    while mix.live_orders < resting:
        parts.append(mix.fill(min(10_000, resting)))
    parts.append(mix.fill(MIX_WARM_UP))
    warm = b"".join(parts)
    before = state(maker)
    commands = mix.fill(count)
    after = state(maker)
    step = batch_size * COMMAND_SIZE
    pieces = [commands[at : at + step] for at in range(0, len(commands), step)]
    # Memory of its own, so that neither side finds a piece in the cache that the other has read.
    arrays = [numpy.frombuffer(piece, COMMAND_DTYPE).copy() for piece in pieces]

    def run() -> Repetition:
        core = new_engine(engine_loops.MIX_SESSIONS)
        core.run(warm)
        engine = Engine(symbols=["BENCH"], sessions=engine_loops.MIX_SESSIONS)
        engine.submit(numpy.frombuffer(warm, COMMAND_DTYPE))
        submit_ns = engine_only_ns = 0.0
        event_count = 0
        for number, (piece, array) in enumerate(zip(pieces, arrays, strict=True)):
            if number % 2:
                engine_only_ns += engine_loops.stream(core, piece)
            start_ns = time.perf_counter_ns()
            events = engine.submit(array)
            submit_ns += time.perf_counter_ns() - start_ns
            event_count += len(events)
            if not number % 2:
                engine_only_ns += engine_loops.stream(core, piece)
        # Each command has its HEAD beside its numbered events.
        assert event_count == after.event_seq - before.event_seq + count
        return Repetition(submit_ns, engine, engine_only_ns)

    load_average = results.load_average()
    found = [run() for _ in range(REPETITIONS)]
    ratios = [one.ns / one.engine_only_ns for one in found]
    return _result(
        f"library-batch-{resting}",
        count,
        found,
        maker,
        {
            "operation": "a command",
            "times_engine_only": round(statistics.median(ratios), 3),
            "repetitions_times_engine_only": [round(ratio, 3) for ratio in ratios],
            "engine_only_ns_per_op": round(min(one.engine_only_ns for one in found) / count, 2),
            "batch_size": batch_size,
            "events_per_command": round((after.event_seq - before.event_seq) / count, 3),
        },
        load_average,
        seed=seed,
    )


def _result(
    workload: str,
    operations: int,
    found: list[Repetition],
    twin: CoreEngine,
    parameters: dict[str, object],
    load_average: float,
    seed: int | msgspec.UnsetType = msgspec.UNSET,
) -> Result:
    """Judge all repetitions and report the fastest."""
    best = min(found, key=lambda repetition: repetition.ns)
    result = Result(
        workload=workload,
        boundary="library",
        policy="memory",
        poll="none",
        seed=seed,
        samples=operations,
        seconds=round(best.ns / 1e9, 6),
        rate_per_s=round(operations * 1e9 / best.ns) if best.ns else 0,
        ns_per_op=round(best.ns / operations, 2),
        digests=Digests(
            digest_text(best.engine.state_digest), digest_text(best.engine.event_digest)
        ),
        checks=_checks(found, twin),
        parameters={
            **parameters,
            "repetitions_ns_per_op": [round(one.ns / operations, 2) for one in found],
        },
    )
    result.environment = results.environment(None, load_average)
    result.warnings = results.machine_warnings(result.environment)
    return result


def _checks(found: list[Repetition], twin: CoreEngine) -> list[Check]:
    """Compare every repetition's engine with the twin, and prove one engine's invariants."""
    expected: EngineState = state(twin)
    differing = [
        name
        for one in found
        for name, ours, theirs in zip(expected._fields, one.engine.state, expected, strict=True)
        if ours != theirs
    ]
    checks = [
        Check("counters_of_the_twin", not differing, ", ".join(differing) or "digests included")
    ]
    try:
        found[0].engine.check()
    except AssertionError as broken:
        checks.append(Check("engine_invariants", False, str(broken)))
    else:
        checks.append(Check("engine_invariants", True, "levels, queues, totals, state digest"))
    return checks
