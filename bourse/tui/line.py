"""Lines of styled cells, of which every panel is made, and the widget that draws them.

A panel is a pure function  (state, width, height) -> rows.  A row is a tuple of (text, style token)
pairs; tokens are names of the theme, `foreground` or `foreground/background`. `LineView` compares
the new rows with those on screen and repaints only the lines that differ, so an unchanged panel
writes nothing. Text never is markup: no tag of a foreign name is ever read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from bourse.tui import glyphs
from bourse.tui.format import clean, fit
from bourse.tui.state import ConsoleState

Cell = tuple[str, str]
Row = tuple[Cell, ...]

BLANK: Row = ()


def width_of(row: Iterable[Cell]) -> int:
    """Return how many cells a row takes."""
    return sum(len(text) if text.isascii() else cell_len(text) for text, _ in row)


def text_of(row: Iterable[Cell]) -> str:
    """Return a row's text without its styles."""
    return "".join(text for text, _ in row)


def exactly(row: Sequence[Cell], width: int, style: str = "text") -> Row:
    """Return a row in exactly `width` cells: padded on the right, or cut with an ellipsis."""
    used = width_of(row)
    if used == width:
        return tuple(row)
    if used < width:
        return (*row, (" " * (width - used), style))
    kept: list[Cell] = []
    left = width
    for text, token in row:
        cells = len(text) if text.isascii() else cell_len(text)
        if cells >= left:
            # One cell more than fits: the ellipsis replaces what is cut.
            kept.append((fit(text + "…" if cells == left else text, left), token))
            break
        kept.append((text, token))
        left -= cells
    return tuple(kept)


def merged(row: Row) -> list[Cell]:
    """Return a row with neighbours of one style made one, and blanks of any foreground taken in.

    Each change of style costs some forty bytes on the way to the terminal.
    """
    cells: list[Cell] = []
    for text, token in row:
        if not text:
            continue
        if cells:
            before_text, before = cells[-1]
            if before == token or (
                text.isspace()
                and not before.startswith(("badge", "error"))  # reversed where there is no colour
                and before.partition("/")[2] == token.partition("/")[2]
            ):
                cells[-1] = (before_text + text, before)
                continue
        cells.append((text, token))
    return cells


def changed_cells(old: Row, new: Row, width: int) -> tuple[int, int]:
    """Return the first cell in which two rows differ, and the one behind the last.

    Rows are compared cell run by cell run from both ends, so the span may be a little too wide.
    """
    first = 0
    for before, after in zip(old, new, strict=False):
        if before != after:
            break
        first += width_of((after,))
    end = width
    for before, after in zip(reversed(old), reversed(new), strict=False):
        if before != after:
            break
        end -= width_of((after,))
    return (first, end) if first < end else (0, width)


def spread(left: Sequence[Cell], right: Sequence[Cell], width: int) -> Row:
    """Return a row with one part at each end; the right part goes when there is no room."""
    gap = width - width_of(left) - width_of(right)
    if gap < 1:
        return exactly(left, width)
    return (*left, (" " * gap, "text"), *right)


def join_while_fits(
    parts: Sequence[Sequence[Cell]], width: int, between: str = " · "
) -> list[Cell]:
    """Join parts in their order of importance, leaving out those that do not fit any more."""
    joined: list[Cell] = []
    used = 0
    for part in parts:
        cells = width_of(part) + (len(between) if joined else 0)
        if used + cells > width:
            continue
        if joined:
            joined.append((between, "dim"))
        joined.extend(part)
        used += cells
    return joined


def panel(
    rows: Sequence[Row],
    width: int,
    height: int,
    title: str,
    note: str = "",
    bottom: str = "",
    stale: bool = False,
    highlight: bool = False,
) -> list[Row]:
    """Frame rows with a line, a title (a `~` behind it says stale), a note and a bottom note.

    Args:
        rows: the content; cut or filled up to the inside of the frame.
        width: cells of the whole, frame included; at least 4.
        height: rows of the whole, frame included; at least 2.
        title: what the panel shows.
        note: said behind the title, dimmer; left out where it does not fit.
        bottom: said at the right end of the bottom line; left out where it does not fit.
        stale: the content is old.
        highlight: a page over the panels: accent frame, its own ground.
    """
    corner_tl, line, corner_tr, side, corner_bl, corner_br = list(glyphs.FRAME_ROUND)
    edge = "accent/page" if highlight else "frame"
    ground = "/page" if highlight else ""
    inside = width - 2

    name = fit(f"{title} ~" if stale else title, min(inside - 3, cell_len(title) + 2 * stale))
    head: list[Cell] = [(corner_tl + line, edge), (f" {name} ", f"title{ground}")]
    used = width_of(head)
    if note and used + cell_len(note) + 2 <= width:
        head.append((f"{note} ", "dim"))
        used += cell_len(note) + 1
    head.append((line * (width - used - 1) + corner_tr, edge))

    foot: list[Cell] = []
    if bottom and cell_len(bottom) + 5 <= width:
        foot = [
            (corner_bl + line * (width - cell_len(bottom) - 5), edge),
            (f" {bottom} ", f"dim{ground}"),
            (line + corner_br, edge),
        ]
        missing = width - width_of(foot)
        foot[0] = (corner_bl + line * (width - cell_len(bottom) - 5 + missing), edge)
    else:
        foot = [(corner_bl + line * inside + corner_br, edge)]

    framed: list[Row] = [tuple(head)]
    for index in range(height - 2):
        content = rows[index] if index < len(rows) else BLANK
        framed.append(((side, edge), *exactly(content, inside), (side, edge)))
    framed.append(tuple(foot))
    return framed


