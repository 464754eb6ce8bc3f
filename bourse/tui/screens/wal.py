"""WAL: what is safe on disk?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from bourse.tui import layout
from bourse.tui.layout import Regions
from bourse.tui.line import LineView, PanelView
from bourse.tui.screens.base import ConsoleScreen
from bourse.tui.state import UI
from bourse.tui.widgets import files
from bourse.tui.widgets.table import Table
from bourse.tui.widgets.wal import WalPanel


class WalScreen(ConsoleScreen):
    """How far the log is, how the disk does, which files there are, what was checked."""

    TABLE: ClassVar[Table[Any] | None] = files.SNAPSHOTS

    def panels(self) -> Iterable[LineView]:
        """Return the panels."""
        yield WalPanel(id="wal")
        yield PanelView("syncs", files.syncs_panel, ("wal", UI))
        yield PanelView("segments", files.segments_panel, ("wal", UI))
        yield PanelView("snapshots", files.snapshots_panel, ("wal", UI))
        yield PanelView("checks", files.checks_panel, ("wal", UI))
        yield PanelView("sync_rate", files.sync_rate_panel, ("history", UI))
        yield PanelView("write_rate", files.write_rate_panel, ("history", UI))

    def regions(self, width: int, height: int) -> Regions:
        """Return each panel's place in a terminal of this size."""
        return layout.wal(width, height)

    def items(self) -> Sequence[Any]:
        """Return the snapshots."""
        return files.snapshots_of(self.console_state)
