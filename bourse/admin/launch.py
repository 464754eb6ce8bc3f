"""Start a daemon as a child process and wait until it is ready: benchmarks, demo, `--detach`.

The child is like any user's daemon: `python -m bourse daemon start --json`, whose first line on
stdout is its banner. Its last words on stderr, one sentence, become ours when it does not start.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from bourse.config import Banner
from bourse.errors import BourseError, UnavailableError

START_SECONDS_MAX = 600.0
"""Recovery of a large log takes long; a daemon that failed ends at once and is not waited for."""

STOP_SECONDS_MAX = 60.0


class DaemonFailedError(BourseError):
    """A daemon ended before it was ready; its exit code becomes ours."""

    def __init__(self, exit_code: int, words: str) -> None:
        self.exit_code = exit_code if exit_code > 0 else 1
        super().__init__(words.removeprefix("bourse: "))


class DaemonProcess:
    """A child process that runs a daemon; ended, and waited for, at the end of a `with` block."""

    def __init__(
        self, arguments: Sequence[str], log_path: Path, ends_with_parent: bool = True
    ) -> None:
        """Start it and wait until it is ready.

        Args:
            arguments: flags of `bourse daemon start`.
            log_path: takes what the daemon says on stderr; its directory exists.
            ends_with_parent: it stops when this process ends, even by a kill; else it lives on.

        Raises:
            DaemonFailedError: it did not start; the text is the daemon's own last sentence.
            UnavailableError: it was not ready in time.
        """
        self.log_path = log_path
        command = [sys.executable, "-P", "-m", "bourse", "daemon", "start", "--json", *arguments]
        with log_path.open("ab") as log:
            self._log_start_bytes = log.tell()
            self.process = subprocess.Popen(
                [*command, "--with-parent"] if ends_with_parent else command,
                stdin=subprocess.PIPE if ends_with_parent else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                # Ctrl-C reaches this process alone, which then stops the daemon in order.
                start_new_session=True,
            )
        try:
            self.banner = self._read_banner()
        except BaseException:
            self.stop()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def is_running(self) -> bool:
        """Whether the process is there."""
        return self.process.poll() is None

    def stop(self) -> int:
        """Ask it to stop, wait, and return its exit code; killed when it does not end in time."""
        process = self.process
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.release()
        return process.returncode

    def release(self) -> None:
        """Close our ends of its pipes; a daemon that does not end with its parent lives on."""
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()

    def last_words(self) -> str:
        """Return its last sentence in its log, else the last line."""
        with self.log_path.open("rb") as log:
            log.seek(self._log_start_bytes)
            return last_sentence(log.read().decode(errors="replace"))

    def _read_banner(self) -> Banner:
        assert self.process.stdout is not None
        descriptor = self.process.stdout.fileno()
        deadline = time.monotonic() + START_SECONDS_MAX
        line = b""
        while not line.endswith(b"\n"):
            patience = max(0.0, deadline - time.monotonic())
            readable, _, _ = select.select([descriptor], [], [], patience)
            if not readable:
                raise UnavailableError(
                    f"the daemon was not ready within {START_SECONDS_MAX:.0f} seconds; "
                    f"its log {self.log_path} says: {self.last_words()}"
                )
            data = os.read(descriptor, 4096)
            if not data:
                raise DaemonFailedError(self.process.wait(), self.last_words())
            line += data
        return msgspec.json.decode(line, type=Banner)


def last_sentence(log: str) -> str:
    """Return the last complaint of a command in a log, else the last line.

    The daemon that it found in its way may write to the same log at the same time.
    """
    lines = [line for line in log.splitlines() if line.strip()]
    complaints = [line for line in lines if line.startswith("bourse: ")]
    return (complaints or lines or ["it said nothing"])[-1]
