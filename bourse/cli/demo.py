"""bourse demo: an exchange with a market on it, and the console."""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from bourse.cli.options import JsonOption, PollOption, command_app
from bourse.cli.output import duration, say, say_json, say_rows

if TYPE_CHECKING:
    from bourse.demo.session import Demo, Summary

app = command_app()

HEADLESS_SECONDS = 10.0


@app.command()
def demo(
    data: Annotated[
        Path, typer.Option("--data", metavar="DIR", help="Data directory; kept, and used again.")
    ] = Path("demo-data"),
    headless: Annotated[
        bool, typer.Option("--headless", help="No console; print a summary at the end.")
    ] = False,
    seconds: Annotated[
        float | None,
        typer.Option(
            "--seconds",
            metavar="N",
            min=0.5,
            help="With --headless: how long. Default: 10.",
            show_default=False,
        ),
    ] = None,
    rate: Annotated[
        float,
        typer.Option("--rate", metavar="N", min=1, max=50_000, help="Messages a second, about."),
    ] = 800.0,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Seed of the market.")] = 23,
    poll: PollOption = None,
    listen: Annotated[
        str, typer.Option("--listen", metavar="HOST:PORT", help="Address of protocol version 1.")
    ] = "127.0.0.1:0",
    as_json: JsonOption = False,
) -> int:
    """Start a daemon with policy fsync, a synthetic market trading on it, and open the console.

    Leaving the console (q) stops both in order, replays the log, and says
    whether all of it held. Where stdout is no terminal, the market runs for ten
    seconds without a console.

    \b
    Examples:
      bourse demo
      bourse demo --headless --seconds 10 --json

    \b
    Exit codes:
      0  everything held: no gap, and the replay's digests equal the live ones
      1  a check failed; the summary says which
      2  wrong usage
      3  the exchange ended before the demo did
      4  another demo uses the data directory
    """
    from bourse.cli import complain
    from bourse.demo.session import Demo
    from bourse.errors import UsageError

    if not (headless or (sys.stdin.isatty() and sys.stdout.isatty())):
        complain(f"no terminal here: running the market for {HEADLESS_SECONDS:.0f} s, no console")
        headless, seconds = True, seconds or HEADLESS_SECONDS
    if seconds is not None and not headless:
        raise UsageError("--seconds goes with --headless; with the console, q ends the demo")
    with _ended_by_signals(), Demo(data, seed, rate, poll or "adaptive", listen) as running:
        if headless:
            _watch(running, seconds or HEADLESS_SECONDS)
        else:
            from bourse.tui.app import run

            run(running.admin)
        summary = running.finish(only_market=headless)
    if as_json:
        say_json(summary)
    else:
        _say_summary(summary)
    return summary.exit_code


def _watch(running: Demo, seconds: float) -> None:
    """Wait, or until Ctrl-C or a child's end; on a terminal say each second how far it is."""
    deadline = time.monotonic() + seconds
    shows = sys.stderr.isatty()
    with contextlib.suppress(KeyboardInterrupt):
        while running.is_running and (left := deadline - time.monotonic()) > 0:
            if shows:
                status = running.status()
                sys.stderr.write(
                    f"\r\x1b[K  {left:4.0f} s left  {status.orders:,} orders  "
                    f"{status.trades:,} trades  durable {status.durable_seq:,}"
                )
                sys.stderr.flush()
            time.sleep(min(1.0, left))
    if shows:
        sys.stderr.write("\r\x1b[K")


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Turn a terminal that goes away, or a kill, into the same orderly end as Ctrl-C."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {
        number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _say_summary(summary: Summary) -> None:
    say(
        f"The market traded for {summary.seconds:.1f} s: {summary.messages_per_s:,} messages a "
        f"second, policy {summary.policy}, poll {summary.poll}."
    )
    say_rows(
        [
            ("orders", f"{summary.orders:,} since the log began  ({summary.live_orders:,} live)"),
            ("trades", f"{summary.trades:,}"),
            ("events", f"{summary.events:,}"),
            ("wal_seq", f"{summary.wal_seq:,}  (recovered {summary.recovered_wal_seq:,})"),
            ("state digest", summary.digests["state"]),
            ("event digest", summary.digests["events"]),
            ("data", summary.data),
        ]
    )
    say(f"  {'stage':<12}{'p50':>10}{'p99':>10}")
    for name, value in summary.stages_ns.items():
        say(f"  {name:<12}{duration(value['p50']):>10}{duration(value['p99']):>10}")
    for check in summary.checks:
        say(f"  {'ok    ' if check.ok else 'FAILED'} {check.name}: {check.detail}".rstrip(": "))
    for sentence in summary.skipped:
        say(f"  left out {sentence}")
