"""`mixed-league`: two million messages, nearly every order cancelled, read by a second thread.

The stream has the shape of a public league's: 15 % IOC orders, 20 % replaces, 2 % cancels and
replaces of orders that have ended, the rest new orders and cancels; of the orders that rest, 95 %
end by a cancel. The boundary is called `reported`: an engine's thread, whose events a second
thread has read and checked. How far from the mid an order rests follows a power law; its range is
calibrated until the book has the number of levels that was asked for. Each shape has its figure,
and the slowest one is the workload's.
"""

from __future__ import annotations

import array
import os
import threading
from collections.abc import Iterable
from typing import Any

import msgspec

from bourse.admin.checks import Check
from bourse.bench import engine_runs, league_flow, league_loops, results
from bourse.bench.results import Digests, Result
from bourse.core.engine import Engine
from bourse.core.records import digest_text
from bourse.core.ring import RingMemory
from bourse.errors import UsageError

MESSAGES = 2_000_000
REPETITIONS = 5
MIDS = ("static", "normal", "swing")
SIZES = {"small": (240, 60), "middle": (3_200, 300), "large": (42_000, 1_400)}
"""Resting orders and levels of the named shapes."""

RING_EVENTS = 1 << 12
EVENT_SIZE = 64
PING_PONG_ROUNDS = 5_000
PING_PONGS = 20

TAIL_EXPONENT = 1.6
"""Of the distances' density: 1 + mu with mu = 0.6 (Bouchaud, Mezard, Potters 2002)."""
DISTANCE_MAX = 1 << 20
LIFETIMES_PER_SWING = 12
"""Messages of a whole swing for each resting order: an order lives for about two."""
PILOT_MESSAGES = 50_000
LEVELS_TOLERANCE = 0.03
CALIBRATIONS_MAX = 8
RESTING_MARGIN, LEVELS_MARGIN, SHARE_MARGIN = 0.05, 0.1, 0.01
"""How far the stream may be from what was asked for."""


