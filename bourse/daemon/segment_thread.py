"""The segment thread: the log's next file is there before it is needed; without the GIL.

    1. filled  wal-<index>.new, zeros to its full size, synced       when the one before is in use
    2. named   renamed to wal-<index>-<first>.log, directory synced  when the journal plans it
    3. begun   header and first batch, by the journal thread         when record <first> is due

The journal thread plans some records ahead, so none of this is in the way of an acknowledgement.
Real zeros, not a hole: a sync of what is written over them writes no metadata.

A disk that is too full for the file is no failure, nor is a moment without a free descriptor (more
clients than the system's limit allows for): the journal goes on in what it has, and filling is
tried again each second. Every other error, a name that finds no room too, ends the daemon like
an error of the log itself.
"""

import os

import cython
from cython.cimports.bourse.core.atomics import (
    load_acquire,
    load_seq_cst,
    store_relaxed,
    store_release,
    store_seq_cst,
)
from cython.cimports.bourse.core.killpoint import (
    SPARE_FILLED,
    SPARE_NAMED,
    SPARE_RENAMED,
    passing,
)
from cython.cimports.bourse.core.parking import (
    doorbell_arm,
    doorbell_disarm,
    doorbell_ring,
    doorbell_sleep,
)
from cython.cimports.bourse.daemon.shared import Shared, SharedMemory, mono_ns
from cython.cimports.libc.errno import EDQUOT, EINTR, EIO, EMFILE, ENFILE, ENOSPC, errno
from cython.cimports.libc.stdint import int64_t, uint8_t, uint64_t
from cython.cimports.libc.stdio import rename, snprintf
from cython.cimports.libc.stdlib import calloc, free
from cython.cimports.posix.fcntl import open as open_file
from cython.cimports.posix.unistd import close, fsync, pwrite, unlink

from bourse.journal.storage import FILE_MODE, SYNC_BYTES, ZEROS

RETRY_NS = 1_000_000_000
"""How long after a full disk filling is tried again."""
FILL_BYTES = len(ZEROS)
PATH_BYTES = 4096

_RETRY_NS = cython.declare(cython.longlong, RETRY_NS)
_FILL_BYTES = cython.declare(cython.ulonglong, FILL_BYTES)
_SYNC_BYTES = cython.declare(cython.ulonglong, SYNC_BYTES)
_PATH_BYTES = cython.declare(cython.int, PATH_BYTES)
_FLAGS = cython.declare(
    cython.int, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
)
_MODE = cython.declare(cython.int, FILE_MODE)


