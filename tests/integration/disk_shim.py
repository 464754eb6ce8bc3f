"""The test's side of disk_shim.c: compile it, set faults, read counters while the daemon runs."""

from __future__ import annotations

import mmap
import shutil
import struct
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_name("disk_shim.c")
FIELDS = (
    "syncs",
    "sync_fail_at",
    "sync_errno",
    "sync_delay_us",
    "syncs_after_error",
    "writes",
    "write_fail_at",
    "write_errno",
    "write_bytes",
    "writes_after_error",
    "failed",
    "written_end",
    "durable_end",
    "fail_next_write",
)


def compile_shim(directory: Path) -> Path:
    """Make the library that LD_PRELOAD loads."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    assert compiler, "the daemon's own build needs a compiler too"
    library = directory / "disk_shim.so"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-Wall", "-o", library, SOURCE, "-ldl"], check=True
    )
    return library


class DiskShim:
    """The shared page; fields by name."""

    def __init__(self, library: Path, page: Path) -> None:
        self.library = library
        self.path = page
        page.write_bytes(bytes(4096))
        with page.open("r+b") as file:
            self._page = mmap.mmap(file.fileno(), 4096)

    @property
    def environment(self) -> dict[str, str]:
        return {"LD_PRELOAD": str(self.library), "DISK_SHIM": str(self.path)}

    def __getitem__(self, name: str) -> int:
        (value,) = struct.unpack_from("<q", self._page, 8 * FIELDS.index(name))
        return int(value)

    def __setitem__(self, name: str, value: int) -> None:
        struct.pack_into("<q", self._page, 8 * FIELDS.index(name), value)

    def close(self) -> None:
        self._page.close()
