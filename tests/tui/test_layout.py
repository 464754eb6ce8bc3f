"""Where panels stand: they fill the terminal, never overlap, at any size."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bourse.tui import layout
from bourse.tui.layout import overview, size_class

SIZES = {
    (59, 40): "gate",
    (120, 15): "gate",
    (60, 16): "small",
    (79, 50): "small",
    (80, 24): "compact",
    (99, 60): "compact",
    (200, 29): "compact",
    (100, 30): "normal",
    (120, 36): "normal",
    (159, 60): "normal",
    (160, 44): "wide",
    (200, 60): "wide",
}


@pytest.mark.parametrize(("size", "kind"), SIZES.items())
def test_sizes_have_their_class(size: tuple[int, int], kind: str) -> None:
    assert size_class(*size) == kind


LAYOUTS = {
    "overview": overview,
    "overview, picture": lambda width, height: overview(width, height, picture_for_log=True),
    "book": layout.book,
    "latency": layout.latency,
    "latency, picture": lambda width, height: layout.latency(width, height, picture_first=True),
    "wal": layout.wal,
    "sessions": layout.sessions,
    "time": layout.time,
    "log": layout.log,
}


@pytest.mark.parametrize("name", LAYOUTS)
@given(st.integers(1, 400), st.integers(1, 150))
@settings(max_examples=60, deadline=None)
def test_panels_tile_the_terminal(name: str, width: int, height: int) -> None:
    regions = list(LAYOUTS[name](width, height).values())

    for region in regions:
        assert region.x >= 0
        assert region.y >= 0
        assert region.right <= width
        assert region.bottom <= height
    # None overlaps, and together they are as large as the terminal: they tile it.
    for index, region in enumerate(regions):
        for other in regions[index + 1 :]:
            assert not region.overlaps(other)
    assert sum(region.area for region in regions) == width * height


@pytest.mark.parametrize("name", LAYOUTS)
@given(st.integers(60, 400), st.integers(16, 150))
@settings(max_examples=60, deadline=None)
def test_no_panel_is_too_small_to_say_anything(name: str, width: int, height: int) -> None:
    for panel, region in LAYOUTS[name](width, height).items():
        if panel in ("status", "tabs", "keys"):
            assert region.height == 1
        else:
            assert region.height >= (3 if panel == "timeline" else 4), panel
            assert region.width >= 28, panel


def test_eighty_columns_show_ladder_stages_and_log_at_once() -> None:
    assert {"book", "stages", "wal", "tape"} <= overview(80, 24).keys()
    assert {"book", "stages", "wal"} <= overview(80, 16).keys()


def test_the_picture_takes_the_logs_place_only_where_there_is_no_room() -> None:
    assert "wal" not in overview(80, 24, picture_for_log=True)
    assert overview(80, 24, picture_for_log=True)["picture"] == overview(80, 24)["wal"]
    assert overview(120, 36, picture_for_log=True) == overview(120, 36)
