"""Overview: book, trades, latency, log and sessions on one page."""

from __future__ import annotations

from collections.abc import Iterable

from bourse.tui import layout
from bourse.tui.layout import Regions
from bourse.tui.line import LineView
from bourse.tui.screens.base import ConsoleScreen
from bourse.tui.widgets.histogram import HeatMap, StagePicture
from bourse.tui.widgets.ladder import DepthLadder
from bourse.tui.widgets.sessions import SessionTable
from bourse.tui.widgets.spark import CommandsChart, P99Chart
from bourse.tui.widgets.stages import StageTable
from bourse.tui.widgets.tape import TradeTape
from bourse.tui.widgets.wal import WalPanel


class OverviewScreen(ConsoleScreen):
    """The exchange in one look."""

    def panels(self) -> Iterable[LineView]:
        """Return every panel; the regions say which of them are shown."""
        yield DepthLadder(id="book")
        yield TradeTape(id="tape")
        yield StageTable(id="stages")
        yield CommandsChart(id="commands")
        yield P99Chart(id="p99")
        yield StagePicture(id="picture")
        yield HeatMap(id="heat")
        yield WalPanel(id="wal")
        yield SessionTable(id="sessions")

    def regions(self, width: int, height: int) -> Regions:
        """Return each panel's place in a terminal of this size."""
        return layout.overview(width, height, self.console_state.picture_for_log)

    def move(self, step: int) -> None:
        """Choose another stage."""
        self.console_state.choose_stage(step)