class Shape(msgspec.Struct, frozen=True):
    """A book to keep, and how its mid moves."""

    resting: int
    levels: int
    mid: str

    @property
    def name(self) -> str:
        """Return such as 240/60/static."""
        return f"{self.resting}/{self.levels}/{self.mid}"

    @property
    def period(self) -> int:
        """Messages of a whole swing."""
        return LIFETIMES_PER_SWING * self.resting

    @property
    def amplitude(self) -> int:
        """How far the mid swings to each side, in ticks."""
        return max(2, self.levels // 10)


class Stream(msgspec.Struct, frozen=True):
    """What was made for a shape: warm-up, messages, and what an engine must answer."""

    shape: Shape
    warm: bytes
    commands: bytes
    counts: dict[str, int]
    before: Any
    after: Any


def run(
    size: str | None = None,
    resting: int | None = None,
    levels: int | None = None,
    mid: str | None = None,
    samples: int = MESSAGES,
    seed: int = 23,
) -> Result:
    """Measure the shapes that were asked for: all of them, unless something narrows them.

    Args:
        size: small, middle or large.
        resting: live orders, instead of a size.
        levels: levels to go with them; None: 25 orders on each.
        mid: static, normal or swing.
        samples: messages of each run.
        seed: of the streams.

    Raises:
        UsageError: a flag is out of range, or two do not go together.
    """
    shapes = chosen(size, resting, levels, mid)
    engine_runs.positive(samples)
    load_average = results.load_average()
    cpus = sorted(os.sched_getaffinity(0))
    checks: list[Check] = []
    figures: dict[str, dict[str, object]] = {}
    worst: tuple[float, Shape, Digests] | None = None
    ping_pong_ns = ping_pong(cpus)
    for shape in shapes:
        stream = make(shape, samples, seed)
        found = [measure(stream, cpus) for _ in range(REPETITIONS)]
        best = min(found, key=lambda one: one.findings["ns"])
        figures[shape.name] = figure(stream, found, best)
        digests = {(one.state_digest, one.engine.event_digest) for one in found}
        repeat = Check("digests_repeat", len(digests) == 1, f"{REPETITIONS} runs")
        checks += [
            Check(f"{check.name} {shape.name}", check.ok, check.detail)
            for check in (repeat, *judge(stream, best))
        ]
        ns_per_message = best.findings["ns"] / samples
        if worst is None or ns_per_message > worst[0]:
            said = Digests(digest_text(best.state_digest), digest_text(best.engine.event_digest))
            worst = (ns_per_message, shape, said)
    assert worst is not None
    result = Result(
        workload="mixed-league",
        boundary="reported",
        policy="memory",
        poll="busy",
        seed=seed,
        samples=samples,
        seconds=round(worst[0] * samples / 1e9, 6),
        rate_per_s=round(1e9 / worst[0]),
        ns_per_op=round(worst[0], 2),
        digests=worst[2],
        checks=checks,
        parameters={
            "operation": f"a message of the slowest shape, {worst[1].name}",
            "shapes": figures,
            "ping_pong_ns": round(ping_pong_ns, 1),
            "sessions": league_flow.FLOW_SESSIONS,
            "ring_events": RING_EVENTS,
            "publish_every_messages": league_loops.PUBLISH_EVERY,
            "cpus": cpus[:2],
        },
    )
    result.environment = results.environment(None, load_average)
    result.warnings = results.machine_warnings(result.environment)
    if len(cpus) < 2:
        result.warnings.append("one CPU for two threads: they took turns")
    return result


def chosen(
    size: str | None, resting: int | None, levels: int | None, mid: str | None
) -> list[Shape]:
    """Return the shapes that the flags mean."""
    if size is not None and (resting is not None or levels is not None):
        raise UsageError("--shape goes without --resting and --levels; leave one of them away")
    if size is not None and size not in SIZES:
        raise UsageError(f"--shape {size} is not allowed; it must be {' or '.join(SIZES)}")
    if levels is not None and resting is None:
        raise UsageError("--levels needs --resting; give both")
    if mid is not None and mid not in MIDS:
        raise UsageError(f"--mid {mid} is not allowed; it must be {' or '.join(MIDS)}")
    if resting is not None:
        if not 100 <= resting <= 1_000_000:
            raise UsageError(f"--resting {resting} is not allowed; it must be 100 to 1000000")
        if levels is None:
            levels = max(10, resting // 25)
        if not 10 <= levels <= resting // 2:
            raise UsageError(
                f"--levels {levels} is not allowed; it must be 10 to {resting // 2}, half of the "
                "resting orders"
            )
        sizes: Iterable[tuple[int, int]] = [(resting, levels)]
    else:
        sizes = [SIZES[size]] if size is not None else SIZES.values()
    return [Shape(*pair, one) for pair in sizes for one in (MIDS if mid is None else (mid,))]


# --- The stream -----------------------------------------------------------------------------------


def densities(levels: int, reach: int) -> list[float]:
    """Return how probable each distance from the mid is, from one tick on.

    A power law that is flat near the mid, where orders are cancelled and filled sooner.
    """
    flat = max(1.0, levels / 40)
    weights = [(distance + flat) ** -TAIL_EXPONENT for distance in range(1, reach + 1)]
    whole = sum(weights)
    return [weight / whole for weight in weights]


def occupied(resting: int, levels: int, reach: int) -> float:
    """Return how many levels so many orders are expected on, both sides together."""
    from math import exp

    orders = resting / 2
    return 2 * sum(1 - exp(-orders * density) for density in densities(levels, reach))


def reach_of(resting: int, levels: int, wanted: float) -> int:
    """Return the greatest distance with which about the wanted number of levels is occupied."""
    low, high = 1, max(2, levels)
    while occupied(resting, levels, high) < wanted and high < DISTANCE_MAX // 16:
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        if occupied(resting, levels, middle) < wanted:
            low = middle
        else:
            high = middle
    return high


def distance_table(levels: int, reach: int) -> bytes:
    """Return distances as often as they are probable."""
    table = array.array("I")
    total = 0.0
    for distance, density in enumerate(densities(levels, reach), 1):
        total += density
        table.extend([distance] * (round(total * league_flow.DISTANCES) - len(table)))
    table.extend([reach] * (league_flow.DISTANCES - len(table)))
    return table[: league_flow.DISTANCES].tobytes()


def flow_of(shape: Shape, reach: int, seed: int, messages: int) -> tuple[league_flow.Flow, Engine]:
    """Return a flow with an empty book, and its engine."""
    maker = engine_runs.new_engine(league_flow.FLOW_SESSIONS)
    flow = league_flow.Flow(
        maker,
        seed,
        shape.resting,
        MIDS.index(shape.mid),
        shape.amplitude,
        shape.period,
        distance_table(shape.levels, reach),
        messages + 1,
    )
    return flow, maker


def warm_messages(shape: Shape) -> int:
    """Return how many messages make a filled book the flow's own: several orders' lives."""
    return max(20_000, 6 * shape.resting)


def make(shape: Shape, samples: int, seed: int) -> Stream:
    """Make a shape's stream; tries the range of distances until the number of levels is right."""
    pilot = max(PILOT_MESSAGES, shape.period)
    warm = warm_messages(shape)
    wanted = float(shape.levels)
    reach = reach_of(shape.resting, shape.levels, wanted)
    for _ in range(CALIBRATIONS_MAX):
        flow, _engine = flow_of(shape, reach, seed, shape.resting + warm + pilot)
        flow.fill(shape.resting, True)
        flow.fill(warm)
        flow.forget_counts()
        flow.fill(pilot)
        counts = flow.counts()
        ratio = counts["levels_sum"] / counts["samples"] / shape.levels
        if abs(ratio - 1) <= LEVELS_TOLERANCE:
            break
        wanted /= ratio
        reach = reach_of(shape.resting, shape.levels, wanted)
    flow, maker = flow_of(shape, reach, seed, shape.resting + warm + samples)
    filled = flow.fill(shape.resting, True) + flow.fill(warm)
    flow.forget_counts()
    before = engine_runs.state(maker)
    commands = flow.fill(samples)
    return Stream(
        shape=shape,
        warm=filled,
        commands=commands,
        counts={**flow.counts(), "reach_ticks": reach},
        before=before,
        after=engine_runs.state(maker),
    )


# --- One run --------------------------------------------------------------------------------------


class Run(msgspec.Struct, frozen=True):
    """One engine at its end, and what the second thread found."""

    engine: Engine
    findings: dict[str, int]

    @property
    def state_digest(self) -> int:
        """Digest of the book at the end."""
        return self.engine.state_digest


def pinned(cpus: list[int], which: int) -> None:
    """Keep the calling thread on one CPU, where there are two."""
    if len(cpus) > 1:
        os.sched_setaffinity(0, {cpus[which]})


def with_second_thread(cpus: list[int], first: Any, second: Any) -> Any:
    """Run two functions on a CPU each and return what the first one returned."""

    def body() -> None:
        pinned(cpus, 0)
        second()

    before = os.sched_getaffinity(0)
    thread = threading.Thread(target=body, name="bench-reader")
    thread.start()
    try:
        pinned(cpus, 1)
        found = first()
        thread.join()
    finally:
        os.sched_setaffinity(0, before)
    return found


def ping_pong(cpus: list[int]) -> float:
    """Return the nanoseconds in which one cache line goes to the other CPU and back, at best."""
    handover = league_loops.Handover(RingMemory(2, EVENT_SIZE))
    return min(
        float(
            with_second_thread(
                cpus,
                lambda: handover.serve(PING_PONG_ROUNDS),
                lambda: handover.send_back(PING_PONG_ROUNDS),
            )
        )
        for _ in range(PING_PONGS)
    )


def measure(stream: Stream, cpus: list[int]) -> Run:
    """Execute a stream once on a new engine."""
    engine = engine_runs.new_engine(league_flow.FLOW_SESSIONS)
    engine.run(stream.warm)
    handover = league_loops.Handover(RingMemory(RING_EVENTS, EVENT_SIZE))
    wal_seq, event_seq, digest = engine.wal_seq, engine.event_seq, engine.event_digest
    with_second_thread(
        cpus,
        lambda: handover.write(engine, stream.commands),
        lambda: handover.read(wal_seq, event_seq, digest),
    )
    return Run(engine, handover.findings())


def figure(stream: Stream, found: list[Run], best: Run) -> dict[str, object]:
    """Describe a shape's figure and what its stream was like."""
    counts = stream.counts
    messages = len(stream.commands) // engine_runs.COMMAND_SIZE
    samples = counts["samples"]
    return {
        "messages_per_s": round(messages * 1e9 / best.findings["ns"]),
        "ns_per_message": round(best.findings["ns"] / messages, 2),
        "repetitions_ns_per_message": [round(one.findings["ns"] / messages, 2) for one in found],
        "ring_was_full": best.findings["full"],
        "resting": [
            counts["resting_least"],
            round(counts["resting_sum"] / samples),
            counts["resting_most"],
        ],
        "levels": [
            counts["levels_least"],
            round(counts["levels_sum"] / samples),
            counts["levels_most"],
        ],
        "mid_range_ticks": counts["mid_range"],
        "reach_ticks": counts["reach_ticks"],
        **{
            f"share_{name}": round(counts[count] / messages, 4)
            for name, count in (
                ("new_limit", "news"),
                ("new_ioc", "iocs"),
                ("cancel", "cancels"),
                ("replace", "replaces"),
                ("repeated", "repeats"),
            )
        },
        "cancelled_share_of_ended": round(1 - counts["filled"] / max(1, counts["ended"]), 4),
        "trades_per_message": round(counts["trades"] / messages, 4),
        "events_per_message": round(
            1 + (stream.after.event_seq - stream.before.event_seq) / messages, 3
        ),
    }


def judge(stream: Stream, run: Run) -> list[Check]:
    """Judge the stream's shape, the reader's findings and the engine."""
    shape, counts, findings = stream.shape, stream.counts, run.findings
    messages = len(stream.commands) // engine_runs.COMMAND_SIZE
    before, after = stream.before, stream.after
    resting = counts["resting_sum"] / counts["samples"]
    levels = counts["levels_sum"] / counts["samples"]
    cancelled = 1 - counts["filled"] / max(1, counts["ended"])
    seen = findings["accepted"] + findings["trades"] + findings["replaced"] + findings["dones"]
    checks = [
        Check(
            "calibrated_resting",
            abs(resting / shape.resting - 1) <= RESTING_MARGIN,
            f"{resting:.0f} of {shape.resting}",
        ),
        Check(
            "calibrated_levels",
            abs(levels / shape.levels - 1) <= LEVELS_MARGIN,
            f"{levels:.0f} of {shape.levels}",
        ),
        Check(
            "calibrated_cancels",
            abs(cancelled - 0.95) <= SHARE_MARGIN,
            f"{cancelled:.4f} of the orders that ended were cancelled",
        ),
        Check(
            "read_every_event",
            findings["heads"] == messages
            and seen == after.event_seq - before.event_seq
            and findings["strangers"] == 0,
            f"{findings['heads']} heads, {seen} events",
        ),
        Check("read_gapless", findings["gaps"] == 0, f"{findings['gaps']} gaps"),
        Check(
            "read_trades",
            findings["trades"] == counts["trades"]
            and findings["bought_lots"] + findings["sold_lots"] == counts["traded_lots"]
            and after.bought_lots - before.bought_lots == counts["traded_lots"],
            f"{findings['trades']} of {counts['trades']}, {counts['traded_lots']} lots",
        ),
        Check(
            "read_digest",
            findings["event_digest"] == after.event_digest == run.engine.event_digest,
            digest_text(findings["event_digest"]),
        ),
        Check("book_digest", run.state_digest == after.state_digest, "the flow's own engine's"),
    ]
    return checks + engine_runs.engine_checks(
        run.engine,
        engine_runs.Expected(
            events=after.event_seq,
            trades=after.trade_count,
            rejects=after.reject_count,
            live_orders=after.live_order_count,
        ),
    )
