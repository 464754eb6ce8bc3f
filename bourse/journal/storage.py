"""Files of a data directory: the journal's only calls to the operating system.

    DIR/lock                                    who owns the directory: an flock, not the pid in it
    DIR/wal/wal-<8 digits>-<20 digits>.log      a segment: its number, the first record it may hold
    DIR/wal/wal-<...>.log.OFFSET.torn           what recovery cut off at that offset
    DIR/wal/wal-<8 digits>.new                  the next segment, being filled with zeros
    DIR/archive/wal-<...>.log                   a segment that the kept snapshots made superfluous
    DIR/snapshots/snapshot-<20 digits>.snap     state after that wal_seq

Nothing becomes visible under its final name before it is whole and synced: files are made under
another name (`.new`), synced, renamed, and then their directory is synced. No mmap: a truncated
file or a failing disk must be an error at a call, not a signal.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from bourse.core.killpoint import passed
from bourse.errors import JournalError, OwnershipError, UsageError

LOCK_NAME = "lock"
WAL_DIRECTORY = "wal"
ARCHIVE_DIRECTORY = "archive"
SNAPSHOT_DIRECTORY = "snapshots"
NEW_SUFFIX = ".new"

DIRECTORY_MODE = 0o700
FILE_MODE = 0o600

ZEROS = bytes(1 << 20)
"""What preallocation writes, a mebibyte at a time."""

_KINDS = {".snap": "snapshot", ".log": "segment", ".torn": "torn"}
"""What the kill points call the files that create_file makes."""

SYNC_BYTES = 8 << 20
"""Of a large file so much is synced at a time: the log's own syncs wait for no more than that."""

READ_AHEAD_BYTES = 64 << 20
"""What the kernel may read ahead of a reader: a segment of the default size."""

# Without the first record's number: as written by early builds.
_SEGMENT_NAME = re.compile(r"wal-(\d{8,})(?:-(\d{20}))?\.log")
_SNAPSHOT_NAME = re.compile(r"snapshot-(\d{20})\.snap")


@contextlib.contextmanager
def explained(doing: str, path: Path) -> Iterator[None]:
    """Turn an OSError into one sentence that names the file."""
    try:
        yield
    except OSError as error:
        raise JournalError(f"cannot {doing} {path}: {error.strerror or error}") from error


def segment_path(data_dir: Path, segment_index: int, first_wal_seq: int = 1) -> Path:
    """Return where the segment that begins with a record is."""
    return data_dir / WAL_DIRECTORY / f"wal-{segment_index:08d}-{first_wal_seq:020d}.log"


def spare_path(data_dir: Path, segment_index: int) -> Path:
    """Return where the next segment is filled with zeros, before it has its name."""
    return data_dir / WAL_DIRECTORY / f"wal-{segment_index:08d}{NEW_SUFFIX}"


def snapshot_path(data_dir: Path, wal_seq: int) -> Path:
    """Return where the snapshot taken at a wal_seq is."""
    return data_dir / SNAPSHOT_DIRECTORY / f"snapshot-{wal_seq:020d}.snap"


def segment_index_of(path: Path) -> int | None:
    """Return the number in a segment's file name, None for another name."""
    match = _SEGMENT_NAME.fullmatch(path.name)
    return int(match[1]) if match else None


def first_seq_of(path: Path) -> int | None:
    """Return the first record's number in a segment's file name, None for another name."""
    match = _SEGMENT_NAME.fullmatch(path.name)
    return int(match[2]) if match and match[2] else None


def snapshot_seq_of(path: Path) -> int | None:
    """Return the wal_seq in a snapshot's file name, None for another name."""
    match = _SNAPSHOT_NAME.fullmatch(path.name)
    return int(match[1]) if match else None


def _names(directory: Path) -> list[str]:
    try:
        return sorted(os.listdir(directory))  # noqa: PTH208 (names, not paths)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise JournalError(f"cannot list {directory}: {error.strerror}") from error


def list_segments(data_dir: Path) -> list[Path]:
    """Return the segments that there are, by number."""
    directory = data_dir / WAL_DIRECTORY
    paths = [directory / name for name in _names(directory)]
    return sorted(
        (path for path in paths if segment_index_of(path) is not None),
        key=lambda path: segment_index_of(path) or 0,
    )


def list_snapshots(data_dir: Path) -> list[Path]:
    """Return the snapshots that there are, newest first; none of them is opened."""
    directory = data_dir / SNAPSHOT_DIRECTORY
    paths = [directory / name for name in _names(directory)]
    return sorted((path for path in paths if snapshot_seq_of(path) is not None), reverse=True)


