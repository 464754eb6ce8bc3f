"""What all screens share: status line, tabs, panels placed by size, timeline, keys, the gate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.layout import Layout
from textual.screen import Screen
from textual.widget import Widget

from bourse.tui.layout import RegionLayout, Regions
from bourse.tui.line import LineView, PanelView
from bourse.tui.state import UI, ConsoleState
from bourse.tui.widgets.bars import LabelBar, StatusBar, footer_row, tabs_row
from bourse.tui.widgets.gate import Gate
from bourse.tui.widgets.table import Table
from bourse.tui.widgets.timeline import timeline_panel

PAGE_ROWS = 10


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
    """One screen of the console. A subclass names its panels, where they stand, and its table."""

    AUTO_FOCUS: ClassVar[str | None] = ""
    TABLE: ClassVar[Table[Any] | None] = None
    """The table whose rows are chosen on this screen."""

    def panels(self) -> Iterable[LineView]:
        """Return the panels, each with the id that `regions` knows."""
        raise NotImplementedError

    def regions(self, width: int, height: int) -> Regions:
        """Return each panel's place in a terminal of this size."""
        raise NotImplementedError

    def items(self) -> Sequence[Any]:
        """Return the rows of the screen's table, before its filter."""
        return ()

    def move(self, step: int) -> None:
        """Move the operator's choice by rows."""
        if self.TABLE is not None:
            state = self.console_state
            self.TABLE.move(self.items(), state.table(state.screen), step)

    def chosen_text(self) -> str | None:
        """Return the chosen row as a line of text; None when nothing is chosen, or it is gone."""
        if self.TABLE is None:
            return None
        state = self.console_state
        item = self.TABLE.chosen(self.items(), state.table(state.screen))
        if item is None:
            return None
        return "\t".join(self.TABLE.fields(item).values())

    @property
    def console_state(self) -> ConsoleState:
        """The app's state."""
        state: ConsoleState = self.app.state  # type: ignore[attr-defined]
        return state

    def compose(self) -> ComposeResult:
        """Put everything into one area."""
        yield Panels(
            StatusBar(id="status"),
            LabelBar("tabs", tabs_row),
            *self.panels(),
            PanelView("timeline", timeline_panel, ("wal", "status", "markers", UI)),
            LabelBar("keys", footer_row),
            Gate(id="gate"),
            regions=self.regions,
        )
