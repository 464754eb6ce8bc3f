"""Help: the keys of the screen one is on, made from the action table, and what the signs mean."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.geometry import Size
from textual.screen import ModalScreen

from bourse.admin.actions import BUILT, SCREENS, keys_of, on_screen, spell
from bourse.tui.line import Cell, LineView, Row, exactly, panel, spread
from bourse.tui.state import ConsoleState

NOTES = (
    ("A1, B1", "best ask, best bid; shade: sum up to it"),
    ("▲ B, ▼ S", "a trade whose taker bought, or sold"),
    ("!", "p99 of the window over twice the usual"),
    ("behind", "records not on disk yet: nobody was told"),
    ("~", "old numbers: no news for three seconds"),
    ("time", "when a number last changed, in UTC"),
)
KEY_CELLS = 9


def help_lines(state: ConsoleState, width: int) -> list[Row]:
    """Return the page's lines: this screen's own keys, those of all screens, the signs."""
    own = [action for action in BUILT if action.screens and on_screen(action, state.screen)]
    rest = [action for action in BUILT if not action.screens]
    rows: list[Row] = []
    for action in [*own, *rest]:
        if action.id in [f"screen.{name}" for name in SCREENS[1:]]:
            continue
        words = " ".join(spell(key) for key in keys_of(action, state.keys))
        help_text = action.help
        if action.id == "screen.overview":
            words = " ".join(
                spell(keys_of(one, state.keys)[0])
                for one in BUILT
                if one.id.startswith("screen.") and keys_of(one, state.keys)
            )
            words, help_text = words.replace(" ", ""), "The seven screens."
        cells: list[Cell] = [(f" {words.ljust(KEY_CELLS)} ", "key"), (help_text, "text")]
        twin: list[Cell] = [(f"{action.command} ", "dim")] if action.command else []
        rows.append(spread(cells, twin, width))
    rows.append(exactly((), width))
    for sign, meaning in NOTES:
        note: list[Cell] = [(f" {sign.ljust(KEY_CELLS)} ", "bright"), (meaning, "text")]
        rows.append(exactly(note, width))
    return [tuple((text, f"{token}/page") for text, token in row) for row in rows]


class HelpView(LineView):
    """Show the page, or the part of it that has room."""

    DEFAULT_CSS = """
    HelpView { width: 84; max-width: 100%; height: auto; max-height: 100%; }
    """

    TOPICS: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._first = 0

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the rows that the page takes."""
        return len(help_lines(self.console_state, width)) + 2

    def draw(self, state: ConsoleState, width: int, height: int) -> list[Row]:
        """Return the framed page."""
        lines = help_lines(state, width - 2)
        last = max(0, len(lines) - (height - 2))
        self._first = max(0, min(self._first, last))
        scrolls = (
            f"↑↓ {self._first + 1}-{min(len(lines), self._first + height - 2)} of {len(lines)} · "
        )
        return panel(
            lines[self._first : self._first + height - 2],
            width,
            height,
            f"HELP {state.screen}",
            bottom=f"{scrolls if last else ''}any other key closes" if last else "any key closes",
            highlight=True,
        )

    def scroll_by(self, step: int) -> None:
        """Show an earlier or later part."""
        self._first += step
        self.paint(self.console_state, None)


class HelpScreen(ModalScreen[None]):
    """The help page over the screen; arrows scroll it, any other key closes it."""

    AUTO_FOCUS: ClassVar[str | None] = ""
    _STEPS: ClassVar[dict[str, int]] = {
        "down": 1,
        "j": 1,
        "up": -1,
        "k": -1,
        "pagedown": 8,
        "pageup": -8,
    }

    def compose(self) -> ComposeResult:
        """Show the page in the middle."""
        yield HelpView(id="help")

    def on_key(self, event: events.Key) -> None:
        """Scroll or close, and let the key do nothing else."""
        event.stop()
        event.prevent_default()
        if event.key in self._STEPS:
            for view in self.query(HelpView):  # none before it is shown
                view.scroll_by(self._STEPS[event.key])
        else:
            self._close()

    def on_click(self) -> None:
        """Close."""
        self._close()

    def _close(self) -> None:
        """Close once: keys that came in the same read still arrive here afterwards."""
        if self.is_current:
            self.dismiss()
