"""The terminal driver of a console that runs for months: bad bytes never end it, waiting is free.

Source: Textual 8.2.8's LinuxDriver decodes the keyboard strictly, so one byte 0xff, a latin-1 paste
or an X10 mouse report past column 95 (textual issue 6668) raises UnicodeDecodeError: the app ends.
It also looks ten times a second whether it shall end, and without pause at a terminal that is gone.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import re
import select
import sys
import termios
from typing import IO, Any

from textual._xterm_parser import XTermParser
from textual.app import App
from textual.drivers.linux_driver import LinuxDriver

READ_BYTES_MAX = 4_096
ESCAPE_SECONDS = 0.1
"""How long the rest of a sequence may take; a lone Esc is one that nothing followed."""

_SGR = re.compile(r"\x1b\[([\d;]*)m")
_COLOUR = re.compile(r"(?<![\d])(?:[34]8;(?:5;\d+|2;\d+;\d+;\d+)|[34]\d|9[0-7]|10[0-7])(?:;|$)")


def without_colours(data: str) -> str:
    """Take the colours out of what a terminal is sent; bold, dim and the like stay.

    Rich writes even "the terminal's own colours", 39 and 49, wherever a style names them.
    """
    return _SGR.sub(_without_colours, data)


def _without_colours(sequence: re.Match[str]) -> str:
    codes = sequence[1]
    kept = _COLOUR.sub("", codes).rstrip(";")
    return f"\x1b[{kept}m" if kept or not codes else ""


class PatientFile:
    """A terminal's file that takes everything once the terminal is gone.

    Source: Textual 8.2.8's output thread ends at the first error, and whoever writes after that
    waits for ever as soon as 30 pieces wait: the end of the console, too.
    """

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def write(self, text: str) -> int:
        """Write; a terminal that is gone gets nothing."""
        with contextlib.suppress(OSError):
            return self._file.write(text)
        return len(text)

    def flush(self) -> None:
        """Send what was written."""
        with contextlib.suppress(OSError):
            self._file.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


class OpsDriver(LinuxDriver):
    """Replace what cannot be decoded, sleep until a key comes, and tell the output's backlog."""

    def __init__(self, app: App[object], **options: object) -> None:
        super().__init__(app, **options)  # type: ignore[arg-type]
        assert sys.__stderr__ is not None
        self._file = PatientFile(sys.__stderr__)  # type: ignore[assignment]
        self._ending = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        """Readable once the input thread shall end."""
        self._is_mono = bool(getattr(app, "ansi_color", False))

    def write(self, data: str) -> None:
        """Write to the terminal; of a console without colours not one colour's code."""
        super().write(without_colours(data) if self._is_mono else data)

    def run_input_thread(self) -> None:
        """Read the keyboard until `disable_input`, or until the terminal is gone."""
        parser = XTermParser(self._debug)
        decode = codecs.getincrementaldecoder("utf-8")(errors="replace").decode
        waited_for = select.poll()
        for descriptor in (self.fileno, self._ending):
            waited_for.register(descriptor, select.POLLIN)
        while True:
            wait_ms = None if parser._timeout_time is None else int(ESCAPE_SECONDS * 1e3)
            ready = [descriptor for descriptor, _ in waited_for.poll(wait_ms)]
            if self._ending in ready:
                return
            if self.fileno in ready:
                try:
                    data = os.read(self.fileno, READ_BYTES_MAX)
                except OSError:
                    return
                if not data:
                    return
                for message in parser.feed(decode(data)):
                    self.process_message(message)
            for message in parser.tick():
                self.process_message(message)

    def disable_input(self) -> None:
        """End the input thread; `start_application_mode` may start another."""
        os.eventfd_write(self._ending, 1)
        super().disable_input()
        os.eventfd_read(self._ending)

    def close(self) -> None:
        """Clean up."""
        super().close()
        os.close(self._ending)

    def _get_terminal_size(self) -> tuple[int, int]:
        """Ask the terminal: COLUMNS and LINES of the environment do not follow its resizes."""
        try:
            columns, rows = os.get_terminal_size(self.fileno)
        except OSError:
            columns = rows = 0
        return columns or 80, rows or 24

    @property
    def is_gone(self) -> bool:
        """Whether the terminal is: nothing else may tell, for a hang-up may be ignored."""
        try:
            termios.tcgetattr(self.fileno)
        except (termios.error, OSError):
            return True
        return False

    @property
    def backlog(self) -> int:
        """Writes that wait for the terminal."""
        return self._writer_thread._queue.qsize() if self._writer_thread else 0