def has_log(data_dir: Path) -> bool:
    """Say whether the directory holds a log (policy `memory` must then refuse it)."""
    return bool(list_segments(data_dir))


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def confirm_names(data_dir: Path) -> None:
    """Make the names in a data directory durable, and its own.

    A start that is killed between a rename and the sync of its directory leaves a file that is
    there; a power loss would take its name, and with it all that was synced into the file since.

    Raises:
        JournalError: the disk refused.
    """
    for directory in (data_dir, data_dir / WAL_DIRECTORY, data_dir / SNAPSHOT_DIRECTORY):
        with explained("sync", directory), contextlib.suppress(FileNotFoundError):
            sync_directory(directory)
    # Others may own the directory above; then they have made ours.
    with explained("sync", data_dir.parent), contextlib.suppress(PermissionError):
        sync_directory(data_dir.absolute().parent)


def make_directory(path: Path, flag: str = "--data") -> None:
    """Make a directory and those above it, each durable in its parent.

    Args:
        path: the directory; it may be there.
        flag: what names another one, for the sentence of an error.

    Raises:
        UsageError: it cannot be made, or the path is something else.
    """
    try:
        _make_directory(path)
        is_one = path.is_dir()
    except OSError as error:
        raise UsageError(
            f"cannot make the directory {path}: {error.strerror}; choose another with {flag}."
        ) from error
    if not is_one:
        raise UsageError(f"{path} is not a directory; choose another with {flag}.")


def make_inner_directory(path: Path) -> None:
    """Make a directory inside a data directory, durable in its parent.

    Raises:
        JournalError: the disk refused, or something else has the name.
    """
    with explained("make the directory", path):
        _make_directory(path)
        if not path.is_dir():
            raise JournalError(f"{path} is not a directory; move it away.")


def _make_directory(path: Path) -> None:
    missing = []
    place = Path(os.path.abspath(path))  # noqa: PTH100 (resolve() would follow a link)
    while not place.exists():
        missing.append(place)
        place = place.parent
    for place in reversed(missing):
        with contextlib.suppress(FileExistsError):
            place.mkdir(mode=DIRECTORY_MODE)
        sync_directory(place.parent)


def new_store_id() -> bytes:
    """Return 16 random bytes: the identity of a new data directory."""
    return os.urandom(16)


class DataFile:
    """A file open for reading, by offset."""

    def __init__(self, path: Path, flags: int = os.O_RDONLY) -> None:
        """Open it.

        Raises:
            JournalError: it cannot be opened, or is no regular file.
        """
        self.path = path
        self._flags = flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        self._resting: os.stat_result | None = None
        self.fd = -1
        self._open()

    def _open(self) -> os.stat_result:
        """Open it; what is not a file is refused by name, before a call on it says something odd.

        Nobody waits for the writer of a pipe (O_NONBLOCK).
        """
        with explained("open", self.path):
            if self.path.is_symlink():
                raise JournalError(
                    f"{self.path} is a symbolic link, which is not followed; put the file itself "
                    "there."
                )
            self.fd = os.open(self.path, self._flags)
            status = os.fstat(self.fd)
        if not stat.S_ISREG(status.st_mode):
            self.close()
            what = "directory" if stat.S_ISDIR(status.st_mode) else "pipe or a device"
            raise JournalError(
                f"{self.path} is a {what}, not a file; move it away, and restore the file that "
                "was there from a copy."
            )
        return status

    def rest(self) -> None:
        """Give the descriptor back until wake(): a long log has more files than may be open."""
        self._resting = os.fstat(self.fd)
        self.close()

    def wake(self) -> bool:
        """Open the file again if it rests; returns whether it did.

        Raises:
            JournalError: it is gone, or another file has its name.
        """
        was = self._resting
        if was is None:
            return False
        now = self._open()
        if (was.st_dev, was.st_ino) != (now.st_dev, now.st_ino):
            raise JournalError(f"{self.path} was replaced while the log was read; read it again.")
        self._resting = None
        return True

    def read_into(self, view: memoryview, offset_bytes: int) -> int:
        """Fill `view` from an offset; fewer bytes than it holds mean the end of the file."""
        done = 0
        with explained(f"read at byte {offset_bytes} of", self.path):
            while done < len(view):
                count = os.preadv(self.fd, [view[done:]], offset_bytes + done)
                if count == 0:
                    break
                done += count
        return done

    def read(self, length_bytes: int, offset_bytes: int) -> bytes:
        """Return bytes from an offset; fewer than asked for at the end of the file."""
        buffer = bytearray(length_bytes)
        count = self.read_into(memoryview(buffer), offset_bytes)
        return bytes(buffer[:count])

    def size_bytes(self) -> int:
        """Return the file's size; of one that rests, what it was."""
        if self._resting is not None:
            return self._resting.st_size
        with explained("look at", self.path):
            return os.fstat(self.fd).st_size

    def sync(self) -> None:
        """Make what the file holds durable.

        Raises:
            JournalError: the disk refused; what is read from the file now is not to be believed.
        """
        with explained("sync", self.path):
            os.fdatasync(self.fd)

    def forget_cached(self, offset_bytes: int) -> None:
        """Drop clean cached pages from an offset on, so that the next read is the disk's.

        After a failed sync the kernel may keep pages that never reached the disk and call them
        clean; a page that is really on disk loses nothing by this.
        """
        with contextlib.suppress(OSError):
            os.posix_fadvise(self.fd, offset_bytes & ~4095, 0, os.POSIX_FADV_DONTNEED)

    def will_be_read(self, offset_bytes: int) -> None:
        """Tell the kernel that all from an offset on is read soon, in order."""
        with contextlib.suppress(OSError):
            os.posix_fadvise(self.fd, offset_bytes, 0, os.POSIX_FADV_SEQUENTIAL)
            os.posix_fadvise(self.fd, offset_bytes, READ_AHEAD_BYTES, os.POSIX_FADV_WILLNEED)

    def close(self) -> None:
        """Close it; harmless when it is closed."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def __enter__(self) -> DataFile:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()


def open_segment(path: Path) -> int:
    """Open a segment for the journal's owner; returns the descriptor, which the caller closes."""
    with explained("open", path):
        return os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)


