"""Latency: where does the time go?"""

from __future__ import annotations

from collections.abc import Iterable

from bourse.tui import layout
from bourse.tui.layout import Regions
from bourse.tui.line import LineView, PanelView
from bourse.tui.screens.base import ConsoleScreen
from bourse.tui.state import UI
from bourse.tui.widgets.histogram import HeatMap, StagePicture
from bourse.tui.widgets.minutes import minutes_panel
from bourse.tui.widgets.stages import stages_panel_full


class LatencyScreen(ConsoleScreen):
    """Each stage's percentiles, its distribution, and its last minutes."""

    def panels(self) -> Iterable[LineView]:
        """Return the panels."""
        yield PanelView("stages", stages_panel_full, ("latency", UI))
        yield StagePicture(id="picture")
        yield HeatMap(id="heat")
        yield PanelView("minutes", minutes_panel, ("latency", "history", UI))

    def regions(self, width: int, height: int) -> Regions:
        """Return each panel's place in a terminal of this size."""
        return layout.latency(width, height, self.console_state.picture_for_log)

    def move(self, step: int) -> None:
        """Choose another stage."""
        self.console_state.choose_stage(step)
