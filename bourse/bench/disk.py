"""What one fdatasync costs here: the floor under every acknowledgement of the fsync policy.

The file is laid out like the log: zero-filled ahead of its end, then batches of one command
written one after another, each followed by fdatasync, in the directory that the log is in.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

APPEND_BYTES = 152
"""A batch of one command as the log has it: a header of 64 bytes and a record of 88."""

ZERO_FILL_BYTES = 1 << 20


def fdatasync_ns(directory: Path, count: int) -> list[int]:
    """Time `count` appends, write and fdatasync together, in nanoseconds.

    Args:
        directory: where the log is; a temporary file is made there and removed.
        count: how many; at most what fits into the zero-filled part.
    """
    count = min(count, ZERO_FILL_BYTES // APPEND_BYTES - 1)
    path = directory / f".fdatasync-{os.getpid()}"
    durations_ns = []
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.pwrite(descriptor, bytes(ZERO_FILL_BYTES), 0)
        os.fsync(descriptor)
        append = bytes(range(1, APPEND_BYTES + 1))
        for number in range(count):
            start_ns = time.perf_counter_ns()
            os.pwrite(descriptor, append, number * APPEND_BYTES)
            os.fdatasync(descriptor)
            durations_ns.append(time.perf_counter_ns() - start_ns)
    finally:
        os.close(descriptor)
        path.unlink()
    return durations_ns
