"""One line of typing over the key line: for the filter, and wherever a text is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.screen import ModalScreen

from bourse.tui.format import clean
from bourse.tui.line import Cell, LineView, Row, exactly, width_of
from bourse.tui.state import ConsoleState

CURSOR = "_"


class Entry:
    """Text as it is typed; the end is where one types."""

    def __init__(self, text: str = "") -> None:
        self.text = text

    def press(self, event: events.Key) -> bool:
        """Take a key; say whether it belonged to the typing."""
        if event.key in ("backspace", "ctrl+h"):
            self.text = self.text[:-1]
        elif event.key in ("ctrl+u", "ctrl+w"):
            self.text = "" if event.key == "ctrl+u" else self.text.rstrip().rpartition(" ")[0]
        elif event.is_printable and event.character:
            self.text += event.character
        else:
            return False
        return True


class PromptView(LineView):
    """Show what is asked and what is typed."""

    DEFAULT_CSS = """
    PromptView { width: 100%; height: 1; dock: bottom; }
    """

    def __init__(self, label: str, entry: Entry, hint: str) -> None:
        super().__init__(id="prompt")
        self._label = label
        self._entry = entry
        self._hint = hint
        self.trouble = ""

    def draw(self, state: ConsoleState, width: int, height: int) -> list[Row]:
        """Return the line; of a text longer than the line its end is seen."""
        head: list[Cell] = [(f" {self._label} ", "key")]
        tail: list[Cell] = [
            (f" {clean(self.trouble)} ", "warning") if self.trouble else (f" {self._hint} ", "dim")
        ]
        room = width - width_of(head) - width_of(tail)
        if room < 20:
            room, tail = room + width_of(tail), []
        typed = clean(self._entry.text)[-(room - 1) :] + CURSOR if room > 1 else ""
        used = width_of(((typed, ""),))
        row = exactly([*head, (typed, "bright"), (" " * max(0, room - used), "text"), *tail], width)
        return [tuple((text, f"{token}/page") for text, token in row)]


class Prompt(ModalScreen[str | None]):
    """Ask for a line of text; Enter gives it, Escape gives None."""

    AUTO_FOCUS: ClassVar[str | None] = ""

    def __init__(
        self,
        label: str,
        text: str = "",
        hint: str = "Enter takes it · Esc leaves it",
        changed: Callable[[str], str] | None = None,
    ) -> None:
        """Prepare a prompt.

        Args:
            label: what is asked for.
            text: what is there to begin with.
            hint: said at the right.
            changed: called with the text at each key; returns what is wrong with it, or nothing.
        """
        super().__init__()
        self.entry = Entry(text)
        self._changed = changed
        self._view = PromptView(label, self.entry, hint)

    def compose(self) -> ComposeResult:
        """Show the line at the bottom."""
        yield self._view

    def on_key(self, event: events.Key) -> None:
        """Take the key; none of them means what it means elsewhere."""
        event.stop()
        event.prevent_default()
        if not self.is_current:
            return
        if event.key == "enter":
            self.dismiss(self.entry.text)
        elif event.key in ("escape", "ctrl+c"):
            self.dismiss(None)
        elif self.entry.press(event):
            self._tell()

    def on_paste(self, event: events.Paste) -> None:
        """Take what is pasted, as one line."""
        event.stop()
        self.entry.text += " ".join(event.text.split())[:200]
        self._tell()

    def _tell(self) -> None:
        if self._changed is not None:
            self._view.trouble = self._changed(self.entry.text)
        self._view.paint(self._view.console_state, None)
