"""Space for the log: watched, so that new orders are refused before the disk is full.

With less than `low_space_bytes` free, every new order carries a flag into the log that has the
engine refuse it: so a replay, which knows no disk, refuses the same orders. Cancels go on, into
what is left and the segment that was filled ahead. It ends by itself when there is an eighth more
than the limit.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path


class SpaceWatch:
    """How much space there is for one directory, and whether that is too little."""

    def __init__(self, directory: Path, low_bytes: int, log: logging.Logger) -> None:
        """Watch a directory; a limit of 0 is never passed."""
        self._directory = directory
        self._low_bytes = low_bytes
        self._log = log
        self.free_bytes = 0
        """As last looked at."""
        self.is_low = False

    def look(self) -> bool:
        """Look again; returns whether new orders are to be refused."""
        try:
            found = os.statvfs(self._directory)
        except OSError:
            return self.is_low  # it is somebody else's to say what became of the directory
        self.free_bytes = found.f_bavail * found.f_frsize
        if not self.is_low and self.free_bytes < self._low_bytes:
            self.is_low = True
            self._log.error(
                "low space: %d bytes are free for %s, fewer than low_space_bytes = %d; "
                "new orders are refused, cancels work, until there is more",
                self.free_bytes,
                self._directory,
                self._low_bytes,
            )
        elif self.is_low and self.free_bytes >= self._low_bytes + self._low_bytes // 8:
            self.is_low = False
            self._log.warning("low space is over: %d bytes are free", self.free_bytes)
        return self.is_low
