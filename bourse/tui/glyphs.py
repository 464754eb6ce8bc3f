"""Every glyph that the console draws with, each exactly one cell, none an emoji.

Bars are made of eighths: what colour shows to most, the glyph's fill shows to everybody.
"""

from __future__ import annotations

from rich.cells import cell_len

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
LINE = "─"
NOW = "█"
MARK_SNAPSHOT = "◆"
MARK_RESTART = "┃"
MARK_SLOW = "▲"
MARK_REJECTS = "×"
MARK_LOST = "○"
MARK_REPLAY = "✓"

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
    + LINE
    + NOW
    + MARK_SNAPSHOT
    + MARK_RESTART
    + MARK_SLOW
    + MARK_REJECTS
    + MARK_LOST
    + MARK_REPLAY
    + FRAME_ROUND
    + "–…×~!±µ↑↓"
)


_ASCII = {
    **dict(zip(LEFT_EIGHTHS, "  --====#", strict=True)),
    **dict(zip(UP_EIGHTHS, " __..--=#", strict=True)),
    **dict(zip(HEAT, " .:+*#", strict=True)),
    **dict(zip(FRAME_ROUND, "+-+|++", strict=True)),
    "●": "*",
    "○": "o",
    "▲": "^",
    "▼": "v",
    "▸": ">",
    "«": "<",
    "✓": "=",
    "◆": "#",
    "┃": "|",
    "×": "x",
    "–": "-",
    "…": "~",
    "±": "+",
    "µ": "u",
    "↑": "^",
    "↓": "v",
    "→": ">",
    "∑": "S",
}
"""What each glyph becomes where only ASCII may be written; all that is not here becomes `?`."""


def ascii_only(text: str) -> str:
    """Return a text in as many cells of printable ASCII; a wide letter becomes two `?`."""
    if text.isascii():
        return text
    return "".join(
        letter
        if letter.isascii()
        else _ASCII.get(letter) or "?" * (cell_len(letter) if letter.isprintable() else 1)
        for letter in text
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
