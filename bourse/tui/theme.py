"""Colours by meaning: a palette turns style tokens into Rich styles.

A token is `foreground` or `foreground/background`, each a name of the table below. Panels know only
tokens, so one place decides what they look like live, stale, and without colour.

Backgrounds are neutral greys (equal red, green and blue) and the bars' two dims are chosen from the
256-colour palette itself where the terminal has no more, because dark blends collapse to teal or
brown there. Without colour everything is carried by letters, glyphs, bold and reverse.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import NamedTuple

from rich.style import Style
from textual.theme import BUILTIN_THEMES, Theme


class Look(NamedTuple):
    """The colours of one theme."""

    foregrounds: dict[str, str]
    backgrounds: dict[str, str]
    foregrounds_256: dict[str, str]
    """Where the terminal has no more than 256 colours."""
    backgrounds_256: dict[str, str]
    stale_text: str
    stale_bar: str
    dark: bool = True


_DARK_FOREGROUNDS = {
    "text": "#d7d7d7",
    "bright": "bold #ffffff",
    "dim": "#949494",
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
    "badge-prod": "bold #121212 on #ff87d7",
    "bar-name": "bold #ffffff",
}
_DARK_BACKGROUNDS = {
    "": "#121212",
    "bar": "#262626",
    "chosen": "#262626",
    "page": "#1c1c1c",
    "bid-shade": "#153423",
    "ask-shade": "#47201f",
    "stale-shade": "#1c1c1c",
}
_CVD_FOREGROUNDS = {
    **_DARK_FOREGROUNDS,
    "bid": "#5fafff",
    "bid-strong": "bold #87d7ff",
    "ask": "#ffaf5f",
    "ask-strong": "bold #ffd7af",
    "bid-bar": "#3f7fbf",
    "ask-bar": "#b07a3a",
    "ok": "#5fafff",
    "warning": "#ffd75f",
    "error": "bold #ff8700",
    "heat1": "#3a5f8f",
    "heat2": "#5f87af",
    "heat3": "#afaf87",
    "heat4": "#d7d75f",
    "heat5": "#ffffaf",
    "badge-ok": "bold #121212 on #5fafff",
    "badge-warning": "bold #121212 on #ffd75f",
    "badge-error": "bold #121212 on #ff8700",
}
_LIGHT_FOREGROUNDS = {
    "text": "#262626",
    "bright": "bold #000000",
    "dim": "#5f5f5f",
    "faint": "#9e9e9e",
    "frame": "#b2b2b2",
    "title": "bold #3a3a3a",
    "bid": "#005f00",
    "bid-strong": "bold #005f00",
    "ask": "#870000",
    "ask-strong": "bold #870000",
    "bid-bar": "#5faf5f",
    "ask-bar": "#d75f5f",
    "ok": "#005f00",
    "warning": "#5f5f00",
    "slow": "#5f5f00",
    "error": "bold #af0000",
    "accent": "#005faf",
    "chart-count": "#5f87d7",
    "chart-latency": "#af8700",
    "key": "bold #00005f",
    "legend": "#444444",
    "heat1": "#afd7ff",
    "heat2": "#87afd7",
    "heat3": "#5f87af",
    "heat4": "#d78700",
    "heat5": "#d70000",
    "badge-ok": "bold #ffffff on #005f00",
    "badge-warning": "bold #121212 on #ffaf5f",
    "badge-error": "bold #ffffff on #af0000",
    "badge-time": "bold #121212 on #ffd75f",
    "badge-quiet": "bold #ffffff on #5f5f5f",
    "badge-prod": "bold #ffffff on #87005f",
    "bar-name": "bold #000000",
}
_LIGHT_BACKGROUNDS = {
    "": "#ffffff",
    "bar": "#e4e4e4",
    "chosen": "#e4e4e4",
    "page": "#eeeeee",
    "bid-shade": "#d7ffd7",
    "ask-shade": "#ffd7d7",
    "stale-shade": "#eeeeee",
}
_TERMINAL_FOREGROUNDS = {
    "text": "default",
    "bright": "bold default",
    "dim": "dim default",
    "faint": "dim default",
    "frame": "dim default",
    "title": "bold default",
    "bid": "green",
    "bid-strong": "bold green",
    "ask": "red",
    "ask-strong": "bold red",
    "bid-bar": "green",
    "ask-bar": "red",
    "ok": "green",
    "warning": "yellow",
    "slow": "yellow",
    "error": "bold red",
    "accent": "blue",
    "chart-count": "blue",
    "chart-latency": "yellow",
    "key": "bold yellow",
    "legend": "default",
    "heat1": "blue",
    "heat2": "cyan",
    "heat3": "green",
    "heat4": "yellow",
    "heat5": "red",
    "badge-ok": "bold black on green",
    "badge-warning": "bold black on yellow",
    "badge-error": "bold white on red",
    "badge-time": "bold black on yellow",
    "badge-quiet": "bold reverse",
    "badge-prod": "bold white on magenta",
    "bar-name": "bold default",
}

LOOKS = {
    "dark": Look(
        _DARK_FOREGROUNDS,
        _DARK_BACKGROUNDS,
        {**_DARK_FOREGROUNDS, "bid": "#87d787"},  # 4.7:1 on its shade
        {**_DARK_BACKGROUNDS, "bid-shade": "#005f00", "ask-shade": "#5f0000"},
        stale_text="#767676",
        stale_bar="#444444",
    ),
    "light": Look(
        _LIGHT_FOREGROUNDS,
        _LIGHT_BACKGROUNDS,
        _LIGHT_FOREGROUNDS,
        _LIGHT_BACKGROUNDS,
        stale_text="#808080",
        stale_bar="#c6c6c6",
        dark=False,
    ),
    "colourblind": Look(
        _CVD_FOREGROUNDS,
        {**_DARK_BACKGROUNDS, "bid-shade": "#12304d", "ask-shade": "#43300f"},
        # Dark blue and brown are none of the 256 colours: two of those, with bright letters.
        {**_CVD_FOREGROUNDS, "bid": "#afd7ff", "bid-strong": "bold #d7ffff", "ask": "#ffaf87"},
        {**_DARK_BACKGROUNDS, "bid-shade": "#005f87", "ask-shade": "#5f005f"},
        stale_text="#767676",
        stale_bar="#444444",
    ),
    "terminal": Look(
        _TERMINAL_FOREGROUNDS,
        dict.fromkeys(_DARK_BACKGROUNDS, "default"),
        _TERMINAL_FOREGROUNDS,
        dict.fromkeys(_DARK_BACKGROUNDS, "default"),
        stale_text="dim default",
        stale_bar="dim default",
    ),
}
THEMES = tuple(LOOKS)
"""Dark, light, for the colour-blind (blue and orange), and the terminal's own sixteen colours."""
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
    "badge-prod": "bold reverse",
    "bar-name": "bold",
}
MONO_BACKGROUNDS = {"chosen": "bold"}


