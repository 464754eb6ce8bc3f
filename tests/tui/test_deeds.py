"""What the actions do, driven by Pilot: screens, palette, filters, copies, themes, keys."""

import asyncio
import csv
import json
from pathlib import Path

import msgspec
import pytest
from textual import events
from textual.pilot import Pilot

from bourse.admin.actions import ACTIONS, BUILT, SCREENS, Action
from bourse.admin.messages import Frame
from bourse.admin.store import Badge
from bourse.cli import COMMANDS
from bourse.tui.app import Console
from bourse.tui.picture import text_of
from bourse.tui.screens.choice import Chooser, Question
from bourse.tui.screens.prompt import Prompt
from bourse.tui.settings import Instance, Settings
from tests.admin import samples
from tests.admin.fake_daemon import FakeDaemon
from tests.tui import scenes
from tests.tui.test_console_and_daemon import told_daemon, until
from tests.tui.test_pilot import Scenario, play, toasts


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "bourse"


def play_with(settings: Settings, scenario: Scenario, size: tuple[int, int] = (100, 30)) -> None:
    async def act() -> None:
        clock = scenes.Clock()
        app = scenes.console(clock, scenes.filled_store(clock, 60), settings=settings)
        async with app.run_test(size=size) as pilot:
            await scenario(app, pilot)

    asyncio.run(act())


async def seen(app: Console, pilot: Pilot) -> str:
    app.paint()
    await pilot.pause()
    return text_of(app)


# --- the registry feeds everything


def test_commands_of_the_registry_exist() -> None:
    for action in BUILT:
        if action.command:
            program, name, *_ = action.command.split()
            assert program == "bourse"
            assert name in COMMANDS, action.id


def test_every_action_is_done_by_something_and_planned_ones_by_nothing() -> None:
    async def scenario(app: Console, pilot: Pilot) -> None:
        assert set(app.deeds._by_id) == {action.id for action in BUILT}
        bound = {binding.id for keys in app._bindings.key_to_bindings.values() for binding in keys}
        assert bound == {action.id for action in BUILT}

    play(scenario)


def test_dangerous_keys_are_uppercase_and_light_questions_are_asked_for_files() -> None:
    for action in ACTIONS:
        if action.danger:
            assert all(key.isupper() for key in action.keys), action.id
            assert action.changes
        if action.changes and not action.danger:
            assert action.confirm, action.id


@pytest.mark.parametrize("action", [one for one in BUILT if one.confirm], ids=lambda one: one.id)
@pytest.mark.parametrize("key", ["enter", "space", "escape", "n", "q"])
def test_only_yes_is_yes(action: Action, key: str) -> None:
    async def scenario(app: Console, pilot: Pilot) -> None:
        done = []
        app.deeds._by_id[action.id] = lambda: done.append(1)
        await pilot.press(action.keys[0])
        assert isinstance(app.screen, Question)
        await pilot.press(key)
        assert not isinstance(app.screen, Question)
        assert not done
        assert app.return_code is None
        await pilot.press(action.keys[0], "y")
        assert done == [1]

    play(scenario)


# --- screens


def test_number_keys_and_clicks_go_to_every_screen() -> None:
    async def scenario(app: Console, pilot: Pilot) -> None:
        for number, name in reversed(list(enumerate(SCREENS, 1))):
            await pilot.press(str(number))
            assert app.state.screen == name
            text = await seen(app, pilot)
            assert f"▸{number} " in text
        await pilot.click("#tabs", offset=(16, 0))
        assert app.state.screen == "book"

    play(scenario)


def test_a_screen_one_comes_back_to_shows_what_is_now() -> None:
    async def scenario(app: Console, pilot: Pilot) -> None:
        await pilot.press("4", "1")
        for tick in range(60, 70):
            app.store.apply(Frame("wal", tick, 0, samples.wal(tick)))
        app.paint()  # only the Overview takes this news
        await pilot.press("4")
        assert f"{samples.wal(69).accepted_seq:,}" in await seen(app, pilot)

    play(scenario)


def test_keys_of_another_screen_do_nothing() -> None:
    async def scenario(app: Console, pilot: Pilot) -> None:
        await pilot.press("g", "o", "d")
        assert app.state.group_ticks == 1
        assert app.state.levels == 0
        await pilot.press("2", "v", "g", "d")
        assert app.state.chart == "histogram"
        assert app.state.group_ticks == 2
        assert app.state.levels == 5

    play(scenario)


def test_keys_of_a_burst_all_count() -> None:
    async def scenario(app: Console, pilot: Pilot) -> None:
        await pilot.press("2", *["down"] * 4, "up", "5", "down", "end", "home", "pagedown")
        assert app.state.level == ("B", samples.depth().bids[2].price_ticks)
        assert app.state.table("sessions").cursor == 5

    play(scenario)


