"""Book: what does the book look like, and who moved it?"""

from __future__ import annotations

from collections.abc import Iterable

from bourse.tui import layout
from bourse.tui.layout import Regions
from bourse.tui.line import LineView, PanelView, text_of
from bourse.tui.screens.base import ConsoleScreen
from bourse.tui.state import UI
from bourse.tui.widgets.level import (
    book_panel,
    level_panel,
    level_rows,
    move_level,
    places,
    shape_panel,
)
from bourse.tui.widgets.tape import TradeTape


class BookScreen(ConsoleScreen):
    """The whole ladder, a level's sums, the book's shape and the tape."""

    def panels(self) -> Iterable[LineView]:
        """Return the panels."""
        yield PanelView("book", book_panel, ("depth", "connection", UI))
        yield PanelView("level", level_panel, ("depth", UI))
        yield PanelView("shape", shape_panel, ("depth", UI))
        yield TradeTape(id="tape")

    def regions(self, width: int, height: int) -> Regions:
        """Return each panel's place in a terminal of this size."""
        return layout.book(width, height)

    def move(self, step: int) -> None:
        """Move along the ladder, across the middle."""
        move_level(self.console_state, step)

    def chosen_text(self) -> str | None:
        """Return the chosen level's facts."""
        state = self.console_state
        if state.level not in places(state):
            return None
        return "\n".join(text_of(row).strip() for row in level_rows(state, 60, 10))
