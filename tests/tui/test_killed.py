"""A daemon killed under a watching console, on a real terminal: what one sees, and when."""

import re
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bourse.admin.client import call
from bourse.admin.messages import OrderParams
from tests.tui.test_console_and_daemon import start_daemon
from tests.tui.test_pty import FOOTER, Terminal

BADGE_SECONDS_MAX = 3.0
KEY_SECONDS_MAX = 0.1
RETURN_SECONDS_MAX = 2.0
SCREEN_KEYS = "234571"


def plain(got: bytes) -> str:
    """Return what was written without its colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", got.decode(errors="replace"))


def seconds_until(terminal: Terminal, word: str, most: float) -> float:
    """Read until a word is there; return how long it took."""
    began_s = time.monotonic()
    got = terminal.read(most, lambda got: word in plain(got))
    assert word in plain(got), (word, plain(got)[-400:])
    return time.monotonic() - began_s


def seconds_of_keys(terminal: Terminal) -> list[float]:
    """Go through the screens; return how long each took to be there."""
    took_s = []
    for key in SCREEN_KEYS:
        terminal.type(key.encode())
        took_s.append(seconds_until(terminal, f"▸{key}", 2.0))
        terminal.read(0.1)
    return took_s


@pytest.fixture
def terminal(short_tmp_path: Path) -> Iterator[Terminal]:
    opened = Terminal(short_tmp_path / "a.sock", size=(120, 36))
    try:
        yield opened
    finally:
        opened.close()


def test_a_daemon_killed_under_a_console_is_seen_and_so_is_its_return(
    short_tmp_path: Path, terminal: Terminal
) -> None:
    admin = short_tmp_path / "a.sock"
    daemon = start_daemon(short_tmp_path)
    try:
        for number in range(1, 6):
            call(admin, "order", OrderParams("sell", number, 100 + number))
            call(admin, "order", OrderParams("buy", number, 100 - number))
        terminal.read(20, lambda got: b"LIVE" in got and FOOTER in got and b"B5" in got)
        seconds_of_keys(terminal)  # an operator has looked around

        daemon.process.kill()
        killed_s = time.monotonic()
        got = terminal.read(BADGE_SECONDS_MAX, lambda got: b"RECONNECTING" in got)
        assert b"RECONNECTING" in got
        assert time.monotonic() - killed_s <= BADGE_SECONDS_MAX
        # Nothing looks like now: every panel's title has its sign.
        got += terminal.read(0.5)
        for title in ("BOOK BOURSE ~", "LATENCY by stage ~", "WAL fsync ~"):
            assert title in plain(got)

        daemon.stop()
        took_s = seconds_of_keys(terminal)
        assert statistics.median(took_s) <= KEY_SECONDS_MAX, took_s
        terminal.type(b"s")
        seconds_until(terminal, "no daemon answers", 2.0)

        daemon = start_daemon(short_tmp_path)
        assert seconds_until(terminal, "LIVE", RETURN_SECONDS_MAX) <= RETURN_SECONDS_MAX
        terminal.read(0.5)
        terminal.type(b"71")  # the whole picture once more
        again = plain(terminal.read(2.0, lambda got: "LATENCY by stage" in plain(got)))
        assert "BOOK BOURSE" in again
        assert " ~" not in again

        terminal.type(b"q")
        assert terminal.end() == 0
        assert daemon.is_running
    finally:
        daemon.stop()
