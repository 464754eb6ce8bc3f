"""Sessions: who is connected, and who hurts?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from bourse.tui import layout
from bourse.tui.layout import Regions
from bourse.tui.line import LineView, PanelView
from bourse.tui.screens.base import ConsoleScreen
from bourse.tui.state import UI
from bourse.tui.widgets import people
from bourse.tui.widgets.table import Table


class SessionsScreen(ConsoleScreen):
    """Every connection, and all about the chosen one."""

    TABLE: ClassVar[Table[Any] | None] = people.SESSIONS

    def panels(self) -> Iterable[LineView]:
        """Return the panels."""
        yield PanelView("sessions", people.people_panel, ("sessions", "status", UI))
        yield PanelView("session", people.session_panel, ("sessions", UI))

    def regions(self, width: int, height: int) -> Regions:
        """Return each panel's place in a terminal of this size."""
        return layout.sessions(width, height)

    def items(self) -> Sequence[Any]:
        """Return the sessions."""
        return people.people_of(self.console_state)
