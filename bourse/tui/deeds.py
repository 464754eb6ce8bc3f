"""What each action does: one method an action, found by its id; the app owns state and painting."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bourse.admin.actions import BUILT, BY_ID, SCREENS, Action, keys_of, label_of, on_screen, spell
from bourse.admin.client import Feed
from bourse.admin.markers import MarkerKind
from bourse.admin.messages import (
    CommitParams,
    Committed,
    Prepared,
    PrepareParams,
    SnapshotResult,
)
from bourse.config import check_admin_path, runtime_dir
from bourse.errors import BourseError
from bourse.tui import exports, filters, layout, replay
from bourse.tui.format import count, duration, size
from bourse.tui.picture import save_pictures
from bourse.tui.screens.base import PAGE_ROWS, ConsoleScreen, Panels
from bourse.tui.screens.choice import Chooser, Option, Question
from bourse.tui.screens.danger import Danger
from bourse.tui.screens.help import HelpScreen
from bourse.tui.screens.prompt import Prompt
from bourse.tui.theme import THEMES

if TYPE_CHECKING:
    from bourse.tui.app import Console

FAR = 1_000_000
"""More rows than any table has."""
PROBE_SECONDS = 0.05
_SEVERITY = {
    replay.Verdict.EQUAL: "information",
    replay.Verdict.CHECKPOINTS: "information",
    replay.Verdict.INCOMPARABLE: "information",
}


class Deeds:
    """The actions of one console."""

    def __init__(self, app: Console) -> None:
        self._app = app
        self._by_id: dict[str, Callable[[], object]] = {
            "palette": self._palette,
            "snapshot": self._snapshot,
            "replay": self._replay,
            "freeze": self._freeze,
            "next": lambda: self._move(+1),
            "previous": lambda: self._move(-1),
            "page.next": lambda: self._move(+PAGE_ROWS),
            "page.previous": lambda: self._move(-PAGE_ROWS),
            "first": lambda: self._move(-FAR),
            "last": lambda: self._move(+FAR),
            "chart": self._next_chart,
            "levels": self._next_levels,
            "group": self._next_group,
            "filter": self._filter,
            "sort": self._sort,
            "back": self._back,
            "copy": self._copy,
            "export": self._export,
            "screenshot": self._save_pictures,
            "connect": self._connect,
            "theme": self._next_theme,
            "faster": lambda: app.change_rate(+1),
            "slower": lambda: app.change_rate(-1),
            "help": lambda: app.push_screen(HelpScreen()),
            "quit": app.exit,
            "halt": lambda: self._endanger("halt", PrepareParams("halt")),
            "resume": lambda: self._endanger("resume", PrepareParams("resume")),
            "kick": self._kick,
            "cancel.all": self._cancel_all,
        }
        for name in SCREENS:
            self._by_id[f"screen.{name}"] = partial(app.show, name)

    def refusal(self, action: Action) -> str:
        """Return why an action cannot be done now, in a sentence; empty: it can."""
        state = self._app.state
        if action.planned:
            return f"{action.title}: not built yet."
        if action.changes and state.refuses_changes:
            return f"{action.title}: this console is read-only."
        if action.needs_daemon and not state.live.is_live:
            return f"{action.title}: no daemon answers."
        return ""

    def perform(self, action: Action) -> None:
        """Do what an action says, after asking where it wants to be asked for."""
        if refusal := self.refusal(action):
            self._app.tell(f"refused.{action.id}", refusal, "warning")
            return
        if not action.confirm or self._is_running(action):
            self._by_id[action.id]()
            return
        status = self._app.state.live.status
        name = f" {status.instance}" if status else ""
        environment = self._app.state.environment
        title = f"{action.title.upper()}{name}{f' [{environment}]' if environment else ''}"
        keys = keys_of(action, self._app.state.keys)

        def answered(answer: str | None) -> None:
            if answer == "yes":
                if again := self.refusal(action):  # the daemon may have gone meanwhile
                    self._app.tell(f"refused.{action.id}", again, "warning")
                else:
                    self._by_id[action.id]()
            self._app.repaint()

        question = Question(title, action.confirm, keys[0] if keys else "y")
        self._app.push_screen(question, answered)

    def _is_running(self, action: Action) -> bool:
        state = self._app.state
        return (action.id == "snapshot" and state.snapshot_running) or (
            action.id == "replay" and state.replay_started is not None
        )

    @property
    def _screen(self) -> ConsoleScreen:
        """The screen under whatever page is open."""
        return next(one for one in self._app.screen_stack if isinstance(one, ConsoleScreen))

    # --- looking

    def _palette(self) -> None:
        state = self._app.state
        options = [
            Option(
                action.id,
                action.title,
                action.help,
                label_of(action, state.keys) and " ".join(map(spell, keys_of(action, state.keys))),
                self.refusal(action),
            )
            for action in BUILT
            if action.id != "palette" and on_screen(action, state.screen)
        ]
        by_id = {action.id: action for action in BUILT}

        def chosen(action_id: str | None) -> None:
            if action_id is not None:
                self.perform(by_id[action_id])
            self._app.repaint()

        self._app.push_screen(
            Chooser("PALETTE", options, "type words · ↑↓ · Enter does it · Esc leaves"), chosen
        )

    def _freeze(self) -> None:
        self._app.state.freeze(not self._app.state.frozen)
        self._app.paint_all()

    def _move(self, step: int) -> None:
        self._screen.move(step)

    def _next_chart(self) -> None:
        """Histogram, heat map and back; on a small terminal both take turns with a panel."""
        state = self._app.state
        sizes = {"overview": layout.overview, "latency": layout.latency}[state.screen]
        if "picture" in sizes(*self._app.size):
            state.chart = "heat" if state.chart == "histogram" else "histogram"
            return
        if not state.picture_for_log:
            state.chart, state.picture_for_log = "histogram", True
        elif state.chart == "histogram":
            state.chart = "heat"
        else:
            state.chart, state.picture_for_log = "histogram", False
        self._screen.query_one(Panels).rearrange()

    def _next_levels(self) -> None:
        self._app.state.next_levels()
        self._app.ask()

    def _next_group(self) -> None:
        self._app.state.next_group()
        self._app.ask()

    def _sort(self) -> None:
        table = self._screen.TABLE
        if table is not None:
            chosen = self._app.state.table(self._app.state.screen)
            chosen.sort = (chosen.sort + 1) % (len(table.orders) + 1)

    def _filter(self) -> None:
        table = self._app.state.table(self._app.state.screen)
        before = table.filter

        def typed(text: str) -> str:
            table.filter = text
            self._app.repaint()
            return filters.parse(text)[1]

        def done(text: str | None) -> None:
            table.filter = before if text is None else text
            self._app.repaint()

        self._app.push_screen(Prompt("filter /", before, changed=typed), done)

    def _back(self) -> None:
        state = self._app.state
        table = state.table(state.screen)
        if table.filter:
            table.filter = ""
        elif table.cursor is not None or (state.screen == "book" and state.level is not None):
            table.cursor = state.level = None
        elif state.frozen:
            self._freeze()

    def _next_theme(self) -> None:
        state = self._app.state
        if state.mono:
            self._app.tell("theme", "Without colours (NO_COLOR) there is one theme only.")
            return
        self._app.use_theme(THEMES[(THEMES.index(state.theme) + 1) % len(THEMES)])
        self._app.tell("theme", f"Theme {state.theme}.")

    # --- taking along

    def _save(self, what: str, write: Callable[[], list[Path]]) -> None:
        try:
            paths = write()
        except OSError as error:
            self._app.tell(what, f"Nothing was saved: {error}", "error")
            return
        self._app.tell(what, "Saved " + " and ".join(str(path) for path in paths))

    def _save_pictures(self) -> None:
        self._save("screenshot", lambda: save_pictures(self._app))

    def _export(self) -> None:
        state = self._app.state
        self._save("export", lambda: exports.export(state, state.screen))

    def _copy(self) -> None:
        text = self._screen.chosen_text()
        if text is None:
            state = self._app.state
            gone = state.table(state.screen).cursor is not None or state.level is not None
            words = "the chosen row is gone." if gone else "choose a row first (↑↓)."
            self._app.tell(f"copy.{gone}", f"Copy: {words}", "warning")
            return
        self._app.copy_to_clipboard(text)
        try:
            path = exports.save_copy(text)
        except OSError as error:
            self._app.tell(
                "copy", f"Copied to the terminal's clipboard; no file: {error}", "warning"
            )
            return
        self._app.tell("copy", f"Copied to the terminal's clipboard, and to {path}")

    # --- another daemon

    def _connect(self) -> None:
        watched = self._app.state.admin_path
        options = [
            Option(
                str(path),
                name,
                f"{path}{'' if answers else '  (nobody answers)'}",
                "watched" if str(path) == watched else "",
            )
            for name, path, answers in self._found()
        ]

        def chosen(path: str | None) -> None:
            if path is None:
                return
            try:
                check_admin_path(path)
            except BourseError as error:
                self._app.tell("connect", str(error), "error")
                return
            self._app.follow(path)

        hint = "type a name or a path · Enter watches it · Esc leaves"
        chooser = Chooser("DAEMONS", options, hint, "a socket's path")
        self._app.push_screen(chooser, chosen)

    def _found(self) -> list[tuple[str, Path, bool]]:
        """Return daemons: of the settings, of the usual place for sockets, and the watched one."""
        known = {name: Path(one.admin) for name, one in self._app.settings.instances.items()}
        with contextlib.suppress(OSError):
            for path in sorted(runtime_dir().glob("*.sock")):
                if path not in known.values():
                    known.setdefault(path.stem, path)
        state = self._app.state
        watched = Path(state.admin_path)
        if state.admin_path and watched not in known.values():
            status = self._app.store.status
            name = status.instance if status else watched.stem
            # Its name may be another's already; then the path tells them apart.
            known = {name if name not in known else str(watched): watched, **known}
        return [(name, path, _answers(path)) for name, path in known.items()]

    # --- asking the daemon

    def _snapshot(self) -> None:
        feed = self._app.feed
        if feed is None or self._app.state.snapshot_running:
            return
        self._app.state.snapshot_running = True
        self._app.run_worker(self._write_snapshot(feed), group="snapshot")

    async def _write_snapshot(self, feed: Feed) -> None:
        app = self._app
        try:
            result: SnapshotResult = await feed.request("snapshot")
            app.state.snapshot = result
            app.tell(
                "snapshot",
                f"Snapshot @{count(result.wal_seq)}: {count(result.live_orders)} orders, "
                f"{size(result.bytes)}, matcher paused {duration(result.pause_ns)}.",
            )
        except BourseError as error:
            app.tell("snapshot", f"No snapshot was written: {error}", "error")
        finally:
            app.state.snapshot_running = False
            app.repaint()

    # --- what hits others

    def _chosen_session(self) -> int:
        """Return the session that is chosen on the Sessions screen; 0: none is."""
        state = self._app.state
        cursor = state.table("sessions").cursor if state.screen == "sessions" else None
        return cursor if isinstance(cursor, int) else 0

    def _kick(self) -> None:
        session_id = self._chosen_session()
        if not session_id:
            self._app.tell("kick", "Kick: choose a session first (↑↓).", "warning")
            return
        self._endanger("kick", PrepareParams("kick", session_id))

    def _cancel_all(self) -> None:
        self._endanger("cancel.all", PrepareParams("cancel_all", self._chosen_session()))

    def _endanger(self, action_id: str, params: PrepareParams) -> None:
        feed = self._app.feed
        if feed is not None:
            work = self._ask_and_commit(BY_ID[action_id], feed, params)
            self._app.run_worker(work, group="danger", exclusive=True)

    async def _ask_and_commit(self, action: Action, feed: Feed, params: PrepareParams) -> None:
        """Have the daemon say what would be hit, ask the operator, and have it done."""
        app = self._app
        try:
            prepared: Prepared = await feed.request("prepare", params)
            typed = await app.push_screen_wait(Danger(prepared, app.state.environment))
            if typed is None:
                app.tell("danger", f"{action.title}: nothing was done.")
            elif feed is not app.feed or (again := self.refusal(action)):
                again = again if feed is app.feed else f"{action.title}: another daemon is watched."
                app.tell(f"refused.{action.id}", again, "warning")
            else:
                done: Committed = await feed.request("commit", CommitParams(prepared.token, typed))
                app.tell("danger", f"{done.sentence} Record {count(done.wal_seq)}.")
        except BourseError as error:
            # Another trouble each time: it is told each time.
            app.forget_told(f"refused.{action.id}")
            app.tell(f"refused.{action.id}", f"{action.title}: {error}", "warning")
        finally:
            app.repaint()

    def _replay(self) -> None:
        app = self._app
        status = app.store.status
        if app.state.replay_started is not None:
            return
        if status is None:
            app.tell("replay", "Replay: the data directory is not known yet.", "warning")
            return
        if status.durability == "memory":
            app.tell("replay", "Replay: policy memory writes no log to replay.", "warning")
            return
        app.state.replay_started = app.state.clock()
        app.state.replay_progress = (0, 0)
        app.run_worker(self._run_replay(status.data_dir), group="replay")

    async def _run_replay(self, data_dir: str) -> None:
        app = self._app

        def advance(done: int, total: int) -> None:
            app.state.replay_progress = (done, total)

        try:
            report = await replay.run(replay.command(data_dir), advance)
            # A frame with this wal_seq may be on its way still.
            await asyncio.sleep(1.5 / min(app.state.rate_hz, 5))
            outcome = replay.judge(report, app.store.digests)
        except (BourseError, OSError) as error:
            outcome = replay.failed(error)
        finally:
            app.state.replay_started = None
        app.state.replay = outcome
        if outcome.report is not None:
            app.store.mark(MarkerKind.REPLAY, outcome.report.last_wal_seq, outcome.sentence)
        severity: Any = _SEVERITY.get(outcome.verdict, "error")
        app.forget_told("replay")
        app.tell("replay", outcome.sentence, severity)
        app.repaint()


def _answers(path: Path) -> bool:
    """Say whether somebody listens on a socket; it is left at once."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(PROBE_SECONDS)
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True