def write_all(fd: int, data: bytes | memoryview, offset_bytes: int) -> None:
    """Write all of `data` at an offset, however many calls it takes."""
    view = memoryview(data)
    while view:
        count = os.pwrite(fd, view, offset_bytes)
        if count == 0:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        view = view[count:]
        offset_bytes += count


def write_zeros(fd: int, start_bytes: int, end_bytes: int) -> None:
    """Write zeros from one offset to another: real blocks, not a hole.

    A hole or an unwritten extent would cost the first sync of each block a change of metadata.
    """
    view = memoryview(ZEROS)
    while start_bytes < end_bytes:
        length_bytes = min(len(view), end_bytes - start_bytes)
        write_all(fd, view[:length_bytes], start_bytes)
        start_bytes += length_bytes


def _passed(path: Path, step: str) -> None:
    """Pass a kill point on a file's way to its final name."""
    if kind := _KINDS.get(path.suffix):
        passed(f"{kind}_{step}")


def create_file(
    path: Path,
    chunks: Iterable[bytes | memoryview],
    size_bytes: int = 0,
    doing: str = "write",
) -> None:
    """Make a file whole and durable under its name, or not at all.

    Args:
        path: its final name; what has this name is replaced.
        chunks: its bytes, in order.
        size_bytes: fill up to this size with zeros.
        doing: verb of the sentence that an error says.

    Raises:
        JournalError: the disk refused. Nothing has the final name; if something had it before, it
            is that or the new file, each whole.
    """
    new = path.with_name(path.name + NEW_SUFFIX)
    with explained(doing, path):
        was_there = path.exists()
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(new, flags, FILE_MODE)
        _passed(path, "created")
        try:
            offset_bytes = 0
            for chunk in chunks:
                for start in range(0, len(chunk), SYNC_BYTES):
                    piece = memoryview(chunk)[start : start + SYNC_BYTES]
                    write_all(fd, piece, offset_bytes)
                    offset_bytes += len(piece)
                    if len(piece) == SYNC_BYTES:
                        os.fdatasync(fd)
            write_zeros(fd, offset_bytes, size_bytes)
            _passed(path, "written")
            os.fsync(fd)
            _passed(path, "synced")
        except BaseException:
            with contextlib.suppress(OSError):
                new.unlink()
            raise
        finally:
            os.close(fd)
        new.rename(path)
        _passed(path, "renamed")
        try:
            sync_directory(path.parent)
        except BaseException:
            # It has the name, and nobody knows whether it keeps it.
            if not was_there:
                with contextlib.suppress(OSError):
                    path.unlink()
            raise
        _passed(path, "durable")


