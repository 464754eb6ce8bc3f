"""The question before what hits others: what it hits, and the instance's name to be typed."""

from __future__ import annotations

from textwrap import wrap

from textual import events

from bourse.admin.messages import Prepared
from bourse.tui import glyphs
from bourse.tui.format import clean
from bourse.tui.line import Cell, Row, exactly, panel
from bourse.tui.screens.choice import WIDTH, Page, grounded
from bourse.tui.screens.prompt import CURSOR, Entry
from bourse.tui.state import ConsoleState


class Danger(Page):
    """Say what would be hit; the typed name and Enter do it, everything else leaves it undone."""

    def __init__(self, prepared: Prepared, environment: str = "") -> None:
        """Prepare the page.

        Args:
            prepared: what the daemon says that it hits; its token is not shown.
            environment: what the operator calls the instance's surroundings.
        """
        super().__init__()
        self._prepared = prepared
        self._environment = environment
        self.entry = Entry()
        self._trouble = ""

    def page_height(self) -> int:
        """Return the sentences' rows, the line of typing, and the frame."""
        return len(self._lines(min(WIDTH, self.app.size.width))) + 6

    def _lines(self, width: int) -> list[str]:
        room = max(10, width - 6)
        return [line for one in self._prepared.impact for line in wrap(clean(one), room)]

    def take(self, event: events.Key) -> None:
        """Type; Enter takes the right name and nothing else."""
        if event.key == "enter":
            if self.entry.text == self._prepared.instance:
                self.dismiss(self.entry.text)
                return
            self._trouble = "that is not its name" if self.entry.text else "nothing is done yet"
        elif self.entry.press(event):
            self._trouble = ""

    def page_rows(self, state: ConsoleState, width: int, height: int) -> list[Row]:
        """Return the page; where it is too small for everything, the line of typing stays."""
        inside = width - 2
        prepared = self._prepared
        name = clean(prepared.instance)
        ask: list[Cell] = [("  type ", "text"), (name, "bright"), (f" {glyphs.CHOSEN} ", "key")]
        ask.append((clean(self.entry.text) + CURSOR, "bright"))
        if self._trouble:
            ask.append((f"  {self._trouble}", "warning"))
        told = [exactly(((f"  {line}", "text"),), inside) for line in self._lines(width)]
        told = told[: max(0, height - 6)]
        rows = [
            exactly((), inside),
            *told,
            exactly((), inside),
            exactly(ask, inside),
            exactly((), inside),
        ]
        where = f" [{clean(self._environment)}]" if self._environment else ""
        return panel(
            grounded(rows),
            width,
            height,
            f"{glyphs.WARNING} {name}{where}: {clean(prepared.title)}",
            bottom=f"Enter does it, within {prepared.ttl_seconds:.0f} s · Esc leaves it",
            highlight=True,
        )
