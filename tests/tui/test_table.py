"""Tables: the choice stays on its row whatever the rows do; the ladder's choice on its price."""

import msgspec
import pytest

from bourse.admin.messages import Depth, Frame, Level
from bourse.tui.line import text_of, width_of
from bourse.tui.state import ConsoleState, TableState
from bourse.tui.widgets import files, ladder, level, timeline
from bourse.tui.widgets.table import Column, Table
from tests.admin import samples

Item = tuple[str, int]
TABLE: Table[Item] = Table(
    key=lambda item: item[0],
    columns=[
        Column("name", 6, lambda item: item[0], left=True),
        Column("size", 6, lambda item: str(item[1]), rank=1, order=lambda item: item[1]),
        Column("more", 30, lambda item: "x", rank=2),
    ],
    grows="name",
    empty="none here",
)
ITEMS = [("a", 3), ("b", 9), ("c", 5)]


def shown(items: list[Item], table: TableState, height: int = 10) -> list[str]:
    return [text_of(row).split()[0] for row in TABLE.rows(items, table, 40, height)[1:]]


def test_the_choice_stays_on_its_row_while_rows_move() -> None:
    table = TableState()
    TABLE.move(ITEMS, table, 1)
    TABLE.move(ITEMS, table, 1)
    assert table.cursor == "b"

    for items in (ITEMS[::-1], [("z", 1), *ITEMS], [("b", 0)]):
        assert TABLE.chosen(items, table) == next(item for item in items if item[0] == "b")
        marked = [row for row in TABLE.rows(items, table, 40, 10) if text_of(row).startswith("▸")]
        assert ["b" in text_of(row) for row in marked] == [True]


def test_a_choice_whose_row_is_gone_chooses_nothing_then_what_stands_there() -> None:
    table = TableState(cursor="b", index=1)
    without = [ITEMS[0], ITEMS[2]]

    assert TABLE.chosen(without, table) is None
    assert not any(text_of(row).startswith("▸") for row in TABLE.rows(without, table, 40, 10))

    TABLE.move(without, table, 1)
    assert table.cursor == "c"


def test_moves_stop_at_the_ends_and_pages_keep_the_choice_in_sight() -> None:
    items = [(f"n{number}", number) for number in range(50)]
    table = TableState()
    TABLE.move(items, table, 10**6)
    assert table.cursor == "n0"  # the first move chooses the first row
    TABLE.move(items, table, 10**6)
    assert table.cursor == "n49"
    assert any(row.startswith("▸") for row in map(text_of, TABLE.rows(items, table, 40, 6)))
    TABLE.move(items, table, -(10**6))
    assert table.cursor == "n0"


def test_rows_are_sorted_and_filtered() -> None:
    assert shown(ITEMS, TableState(sort=1)) == ["b", "c", "a"]
    assert shown(ITEMS, TableState(filter="name:c")) == ["c"]
    (row,) = TABLE.rows(ITEMS, TableState(filter="nothing"), 40, 5)
    assert "none of 3 fits the filter" in text_of(row)


@pytest.mark.parametrize("width", [10, 20, 34, 80])
def test_narrow_tables_leave_out_what_matters_least(width: int) -> None:
    rows = TABLE.rows(ITEMS, TableState(), width, 5)

    assert {width_of(row) for row in rows} == {width}
    assert ("more" in text_of(rows[0])) == (width >= 60)


# --- the ladder


def book_state(depth: Depth) -> ConsoleState:
    state = ConsoleState()
    state.live.apply(Frame("depth", 1, 0, depth))
    return state


def test_the_choice_crosses_the_middle_and_stays_on_its_price() -> None:
    state = book_state(samples.depth())
    level.move_level(state, 1)
    assert state.level == ("B", 9_999)
    level.move_level(state, -1)
    assert state.level == ("A", 10_001)
    level.move_level(state, -3)
    assert state.level == ("A", 10_004)

    moved = msgspec.structs.replace(samples.depth(), asks=samples.levels(10_003, 1))
    state.live.apply(Frame("depth", 2, 0, moved))
    rows = [text_of(row) for row in level.book_panel(state, 60, 20)]
    assert next(row for row in rows if "▸" in row).startswith("│A2 ▸")


