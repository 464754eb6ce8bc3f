"""The console on a real pseudo terminal: signals, bad bytes, no colour, nothing to do, hang-up."""

import asyncio
import contextlib
import fcntl
import os
import pty
import random
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from textual.drivers._writer_thread import MAX_QUEUED_WRITES, WriterThread

from bourse.bench import console_cost
from bourse.tui.driver import PatientFile
from tests.admin import samples
from tests.admin.fake_daemon import FakeDaemon

PROGRAM = "import sys; from bourse.tui.app import run; sys.exit(run(sys.argv[1]))"
RESETS = [b"\x1b[?1049l", b"\x1b[?25h", b"\x1b[?1000l", b"\x1b[?1003l", b"\x1b[?2004l"]
FOOTER = b"Snapshot"
COLOUR = re.compile(rb"\x1b\[[0-9;:]*?(?<![0-9])(3[0-9]|4[0-9]|9[0-7]|10[0-7])[;:m]")


class Terminal:
    """A console process and our end of its terminal."""

    def __init__(
        self,
        path: Path,
        program: str = PROGRAM,
        size: tuple[int, int] = (80, 24),
        **environment: str,
    ) -> None:
        self.master, slave = pty.openpty()
        self.output = b""
        self.resize(*size)
        clean = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLORTERM")}
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, str(path)],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**clean, "TERM": "xterm-256color", "COLORTERM": "truecolor", **environment},
            start_new_session=True,
        )
        os.close(slave)

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, seconds: float, enough: Callable[[bytes], bool] = lambda _: False) -> bytes:
        """Take what it writes, until it is enough or the time is over."""
        got = b""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0 and not enough(got):
            if not select.select([self.master], [], [], left)[0]:
                break
            try:
                chunk = os.read(self.master, 65_536)
            except OSError:  # the other end is closed
                break
            if not chunk:
                break
            got += chunk
        self.output += got
        return got

    def ready(self) -> None:
        got = self.read(20, lambda got: FOOTER in got)
        assert FOOTER in got

    def type(self, data: bytes) -> None:
        os.write(self.master, data)

    def end(self, seconds: float = 10) -> int:
        """Wait for its end, reading on; return the exit code."""
        deadline = time.monotonic() + seconds
        while self.process.poll() is None and time.monotonic() < deadline:
            self.read(0.1)
        self.read(0.2)
        assert self.process.poll() is not None, "it does not end"
        return self.process.returncode

    def close(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self.master)
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


@pytest.fixture
def nobody(tmp_path: Path) -> Path:
    return tmp_path / "nobody.sock"


@pytest.fixture
def terminal(nobody: Path) -> Iterator[Terminal]:
    opened = Terminal(nobody)
    try:
        opened.ready()
        yield opened
    finally:
        opened.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_ends_it_with_the_terminal_as_it_was(
    terminal: Terminal, number: signal.Signals
) -> None:
    terminal.process.send_signal(number)

    assert terminal.end() == 128 + number
    for reset in RESETS:
        assert reset in terminal.output, reset


def test_bytes_that_are_no_text_do_not_end_it_and_resizes_neither(terminal: Terminal) -> None:
    terminal.type(b"\xff")
    terminal.type(b"\x1b[200~caf\xe9\x1b[201~")
    terminal.type(b"\x1b[M \xe8\x80")
    storm = random.Random(7)
    for _ in range(200):
        terminal.resize(storm.randint(1, 300), storm.randint(1, 90))
        terminal.read(0.005)
    terminal.resize(80, 24)
    terminal.read(0.5)
    assert terminal.process.poll() is None

    terminal.type(b"q")

    assert terminal.end() == 0
    assert b"Traceback" not in terminal.output


def test_with_nothing_new_it_writes_nothing(terminal: Terminal) -> None:
    terminal.read(1.0)

    assert terminal.read(1.2) == b""


def test_no_color_means_no_colour(nobody: Path) -> None:
    terminal = Terminal(nobody, NO_COLOR="1")
    try:
        terminal.ready()
        terminal.read(0.5)
        assert not COLOUR.search(terminal.output)
        assert "╭".encode() in terminal.output
    finally:
        terminal.close()


