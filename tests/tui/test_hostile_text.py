"""Text of clients, daemon and disk: it breaks no column, colours nothing, moves nothing.

Every place where foreign text is shown gets the worst there is; each row must still be printable
and exactly as wide as asked, and nothing reaches the terminal but what the console itself writes.
"""

import asyncio
import contextlib
import io
import itertools
import re

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from bourse import cli
from bourse.admin.actions import SCREENS
from bourse.admin.client import Connection, ConnectionState
from bourse.admin.markers import MarkerKind
from bourse.admin.messages import Frame, Log, LogLine, SnapshotInfo
from bourse.cli import market, output
from bourse.cli.top import as_lines
from bourse.tui import exports, glyphs
from bourse.tui.line import text_of
from bourse.tui.replay import Digests, ReplayOutcome, ReplayReport, Verdict
from bourse.tui.screens.choice import Chooser, Option, Question
from bourse.tui.state import ConsoleState
from bourse.tui.widgets import bars
from tests.admin import samples
from tests.tui import scenes
from tests.tui.test_panels import PANELS

NASTY = (
    "[bold red]x[/]",
    "[/]",
    "[#ff0",
    "[@click=app.exit]x[/]",
    "\x1b[2J\x1b[H",
    "\x1b]52;c;AAAA\x07",
    "\x1b[31mred",
    "\x9b31m",
    "a\rb\nc\td\x00e\x08f",
    "\u202eright to left\u2066",
    "\u200b\u200d\ufeff",
    "e\u0301\u0301\u0301",
    "漢字漢字漢字",
    "👩\u200d👩\u200d👧🇩🇪✂️",
    "\ud800",
    "\U0010ffff\ue000",
    "=cmd|' /C calc'!A0",
    "x" * 5_000,
    "",
    " ",
)
TEXT = st.one_of(
    st.sampled_from(NASTY),
    st.lists(st.sampled_from(NASTY), min_size=2, max_size=4).map("".join),
    st.text(st.characters(codec=None), max_size=12),
)


def state_with(texts: list[str]) -> ConsoleState:
    """Return a state in which every foreign text is one of these."""
    clock = scenes.Clock()
    store = scenes.filled_store(clock, 20)
    turn = itertools.cycle(texts)
    store.apply(
        Frame(
            "sessions",
            1,
            0,
            msgspec.structs.replace(
                samples.sessions(20),
                sessions=[
                    msgspec.structs.replace(one, peer=next(turn), state=next(turn))
                    for one in samples.sessions(20).sessions
                ],
            ),
        )
    )
    status = {
        name: next(turn)
        for name in ("symbol", "instance", "durability", "poll", "build", "data_dir")
    }
    store.apply(Frame("status", 1, 0, msgspec.structs.replace(samples.status(20), **status)))
    store.apply(Frame("depth", 1, 0, msgspec.structs.replace(samples.depth(20), symbol=next(turn))))
    wal = msgspec.structs.replace(
        samples.wal(20),
        durability=next(turn),
        segment_path=next(turn),
        state_digest=next(turn),
        failed=next(turn),
        snapshots=[SnapshotInfo(next(turn), 18_000_000, 1, 1)],
    )
    store.apply(Frame("wal", 1, 0, wal))
    stages = [msgspec.structs.replace(one, stage=next(turn)) for one in samples.latency(20).stages]
    store.apply(Frame("latency", 1, 0, msgspec.structs.replace(samples.latency(20), stages=stages)))
    lines = [LogLine(100 + at, 0, next(turn), next(turn)) for at in range(4)]
    store.apply(Frame("log", 1, 0, Log(lines, 104)))
    store.mark(MarkerKind.REJECTS, 18_100_000, next(turn))
    state = ConsoleState(live=store, clock=clock, stage=stages[0].stage)
    state.environment = next(turn)
    state.admin_path = next(turn)
    report = ReplayReport(9, 18_216_046, Digests(next(turn), next(turn)))
    state.replay = ReplayOutcome(Verdict.DIFFERENT, next(turn), report, (next(turn), next(turn)))
    return state


