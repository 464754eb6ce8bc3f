"""The table of workloads: what `bourse bench` lists and runs, and what the documents quote.

A workload is a function of keyword arguments that returns a Result; its module is imported when it
runs. To add one, write the function in a file of its own and give it an entry here: its flags, and
its cases, which are its lines in `bourse bench all`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from bourse.bench.results import Result


class Flag(msgspec.Struct, frozen=True):
    """One flag of a workload."""

    name: str
    """Keyword of the workload's function."""
    flag: str
    """As it is typed: --n."""
    kind: type
    metavar: str
    help: str
    default: Any = None


class Bound(msgspec.Struct, frozen=True):
    """What a figure must reach: `ping_pong` times the run's own ping-pong plus `constant`."""

    figure: str
    """Field of the result, dotted: ns_per_op, rate_per_s, latency_ns.p50."""
    constant: float
    ping_pong: float = 0.0
    """Factor of the ping-pong of the same run; 0 where there is none."""
    at_least: bool = False
    """Whether more is better, as with a rate."""

    def limit(self, ping_pong_ns: float = 0.0) -> float:
        """Return the bound of a run with such a ping-pong."""
        return self.ping_pong * ping_pong_ns + self.constant

    def holds(self, value: float, ping_pong_ns: float = 0.0) -> bool:
        """Return whether a figure keeps the bound."""
        limit = self.limit(ping_pong_ns)
        return value >= limit if self.at_least else value <= limit


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One line of `bourse bench all`: a workload with its flags."""

    name: str
    """As its results name it: walk-1000."""
    flags: dict[str, Any] = {}
    """What makes it this case."""
    quick: dict[str, Any] = {}
    """How much of it `--quick` runs."""
    full: dict[str, Any] = {}
    """How much of it `--full` runs."""
    must: Bound | None = None
    unit: str = ""
    """What the figure is of: a trade, an order."""


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """One workload, and everything that is said about it."""

    name: str
    line: str
    """At most 51 characters for lists; the first of its help."""
    boundary: str
    """What its clock brackets; see docs/performance.md."""
    function: str
    """module:function, imported when it runs."""
    flags: tuple[Flag, ...]
    cases: tuple[Case, ...]
    text: str = ""
    """More help."""
    example: str
    """A command line to try, without `bourse bench`."""

    @property
    def needs_a_daemon(self) -> bool:
        """Whether it measures a daemon, private or at --connect."""
        return any(flag.name == "connect" for flag in self.flags)

    def run(self, **values: Any) -> Result:
        """Run it; flags that are not given have their defaults.

        Raises:
            BourseError: a flag is wrong, or no daemon answers.
        """
        from pkgutil import resolve_name

        from bourse.bench.results import Environment, noises

        defaults = {flag.name: flag.default for flag in self.flags}
        result: Result = resolve_name(self.function)(**{**defaults, **values})
        if isinstance(result.environment, Environment):
            result.quiet_reasons = noises(result.environment)
            result.quiet = not result.quiet_reasons
        return result


def samples(default: int, text: str) -> Flag:
    """Return the flag that says how much is measured."""
    return Flag("samples", "--samples", int, "N", text, default)


SEED = Flag("seed", "--seed", int, "N", "Seed of the workload.", 23)

FAULT = Flag(
    "fault",
    "--fault",
    str,
    "drop|double|quantity",
    "Spoil one event on its way to the checks, to see them fail.",
)

CLIENT = (
    Flag(
        "durability",
        "--durability",
        str,
        "memory|async|fsync",
        "What an acknowledgement means: matched, written, or synced to disk.",
    ),
    Flag(
        "poll",
        "--poll",
        str,
        "block|adaptive|busy",
        "How gateway and matcher wait: park, spin a little first, or spin.",
    ),
    Flag(
        "connect",
        "--connect",
        str,
        "HOST:PORT",
        "Measure a daemon that runs, with orders at 100 in its book, which must hold no buy from "
        "100 and no sell to 100. Default: a private one, started and removed.",
    ),
    Flag(
        "admin",
        "--admin",
        Path,
        "PATH",
        "Admin socket of the daemon at --connect, for policy, stages and digests.",
    ),
    SEED,
    Flag(
        "client_poll",
        "--client-poll",
        str,
        "block|busy",
        "How the client waits. Default: busy where the daemon is.",
    ),
    Flag(
        "data",
        "--data",
        Path,
        "DIR",
        "Where a private daemon's temporary directory is made. Default: a place on a disk.",
    ),
    FAULT,
)
"""Flags of every workload that measures a daemon."""

DATA = Flag(
    "data",
    "--data",
    Path,
    "DIR",
    "Where the temporary directory is made. Default: a place on a disk.",
)

ENGINE_SAMPLES = "Operations of each of five runs."

WORKLOADS = (
    Workload(
        name="walk",
        line="N asks on N levels, one buy that fills them all.",
        boundary="engine",
        function="bourse.bench.engine_runs:walk",
        flags=(
            Flag("levels", "--n", int, "N", "Levels that one buy fills.", 1000),
            samples(1_000_000, ENGINE_SAMPLES),
        ),
        cases=(
            Case(
                name="walk-1000",
                flags={"levels": 1000},
                quick={"samples": 1_000_000},
                full={"samples": 5_000_000},
                must=Bound("ns_per_op", 16),
                unit="a trade",
            ),
            Case(
                name="walk-1",
                flags={"levels": 1},
                quick={"samples": 500_000},
                full={"samples": 2_000_000},
                must=Bound("ns_per_op", 50),
                unit="the taker",
            ),
        ),
        text="The figure is a trade's time; with --n 1 the whole buy's. Only the buys are timed.",
        example="walk --n 1000",
    ),
    Workload(
        name="alternating",
        line="Equal bids and asks in turn: every second trades.",
        boundary="engine",
        function="bourse.bench.engine_runs:alternating",
        flags=(samples(2_000_000, ENGINE_SAMPLES),),
        cases=(
            Case(
                name="alternating",
                quick={"samples": 1_000_000},
                full={"samples": 5_000_000},
                must=Bound("ns_per_op", 35),
                unit="an order",
            ),
        ),
        example="alternating",
    ),
    Workload(
        name="mixed",
        line="All order types, cancels and mistakes, seeded.",
        boundary="engine",
        function="bourse.bench.engine_runs:mixed",
        flags=(
            Flag("resting", "--resting", int, "N", "Orders in the book.", 1000),
            samples(1_000_000, ENGINE_SAMPLES),
            SEED,
        ),
        cases=(
            Case(
                name="mixed-1000",
                flags={"resting": 1000},
                quick={"samples": 500_000},
                full={"samples": 2_000_000},
                must=Bound("ns_per_op", 80),
                unit="a command",
            ),
            Case(
                name="mixed-40000",
                flags={"resting": 40_000},
                quick={"samples": 500_000},
                full={"samples": 2_000_000},
                must=Bound("ns_per_op", 110),
                unit="a command",
            ),
        ),
        text="A fifth are cancels; prices are within 50 ticks of a walking mid; the book keeps its "
        "depth.",
        example="mixed --resting 40000",
    ),
    Workload(
        name="growth-tail",
        line="Every command timed while millions come to rest.",
        boundary="engine",
        function="bourse.bench.growth:run",
        flags=(
            samples(10_000_000, "Commands of each of three runs, whole millions."),
            Flag("levels", "--levels", int, "N", "Prices that the orders rest at.", 1000),
            Flag(
                "orders_expected",
                "--expect",
                int,
                "N",
                "Orders that the engine takes memory for at its start.",
                0,
            ),
        ),
        cases=(
            Case(
                name="growth-tail",
                quick={"samples": 2_000_000},
                full={"samples": 10_000_000},
                must=Bound("parameters.p99_99", 20_000),
                unit="p99.99",
            ),
        ),
        text="A clock without an engine runs beside it for as long, and as many new pages are "
        "touched. What is slow in every run is the engine's. Takes 1.2 GB of memory.",
        example="growth-tail --samples 2000000",
    ),
    Workload(
        name="mixed-league",
        line="95 % of orders cancelled; reports to a 2nd thread.",
        boundary="reported",
        function="bourse.bench.league:run",
        flags=(
            Flag(
                "size",
                "--shape",
                str,
                "small|middle|large",
                "240, 3,200 or 42,000 orders on 60, 300 or 1,400 levels. Default: all.",
            ),
            Flag("resting", "--resting", int, "N", "Resting orders of another shape."),
            Flag(
                "levels",
                "--levels",
                int,
                "N",
                "Levels to go with --resting. Default: 25 orders on each.",
            ),
            Flag(
                "mid",
                "--mid",
                str,
                "static|normal|swing",
                "How the mid moves. Default: each way in turn.",
            ),
            samples(2_000_000, "Messages of each of five runs of a shape."),
            SEED,
        ),
        cases=(
            Case(
                name="mixed-league",
                quick={"samples": 100_000},
                full={"samples": 2_000_000},
                must=Bound("rate_per_s", 6_000_000, at_least=True),
                unit="a message of the slowest shape",
            ),
        ),
        text="New, cancel and replace messages, made beforehand from the seed; the engine's thread "
        "hands every event to a second thread, which reads and checks it. The figure is the "
        "slowest shape's; parameters.shapes has them all.",
        example="mixed-league --shape large --mid swing",
    ),
    Workload(
        name="library-call",
        line="One Python call an order, its fills returned.",
        boundary="library",
        function="bourse.bench.library:call",
        flags=(samples(500_000, "Calls of each of five runs."),),
        cases=(
            Case(
                name="library-call",
                quick={"samples": 200_000},
                full={"samples": 2_000_000},
                must=Bound("ns_per_op", 400),
                unit="a call",
            ),
        ),
        text="An IOC order that fills one resting order; the loop around the calls is timed with "
        "them.",
        example="library-call",
    ),
    Workload(
        name="library-batch",
        line="NumPy arrays of commands, beside the engine alone.",
        boundary="library",
        function="bourse.bench.library:batch",
        flags=(
            Flag("resting", "--resting", int, "N", "Orders in the book.", 1000),
            samples(1_000_000, "Commands of each of five runs."),
            Flag("batch_size", "--batch", int, "N", "Commands of an array.", 4096),
            SEED,
        ),
        cases=(
            Case(
                name="library-batch-1000",
                flags={"resting": 1000},
                quick={"samples": 500_000},
                full={"samples": 2_000_000},
                must=Bound("parameters.times_engine_only", 1.5),
                unit="of the engine alone",
            ),
        ),
        text="The stream of `mixed`, piece by piece through submit() and through a compiled loop "
        "over the engine, in turns.",
        example="library-batch --batch 65536",
    ),
    Workload(
        name="commit",
        line="N records and one fdatasync, against one record.",
        boundary="journal",
        function="bourse.bench.journal_runs:commit",
        flags=(
            Flag("count", "--n", int, "N", "Records of a batch.", 256),
            samples(200, "Pairs of a batch and a single commit."),
            DATA,
        ),
        cases=tuple(
            Case(
                name=f"commit-{count}",
                flags={"count": count},
                quick={"samples": 50},
                full={"samples": 1000},
                must=Bound("parameters.batch_to_single", 2.5) if count == 256 else None,
                unit="a batch",
            )
            for count in (1, 8, 64, 256)
        ),
        text="Through the daemon's own journal thread. `speedup` is one fdatasync for all records "
        "over one for each.",
        example="commit --n 256",
    ),
    Workload(
        name="journal",
        line="Records to durable at full speed, beside dd.",
        boundary="journal",
        function="bourse.bench.journal_runs:journal",
        flags=(samples(2_000_000, "Records of each of five rounds."), DATA),
        cases=(
            Case(
                name="journal",
                quick={"samples": 300_000},
                full={"samples": 5_000_000},
                must=Bound("rate_per_s", 1_000_000, at_least=True),
                unit="records",
            ),
        ),
        text="dd writes as many bytes, 1 MiB at a time, each durable, in turns.",
        example="journal",
    ),
    Workload(
        name="recovery",
        line="A daemon's start: replay of N records, a snapshot.",
        boundary="journal",
        function="bourse.bench.recovery_run:measure",
        flags=(
            samples(10_000_000, "Records of the log that is replayed."),
            Flag("resting", "--resting", int, "N", "Orders in the snapshot.", 1_000_000),
            DATA,
        ),
        cases=(
            Case(
                name="recovery",
                quick={"samples": 1_000_000, "resting": 100_000},
                full={"samples": 10_000_000, "resting": 1_000_000},
                unit="a record",
            ),
        ),
        text="From the start of the process until it accepts, on a warm cache. The full size takes "
        "a gigabyte of disk for a minute.",
        example="recovery",
    ),
    Workload(
        name="snapshot-stall",
        line="How long matching stands still for a snapshot.",
        boundary="client",
        function="bourse.bench.snapshot_stall:measure",
        flags=(
            Flag("resting", "--resting", int, "N", "Orders in the book.", 100_000),
            Flag("rate", "--rate", int, "R", "Orders a second that flow meanwhile.", 100_000),
            Flag(
                "durability", "--durability", str, "async|fsync", "Policy of the daemon.", "fsync"
            ),
            DATA,
        ),
        cases=(
            Case(
                name="snapshot-stall-100000",
                flags={"resting": 100_000},
                must=Bound("parameters.pause_ns_max", 2_000_000),
                unit="pause",
            ),
            Case(
                name="snapshot-stall-1000000",
                flags={"resting": 1_000_000},
                must=Bound("parameters.pause_ns_max", 15_000_000),
                unit="pause",
            ),
        ),
        example="snapshot-stall --resting 1000000",
    ),
    Workload(
        name="pipeline",
        line="From one core through the matcher and back.",
        boundary="pipeline",
        function="bourse.bench.pipeline:pipeline",
        flags=(
            Flag(
                "workload",
                "--workload",
                str,
                "market|cross",
                "A Market order on an empty book, or a Sell and the Buy that fills it.",
                "market",
            ),
            samples(1_000_000, "Round trips, about."),
            FAULT,
        ),
        cases=(
            Case(
                name="pipeline-market",
                flags={"workload": "market"},
                quick={"samples": 200_000},
                full={"samples": 5_000_000},
                must=Bound("ns_per_op", 50, ping_pong=1.5),
                unit="a trip",
            ),
            Case(
                name="pipeline-cross",
                flags={"workload": "cross"},
                quick={"samples": 200_000},
                full={"samples": 5_000_000},
                must=Bound("ns_per_op", 200, ping_pong=1.5),
                unit="a trip",
            ),
        ),
        text="Two pinned threads: this one, and the daemon's own matcher. One cache line bounced "
        "between the same two CPUs in turn with it, there and back, is printed beside it.",
        example="pipeline --workload cross",
    ),
    Workload(
        name="ring",
        line="A record pushed into a ring and popped.",
        boundary="pipeline",
        function="bourse.bench.pipeline:ring",
        flags=(samples(20_000_000, "Records of each of five runs."),),
        cases=(
            Case(
                name="ring",
                quick={"samples": 10_000_000},
                full={"samples": 100_000_000},
                must=Bound("ns_per_op", 5),
                unit="both",
            ),
        ),
        text="One thread does both.",
        example="ring",
    ),
    Workload(
        name="console-cost",
        line="What a console takes while it watches.",
        boundary="console",
        function="bourse.bench.console_cost:measure",
        flags=(
            Flag("size", "--size", str, "COLUMNSxROWS", "The terminal's size.", "120x36"),
            Flag("rate", "--rate-hz", int, "1|2|5|10|20", "Paints a second.", 5),
            Flag(
                "seconds",
                "--seconds",
                float,
                "N",
                "How long it is measured beside a market, and beside one at rest.",
                20.0,
            ),
            Flag(
                "pairs",
                "--pairs",
                int,
                "N",
                "Pairs of round-trip runs, without and with a console; 0 leaves them out.",
                20,
            ),
            DATA,
        ),
        cases=(
            Case(
                name="console-cost-120x36",
                flags={"size": "120x36"},
                quick={"seconds": 3.0, "pairs": 0},
                full={"seconds": 60.0, "pairs": 40},
            ),
        ),
        text=(
            "Processor time, bytes to the terminal and memory of `bourse tui` beside the demo's "
            "market, and at rest; and how much longer round trips take while it watches, as the "
            "median over pairs of runs. At 120x36 and 5 Hz the budgets are checks."
        ),
        example="console-cost --size 200x60",
    ),
    Workload(
        name="rtt",
        line="A Buy that fills at once, from send to Done.",
        boundary="client",
        function="bourse.bench.rtt:measure",
        flags=(samples(10_000, "Round trips."), *CLIENT),
        cases=(
            Case(
                name="rtt-memory",
                flags={"durability": "memory", "poll": "busy"},
                quick={"samples": 10_000},
                full={"samples": 200_000},
                must=Bound("latency_ns.p50", 25_000),
                unit="p50",
            ),
            Case(
                name="rtt-fsync",
                flags={"durability": "fsync", "poll": "busy"},
                quick={"samples": 2_000},
                full={"samples": 50_000},
                unit="p50",
            ),
        ),
        text="With policy fsync the disk's own fdatasync is timed in the same run, beside the log.",
        example="rtt --durability fsync --poll busy",
    ),
    Workload(
        name="burst",
        line="N orders in one write, every event verified.",
        boundary="client",
        function="bourse.bench.burst:measure",
        flags=(samples(200_000, "Orders, an even number."), *CLIENT),
        cases=(
            Case(
                name="burst-memory",
                flags={"durability": "memory"},
                quick={"samples": 200_000},
                full={"samples": 2_000_000},
                must=Bound("rate_per_s", 800_000, at_least=True),
                unit="orders",
            ),
            Case(
                name="burst-fsync",
                flags={"durability": "fsync"},
                quick={"samples": 200_000},
                full={"samples": 2_000_000},
                must=Bound("rate_per_s", 400_000, at_least=True),
                unit="orders",
            ),
        ),
        example="burst --durability memory",
    ),
    Workload(
        name="load",
        line="An offered rate; each order timed since it was due.",
        boundary="client",
        function="bourse.bench.load:measure",
        flags=(
            Flag("rate", "--rate", int, "R", "Orders a second.", 10_000),
            Flag(
                "seconds",
                "--seconds",
                float,
                "S",
                "For how long; at least 30 for a figure to publish.",
                30.0,
            ),
            *CLIENT,
        ),
        cases=(
            Case(
                name="load-10000",
                flags={"rate": 10_000, "durability": "fsync"},
                quick={"seconds": 3.0},
                full={"seconds": 30.0},
                unit="p50",
            ),
            Case(
                name="load-100000",
                flags={"rate": 100_000, "durability": "memory"},
                quick={"seconds": 3.0},
                full={"seconds": 30.0},
                unit="p50",
            ),
        ),
        text="Open loop: the daemon being slow does not slow the offer, and a stall is charged to "
        "every order that it delayed.",
        example="load --rate 50000 --seconds 30 --durability memory",
    ),
    Workload(
        name="fan-in",
        line="Many connections at once, every event verified.",
        boundary="client",
        function="bourse.bench.fan_in:measure",
        flags=(
            Flag(
                "connections",
                "--connections",
                int,
                "M",
                "How many, an even number; half sell, half buy.",
                64,
            ),
            samples(200_000, "Orders of all connections together."),
            *CLIENT,
        ),
        cases=(
            Case(
                name="fan-in-64",
                flags={"connections": 64, "durability": "memory"},
                quick={"samples": 100_000},
                full={"samples": 2_000_000},
                unit="an order",
            ),
        ),
        text="Each connection sends its next order when the last was accepted; an order's clock "
        "runs from its send to its Accepted.",
        example="fan-in --connections 256 --durability memory",
    ),
)


def find(name: str) -> Workload | None:
    """Return the workload of this name, None when there is none."""
    return next((workload for workload in WORKLOADS if workload.name == name), None)


def list_lines() -> list[str]:
    """Return the list of `bourse bench`: name, boundary and line, in at most 80 columns."""
    return [f"  {each.name:<14}  {each.boundary:<9}  {each.line}" for each in WORKLOADS]
