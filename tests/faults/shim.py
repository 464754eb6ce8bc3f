"""The test's side of fault_shim.c: compile it, plan a fault, read counters and the log of calls."""

from __future__ import annotations

import mmap
import shutil
import struct
import subprocess
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).with_name("fault_shim.c")
KINDS = (
    "write",
    "fdatasync",
    "fsync",
    "rename",
    "open",
    "ftruncate",
    "fallocate",
    "unlink",
    "send",
)
"""Kinds of calls, as the enum of the source has them."""
FIELDS = (
    "fail_kind",
    "fail_at",
    "fail_errno",
    "fail_for_ever",
    "short_bytes",
    "failed",
    "failed_fd",
    "failed_ns",
    "syncs_after",
    "writes_after",
    "sends_after",
    "rest_fails",
    "written_end",
    "durable_end",
    "wall_offset_ns",
    "log_next",
)
LOGGED = 65536
_ENTRY = struct.Struct("<6q")
_LOG_AT = 8 * (2 * len(KINDS) + len(FIELDS))
_SIZE = _LOG_AT + LOGGED * _ENTRY.size


class Call(NamedTuple):
    """One call that the shim has logged."""

    kind: str
    fd: int
    bytes: int
    durable_end: int
    """Where the durable part of the segment ended as the call began."""
    began_ns: int
    ended_ns: int


def compile_shim(directory: Path) -> Path:
    """Make the library that LD_PRELOAD loads."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    assert compiler, "the daemon's own build needs a compiler too"
    library = directory / "fault_shim.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-Wall", "-o", library, SOURCE, "-ldl"]
    subprocess.run(command, check=True)
    return library


class FaultShim:
    """The shared file: counters and settings by name, `calls` and `delays` by kind."""

    def __init__(self, library: Path, page: Path) -> None:
        self.library = library
        self.path = page
        with page.open("wb+") as file:
            file.truncate(_SIZE)
            self._page = mmap.mmap(file.fileno(), _SIZE)

    def environment(self, data_dir: Path) -> dict[str, str]:
        """What a daemon needs in its environment; its files are those below `data_dir`."""
        return {
            "LD_PRELOAD": str(self.library),
            "FAULT_SHIM": str(self.path),
            "FAULT_SHIM_DIR": str(data_dir),
        }

    def reset(self) -> None:
        """Forget everything: counters, plan, delays, log."""
        self._page[:] = bytes(_SIZE)

    def plan(
        self,
        kind: str,
        nth: int,
        error: int,
        *,
        for_ever: bool = False,
        short_bytes: int = -1,
        from_now: bool = False,
    ) -> None:
        """Have the n-th call of a kind fail; of those to come when `from_now`."""
        self["fail_kind"] = KINDS.index(kind)
        self["fail_errno"] = error
        self["fail_for_ever"] = int(for_ever)
        self["short_bytes"] = short_bytes
        self["fail_at"] = nth + (self.calls(kind) if from_now else 0)

    def calls(self, kind: str) -> int:
        """How many calls of a kind there were."""
        return self._read(KINDS.index(kind))

    def delay(self, kind: str, us: int) -> None:
        """Have each call of a kind take so much longer."""
        struct.pack_into("<q", self._page, 8 * (len(KINDS) + KINDS.index(kind)), us)

    def log(self) -> list[Call]:
        """The calls in the order in which they began."""
        count = self["log_next"]
        assert count <= LOGGED, "the log has overflowed"
        data = self._page[_LOG_AT : _LOG_AT + count * _ENTRY.size]
        return [Call(KINDS[kind], *rest) for kind, *rest in _ENTRY.iter_unpack(data)]

    def __getitem__(self, name: str) -> int:
        return self._read(2 * len(KINDS) + FIELDS.index(name))

    def __setitem__(self, name: str, value: int) -> None:
        struct.pack_into("<q", self._page, 8 * (2 * len(KINDS) + FIELDS.index(name)), value)

    def _read(self, index: int) -> int:
        (value,) = struct.unpack_from("<q", self._page, 8 * index)
        return int(value)

    def close(self) -> None:
        self._page.close()
