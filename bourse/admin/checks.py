"""What must hold for a run to count: checks, and the one that a log replays to what was live."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from bourse.core.records import digest_text
from bourse.errors import BourseError


class Check(msgspec.Struct, frozen=True):
    """One thing that must hold."""

    name: str
    ok: bool
    detail: str = ""


def exit_code_of(checks: Iterable[Check]) -> int:
    """Return 0 when every check is ok, else 1."""
    return 0 if all(check.ok for check in checks) else 1


def replay_check(data_dir: Path, state_digest: str, event_digest: str) -> Check:
    """Replay the whole log in this process and compare with what the live engine said last."""
    from bourse.journal.replay import replay

    try:
        found = replay(data_dir)
    except BourseError as error:
        return Check("replay_equal", False, str(error))
    replayed = digest_text(found.state_digest), digest_text(found.event_digest)
    return Check(
        "replay_equal",
        replayed == (state_digest, event_digest),
        f"{found.records} records, {' '.join(replayed)}",
    )
