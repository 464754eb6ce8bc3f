"""The first two lines and the last: who is watched, how far to trust it, the screens, the keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual import events
from textual.message import Message

from bourse.admin import actions
from bourse.admin.client import ConnectionState
from bourse.admin.store import Badge
from bourse.tui import glyphs
from bourse.tui.format import clean, clock, count, duration, rate, span
from bourse.tui.line import Cell, LineView, Row, exactly, join_while_fits, width_of
from bourse.tui.replay import Verdict
from bourse.tui.state import UI, ConsoleState


def badge_cell(state: ConsoleState) -> Cell:
    """Return the connection's badge."""
    badge, seconds = state.live.badge()
    if badge is Badge.LIVE:
        return (f" {glyphs.LIVE} LIVE ", "badge-ok")
    if badge is Badge.STALE:
        return (f" {glyphs.WARNING} STALE {seconds} s ", "badge-warning")
    if badge is Badge.RECONNECTING:
        age = f" {span(seconds)}" if seconds else ""
        return (f" {glyphs.FAILED} RECONNECTING{age} ", "badge-error")
    return (f" {glyphs.IDLE} CONNECTING ", "badge-quiet")


def activity_cells(state: ConsoleState) -> list[Cell]:
    """Return the badges of what the operator asked for, while it runs."""
    cells: list[Cell] = []
    if state.store.status is not None and state.store.status.low_space:
        cells += [(" ", "text"), (f" {glyphs.WARNING} LOW SPACE ", "badge-error")]
    if state.store.status is not None and state.store.status.halted:
        cells += [(" ", "text"), (f" {glyphs.WARNING} HALTED ", "badge-error")]
    if state.refuses_changes:
        cells += [(" ", "text"), (" READ-ONLY ", "badge-quiet")]
    if state.frozen:
        missed = f"+{count(state.frames_missed)} " if state.frames_missed else ""
        cells += [(" ", "text"), (f" FROZEN {missed}", "badge-time")]
    if state.snapshot_running:
        cells += [(" ", "text"), (" SNAPSHOT ", "badge-time")]
    if state.replay_started is not None:
        seconds = max(0.0, state.clock() - state.replay_started)
        done, total = state.replay_progress
        share = f" {min(99, done * 100 // total)}%" if total else ""
        words = f" {glyphs.REPLAY} REPLAY{share} {span(seconds)} "
        cells += [(" ", "text"), (words, "badge-time")]
    elif state.replay is not None and state.replay.verdict is Verdict.DIFFERENT:
        cells += [(" ", "text"), (f" {glyphs.DIFFERENT} REPLAY DIFFERS ", "badge-error")]
    return cells


def status_row(state: ConsoleState, width: int) -> Row:
    """Return the status line: the most important facts that fit, the time at the right."""
    store = state.store
    head: list[Cell] = [(" bourse ", "bar-name"), (" ", "text")]
    if state.environment:  # nobody is to take this instance for another
        head = [(f" {clean(state.environment).upper()[:12]} ", "badge-prod"), *head]
    head.append(badge_cell(state))
    head += activity_cells(state)
    head.append(("  ", "text"))
    time_text = f" {clock(store.changed_ns)}Z " if store.changed_ns else " "

    status = store.status
    parts: list[list[Cell]] = []
    if status is None:
        # Before the first try has failed there may well be one, a demo's for example.
        if state.live.connection.state is ConnectionState.LOST:
            parts.append([("start one: ", "text"), ("bourse daemon start", "bright")])
        else:
            parts.append([("waiting for its first numbers", "text")])
        parts.append([(clean(state.admin_path), "dim")])
    else:
        total = store.stage("total")
        wal = store.wal
        identity: list[Cell] = [(clean(status.instance), "text")]
        symbol: list[Cell] = [(clean(status.symbol), "text")]
        policy: list[Cell] = [(clean(status.durability), "text")]
        sequence: list[Cell] = [("seq ", "dim"), (count(status.wal_seq), "bright")]
        speed: list[Cell] = [(rate(store.rate("commands")), "bright"), (" cmd/s", "dim")]
        # Without a command in the window there is no p99, and zero would be praise.
        slow: list[Cell] = (
            [("p99 ", "dim"), (duration(total.window.p99), "bright")]
            if total and total.window.count
            else []
        )
        lag = max(0, wal.accepted_seq - wal.durable_seq) if wal else 0
        log: list[Cell] = [("wal ", "dim"), (f"+{count(lag)}", "bright")]
        if wal is None or wal.durability == "memory":
            log = []
        # Rank decides what stays, place decides where it stands.
        ranked = [
            (4, identity),
            (6, symbol),
            (5, policy),
            (0, sequence),
            (1, speed),
            (2, slow),
            (3, log),
            (7, [(clean(status.poll), "text")]),
        ]
        room = width - width_of(head) - len(time_text)
        kept: set[int] = set()
        used = 0
        for rank, cells in sorted(ranked, key=lambda item: item[0]):
            need = width_of(cells) + (3 if kept else 0)
            if cells and used + need <= room:
                kept.add(rank)
                used += need
        parts = [cells for rank, cells in ranked if rank in kept]
    room = width - width_of(head) - len(time_text)
    body = join_while_fits(parts, room)
    gap = max(0, width - width_of(head) - width_of(body) - len(time_text))
    row = exactly([*head, *body, (" " * gap, "text"), (time_text, "bright")], width)
    return tuple(
        (text, token if token.startswith("badge") else f"{token}/bar") for text, token in row
    )


