"""Where panels stand: they fill the terminal, never overlap, at any size."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


@given(st.integers(1, 400), st.integers(1, 150), st.booleans())
def test_panels_tile_the_terminal(width: int, height: int, picture: bool) -> None:
    regions = overview(width, height, picture).values()

    covered = sum(region.area for region in regions)
    assert covered == width * height
    for region in regions:
        assert region.x >= 0
        assert region.y >= 0
        assert region.right <= width
        assert region.bottom <= height


@given(st.integers(60, 400), st.integers(16, 150))
def test_no_panel_is_too_small_to_say_anything(width: int, height: int) -> None:
    for name, region in overview(width, height).items():
        if name in ("status", "keys"):
            assert region.height == 1
        else:
            assert region.height >= 4, name
            assert region.width >= 28, name


def test_eighty_columns_show_ladder_stages_and_log_at_once() -> None:
    assert {"book", "stages", "wal", "tape"} <= overview(80, 24).keys()
    assert {"book", "stages", "wal"} <= overview(80, 16).keys()


def test_the_picture_takes_the_logs_place_only_where_there_is_no_room() -> None:
    assert "wal" not in overview(80, 24, picture_for_log=True)
    assert overview(80, 24, picture_for_log=True)["picture"] == overview(80, 24)["wal"]
    assert overview(120, 36, picture_for_log=True) == overview(120, 36)
