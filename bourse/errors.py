"""The exceptions of bourse, split by whose fault it is.

BourseError                     anything that this package raises on purpose
├── UsageError                  a flag, file or argument is wrong; nothing was changed
│   └── ConfigError             a configuration file or value is wrong
├── UnavailableError            no daemon answers, or it went away
├── OwnershipError              another daemon owns the data directory, socket or port
├── ProtocolError               a peer broke a protocol
├── RefusedError                the engine refused what a program took for granted (reason)
├── AdminError                  the daemon refused an admin request (code, message)
└── JournalError                the log or a snapshot cannot be used
    └── CorruptError            damage that was durable once: file, offset, sequence, what was found
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bourse.domain import Reason


class BourseError(Exception):
    """Root of all; its text is one sentence for a person that says what to do.

    `exit_code` is what a command ends with when the error reaches its top.
    """

    exit_code = 1


class UsageError(BourseError):
    """A flag, file or argument is wrong; nothing was changed."""

    exit_code = 2


class ConfigError(UsageError):
    """A configuration file or value is wrong."""


class UnavailableError(BourseError):
    """No daemon answers, or it went away."""

    exit_code = 3


class OwnershipError(BourseError):
    """Another daemon owns the data directory, the socket or the port."""

    exit_code = 4


class ProtocolError(BourseError):
    """A peer broke a protocol."""

    exit_code = 5


class RefusedError(BourseError):
    """The engine refused to define an instrument, or to open or end a session."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.sentence)
        self.reason = reason


class AdminError(BourseError):
    """The daemon refused an admin request."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        """JSON-RPC error code (bourse.admin.messages.ErrorCode)."""


class JournalError(BourseError):
    """The log or a snapshot cannot be used."""

    exit_code = 65  # EX_DATAERR


class CorruptError(JournalError):
    """Damage to something that was durable once: never repaired, never skipped."""

    def __init__(self, path: Path, offset_bytes: int, sequence: int, found: str) -> None:
        self.path = path
        self.offset_bytes = offset_bytes
        self.sequence = sequence
        """wal_seq of the record that should be there; 0 for the file's header."""
        self.found = found
        super().__init__(
            f"{path} is corrupt at byte {offset_bytes} (record {sequence}): {found}. "
            "Nothing was changed; restore the file from a copy"
            + (
                f". For what is before it: {_replay_command(path, sequence - 1)}"
                if sequence
                else ""
            )
        )


def _replay_command(path: Path, until: int) -> str:
    """Return the command that shows the state before a damaged record."""
    place = path.parent.parent if path.parent.name == "wal" else path
    return f"bourse replay --wal {place} --until {until}"
