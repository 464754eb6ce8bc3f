"""The console behind a web server's pipes: one process for each browser that looks.

`bourse.tui.browser` starts it: `python -m bourse.tui.served ADMIN SCREEN SETTINGS`. It draws into
its standard output and gets keys on its standard input, in textual-serve's packets.
"""

from __future__ import annotations

import array
import fcntl
import sys
import termios

import msgspec
from textual import messages
from textual.drivers.web_driver import WebDriver

from bourse.tui.app import made
from bourse.tui.driver import without_colours
from bourse.tui.settings import Settings

WAITING_BYTES_MAX = 16_384
"""A pipe holds four times as much; who draws into a full one waits, and cannot answer keys."""


class PipeDriver(WebDriver):
    """End with the server, and tell the pipe's backlog."""

    is_gone = False
    """Whether nobody is at the other end."""

    def run_input_thread(self) -> None:
        """Read keys until the console ends, or the server does."""
        super().run_input_thread()
        if not self.exit_event.is_set():
            self.is_gone = True
            self._app.post_message(messages.ExitApp())

    def write(self, data: str) -> None:
        """Write to the browser; see OpsDriver."""
        super().write(without_colours(data) if self._app.ansi_color else data)

    def stop_application_mode(self) -> None:
        """Say that it ends, if somebody is there to hear it."""
        try:
            super().stop_application_mode()
        except BrokenPipeError:
            self.is_gone = True

    @property
    def backlog(self) -> int:
        """How many times WAITING_BYTES_MAX wait in the pipe; see OpsDriver."""
        waiting = array.array("i", [0])
        fcntl.ioctl(self.fileno, termios.FIONREAD, waiting)
        return 2 * waiting[0] // WAITING_BYTES_MAX


def main() -> int:
    """Show a console until the browser leaves; return the exit code."""
    admin, screen, settings = sys.argv[1:]
    console = made(admin, msgspec.json.decode(settings, type=Settings), screen, PipeDriver)
    console.run(mouse=console.settings.mouse)
    return console.return_code or 0


if __name__ == "__main__":
    sys.exit(main())
