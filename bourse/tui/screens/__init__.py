"""The console's screens; each is a mode of the app, and `SCREENS` lists those that exist."""

from __future__ import annotations

from bourse.tui.screens.base import ConsoleScreen
from bourse.tui.screens.overview import OverviewScreen

SCREENS: dict[str, type[ConsoleScreen]] = {"overview": OverviewScreen}
"""Mode name to screen, in the order of their number keys."""

__all__ = ["SCREENS", "ConsoleScreen", "OverviewScreen"]