def remove_durably(path: Path) -> None:
    """Remove a file; its name is gone for good when this returns."""
    with explained("remove", path):
        path.unlink()
        passed("file_removed")
        sync_directory(path.parent)


def move_durably(path: Path, target: Path) -> None:
    """Give a file another name, perhaps in another directory or on another file system.

    A target that holds the same bytes is what a crash between copying and removing has left.

    Raises:
        JournalError: the target exists and is another file, or the disk refused.
    """
    if not os.path.lexists(target):
        try:
            path.rename(target)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise JournalError(f"cannot move {path}: {error.strerror}") from error
        else:
            passed("file_moved")
            with explained("move", path):
                # The new name first: between the two, a crash leaves both or the new one.
                sync_directory(target.parent)
                sync_directory(path.parent)
            return
        with DataFile(path) as source:
            create_file(target, _pieces(source, 0, source.size_bytes()))
    with DataFile(path) as source:
        if not _holds(target, source, 0, source.size_bytes()):
            raise JournalError(f"cannot move {path}: {target} is another file; move that away")
    with DataFile(target) as copy:
        copy.sync()
    with explained("sync", target.parent):
        sync_directory(target.parent)
    remove_durably(path)


def remove_unfinished(directory: Path) -> None:
    """Remove what a crash left under a `.new` name; the owner of the directory may.

    Raises:
        JournalError: something of that name cannot be removed, and would be in the way later.
    """
    for name in _names(directory):
        if name.endswith(NEW_SUFFIX):
            with explained("remove the unfinished file", directory / name):
                (directory / name).unlink()


def cut_tail(path: Path, offset_bytes: int, torn_bytes: int, size_bytes: int) -> Path:
    """Replace a torn tail by zeros, after saving it beside the file.

    Whatever step a crash comes after, the next recovery finds the torn tail again, a shorter file
    or zeros, all of which mean the same log.

    Args:
        path: the segment.
        offset_bytes: where the tail begins.
        torn_bytes: how many bytes of it are worth saving (the rest is zeros).
        size_bytes: size that the file has in the end, at least what it had.

    Returns:
        The file that holds the cut bytes.
    """
    with DataFile(path, os.O_RDWR) as segment:
        size_bytes = max(size_bytes, segment.size_bytes())
        saved = _torn_path(segment, offset_bytes, torn_bytes)
        create_file(saved, _pieces(segment, offset_bytes, torn_bytes))
        with explained("cut the torn tail of", path):
            os.ftruncate(segment.fd, offset_bytes)
            passed("tail_truncated")
            write_zeros(segment.fd, offset_bytes, size_bytes)
            passed("tail_zeroed")
            os.fsync(segment.fd)
            sync_directory(path.parent)
            passed("tail_durable")
    return saved


def set_aside(path: Path, torn_bytes: int) -> Path | None:
    """Take a segment that was not begun out of the log: removed, or renamed if it holds anything.

    Returns:
        The file that holds what was there; None when it held zeros only.
    """
    if not torn_bytes:
        remove_durably(path)
        return None
    with DataFile(path) as segment:
        saved = _torn_path(segment, 0, torn_bytes)
    if os.path.lexists(saved):
        remove_durably(path)
    else:
        move_durably(path, saved)
    return saved


def _pieces(file: DataFile, offset_bytes: int, length_bytes: int) -> Iterator[bytes]:
    """Read part of a file a mebibyte at a time: a tail may be as large as a segment."""
    end_bytes = offset_bytes + length_bytes
    while offset_bytes < end_bytes:
        piece = file.read(min(len(ZEROS), end_bytes - offset_bytes), offset_bytes)
        if not piece:
            return
        yield piece
        offset_bytes += len(piece)


def _torn_path(segment: DataFile, offset_bytes: int, torn_bytes: int) -> Path:
    """Return a name that is free, or taken by the same bytes (a crash came between)."""
    number = 1
    while True:
        suffix = f".{offset_bytes}.torn" if number == 1 else f".{offset_bytes}-{number}.torn"
        candidate = segment.path.with_name(segment.path.name + suffix)
        if not os.path.lexists(candidate) or _holds(candidate, segment, offset_bytes, torn_bytes):
            return candidate
        number += 1


def _holds(candidate: Path, segment: DataFile, offset_bytes: int, torn_bytes: int) -> bool:
    """Say whether a file holds exactly a part of another one."""
    with DataFile(candidate) as saved:
        return saved.size_bytes() == torn_bytes and all(
            ours == theirs
            for ours, theirs in zip(
                _pieces(saved, 0, torn_bytes),
                _pieces(segment, offset_bytes, torn_bytes),
                strict=True,
            )
        )


