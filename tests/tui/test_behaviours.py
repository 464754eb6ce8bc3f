"""What users of other consoles suffered from, as behaviours of this one.

docs/console.md has the table of all nineteen and the tests of each; here are those that have no
better place.
"""

import asyncio
import re
import tomllib
import unicodedata
from pathlib import Path

import pytest
from rich.cells import cell_len
from textual.pilot import Pilot

from bourse.admin.messages import Frame, Log, LogLine
from bourse.tui import glyphs
from bourse.tui.app import Console
from bourse.tui.line import LineView
from bourse.tui.picture import text_of
from bourse.tui.theme import LOOKS
from tests.tui import scenes
from tests.tui.test_pilot import play, toasts

ROOT = Path(__file__).parents[2]


def test_the_manuals_table_names_tests_that_exist_for_each_behaviour() -> None:
    manual = (ROOT / "docs" / "console.md").read_text(encoding="utf-8")
    rows = {
        int(number): re.findall(r"`(tests/tui/\w+\.py)::(test_\w+)`", cells)
        for number, cells in re.findall(r"^\| (\d+) \| (.*) \|$", manual, re.MULTILINE)
    }

    assert sorted(rows) == list(range(1, 20))
    for number, tests in rows.items():
        assert tests, number
        for path, name in tests:
            assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8"), name


@pytest.mark.parametrize("name", [name for name in LOOKS if name != "terminal"])
def test_1_grounds_are_neutral_grey_but_for_the_books_shades(name: str) -> None:
    for ground, colour in LOOKS[name].backgrounds_256.items():
        red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
        if ground.startswith(("bid", "ask")):
            # Chosen from the palette itself: no terminal turns them into something else.
            assert {red, green, blue} <= {0, 0x5F, 0x87, 0xAF, 0xD7, 0xFF}, ground
        else:
            assert red == green == blue, ground


def test_6_what_changes_something_is_refused_while_the_numbers_are_old() -> None:
    async def scenario(app: Console, pilot: Pilot) -> None:
        app.state.clock.now += 4  # type: ignore[attr-defined]
        app.paint()
        await pilot.pause()
        assert "STALE 4 s" in text_of(app)
        await pilot.press("s")
        assert toasts(app) == ["Snapshot: no daemon answers."]

    play(scenario, (80, 24))


def test_7_fifty_equal_errors_are_one_toast_and_one_line_with_a_count() -> None:
    async def scenario(app: Console, pilot: Pilot) -> None:
        for _ in range(50):
            app.tell("disk", "The disk is full.", "error")
            app.state.clock.now += 0.01  # type: ignore[attr-defined]
        await pilot.press("7")
        app.paint()
        await pilot.pause()
        assert len(app._notifications) == 1
        assert "×50 The disk is full." in text_of(app)

    play(scenario, (100, 30))


def test_8_two_thousand_lines_a_second_cost_frames_not_lines() -> None:
    async def scenario(app: Console, pilot: Pilot) -> None:
        await pilot.press("7")
        await pilot.pause()
        log = app.screen.query_one("#log", LineView)
        draws = []
        draw = log.draw
        log.draw = lambda *arguments: draws.append(1) or draw(*arguments)  # type: ignore[method-assign]
        for frame in range(20):
            lines = [
                LogLine(100 + number, number, "info", f"line {number}")
                for number in range(frame * 100, frame * 100 + 100)
            ]
            app.store.apply(Frame("log", 1, 0, Log(lines, lines[-1].number)))
        assert not draws
        app.paint()
        assert len(draws) == 1
        await pilot.pause()
        assert "line 1999" in text_of(app)

    play(scenario, (80, 24))


def test_14_each_glyph_is_one_cell_no_emoji_and_has_its_ascii() -> None:
    for glyph in set(glyphs.ALL):
        assert cell_len(glyph) == 1, glyph
        assert unicodedata.east_asian_width(glyph) not in "WF", glyph
        stand_in = glyphs.ascii_only(glyph)
        assert stand_in.isascii()
        assert len(stand_in) == 1
        assert stand_in != "?", glyph


def test_15_every_screen_recovers_from_every_size() -> None:
    async def scenario(app: Console, pilot: Pilot) -> None:
        for key in "1234567":
            await pilot.press(key)
            for width, height in ((1, 1), (59, 15), (80, 24)):
                await pilot.resize_terminal(width, height)
                await pilot.pause()
            lines = text_of(app).splitlines()
            assert len(lines) == 24
            assert "LIVE" in lines[0]
            assert lines[2].startswith("╭")
            assert lines[22].startswith("╰")

    play(scenario, (80, 24))


def test_19_the_framework_is_pinned_exactly_and_brings_no_parser() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = [one for one in project["project"]["dependencies"] if one.startswith("textual")]

    assert len(wanted) == 1
    assert wanted[0].startswith("textual==")
    assert "[" not in wanted[0]


def test_a_frozen_picture_says_how_much_it_leaves_out() -> None:
    async def scenario() -> None:
        clock = scenes.Clock()
        app = scenes.console(clock, scenes.filled_store(clock, 60))
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.press("space")
            for number in range(7):
                app.store.apply(Frame("log", number, 0, Log([], 5)))
            app.paint()
            await pilot.pause()
            assert "FROZEN +7" in text_of(app)

    asyncio.run(scenario())
