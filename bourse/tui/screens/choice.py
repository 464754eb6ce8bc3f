"""Pages over the screen to choose from: the palette, the picker of daemons, the light question."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from textwrap import wrap
from typing import ClassVar, NamedTuple

from textual import events
from textual.app import ComposeResult
from textual.geometry import Size
from textual.screen import ModalScreen

from bourse.tui import glyphs
from bourse.tui.format import clean, count, fit
from bourse.tui.line import Cell, LineView, Row, exactly, panel, spread
from bourse.tui.screens.prompt import CURSOR, Entry
from bourse.tui.state import ConsoleState

KEY_CELLS = 9
WIDTH = 84


class Option(NamedTuple):
    """Something to choose."""

    id: str
    title: str
    about: str
    key: str = ""
    refusal: str = ""
    """Why it cannot be chosen now; empty: it can."""


def fitting(options: Sequence[Option], text: str) -> list[Option]:
    """Return the options that have all typed words in them, those whose title begins so first."""
    words = text.casefold().split()
    found = [
        option
        for option in options
        if all(word in f"{option.title} {option.id} {option.about}".casefold() for word in words)
    ]
    return sorted(found, key=lambda option: not option.title.casefold().startswith(text.casefold()))


class PageView(LineView):
    """Show a page that its screen draws."""

    DEFAULT_CSS = f"""
    PageView {{ width: {WIDTH}; max-width: 100%; height: auto; max-height: 100%; }}
    """

    def __init__(self, rows: Callable[[ConsoleState, int, int], list[Row]], height: int) -> None:
        super().__init__(id="page")
        self._page_rows = rows
        self._height = height

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the rows that the page takes."""
        return min(self._height, viewport.height)

    def draw(self, state: ConsoleState, width: int, height: int) -> list[Row]:
        """Return the page."""
        return self._page_rows(state, width, height)


def grounded(rows: Sequence[Row]) -> list[Row]:
    """Put a page's own ground under rows that have none."""
    return [
        tuple((text, token if "/" in token else f"{token}/page") for text, token in row)
        for row in rows
    ]


class Page(ModalScreen[str | None]):
    """A page in the middle of the screen, which takes every key."""

    AUTO_FOCUS: ClassVar[str | None] = ""

    def page_rows(self, state: ConsoleState, width: int, height: int) -> list[Row]:
        """Return the page, framed."""
        raise NotImplementedError

    def page_height(self) -> int:
        """Return how many rows it would like."""
        raise NotImplementedError

    def take(self, event: events.Key) -> None:
        """Do what a key means here."""
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        """Show the page."""
        yield PageView(self.page_rows, self.page_height())

    def on_key(self, event: events.Key) -> None:
        """Take the key; none of them means what it means elsewhere."""
        event.stop()
        event.prevent_default()
        if not self.is_current:  # keys of the same read arrive here after the end
            return
        if event.key in ("escape", "ctrl+c"):
            self.dismiss(None)
            return
        self.take(event)
        if self.is_current:
            self.repaint()

    def repaint(self) -> None:
        """Show what changed."""
        for view in self.query(PageView):
            view.paint(view.console_state, None)


class Chooser(Page):
    """A list that typing narrows: the palette, and the picker of daemons."""

    def __init__(
        self, title: str, options: Sequence[Option], hint: str, free: str = "", rows: int = 16
    ) -> None:
        """Prepare a list.

        Args:
            title: what is chosen.
            options: what there is.
            hint: said at the bottom.
            free: what a text that fits nothing is taken for, such as a path; empty: for nothing.
            rows: how many are shown at once, if there is room.
        """
        super().__init__()
        self._title = title
        self._options = list(options)
        self._hint = hint
        self._free = free
        self._rows = rows
        self.entry = Entry()
        self.index = 0

    def shown(self) -> list[Option]:
        """Return what fits the typed text."""
        found = fitting(self._options, self.entry.text)
        if self._free and self.entry.text and not found:
            return [Option(self.entry.text, self.entry.text, self._free)]
        return found

    def page_height(self) -> int:
        """Return the rows of all options, the line of typing, and the frame."""
        return min(len(self._options), self._rows) + 4

    def take(self, event: events.Key) -> None:
        """Type, move, or choose."""
        shown = self.shown()
        if event.key == "enter":
            if shown:
                self.dismiss(shown[min(self.index, len(shown) - 1)].id)
            return
        if event.key in ("down", "ctrl+n", "tab"):
            self.index = min(self.index + 1, max(0, len(shown) - 1))
        elif event.key in ("up", "ctrl+p", "shift+tab"):
            self.index = max(0, self.index - 1)
        elif self.entry.press(event):
            self.index = 0

    def page_rows(self, state: ConsoleState, width: int, height: int) -> list[Row]:
        """Return the typed text, and what fits it."""
        inside = width - 2
        shown = self.shown()
        typed: list[Cell] = [
            (f" {glyphs.CHOSEN} ", "key"),
            (clean(self.entry.text) + CURSOR, "bright"),
        ]
        rows: list[Row] = [exactly(typed, inside), exactly((), inside)]
        fits = max(1, height - 4)
        first = max(0, min(self.index - fits // 2, len(shown) - fits))
        for at, option in enumerate(shown[first : first + fits], first):
            here = at == self.index
            left: list[Cell] = [
                (f" {glyphs.CHOSEN if here else ' '} ", "accent"),
                (fit(clean(option.title), 14), "faint" if option.refusal else "bright"),
                (
                    f" {clean(option.refusal or option.about)}",
                    "faint" if option.refusal else "text",
                ),
            ]
            right: list[Cell] = [(f"{option.key} ", "key")] if option.key else []
            row = spread(left, right, inside)
            rows.append(tuple((t, f"{tone}/chosen" if here else tone) for t, tone in row))
        if not shown:
            rows.append(exactly(((" nothing has these words", "dim"),), inside))
        return panel(
            grounded(rows),
            width,
            height,
            f"{self._title} {count(len(shown))}",
            bottom=self._hint,
            highlight=True,
        )


class Question(Page):
    """A light question: y or the action's own key says yes, anything else no."""

    def __init__(self, title: str, sentence: str, key: str) -> None:
        super().__init__()
        self._title = title
        self._sentence = sentence
        self._key = key

    def page_height(self) -> int:
        """Return the sentence's rows and the frame's."""
        return len(self._lines(WIDTH)) + 4

    def _lines(self, width: int) -> list[str]:
        return wrap(clean(self._sentence), max(10, width - 6))

    def take(self, event: events.Key) -> None:
        """Say yes or no."""
        self.dismiss("yes" if event.key in ("y", self._key) else None)

    def page_rows(self, state: ConsoleState, width: int, height: int) -> list[Row]:
        """Return the question."""
        inside = width - 2
        rows = [
            exactly((), inside),
            *(exactly(((f"  {line}", "text"),), inside) for line in self._lines(width)),
        ]
        return panel(
            grounded(rows),
            width,
            height,
            self._title,
            bottom="y yes · any other key no",
            highlight=True,
        )