def test_keys_typed_at_once_reach_the_page_that_the_first_of_them_opens() -> None:
    async def scenario(app: Console, pilot: Pilot) -> None:
        app.show("log")
        for key in ("slash", *"ready", "enter", "question_mark", "down", "escape", "space"):
            app.post_message(events.Key(key, key if len(key) == 1 else None))
        await pilot.pause()
        assert app.state.table("log").filter == "ready"
        assert len(app.screen_stack) == 1
        assert app.state.frozen

    play(scenario)


# --- the palette


def test_the_palette_finds_by_words_and_does_it() -> None:
    async def scenario(app: Console, pilot: Pilot) -> None:
        await pilot.press("colon")
        assert isinstance(app.screen, Chooser)
        await pilot.press(*"hold", "enter")
        assert app.state.frozen
        await pilot.press("ctrl+p", *"lat", "escape")
        assert app.state.screen == "overview"
        await pilot.press("ctrl+p", *"laten", "enter")
        assert app.state.screen == "latency"

    play(scenario)


def test_the_palette_says_why_something_cannot_be_done() -> None:
    async def scenario(app: Console, pilot: Pilot) -> None:
        app.state.clock.now += 60  # type: ignore[attr-defined]
        await pilot.press("colon", *"snapsh")
        assert "no daemon answers" in await seen(app, pilot)
        await pilot.press("enter")
        assert toasts(app) == ["Snapshot: no daemon answers."]

    play(scenario)


# --- filter, sort, back


def test_a_filter_narrows_as_it_is_typed_and_escape_takes_it_back() -> None:
    async def scenario(app: Console, pilot: Pilot) -> None:
        await pilot.press("5", "slash", *"paused")
        text = await seen(app, pilot)
        assert "10.0.0.9:41872" in text
        assert "127.0.0.1:33018" not in text
        assert "filter / paused_" in text
        await pilot.press("enter")
        assert "1 of 4 · /paused" in await seen(app, pilot)
        await pilot.press("slash", *"xx", "escape")
        assert app.state.table("sessions").filter == "paused"
        await pilot.press("down", "escape")
        assert app.state.table("sessions").filter == ""
        assert app.state.table("sessions").cursor is not None
        await pilot.press("escape")
        assert app.state.table("sessions").cursor is None

    play(scenario)


def test_typing_a_filter_does_nothing_else() -> None:
    async def scenario(app: Console, pilot: Pilot) -> None:
        await pilot.press("7", "slash", *"q s1", "backspace", "ctrl+u", *"/(/")
        assert app.return_code is None
        assert app.state.screen == "log"
        assert isinstance(app.screen, Prompt)
        assert "unterminated" in await seen(app, pilot)

    play(scenario)


def test_o_sorts_by_one_column_after_the_other() -> None:
    async def scenario(app: Console, pilot: Pilot) -> None:
        await pilot.press("5", "o")
        assert "in/s↓" in await seen(app, pilot)
        await pilot.press("o", "o", "o")
        text = await seen(app, pilot)
        assert "rejects↓" in text
        assert text.index("127.0.0.1:33018") < text.index("10.0.0.7:50112")

    play(scenario)


# --- what one takes along


def test_a_copied_row_goes_to_the_clipboard_and_a_file(home: Path) -> None:
    async def scenario(app: Console, pilot: Pilot) -> None:
        await pilot.press("5", "y")
        assert toasts(app) == ["Copy: choose a row first (↑↓)."]
        await pilot.press("down", "y")
        assert app.clipboard.split("\t")[1] == "10.0.0.7:50112"
        assert (home / "clipboard.txt").read_text() == app.clipboard + "\n"
        assert "clipboard, and to" in toasts(app)[-1]

        gone = msgspec.structs.replace(samples.sessions(59), sessions=[])
        app.store.apply(Frame("sessions", 1, 0, gone))
        await pilot.press("y")
        await pilot.pause()
        assert toasts(app)[-1] == "Copy: the chosen row is gone."

    play(scenario)


@pytest.mark.parametrize("screen", SCREENS)
def test_every_screen_can_be_exported(home: Path, screen: str) -> None:
    async def scenario(app: Console, pilot: Pilot) -> None:
        await pilot.press(str(SCREENS.index(screen) + 1), "e")
        by_kind = {path.suffix: path for path in (home / "exports").iterdir()}
        values = json.loads(by_kind[".json"].read_text(encoding="utf-8"))
        assert values["screen"] == screen
        assert values["badge"] == Badge.LIVE.value
        text = by_kind[".csv"].read_text(encoding="utf-8")
        assert list(csv.DictReader(text.splitlines()))

    play(scenario, (80, 24))


