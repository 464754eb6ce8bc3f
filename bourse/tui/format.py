"""Numbers and foreign text as the console shows them. Pure functions, no Textual.

Every result is plain text whose cells can be counted: whatever comes from the daemon goes through
`clean()` once, so that no client's name can move the cursor, colour the screen or break a column.
"""

from __future__ import annotations

import unicodedata
from datetime import UTC, datetime

from rich.cells import cell_len, set_cell_size

NOTHING = "–"
"""Shown where there is no value."""

_UNITS_NS = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"), (1, "ns"))
_YEAR_10000_NS = 253_402_300_800 * 1_000_000_000
_UNITS_BYTES = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def count(value: int | None) -> str:
    """Return a whole number with thousands separators: 18,216,046."""
    return NOTHING if value is None else f"{value:,}"


def short_count(value: float) -> str:
    """Return a rate in at most five cells: 0, 812, 12.5k, 1.65M."""
    if value < 0.5:
        return "0"
    if value < 1_000:
        return f"{value:.0f}"
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        # 999.95 and more would round to 1000.0 of the unit below.
        if value >= size * 0.99995:
            scaled = value / size
            digits = 2 if scaled < 9.995 else 1 if scaled < 99.95 else 0
            return f"{scaled:.{digits}f}{unit}"
    return f"{value:.0f}"


def rate(value: float) -> str:
    """Return a rate with thousands separators: 1,646; below ten one decimal: 0.4."""
    if value <= 0:
        return "0"
    return f"{value:.1f}" if value < 9.95 else f"{value:,.0f}"


def duration_parts(nanoseconds: int) -> tuple[str, str]:
    """Return a duration as number and unit, three digits: ("830", "µs"), ("1.12", "ms")."""
    if nanoseconds <= 0:
        return "0", "ns"
    for size, unit in _UNITS_NS:
        if nanoseconds >= size * (0.9995 if size > 1 else 1):
            value = nanoseconds / size
            if unit == "ns":
                return f"{value:.0f}", unit
            digits = 2 if value < 9.995 else 1 if value < 99.95 else 0
            return f"{value:.{digits}f}", unit
    return "0", "ns"


def duration(nanoseconds: int) -> str:
    """Return a duration in at most six cells: 420ns, 49.1µs, 1.12ms, 2.40s."""
    number, unit = duration_parts(nanoseconds)
    return number + unit


def size(byte_count: int) -> str:
    """Return a number of bytes: 512 B, 41.2 MiB."""
    for unit_bytes, unit in _UNITS_BYTES:
        if byte_count >= unit_bytes:
            return f"{byte_count / unit_bytes:.1f} {unit}"
    return f"{byte_count} B"


def span(seconds: float) -> str:
    """Return a length of time for people: 8 s, 2m11s, 3h05m, 4d02h."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3_600:
        return f"{whole // 60}m{whole % 60:02}s"
    if whole < 86_400:
        return f"{whole // 3_600}h{whole % 3_600 // 60:02}m"
    return f"{whole // 86_400}d{whole % 86_400 // 3_600:02}h"


def clock(epoch_ns: int, milliseconds: bool = False) -> str:
    """Return a time of day in UTC: 18:24:07, or 18:24:07.123; dashes for a time no calendar has."""
    if not 0 <= epoch_ns < _YEAR_10000_NS:
        return "--:--:--.---" if milliseconds else "--:--:--"
    moment = datetime.fromtimestamp(epoch_ns // 1_000_000_000, UTC)
    text = f"{moment:%H:%M:%S}"
    return f"{text}.{epoch_ns // 1_000_000 % 1_000:03}" if milliseconds else text


def digest(text: str) -> str:
    """Return a digest's two ends: 9f3c…a17e."""
    plain = clean(text).removeprefix("0x")
    return f"{plain[:4]}…{plain[-4:]}" if len(plain) > 9 else plain or NOTHING


def mid(best_bid_ticks: int, best_ask_ticks: int) -> str:
    """Return the price halfway between both sides; half a tick shows as .5."""
    twice = best_bid_ticks + best_ask_ticks
    if twice % 2 == 0:
        return f"{twice // 2:,}"
    return f"{'-' if twice < 0 else ''}{abs(twice) // 2:,}.5"


def clean(text: str) -> str:
    """Make foreign text harmless: control, format and unassigned characters become a middle dot.

    Covers escape sequences, line ends, zero-width and right-to-left marks, private and lone
    surrogate code points; combining marks go too, since terminals disagree about their cells.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        "·" if unicodedata.category(letter)[0] in "CMZ" and letter != " " else letter
        for letter in text
    )


def fit(text: str, width: int) -> str:
    """Return the text in exactly `width` cells: padded, or cut with an ellipsis."""
    if text.isascii():
        if len(text) <= width:
            return text.ljust(width)
        return text[: width - 1] + "…" if width > 0 else ""
    if cell_len(text) <= width:
        return set_cell_size(text, width)
    return set_cell_size(text, width - 1) + "…" if width > 0 else ""


def foreign_stage(name: str, width: int) -> str:
    """Return a stage's name, harmless, in exactly `width` cells."""
    return fit(clean(name), width)


def bucket(index: int) -> str:
    """Return the lower bound of a power-of-two bucket: 1ns, 256ns, 1µs, 33ms, 2s."""
    number, unit = duration_parts(1 << index)
    return f"{float(number):.0f}{unit}"
