"""Colours by meaning: a palette turns style tokens into Rich styles.

A token is `foreground` or `foreground/background`, each a name of the table below. Panels know only
tokens, so one place decides what they look like live, stale, and without colour.

Backgrounds are neutral greys (equal red, green and blue) and the bars' two dims are chosen from the
256-colour palette itself where the terminal has no more, because dark blends collapse to teal or
brown there. Without colour everything is carried by letters, glyphs, bold and reverse.
"""

from __future__ import annotations

from functools import cache

from rich.style import Style
from textual.theme import Theme

FOREGROUNDS = {
    "text": "#d7d7d7",
    "bright": "bold #ffffff",
    "dim": "#8a8a8a",
    "faint": "#5f5f5f",
    "frame": "#4e4e4e",
    "title": "bold #bcbcbc",
    "bid": "#5fd787",
    "bid-strong": "bold #87ffaf",
    "ask": "#ff8787",
    "ask-strong": "bold #ffafaf",
    "bid-bar": "#2f9e5b",
    "ask-bar": "#c05454",
    "ok": "#5fd787",
    "warning": "#ffaf5f",
    "slow": "#d7af5f",
    "error": "bold #ff6b6b",
    "accent": "#87afff",
    "chart-count": "#87afff",
    "chart-latency": "#ffd75f",
    "key": "bold #ffd75f",
    "legend": "#bcbcbc",
    "heat1": "#3a5f8f",
    "heat2": "#4f8fb0",
    "heat3": "#87d7af",
    "heat4": "#ffd75f",
    "heat5": "#ff875f",
    # badges: dark on a bright ground
    "badge-ok": "bold #121212 on #5fd787",
    "badge-warning": "bold #121212 on #ffaf5f",
    "badge-error": "bold #121212 on #ff6b6b",
    "badge-time": "bold #121212 on #ffd75f",
    "badge-quiet": "bold #121212 on #a8a8a8",
    "bar-name": "bold #ffffff",
}
BODY_BACKGROUND = "#121212"
BAR_BACKGROUND = "#262626"
BACKGROUNDS = {
    "": BODY_BACKGROUND,
    "bar": BAR_BACKGROUND,
    "chosen": "#262626",
    "page": "#1c1c1c",
    "bid-shade": "#153423",
    "ask-shade": "#47201f",
}
BACKGROUNDS_256 = {**BACKGROUNDS, "bid-shade": "#005f00", "ask-shade": "#5f0000"}
FOREGROUNDS_256 = {**FOREGROUNDS, "bid": "#87d787"}  # 4.7:1 on its shade
STALE_FOREGROUND = "#767676"
STALE_BAR = "#444444"
_BARS = ("bid-bar", "ask-bar", "chart-count", "chart-latency", "accent")
_NEVER_STALE = ("frame", "title", "faint", "bar-name", "key", "legend")

# Without colour: only what a terminal of 1980 could do.
MONO = {
    "bright": "bold",
    "title": "bold",
    "bid-strong": "bold",
    "ask-strong": "bold",
    "error": "bold reverse",
    "warning": "bold",
    "key": "bold",
    "badge-ok": "bold reverse",
    "badge-warning": "bold reverse",
    "badge-error": "bold reverse",
    "badge-time": "bold reverse",
    "badge-quiet": "bold reverse",
    "bar-name": "bold",
}
MONO_BACKGROUNDS = {"chosen": "bold"}


class Palette:
    """Styles of one look. Equal arguments make equal palettes; `name` tells them apart."""

    def __init__(self, mono: bool = False, stale: bool = False, truecolor: bool = True) -> None:
        self.mono = mono
        self.stale = stale
        self._foregrounds = FOREGROUNDS if truecolor else FOREGROUNDS_256
        self._backgrounds = BACKGROUNDS if truecolor else BACKGROUNDS_256
        self.name = f"{'mono' if mono else 'dark'}{'' if truecolor else '-256'}" + (
            "-stale" if stale else ""
        )
        self.style = cache(self._style)

    def _style(self, token: str) -> Style:
        """Return the style of a token; an unknown name is plain text."""
        foreground, _, background = token.partition("/")
        if self.mono:
            words = f"{MONO.get(foreground, '')} {MONO_BACKGROUNDS.get(background, '')}"
            if self.stale and not foreground.startswith("badge") and foreground not in _NEVER_STALE:
                words = words.replace("bold", "") + " dim"
            return Style.parse(words.strip() or "none")
        colour = self._foregrounds.get(foreground, FOREGROUNDS["text"])
        if " on " in colour:  # a badge: it tells the state itself
            return Style.parse(colour)
        ground = self._backgrounds.get(background, BODY_BACKGROUND)
        if self.stale and foreground not in _NEVER_STALE:
            colour = STALE_BAR if foreground in _BARS else STALE_FOREGROUND
            if background.endswith("shade"):
                ground = "#1c1c1c"
        return Style.parse(f"{colour} on {ground}")


@cache
def palette(mono: bool, stale: bool, truecolor: bool) -> Palette:
    """Return the palette of a look."""
    return Palette(mono, stale, truecolor)


BOURSE_DARK = Theme(
    name="bourse-dark",
    primary="#87afff",
    secondary="#5fd787",
    accent="#ffd75f",
    foreground="#d7d7d7",
    background=BODY_BACKGROUND,
    surface="#1c1c1c",
    panel=BAR_BACKGROUND,
    success="#5fd787",
    warning="#ffaf5f",
    error="#ff6b6b",
    dark=True,
)
