"""The screen as text and as SVG: for documents, bug reports and tests."""

from __future__ import annotations

import io
import os
import time
from pathlib import Path
from typing import Any

import rich.console
from textual.app import App


def text_of(app: App[Any]) -> str:
    """Return the screen as plain text, one line a row, without trailing blanks."""
    width, height = app.size
    console = rich.console.Console(
        width=width,
        height=height,
        file=io.StringIO(),
        force_terminal=True,
        record=True,
        color_system="truecolor",
        legacy_windows=False,
        safe_box=False,
    )
    update = app.screen._compositor.render_update(full=True, screen_stack=app._background_screens)
    console.print(update)
    text = console.export_text(styles=False)
    return "\n".join(line.rstrip() for line in text.split("\n")).rstrip("\n") + "\n"


def svg_of(app: App[Any], title: str = "bourse tui") -> str:
    """Return the screen as SVG that draws alike everywhere.

    Source: rsvg drops leading blanks unless told otherwise (textual issue 26 of our pitfalls).
    """
    return app.export_screenshot(title=title).replace("<svg ", '<svg xml:space="preserve" ', 1)


def save_pictures(app: App[Any]) -> list[Path]:
    """Write both pictures under the user's state directory and return their paths."""
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    folder = Path(base) / "bourse" / "pictures"
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"bourse-{time.strftime('%Y%m%d-%H%M%S')}"
    paths = [folder / f"{stem}.svg", folder / f"{stem}.txt"]
    paths[0].write_text(svg_of(app), encoding="utf-8")
    paths[1].write_text(text_of(app), encoding="utf-8")
    return paths
