"""Where each panel stands, for every size of terminal. Pure arithmetic, and Textual's hook for it.

    under 60×16   gate       one line that says what is needed
    60×16         small      ladder
    80×16         compact    ladder, stages, log or picture; from 80×22 the tape too
    100×30        normal     ladder and tape | stages, charts, picture, log, sessions
    160×44        wide       ladder | tape | everything, both pictures

Status line on top and key line at the bottom, always. Panels never overlap and leave no cell free.
"""

from __future__ import annotations

from collections.abc import Callable

from textual.geometry import NULL_OFFSET, NULL_SPACING, Region, Size
from textual.layout import ArrangeResult, Layout, WidgetPlacement
from textual.widget import Widget

WIDTH_MIN, HEIGHT_MIN = 60, 16
STAGES_ROWS = 10
"""Seven stages, their head, the frame."""
WAL_ROWS = 12
"""Ten lines and the frame."""

Regions = dict[str, Region]


def size_class(width: int, height: int) -> str:
    """Return gate, small, compact, normal or wide."""
    if width < WIDTH_MIN or height < HEIGHT_MIN:
        return "gate"
    if width < 80:
        return "small"
    if width < 100 or height < 30:
        return "compact"
    if width < 160 or height < 44:
        return "normal"
    return "wide"


def stack(x: int, y: int, width: int, height: int, parts: list[tuple[str, int]]) -> Regions:
    """Put panels under each other; the last takes what is left."""
    regions: Regions = {}
    for index, (name, rows) in enumerate(parts):
        taken = height if index == len(parts) - 1 else min(rows, height)
        if taken > 0:
            regions[name] = Region(x, y, width, taken)
        y += taken
        height -= taken
    return regions


def overview(width: int, height: int, picture_for_log: bool = False) -> Regions:
    """Return the overview's panels by name, in a terminal of this size.

    Args:
        width: the terminal's columns.
        height: its rows.
        picture_for_log: where there is no room for both, show the picture in place of the log.
    """
    kind = size_class(width, height)
    if kind == "gate":
        return {"gate": Region(0, 0, width, height)}
    body = height - 2
    regions: Regions = {
        "status": Region(0, 0, width, 1),
        "keys": Region(0, height - 1, width, 1),
    }
    fill = {"small": _small, "compact": _compact, "normal": _normal, "wide": _wide}[kind]
    regions.update(fill(width, body))
    if picture_for_log and "picture" not in regions and "wal" in regions:
        regions["picture"] = regions.pop("wal")
    return regions


def _small(width: int, body: int) -> Regions:
    return {"book": Region(0, 1, width, body)}


def _compact(width: int, body: int) -> Regions:
    left = max(44, width * 55 // 100)
    right = width - left
    tape = body * 32 // 100 if body >= 20 else 0
    parts = [("book", body - tape)] + ([("tape", tape)] if tape else [])
    regions = stack(0, 1, left, body, parts)
    rest = body - STAGES_ROWS
    parts = [("stages", STAGES_ROWS)]
    if rest >= WAL_ROWS + 10:
        parts += [("wal", WAL_ROWS), ("picture", rest)]
    elif rest >= WAL_ROWS + 4:
        parts += [("wal", WAL_ROWS), ("sessions", rest)]
    else:
        parts += [("wal", rest)]
    regions.update(stack(left, 1, right, body, parts))
    return regions


def _normal(width: int, body: int) -> Regions:
    left = 44 if width >= 114 else 40
    right = width - left
    tape = max(8, body * 29 // 100)
    regions = stack(0, 1, left, body, [("book", body - tape), ("tape", tape)])

    charts = max(5, body // 7 + 1)
    top = STAGES_ROWS + charts
    regions["stages"] = Region(left, 1, right, STAGES_ROWS)
    half = right // 2
    regions["commands"] = Region(left, 1 + STAGES_ROWS, half, charts)
    regions["p99"] = Region(left + half, 1 + STAGES_ROWS, right - half, charts)

    picture = right * (52 if right >= 68 else 47) // 100
    bottom = body - top
    regions["picture"] = Region(left, 1 + top, picture, bottom)
    parts = [("wal", WAL_ROWS), ("sessions", bottom)] if bottom >= WAL_ROWS + 4 else [("wal", 0)]
    regions.update(stack(left + picture, 1 + top, right - picture, bottom, parts))
    return regions


def _wide(width: int, body: int) -> Regions:
    book = max(46, width * 26 // 100)
    tape = max(34, width * 20 // 100)
    left = book + tape
    right = width - left
    regions: Regions = {
        "book": Region(0, 1, book, body),
        "tape": Region(book, 1, tape, body),
        "stages": Region(left, 1, right, STAGES_ROWS),
    }
    rest = body - STAGES_ROWS
    bottom = max(WAL_ROWS, rest * 33 // 100)
    charts = max(6, (rest - bottom) * 36 // 100)
    pictures = rest - bottom - charts
    half = right // 2
    y = 1 + STAGES_ROWS
    regions["commands"] = Region(left, y, half, charts)
    regions["p99"] = Region(left + half, y, right - half, charts)
    y += charts
    regions["picture"] = Region(left, y, half, pictures)
    regions["heat"] = Region(left + half, y, right - half, pictures)
    y += pictures
    wal = max(40, right * 44 // 100)
    regions["wal"] = Region(left, y, wal, bottom)
    regions["sessions"] = Region(left + wal, y, right - wal, bottom)
    return regions


class RegionLayout(Layout):
    """Place children by their ids; those without a region are not shown."""

    name = "regions"

    def __init__(self, regions: Callable[[int, int], Regions]) -> None:
        self._regions = regions

    def arrange(
        self, parent: Widget, children: list[Widget], size: Size, greedy: bool = True
    ) -> ArrangeResult:
        """Return a placement for each child that has a region at this size."""
        parent.pre_layout(self)
        regions = self._regions(size.width, size.height)
        return [
            WidgetPlacement(regions[child.id], NULL_OFFSET, NULL_SPACING, child)
            for child in children
            if child.id in regions
        ]
