"""Keys, clicks, sizes and toasts, driven by Textual's Pilot without a daemon."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest
from textual import events
from textual.pilot import Pilot

from bourse.admin.actions import ACTIONS, key_table
from bourse.admin.messages import Frame
from bourse.tui.app import Console
from bourse.tui.line import LineView
from bourse.tui.picture import text_of
from bourse.tui.screens.help import HelpScreen
from bourse.tui.widgets.bars import footer_row
from tests.admin import samples
from tests.tui import scenes

Scenario = Callable[[Console, Pilot], Awaitable[None]]


def play(
    scenario: Scenario, size: tuple[int, int] = (120, 36), notifications: bool = False
) -> None:
    """Run a scenario on a console whose store is filled."""

    async def act() -> None:
        clock = scenes.Clock()
        app = scenes.console(clock, scenes.filled_store(clock, 60))
        async with app.run_test(size=size, notifications=notifications) as pilot:
            await scenario(app, pilot)

    asyncio.run(act())


def toasts(app: Console) -> list[str]:
    return [note.message for note in app._notifications]


def test_arrows_choose_the_stage_around_the_ends() -> None:
    async def scenario(app: Console, pilot: Pilot) -> None:
        assert app.state.stage == "total"
        await pilot.press("down")
        assert app.state.stage == "decoded"
        await pilot.press("up", "k")
        assert app.state.stage == "written"
        await pilot.pause()
        assert "HISTOGRAM written" in text_of(app)
        assert "P99 written" in text_of(app)

    play(scenario)


def test_v_turns_histogram_and_heat_map() -> None:
    async def scenario(app: Console, pilot: Pilot) -> None:
        await pilot.press("v")
        await pilot.pause()
        assert "HEAT total" in text_of(app)
        await pilot.press("v")
        await pilot.pause()
        assert "HISTOGRAM total" in text_of(app)

    play(scenario)


def test_on_a_small_terminal_v_takes_turns_with_the_log() -> None:
    async def scenario(app: Console, pilot: Pilot) -> None:
        seen = []
        for _ in range(4):
            await pilot.pause()
            text = text_of(app)
            seen.append(next(word for word in ("WAL", "HISTOGRAM", "HEAT") if f"─ {word} " in text))
            await pilot.press("v")
        assert seen == ["WAL", "HISTOGRAM", "HEAT", "WAL"]

    play(scenario, (80, 24))


def test_freeze_holds_the_picture_and_goes_on_where_it_is() -> None:
    async def scenario(app: Console, pilot: Pilot) -> None:
        await pilot.press("space")
        await pilot.pause()
        held = text_of(app)
        assert "FROZEN" in held

        for tick in range(60, 90):
            app.store.apply(Frame("depth", tick, 0, samples.depth(tick)))
            app.store.apply(Frame("wal", tick, 0, samples.wal(tick)))
        app.paint()
        await pilot.pause()
        assert "FROZEN +60" in text_of(app)
        assert text_of(app).splitlines()[1:] == held.splitlines()[1:]

        await pilot.press("space")
        await pilot.pause()
        assert "FROZEN" not in text_of(app)
        assert f"{samples.wal(89).accepted_seq:,}" in text_of(app)

    play(scenario)


def test_a_held_picture_survives_a_resize() -> None:
    async def scenario(app: Console, pilot: Pilot) -> None:
        await pilot.press("space")
        app.store.apply(Frame("wal", 1, 0, samples.wal(5_000)))
        await pilot.resize_terminal(130, 40)
        await pilot.pause()
        assert f"{samples.wal(5_000).accepted_seq:,}" not in text_of(app)

    play(scenario)


def test_plus_and_minus_change_the_rate_within_its_bounds() -> None:
    async def scenario(app: Console, pilot: Pilot) -> None:
        await pilot.press("plus")
        assert app.state.rate_hz == 10
        await pilot.press("equals_sign", "plus", "plus")
        assert app.state.rate_hz == 20
        await pilot.press(*["minus"] * 9)
        assert app.state.rate_hz == 1
        app.paint()
        await pilot.pause()
        assert "1 fps" in text_of(app)

    play(scenario)


def test_help_opens_and_any_key_closes_it() -> None:
    async def scenario(app: Console, pilot: Pilot) -> None:
        await pilot.press("question_mark")
        assert isinstance(app.screen, HelpScreen)
        await pilot.press("v")
        assert not isinstance(app.screen, HelpScreen)
        assert app.state.chart == "histogram"

    play(scenario)


def test_keys_of_one_read_close_help_once() -> None:
    async def scenario(app: Console, pilot: Pilot) -> None:
        await pilot.press("question_mark")
        await pilot.pause()
        for key in ("escape", "escape", "x"):
            app.screen.post_message(events.Key(key, None))
        await pilot.pause()
        assert not isinstance(app.screen, HelpScreen)
        assert len(app.screen_stack) == 1

    play(scenario)


def test_a_click_on_the_key_line_does_what_the_key_does() -> None:
    async def scenario(app: Console, pilot: Pilot) -> None:
        _, places = footer_row(app.state, 120)
        first = next(first for first, _, name in places if name == "freeze")
        await pilot.click("#keys", offset=(first + 2, 0))
        await pilot.pause()
        assert app.state.frozen

    play(scenario)


def test_q_leaves() -> None:
    async def scenario(app: Console, pilot: Pilot) -> None:
        await pilot.press("q")
        assert app.return_code == 0

    play(scenario)


def test_what_needs_a_daemon_is_refused_with_a_sentence_while_it_is_away() -> None:
    async def scenario(app: Console, pilot: Pilot) -> None:
        app.state.clock.now += 60  # type: ignore[attr-defined]
        await pilot.press("s")
        assert toasts(app) == ["Snapshot: no daemon answers."]

    play(scenario)


def test_the_same_trouble_is_told_once_and_counted() -> None:
    async def scenario(app: Console, pilot: Pilot) -> None:
        for _ in range(50):
            app.tell("disk", "The disk is [bold]full[/].", "error")
        await pilot.pause()
        assert toasts(app) == ["The disk is [bold]full[/]."]

        app.state.clock.now += 31  # type: ignore[attr-defined]
        app.tell("disk", "The disk is [bold]full[/].", "error")
        await pilot.pause()
        assert toasts(app)[-1] == "The disk is [bold]full[/]. (×50)"
        await pilot.pause()

    play(scenario)


@pytest.mark.parametrize("size", [(60, 16), (120, 36)])
def test_a_toast_shows_its_text_as_it_is(size: tuple[int, int]) -> None:
    async def scenario(app: Console, pilot: Pilot) -> None:
        app.tell("evil", "It [red]says[/red] [/] \x1b[2J.", "error")
        await pilot.pause(0.2)
        assert "It [red]says[/red] [/] ·[2J." in text_of(app)

    play(scenario, size, notifications=True)


def test_an_unchanged_store_repaints_no_row() -> None:
    async def scenario(app: Console, pilot: Pilot) -> None:
        app.paint()
        assert app.paint() == 0

        for topic, sample in samples.TOPIC_SAMPLES.items():
            app.store.apply(Frame(topic, 99, 0, sample(59)))
        app.paint()
        for topic, sample in samples.TOPIC_SAMPLES.items():
            app.store.apply(Frame(topic, 100, 0, sample(59)))
        assert app.paint() == 0
        await pilot.pause()

    play(scenario)


def test_one_changed_level_repaints_few_rows() -> None:
    async def scenario(app: Console, pilot: Pilot) -> None:
        app.paint()
        before = app.store.depth
        assert before is not None
        app.store.apply(Frame("depth", 1, 0, samples.depth(61)))
        ladder = app.screen.query_one("#book", LineView)
        changed = ladder.paint(app.state, app.store.take_dirty())
        assert 1 <= changed <= len(ladder.row_texts())
        await pilot.pause()

    play(scenario)


def test_paints_are_left_out_while_the_terminal_is_behind() -> None:
    async def scenario(app: Console, pilot: Pilot) -> None:
        app._driver.backlog = 5  # type: ignore[union-attr]
        app.store.apply(Frame("depth", 1, 0, samples.depth(61)))
        before = app.state.skipped
        assert app.paint() == 0
        assert app.state.skipped == before + 1

        app._driver.backlog = 0  # type: ignore[union-attr]
        assert app.paint() > 0
        await pilot.pause()

    play(scenario)


def test_resizes_through_every_layout_leave_no_hole() -> None:
    async def scenario(app: Console, pilot: Pilot) -> None:
        for width, height in [(40, 8), (60, 16), (200, 60), (80, 24), (1, 1), (160, 44), (120, 36)]:
            await pilot.resize_terminal(width, height)
            await pilot.pause()
            text = text_of(app)
            if width >= 60:
                assert "BOOK ACME" in text
                assert "LIVE" in text
                assert text.splitlines()[-1].lstrip().startswith("s Snapshot"), (width, height)
            elif width == 40:
                assert "60×16 needed, have 40×8" in text

    play(scenario)


def test_hostile_names_change_nothing_but_their_own_cells() -> None:
    async def scenario(app: Console, pilot: Pilot) -> None:
        evil = "[/]\x1b[2J\u202e[bold]漢字\n"
        sessions = samples.sessions(59)
        rows = [msgspec.structs.replace(one, peer=evil, state=evil) for one in sessions.sessions]
        app.store.apply(Frame("sessions", 1, 0, msgspec.structs.replace(sessions, sessions=rows)))
        status = msgspec.structs.replace(
            app.store.status, symbol=evil, instance=evil, durability=evil, poll=evil
        )
        app.store.apply(Frame("status", 1, 0, status))
        depth = msgspec.structs.replace(app.store.depth, symbol=evil)
        app.store.apply(Frame("depth", 1, 0, depth))
        app.tell("evil", evil, "error")
        app.paint()
        await pilot.pause()
        text = text_of(app)
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert "[/]·[2J" in text

    play(scenario)


def test_pictures_are_saved_under_the_state_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    async def scenario(app: Console, pilot: Pilot) -> None:
        await pilot.press("p")
        names = sorted(path.suffix for path in (tmp_path / "bourse" / "pictures").iterdir())
        assert names == [".svg", ".txt"]

    play(scenario)


def test_every_action_has_a_key_of_its_own_that_no_terminal_takes() -> None:
    keys = [key for action in ACTIONS for key in action.keys]

    assert len(keys) == len(set(keys))
    assert not {f"ctrl+{letter}" for letter in "abghijmoqstz["} & set(keys)
    assert len({action.id for action in ACTIONS}) == len(ACTIONS)


def test_the_manuals_table_of_keys_is_the_registrys() -> None:
    manual = (Path(__file__).parents[2] / "docs" / "console.md").read_text(encoding="utf-8")

    assert key_table() in manual, "run: python -m bourse.admin.actions, and put it into the manual"


def test_a_toast_covers_whole_lines_and_the_keys_first() -> None:
    async def scenario(app: Console, pilot: Pilot) -> None:
        before = text_of(app).splitlines()
        app.tell("one", "Snapshot @12: 5 orders, 688 B.")
        await pilot.pause(0.2)
        one = text_of(app).splitlines()
        assert [at for at in range(36) if one[at] != before[at]] in ([35], [0, 35])
        app.tell("two", "so many words " * 10, "error")
        await pilot.pause(0.2)
        for line in text_of(app).splitlines()[-3:]:
            assert line.startswith("▌ ")
            assert not set(line) & set("│╯╰─")

    play(scenario, notifications=True)
