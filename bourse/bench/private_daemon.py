"""A daemon of one's own: on a free port, with a temporary data directory, removed afterwards.

It is a child process like any user's daemon: `python -m bourse daemon start --json`, whose first
line on stdout is its banner. Its stdin is a pipe from this process, so it also stops when this
process dies without a word (`--with-parent`).
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from bourse.bench.results import is_memory_filesystem
from bourse.config import Banner
from bourse.domain import Durability, PollMode
from bourse.errors import BourseError, UnavailableError, UsageError

START_SECONDS_MAX = 120.0
"""Recovery of a large log takes long; a daemon that failed ends at once and is not waited for."""

STOP_SECONDS_MAX = 60.0


def scratch_parent(durability: Durability, wanted: Path | None) -> Path:
    """Choose where the temporary data directory goes: on a disk, unless nothing is stored.

    Raises:
        UsageError: there is no such directory.
    """
    if wanted is not None:
        if not wanted.is_dir():
            raise UsageError(f"--data {wanted} is not a directory; name one that exists")
        return wanted
    candidates = [Path(tempfile.gettempdir()), Path("/var/tmp"), Path.home(), Path.cwd()]
    usable = [path for path in candidates if path.is_dir() and os.access(path, os.W_OK)]
    if not usable:
        raise UsageError("no temporary directory is writable; name one with --data")
    if durability is Durability.MEMORY:
        return usable[0]
    return next((path for path in usable if not is_memory_filesystem(path)), usable[0])


class DaemonProcess:
    """A child process that runs a daemon; ended, and waited for, at the end of the `with` block."""

    def __init__(self, arguments: Sequence[str], log_path: Path) -> None:
        """Start it and wait until it is ready.

        Args:
            arguments: flags of `bourse daemon start`.
            log_path: takes what the daemon says on stderr.

        Raises:
            UnavailableError: it did not start; the text is the daemon's own last line.
        """
        self.log_path = log_path
        command = [sys.executable, "-P", "-m", "bourse", "daemon", "start", "--json"]
        with log_path.open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "--with-parent", *arguments],
                stdin=subprocess.PIPE,
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
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        return process.returncode

    def last_words(self) -> str:
        """Return the last line of its log."""
        lines = self.log_path.read_text(errors="replace").split("\n")
        return next((line for line in reversed(lines) if line.strip()), "it said nothing")

    def _read_banner(self) -> Banner:
        assert self.process.stdout is not None
        descriptor = self.process.stdout.fileno()
        deadline = time.monotonic() + START_SECONDS_MAX
        line = b""
        while not line.endswith(b"\n"):
            readable, _, _ = select.select(
                [descriptor], [], [], max(0, deadline - time.monotonic())
            )
            if not readable:
                raise UnavailableError(
                    f"the daemon was not ready within {START_SECONDS_MAX:.0f} seconds: "
                    f"{self.last_words()}"
                )
            data = os.read(descriptor, 4096)
            if not data:
                code = self.process.wait()
                raise DaemonFailedError(code, self.last_words())
            line += data
        return msgspec.json.decode(line, type=Banner)


class DaemonFailedError(BourseError):
    """A daemon ended before it was ready; its exit code becomes ours."""

    def __init__(self, exit_code: int, words: str) -> None:
        self.exit_code = exit_code if exit_code > 0 else 1
        super().__init__(f"the daemon did not start: {words.removeprefix('bourse: ')}")


class PrivateDaemon(DaemonProcess):
    """A daemon for one measurement; its data directory goes with it."""

    def __init__(
        self,
        durability: Durability,
        poll: PollMode,
        parent: Path | None = None,
        arguments: Sequence[str] = (),
    ) -> None:
        """Start it under `parent` (None: a place on a disk)."""
        self.scratch = Path(
            tempfile.mkdtemp(prefix="bourse-bench-", dir=scratch_parent(durability, parent))
        )
        # Not inside `scratch`: a socket's path has at most 107 bytes.
        self.socket_dir = Path(tempfile.mkdtemp(prefix="bourse-"))
        self.data_dir = self.scratch / "data"
        self.exit_code: int | None = None
        try:
            super().__init__(
                [
                    *("--data", str(self.data_dir), "--listen", "127.0.0.1:0"),
                    *("--durability", durability.label, "--poll", poll.label),
                    *("--admin", str(self.socket_dir / "admin.sock"), *arguments),
                ],
                self.scratch / "log",
            )
        except BaseException:
            self.remove()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, traceback)
        self.remove()

    def remove(self) -> None:
        """Remove everything that it wrote."""
        shutil.rmtree(self.scratch, ignore_errors=True)
        shutil.rmtree(self.socket_dir, ignore_errors=True)
