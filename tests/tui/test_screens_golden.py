"""Whole screens as text: seven screens at four sizes, and their states, compared with golden/.

After a wanted change: BOURSE_UPDATE_GOLDENS=1 pytest tests/tui/test_screens_golden.py, and look at
the difference before committing it.
"""

import asyncio
import os
from functools import cache
from pathlib import Path

import msgspec
import pytest
from rich.cells import cell_len

from bourse.admin.actions import SCREENS
from bourse.admin.client import Connection, ConnectionState
from bourse.admin.store import Store
from bourse.tui import glyphs
from bourse.tui.glyphs import ascii_only
from bourse.tui.picture import svg_of, text_of
from bourse.tui.settings import Settings
from tests.tui import scenes

GOLDEN = Path(__file__).parent / "golden"
SIZES = [(60, 16), (80, 24), (120, 36), (200, 60)]
STATES = ("live", "stale", "lost", "read-only", "ascii", "chosen")
SCENES = [(screen, size, "live") for screen in SCREENS for size in SIZES]
SCENES += [(screen, (80, 24), state) for screen in SCREENS for state in STATES[1:]]
SCENES += [("overview", size, state) for size in SIZES for state in ("stale", "lost")]
SCENES += [("overview", (80, 24), "waiting"), ("overview", (120, 36), "prod")]
SCENES += [("overview", (80, 24), "halted"), ("book", (80, 24), "halted")]
SCENES = list(dict.fromkeys(SCENES))


def settings_of(state: str) -> Settings:
    return Settings(ascii=state == "ascii", read_only=state == "read-only")


@cache
def texts_of(size: tuple[int, int], state: str) -> dict[str, str]:
    """Return every screen's text in a state, from one app."""

    async def scenario() -> dict[str, str]:
        clock = scenes.Clock()
        store = Store(clock) if state == "waiting" else scenes.filled_store(clock)
        app = scenes.console(clock, store, settings=settings_of(state), mono=state == "mono")
        app.quiet = True
        texts = {}
        async with app.run_test(size=size) as pilot:
            if state == "prod":
                app.state.environment = "prod"
            if state == "halted":
                assert store.status is not None
                assert store.depth is not None
                store.status = msgspec.structs.replace(store.status, halted=True)
                store.depth = msgspec.structs.replace(store.depth, halted=True)
            if state == "stale":
                clock.now += 7
            if state == "lost":
                clock.now += 135
                store.apply(Connection(ConnectionState.LOST, "gone", attempt=80))
                store.markers._markers[-1] = msgspec.structs.replace(
                    store.markers._markers[-1], time_ns=scenes.CHANGED_NS
                )
            for name in SCREENS:
                app.show(name)
                await pilot.pause()
                if state == "chosen":
                    await pilot.press("down", "down")
                app.paint_all()
                await pilot.pause()
                texts[name] = text_of(app)
        return texts

    return asyncio.run(scenario())


def screen(size: tuple[int, int], keys: tuple[str, ...] = (), mono: bool = False):
    """Return the Overview's text and its SVG."""

    async def scenario() -> tuple[str, str]:
        clock = scenes.Clock()
        app = scenes.console(clock, scenes.filled_store(clock), mono=mono)
        async with app.run_test(size=size) as pilot:
            for key in keys:
                await pilot.press(key)
            app.paint()
            await pilot.pause()
            return text_of(app), svg_of(app)

    return asyncio.run(scenario())


@pytest.mark.parametrize(
    ("name", "size", "state"),
    SCENES,
    ids=lambda one: one if isinstance(one, str) else "x".join(map(str, one)),
)
def test_screen_is_as_agreed(name: str, size: tuple[int, int], state: str) -> None:
    text = texts_of(size, state)[name]
    path = GOLDEN / f"{name}-{size[0]}x{size[1]}-{state}.txt"
    if os.environ.get("BOURSE_UPDATE_GOLDENS"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")

    assert text == path.read_text(encoding="utf-8")
    lines = text.splitlines()
    assert len(lines) == size[1]
    assert max(cell_len(line) for line in lines) <= size[0]
    if state == "ascii":
        assert text.isascii()


BADGES = {"stale": "STALE 7 s", "lost": "RECONNECTING", "read-only": "READ-ONLY"}


@pytest.mark.parametrize("state", ["stale", "lost", "read-only", "ascii"])
@pytest.mark.parametrize("size", SIZES, ids=lambda size: "x".join(map(str, size)))
def test_no_screen_is_cut_off_or_overlaps_in_any_state(size: tuple[int, int], state: str) -> None:
    """All screens, sizes and states: where no golden shows it, by what each picture must have."""
    for name, text in texts_of(size, state).items():
        lines = text.splitlines()
        assert len(lines) == size[1]
        assert all(cell_len(line) <= size[0] for line in lines)
        assert BADGES.get(state, "LIVE") in lines[0]
        if state == "ascii":
            # The same picture as with glyphs, letter by letter.
            live = (GOLDEN / f"{name}-{size[0]}x{size[1]}-live.txt").read_text(encoding="utf-8")
            assert text == "\n".join(map(ascii_only, live.split("\n")))
            continue
        corners = {text.count(corner) for corner in glyphs.FRAME_ROUND if corner in "╭╮╰╯"}
        assert len(corners) == 1, "a frame is hidden in part"
        assert corners != {0}
        for line in lines[2:-1]:
            assert cell_len(line) == size[0]
        if state in ("stale", "lost"):
            titles = [line for line in lines if "╭─ " in line and "TIMELINE" not in line]
            assert any(" ~ " in line for line in titles), name


@pytest.mark.parametrize("size", [(80, 24), (120, 36)])
def test_without_colour_every_screen_says_the_same(size: tuple[int, int]) -> None:
    for name, text in texts_of(size, "mono").items():
        path = GOLDEN / f"{name}-{size[0]}x{size[1]}-live.txt"
        assert text == path.read_text(encoding="utf-8")


def test_nothing_depends_on_colour_alone() -> None:
    coloured, _ = screen((120, 36))
    mono, svg = screen((120, 36), mono=True)

    assert mono == coloured
    fills = {part.split('"')[0] for part in svg.split('fill="#')[1:]}
    styles = {part.split(";")[0].split("}")[0].strip() for part in svg.split("fill: #")[1:]}
    for colour in {word[:6] for word in fills | styles}:
        red, green, blue = (int(colour[at : at + 2], 16) for at in (0, 2, 4))
        if colour in ("ff5f57", "febc2e", "28c840"):  # the picture's window buttons
            continue
        assert max(red, green, blue) - min(red, green, blue) <= 3, colour


def test_too_small_a_terminal_says_what_it_needs() -> None:
    text, _ = screen((59, 15))

    assert "60×16 needed, have 59×15" in text


def test_help_over_the_smallest_screen_is_whole() -> None:
    text, _ = screen((60, 16), ("question_mark",))

    assert "HELP overview" in text
    assert "any other key closes" in text