def foreign(text: str) -> str:
    """Return text of the daemon or of a client, harmless; see `format.clean`."""
    return clean(text)


class LineView(Widget):
    """Draw rows and repaint only those that changed.

    Obligations: `draw()` is pure, and depends only on the state, its size and the topics named in
    `TOPICS`; `paint()` is called by the app's one timer, and by the widget only after a resize.
    """

    DEFAULT_CSS = """
    LineView { width: 1fr; height: 1fr; }
    """

    TOPICS: ClassVar[frozenset[str]] = frozenset()
    """Topics whose news this view shows; news of others never costs it anything."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._rows: list[Row] = []
        self._strips: dict[int, Strip] = {}
        self._painted_for: tuple[int, int, str] | None = None

    @property
    def topics(self) -> frozenset[str]:
        """The topics that this view shows."""
        return self.TOPICS

    def draw(self, state: ConsoleState, width: int, height: int) -> list[Row]:
        """Return the rows to show: at most `height`, each exactly `width` cells."""
        raise NotImplementedError

    def paint(self, state: ConsoleState, dirty: set[str] | None) -> int:
        """Bring the screen up to date.

        Args:
            state: what there is to show.
            dirty: topics with news; None repaints whatever differs.

        Returns:
            How many rows changed.
        """
        width, height = self.size
        if width <= 0 or height <= 0:
            return 0
        look = (width, height, state.look)
        if look == self._painted_for and dirty is not None and not dirty & self.topics:
            return 0
        rows = self.draw(state, width, height)[:height]
        if look != self._painted_for:
            self._painted_for = look
            self._rows = rows
            self._strips.clear()
            self.refresh()
            return height
        before = self._rows
        self._rows = rows
        regions = []
        for y in range(max(len(rows), len(before))):
            new = rows[y] if y < len(rows) else BLANK
            old = before[y] if y < len(before) else BLANK
            if new != old:
                self._strips.pop(y, None)
                first, end = changed_cells(old, new, width)
                regions.append(Region(first, y, end - first, 1))
        if regions:
            self.refresh(*regions)
        return len(regions)

    def on_resize(self) -> None:
        """Fill the new size at once; the timer may be a second away."""
        self.paint(self.console_state, None)

    def render_line(self, y: int) -> Strip:
        """Return one line from the cache, or make it from its row."""
        strip = self._strips.get(y)
        if strip is None:
            width = self.size.width
            row = self._rows[y] if y < len(self._rows) else BLANK
            state = self.console_state
            style = state.palette.style
            cells = merged(exactly(row, width))
            if state.ascii:
                cells = [(glyphs.ascii_only(text), token) for text, token in cells]
            segments = [Segment(text, style(token)) for text, token in cells]
            strip = Strip(segments, width)
            self._strips[y] = strip
        return strip

    @property
    def console_state(self) -> ConsoleState:
        """The app's state, for its palette."""
        state: ConsoleState = self.app.state  # type: ignore[attr-defined]
        return state

    def row_texts(self) -> list[str]:
        """Return the shown text, for tests and for saving the screen."""
        return [text_of(row) for row in self._rows]


Draw = Callable[[ConsoleState, int, int], list[Row]]


class PanelView(LineView):
    """Show what a panel's function returns."""

    def __init__(self, id: str, draw: Draw, topics: Iterable[str]) -> None:
        super().__init__(id=id)
        self._draw = draw
        self._topics = frozenset(topics)

    @property
    def topics(self) -> frozenset[str]:
        """The topics that this panel shows."""
        return self._topics

    def draw(self, state: ConsoleState, width: int, height: int) -> list[Row]:
        """Return the panel's rows."""
        return self._draw(state, width, height)
