"""bourse bench: measure, with every check green or the figure is void.

Each workload of the table (bourse/bench/workloads.py) is a command with its flags.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from bourse.bench.results import SCHEMA, kept_histogram, write_hlog
from bourse.bench.workloads import WORKLOADS, Flag, Workload, list_lines
from bourse.cli import complain
from bourse.cli.output import console, duration, say, say_json
from bourse.errors import BourseError

if TYPE_CHECKING:
    from bourse.bench.results import Result
    from bourse.bench.suite import Run

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
        say("All of them: `bourse bench all --quick`. Against the budgets: `bourse bench check`.")
        say("Two sets of results, kept with --keep: `bourse bench compare A B`.")


def _help(workload: Workload) -> str:
    codes = ["0  every check is ok", "1  a check failed: the figure is void", "2  wrong usage"]
    if workload.needs_a_daemon:
        codes[-1] += ", or the book at --connect is not empty around 100"
        codes.append("3  no daemon answers at --connect, or it fell silent")
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


def _common(name: str, kind: Any, default: Any, *words: str, **more: Any) -> inspect.Parameter:
    """Return a flag that every workload has."""
    option = typer.Option(*words, show_default=False, **more)
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[kind, option],
    )


KEEP_HELP = "Keep the result under bench/results/<date>-<host>-<commit>/."
KEEP_IN_HELP = "Keep the result in this directory; `bourse bench compare` reads it."

COMMON = (
    _common(
        "plot", bool, False, "--plot", help="Draw the percentile curve of the latencies as text."
    ),
    _common(
        "svg",
        Path | None,
        None,
        "--svg",
        metavar="FILE",
        help="Write the percentile curve as a picture.",
    ),
    _common(
        "hlog",
        Path | None,
        None,
        "--hlog",
        metavar="FILE",
        help="Write the latencies as a standard HdrHistogram log.",
    ),
    _common("keep", bool, False, "--keep", help=KEEP_HELP),
    _common("keep_in", Path | None, None, "--keep-in", metavar="DIR", help=KEEP_IN_HELP),
    _common("as_json", bool, False, "--json", help="Print one JSON object (docs/performance.md)."),
)


def _command(workload: Workload) -> Callable[..., int]:
    """Make the function that Typer reads a workload's flags from."""

    def command(
        *,
        plot: bool,
        svg: Path | None,
        hlog: Path | None,
        keep: bool,
        keep_in: Path | None,
        as_json: bool,
        **flags: Any,
    ) -> int:
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
        _write_latencies(result, hlog, svg)
        _keep(keep, keep_in, [(None, [msgspec.to_builtins(result)])])
        return _show(result, as_json, plot)

    parameters = [*(_parameter(flag) for flag in workload.flags), *COMMON]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    command.__doc__ = _help(workload)
    return command


def _write_latencies(result: Result, hlog: Path | None, svg: Path | None) -> None:
    """Write the files of latencies that were asked for."""
    from bourse.bench.curve import curve_of
    from bourse.bench.curve import svg as draw
    from bourse.errors import UsageError

    histogram = kept_histogram()
    for path in (hlog, svg):
        if path is None:
            continue
        if histogram is None:
            complain(f"warning: {result.workload} has no latencies; {path} is not written")
            continue
        try:
            if path is hlog:
                write_hlog(path, result.workload)
            else:
                title = f"{result.workload}, policy {result.policy}, {result.samples:,} samples"
                path.write_text(draw(curve_of(histogram), title))
        except OSError as error:
            raise UsageError(f"cannot write {path}: {error.strerror}") from None


def _keep(
    wanted: bool, directory: Path | None, found: list[tuple[str | None, list[dict[str, Any]]]]
) -> None:
    """Keep results where that was asked for, and say where they are."""
    from bourse.bench import kept

    if directory is None and not wanted:
        return
    place = directory or kept.directory_of_today()
    for name, results in found:
        kept.keep(place, name or kept.name_of(results[0]), results)
    complain(f"kept in {place}")


for _workload in WORKLOADS:
    app.command(_workload.name)(_command(_workload))


NamesArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[NAME]...", help="Workloads or cases. Default: all.", show_default=False
    ),
]
RepeatOption = Annotated[
    int, typer.Option("--repeat", metavar="N", min=1, help="Processes for each case.")
]
InterleaveOption = Annotated[
    bool,
    typer.Option("--interleave", help="Let all cases take turns, repetition by repetition."),
]
KeepOption = Annotated[bool, typer.Option("--keep", help=KEEP_HELP)]
KeepInOption = Annotated[
    Path | None,
    typer.Option("--keep-in", metavar="DIR", help=KEEP_IN_HELP, show_default=False),
]
AllJsonOption = Annotated[
    bool, typer.Option("--json", help='Print one object: {"schema": 1, "results": [...]}.')
]


