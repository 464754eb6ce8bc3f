"""Disks that fail for real: loop-mounted file systems and small tmpfs; root only.

    PowerDisk   ext4 or XFS on a loop device; power_loss() drops every byte, name and size that was
                not synced (the shutdown ioctl without a log flush), and gives EIO until restore()
    FsyncGate   ext4 on a sparse image on a small tmpfs; once that is full, a sync fails once and
                the next one says that all is well, though the data are gone
    FullDisk    a small tmpfs or ext4 with a file that takes the room; ENOSPC until release()

Each removes what it made, and only that, however its test ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import struct
import subprocess
import time
from pathlib import Path

SHUTDOWN = 0x8004587D
"""_IOR('X', 125, __u32): XFS_IOC_GOINGDOWN and EXT4_IOC_SHUTDOWN."""
FIEMAP = 0xC020660B
"""_IOWR('f', 11, struct fiemap)."""
NO_LOG_FLUSH = struct.pack("I", 2)
MAKE = {
    "ext4": ("mkfs.ext4", "-q", "-F", "-J", "size=4"),
    "xfs": ("mkfs.xfs", "-q", "-f"),
}
IMAGE_BYTES = {"ext4": 64 << 20, "xfs": 320 << 20}
"""Sparse; XFS is no smaller than 300 MiB."""


def why_not(kind: str = "ext4") -> str:
    """Why a disk of this kind cannot be made here; empty when it can."""
    if os.geteuid() != 0:
        return "mounting needs root"
    if kind == "tmpfs":
        return ""
    if not Path("/dev/loop-control").exists():
        return "there are no loop devices (/dev/loop-control)"
    if kind not in Path("/proc/filesystems").read_text() and not shutil.which("modprobe"):
        return f"this kernel has no {kind}"
    if not shutil.which(MAKE[kind][0]):
        return f"{MAKE[kind][0]} is not installed"
    return ""


def run(*command: str | Path) -> str:
    """Run a command; its words when it fails."""
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, f"{command}: {result.stderr}"
    return result.stdout.strip()


class Mounted:
    """Something that is mounted, and what was made for it; undone in reverse by close()."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.place = base / "disk"
        self.place.mkdir(parents=True)
        self.made = contextlib.ExitStack()

    @property
    def data_dir(self) -> Path:
        return self.place / "data"

    def mount(self, *arguments: str | Path) -> None:
        run("mount", *arguments, self.place)

    def unmount(self, place: Path | None = None) -> None:
        """Unmount at once; lazily when somebody still holds a file."""
        place = place or self.place
        for _ in range(20):
            # os.path.ismount() asks the file system, which may be shut down.
            if f" {place} " not in Path("/proc/self/mountinfo").read_text():
                return
            result = subprocess.run(["umount", place], capture_output=True, check=False)
            if result.returncode:
                time.sleep(0.05)
        subprocess.run(["umount", "-l", place], capture_output=True, check=False)

    def loop(self, image: Path) -> str:
        """Attach an image to a free loop device."""
        device = run("losetup", "--find", "--show", image)
        self.made.callback(subprocess.run, ["losetup", "-d", device], capture_output=True)
        return device

    def close(self) -> None:
        """Undo everything."""
        self.unmount()
        self.made.close()


class PowerDisk(Mounted):
    """A file system whose power can be cut."""

    def __init__(self, base: Path, kind: str) -> None:
        super().__init__(base)
        self.kind = kind
        image = base / "image"
        with image.open("wb") as file:
            file.truncate(IMAGE_BYTES[kind])
        try:
            run(*MAKE[kind], image)
            self.device = self.loop(image)
            self.mount("-t", kind, self.device)
        except BaseException:
            self.close()
            raise

    def power_loss(self) -> None:
        """From now on nothing reaches the disk, and what was not synced never did."""
        fd = os.open(self.place, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(fd, SHUTDOWN, NO_LOG_FLUSH)
        finally:
            os.close(fd)

    def restore(self, *options: str) -> None:
        """Switch the power on again: what is there now is what was on the disk."""
        self.unmount()
        self.mount("-t", self.kind, *options, self.device)


class FsyncGate(Mounted):
    """A disk whose syncs fail once it has no blocks left behind it."""

    TMPFS_BYTES = 40 << 20

    def __init__(self, base: Path) -> None:
        super().__init__(base)
        self.behind = base / "behind"
        self.behind.mkdir()
        try:
            run("mount", "-t", "tmpfs", "-o", f"size={self.TMPFS_BYTES}", "tmpfs", self.behind)
            self.made.callback(self.unmount, self.behind)
            image = self.behind / "image"
            with image.open("wb") as file:
                file.truncate(IMAGE_BYTES["ext4"])
            # No journal: its writes would fail as well and shut the file system down, which is
            # another fault. Blocks of a page: see run_dry().
            run("mkfs.ext4", "-q", "-F", "-b", "4096", "-O", "^has_journal", image)
            self.device = self.loop(image)
            self.mount("-t", "ext4", self.device)
        except BaseException:
            self.close()
            raise

    def run_dry(self, path: Path, from_bytes: int) -> None:
        """Take the blocks behind a file from an offset on, and every block that there could be.

        The file is on the disk and has zeros there; they read as before, and cannot be written.
        The write that meets the first of them must begin in it: of a request that fails half-way
        the loop device says that it went well.
        """
        for offset_bytes, length_bytes in extents(path, from_bytes):
            where = ("--offset", str(offset_bytes), "--length", str(length_bytes))
            run("fallocate", "--punch-hole", *where, self.behind / "image")
        fill(self.behind / "filler")

    def release(self) -> None:
        """Give the blocks back and mount again: only what was really written is there."""
        (self.behind / "filler").unlink()
        self.unmount()
        self.mount("-t", "ext4", self.device)


class FullDisk(Mounted):
    """A small disk that something else fills."""

    def __init__(self, base: Path, kind: str, size_bytes: int = 24 << 20) -> None:
        super().__init__(base)
        try:
            if kind == "tmpfs":
                self.mount("-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs")
            else:
                image = base / "image"
                with image.open("wb") as file:
                    file.truncate(size_bytes)
                run("mkfs.ext4", "-q", "-F", "-m", "0", image)
                self.mount("-t", "ext4", self.loop(image))
        except BaseException:
            self.close()
            raise

    def fill(self, leave_bytes: int = 0) -> None:
        """Take all the room but so much."""
        free_bytes = shutil.disk_usage(self.place).free
        fill(self.place / "filler", free_bytes - leave_bytes)

    def release(self) -> None:
        """Give it back."""
        (self.place / "filler").unlink()


def extents(path: Path, from_bytes: int) -> list[tuple[int, int]]:
    """Where a file's blocks from an offset on are on its device: offset and length of each run."""
    most = 16  # a request has at most 1,024 bytes
    request = struct.pack("=QQIIII", from_bytes, 1 << 62, 1, 0, most, 0) + bytes(56 * most)
    with path.open("rb") as file:
        answer = fcntl.ioctl(file.fileno(), FIEMAP, request)
    (count,) = struct.unpack_from("=I", answer, 20)
    found = []
    for index in range(count):
        logical, physical, length = struct.unpack_from("=QQQ", answer, 32 + 56 * index)
        skip = max(0, from_bytes - logical)
        found.append((physical + skip, length - skip))
    return found


def fill(path: Path, most_bytes: int = 1 << 40) -> None:
    """Write a file until it has so many bytes or there is no room."""
    block = bytes(1 << 16)
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while most_bytes > 0:
            most_bytes -= file.write(block[: min(most_bytes, len(block))])
        os.fsync(file.fileno())
