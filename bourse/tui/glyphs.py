"""Every glyph that the console draws with, each exactly one cell, none an emoji.

Bars are made of eighths: what colour shows to most, the glyph's fill shows to everybody.
"""

from __future__ import annotations

LEFT_EIGHTHS = " ▏▎▍▌▋▊▉█"
"""A bar that grows to the right, 0 to 8 eighths of a cell."""
UP_EIGHTHS = " ▁▂▃▄▅▆▇█"
"""A bar that grows upwards."""
HEAT = " ·░▒▓█"
"""Six steps from nothing to most."""

LIVE = "●"
IDLE = "○"
WARNING = "▲"
FAILED = "x"
REPLAY = "«"
BUY = "▲"
SELL = "▼"
CHOSEN = "▸"
EQUAL = "✓"
DIFFERENT = "x"
DOT = "·"
TRACK = "░"

FRAME_ROUND = "╭─╮│╰╯"
"""Top left, line, top right, side, bottom left, bottom right."""

ALL = (
    LEFT_EIGHTHS
    + UP_EIGHTHS
    + HEAT
    + LIVE
    + IDLE
    + WARNING
    + FAILED
    + REPLAY
    + BUY
    + SELL
    + CHOSEN
    + EQUAL
    + TRACK
    + FRAME_ROUND
    + "–…×~!±µ↑↓"
)


def bar(share: float, width: int) -> str:
    """Return a bar of `share` (0.0 to 1.0) of `width` cells in eighths, padded with blanks.

    A share above nothing shows at least one eighth: small is not none.
    """
    eighths = min(width * 8, round(share * width * 8))
    if share > 0 and eighths == 0:
        eighths = 1
    full, rest = divmod(max(0, eighths), 8)
    text = "█" * full + (LEFT_EIGHTHS[rest] if rest else "")
    return text.ljust(width)[:width]


def column(share: float, height: int) -> list[str]:
    """Return a column of `height` cells, top first, filled from the bottom in eighths."""
    eighths = min(height * 8, round(share * height * 8))
    if share > 0 and eighths == 0:
        eighths = 1
    full, rest = divmod(max(0, eighths), 8)
    cells = ["█"] * full + ([UP_EIGHTHS[rest]] if rest else [])
    cells += [" "] * (height - len(cells))
    return cells[:height][::-1]