def tabs_row(state: ConsoleState, width: int) -> tuple[Row, list[tuple[int, int, str]]]:
    """Return the line of screens, and where each stands: (first cell, end, action id)."""
    names = [(name, actions.BY_ID[f"screen.{name}"].title) for name in actions.SCREENS]
    wide = sum(len(title) + 4 for _, title in names) < width
    pad = " " if wide else ""
    cells: list[Cell] = [] if wide else [(" ", "text")]
    places: list[tuple[int, int, str]] = []
    used = width_of(cells)
    for name, title in names:
        action = actions.BY_ID[f"screen.{name}"]
        here = name == state.screen
        key = actions.label_of(action, state.keys)
        text = f"{glyphs.CHOSEN if here else pad}{key} {title}{pad}"
        cells.append((text, "bright/chosen" if here else "legend"))
        places.append((used, used + len(text), action.id))
        used += len(text)
        if not wide:
            cells.append((" ", "text"))
            used += 1
    return exactly(cells, width), places


def footer_row(state: ConsoleState, width: int) -> tuple[Row, list[tuple[int, int, str]]]:
    """Return the key line, and where each action stands: (first cell, end, action id)."""
    skipped = f" · {count(state.skipped)} skipped" if state.skipped and width >= 100 else ""
    right: list[Cell] = [(f" {state.rate_hz} fps{skipped} ", "dim")]
    room = width - width_of(right)
    cells: list[Cell] = []
    places: list[tuple[int, int, str]] = []
    used = 0
    offered = [
        (action, actions.label_of(action, state.keys), _title(action, state))
        for action in actions.FOOTER
        if actions.on_screen(action, state.screen) and actions.label_of(action, state.keys)
    ]
    # Help and quit always stay: they are what one looks for when lost.
    last = ("help", "quit")
    reserved = sum(len(key) + len(title) + 3 for one, key, title in offered if one.id in last)
    for action, key, title in offered:
        need = width_of(((key, ""),)) + len(title) + 3
        if action.id not in last and used + need + reserved > room:
            continue
        off = action.changes and (state.refuses_changes or state.stale)
        tones = ("faint", "faint") if off else ("key", "legend")
        cells += [(f" {key}", tones[0]), (f" {title} ", tones[1])]
        places.append((used, used + need, action.id))
        used += need
    gap = max(0, width - width_of(cells) - width_of(right))
    row = exactly([*cells, (" " * gap, "text"), *right], width)
    return tuple((text, f"{token}/bar") for text, token in row), places


def _title(action: actions.Action, state: ConsoleState) -> str:
    """Return what the footer says of an action now."""
    if action.id == "freeze" and state.frozen:
        return "Go on"
    if action.id == "next" and state.screen in ("overview", "latency"):
        return "Stage"
    if action.id == "next" and state.screen == "book":
        return "Level"
    return action.title


LabelRow = Callable[[ConsoleState, int], tuple[Row, list[tuple[int, int, str]]]]


class StatusBar(LineView):
    """Show who is watched, the badge and the vital numbers."""

    DEFAULT_CSS = """
    StatusBar { height: 1; width: 1fr; }
    """
    TOPICS: ClassVar[frozenset[str]] = frozenset({"status", "latency", "wal", "connection", UI})

    def draw(self, state: ConsoleState, width: int, height: int) -> list[Row]:
        """Return the status line."""
        return [status_row(state, width)]


class Chosen(Message):
    """Posted when a label of a bar is clicked."""

    def __init__(self, action_id: str) -> None:
        super().__init__()
        self.action_id = action_id


class LabelBar(LineView):
    """A line of labels; a click does what the key does."""

    DEFAULT_CSS = """
    LabelBar { height: 1; width: 1fr; }
    """
    TOPICS: ClassVar[frozenset[str]] = frozenset({UI, "connection"})

    def __init__(self, id: str, row: LabelRow) -> None:
        super().__init__(id=id)
        self._row = row
        self._places: list[tuple[int, int, str]] = []

    def draw(self, state: ConsoleState, width: int, height: int) -> list[Row]:
        """Return the line."""
        row, self._places = self._row(state, width)
        return [row]

    def on_click(self, event: events.Click) -> None:
        """Turn a click on a label into a message; the app acts on it."""
        for first, end, action_id in self._places:
            if first <= event.x < end:
                self.post_message(Chosen(action_id))
