"""Logging of the daemon: one line an event, UTC, to stderr or to a file, the last ones kept."""

from __future__ import annotations

import logging
import sys
import time
from collections import deque
from pathlib import Path

from bourse.errors import UsageError
from bourse.journal.storage import make_directory


class _Formatter(logging.Formatter):
    """`2026-01-31T12:00:00.123Z info session 7 ...`: sortable, greppable, no control characters."""

    converter = staticmethod(time.gmtime)
    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"

    def format(self, record: logging.LogRecord) -> str:
        head = f"{self.formatTime(record)} {record.levelname.lower()} "
        text = record.getMessage()
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        # Text from a peer must not start a line of its own or move a cursor.
        lines = ["".join(c if c.isprintable() else "?" for c in line) for line in text.splitlines()]
        return head + "\n    ".join(lines)


LINES_KEPT = 1000
"""For the console, which may open after the trouble: about a day of a calm exchange."""
TEXT_LENGTH_MAX = 500
"""Of a kept line; a traceback is whole in the file."""

LogEntry = tuple[int, int, str, str]
"""Number from 1, wall clock in nanoseconds, level, text."""


class RecentLines(logging.Handler):
    """Keeps the last LINES_KEPT lines in memory; logging's own lock orders the writers."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: deque[LogEntry] = deque(maxlen=LINES_KEPT)
        self._count = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one line."""
        text = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            text += f": {record.exc_info[1]!r}"
        self._count += 1
        self._lines.append(
            (
                self._count,
                int(record.created * 1e9),
                record.levelname.lower(),
                text[:TEXT_LENGTH_MAX],
            )
        )

    def after(self, number: int, limit: int) -> tuple[list[LogEntry], int, int]:
        """Return the lines after `number`, newest last, at most `limit`.

        Returns:
            The lines; the newest line's number; how many after `number` are not among them.
        """
        self.acquire()
        try:
            lines = [line for line in self._lines if line[0] > number][-limit:]
            wanted = max(0, self._count - max(0, number))
            return lines, self._count, wanted - len(lines)
        finally:
            self.release()


def recent_lines(log: logging.Logger) -> RecentLines:
    """Return the logger's memory, giving it one where it has none."""
    for handler in log.handlers:
        if isinstance(handler, RecentLines):
            return handler
    kept = RecentLines()
    log.addHandler(kept)
    return kept


def open_log(path: str | None) -> logging.Logger:
    """Return the daemon's logger, writing to `path` (appending) or to stderr.

    Raises:
        UsageError: the file or its directory cannot be made or opened.
    """
    log = logging.getLogger("bourse")
    log.setLevel(logging.INFO)
    log.propagate = False
    handler: logging.Handler
    if path is None:
        handler = logging.StreamHandler(sys.stderr)
    else:
        # It may be the data directory, which must not be lost with the power.
        make_directory(Path(path).parent, "--log-file")
        try:
            handler = logging.FileHandler(path, encoding="utf-8")
        except OSError as error:
            raise UsageError(
                f"cannot open the log file {path}: {error.strerror}; name another with --log-file"
            ) from error
    handler.setFormatter(_Formatter())
    for old in list(log.handlers):
        log.removeHandler(old)
        old.close()
    log.addHandler(handler)
    recent_lines(log)
    return log