class DataLock:
    """Ownership of a data directory: an exclusive flock on DIR/lock.

    The lock goes with the process, however it ends; the descriptor is not inherited. The pid in the
    file is for people: nobody decides anything by it. A lock on a file that no longer has the name
    (unlinked, replaced) counts for nothing, so the inode is compared after locking. The directory
    is locked as well: somebody who removes a "stale" lock file lets no second daemon in.
    """

    def __init__(self, data_dir: Path) -> None:
        """Name the directory; nothing is done yet."""
        self.data_dir = data_dir
        self.path = data_dir / LOCK_NAME
        self.fd = -1
        self._directory_fd = -1

    def acquire(self) -> None:
        """Own the directory, which is made if it is missing.

        Raises:
            OwnershipError: another process owns it.
            UsageError: it cannot be made or written.
        """
        make_directory(self.data_dir)
        while self.fd < 0:
            try:
                fd = os.open(
                    self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, FILE_MODE
                )
            except OSError as error:
                raise UsageError(
                    f"cannot write in the data directory {self.data_dir}: {error.strerror}; "
                    "correct its permissions or choose another with --data."
                ) from error
            try:
                if not stat.S_ISREG(os.fstat(fd).st_mode):
                    raise UsageError(
                        f"{self.path} is not a regular file; remove it, or choose another "
                        "directory with --data."
                    )
                self._lock(fd)
                if self._is_named(fd):
                    self._lock_directory()
                    self.fd = fd
            finally:
                if self.fd != fd:
                    os.close(fd)
        with explained("write", self.path):
            os.ftruncate(self.fd, 0)
            write_all(self.fd, f"{os.getpid()}\n".encode(), 0)

    def _lock(self, fd: int) -> None:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise UsageError(f"cannot lock {self.path}: {error.strerror}.") from error
            text = os.pread(fd, 20, 0).decode("ascii", "replace").strip()
            whose = f" (its lock file says pid {text})" if text.isdigit() else ""
            raise OwnershipError(
                f"the data directory {self.data_dir} is in use by another daemon{whose}; "
                "stop that one first, or choose another directory with --data."
            ) from error

    def _lock_directory(self) -> None:
        """Lock the directory itself, where its file system can (NFS cannot)."""
        fd = os.open(self.data_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(fd)
            if error.errno == errno.EWOULDBLOCK:
                raise OwnershipError(
                    f"the data directory {self.data_dir} is in use by another daemon, whose lock "
                    "file was removed; stop that one first, or choose another directory with "
                    "--data."
                ) from error
        else:
            self._directory_fd = fd

    def _is_named(self, fd: int) -> bool:
        try:
            named = self.path.lstat()
        except FileNotFoundError:
            return False
        locked = os.fstat(fd)
        return (named.st_dev, named.st_ino) == (locked.st_dev, locked.st_ino)

    def is_held(self) -> bool:
        """Say whether this object still owns the directory: locked, and the file has its name."""
        return self.fd >= 0 and self._is_named(self.fd)

    def release(self) -> None:
        """Give the directory up; the file stays, for the next to lock."""
        # The file last: whoever has it finds the directory free.
        for fd in (self._directory_fd, self.fd):
            if fd >= 0:
                os.close(fd)
        self._directory_fd = self.fd = -1

    def __enter__(self) -> DataLock:
        """Own the directory."""
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        """Give it up."""
        self.release()


def is_owned(data_dir: Path) -> bool:
    """Say whether a process owns a data directory now, without touching its lock.

    Asking by locking would make a daemon that starts in that instant fail, so this reads the
    kernel's table. Some file systems (Btrfs) show another device number there than stat does; then
    the pid in the lock file must be that of the lock. Where /proc is missing the answer is no.
    """
    path = data_dir / LOCK_NAME
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode):
            return False  # reading a pipe would wait for somebody to write
        pid = path.read_text(encoding="ascii", errors="replace").strip()
        table = Path("/proc/locks").read_text(encoding="ascii")
    except OSError:
        return False
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}"
    for line in table.splitlines():
        # 1: FLOCK  ADVISORY  WRITE 4711 fe:00:8421 0 EOF; a waiting one has an arrow before FLOCK.
        fields = line.split()
        if len(fields) < 6 or fields[1] != "FLOCK":
            continue
        where, _, inode = fields[5].rpartition(":")
        if inode == str(status.st_ino) and (where == device or fields[4] == pid):
            return True
    return False
