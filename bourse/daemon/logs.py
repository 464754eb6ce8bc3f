"""Logging of the daemon: one line an event, UTC, to stderr or to a file."""

from __future__ import annotations

import logging
import sys
import time
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
    return log
