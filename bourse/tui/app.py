"""The console's app: feed in, one paint timer out, actions of the operator.

    Feed (worker) ──► Store ──dirty topics──► paint timer ──► LineViews of the visible screen

Nothing but the timer paints, and it leaves a paint out when the terminal has not taken the last one
yet, so a slow line shows the newest numbers, not old ones late. It rests while there is nothing
new; a beat a second looks after what changes without news, such as the age of the last frame.
Actions are rows of bourse.admin.actions, done by deeds.py; what they come to is shown as a toast
and on the Log screen.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import msgspec
from textual import events
from textual.app import App
from textual.binding import Binding, BindingsMap
from textual.driver import Driver
from textual.timer import Timer
from textual.worker import Worker

from bourse.admin.actions import BUILT, BY_ID, keys_of, on_screen
from bourse.admin.client import Connection, ConnectionState, Feed
from bourse.admin.messages import TOPICS, Frame, SubscribeParams
from bourse.admin.store import Store
from bourse.errors import UsageError
from bourse.tui.deeds import Deeds
from bourse.tui.driver import OpsDriver
from bourse.tui.format import clean
from bourse.tui.glyphs import ascii_only
from bourse.tui.line import LineView
from bourse.tui.screens import SCREENS
from bourse.tui.settings import Settings, keymap
from bourse.tui.state import UI, ConsoleState
from bourse.tui.theme import THEMES, textual_theme
from bourse.tui.widgets.bars import Chosen
from bourse.tui.widgets.ladder import LEVELS_ASKED
from bourse.tui.widgets.level import LEVELS_ASKED_MAX

BEAT_SECONDS = 1.0
TRANSITION_SECONDS = 0.01
REPEAT_SECONDS = 30.0
"""The same trouble is told once in this time, and counted."""
BACKLOG_WRITES_MAX = 1
IDLE_CREDIT_SECONDS = 0.6
"""A topic that had nothing new is asked for so much later: an exchange at rest is watched for less
work, and its first change is still seen within a second."""
END_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SLOW_TOPICS_HZ = {"latency": 2.0, "wal": 2.0, "sessions": 2.0, "log": 2.0}
"""Nobody reads a table faster; the others follow the paint rate."""


def subscriptions(rate_hz: float, levels: int = LEVELS_ASKED) -> list[SubscribeParams]:
    """Return what the console asks for at a paint rate."""
    return [
        SubscribeParams(topic, min(rate_hz, SLOW_TOPICS_HZ.get(topic, rate_hz)), levels)
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
    CSS = """
    ConsoleScreen { background: $background; overflow: hidden; }
    StatusBar, LabelBar#keys { background: $panel; }
    HelpScreen, Page { background: #000000 60%; align: center middle; }
    HelpScreen:ansi, Page:ansi { background: transparent; }
    HelpView, PageView, PromptView { background: $surface; }
    Prompt { background: transparent; }
    /* On the keys' line, from edge to edge: a frame is covered whole or not at all. */
    ToastRack { margin-bottom: 0; overflow-y: hidden; }
    Toast { width: 100%; max-width: 100%; padding: 0 1; background: $panel; margin-top: 0; }
    .-letters Toast { border-left: none; }
    """

    def __init__(
        self,
        feed: Feed | None = None,
        *,
        store: Store | None = None,
        settings: Settings | None = None,
        rate_hz: int | None = None,
        mono: bool = False,
        screen: str = DEFAULT_MODE,
        clock: Callable[[], float] = time.monotonic,
        driver_class: type[Driver] | None = None,
    ) -> None:
        """Prepare a console.

        Args:
            feed: where frames come from; None shows what the store holds.
            store: what is known already.
            settings: the operator's; None: the defaults.
            rate_hz: paints a second, one of RATES_HZ; None: the settings'.
            mono: no colours. It must be decided here: Textual chooses its filters as it starts.
            screen: the screen to begin with.
            clock: seconds, for ages and progress.
            driver_class: the terminal's driver.
        """
        super().__init__(driver_class=driver_class, ansi_color=True if mono else None)
        self.settings = settings or Settings()
        self.feed = feed
        keys, self._clashes = keymap(self.settings.keys)
        self.state = ConsoleState(
            live=store or Store(clock),
            screen=screen,
            rate_hz=rate_hz or self.settings.rate_hz,
            theme=self.settings.theme,
            mono=mono,
            ascii=self.settings.ascii,
            read_only=self.settings.read_only,
            keys=keys,
            clock=clock,
        )
        # Made here and not from a class variable: the operator may have bound keys anew.
        self._bindings = BindingsMap(
            Binding(
                key,
                f"perform('{action.id}')",
                action.title,
                show=False,
                id=action.id,
                priority=key == "ctrl+c",
            )
            for action in BUILT
            for key in keys_of(action, keys)
        )
        self.deeds = Deeds(self)
        self.quiet = False
        """True shows no toasts: for pictures."""
        self._paint_timer: Timer | None = None
        self._feeding: Worker[None] | None = None
        self._ui_changed = True
        self._badge_shown: tuple[object, ...] | None = None
        self._told: dict[str, tuple[float, int]] = {}
        self._was_connected = False
        self._name_watched(str(feed.admin_path) if feed else "")

    @property
    def store(self) -> Store:
        """What the feed fills."""
        return self.state.live

    # --- life

    def on_mount(self) -> None:
        """Start the feed, the timer, and what guards a terminal."""
        for name in THEMES:
            self.register_theme(textual_theme(name))
        self.use_theme(self.state.theme)
        self.set_class(self.state.ascii, "-letters")
        self.state.truecolor = self.is_headless or self.console.color_system == "truecolor"
        if not self.is_headless:
            loop = asyncio.get_running_loop()
            for number in END_SIGNALS:
                loop.add_signal_handler(number, self._end_by_signal, number)
        self.set_interval(BEAT_SECONDS, self._beat)
        self._set_timer(self.state.rate_hz)
        self._start_feed()
        if self.state.screen != self.DEFAULT_MODE:
            self.switch_mode(self.state.screen)
        for clash in self._clashes:
            self.tell(f"clash.{clash}", clash, "warning")

    def _end_by_signal(self, number: int) -> None:
        self.exit(return_code=128 + number)

    def _beat(self) -> None:
        """Paint what has grown old; end when the terminal is gone: a hang-up may be ignored."""
        self._wake()
        if getattr(self._driver, "is_gone", False):
            self.exit(return_code=128 + signal.SIGHUP)

    # --- the daemon

    def _start_feed(self) -> None:
        if self.feed is not None:
            self._feeding = self.run_worker(self._watch(self.feed), name="feed", group="feed")

    def follow(self, admin_path: str) -> None:
        """Watch another daemon from now on."""
        if self._feeding is not None:
            self._feeding.cancel()
        state = self.state
        state.freeze(False)
        state.live = Store(state.clock)
        state.replay = state.snapshot = None
        state.level = None
        state.tables.clear()
        self._told.clear()
        self._was_connected = False
        self.feed = Feed(
            admin_path, self._wishes(), name="bourse tui", read_only=self.settings.read_only
        )
        self._name_watched(admin_path)
        self._start_feed()
        self.paint_all()

    def _name_watched(self, admin_path: str) -> None:
        self.state.admin_path = admin_path
        self.state.environment = next(
            (
                one.environment
                for one in self.settings.instances.values()
                if one.admin == admin_path and admin_path
            ),
            "",
        )

    async def _watch(self, feed: Feed) -> None:
        """Put what the feed yields into the store, for ever."""
        store = self.store
        is_news = True

        def credit_delay(frame: Frame) -> float:
            return 0.0 if is_news else IDLE_CREDIT_SECONDS

        async with contextlib.aclosing(feed.events(credit_delay)) as happenings:
            async for event in happenings:
                is_news = store.apply(event)
                if is_news:
                    self._wake()
                if isinstance(event, Connection):
                    self._tell_connection(event)

    def _tell_connection(self, change: Connection) -> None:
        if change.state is ConnectionState.LOST:
            if self._was_connected:  # before, the book's panel says it
                self.tell("connection", change.sentence, "error")
        elif change.state is ConnectionState.CONNECTED:
            if self._was_connected:
                self.tell("connected", "Connected again.")
                self.forget_told("connection")
            self._was_connected = True

    def _wishes(self) -> list[SubscribeParams]:
        """Return what to ask the daemon for, as the operator looks now."""
        state = self.state
        many = state.levels > LEVELS_ASKED or state.group_ticks > 1
        return subscriptions(state.rate_hz, LEVELS_ASKED_MAX if many else LEVELS_ASKED)

    def ask(self) -> None:
        """Ask the daemon for what the operator looks at now."""
        if self.feed is not None:
            self.run_worker(self.feed.ask(self._wishes()), group="wishes", exclusive=True)

    # --- painting

    def _set_timer(self, rate_hz: float) -> None:
        if self._paint_timer is not None:
            self._paint_timer.stop()
        self._paint_timer = self.set_interval(1 / rate_hz, self.paint)

    def _wake(self) -> None:
        """Let the paint timer go on, if it rests; its next paint is at once then."""
        if self._paint_timer is not None:
            self._paint_timer.resume()

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
        badge = (*self.store.badge(), self.state.frames_missed)
        if badge != self._badge_shown:
            self._badge_shown = badge
            dirty.add("connection")
        if self._ui_changed or self.state.replay_started is not None:
            self._ui_changed = False
            dirty.add(UI)
        if not dirty and self._paint_timer is not None:
            self._paint_timer.pause()
        return self._paint_views(dirty) if dirty else 0

    def _paint_views(self, dirty: set[str] | None) -> int:
        changed = 0
        for screen in self.screen_stack:
            for view in screen.query(LineView):
                if view.region.area:
                    changed += view.paint(self.state, dirty)
        return changed

    def paint_all(self) -> None:
        """Compare every row with what is on screen: something else than news changed."""
        self._paint_views(None)

    def repaint(self) -> None:
        """Show an operator's choice at once."""
        self._ui_changed = True
        self.paint()

    def change_rate(self, step: int) -> None:
        """Paint more or less often."""
        before = self.state.rate_hz
        self.state.change_rate(step)
        if self.state.rate_hz != before:
            self._set_timer(self.state.rate_hz)
            self.ask()

    def use_theme(self, name: str) -> None:
        """Draw with another theme from now on."""
        self.state.theme = name
        if not self.state.mono:
            self.theme = textual_theme(name).name
            self.paint_all()

    def delay_update(self, delay: float = TRANSITION_SECONDS) -> None:
        """Hide the change of screens for less time than Textual would: a key answers at once.

        Not by one of its timers either: one that is late by its whole delay as it starts, which
        happens on a busy machine, is left out, and the screen would never be drawn again.
        """
        self._begin_batch()

        def end() -> None:
            self._end_batch()
            if not self._batch_count and self._screen_stack:
                self.screen.refresh()

        asyncio.get_running_loop().call_later(delay, end)

    def show(self, name: str) -> None:
        """Go to a screen."""
        if name == self.state.screen:
            return
        self.state.screen = name
        self.switch_mode(name)
        self.paint_all()

    # --- telling

    def tell(self, key: str, sentence: str, severity: Any = "information") -> None:
        """Show a toast, unless the same key was told in the last REPEAT_SECONDS: then count it.

        All of it is on the Log screen.

        Args:
            key: what repeats itself.
            sentence: for a person; may hold text of the daemon, which never is markup.
            severity: information, warning or error.
        """
        self.store.note("info" if severity == "information" else severity, sentence)
        self._wake()
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
        text = clean(sentence) + again
        self.notify(
            ascii_only(text) if self.state.ascii else text,
            severity=severity,
            timeout=10 if severity != "information" else 6,
            markup=False,
        )

    def forget_told(self, key: str) -> None:
        """Tell this trouble anew when it comes again."""
        self._told.pop(key, None)

    # --- actions

    async def on_event(self, event: events.Event) -> None:
        """Take keys one after the other, each by the screen that the one before left there.

        Textual gives a key to the screen of the moment, whose task takes it later: of a filter that
        is typed in one go (a slow line, a script) the screen below would get the first letters.
        """
        if not isinstance(event, events.Key) or event.is_forwarded:
            await super().on_event(event)
            return
        self.app_focus = True
        if await self._check_bindings(event.key, priority=True):
            return
        take: Callable[[events.Key], None] | None = getattr(self.screen, "on_key", None)
        if take is not None:
            take(event)
        else:
            await self._check_bindings(event.key)

    def action_perform(self, action_id: str) -> None:
        """Do what a key or a label asks for; on a screen where it means nothing, nothing.

        What is dangerous says where it works: nobody is to wonder whether it was done.
        """
        action = BY_ID[action_id]
        if not on_screen(action, self.state.screen):
            if action.danger:
                where = " or ".join(BY_ID[f"screen.{name}"].title for name in action.screens)
                self.tell(action_id, f"Nothing was done: {action.title} works on {where}.")
            return
        self.deeds.perform(action)
        self.repaint()

    def on_chosen(self, message: Chosen) -> None:
        """Do what a click on a label asks for."""
        self.action_perform(message.action_id)


def is_mono() -> bool:
    """Say whether the user wants no colours; an empty NO_COLOR means nothing (no-color.org)."""
    return bool(os.environ.get("NO_COLOR"))


def made(
    admin_path: str | Path, settings: Settings, screen: str, driver_class: type[Driver]
) -> Console:
    """Make a daemon's console, in colours or without as the environment wants it."""
    mono = is_mono()
    wish = os.environ.get("NO_COLOR")
    if wish is not None and not mono:
        del os.environ["NO_COLOR"]  # Textual takes an empty one for a wish
    feed = Feed(
        admin_path,
        subscriptions(settings.rate_hz),
        name="bourse tui",
        read_only=settings.read_only,
    )
    console = Console(feed, settings=settings, mono=mono, screen=screen, driver_class=driver_class)
    if wish is not None:  # Textual takes it out of the environment; children want it back
        os.environ["NO_COLOR"] = wish
    return console


def run(
    admin_path: str | Path,
    rate_hz: int | None = None,
    settings: Settings | None = None,
    screen: str = "overview",
) -> int:
    """Show the console of a daemon until the operator leaves.

    It opens whether a daemon answers or not, and follows it through restarts.

    Args:
        admin_path: the daemon's admin socket.
        rate_hz: paints a second: 1, 2, 5, 10 or 20; None: the settings'.
        settings: the operator's; None: those of his file.
        screen: the screen to begin with.

    Returns:
        The exit code: 0, or 128 + n after signal n.

    Raises:
        UsageError: this is no terminal that could show it.
        ConfigError: the settings are wrong.
    """
    from bourse.tui.settings import load

    settings = settings or load()
    if rate_hz is not None:
        settings = msgspec.structs.replace(settings, rate_hz=rate_hz)
    settings.checked()
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "The console needs a terminal, and this is none; "
            "for text use: bourse top --once, or bourse watch"
        )
    if os.environ.get("TERM", "") in ("", "dumb"):
        raise UsageError(
            f"The console needs a terminal that can move its cursor (TERM is "
            f"{os.environ.get('TERM', '') or 'not set'}); for text use: bourse top --once"
        )
    console = made(admin_path, settings, screen, OpsDriver)
    handlers = {number: signal.getsignal(number) for number in END_SIGNALS}
    try:
        console.run(mouse=settings.mouse)
    finally:  # the loop that is gone reset them to the system's
        for number, handler in handlers.items():
            signal.signal(number, handler)
    return console.return_code or 0
