"""A daemon of one's own: on a free port, with a temporary data directory, removed afterwards."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from bourse.admin.launch import DaemonProcess
from bourse.domain import Durability, PollMode
from bourse.errors import UsageError
from bourse.journal.filesystem import is_memory_filesystem


def scratch_parent(durability: Durability, wanted: Path | None) -> Path:
    """Choose where the temporary data directory goes: on a disk, unless nothing is stored.

    Raises:
        UsageError: there is no such directory.
    """
    if wanted is not None:
        if not wanted.is_dir():
            raise UsageError(f"--data {wanted} is not a directory; name one that exists")
        return wanted
    candidates = [Path(tempfile.gettempdir()), Path("/var/tmp"), Path.home(), Path.cwd()]
    usable = [path for path in candidates if path.is_dir() and os.access(path, os.W_OK)]
    if not usable:
        raise UsageError("no temporary directory is writable; name one with --data")
    if durability is Durability.MEMORY:
        return usable[0]
    return next((path for path in usable if not is_memory_filesystem(path)), usable[0])


class PrivateDaemon(DaemonProcess):
    """A daemon for one measurement; its data directory goes with it."""

    def __init__(
        self,
        durability: Durability,
        poll: PollMode,
        parent: Path | None = None,
        arguments: Sequence[str] = (),
    ) -> None:
        """Start it under `parent` (None: a place on a disk)."""
        self.scratch = Path(
            tempfile.mkdtemp(prefix="bourse-bench-", dir=scratch_parent(durability, parent))
        )
        # Not inside `scratch`: a socket's path has at most 107 bytes.
        self.socket_dir = Path(tempfile.mkdtemp(prefix="bourse-"))
        self.data_dir = self.scratch / "data"
        try:
            super().__init__(
                [
                    *("--data", str(self.data_dir), "--listen", "127.0.0.1:0"),
                    *("--durability", durability.label, "--poll", poll.label),
                    *("--admin", str(self.socket_dir / "admin.sock"), *arguments),
                ],
                self.scratch / "log",
            )
        except BaseException:
            self.remove()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, traceback)
        self.remove()

    def remove(self) -> None:
        """Remove everything that it wrote."""
        shutil.rmtree(self.scratch, ignore_errors=True)
        shutil.rmtree(self.socket_dir, ignore_errors=True)