def check_rows(rows: list, width: int) -> None:
    for row in rows:
        text = text_of(row)
        assert cell_len(text) == width
        assert text.isprintable()
        letters = glyphs.ascii_only(text)
        assert letters.isascii()
        assert letters.isprintable()
        assert len(letters) == width


@given(st.lists(TEXT, min_size=3, max_size=9), st.sampled_from([(28, 6), (60, 14), (118, 30)]))
@settings(max_examples=25, deadline=None)
def test_no_panel_is_broken_by_any_text(texts: list[str], size: tuple[int, int]) -> None:
    state = state_with(texts)
    for choose in (False, True):
        if choose:
            state.table("sessions").cursor = state.store.sessions.sessions[0].session_id
            state.table("log").cursor = state.store.log[-1].key
            state.table("time").cursor = state.store.all_markers()[-1].key
            state.table("log").filter = texts[0]
        for draw in PANELS.values():
            rows = draw(state, *size)
            assert len(rows) == size[1]
            check_rows(rows, size[0])
    check_rows([bars.status_row(state, 80)], 80)
    check_rows([bars.tabs_row(state, 80)[0], bars.footer_row(state, 80)[0]], 80)


@given(TEXT, TEXT)
@settings(max_examples=25, deadline=None)
def test_no_page_is_broken_by_any_text(one: str, other: str) -> None:
    state = ConsoleState()
    chooser = Chooser(
        "DAEMONS", [Option(one, other, one), Option("b", one, other, "k", other)], "h"
    )
    question = Question("SNAPSHOT", f"{one} {other}", "s")
    for page in (chooser, question):
        for size in ((30, 8), (84, 12)):
            check_rows(page.page_rows(state, *size), size[0])
    chooser.entry.text = one
    check_rows(chooser.page_rows(state, 84, 12), 84)


@given(st.lists(TEXT, min_size=3, max_size=9))
@settings(max_examples=10, deadline=None)
def test_text_and_files_carry_no_control_bytes(texts: list[str]) -> None:
    state = state_with(texts)

    for line in as_lines(state.store):
        assert line.isprintable()
    for screen in ("sessions", "log", "time", "wal", "latency"):
        for line in exports.as_csv(state, screen).splitlines():
            assert line.isprintable()
            assert not line.startswith(("=", "+", "@"))


@given(TEXT, TEXT)
@settings(max_examples=25, deadline=None)
def test_commands_print_nothing_that_a_terminal_obeys(one: str, other: str) -> None:
    """Whatever `book`, `watch` and the others write goes through one function, errors too."""
    depth = msgspec.structs.replace(samples.depth(20), symbol=one)
    trade = msgspec.structs.replace(samples.trades(20).trades[-1], received_ns=0)
    with (
        contextlib.redirect_stdout(io.StringIO()) as out,
        contextlib.redirect_stderr(io.StringIO()) as err,
    ):
        for line in (*market.book_lines(depth), market.trade_line(trade), other):
            output.say(line)
        cli.complain(f"{one} {other}")
    for text in (out.getvalue(), err.getvalue()):
        assert all(letter.isprintable() or letter in "\n\t" for letter in text)


@pytest.mark.parametrize("text", [*NASTY[:9], "\x1b[2J" * 3])
def test_nothing_of_it_reaches_the_terminal(text: str) -> None:
    """Through Textual itself: panels, toasts and pages, as written to the terminal."""
    own = re.compile(r"\x1b\[[0-9;]*m")
    moves = re.compile(r"\x1b\[[0-9;]*H")

    async def scenario() -> str:
        clock = scenes.Clock()
        state = state_with([text])
        app = scenes.console(clock, state.live)
        async with app.run_test(size=(100, 30), notifications=True) as pilot:
            app.state.replay = state.replay
            written = ""
            for name in SCREENS:
                app.show(name)
                app.tell(name, text, "error")
                app.paint_all()
                await pilot.pause()
                update = app.screen._compositor.render_update(full=True)
                written += update.render_segments(app.console)
            app.store.apply(Connection(ConnectionState.LOST, text))
            await pilot.pause()
            assert app.return_code is None
            return written

    written = asyncio.run(scenario())
    rest = moves.sub("", own.sub("", written))
    assert all(letter.isprintable() or letter == "\n" for letter in rest)
