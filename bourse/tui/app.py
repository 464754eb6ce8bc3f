"""The console's app: feed in, one paint timer out, actions of the operator.

    Feed (worker) ──► Store ──dirty topics──► paint timer ──► LineViews of the visible screens

Nothing but the timer paints, and it leaves a paint out when the terminal has not taken the last one
yet, so a slow line shows the newest numbers, not old ones late. Actions are rows of
bourse.admin.actions; what they come to is shown in the log's panel and as a toast.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from textual import events
from textual.app import App
from textual.binding import Binding, BindingType
from textual.driver import Driver
from textual.timer import Timer

from bourse.admin.actions import ACTIONS, BY_ID
from bourse.admin.client import Connection, ConnectionState, Feed
from bourse.admin.messages import TOPICS, SnapshotResult, SubscribeParams
from bourse.admin.store import Store
from bourse.errors import BourseError, UsageError
from bourse.tui import layout, replay
from bourse.tui.driver import OpsDriver
from bourse.tui.format import clean, count, duration, size
from bourse.tui.line import LineView
from bourse.tui.picture import save_pictures
from bourse.tui.screens import SCREENS
from bourse.tui.screens.base import Panels
from bourse.tui.screens.help import HelpScreen
from bourse.tui.state import RATE_HZ_DEFAULT, RATES_HZ, UI, ConsoleState
from bourse.tui.theme import BAR_BACKGROUND, BODY_BACKGROUND, BOURSE_DARK
from bourse.tui.widgets.bars import KeyBar
from bourse.tui.widgets.ladder import LEVELS_ASKED

REPEAT_SECONDS = 30.0
"""The same trouble is told once in this time, and counted."""
BACKLOG_WRITES_MAX = 1
END_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SLOW_TOPICS_HZ = {"latency": 2.0, "wal": 5.0, "sessions": 2.0}
"""Nobody reads a table faster; the others follow the paint rate."""


def subscriptions(rate_hz: float) -> list[SubscribeParams]:
    """Return what the console asks for at a paint rate."""
    return [
        SubscribeParams(topic, min(rate_hz, SLOW_TOPICS_HZ.get(topic, rate_hz)), LEVELS_ASKED)
        for topic in TOPICS
    ]


class Console(App[None]):
    """Show one daemon for as long as anybody looks."""

    TITLE = "bourse"
    ENABLE_COMMAND_PALETTE = False
    ALLOW_SELECT = False  # numbers that move cannot be marked; `p` saves them
    AUTO_FOCUS: ClassVar[str | None] = ""
    MODES: ClassVar[dict[str, Any]] = SCREENS
    DEFAULT_MODE = next(iter(SCREENS))
    CSS = f"""
    ConsoleScreen {{ background: {BODY_BACKGROUND}; overflow: hidden; }}
    StatusBar, KeyBar {{ background: {BAR_BACKGROUND}; }}
    HelpScreen {{ background: #000000 60%; align: center middle; }}
    HelpView {{ background: #1c1c1c; }}
    ToastRack {{ align: right bottom; margin-bottom: 1; }}
    Toast {{ width: 66; max-width: 90%; padding: 0 1; background: #303030; margin-top: 1; }}
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            ",".join(action.keys),
            f"perform('{action.id}')",
            action.title,
            show=False,
            id=action.id,
            priority="ctrl+c" in action.keys,
        )
        for action in ACTIONS
    ]

    def __init__(
        self,
        feed: Feed | None = None,
        *,
        store: Store | None = None,
        rate_hz: int = RATE_HZ_DEFAULT,
        mono: bool = False,
        clock: Callable[[], float] = time.monotonic,
        driver_class: type[Driver] | None = None,
    ) -> None:
        """Prepare a console.

        Args:
            feed: where frames come from; None shows what the store holds.
            store: what is known already.
            rate_hz: paints a second, one of RATES_HZ.
            mono: no colours. It must be decided here: Textual chooses its filters as it starts.
            clock: seconds, for ages and progress.
            driver_class: the terminal's driver.
        """
        super().__init__(driver_class=driver_class, ansi_color=True if mono else None)
        self.feed = feed
        self.store = store or Store(clock)
        self.state = ConsoleState(
            live=self.store,
            rate_hz=rate_hz,
            mono=mono,
            clock=clock,
            admin_path=str(feed.admin_path) if feed else "",
        )
        self._paint_timer: Timer | None = None
        self._ui_changed = True
        self._badge_shown: tuple[object, int] | None = None
        self._told: dict[str, tuple[float, int]] = {}
        self._was_connected = False
        self.quiet = False
        """True shows no toasts: for pictures."""
        self._actions: dict[str, Callable[[], object]] = {
            "snapshot": self._snapshot,
            "replay": self._replay,
            "freeze": self._freeze,
            "stage.next": lambda: self.state.choose_stage(+1),
            "stage.previous": lambda: self.state.choose_stage(-1),
            "chart": self._next_chart,
            "faster": lambda: self._change_rate(+1),
            "slower": lambda: self._change_rate(-1),
            "screenshot": self._save_pictures,
            "help": lambda: self.push_screen(HelpScreen()),
            "quit": self.exit,
        }

    # --- life

    def on_mount(self) -> None:
        """Start the feed, the timer, and what guards a terminal."""
        self.register_theme(BOURSE_DARK)
        if not self.state.mono:
            self.theme = BOURSE_DARK.name
        self.state.truecolor = self.is_headless or self.console.color_system == "truecolor"
        if not self.is_headless:
            loop = asyncio.get_running_loop()
            for number in END_SIGNALS:
                loop.add_signal_handler(number, self._end_by_signal, number)
            self.set_interval(1.0, self._watch_terminal)
        self._set_timer(self.state.rate_hz)
        if self.feed is not None:
            self.run_worker(self._watch(self.feed), name="feed", group="feed")

    def _end_by_signal(self, number: int) -> None:
        self.exit(return_code=128 + number)

    def _watch_terminal(self) -> None:
        """End when the terminal is gone: nothing else would tell (a hang-up may be ignored)."""
        try:
            termios.tcgetattr(sys.__stdin__.fileno())  # type: ignore[union-attr]
        except (termios.error, OSError, ValueError, AttributeError):
            self.exit(return_code=128 + signal.SIGHUP)

    async def _watch(self, feed: Feed) -> None:
        """Put what the feed yields into the store, for ever."""
        async with contextlib.aclosing(feed.events()) as happenings:
            async for event in happenings:
                self.store.apply(event)
                if isinstance(event, Connection):
                    self._tell_connection(event)

    def _tell_connection(self, change: Connection) -> None:
        if change.state is ConnectionState.LOST:
            if self._was_connected:  # before, the book's panel says it
                self.tell("connection", change.sentence, "error")
        elif change.state is ConnectionState.CONNECTED:
            if self._was_connected:
                self.tell("connected", "Connected again.")
                self._told.pop("connection", None)
            self._was_connected = True

    # --- painting

    def _set_timer(self, rate_hz: float) -> None:
        if self._paint_timer is not None:
            self._paint_timer.stop()
        self._paint_timer = self.set_interval(1 / rate_hz, self.paint)

    def on_app_blur(self, event: events.AppBlur) -> None:
        """Nobody looks at this terminal: once a second is enough."""
        self._set_timer(1)

    def on_app_focus(self, event: events.AppFocus) -> None:
        """Somebody looks again."""
        self._set_timer(self.state.rate_hz)

    def paint(self) -> int:
        """Show what changed since the last paint; return how many rows did.

        Left out while the driver still has more than BACKLOG_WRITES_MAX writes in its queue.
        """
        if getattr(self._driver, "backlog", 0) > BACKLOG_WRITES_MAX:
            self.state.skipped += 1
            return 0
        dirty = self.store.take_dirty()
        if self.state.frozen:
            # What is held stays; the end of the hold repaints everything.
            dirty &= {"connection"}
        badge = self.store.badge()
        if badge != self._badge_shown:
            self._badge_shown = badge
            dirty.add("connection")
        if self._ui_changed or self.state.replay_started is not None:
            self._ui_changed = False
            dirty.add(UI)
        changed = 0
        for screen in self.screen_stack:
            for view in screen.query(LineView):
                if view.region.area:
                    changed += view.paint(self.state, dirty)
        return changed

    def repaint(self) -> None:
        """Show an operator's choice at once."""
        self._ui_changed = True
        self.paint()

    # --- telling

    def tell(self, key: str, sentence: str, severity: Any = "information") -> None:
        """Show a toast, unless the same key was told in the last REPEAT_SECONDS: then count it.

        Args:
            key: what repeats itself.
            sentence: for a person; may hold text of the daemon, which never is markup.
            severity: information, warning or error.
        """
        now = self.state.clock()
        told, repeats = self._told.get(key, (-REPEAT_SECONDS, 0))
        if severity != "information" and now - told < REPEAT_SECONDS:
            self._told[key] = (told, repeats + 1)
            return
        if severity != "information":
            self._told[key] = (now, 0)
        if self.quiet:
            return
        again = f" (×{repeats + 1})" if repeats else ""
        self.notify(
            clean(sentence) + again,
            severity=severity,
            timeout=10 if severity != "information" else 6,
            markup=False,
        )

    # --- actions

    def action_perform(self, action_id: str) -> None:
        """Do what a key asks for."""
        action = BY_ID[action_id]
        if action.needs_daemon and not self.store.is_live:
            self.tell(f"refused.{action_id}", f"{action.title}: no daemon answers.", "warning")
            return
        self._actions[action_id]()
        self.repaint()

    def on_key_bar_chosen(self, message: KeyBar.Chosen) -> None:
        """Do what a click on the key line asks for."""
        self.action_perform(message.action_id)

    def _next_chart(self) -> None:
        """Histogram, heat map and back; on a small terminal both take turns with the log."""
        state = self.state
        if "picture" in layout.overview(*self.size):
            state.chart = "heat" if state.chart == "histogram" else "histogram"
            return
        if not state.picture_for_log:
            state.chart, state.picture_for_log = "histogram", True
        elif state.chart == "histogram":
            state.chart = "heat"
        else:
            state.chart, state.picture_for_log = "histogram", False
        self.screen.query_one(Panels).rearrange()

    def _freeze(self) -> None:
        self.state.freeze(not self.state.frozen)
        for screen in self.screen_stack:
            for view in screen.query(LineView):
                view.paint(self.state, None)

    def _change_rate(self, step: int) -> None:
        before = self.state.rate_hz
        self.state.change_rate(step)
        if self.state.rate_hz == before:
            return
        self._set_timer(self.state.rate_hz)
        if self.feed is not None:
            rates = {wish.topic: wish.max_hz for wish in subscriptions(self.state.rate_hz)}
            self.run_worker(self.feed.set_rates(rates), group="rates", exclusive=True)

    def _snapshot(self) -> None:
        if self.feed is None or self.state.snapshot_running:
            return
        self.state.snapshot_running = True
        self.run_worker(self._write_snapshot(self.feed), group="snapshot")

    async def _write_snapshot(self, feed: Feed) -> None:
        try:
            result: SnapshotResult = await feed.request("snapshot")
            self.state.snapshot = result
            self.tell(
                "snapshot",
                f"Snapshot @{count(result.wal_seq)}: {count(result.live_orders)} orders, "
                f"{size(result.bytes)}, matcher paused {duration(result.pause_ns)}.",
            )
        except BourseError as error:
            self.tell("snapshot", f"No snapshot was written: {error}", "error")
        finally:
            self.state.snapshot_running = False
            self.repaint()

    def _replay(self) -> None:
        status = self.store.status
        if self.state.replay_started is not None:
            return
        if status is None:
            self.tell("replay", "Replay: the data directory is not known yet.", "warning")
            return
        if status.durability == "memory":
            self.tell("replay", "Replay: policy memory writes no log to replay.", "warning")
            return
        self.state.replay_started = self.state.clock()
        self.run_worker(self._run_replay(status.data_dir), group="replay")

    async def _run_replay(self, data_dir: str) -> None:
        try:
            report = await replay.run(replay.command(data_dir))
            # A frame with this wal_seq may be on its way still.
            await asyncio.sleep(1.5 / min(self.state.rate_hz, 5))
            outcome = replay.judge(report, self.store.digests)
        except (BourseError, OSError) as error:
            outcome = replay.failed(error)
        finally:
            self.state.replay_started = None
        self.state.replay = outcome
        severity = {
            replay.Verdict.EQUAL: "information",
            replay.Verdict.CHECKPOINTS: "information",
            replay.Verdict.INCOMPARABLE: "information",
        }.get(outcome.verdict, "error")
        self._told.pop("replay", None)
        self.tell("replay", outcome.sentence, severity)
        self.repaint()

    def _save_pictures(self) -> None:
        try:
            paths = save_pictures(self)
        except OSError as error:
            self.tell("screenshot", f"The picture could not be saved: {error}", "error")
            return
        self.tell("screenshot", "Saved " + " and ".join(str(path) for path in paths))


def is_mono() -> bool:
    """Say whether the user wants no colours; an empty NO_COLOR means nothing (no-color.org)."""
    return bool(os.environ.get("NO_COLOR"))


def run(admin_path: str | Path, rate_hz: int = RATE_HZ_DEFAULT) -> int:
    """Show the console of a daemon until the operator leaves.

    It opens whether a daemon answers or not, and follows it through restarts.

    Args:
        admin_path: the daemon's admin socket.
        rate_hz: paints a second: 1, 2, 5, 10 or 20.

    Returns:
        The exit code: 0, or 128 + n after signal n.

    Raises:
        UsageError: this is no terminal that could show it.
    """
    if rate_hz not in RATES_HZ:
        raise UsageError(f"The refresh rate must be one of {RATES_HZ}, not {rate_hz}.")
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "The console needs a terminal, and this is none; "
            "for text use: bourse daemon status, or bourse watch"
        )
    if os.environ.get("TERM", "") in ("", "dumb"):
        raise UsageError(
            f"The console needs a terminal that can move its cursor (TERM is "
            f"{os.environ.get('TERM', '') or 'not set'}); for text use: bourse daemon status"
        )
    mono = is_mono()
    wish = os.environ.get("NO_COLOR")
    if wish is not None and not mono:
        del os.environ["NO_COLOR"]  # Textual takes an empty one for a wish
    feed = Feed(admin_path, subscriptions(rate_hz), name="bourse tui")
    console = Console(feed, rate_hz=rate_hz, mono=mono, driver_class=OpsDriver)
    if wish is not None:  # Textual takes it out of the environment; children want it back
        os.environ["NO_COLOR"] = wish
    handlers = {number: signal.getsignal(number) for number in END_SIGNALS}
    try:
        console.run()
    finally:  # the loop that is gone reset them to the system's
        for number, handler in handlers.items():
            signal.signal(number, handler)
    return console.return_code or 0