def test_an_empty_no_color_means_nothing(nobody: Path) -> None:
    terminal = Terminal(nobody, NO_COLOR="")
    try:
        terminal.ready()
        assert COLOUR.search(terminal.output)
    finally:
        terminal.close()


def test_it_ends_when_its_terminal_is_gone(terminal: Terminal) -> None:
    os.close(terminal.master)

    assert terminal.process.wait(5) == 128 + signal.SIGHUP


def test_whoever_writes_to_a_terminal_that_is_gone_does_not_wait() -> None:
    master, slave = pty.openpty()
    with os.fdopen(slave, "w") as file:
        writer = WriterThread(PatientFile(file))  # type: ignore[arg-type]
        writer.start()
        os.close(master)

        def write() -> None:
            for _ in range(4 * MAX_QUEUED_WRITES):
                writer.write("a line")
            writer.stop()

        writing = threading.Thread(target=write, daemon=True)
        writing.start()
        writing.join(10)

        assert not writing.is_alive()
        with contextlib.suppress(OSError):
            file.close()


@pytest.mark.parametrize("term", ["dumb", ""])
def test_a_terminal_that_cannot_is_refused_with_a_sentence(nobody: Path, term: str) -> None:
    terminal = Terminal(nobody, TERM=term)
    try:
        assert terminal.end() == 1  # the sentence is an error of this little program
        assert b"can move its cursor" in terminal.output
    finally:
        terminal.close()


def test_what_is_no_terminal_is_refused_with_a_sentence(nobody: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(nobody)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert "needs a terminal" in ended.stderr


BROKEN = """
import bourse.tui.app as app, sys
app.Console.paint = lambda console: 1 / 0
sys.exit(app.run(sys.argv[1]))
"""


def test_an_error_of_its_own_gives_the_terminal_back_too(nobody: Path) -> None:
    terminal = Terminal(nobody, BROKEN)
    try:
        assert terminal.end(20) == 1
        for reset in RESETS:
            assert reset in terminal.output, reset
        assert b"ZeroDivisionError" in terminal.output
    finally:
        terminal.close()


class Busy(threading.Thread):
    """A daemon whose every number changes fifty times a second, in a thread of its own."""

    def __init__(self, path: Path) -> None:
        super().__init__(daemon=True)
        self._path = path
        self._ending = threading.Event()
        self.ready = threading.Event()
        self.wal_seq = 0

    def run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        daemon = FakeDaemon(self._path)
        daemon.auto = True
        daemon.topics = {topic: sample(0) for topic, sample in samples.TOPIC_SAMPLES.items()}
        async with daemon:
            self.ready.set()
            tick = 0
            while not self._ending.is_set():
                tick += 1
                for topic, sample in samples.TOPIC_SAMPLES.items():
                    daemon.topics[topic] = sample(tick)
                self.wal_seq = daemon.topics["status"].wal_seq
                await asyncio.sleep(0.02)

    def stop(self) -> None:
        self._ending.set()
        self.join(10)


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[Busy]:
    daemon = Busy(tmp_path / "busy.sock")
    daemon.start()
    assert daemon.ready.wait(10)
    yield daemon
    daemon.stop()


def test_a_reader_that_stalled_sees_the_newest_numbers_first(busy: Busy) -> None:
    terminal = Terminal(busy._path, size=(120, 36))
    sequence = re.compile(rb"18,\d{3},\d{3}")
    try:
        assert sequence.search(terminal.read(20, lambda got: sequence.search(got) is not None))
        time.sleep(5.0)  # it may write as much as the system keeps for us
        newest = busy.wal_seq

        def is_new(got: bytes) -> bool:
            return any(int(one.replace(b",", b"")) >= newest for one in sequence.findall(got))

        got = terminal.read(10, is_new)
        assert is_new(got)
        assert len(got) <= 96 << 10
    finally:
        terminal.close()


def test_it_costs_little_while_everything_changes(busy: Busy) -> None:
    """The budgets with three times their room, for this is a loaded machine; see console-cost."""
    cost = console_cost.watch(busy._path, (120, 36), seconds=4.0)

    assert cost.core_share <= 0.30
    assert cost.bytes_per_s <= 64 * 1024
    assert cost.resident_bytes <= 80 << 20
    assert cost.frames > 0
