"""A command on a pseudo-terminal: what it paints, what it does with keys and signals."""

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Iterator, Sequence
from pathlib import Path


class Terminal:
    """A child process with a terminal of 120x36 as stdin, stdout and stderr."""

    def __init__(self, command: Sequence[str], cwd: Path, env: dict[str, str]) -> None:
        self.screen = b""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 36, 120, 0, 0))
        self.descriptor = ours
        self.process = subprocess.Popen(
            command,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=cwd,
            env=env,
            start_new_session=True,
        )
        os.close(theirs)

    def read_until(self, wanted: bytes, seconds: float = 30.0) -> None:
        """Read what it paints until the text is there."""
        deadline = time.monotonic() + seconds
        while wanted not in self.screen:
            if time.monotonic() > deadline or not self._read(0.1):
                break
        assert wanted in self.screen, self.screen[-4000:].decode(errors="replace")

    def wait(self, seconds: float = 60.0) -> int:
        """Read to its end and return its exit code."""
        deadline = time.monotonic() + seconds
        while self._read(0.1):
            assert time.monotonic() < deadline, "it did not end"
        return self.process.wait(10)

    def press(self, keys: bytes) -> None:
        os.write(self.descriptor, keys)

    def _read(self, seconds: float) -> bool:
        """Read what is there; False once everybody has closed the terminal."""
        readable, _, _ = select.select([self.descriptor], [], [], seconds)
        if not readable:
            return True
        try:
            data = os.read(self.descriptor, 1 << 16)
        except OSError:
            return False
        self.screen += data
        return bool(data)


@contextlib.contextmanager
def terminal(command: Sequence[str], cwd: Path, env: dict[str, str]) -> Iterator[Terminal]:
    child = Terminal(command, cwd, env)
    try:
        yield child
    finally:
        if child.process.poll() is None:
            child.process.send_signal(signal.SIGKILL)
            child.process.wait()
        os.close(child.descriptor)