@app.command("all")
def run_all(
    names: NamesArgument = None,
    quick: Annotated[bool, typer.Option("--quick", help="A little of each (the default).")] = False,
    full: Annotated[bool, typer.Option("--full", help="Properly: takes its time.")] = False,
    repeat: RepeatOption = 1,
    interleave: InterleaveOption = False,
    fault: Annotated[
        str | None,
        typer.Option(
            "--fault",
            metavar="drop|double|quantity",
            help="Spoil one event of each case that hears events, to see its checks fail.",
            show_default=False,
        ),
    ] = None,
    connect: Annotated[
        str | None,
        typer.Option(
            "--connect",
            metavar="HOST:PORT",
            help="Measure a server that runs, of protocol version 1; skip what it cannot do.",
            show_default=False,
        ),
    ] = None,
    keep: KeepOption = False,
    keep_in: KeepInOption = None,
    as_json: AllJsonOption = False,
) -> int:
    """Run every workload, each case in a process of its own, and print one table.

    The figure is the fastest repetition's; `spread` is how far the slowest is from it. A bound that
    is missed is shown and does not change the exit code: it holds for a quiet moment.

    \b
    Example:
      bourse bench all --quick
      bourse bench all walk mixed-40000 --repeat 5 --interleave
      bourse bench all --full --repeat 5 --interleave --keep
      bourse bench all --connect 127.0.0.1:9001

    \b
    Exit codes:
      0  every check is ok
      1  a check failed, or a workload could not run
      2  wrong usage
    """
    from bourse.bench import suite
    from bourse.bench.faults import fault_number
    from bourse.errors import UsageError

    if quick and full:
        raise UsageError("--quick and --full exclude each other; leave one away")
    fault_number(fault)
    skipped: list[str] = []
    if connect is None:
        runs = suite.choose(names or [])
    else:
        runs, skipped = suite.choose_at(connect, names or [])
        complain(f"skipped, since no server at --connect does them: {', '.join(skipped) or '-'}")
    _perform(runs, full=full, repeat=repeat, interleave=interleave, fault=fault)
    _keep(keep, keep_in, [(run.case.name, run.results) for run in runs])
    if as_json:
        found: dict[str, Any] = {"results": [run.summary() for run in runs]}
        say_json({"schema": SCHEMA, **found, **({"skipped": skipped} if skipped else {})})
    else:
        for line in suite.table(runs):
            say(line)
    _warn_of_noise(runs)
    return 1 if any(run.faults for run in runs) else 0


@app.command()
def check(
    names: NamesArgument = None,
    budgets: Annotated[
        Path, typer.Option("--budgets", metavar="FILE", help="Table of budgets.")
    ] = Path("bench/budgets.toml"),
    slack: Annotated[
        float,
        typer.Option(
            "--slack", metavar="PERCENT", min=0, help="How much over its budget is let pass."
        ),
    ] = 10.0,
    repeat: RepeatOption = 3,
    as_json: AllJsonOption = False,
) -> int:
    """Compare with budgets: ratios to a calibration loop of the same run, floors of counters.

    Every case that has a budget runs, quickly; the fastest repetition counts.

    \b
    Example:
      bourse bench check
      bourse bench check ring walk --slack 50

    \b
    Exit codes:
      0  within the budgets
      1  over a budget, under a floor, or a check failed
      2  wrong usage
    """
    from bourse.bench import suite

    table = suite.load_budgets(budgets)
    runs = [run for run in suite.choose(names or []) if run.case.name in table]
    _perform(runs, full=False, repeat=repeat, interleave=True)
    wrong = [
        sentence for run in runs for sentence in suite.judge(run, table[run.case.name], slack / 100)
    ]
    if as_json:
        found = [run.summary() for run in runs]
        say_json({"schema": SCHEMA, "results": found, "over_budget": wrong})
    else:
        for line in suite.table(runs):
            say(line)
        for run in runs:
            budget = table[run.case.name]
            ratios = [suite.ratio_of(run, one, budget) for one in run.results]
            known = [ratio for ratio in ratios if ratio is not None]
            if budget.ratio is not None and known:
                found_text = suite.ratio_text(min(known), budget)
                say(f"  {run.case.name}: {found_text} of {budget.ratio:.4g}")
    for sentence in wrong:
        complain(sentence)
    return 1 if wrong else 0


