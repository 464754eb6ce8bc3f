"""What holds a directory: the type of its file system, and whether that keeps anything."""

from __future__ import annotations

import re
from pathlib import Path

MEMORY_FILESYSTEMS = ("tmpfs", "ramfs", "devtmpfs")
"""Types of filesystems that keep nothing on a disk."""


def filesystem_of(directory: Path) -> str:
    """Return the type of the filesystem that holds a directory, such as ext4."""
    resolved = directory.resolve()
    best = ("", "")
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields, _, rest = line.partition(" - ")
        mount = re.sub(r"\\(\d{3})", lambda match: chr(int(match[1], 8)), fields.split()[4])
        # Later lines cover earlier ones with the same mount point.
        if resolved.is_relative_to(mount) and len(mount) >= len(best[0]):
            best = (mount, rest.split()[0])
    return best[1]


def is_memory_filesystem(directory: Path) -> bool:
    """Return whether a directory is on a filesystem that keeps nothing on a disk."""
    return filesystem_of(directory) in MEMORY_FILESYSTEMS
