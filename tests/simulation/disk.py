"""A disk that loses what was not synced, and fails when it is told to.

The files of a real directory (on tmpfs) are what the page cache shows; this module keeps what the
platter holds. Rules, each as strict as POSIX allows unless said otherwise:

* A write dirties sectors of 512 bytes. Until a sync of that file any version that a dirty sector
  has had, or the one on the platter, may be what a power loss leaves; each sector for itself, in no
  order. A sector is not torn inside. The file's size may be any that it has had.
* A sync makes the file's sectors and size durable, not its name. A name becomes durable with a
  sync of its directory. Of changes of names that were not synced a power loss keeps the first few,
  in order (as file systems with a journal do), or the first few of each directory for itself.
* A sync that fails (EIO) has written some of the dirty sectors and calls all of them clean: the
  rest is gone, though the cache shows it until the page is dropped (measured on ext4). A sync of a
  directory that fails has written some of the names and may be tried again.
* A write fails with EIO untouched, or with ENOSPC after a part of it was taken (a short write).
* A process that is killed leaves the cache as it is; its write may have been taken in part.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import random
import shutil
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.simulation import system

SECTOR_BYTES = 512
KIND_NAMES = {
    system.OPEN: "create",
    system.WRITE: "write",
    system.TRUNCATE: "truncate",
    system.FSYNC: "fsync",
    system.FDATASYNC: "fdatasync",
    system.RENAME: "rename",
    system.UNLINK: "unlink",
    system.MKDIR: "mkdir",
}


class File:
    """One file: what the cache shows, what the platter holds, and all that may come of the rest."""

    def __init__(self) -> None:
        self.cache = bytearray()
        self.platter = bytearray()
        self.dirty: dict[int, list[bytes]] = {}
        """Every version that a sector has had since the last sync."""
        self.sizes: list[int] = []
        """Every size since then."""
        self.lost: set[int] = set()
        """Sectors that call themselves clean and never reached the platter."""

    @property
    def is_clean(self) -> bool:
        return not self.dirty and not self.sizes

    def write(self, offset: int, data: bytes) -> None:
        """Change the cache."""
        end = offset + len(data)
        if end > len(self.cache):
            self.cache.extend(bytes(end - len(self.cache)))
            self.sizes.append(end)
        self.cache[offset:end] = data
        self._dirty(offset, end)

    def truncate(self, size: int) -> None:
        """Make it shorter or longer; what is cut reads as zeros from then on."""
        before = len(self.cache)
        if size < before:
            self.cache[size:] = bytes(before - size)
            self._dirty(size, before)
            del self.cache[size:]
        else:
            self.cache.extend(bytes(size - before))
        if size != before:
            self.sizes.append(size)

    def _dirty(self, start: int, end: int) -> None:
        for sector in range(start // SECTOR_BYTES, -(-end // SECTOR_BYTES)):
            at = sector * SECTOR_BYTES
            version = bytes(self.cache[at : at + SECTOR_BYTES]).ljust(SECTOR_BYTES, b"\0")
            self.dirty.setdefault(sector, []).append(version)
            self.lost.discard(sector)

    def sync(self) -> None:
        """Put all on the platter but what a failed sync has lost."""
        self._settle({sector: versions[-1] for sector, versions in self.dirty.items()})

    def fail_sync(self, rng: random.Random) -> None:
        """Put a part on the platter and call the rest clean."""
        written = {}
        for sector, versions in self.dirty.items():
            if rng.random() < 0.5:
                written[sector] = versions[-1]
            else:
                self.lost.add(sector)
        self._settle(written)

    def _settle(self, sectors: dict[int, bytes], size: int | None = None) -> None:
        size = len(self.cache) if size is None else size
        _resize(self.platter, size)
        for sector, version in sectors.items():
            at = sector * SECTOR_BYTES
            version = version[: max(0, size - at)]
            self.platter[at : at + len(version)] = version
        self.dirty.clear()
        self.sizes.clear()

    def lose_power(self, rng: random.Random) -> None:
        """Keep of what was not synced what chance decides; the cache is gone."""
        kept = {}
        # Nothing, all but little, or half of it: each is a way in which disks die.
        share = rng.choice((0.0, 0.1, 0.5, 0.9, 1.0))
        for sector, versions in self.dirty.items():
            if rng.random() < share:
                kept[sector] = versions[-1] if rng.random() < 0.7 else rng.choice(versions)
        size = len(self.platter)
        if self.sizes and rng.random() < max(share, 0.5):
            size = rng.choice(self.sizes)
        self._settle(kept, size)
        self.cache = bytearray(self.platter)
        self.lost.clear()

    def drop_cached(self, start: int) -> list[int]:
        """Drop clean pages; returns the sectors that read differently now."""
        dropped = [sector for sector in sorted(self.lost) if (sector + 1) * SECTOR_BYTES > start]
        for sector in dropped:
            at = sector * SECTOR_BYTES
            old = bytes(self.platter[at : at + SECTOR_BYTES]).ljust(SECTOR_BYTES, b"\0")
            length = len(self.cache[at : at + SECTOR_BYTES])
            self.cache[at : at + length] = old[:length]
            self.lost.discard(sector)
        return dropped


def _resize(data: bytearray, size: int) -> None:
    if size < len(data):
        del data[size:]
    else:
        data.extend(bytes(size - len(data)))


Node = File | None
"""None: a directory."""


@dataclass
class Change:
    """A change of names that is not durable: names that go, and names that come."""

    directory: str
    removed: list[str]
    added: dict[str, Node]

    def touches(self, directory: str) -> bool:
        """Say whether a sync of this directory makes it durable."""
        return any(parent(name) == directory for name in [*self.removed, *self.added])


def parent(name: str) -> str:
    """Return the directory that a name is in; names are relative to the disk's root, ''."""
    return name.rpartition("/")[0]


