"""What hits others, from the console: asked with what it hits, done with the name typed, or not."""

import asyncio
import os
from pathlib import Path

import msgspec
import pytest
from textual.pilot import Pilot

from bourse.admin.client import Feed
from bourse.admin.messages import Committed, ErrorBody, ErrorCode, Prepared
from bourse.tui.app import Console, subscriptions
from bourse.tui.picture import text_of
from bourse.tui.screens.base import ConsoleScreen
from bourse.tui.screens.danger import Danger
from bourse.tui.settings import Settings
from tests.admin.fake_daemon import FakeDaemon
from tests.integration.harness import Daemon, buy, one_daemon
from tests.tui.test_console_and_daemon import console, told_daemon, until
from tests.tui.test_pilot import play, toasts

GOLDEN = Path(__file__).parent / "golden"


def prepared(**changes: object) -> Prepared:
    return msgspec.structs.replace(
        Prepared(
            token="a-token",
            action="halt",
            session_id=0,
            instance="default",
            symbol="ACME",
            title="halt ACME",
            impact=[
                "New orders and replaces in ACME are refused; cancels work.",
                "1,204 live orders of 3 sessions stay in the book, 98,020 lots.",
                "3 clients are connected.",
            ],
            orders=1_204,
            qty_lots=98_020,
            sessions=3,
            is_least=False,
            connections=3,
            ttl_seconds=30.0,
        ),
        **changes,
    )


def asked(daemon: FakeDaemon, method: str) -> list[dict]:
    return [one["params"] for one in daemon.requests if one["method"] == method]


def with_daemon(path: Path, scenario, size: tuple[int, int] = (80, 24)) -> None:
    async def act() -> None:
        daemon = told_daemon(path)
        daemon.results["prepare"] = prepared()
        daemon.results["commit"] = Committed("halt", 0, 4_711, 0, "ACME is halted: cancels only.")
        async with daemon:
            app = console(path)
            async with app.run_test(size=size) as pilot:
                await until(pilot, lambda: app.store.is_live and app.store.status)
                await scenario(daemon, app, pilot)

    asyncio.run(act())


async def opened(app: Console, pilot: Pilot) -> str:
    await until(pilot, lambda: isinstance(app.screen, Danger))
    await pilot.pause()
    return text_of(app)


@pytest.mark.parametrize("size", [(80, 24), (60, 16)], ids=lambda size: "x".join(map(str, size)))
def test_the_question_says_what_is_hit(size: tuple[int, int]) -> None:
    async def scenario(app: Console, pilot: Pilot) -> None:
        app.push_screen(Danger(prepared(), "prod"))
        await pilot.pause()
        lines = [line.rstrip() for line in text_of(app).splitlines()]
        first = next(at for at, line in enumerate(lines) if "halt ACME" in line)
        last = next(at for at, line in enumerate(lines) if "Esc leaves it" in line)
        inside = " ".join(line.strip().strip("│").strip() for line in lines[first:last])
        box = " ".join(inside.split())
        assert "default [prod]: halt ACME" in box
        for sentence in prepared().impact:
            assert sentence in box
        assert "type default" in box
        golden = GOLDEN / f"danger-{size[0]}x{size[1]}.txt"
        box = "\n".join(line.strip() for line in lines[first : last + 1]) + "\n"
        if os.environ.get("BOURSE_UPDATE_GOLDENS"):
            golden.write_text(box, encoding="utf-8")
        assert box == golden.read_text(encoding="utf-8")

    play(scenario, size)