# --- looks


def test_themes_take_turns_and_change_every_cell() -> None:
    async def scenario(app: Console, pilot: Pilot) -> None:
        names = []
        for _ in range(4):
            await pilot.press("T")
            await pilot.pause()
            names.append(app.state.theme)
            assert app.theme == f"bourse-{app.state.theme}"
        assert names == ["light", "colourblind", "terminal", "dark"]
        assert app.state.theme == "dark"

    play(scenario, (80, 24))


def test_ascii_means_ascii_even_for_names_and_toasts() -> None:
    async def scenario(app: Console, pilot: Pilot) -> None:
        rows = [msgspec.structs.replace(one, peer="漢字 é▶") for one in samples.sessions().sessions]
        changed = msgspec.structs.replace(samples.sessions(60), sessions=rows)
        app.store.apply(Frame("sessions", 99, 0, changed))
        for name in SCREENS:
            app.show(name)
            text = await seen(app, pilot)
            assert text.isascii(), name
        app.tell("x", "→ 漢字", "error")
        await pilot.pause()
        assert toasts(app)[-1] == "> ????"

    play_with(Settings(ascii=True), scenario)


# --- keys, read-only, environments


def test_keys_bound_anew_work_and_are_shown() -> None:
    async def scenario(app: Console, pilot: Pilot) -> None:
        assert toasts(app) == ["The key s is bound to freeze, no more to snapshot."]
        text = await seen(app, pilot)
        assert "s Freeze" in text
        assert "Snapshot" not in text.splitlines()[-1]
        await pilot.press("s")
        assert app.state.frozen
        await pilot.press("space")
        assert app.state.frozen

    play_with(Settings(keys={"freeze": ["s"]}), scenario)


def test_read_only_refuses_what_changes_something() -> None:
    async def scenario(app: Console, pilot: Pilot) -> None:
        assert "READ-ONLY" in await seen(app, pilot)
        await pilot.press("s")
        assert toasts(app) == ["Snapshot: this console is read-only."]
        assert not isinstance(app.screen, Question)

    play_with(Settings(read_only=True), scenario)


def test_the_environment_stands_in_front_and_in_the_question() -> None:
    async def scenario(app: Console, pilot: Pilot) -> None:
        app.state.environment = "prod"
        app.paint_all()
        await pilot.pause()
        assert text_of(app).startswith(" PROD  bourse ")
        await pilot.press("s")
        assert "SNAPSHOT default [prod]" in await seen(app, pilot)

    play(scenario)


# --- another daemon


def test_the_picker_offers_daemons_and_follows_the_chosen_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    (tmp_path / "bourse").mkdir()
    first, second = tmp_path / "bourse" / "one.sock", tmp_path / "two.sock"
    settings = Settings(instances={"two": Instance(str(second), "prod")})

    async def scenario() -> None:
        daemon, other = told_daemon(first), told_daemon(second)
        other.topics["status"] = msgspec.structs.replace(samples.status(), instance="the-second")
        async with daemon, other:
            app = Console(settings=settings)
            async with app.run_test(size=(100, 30)) as pilot:
                await pilot.press("c")
                text = await seen(app, pilot)
                assert "one" in text
                assert "two" in text
                await pilot.press(*"two", "enter")
                await until(pilot, lambda: app.store.is_live and app.store.status)
                assert app.store.status.instance == "the-second"
                assert app.state.environment == "prod"
                assert "the-second" in await seen(app, pilot)

                await pilot.press("c", *"one", "enter")
                await until(pilot, lambda: app.store.is_live and app.store.status)
                assert app.store.status.instance == "default"
                assert app.state.environment == ""

                await pilot.press("c", *"/nowhere.sock", "enter")
                await until(pilot, lambda: app.store.badge()[0] is Badge.RECONNECTING)
                assert "/nowhere.sock" in await seen(app, pilot)

    asyncio.run(scenario())


def test_keys_answer_at_once_while_the_daemon_hangs(tmp_path: Path) -> None:
    import time

    async def scenario() -> None:
        daemon = FakeDaemon(tmp_path / "s.sock", "mute")
        async with daemon:
            from bourse.admin.client import Feed
            from bourse.tui.app import subscriptions

            app = Console(Feed(daemon.path, subscriptions(5), name="test"))
            async with app.run_test(size=(80, 24)) as pilot:
                await daemon.asked("hello")
                for number, name in enumerate(SCREENS, 1):
                    started = time.perf_counter()
                    await pilot.press(str(number))
                    assert app.state.screen == name
                    # 100 ms is what an operator feels; the rest is a loaded machine's.
                    assert time.perf_counter() - started < 2.0

    asyncio.run(scenario())
