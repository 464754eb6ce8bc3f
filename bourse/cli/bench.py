"""bourse bench: measure, with every check green or the figure is void.

Each workload of the table (bourse/bench/workloads.py) is a command with its flags.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bourse.bench.results import SCHEMA
from bourse.bench.workloads import WORKLOADS, Flag, Workload, list_lines
from bourse.cli.output import duration, say, say_json
from bourse.errors import BourseError

if TYPE_CHECKING:
    from bourse.bench.results import Result

app = typer.Typer(
    help="Measure the exchange; each figure comes with its policy, environment and checks.",
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


@app.callback(invoke_without_command=True)
def _top(context: typer.Context) -> None:
    """Measure the exchange; each figure comes with its policy, environment and checks.

    Without a name: the list of workloads.
    """
    if context.invoked_subcommand is None:
        say("Workloads, each run with `bourse bench NAME` (flags: `bourse bench NAME --help`):")
        for line in list_lines():
            say(line)


def _help(workload: Workload) -> str:
    codes = ["0  every check is ok", "1  a check failed: the figure is void", "2  wrong usage"]
    if workload.needs_a_daemon:
        codes.append("3  no daemon answers at --connect")
    paragraphs = [
        workload.line,
        workload.text,
        f"\b\nExample:\n  bourse bench {workload.example}",
        "\b\nExit codes:\n" + "\n".join(f"  {line}" for line in codes),
    ]
    return "\n\n".join(paragraph for paragraph in paragraphs if paragraph)


def _parameter(flag: Flag) -> inspect.Parameter:
    optional = flag.kind if flag.default is not None else flag.kind | None
    option = typer.Option(
        flag.flag, metavar=flag.metavar, help=flag.help, show_default=flag.default is not None
    )
    return inspect.Parameter(
        flag.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=flag.default,
        annotation=Annotated[optional, option],
    )


JSON = inspect.Parameter(
    "as_json",
    inspect.Parameter.KEYWORD_ONLY,
    default=False,
    annotation=Annotated[
        bool, typer.Option("--json", help="Print one JSON object (docs/performance.md).")
    ],
)


def _command(workload: Workload) -> Callable[..., int]:
    """Make the function that Typer reads a workload's flags from."""

    def command(*, as_json: bool, **flags: Any) -> int:
        try:
            result = workload.run(**flags)
        except BourseError as error:
            if as_json:
                say_json(
                    {
                        "schema": SCHEMA,
                        "workload": workload.name,
                        "error": {"sentence": str(error), "exit_code": error.exit_code},
                    }
                )
            raise
        return _show(result, as_json)

    parameters = [*(_parameter(flag) for flag in workload.flags), JSON]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    command.__doc__ = _help(workload)
    return command


for _workload in WORKLOADS:
    app.command(_workload.name)(_command(_workload))


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
    if isinstance(result.ping_pong_ns, float):
        lines.append(f"  ping-pong of the same two CPUs: {result.ping_pong_ns:,.1f} ns")
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