def test_the_name_and_enter_do_it(tmp_path: Path) -> None:
    async def scenario(daemon: FakeDaemon, app: Console, pilot: Pilot) -> None:
        await pilot.press("H")
        text = await opened(app, pilot)
        assert "1,204 live orders of 3 sessions stay" in text
        assert not asked(daemon, "commit")
        await pilot.press(*"default", "enter")
        await until(pilot, lambda: toasts(app))
        assert toasts(app) == ["ACME is halted: cancels only. Record 4,711."]
        assert asked(daemon, "prepare") == [{"action": "halt", "session_id": 0}]
        assert asked(daemon, "commit") == [{"token": "a-token", "typed": "default"}]
        assert isinstance(app.screen, ConsoleScreen)

    with_daemon(tmp_path / "s.sock", scenario)


def test_nothing_else_does_it(tmp_path: Path) -> None:
    presses = [
        ["enter", "escape"],
        ["y", "enter", "H", "enter", "escape"],
        [*"defaul", "enter", "escape"],
        [*"default", "escape"],
        [*"Default", "enter", "q", "escape"],
        ["space", *"default", "enter", "escape"],
    ]

    async def scenario(daemon: FakeDaemon, app: Console, pilot: Pilot) -> None:
        for number, keys in enumerate(presses, 1):
            await pilot.press("H")
            await opened(app, pilot)
            await pilot.press(*keys)
            await until(pilot, lambda: isinstance(app.screen, ConsoleScreen))
            await until(pilot, lambda expected=number: len(toasts(app)) == expected)
        assert set(toasts(app)) == {"Halt: nothing was done."}
        assert not asked(daemon, "commit")
        assert app.return_code is None

    with_daemon(tmp_path / "s.sock", scenario)


def test_a_typing_mistake_can_be_mended(tmp_path: Path) -> None:
    async def scenario(daemon: FakeDaemon, app: Console, pilot: Pilot) -> None:
        await pilot.press("R")
        await opened(app, pilot)
        await pilot.press(*"defailt", "enter")
        await pilot.pause()
        assert "that is not its name" in text_of(app)
        await pilot.press("ctrl+u", *"default", "enter")
        await until(pilot, lambda: asked(daemon, "commit"))
        assert asked(daemon, "prepare")[0]["action"] == "resume"

    with_daemon(tmp_path / "s.sock", scenario)


def test_refusals_of_the_daemon_are_told(tmp_path: Path) -> None:
    async def scenario(daemon: FakeDaemon, app: Console, pilot: Pilot) -> None:
        daemon.results["prepare"] = ErrorBody(
            ErrorCode.REFUSED, "The instrument is halted already."
        )
        await pilot.press("H")
        await until(pilot, lambda: toasts(app))
        assert toasts(app) == ["Halt: The instrument is halted already."]
        assert isinstance(app.screen, ConsoleScreen)

        daemon.results["prepare"] = prepared()
        daemon.results["commit"] = ErrorBody(ErrorCode.REFUSED, "this token was used")
        await pilot.press("H")
        await opened(app, pilot)
        await pilot.press(*"default", "enter")
        await until(pilot, lambda: len(toasts(app)) == 2)
        assert toasts(app)[1] == "Halt: this token was used"

    with_daemon(tmp_path / "s.sock", scenario)


def test_a_daemon_that_goes_meanwhile_is_not_asked(tmp_path: Path) -> None:
    async def scenario(daemon: FakeDaemon, app: Console, pilot: Pilot) -> None:
        await pilot.press("H")
        await opened(app, pilot)
        await daemon.stop()
        await until(pilot, lambda: not app.store.is_live)
        await pilot.press(*"default", "enter")
        await until(pilot, lambda: "Halt: no daemon answers." in toasts(app))
        assert not asked(daemon, "commit")

    with_daemon(tmp_path / "s.sock", scenario)


