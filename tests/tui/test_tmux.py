"""The console in tmux with a real daemon: what a person sees, screen by screen, key by key.

tmux is the terminal: it reads every byte, keeps the picture, and is asked for it as text.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rich.cells import cell_len

from bourse.admin.client import call
from bourse.admin.messages import OrderParams
from tests.tui.test_console_and_daemon import start_daemon

pytestmark = pytest.mark.skipif(
    shutil.which("tmux") is None, reason="no tmux: the console was not seen in one"
)
SECONDS_MAX = 20.0


class Tmux:
    """A tmux of one's own with one window."""

    def __init__(self, home: Path, size: tuple[int, int], command: str) -> None:
        self._socket = home / "tmux"
        environment = {
            name: text
            for name, text in os.environ.items()
            if name not in ("NO_COLOR", "COLORTERM", "TMUX")
        }
        columns, rows = map(str, size)
        subprocess.run(
            [
                *("tmux", "-S", str(self._socket), "-f", "/dev/null"),
                *("new-session", "-d", "-x", columns, "-y", rows, "-s", "main", "sh"),
                *(";", "set", "-g", "status", "off", ";", "set", "-s", "escape-time", "0"),
                *(";", "set", "-s", "set-clipboard", "on"),
                *(";", "set", "-g", "default-terminal", "screen-256color"),
                *(";", "respawn-pane", "-k", command),
            ],
            check=True,
            env={**environment, "XDG_STATE_HOME": str(home / "state"), "LANG": "C.UTF-8"},
        )

    def tell(self, *words: str) -> str:
        ended = subprocess.run(
            ["tmux", "-S", str(self._socket), *words],
            check=True,
            capture_output=True,
            text=True,
            encoding="utf-8",
        )
        return ended.stdout

    def told(self, name: str) -> str:
        """Return what tmux knows by this name."""
        return self.tell("display", "-p", f"#{{{name}}}").strip()

    def press(self, *keys: str) -> None:
        self.tell("send-keys", *keys)

    def text(self) -> str:
        return self.tell("capture-pane", "-p")

    def until(self, condition: Callable[[str], object], seconds: float = SECONDS_MAX) -> str:
        """Return the picture, once it is so."""
        deadline = time.monotonic() + seconds
        while not condition(text := self.text()):
            assert time.monotonic() < deadline, f"it shows:\n{text}"
            time.sleep(0.03)
        return text

    def see(self, *words: str) -> str:
        """Return the picture, once all the words are in it."""
        return self.until(lambda text: all(word in text for word in words))

    def resize(self, columns: int, rows: int) -> None:
        self.tell("resize-window", "-x", str(columns), "-y", str(rows))

    def close(self) -> None:
        subprocess.run(["tmux", "-S", str(self._socket), "kill-server"], capture_output=True)


@pytest.fixture
def exchange(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory with a daemon that has a book, and its admin socket."""
    home = tmp_path_factory.mktemp("d")
    daemon = start_daemon(home)
    try:
        for number in range(1, 13):
            call(home / "a.sock", "order", OrderParams("sell", number, 100 + number))
            call(home / "a.sock", "order", OrderParams("buy", number, 100 - number))
        call(home / "a.sock", "order", OrderParams("buy", 2, 102))
        yield home
    finally:
        daemon.stop()


@pytest.fixture
def tmux(exchange: Path) -> Iterator[Tmux]:
    """A console of that daemon, in tmux."""
    console = f"{sys.executable} -m bourse tui --admin {exchange / 'a.sock'}"
    command = f"{console}; echo left with $?; exec sleep 60"
    running = Tmux(exchange, (120, 36), command)
    try:
        running.see("LIVE", "A5", "Quit")
        yield running
    finally:
        running.close()


def is_whole(text: str, size: tuple[int, int]) -> bool:
    """Say whether the frames fill the terminal and each one that begins is closed."""
    lines = text.splitlines()
    return (
        len(lines) == size[1]
        and all(cell_len(line) == size[0] for line in lines[2:-1])
        and text.count("╭") == text.count("╮") == text.count("╰") == text.count("╯") > 0
    )


def test_every_screen_at_every_size_is_whole(tmux: Tmux) -> None:
    titles = {"1": "BOOK", "2": "BOOK", "3": "LATENCY", "4": "WAL", "5": "SESSIONS"}
    titles |= {"6": "LOG AS A LINE", "7": "LOG"}
    for size in ((120, 36), (200, 60), (80, 24), (60, 16)):
        tmux.resize(*size)
        for key, title in titles.items():
            tmux.press(key)
            # The whole picture has come when its last line has.
            words = (f"▸{key} ", f"─ {title} ", "q Quit", "LIVE")
            text = tmux.until(
                lambda text, words=words, size=size: (
                    all(word in text for word in words) and is_whole(text, size)
                )
            )
            assert text.splitlines()[-1].startswith(" ")
    tmux.resize(59, 15)
    tmux.see("60×16 needed, have 59×15")
    tmux.resize(120, 36)
    tmux.see("LIVE", "Quit")


def test_an_operators_round(tmux: Tmux, exchange: Path) -> None:
    # 256 colours and no more, as over ssh: nothing asks for what tmux did not offer.
    assert "38;2;" not in tmux.tell("capture-pane", "-e", "-p")

    tmux.press("s")
    tmux.see("Write a snapshot of the book now?")
    tmux.press("s")
    tmux.see("Snapshot @")
    tmux.press("4")
    tmux.see("SNAPSHOTS 1")

    tmux.press("r")
    tmux.see("Replay the whole log")
    tmux.press("y")
    tmux.see("equal")

    tmux.press("2", "Down", "y")
    tmux.see("Copied to")
    (copied,) = (exchange / "state" / "bourse").glob("clipboard.txt")
    # The terminal's clipboard has it too (OSC 52).
    assert tmux.tell("show-buffer").strip() == copied.read_text().strip() != ""

    tmux.press("7", "/")
    tmux.press("-l", "ready")
    tmux.press("Enter")
    tmux.until(lambda text: "ready: " in text and "is new" not in text)
    tmux.press("Escape")  # a key by itself: with the next one at once it would be Alt and that
    tmux.see("is new")
    tmux.press("e")
    tmux.until(lambda _: list((exchange / "state" / "bourse" / "exports").glob("*.csv")))
    tmux.press("p")
    tmux.until(lambda _: list((exchange / "state" / "bourse" / "pictures").glob("*.svg")))

    tmux.press("1", "Space")
    tmux.see("FROZEN")
    tmux.press("Escape")
    tmux.until(lambda text: "FROZEN" not in text)
    tmux.press("c")
    tmux.see("DAEMONS 1", "data", "watched")
    tmux.press("Escape")
    tmux.until(lambda text: "DAEMONS" not in text)
    tmux.press(":")
    tmux.see("PALETTE")
    tmux.press("Escape")
    tmux.until(lambda text: "PALETTE" not in text)
    tmux.press("?")
    tmux.see("HELP overview")
    tmux.press("x")
    tmux.until(lambda text: "HELP overview" not in text)

    tmux.press("q")
    text = tmux.see("left with 0")
    # The terminal is as it was: no second screen, no mouse.
    assert (tmux.told("alternate_on"), tmux.told("mouse_any_flag")) == ("0", "0")
    assert "BOOK" not in text
    assert call(exchange / "a.sock", "status").orders > 0
