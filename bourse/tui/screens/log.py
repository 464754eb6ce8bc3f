"""Log: what happened?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from bourse.tui import layout
from bourse.tui.layout import Regions
from bourse.tui.line import LineView, PanelView
from bourse.tui.screens.base import ConsoleScreen
from bourse.tui.state import UI
from bourse.tui.widgets import loglines
from bourse.tui.widgets.table import Table


class LogScreen(ConsoleScreen):
    """What the daemon and this console said."""

    TABLE: ClassVar[Table[Any] | None] = loglines.LOG

    def panels(self) -> Iterable[LineView]:
        """Return the panel."""
        yield PanelView("log", loglines.log_panel, ("log", UI))

    def regions(self, width: int, height: int) -> Regions:
        """Return the panel's place in a terminal of this size."""
        return layout.log(width, height)

    def items(self) -> Sequence[Any]:
        """Return the lines, newest last."""
        return loglines.entries_of(self.console_state)