@cython.final
@cython.cclass
class SegmentThread:
    """Maker of the log's next segment; `run()` is the thread's body.

    It returns after the journal thread is done, or after a disk error. A segment that was made and
    not begun by then is removed.
    """

    memory: SharedMemory
    directory: bytes
    directory_fd: cython.int
    segment_bytes: uint64_t
    # Owned by this thread.
    filled_index: uint64_t
    named_seq: uint64_t
    named_index: uint64_t
    fd: cython.int
    retry_ns: int64_t
    zeros: cython.pointer[uint8_t]
    spare_path: cython.char[4096]
    final_path: cython.char[4096]

    def __cinit__(self):
        self.fd = -1
        self.directory_fd = -1
        self.zeros = cython.cast(cython.pointer[uint8_t], calloc(FILL_BYTES, 1))
        if self.zeros == cython.NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.zeros)
        if self.directory_fd >= 0:
            close(self.directory_fd)

    def __init__(
        self, memory: SharedMemory, directory: object, segment_bytes: cython.ulonglong
    ) -> None:
        """Make segments of `segment_bytes` in the log's directory.

        Raises:
            OSError: the directory cannot be opened.
            ValueError: its path is too long.
        """
        if memory is None:
            raise TypeError("the shared memory is needed")
        self.memory = memory
        self.directory = os.fsencode(directory)
        if len(self.directory) > PATH_BYTES - 64:
            raise ValueError(f"the path {directory} is too long")
        self.directory_fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self.segment_bytes = segment_bytes

    def run(self) -> None:
        """Serve until the journal is done or the disk fails; never holds the GIL meanwhile."""
        directory: cython.p_char = self.directory
        with cython.nogil:
            while self._go_on(directory):
                self._wait()

    def step(self) -> bool:
        """Do what run() would do now, and return where it would wait.

        For a caller that decides itself in which order the threads take turns (tests/simulation).

        Returns:
            False when run() would have returned.
        """
        directory: cython.p_char = self.directory
        going: cython.bint
        with cython.nogil:
            going = self._go_on(directory)
        return going

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _go_on(self, directory: cython.p_char) -> cython.bint:
        """Fill or name what is due; False at the end, or when the disk failed."""
        shared: cython.pointer[Shared] = self.memory.shared
        planned_seq: uint64_t
        if self._is_over():
            if not load_acquire(cython.address(shared.failed_errno)):
                self._remove_unbegun()
            return False
        if self.filled_index <= load_acquire(cython.address(shared.segment_index)) and (
            mono_ns() >= self.retry_ns
        ):
            if not self._fill(directory, shared.segment_index + 1):
                return False
        planned_seq = load_acquire(cython.address(shared.next_first_seq))
        if planned_seq > self.named_seq:
            return self._name(directory, planned_seq)
        return True

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _is_over(self) -> cython.bint:
        shared: cython.pointer[Shared] = self.memory.shared
        return (
            load_seq_cst(cython.address(shared.journal_done)) != 0
            or load_seq_cst(cython.address(shared.failed_errno)) != 0
        )

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _wait(self) -> cython.void:
        """Sleep until the journal has something, or it is time to try again."""
        shared: cython.pointer[Shared] = self.memory.shared
        timeout_ns: int64_t = -1
        doorbell_arm(cython.address(shared.segment_bell))
        if (
            not self._is_over()
            and load_seq_cst(cython.address(shared.next_first_seq)) <= self.named_seq
        ):
            if self.filled_index <= load_seq_cst(cython.address(shared.segment_index)):
                timeout_ns = self.retry_ns - mono_ns()
                if timeout_ns < 0:
                    timeout_ns = 0
            doorbell_sleep(cython.address(shared.segment_bell), timeout_ns)
        doorbell_disarm(cython.address(shared.segment_bell))

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _fill(self, directory: cython.p_char, index: uint64_t) -> cython.bint:
        """Make the next segment's file; False when the disk failed, or all is over."""
        shared: cython.pointer[Shared] = self.memory.shared
        done: uint64_t = 0
        synced: uint64_t = 0
        chunk: uint64_t
        result: cython.Py_ssize_t
        snprintf(
            cython.address(self.spare_path[0]), _PATH_BYTES, b"%s/wal-%08llu.new", directory, index
        )
        self.fd = open_file(cython.address(self.spare_path[0]), _FLAGS, _MODE)
        if self.fd < 0:
            return self._refused(errno)
        while done < self.segment_bytes:
            if self._is_over():
                self._drop()
                return False
            chunk = self.segment_bytes - done
            if chunk > _FILL_BYTES:
                chunk = _FILL_BYTES
            result = pwrite(self.fd, self.zeros, chunk, done)
            if result < 0:
                if errno == EINTR:
                    continue
                return self._refused(errno)
            if result == 0:
                return self._refused(EIO)
            done += result
            if done - synced >= _SYNC_BYTES or done == self.segment_bytes:
                if fsync(self.fd) != 0:
                    return self._refused(errno)
                synced = done
        passing(SPARE_FILLED)
        self.filled_index = index
        self.retry_ns = 0
        store_relaxed(cython.address(shared.spare_errno), 0)
        store_relaxed(cython.address(shared.spare_bytes), done)
        store_relaxed(cython.address(shared.spare_fd), cython.cast(uint64_t, self.fd))
        store_release(cython.address(shared.spare_index), index)
        return True

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _name(self, directory: cython.p_char, first_wal_seq: uint64_t) -> cython.bint:
        """Give the file its name, for good; False when the disk failed."""
        shared: cython.pointer[Shared] = self.memory.shared
        snprintf(
            cython.address(self.final_path[0]),
            _PATH_BYTES,
            b"%s/wal-%08llu-%020llu.log",
            directory,
            self.filled_index,
            first_wal_seq,
        )
        if rename(cython.address(self.spare_path[0]), cython.address(self.final_path[0])) != 0:
            return self._fail(errno)
        passing(SPARE_RENAMED)
        if fsync(self.directory_fd) != 0:
            return self._fail(errno)
        passing(SPARE_NAMED)
        self.named_seq = first_wal_seq
        self.named_index = self.filled_index
        store_seq_cst(cython.address(shared.named_seq), first_wal_seq)
        doorbell_ring(cython.address(shared.journal_bell))
        return True

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _drop(self) -> cython.void:
        """Remove the file that is being filled."""
        if self.fd >= 0:
            close(self.fd)
            self.fd = -1
            unlink(cython.address(self.spare_path[0]))

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _refused(self, error: cython.int) -> cython.bint:
        """Try again later when the disk is full or no descriptor is free; else fail."""
        self._drop()
        if error != ENOSPC and error != EDQUOT and error != EMFILE and error != ENFILE:
            return self._fail(error)
        store_relaxed(cython.address(self.memory.shared.spare_errno), error)
        self.retry_ns = mono_ns() + _RETRY_NS
        return True

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _fail(self, error: cython.int) -> cython.bint:
        """Tell the gateway, which ends the daemon."""
        shared: cython.pointer[Shared] = self.memory.shared
        store_seq_cst(cython.address(shared.spare_failed_errno), error if error else EIO)
        doorbell_ring(cython.address(shared.gateway_bell))
        doorbell_ring(cython.address(shared.journal_bell))
        return False

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _remove_unbegun(self) -> cython.void:
        """Leave no file behind that the next start would only remove."""
        shared: cython.pointer[Shared] = self.memory.shared
        if self.filled_index <= load_acquire(cython.address(shared.segment_index)):
            return
        close(self.fd)
        self.fd = -1
        if self.named_index == self.filled_index:
            unlink(cython.address(self.final_path[0]))
        else:
            unlink(cython.address(self.spare_path[0]))