@app.command()
def compare(
    before: Annotated[
        Path, typer.Argument(metavar="A", help="A directory of --keep, or a file of --json.")
    ],
    after: Annotated[
        Path, typer.Argument(metavar="B", help="Another one, to be measured against A.")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print one object.")] = False,
) -> int:
    """Compare two sets of results: the ratio of each figure, with the spread of both sides.

    A difference counts, and is marked with `*`, when each side has three
    processes or more, their ranges do not overlap, and the medians are more
    than 3 % apart. `!` marks a failed check.

    \b
    Example:
      bourse bench all walk rtt --repeat 5 --interleave --keep-in before
      bourse bench all walk rtt --repeat 5 --interleave --keep-in after
      bourse bench compare before after

    \b
    Exit codes:
      0  nothing is slower outside the noise
      1  something is, or a check failed on either side
      2  wrong usage, or nothing is on both sides
    """
    from bourse.bench import compare as comparing
    from bourse.bench import kept
    from bourse.errors import UsageError

    found = comparing.compare(kept.load(before), kept.load(after))
    if not found.rows:
        raise UsageError(f"no case has a figure both in {before} and in {after}")
    if as_json:
        say_json({"schema": SCHEMA, **msgspec.to_builtins(found)})
    else:
        for line in comparing.table(found):
            say(line)
    for note in found.notes:
        complain(f"note: {note}")
    return found.exit_code


def _perform(
    runs: list[Run], *, full: bool, repeat: int, interleave: bool, fault: str | None = None
) -> None:
    """Run them with a line of progress on stderr: live on a terminal, one a process elsewhere."""
    from bourse.bench import suite

    total = len(runs) * repeat
    done = 0

    def text(run: Run, number: int) -> str:
        again = f", {number + 1} of {repeat}" if repeat > 1 else ""
        return f"{done}/{total} {run.case.name}{again}"

    perform = functools.partial(
        suite.perform, runs, full=full, repeat=repeat, interleave=interleave, fault=fault
    )
    screen = console(stderr=True)
    if not screen.is_terminal:

        def tell(run: Run, number: int) -> None:
            nonlocal done
            done += 1
            screen.print(text(run, number))

        perform(on_start=tell)
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(20), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=screen, transient=True) as progress:
        task = progress.add_task("", total=total)

        def show(run: Run, number: int) -> None:
            nonlocal done
            done += 1
            progress.update(task, completed=done - 1, description=text(run, number))

        perform(on_start=show)


def _warn_of_noise(runs: list[Run]) -> None:
    reasons = [
        (run.case.name, reason)
        for run in runs
        for result in run.results
        for reason in result.get("quiet_reasons", [])
    ]
    if reasons:
        name, reason = reasons[0]
        cases = len({name for name, _ in reasons})
        complain(
            f"warning: not a quiet moment in {cases} of {len(runs)} cases; "
            f"the first, {name}: {reason}"
        )


def _show(result: Result, as_json: bool, plot: bool) -> int:
    from bourse.bench.curve import curve_of
    from bourse.bench.curve import plot as draw

    if as_json:
        say(result.json())
    else:
        for line in result_lines(result):
            say(line)
    histogram = kept_histogram()
    if plot and histogram is not None:
        screen = console(stderr=as_json)
        is_ascii = not (screen.encoding or "").lower().startswith("utf")
        for line in draw(curve_of(histogram), ascii_only=is_ascii):
            if as_json:
                sys.stderr.write(f"{line}\n")
            else:
                say(line)
    elif plot:
        complain(f"warning: {result.workload} has no latencies to draw")
    for warning in result.warnings:
        complain(f"warning: {warning}")
    return result.exit_code


def parameter_lines(parameters: dict[str, object]) -> list[str]:
    """Write the parameters that are a line's worth, as many as fit in 80 columns on each line."""
    import textwrap

    texts = []
    for name, value in parameters.items():
        if isinstance(value, bool):
            texts.append(f"{name} {'yes' if value else 'no'}")
        elif isinstance(value, int | float):
            texts.append(f"{name} {value:,}")
        elif isinstance(value, str) and len(value) <= 40:
            texts.append(f"{name} {value!r}" if " " in value else f"{name} {value}")
    # A name and its value stay together.
    text = ", ".join(each.replace(" ", "\0") for each in texts)
    wrapped = textwrap.wrap(
        text, 80, initial_indent="  with ", subsequent_indent="    ", break_on_hyphens=False
    )
    return [line.replace("\0", " ") for line in wrapped]


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
        # An operation is named as in "so many nanoseconds an order".
        operation = str(result.parameters.get("operation", "latency"))
        lines += [
            header,
            row(operation.removeprefix("a ").removeprefix("an ")[:20], result.latency_ns),
        ]
    if isinstance(result.fdatasync_ns, Percentiles):
        lines.append(row("write + fdatasync", result.fdatasync_ns))
    if isinstance(result.stages_ns, dict):
        lines += [row(f"  {name}", found) for name, found in result.stages_ns.items()]
    if isinstance(result.rate_per_s, int):
        each = f", {result.ns_per_op:,.1f} ns each" if isinstance(result.ns_per_op, float) else ""
        lines.append(f"  {result.rate_per_s:,} a second{each}")
    if isinstance(result.ping_pong_ns, float):
        lines.append(f"  ping-pong of the same two CPUs: {result.ping_pong_ns:,.1f} ns")
    lines += parameter_lines(result.parameters)
    if isinstance(result.skipped, list):
        lines += [f"  skipped: {each}" for each in result.skipped]
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
        lines.append(
            f"  Python {found.python}, {found.compiler} {found.compiler_flags}, bourse "
            f"{found.version} {found.build}"
        )
    if result.exit_code:
        lines.append("  A check failed: these figures are void.")
    return lines
