"""Render a daemon's console without a terminal, to SVG or text: for documents, reports and cron.

    python -m bourse.tui.render --admin PATH --size 120x36 --out docs/console.svg

It watches for some seconds first, so that rates and charts have something to show, and then draws
the same app, headless, that `bourse tui` shows. It exits with 3 when no daemon answers.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bourse.admin.client import Feed
from bourse.admin.messages import TOPICS
from bourse.errors import BourseError, UnavailableError, UsageError
from bourse.tui.app import Console, is_mono, subscriptions
from bourse.tui.picture import svg_of, text_of

WATCH_RATE_HZ = 5
FIRST_FRAMES_SECONDS = 10.0


async def render(
    admin_path: str | Path,
    size: tuple[int, int],
    seconds: float = 3.0,
    keys: Sequence[str] = (),
    text: bool = False,
    title: str = "bourse tui",
    mono: bool = False,
) -> str:
    """Watch a daemon and return its console as SVG, or as text.

    Args:
        admin_path: the daemon's admin socket.
        size: columns and rows.
        seconds: how long to watch before drawing.
        keys: keys to press then, as Textual spells them, such as v or down.
        text: return plain text instead of SVG.
        title: written on the SVG's window frame.
        mono: draw without colours.

    Raises:
        UnavailableError: no daemon answered within ten seconds.
    """
    feed = Feed(admin_path, subscriptions(WATCH_RATE_HZ), name="bourse tui render")
    app = Console(feed, rate_hz=WATCH_RATE_HZ, mono=mono)
    app.quiet = True
    async with app.run_test(size=size) as pilot:
        deadline = time.monotonic() + FIRST_FRAMES_SECONDS
        while not all(getattr(app.store, topic) is not None for topic in TOPICS):
            if time.monotonic() > deadline:
                raise UnavailableError(
                    app.store.connection.sentence
                    or f"The daemon at {admin_path} sent no frame of every topic."
                )
            await pilot.pause(0.05)
        await pilot.pause(seconds)
        for key in keys:
            await pilot.press(key)
        app.paint()
        await pilot.pause()
        return text_of(app) if text else svg_of(app, title)


def parse_size(words: str) -> tuple[int, int]:
    """Return columns and rows of a text like 120x36.

    Raises:
        UsageError: it is no such text.
    """
    columns, _, rows = words.lower().partition("x")
    if not (columns.isdigit() and rows.isdigit() and int(columns) > 0 and int(rows) > 0):
        raise UsageError(f"A size is COLUMNSxROWS, such as 120x36, not {words!r}.")
    return int(columns), int(rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run as a command; return its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m bourse.tui.render",
        description="Render a daemon's console to an SVG or text file, without a terminal.",
        epilog="example: python -m bourse.tui.render --admin PATH --size 120x36 --out console.svg",
    )
    parser.add_argument("--admin", required=True, help="the daemon's admin socket")
    parser.add_argument("--size", default="120x36", help="COLUMNSxROWS (default %(default)s)")
    parser.add_argument("--out", required=True, help="FILE.svg or FILE.txt; - writes text")
    parser.add_argument(
        "--seconds", type=float, default=3.0, help="how long to watch first (default %(default)s)"
    )
    parser.add_argument("--press", default="", help="keys to press before, with commas between")
    parser.add_argument("--title", default="bourse tui", help="on the SVG's window frame")
    options = parser.parse_args(arguments)
    try:
        as_text = options.out == "-" or options.out.endswith(".txt")
        picture = asyncio.run(
            render(
                options.admin,
                parse_size(options.size),
                options.seconds,
                [key for key in options.press.split(",") if key],
                as_text,
                options.title,
                is_mono(),
            )
        )
        if options.out == "-":
            sys.stdout.write(picture)
        else:
            Path(options.out).write_text(picture, encoding="utf-8")
    except BourseError as error:
        sys.stderr.write(f"bourse: {error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
