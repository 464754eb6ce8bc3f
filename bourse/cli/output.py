"""How commands print: plain text for people, one JSON object for programs."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from bourse.admin.messages import Percentiles
    from bourse.config import Banner


def harmless(text: str) -> str:
    """Return a text that moves no cursor and colours nothing, whoever wrote its parts.

    Anything that is not printable becomes a middle dot, but for the ends of lines and tabs.
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one in "\n\t" else "·" for one in text)


def say(text: str = "") -> None:
    """Write a line to stdout at once: a reader of a pipe waits for it."""
    sys.stdout.write(f"{harmless(text)}\n")
    sys.stdout.flush()


def clear_screen() -> None:
    """Empty the terminal, for what is redrawn."""
    sys.stdout.write("\x1b[H\x1b[2J")


def drop_stdout() -> None:
    """Send to nowhere what is still to be written: the interpreter flushes stdout as it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def say_json(value: object) -> None:
    """Write one JSON object, on one line."""
    import msgspec

    # JSON is exact: its reader is a program.
    sys.stdout.write(f"{msgspec.json.encode(value).decode()}\n")
    sys.stdout.flush()


def console(stderr: bool = False) -> Console:
    """Return a Rich console; colours only on a terminal."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, soft_wrap=True)


def say_rows(rows: Sequence[tuple[str, str]]) -> None:
    """Write names and values in two columns."""
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        say(f"  {name:<{width}}  {value}".rstrip())


def duration(nanoseconds: int) -> str:
    """Write a duration with three digits and its unit."""
    if nanoseconds < 1_000:
        return f"{nanoseconds} ns"
    for unit, size in (("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)):
        value = nanoseconds / size
        if value < 999.5 or unit == "s":
            return f"{value:.{max(0, 3 - len(str(int(value))))}f} {unit}"
    raise AssertionError


def percentile_rows(stages: Sequence[tuple[str, Percentiles]]) -> list[str]:
    """Return a table of stages: a title line and a line each."""
    lines = [
        f"  {'stage':<10}{'count':>12}{'p50':>10}{'p90':>10}{'p99':>10}{'p99.9':>10}{'max':>10}"
    ]
    for name, value in stages:
        cells = (value.p50, value.p90, value.p99, value.p99_9, value.max)
        figures = "".join(f"{duration(cell):>10}" for cell in cells)
        lines.append(f"  {name:<10}{value.count:>12,}{figures}")
    return lines


def say_banner(banner: Banner) -> None:
    """Write a daemon's banner: where it is, what it promises, what it recovered."""
    stored = banner.durability != "memory"
    recovered = f"wal_seq {banner.recovered_wal_seq:,}" if banner.recovered_wal_seq else "nothing"
    say(f"bourse is ready: {banner.symbol} on {banner.listen}")
    rows = [
        ("instance", banner.instance),
        ("address", f"{banner.listen} (protocol version 1)"),
        ("admin", banner.admin),
        ("data", banner.data if stored else "none: policy memory keeps nothing"),
        ("policy", banner.durability),
        ("poll", banner.poll),
        ("recovered", recovered),
        *(("", line) for line in banner.report),
        ("pid", str(banner.pid)),
    ]
    say_rows(rows)
