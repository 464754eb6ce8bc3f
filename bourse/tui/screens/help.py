"""Help: the keys, made from the action table, and what the panels mean."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.geometry import Size
from textual.screen import ModalScreen

from bourse.admin.actions import ACTIONS
from bourse.tui.line import Cell, LineView, Row, exactly, panel, spread
from bourse.tui.state import ConsoleState

NOTES = (
    ("A1, B1", "best ask, best bid; bar: the level's size, shade: sum up to it"),
    ("▲ B, ▼ S", "a trade whose taker bought, or sold"),
    ("!", "the window's p99 is over twice the p99 since the start"),
    ("behind", "records not on disk yet: nobody was told of them"),
    ("~", "old numbers: no news of the daemon for three seconds"),
    ("time", "when a number last changed, in UTC"),
)
KEY_CELLS = 9


def help_rows(width: int, height: int) -> list[Row]:
    """Return the page's lines: the keys, and what the signs mean if there is room."""
    rows: list[Row] = []
    for action in ACTIONS:
        keys = " ".join(spell(key) for key in action.keys)
        cells: list[Cell] = [(f" {keys.ljust(KEY_CELLS)} ", "key"), (action.help, "text")]
        twin: list[Cell] = [(f"{action.command} ", "dim")] if action.command else []
        rows.append(spread(cells, twin, width))
    if height >= len(rows) + len(NOTES) + 1:
        rows.append(exactly((), width))
        for sign, meaning in NOTES:
            note: list[Cell] = [(f" {sign.ljust(KEY_CELLS)} ", "bright"), (meaning, "text")]
            rows.append(exactly(note, width))
    return [tuple((text, f"{token}/page") for text, token in row) for row in rows]


def spell(key: str) -> str:
    """Return a key as people write it."""
    names = {
        "plus": "+",
        "equals_sign": "=",
        "minus": "-",
        "question_mark": "?",
        "down": "↓",
        "up": "↑",
        "f1": "F1",
    }
    return names.get(key, key.replace("ctrl+", "^"))


class HelpView(LineView):
    """Show the page."""

    DEFAULT_CSS = """
    HelpView { width: 84; max-width: 100%; height: auto; max-height: 100%; }
    """

    TOPICS: ClassVar[frozenset[str]] = frozenset()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the rows that the page takes."""
        return len(help_rows(width, viewport.height - 2)) + 2

    def draw(self, state: ConsoleState, width: int, height: int) -> list[Row]:
        """Return the framed page."""
        return panel(
            help_rows(width - 2, height - 2),
            width,
            height,
            "HELP",
            bottom="any key closes",
            highlight=True,
        )


class HelpScreen(ModalScreen[None]):
    """The help page over the screen; any key closes it."""

    AUTO_FOCUS: ClassVar[str | None] = ""

    def compose(self) -> ComposeResult:
        """Show the page in the middle."""
        yield HelpView(id="help")

    def on_key(self, event: events.Key) -> None:
        """Close, whatever the key, and let it do nothing else."""
        event.stop()
        event.prevent_default()
        self._close()

    def on_click(self) -> None:
        """Close."""
        self._close()

    def _close(self) -> None:
        """Close once: keys that came in the same read still arrive here afterwards."""
        if self.is_current:
            self.dismiss()
