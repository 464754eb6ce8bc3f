"""What one fdatasync costs here: told beside the figures of the fsync policy.

No strict floor under them: the daemon's journal thread keeps to the CPU that the disk interrupts,
and waits less there than whoever calls from another.

The file is laid out like the log: zero-filled ahead of its end, then batches of one command
written one after another, each followed by fdatasync, in the directory that the log is in.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Self

APPEND_BYTES = 152
"""A batch of one command as the log has it: a header of 64 bytes and a record of 88."""

ZERO_FILL_BYTES = 1 << 20


class SyncTimer:
    """Times appends, write and fdatasync together, to a temporary file beside the log.

    The file is zero-filled and synced when the context begins and removed when it ends.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / f".fdatasync-{os.getpid()}"
        self._descriptor = -1
        self._appends = 0
        self.durations_ns: list[int] = []
        """Of every append that was timed."""

    def __enter__(self) -> Self:
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.pwrite(self._descriptor, bytes(ZERO_FILL_BYTES), 0)
            os.fsync(self._descriptor)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)
        self._path.unlink()

    def time(self, count: int) -> None:
        """Time `count` appends, as far as the zero-filled part has room."""
        append = bytes(range(1, APPEND_BYTES + 1))
        room = ZERO_FILL_BYTES // APPEND_BYTES - 1 - self._appends
        for _ in range(min(count, room)):
            start_ns = time.perf_counter_ns()
            os.pwrite(self._descriptor, append, self._appends * APPEND_BYTES)
            os.fdatasync(self._descriptor)
            self.durations_ns.append(time.perf_counter_ns() - start_ns)
            self._appends += 1