def test_kick_and_cancel_all_take_the_chosen_session(tmp_path: Path) -> None:
    async def scenario(daemon: FakeDaemon, app: Console, pilot: Pilot) -> None:
        await until(pilot, lambda: app.store.sessions)
        await pilot.press("K")
        assert not asked(daemon, "prepare")  # not on this screen
        await pilot.press("5", "K")
        assert toasts(app) == [
            "Nothing was done: Kick works on Sessions.",
            "Kick: choose a session first (↑↓).",
        ]
        await pilot.press("down", "K")
        await opened(app, pilot)
        chosen = app.state.table("sessions").cursor
        await pilot.press("escape", "X")
        await opened(app, pilot)
        await pilot.press("escape", "2", "X")
        await opened(app, pilot)
        assert asked(daemon, "prepare") == [
            {"action": "kick", "session_id": chosen},
            {"action": "cancel_all", "session_id": chosen},
            {"action": "cancel_all", "session_id": 0},
        ]

    with_daemon(tmp_path / "s.sock", scenario)


def test_a_read_only_console_says_so_to_the_daemon_and_asks_for_nothing(tmp_path: Path) -> None:
    path = tmp_path / "s.sock"

    async def scenario() -> None:
        daemon = told_daemon(path)
        async with daemon:
            feed = Feed(path, subscriptions(5), read_only=True)
            app = Console(feed, settings=Settings(read_only=True), rate_hz=20)
            async with app.run_test(size=(80, 24)) as pilot:
                await until(pilot, lambda: app.store.is_live and app.store.status)
                await pilot.press("H", "R", "2", "X")
                assert [one.partition(": ")[2] for one in toasts(app)] == [
                    "this console is read-only."
                ] * 3
                assert not asked(daemon, "prepare")
                assert asked(daemon, "hello")[0]["read_only"]

    asyncio.run(scenario())


def test_words_of_the_daemon_cannot_break_the_question() -> None:
    async def scenario(app: Console, pilot: Pilot) -> None:
        nasty = "[red]x[/]\x1b[31m\x07\u202e\n\t{}" * 20
        app.push_screen(Danger(prepared(title=nasty, instance=nasty, impact=[nasty, "", "end"])))
        await pilot.pause()
        text = text_of(app)
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert "[red]x" in text
        await pilot.press("escape")
        assert isinstance(app.screen, ConsoleScreen)

    play(scenario, (80, 24))


def test_a_halt_is_seen_in_status_line_and_book() -> None:
    async def scenario(app: Console, pilot: Pilot) -> None:
        store = app.store
        store.status = msgspec.structs.replace(store.status, halted=True)
        store.depth = msgspec.structs.replace(store.depth, halted=True)
        for key in ("1", "2"):
            await pilot.press(key)
            app.paint_all()
            await pilot.pause()
            first, *rest = text_of(app).splitlines()
            assert "▲ HALTED" in first
            assert any("BOOK ACME" in line and "HALTED, cancels only" in line for line in rest)

    play(scenario, (80, 24))


@pytest.fixture
def real() -> Daemon:
    with one_daemon(durability="async") as daemon:
        yield daemon


def test_a_real_exchange_is_halted_and_emptied_from_the_console(real: Daemon) -> None:
    async def scenario() -> None:
        client = real.connect()
        client.ask(*(buy(number, 5, 100) for number in range(1, 4)), answers=3)
        app = Console(Feed(real.admin_path, subscriptions(5), name="a test"), rate_hz=20)
        async with app.run_test(size=(120, 36)) as pilot:
            await until(pilot, lambda: app.store.depth and app.store.status)
            await pilot.press("2", "X")
            text = await opened(app, pilot)
            assert "3 live orders of 1 session are cancelled, 15 lots." in text
            await pilot.press(*"default", "enter")
            await until(pilot, lambda: toasts(app))
            assert toasts(app)[0].startswith("3 orders are cancelled. Record ")
            await pilot.press("H")
            await opened(app, pilot)
            await pilot.press(*"default", "enter")
            await until(pilot, lambda: app.store.status.halted and app.store.depth.halted)
            app.paint_all()
            await pilot.pause()
            assert "HALTED" in text_of(app).splitlines()[0]
        assert not real.call("depth").bids
        assert len(client.receive(3)) == 3

    asyncio.run(scenario())
