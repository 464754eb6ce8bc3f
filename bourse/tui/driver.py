"""The terminal driver of a console that runs for months: bad bytes never end it.

Source: Textual 8.2.8's LinuxDriver decodes the keyboard strictly, so one byte 0xff, a latin-1 paste
or an X10 mouse report past column 95 (textual issue 6668) raises UnicodeDecodeError: the app ends.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable

from textual.drivers import linux_driver
from textual.drivers.linux_driver import LinuxDriver


class OpsDriver(LinuxDriver):
    """Decode what cannot be decoded as replacement characters, and tell the output's backlog."""

    def run_input_thread(self) -> None:
        """Read the keyboard with a decoder that replaces bad bytes."""

        def lenient(encoding: str) -> Callable[[], codecs.IncrementalDecoder]:
            return lambda: codecs.getincrementaldecoder(encoding)(errors="replace")

        # The module's own name for it, looked up once as the thread starts.
        setattr(linux_driver, "getincrementaldecoder", lenient)  # noqa: B010
        try:
            super().run_input_thread()
        finally:
            setattr(linux_driver, "getincrementaldecoder", codecs.getincrementaldecoder)  # noqa: B010

    @property
    def backlog(self) -> int:
        """Writes that wait for the terminal."""
        return self._writer_thread._queue.qsize() if self._writer_thread else 0