def test_a_level_that_is_gone_is_said_and_left_to_its_neighbour() -> None:
    state = book_state(samples.depth())
    state.level = ("A", 10_002)
    asks = [one for one in samples.depth().asks if one.price_ticks != 10_002]
    gone = msgspec.structs.replace(samples.depth(), asks=asks)
    state.live.apply(Frame("depth", 2, 0, gone))

    text = "".join(text_of(row) for row in level.level_panel(state, 60, 10))
    assert "10,002: this level is gone" in text

    level.move_level(state, 1)
    assert state.level in (("A", 10_001), ("A", 10_003))


def test_the_sums_up_to_a_level_are_those_of_the_book() -> None:
    bids = [Level(100, 5, 1), Level(99, 15, 3), Level(98, 80, 2)]
    depth = msgspec.structs.replace(samples.depth(), bids=bids, asks=[Level(102, 7, 1)])
    state = book_state(depth)
    state.level = ("B", 99)

    text = [text_of(row) for row in level.level_rows(state, 60, 10)]

    assert "bid 2" in text[0]
    assert "20 lots" in text[3]
    assert "1,985 ticks×lots" in text[4]
    assert "99.25" in text[5]
    assert "-2.0 ticks" in text[6]
    assert "20.0% of 100" in text[7]


@pytest.mark.parametrize("ticks", [1, 5, 10])
def test_groups_hold_all_of_their_levels_and_never_cross(ticks: int) -> None:
    depth = samples.depth()

    found = ladder.grouped(depth, ticks)

    for side in ("bids", "asks"):
        before, after = getattr(depth, side), getattr(found, side)
        assert sum(one.qty_lots for one in before) == sum(one.qty_lots for one in after)
        assert sum(one.order_count for one in before) == sum(one.order_count for one in after)
        assert all(one.price_ticks % ticks == 0 for one in after)
    assert found.bids[0].price_ticks < found.asks[0].price_ticks


def test_a_preset_deeper_than_the_panel_is_shown_around_the_choice() -> None:
    state = book_state(samples.depth())
    state.levels = 20
    middle = [text_of(row) for row in level.book_panel(state, 60, 13)]
    assert any("mid" in row for row in middle)

    state.level = ("B", samples.depth().bids[19].price_ticks)
    rows = [text_of(row) for row in level.book_panel(state, 60, 13)]
    assert any(row.startswith("│B20▸") for row in rows)
    assert len(rows) == 13


# --- the log's files


def test_segments_know_their_records_from_their_neighbours() -> None:
    wal = samples.wal()

    found = files.segments_of(wal)

    assert [one.records for one in found] == [
        wal.accepted_seq + 1 - 17_640_511,
        17_640_511 - 12_405_200,
        12_405_200 - 7_180_034,
    ]
    assert [one.used_bytes for one in found] == [wal.segment_used_bytes, None, None]


def test_a_daemon_that_lists_no_segments_shows_the_one_that_it_writes() -> None:
    wal = msgspec.structs.replace(samples.wal(), segments=[])

    (only,) = files.segments_of(wal)

    assert (only.info.index, only.records) == (wal.segment_index, None)


# --- the timeline


def test_segments_stand_where_they_begin() -> None:
    cells = timeline.segments_cells(samples.wal(), 18_216_046, 60)

    text = text_of(cells)
    assert text.index("│7") == 7_180_034 * 59 // 18_216_046
    assert text.index("│8") == 12_405_200 * 59 // 18_216_046
    assert "│9" in text


def test_marks_stand_where_they_belong_and_the_end_is_now() -> None:
    assert timeline.place(0, 0, 100, 11) == 0
    assert timeline.place(50, 0, 100, 11) == 5
    assert timeline.place(100, 0, 100, 11) == 10
    assert timeline.place(101, 0, 100, 11) == -1
    assert timeline.place(0, 0, 0, 11) == 0


def test_the_line_is_as_wide_as_asked_and_shows_the_graver_of_two_marks() -> None:
    kinds = timeline.MarkerKind
    markers = [
        timeline.Marker(500, 0, kinds.REJECTS, ""),
        timeline.Marker(501, 0, kinds.SNAPSHOT, ""),
        timeline.Marker(0, 0, kinds.RESTART, ""),
    ]

    cells = timeline.line_cells(markers, 0, 1_000, 41)

    text = text_of(cells)
    assert len(text) == 41
    assert text[20] == "×"
    assert text[0] == "┃"
    assert text[-1] == "█"
    assert "◆" not in text
