"""The console's screens; modes of the app, in the order of their number keys."""

from __future__ import annotations

from bourse.tui.screens.base import ConsoleScreen
from bourse.tui.screens.book import BookScreen
from bourse.tui.screens.latency import LatencyScreen
from bourse.tui.screens.log import LogScreen
from bourse.tui.screens.overview import OverviewScreen
from bourse.tui.screens.sessions import SessionsScreen
from bourse.tui.screens.time import TimeScreen
from bourse.tui.screens.wal import WalScreen

SCREENS: dict[str, type[ConsoleScreen]] = {
    "overview": OverviewScreen,
    "book": BookScreen,
    "latency": LatencyScreen,
    "wal": WalScreen,
    "sessions": SessionsScreen,
    "time": TimeScreen,
    "log": LogScreen,
}
"""Mode name to screen."""

__all__ = ["SCREENS", "ConsoleScreen"]
