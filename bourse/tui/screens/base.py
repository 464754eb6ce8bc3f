"""What all screens share: status line, panels placed by size, key line, the gate."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ClassVar

from textual.app import ComposeResult
from textual.layout import Layout
from textual.screen import Screen
from textual.widget import Widget

from bourse.tui.layout import RegionLayout, Regions
from bourse.tui.line import LineView
from bourse.tui.state import ConsoleState
from bourse.tui.widgets.bars import KeyBar, StatusBar
from bourse.tui.widgets.gate import Gate


class Panels(Widget):
    """The whole screen's area: children are placed by the screen's regions."""

    DEFAULT_CSS = """
    Panels { width: 1fr; height: 1fr; }
    """

    def __init__(self, *children: Widget, regions: Callable[[int, int], Regions]) -> None:
        super().__init__(*children)
        self._regions_layout = RegionLayout(regions)

    def rearrange(self) -> None:
        """Place the children anew: something else than the size decides differently now."""
        self._clear_arrangement_cache()
        self.refresh(layout=True)

    @property
    def layout(self) -> Layout:
        """The children's arrangement (styles know only Textual's own by name)."""
        return self._regions_layout


class ConsoleScreen(Screen[None]):
    """One screen of the console. A subclass names its panels and where they stand."""

    AUTO_FOCUS: ClassVar[str | None] = ""

    def panels(self) -> Iterable[LineView]:
        """Return the panels, each with the id that `regions` knows."""
        raise NotImplementedError

    def regions(self, width: int, height: int) -> Regions:
        """Return each panel's place in a terminal of this size."""
        raise NotImplementedError

    @property
    def console_state(self) -> ConsoleState:
        """The app's state."""
        state: ConsoleState = self.app.state  # type: ignore[attr-defined]
        return state

    def compose(self) -> ComposeResult:
        """Put everything into one area."""
        yield Panels(
            StatusBar(id="status"),
            *self.panels(),
            KeyBar(id="keys"),
            Gate(id="gate"),
            regions=self.regions,
        )
