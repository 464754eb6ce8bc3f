"""Where each panel stands, for every screen and every size of terminal. Pure arithmetic.

    under 60×16   gate       one line that says what is needed
    60×16         small      the screen's main panel
    80×16         compact    two columns where they help
    100×30        normal     all but the second picture
    160×44        wide       everything

Status line and tabs on top and key line at the bottom, always; from 30 rows on the timeline above
the keys. Panels never overlap and leave no cell free. `RegionLayout` is Textual's hook for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual.geometry import NULL_OFFSET, NULL_SPACING, Region, Size
from textual.layout import ArrangeResult, Layout, WidgetPlacement
from textual.widget import Widget

WIDTH_MIN, HEIGHT_MIN = 60, 16
STAGES_ROWS = 10
"""Seven stages, their head, the frame."""
WAL_ROWS = 12
"""Ten lines and the frame."""
SYNC_ROWS = 10
"""Eight lines and the frame."""
READOUT_ROWS = 10
TIMELINE_ROWS = 3
TIMELINE_HEIGHT_MIN = 30

Regions = dict[str, Region]
Parts = Sequence[tuple[str, int]]


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


def stack(area: Region, parts: Parts) -> Regions:
    """Put panels under each other; the last takes what is left."""
    regions: Regions = {}
    y, left = area.y, area.height
    for index, (name, rows) in enumerate(parts):
        taken = left if index == len(parts) - 1 else min(rows, left)
        if taken > 0:
            regions[name] = Region(area.x, y, area.width, taken)
        y += taken
        left -= taken
    return regions


def beside(area: Region, parts: Parts) -> Regions:
    """Put panels beside each other; the last takes what is left."""
    regions: Regions = {}
    x, left = area.x, area.width
    for index, (name, cells) in enumerate(parts):
        taken = left if index == len(parts) - 1 else min(cells, left)
        if taken > 0:
            regions[name] = Region(x, area.y, taken, area.height)
        x += taken
        left -= taken
    return regions


def around(
    width: int, height: int, fill: Callable[[str, Region], Regions], timeline: bool = True
) -> Regions:
    """Return what every screen has, and the panels that `fill` puts into the body.

    Args:
        width: the terminal's columns.
        height: its rows.
        fill: (size class, body) to panels.
        timeline: the screen has the small timeline where there is room.
    """
    kind = size_class(width, height)
    if kind == "gate":
        return {"gate": Region(0, 0, width, height)}
    rows = TIMELINE_ROWS if timeline and height >= TIMELINE_HEIGHT_MIN else 0
    regions = {
        "status": Region(0, 0, width, 1),
        "tabs": Region(0, 1, width, 1),
        "keys": Region(0, height - 1, width, 1),
    }
    if rows:
        regions["timeline"] = Region(0, height - 1 - rows, width, rows)
    regions.update(fill(kind, Region(0, 2, width, height - 3 - rows)))
    return regions


# --- Overview


def overview(width: int, height: int, picture_for_log: bool = False) -> Regions:
    """Return the overview's panels by name, in a terminal of this size.

    Args:
        width: the terminal's columns.
        height: its rows.
        picture_for_log: where there is no room for both, show the picture in place of the log.
    """

    def fill(kind: str, body: Region) -> Regions:
        if kind == "small":
            return {"book": body}
        return {"compact": _compact, "normal": _normal, "wide": _wide}[kind](body)

    regions = around(width, height, fill)
    if picture_for_log and "picture" not in regions and "wal" in regions:
        regions["picture"] = regions.pop("wal")
    return regions


def _compact(body: Region) -> Regions:
    left = max(44, body.width * 55 // 100)
    tape = body.height * 30 // 100 if body.height >= 20 else 0
    columns = beside(body, [("left", left), ("right", 0)])
    parts = [("book", body.height - tape)] + ([("tape", tape)] if tape else [])
    regions = stack(columns["left"], parts)
    rest = body.height - STAGES_ROWS
    parts = [("stages", STAGES_ROWS)]
    if rest >= WAL_ROWS + 10:
        parts += [("wal", WAL_ROWS), ("picture", rest)]
    elif rest >= WAL_ROWS + 4:
        parts += [("wal", WAL_ROWS), ("sessions", rest)]
    elif rest >= 4:
        parts += [("wal", rest)]
    else:
        # Sixteen rows: a stage or two go, the log's marks must be seen.
        parts = [("stages", body.height - 5), ("wal", 5)]
    regions.update(stack(columns["right"], parts))
    return regions


def _normal(body: Region) -> Regions:
    left = 44 if body.width >= 114 else 40
    columns = beside(body, [("left", left), ("right", 0)])
    tape = max(8, body.height * 29 // 100)
    regions = stack(columns["left"], [("book", body.height - tape), ("tape", tape)])
    charts = max(4, body.height // 7)
    right = stack(
        columns["right"], [("stages", STAGES_ROWS), ("charts", charts), ("bottom", body.height)]
    )
    regions["stages"] = right["stages"]
    half = right["charts"].width // 2
    regions.update(beside(right["charts"], [("commands", half), ("p99", 0)]))

    bottom = right["bottom"]
    picture = bottom.width * (52 if bottom.width >= 68 else 47) // 100
    parts = beside(bottom, [("picture", picture), ("side", 0)])
    regions["picture"] = parts["picture"]
    wal = min(WAL_ROWS, max(8, bottom.height - 7))
    if bottom.height - wal < 4:
        wal = bottom.height
    regions.update(stack(parts["side"], [("wal", wal), ("sessions", 0)]))
    return regions


def _wide(body: Region) -> Regions:
    book = max(46, body.width * 26 // 100)
    tape = max(34, body.width * 20 // 100)
    regions = beside(body, [("book", book), ("tape", tape), ("right", 0)])
    right = regions.pop("right")
    rest = body.height - STAGES_ROWS
    bottom = max(WAL_ROWS, rest * 33 // 100)
    charts = max(6, (rest - bottom) * 36 // 100)
    parts = stack(
        right,
        [
            ("stages", STAGES_ROWS),
            ("charts", charts),
            ("pictures", rest - bottom - charts),
            ("bottom", bottom),
        ],
    )
    half = right.width // 2
    regions["stages"] = parts["stages"]
    regions.update(beside(parts["charts"], [("commands", half), ("p99", 0)]))
    regions.update(beside(parts["pictures"], [("picture", half), ("heat", 0)]))
    wal = max(40, right.width * 44 // 100)
    regions.update(beside(parts["bottom"], [("wal", wal), ("sessions", 0)]))
    return regions


# --- the others


def book(width: int, height: int) -> Regions:
    """Return the Book screen's panels: ladder, tape, the chosen level, the book's shape."""

    def fill(kind: str, body: Region) -> Regions:
        if kind == "small":
            return stack(body, [("book", body.height - 4), ("level", 4)])
        if kind == "compact":
            columns = beside(body, [("book", max(44, body.width * 55 // 100)), ("right", 0)])
            right = columns.pop("right")
            level = min(READOUT_ROWS, body.height // 2)
            return {**columns, **stack(right, [("level", level), ("tape", 0)])}
        ladder = body.width * (46 if kind == "normal" else 40) // 100
        columns = beside(body, [("book", ladder), ("right", 0)])
        right = columns.pop("right")
        if kind == "normal":
            shape = max(7, body.height * 28 // 100)
            parts = [("shape", shape), ("level", READOUT_ROWS), ("tape", 0)]
            return {**columns, **stack(right, parts)}
        halves = beside(right, [("left", right.width * 55 // 100), ("tape", 0)])
        left = halves.pop("left")
        parts = [("shape", body.height - READOUT_ROWS), ("level", 0)]
        return {**columns, **halves, **stack(left, parts)}

    return around(width, height, fill)


def latency(width: int, height: int, picture_first: bool = False) -> Regions:
    """Return the Latency screen's panels: stages, both pictures, each stage's last minutes."""

    def fill(kind: str, body: Region) -> Regions:
        rest = body.height - STAGES_ROWS
        if kind == "small":
            return {"picture" if picture_first else "stages": body}
        if kind == "compact":
            if rest < 8:
                return beside(body, [("stages", max(36, body.width // 2)), ("picture", 0)])
            parts = stack(body, [("stages", STAGES_ROWS), ("bottom", 0)])
            bottom = parts.pop("bottom")
            return {**parts, **beside(bottom, [("picture", bottom.width // 2), ("heat", 0)])}
        parts = stack(body, [("stages", STAGES_ROWS), ("bottom", 0)])
        bottom = parts.pop("bottom")
        minutes = 9 if bottom.height < 28 else 2 + 7 * (2 if bottom.height < 40 else 3)
        split = stack(bottom, [("pictures", bottom.height - minutes), ("minutes", 0)])
        pictures = split.pop("pictures")
        half = pictures.width * 45 // 100
        return {**parts, **split, **beside(pictures, [("picture", half), ("heat", 0)])}

    return around(width, height, fill)


def wal(width: int, height: int) -> Regions:
    """Return the WAL screen's panels: marks, syncs, segments, snapshots, checkpoints, charts."""

    def fill(kind: str, body: Region) -> Regions:
        if kind == "small":
            return stack(body, [("wal", body.height - 4), ("checks", 0)])
        if kind == "compact":
            checks = 5 if body.height >= 20 else 4
            parts = stack(body, [("top", body.height - checks), ("checks", 0)])
            halves = beside(parts.pop("top"), [("left", body.width // 2), ("right", 0)])
            left, right = [("wal", WAL_ROWS), ("snapshots", 0)], [("syncs", SYNC_ROWS)]
            if halves["left"].height < WAL_ROWS + 4:
                left = left[:1]
            if halves["right"].height >= SYNC_ROWS + 4:
                right.append(("segments", 0))
            return {**parts, **stack(halves["left"], left), **stack(halves["right"], right)}
        checks = 5 if kind == "normal" else 7
        charts = 6 if kind == "normal" else max(8, body.height * 22 // 100)
        if body.height < WAL_ROWS + checks + charts + 5:
            charts = 0
        parts = stack(
            body,
            [
                ("top", WAL_ROWS),
                ("tables", body.height - WAL_ROWS - charts - checks),
                ("checks", checks),
                ("charts", charts),
            ],
        )
        half = body.width // 2
        regions = {"checks": parts["checks"]}
        regions.update(beside(parts["top"], [("wal", half), ("syncs", 0)]))
        regions.update(beside(parts["tables"], [("segments", half), ("snapshots", 0)]))
        if charts:
            regions.update(beside(parts["charts"], [("sync_rate", half), ("write_rate", 0)]))
        return regions

    return around(width, height, fill)


def sessions(width: int, height: int) -> Regions:
    """Return the Sessions screen's panels: the table and the chosen session."""

    def fill(kind: str, body: Region) -> Regions:
        if kind == "small" or body.height < 18:
            return {"sessions": body}
        if kind == "wide":
            return beside(body, [("sessions", body.width * 70 // 100), ("session", 0)])
        return stack(body, [("sessions", body.height - 8), ("session", 0)])

    return around(width, height, fill)


def time(width: int, height: int) -> Regions:
    """Return the Time screen's panels: the log as a line, what happened along it, the replay."""

    def fill(kind: str, body: Region) -> Regions:
        if kind == "small":
            return stack(body, [("track", 6), ("proof", 0)])
        track = 6 if kind == "compact" else 7
        parts = stack(body, [("track", track), ("bottom", 0)])
        bottom = parts.pop("bottom")
        marks = bottom.width * (48 if kind == "compact" else 55) // 100
        return {**parts, **beside(bottom, [("marks", marks), ("proof", 0)])}

    return around(width, height, fill, timeline=False)


def log(width: int, height: int) -> Regions:
    """Return the Log screen's panel."""
    return around(width, height, lambda kind, body: {"log": body})


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
