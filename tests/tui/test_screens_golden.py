"""Whole screens as text: four sizes in three states, compared with files under golden/.

After a wanted change: BOURSE_UPDATE_GOLDENS=1 pytest tests/tui/test_screens_golden.py, and look at
the difference before committing it.
"""

import asyncio
import os
from pathlib import Path

import pytest
from rich.cells import cell_len

from bourse.admin.client import Connection, ConnectionState
from bourse.admin.store import Store
from bourse.tui.picture import svg_of, text_of
from tests.tui import scenes

GOLDEN = Path(__file__).parent / "golden"
SIZES = [(60, 16), (80, 24), (120, 36), (200, 60)]
SCENES = [(size, state) for size in SIZES for state in ("live", "stale", "reconnecting")]
SCENES.append(((80, 24), "waiting"))


def screen(size: tuple[int, int], state: str, keys: tuple[str, ...] = (), mono: bool = False):
    """Return the screen's text and its SVG."""

    async def scenario() -> tuple[str, str]:
        clock = scenes.Clock()
        store = Store(clock) if state == "waiting" else scenes.filled_store(clock)
        app = scenes.console(clock, store, mono=mono)
        async with app.run_test(size=size) as pilot:
            if state == "stale":
                clock.now += 7
            if state == "reconnecting":
                clock.now += 135
                store.apply(Connection(ConnectionState.LOST, "gone", attempt=80))
            for key in keys:
                await pilot.press(key)
            app.paint()
            await pilot.pause()
            return text_of(app), svg_of(app)

    return asyncio.run(scenario())


@pytest.mark.parametrize(
    ("size", "state"),
    SCENES,
    ids=lambda one: one if isinstance(one, str) else "x".join(map(str, one)),
)
def test_screen_is_as_agreed(size: tuple[int, int], state: str) -> None:
    text, _ = screen(size, state)
    path = GOLDEN / f"overview-{size[0]}x{size[1]}-{state}.txt"
    if os.environ.get("BOURSE_UPDATE_GOLDENS"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")

    assert text == path.read_text(encoding="utf-8")
    lines = text.splitlines()
    assert len(lines) == size[1]
    assert max(cell_len(line) for line in lines) <= size[0]


def test_nothing_depends_on_colour_alone() -> None:
    coloured, _ = screen((120, 36), "live")
    mono, svg = screen((120, 36), "live", mono=True)

    assert mono == coloured
    fills = {part.split('"')[0] for part in svg.split('fill="#')[1:]}
    styles = {part.split(";")[0].split("}")[0].strip() for part in svg.split("fill: #")[1:]}
    for colour in {word[:6] for word in fills | styles}:
        red, green, blue = (int(colour[at : at + 2], 16) for at in (0, 2, 4))
        if colour in ("ff5f57", "febc2e", "28c840"):  # the picture's window buttons
            continue
        assert max(red, green, blue) - min(red, green, blue) <= 3, colour


def test_too_small_a_terminal_says_what_it_needs() -> None:
    text, _ = screen((59, 15), "live")

    assert "60×16 needed, have 59×15" in text


def test_help_over_the_smallest_screen_is_whole() -> None:
    text, _ = screen((60, 16), "live", ("question_mark",))

    assert "Leave; the daemon goes on, a demo ends." in text
    assert "any key closes" in text
