"""Render a daemon's console without a terminal, to SVG or text: for documents, reports and cron.

It watches for some seconds first, so that rates and charts have something to show, and then draws
the same app, headless, that `bourse tui` shows.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bourse.admin.client import Feed
from bourse.admin.messages import TOPICS
from bourse.errors import UnavailableError, UsageError
from bourse.tui.app import Console, is_mono, subscriptions
from bourse.tui.picture import svg_of, text_of
from bourse.tui.settings import Settings

WATCH_RATE_HZ = 5
FIRST_FRAMES_SECONDS = 10.0
KNOWN_TOPICS = tuple(topic for topic in TOPICS if topic not in ("trades", "log"))
"""Topics of which a frame always says something."""


async def render(
    admin_path: str | Path,
    size: tuple[int, int],
    seconds: float = 3.0,
    *,
    settings: Settings | None = None,
    screen: str = "overview",
    keys: Sequence[str] = (),
    text: bool = False,
    title: str = "bourse tui",
    mono: bool = False,
) -> str:
    """Watch a daemon and return its console as SVG, or as text.

    Args:
        admin_path: the daemon's admin socket.
        size: columns and rows.
        seconds: how long to watch before drawing, after the keys.
        settings: theme, letters; None: the defaults.
        screen: the screen to draw.
        keys: keys to press first, as Textual spells them, such as v or down.
        text: return plain text instead of SVG.
        title: written on the SVG's window frame.
        mono: draw without colours.

    Raises:
        UnavailableError: no daemon answered within ten seconds.
    """
    feed = Feed(admin_path, subscriptions(WATCH_RATE_HZ), name="bourse tui --render")
    app = Console(feed, settings=settings, rate_hz=WATCH_RATE_HZ, mono=mono)
    app.quiet = True
    async with app.run_test(size=size) as pilot:
        deadline = time.monotonic() + FIRST_FRAMES_SECONDS
        while not all(getattr(app.store, topic) is not None for topic in KNOWN_TOPICS):
            if time.monotonic() > deadline:
                raise UnavailableError(
                    app.store.connection.sentence
                    or f"The daemon at {admin_path} sent no frame of every topic."
                )
            await pilot.pause(0.05)
        app.show(screen)
        await pilot.pause()
        for key in keys:
            await pilot.press(key)
        await pilot.pause(seconds)
        app.paint_all()
        await pilot.pause()
        return text_of(app) if text else svg_of(app, title)


def render_to(
    out: str,
    admin_path: str | Path,
    size: str,
    seconds: float,
    settings: Settings,
    screen: str,
    keys: Sequence[str] = (),
) -> None:
    """Render into FILE.svg or FILE.txt; - writes text to stdout.

    Raises:
        UsageError: the size is none, or the file is of another kind.
        UnavailableError: no daemon answers.
    """
    as_text = out == "-" or out.endswith(".txt")
    if not as_text and not out.endswith(".svg"):
        raise UsageError(f"--out is {out!r}, expected FILE.svg, FILE.txt or -")
    picture = asyncio.run(
        render(
            admin_path,
            parse_size(size),
            seconds,
            settings=settings,
            screen=screen,
            keys=keys,
            text=as_text,
            mono=is_mono(),
        )
    )
    if out == "-":
        sys.stdout.write(picture)
    else:
        Path(out).write_text(picture, encoding="utf-8")


def parse_size(words: str) -> tuple[int, int]:
    """Return columns and rows of a text like 120x36.

    Raises:
        UsageError: it is no such text.
    """
    columns, _, rows = words.lower().partition("x")
    if not (columns.isdecimal() and rows.isdecimal() and 0 < int(columns) <= 1000):
        raise UsageError(f"A size is COLUMNSxROWS, such as 120x36, not {words!r}.")
    if not 0 < int(rows) <= 1000:
        raise UsageError(f"A size is COLUMNSxROWS, such as 120x36, not {words!r}.")
    return int(columns), int(rows)