class Palette:
    """Styles of one look. Equal arguments make equal palettes; `name` tells them apart."""

    def __init__(self, theme: str = "dark", stale: bool = False, truecolor: bool = True) -> None:
        self.mono = theme == "mono"
        self.stale = stale
        self._look = look = LOOKS.get(theme, LOOKS["dark"])
        self._foregrounds = look.foregrounds if truecolor else look.foregrounds_256
        self._backgrounds = look.backgrounds if truecolor else look.backgrounds_256
        self.name = f"{theme}{'' if truecolor else '-256'}" + ("-stale" if stale else "")
        self.style = cache(self._style)

    def _style(self, token: str) -> Style:
        """Return the style of a token; an unknown name is plain text."""
        foreground, _, background = token.partition("/")
        if self.mono:
            words = f"{MONO.get(foreground, '')} {MONO_BACKGROUNDS.get(background, '')}"
            if self.stale and not foreground.startswith("badge") and foreground not in _NEVER_STALE:
                words = words.replace("bold", "") + " dim"
            return Style.parse(words.strip() or "none")
        colour = self._foregrounds.get(foreground, self._foregrounds["text"])
        if " on " in colour or "reverse" in colour:  # a badge: it tells the state itself
            return Style.parse(colour)
        ground = self._backgrounds.get(background, self._backgrounds[""])
        if self.stale and foreground not in _NEVER_STALE:
            colour = self._look.stale_bar if foreground in _BARS else self._look.stale_text
            if background.endswith("shade"):
                ground = self._backgrounds["stale-shade"]
        return Style.parse(f"{colour} on {ground}")


@cache
def palette(theme: str, stale: bool, truecolor: bool) -> Palette:
    """Return the palette of a look."""
    return Palette(theme, stale, truecolor)


def textual_theme(name: str) -> Theme:
    """Return what Textual must know of a theme: grounds, and the edges of toasts."""
    look = LOOKS[name]

    def plain(token: str) -> str:
        return look.foregrounds[token].split()[-1]

    if name == "terminal":
        return replace(BUILTIN_THEMES["ansi-dark"], name="bourse-terminal")
    return Theme(
        name=f"bourse-{name}",
        primary=plain("accent"),
        secondary=plain("ok"),
        accent=plain("chart-latency"),
        foreground=plain("text"),
        background=look.backgrounds[""],
        surface=look.backgrounds["page"],
        panel=look.backgrounds["bar"],
        success=plain("ok"),
        warning=plain("warning"),
        error=plain("error"),
        dark=look.dark,
    )
