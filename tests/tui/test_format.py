"""Numbers and foreign text as the console shows them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from bourse.tui import format as fmt
from bourse.tui import glyphs


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "0ns"),
        (1, "1ns"),
        (420, "420ns"),
        (999, "999ns"),
        (1_000, "1.00µs"),
        (9_994, "9.99µs"),
        (9_996, "10.0µs"),
        (49_100, "49.1µs"),
        (99_960, "100µs"),
        (830_000, "830µs"),
        (999_600, "1.00ms"),
        (1_120_000, "1.12ms"),
        (9_460_000, "9.46ms"),
        (999_999_999, "1.00s"),
        (2_400_000_000, "2.40s"),
        (125_000_000_000, "125s"),
    ],
)
def test_durations_have_three_digits(nanoseconds: int, text: str) -> None:
    assert fmt.duration(nanoseconds) == text


@given(st.integers(0, 900 * 10**9))
def test_durations_fit_six_cells(nanoseconds: int) -> None:
    assert len(fmt.duration(nanoseconds)) <= 6


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.4, "0"),
        (812, "812"),
        (999.4, "999"),
        (1_604, "1.60k"),
        (12_500, "12.5k"),
        (999_960, "1.00M"),
        (165_000_000, "165M"),
    ],
)
def test_short_counts_fit_five_cells(value: float, text: str) -> None:
    assert fmt.short_count(value) == text
    assert len(text) <= 5


def test_counts_rates_and_bytes() -> None:
    assert fmt.count(18_216_046) == "18,216,046"
    assert fmt.count(None) == fmt.NOTHING
    assert fmt.rate(0) == "0"
    assert fmt.rate(0.44) == "0.4"
    assert fmt.rate(1_646.2) == "1,646"
    assert fmt.size(512) == "512 B"
    assert fmt.size(43_200_000) == "41.2 MiB"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(8.9, "8 s"), (131, "2m11s"), (11_100, "3h05m"), (4 * 86_400 + 7_200, "4d02h")],
)
def test_spans(seconds: float, text: str) -> None:
    assert fmt.span(seconds) == text


def test_clock_is_utc() -> None:
    assert fmt.clock(1_790_000_647_123_000_000) == "14:24:07"
    assert fmt.clock(1_790_000_647_123_000_000, milliseconds=True) == "14:24:07.123"


@pytest.mark.parametrize(
    ("bid", "ask", "text"),
    [(9_999, 10_001, "10,000"), (9_999, 10_000, "9,999.5"), (-2, -1, "-1.5"), (-1, 1, "0")],
)
def test_mid_is_exact(bid: int, ask: int, text: str) -> None:
    assert fmt.mid(bid, ask) == text


def test_digests_show_both_ends() -> None:
    assert fmt.digest("9f3c51d07be2a17e") == "9f3c…a17e"
    assert fmt.digest("0x9f3c51d07be2a17e") == "9f3c…a17e"
    assert fmt.digest("") == fmt.NOTHING


@given(st.text())
def test_foreign_text_cannot_reach_the_terminals_controls(text: str) -> None:
    harmless = fmt.clean(text)

    assert len(harmless) == len(text)
    assert all(letter.isprintable() for letter in harmless)


@pytest.mark.parametrize(
    "text", ["\x1b[31mred", "a\nb", "zero\u200bwidth", "\u202ertl", "nul\0", "tab\t", "\x9b1m"]
)
def test_controls_become_dots(text: str) -> None:
    assert "·" in fmt.clean(text)
    assert fmt.clean(fmt.clean(text)) == fmt.clean(text)


def test_brackets_stay_text() -> None:
    assert fmt.clean("[bold red]x[/]") == "[bold red]x[/]"


@given(st.text(), st.integers(1, 40))
def test_fit_fills_exactly_its_cells(text: str, width: int) -> None:
    assert cell_len(fmt.fit(fmt.clean(text), width)) == width


def test_every_glyph_is_one_cell_and_no_emoji() -> None:
    for glyph in glyphs.ALL:
        assert cell_len(glyph) == 1, glyph
        assert ord(glyph) < 0x2700 or glyph == "✓", glyph  # dingbats on have emoji forms


@given(st.floats(0, 1), st.integers(1, 40))
def test_bars_fill_exactly_their_cells(share: float, width: int) -> None:
    assert len(glyphs.bar(share, width)) == width
    assert len(glyphs.column(share, width)) == width


def test_bars_show_that_small_is_not_nothing() -> None:
    assert glyphs.bar(0, 4) == "    "
    assert glyphs.bar(1e-9, 4) == "▏   "
    assert glyphs.bar(0.5, 4) == "██  "
    assert glyphs.bar(1, 4) == "████"
    assert glyphs.column(0.25, 2) == [" ", "▄"]
    assert glyphs.column(1e-9, 2) == [" ", "▁"]
