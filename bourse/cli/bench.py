"""bourse bench: measure, with every check green or the figure is void."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bourse.cli.options import DurabilityOption, PollOption, command_app
from bourse.cli.output import duration, say

if TYPE_CHECKING:
    from bourse.bench.results import Result
    from bourse.bench.run import Options

app = command_app(
    "Measure the exchange; each figure comes with its policy, environment and checks."
)

ConnectOption = Annotated[
    str | None,
    typer.Option(
        "--connect",
        metavar="HOST:PORT",
        help="Measure a daemon that runs. Default: a private one, started and removed.",
        show_default=False,
    ),
]
AdminOfConnectOption = Annotated[
    Path | None,
    typer.Option(
        "--admin",
        metavar="PATH",
        help="Admin socket of the daemon at --connect, for policy, stages and digests.",
        show_default=False,
    ),
]
SeedOption = Annotated[int, typer.Option("--seed", metavar="N", help="Seed of the workload.")]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print one JSON object (docs/performance.md).")
]
ClientPollOption = Annotated[
    str | None,
    typer.Option(
        "--client-poll",
        metavar="block|busy",
        help="How the client waits. Default: busy where the daemon is.",
        show_default=False,
    ),
]
DataOption = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="Where a private daemon's temporary directory is made. Default: a place on a disk.",
        show_default=False,
    ),
]


@app.command()
def rtt(
    durability: DurabilityOption = None,
    poll: PollOption = None,
    connect: ConnectOption = None,
    samples: Annotated[int, typer.Option("--samples", metavar="N", help="Round trips.")] = 10_000,
    seed: SeedOption = 23,
    as_json: JsonOption = False,
    client_poll: ClientPollOption = None,
    data: DataOption = None,
    admin: AdminOfConnectOption = None,
) -> int:
    """Round trip over TCP: a Buy that fills at once, from its send to its Done.

    With policy fsync the disk's own fdatasync is timed in the same run, beside the log.

    \b
    Example:
      bourse bench rtt --durability fsync --poll busy

    \b
    Exit codes:
      0  every check is ok
      1  a check failed: the figure is void
      2  wrong usage
      3  no daemon answers at --connect
    """
    from bourse.bench import rtt as workload

    options = _options(durability, poll, connect, samples, seed, client_poll, data, admin)
    return _show(workload.run(options), as_json)


@app.command()
def burst(
    durability: DurabilityOption = None,
    poll: PollOption = None,
    connect: ConnectOption = None,
    samples: Annotated[
        int, typer.Option("--samples", metavar="N", help="Orders, an even number.")
    ] = 200_000,
    seed: SeedOption = 23,
    as_json: JsonOption = False,
    client_poll: ClientPollOption = None,
    data: DataOption = None,
    admin: AdminOfConnectOption = None,
) -> int:
    """Orders a second over TCP: N of them in one write, every event read and verified.

    \b
    Example:
      bourse bench burst --durability memory

    \b
    Exit codes:
      0  every check is ok
      1  a check failed: the figure is void
      2  wrong usage
      3  no daemon answers at --connect
    """
    from bourse.bench import burst as workload

    options = _options(durability, poll, connect, samples, seed, client_poll, data, admin)
    return _show(workload.run(options), as_json)


EngineSamplesOption = Annotated[
    int, typer.Option("--samples", metavar="N", help="Operations of each of five runs.")
]


@app.command()
def walk(
    levels: Annotated[
        int, typer.Option("--n", metavar="N", help="Levels that one buy fills.")
    ] = 1000,
    samples: EngineSamplesOption = 1_000_000,
    as_json: JsonOption = False,
) -> int:
    """The engine alone: N one-lot asks on N levels, one buy that fills them all.

    The figure is a trade's time; with --n 1 the whole buy's. Only the buys are timed.

    \b
    Example:
      bourse bench walk --n 1000

    \b
    Exit codes:
      0  every check is ok
      1  a check failed: the figure is void
      2  wrong usage
    """
    from bourse.bench import engine_runs

    return _show(engine_runs.walk(levels, samples), as_json)


@app.command()
def alternating(
    samples: EngineSamplesOption = 2_000_000,
    as_json: JsonOption = False,
) -> int:
    """The engine alone: equal bids and asks in turn, every second order a trade.

    \b
    Example:
      bourse bench alternating

    \b
    Exit codes:
      0  every check is ok
      1  a check failed: the figure is void
      2  wrong usage
    """
    from bourse.bench import engine_runs

    return _show(engine_runs.alternating(samples), as_json)


@app.command()
def mixed(
    resting: Annotated[
        int, typer.Option("--resting", metavar="N", help="Orders in the book.")
    ] = 1000,
    samples: EngineSamplesOption = 1_000_000,
    seed: SeedOption = 23,
    as_json: JsonOption = False,
) -> int:
    """The engine alone: a seeded stream of all order types, cancels, mistakes.

    A fifth are cancels; prices are within 50 ticks of a walking mid; the book keeps its depth.

    \b
    Example:
      bourse bench mixed --resting 40000

    \b
    Exit codes:
      0  every check is ok
      1  a check failed: the figure is void
      2  wrong usage
    """
    from bourse.bench import engine_runs

    return _show(engine_runs.mixed(resting, samples, seed), as_json)


def _options(
    durability: str | None,
    poll: str | None,
    connect: str | None,
    samples: int,
    seed: int,
    client_poll: str | None,
    data: Path | None,
    admin: Path | None,
) -> Options:
    from bourse.bench.run import Options
    from bourse.config import parse_choice
    from bourse.domain import Durability, PollMode
    from bourse.errors import UsageError

    if client_poll not in (None, "block", "busy"):
        raise UsageError(f"--client-poll {client_poll} is not allowed; it must be block or busy")
    return Options(
        samples=samples,
        durability=Durability(parse_choice("durability", durability)) if durability else None,
        poll=PollMode(parse_choice("poll", poll)) if poll else None,
        connect=connect,
        admin=admin,
        client_busy=None if client_poll is None else client_poll == "busy",
        data=data,
        seed=seed,
    )


def _show(result: Result, as_json: bool) -> int:
    from bourse.cli import complain

    if as_json:
        say(result.json())
    else:
        for line in result_lines(result):
            say(line)
    for warning in result.warnings:
        complain(f"warning: {warning}")
    return result.exit_code


def result_lines(result: Result) -> list[str]:
    """Write a result for a person."""
    from bourse.bench.results import Digests, Environment, Percentiles

    lines = [
        f"{result.workload}: boundary {result.boundary}, policy {result.policy}, "
        f"poll {result.poll}, {result.samples:,} samples in {result.seconds:.3f} s"
    ]
    header = f"  {'':<20}{'p50':>10}{'p90':>10}{'p99':>10}{'p99.9':>10}{'max':>10}"

    def row(name: str, found: Percentiles) -> str:
        values = (found.p50, found.p90, found.p99, found.p99_9, found.max)
        cells = (duration(value) if isinstance(value, int) else "-" for value in values)
        return f"  {name:<20}" + "".join(f"{cell:>10}" for cell in cells)

    if isinstance(result.latency_ns, Percentiles):
        lines += [header, row("round trip", result.latency_ns)]
    if isinstance(result.fdatasync_ns, Percentiles):
        lines.append(row("write + fdatasync", result.fdatasync_ns))
    if isinstance(result.stages_ns, dict):
        lines += [row(f"  {name}", found) for name, found in result.stages_ns.items()]
    if isinstance(result.rate_per_s, int):
        each = f", {result.ns_per_op:,.1f} ns each" if isinstance(result.ns_per_op, float) else ""
        lines.append(f"  {result.rate_per_s:,} a second{each}")
    for check in result.checks:
        lines.append(
            f"  {'ok    ' if check.ok else 'FAILED'} {check.name}: {check.detail}".rstrip(": ")
        )
    if isinstance(result.digests, Digests):
        lines.append(f"  digests: state {result.digests.state}, events {result.digests.events}")
    if isinstance(result.environment, Environment):
        found = result.environment
        lines.append(
            f"  {found.cpu}, {found.cores} cores, load average {found.load_average}, "
            f"{found.kernel}, {found.filesystem or '-'}"
        )
        lines.append(f"  Python {found.python}, {found.compiler}, bourse {found.version}")
    if result.exit_code:
        lines.append("  A check failed: these figures are void.")
    return lines