@dataclass
class Fault:
    """An error for one call to come."""

    calls_left: int
    error: int
    """errno; ENOSPC of a write lets a part of it be taken."""
    kinds: tuple[int, ...]
    is_final: bool = False
    """A part of the write has been taken already: now it fails."""


@dataclass
class Disk:
    """The disk of one run; `answer` is what syscalls.c asks."""

    root: Path
    rng: random.Random
    trace: Callable[..., None]
    set_page: Callable[[], None] = lambda: None
    files: dict[str, Node] = field(default_factory=dict)
    """What there is, by name, as the kernel shows it."""
    platter: dict[str, Node] = field(default_factory=dict)
    """The names that would survive."""
    changes: list[Change] = field(default_factory=list)
    during: Callable[[str, str], None] | None = None
    """Called inside a write or a sync: what the others do meanwhile. (kind, name)"""
    is_down: bool = False
    crash_in: int = 0
    """The machine goes down at this call from now on; 0: at none."""
    fault: Fault | None = None
    counts: dict[str, int] = field(default_factory=dict)
    failed_names: set[str] = field(default_factory=set)
    """Files of which a sync or a write has failed in this process."""
    partial_write: bool = False
    """The write that the crash came in was taken in part."""
    violations: list[str] = field(default_factory=list)
    on_sync: Callable[[str], None] = lambda name: None
    on_write: Callable[[str, int, bytes, bool], None] = lambda name, offset, data, is_done: None
    """Called before a write, and once all of it was taken."""
    on_wait: Callable[[], None] = lambda: None
    """Called when a thread would sleep."""
    is_lying: bool = False
    """Syncs do nothing and say that they have done it (a planted mistake)."""
    faults_hit: int = 0
    _fds: dict[int, str] = field(default_factory=dict)
    _open: dict[int, Node] = field(default_factory=dict)
    _raw: bool = False

    # What the program does.

    def answer(self, kind: int, fd: int, a: int, b: int, path: str, second: str | int) -> int:
        """Decide about one system call: 0 or bytes taken, or minus an errno."""
        if self._raw:
            return b if kind == system.WRITE else 0
        if kind == system.WAIT:
            self.on_wait()
            return 0
        if kind == system.CLOSE:
            self._fds.pop(fd, None)
            self._open.pop(fd, None)
            return 0
        if kind == system.OPENED:
            # Its SIM_OPEN was granted, perhaps as the last thing before a crash.
            self._opened(fd, a, self._name(path))
            return 0
        if self.is_down:
            return -errno.EIO
        if kind == system.UNKNOWN:
            self.violations.append(f"{path} is not simulated; teach it to syscalls.c and disk.py")
            return -errno.ENOSYS
        name = self._name(path) if path else self._fds[fd]
        if kind == system.DROP_CACHE:
            self._drop_cached(fd, a)
            return 0
        if kind == system.OPEN:
            is_new = bool(a & os.O_CREAT) and name not in self.files
            is_cut = bool(a & os.O_TRUNC) and name in self.files
            if not is_new and not is_cut:
                return 0
        return self._change(kind, fd, name, a, b, second)

    def _name(self, path: str) -> str:
        return path[len(str(self.root)) :].strip("/")

    def _change(self, kind: int, fd: int, name: str, a: int, b: int, second: str | int) -> int:
        """Make one change, unless a crash or a fault comes between."""
        word = KIND_NAMES[kind]
        self.counts[word] = self.counts.get(word, 0) + 1
        data = b""
        if kind == system.WRITE:
            data = ctypes.string_at(second, b)
            self._check_after_failure(name, word)
            self.on_write(name, a, data, False)
        elif kind in (system.FSYNC, system.FDATASYNC):
            self._check_after_failure(name, word)
        moment = ""
        if self.crash_in:
            self.crash_in -= 1
            if self.crash_in == 0:
                moment = self.rng.choice(("before", "during", "after"))
        self.trace("disk", word, name, a, len(data), zlib.crc32(data), moment)
        if moment == "before":
            self.is_down = True
            return -errno.EIO
        if self.during is not None and kind in (system.WRITE, system.FSYNC, system.FDATASYNC):
            self.during(word, name)
            if self.is_down:
                return -errno.EIO
        fault = self._fault_now(kind)
        if fault is not None:
            return self._fail(kind, fd, name, a, data, fault)
        if kind == system.WRITE:
            return self._write(fd, name, a, data, moment)
        if moment == "during":
            # A sync that was under way: what it has written is chance's, as without it.
            self.is_down = True
            return -errno.EIO
        self._apply(kind, fd, name, a, second)
        if moment == "after":
            self.is_down = True
            # The call has happened; the real files must show it.
            return 0
        return 0

    def _check_after_failure(self, name: str, word: str) -> None:
        if name in self.failed_names and not name.endswith(".new"):
            self.violations.append(f"{word} of {name} after one had failed")

    def _fault_now(self, kind: int) -> Fault | None:
        fault = self.fault
        if fault is None or kind not in fault.kinds:
            return None
        fault.calls_left -= 1
        if fault.calls_left > 0:
            return None
        self.fault = None
        return fault

    def _fail(self, kind: int, fd: int, name: str, a: int, data: bytes, fault: Fault) -> int:
        """Let a call fail as disks do."""
        if fault.error == errno.ENOSPC and not fault.is_final and len(data) > 1:
            # Short first; the rest of it is refused.
            taken = self.rng.randrange(1, len(data))
            self.fault = Fault(1, fault.error, (system.WRITE,), is_final=True)
            self._apply_write(fd, name, a, data[:taken])
            self.trace("short", taken)
            return taken
        word = errno.errorcode[fault.error]
        self.trace("fault", KIND_NAMES[kind], name, word)
        self.counts[word] = self.counts.get(word, 0) + 1
        self.faults_hit += 1
        if kind in (system.WRITE, system.FSYNC, system.FDATASYNC) and self._open.get(fd):
            self.failed_names.add(name)
        if kind in (system.FSYNC, system.FDATASYNC):
            file = self._open[fd]
            if file is not None:
                file.fail_sync(self.rng)
            else:
                mine = [change for change in self.changes if change.touches(name)]
                for change in mine[: self.rng.randrange(len(mine) + 1)]:
                    self._make_durable(change)
        return -fault.error

    def _write(self, fd: int, name: str, offset: int, data: bytes, moment: str) -> int:
        if moment == "during":
            taken = self.rng.randrange(len(data)) if data else 0
            self.partial_write = taken > 0
            self._apply_write(fd, name, offset, data[:taken])
            self.is_down = True
            # The kernel shows the part that was taken.
            return taken if taken else -errno.EIO
        self._apply_write(fd, name, offset, data)
        self.on_write(name, offset, data, True)
        if moment == "after":
            self.is_down = True
        return len(data)

    def _apply_write(self, fd: int, name: str, offset: int, data: bytes) -> None:
        file = self._open[fd]
        assert file is not None
        file.write(offset, data)

    def _apply(self, kind: int, fd: int, name: str, a: int, second: str | int) -> None:
        """Make a change of size or of names, or a sync."""
        if kind == system.TRUNCATE:
            file = self._open[fd]
            assert file is not None
            file.truncate(a)
        elif kind in (system.FSYNC, system.FDATASYNC):
            self._sync(fd, name)
        elif kind == system.RENAME:
            target = self._name(str(second))
            node = self.files.pop(name)
            self.files[target] = node
            self._fds = {fd: target if at == name else at for fd, at in self._fds.items()}
            self.changes.append(Change(parent(target), [name], {target: node}))
        elif kind == system.UNLINK:
            self.files.pop(name, None)
            self.changes.append(Change(parent(name), [name], {}))
        elif kind == system.MKDIR and name not in self.files:
            self.files[name] = None
            self.changes.append(Change(parent(name), [], {name: None}))
        # OPEN is made when the file is there (_opened).

    def _sync(self, fd: int, name: str) -> None:
        if self.is_lying:
            self.on_sync(name)
            return
        file = self._open[fd]
        if file is not None:
            file.sync()
        else:
            for change in [change for change in self.changes if change.touches(name)]:
                self._make_durable(change)
        self.on_sync(name)

    def _opened(self, fd: int, flags: int, name: str) -> None:
        if name not in self.files and flags & os.O_CREAT:
            node: Node = File()
            self.files[name] = node
            self.changes.append(Change(parent(name), [], {name: node}))
        node = self.files.get(name)
        self._fds[fd] = name
        self._open[fd] = node
        if node is not None and flags & os.O_TRUNC:
            node.truncate(0)

    def _drop_cached(self, fd: int, start: int) -> None:
        file = self._open.get(fd)
        if file is not None:
            self._show_again(self._fds[fd], file, file.drop_cached(start))

    def _show_again(self, name: str, file: File, sectors: list[int]) -> None:
        """Let the real file show what the cache holds in these sectors."""
        if sectors:
            self.trace("dropped", name, *sectors)
            with self.raw():
                (self.root / name).write_bytes(file.cache)

    def _make_durable(self, change: Change) -> None:
        for name in change.removed:
            self.platter.pop(name, None)
        self.platter.update(change.added)
        self.changes.remove(change)

    # What happens to it.

    def raw(self) -> Any:
        """Change the real files without asking."""

        @contextlib.contextmanager
        def asked() -> Any:
            self._raw = True
            try:
                yield
            finally:
                self._raw = False

        return asked()

    def begin_process(self) -> None:
        """A new process starts: nothing is open, nothing has failed."""
        self._fds.clear()
        self._open.clear()
        self.failed_names.clear()
        self.is_down = False
        self.partial_write = False
        self.crash_in = 0
        self.fault = None

    def close_all(self) -> None:
        """Close what a process left open when it died."""
        for fd in list(self._fds):
            os.close(fd)

    def is_synced(self, name: str) -> bool:
        """Say whether a power loss could change nothing about a file, its name included."""
        node = self.files.get(name)
        return node is not None and node.is_clean and self.platter.get(name) is node

    def kill(self) -> None:
        """The process ended, the machine goes on; the kernel may drop clean pages."""
        self.is_down = True
        if self.rng.random() < 0.5:
            for name, file in sorted(self.files.items()):
                if file is not None:
                    self._show_again(name, file, file.drop_cached(0))

    def lose_power(self) -> None:
        """The machine went down: the platter is what is left, and chance decides what that is."""
        self.is_down = True
        if self.rng.random() < 0.5:
            kept = self.changes[: self.rng.randrange(len(self.changes) + 1)]
        else:
            kept = []
            for directory in sorted({change.directory for change in self.changes}):
                mine = [change for change in self.changes if change.directory == directory]
                kept += mine[: self.rng.randrange(len(mine) + 1)]
        for change in kept:
            self._make_durable(change)
        self.changes.clear()
        seen: set[int] = set()
        for _, file in sorted(self.platter.items()):
            if file is not None and id(file) not in seen:
                seen.add(id(file))
                file.lose_power(self.rng)
        names = sorted(self.platter)
        self.files = {name: self.platter[name] for name in names if self._has_parents(name)}
        self.platter = dict(self.files)
        self.show()

    def _has_parents(self, name: str) -> bool:
        above = parent(name)
        return not above or (above in self.platter and self._has_parents(above))

    def show(self) -> None:
        """Make the real files what the cache shows."""
        with self.raw():
            for entry in list(os.scandir(self.root)):
                if entry.is_dir():
                    shutil.rmtree(entry.path)
                else:
                    os.unlink(entry.path)  # noqa: PTH108
            for name, file in sorted(self.files.items()):
                path = self.root / name
                if file is None:
                    path.mkdir(exist_ok=True)
                else:
                    path.write_bytes(file.cache)
                    path.chmod(0o600)

    def check(self) -> None:
        """Compare the real files with what they should be; for tests of the simulation itself."""
        for name, file in self.files.items():
            path = self.root / name
            assert path.is_dir() if file is None else path.read_bytes() == bytes(file.cache), name
