"""Time: the log as a line with what happened along it, and what a replay of it proves.

The place of the scrubber: `layout.time` gives the lower half to the marks; a ladder at the chosen
record, beside the live one, belongs there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from bourse.tui import layout
from bourse.tui.layout import Regions
from bourse.tui.line import LineView, PanelView
from bourse.tui.screens.base import ConsoleScreen
from bourse.tui.state import UI
from bourse.tui.widgets import timeline
from bourse.tui.widgets.proof import proof_panel
from bourse.tui.widgets.table import Table


class TimeScreen(ConsoleScreen):
    """Segments, snapshots and marks along the log; replay and its comparison."""

    TABLE: ClassVar[Table[Any] | None] = timeline.MARKS_TABLE

    def panels(self) -> Iterable[LineView]:
        """Return the panels."""
        yield PanelView("track", timeline.track_panel, ("wal", "status", "markers", UI))
        yield PanelView("marks", timeline.marks_panel, ("wal", "markers", UI))
        yield PanelView("proof", proof_panel, ("wal", UI))

    def regions(self, width: int, height: int) -> Regions:
        """Return each panel's place in a terminal of this size."""
        return layout.time(width, height)

    def items(self) -> Sequence[Any]:
        """Return the marks, newest first."""
        return timeline.marks_of(self.console_state)
