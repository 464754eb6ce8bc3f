"""Run `bourse replay` beside the daemon and hold its digests against the live ones.

The replay is a process of its own: it reads the log while the daemon writes it, takes no lock, and
neither slows the matcher nor can bring the console down. Its digests belong to the last record that
it read. They are compared with what the live engine reported at exactly that wal_seq, if the
console happened to see it; when the exchange moved on in between, that is said, not hidden.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Mapping
from enum import Enum

import msgspec

from bourse.errors import BourseError
from bourse.tui.format import clean


class Verdict(Enum):
    """What the comparison came to."""

    EQUAL = "equal"
    DIFFERENT = "different"
    INCOMPARABLE = "incomparable"
    """The replay is fine; the live engine was never seen at that wal_seq."""
    FAILED = "failed"


class Digests(msgspec.Struct, frozen=True):
    """Both digests as `bourse replay --json` prints them."""

    state: str
    events: str


class ReplayReport(msgspec.Struct, frozen=True):
    """What `bourse replay --json` prints, as far as the console needs it."""

    records: int
    last_wal_seq: int
    digests: Digests
    resting_orders: int = 0
    seconds: float = 0.0
    records_per_s: float = 0.0


class ReplayOutcome(msgspec.Struct, frozen=True):
    """What one replay came to."""

    verdict: Verdict
    sentence: str
    """For a person: what was found."""
    report: ReplayReport | None = None


class ReplayError(BourseError):
    """The replay's process failed; the text is its own last sentence."""


def command(data_dir: str, until: int | None = None) -> list[str]:
    """Return the command line that replays a data directory."""
    words = [sys.executable, "-m", "bourse", "replay", "--wal", data_dir, "--json"]
    return words if until is None else [*words, "--until", str(until)]


async def run(words: list[str]) -> ReplayReport:
    """Run a replay to its end; a cancelled one takes its process with it.

    Raises:
        ReplayError: it ended with an error, or printed what is no report.
    """
    process = await asyncio.create_subprocess_exec(
        *words,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        output, complaints = await process.communicate()
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        raise
    if process.returncode != 0:
        raise ReplayError(_last_sentence(complaints, process.returncode))
    try:
        return msgspec.json.decode(output, type=ReplayReport)
    except msgspec.DecodeError as error:
        raise ReplayError(f"The replay printed no report that is understood ({error}).") from None


def judge(report: ReplayReport, live: Mapping[int, tuple[str, str]]) -> ReplayOutcome:
    """Compare a report with the live digests seen at each wal_seq."""
    at = f"@{report.last_wal_seq:,}"
    seen = live.get(report.last_wal_seq)
    if seen is None:
        return ReplayOutcome(
            Verdict.INCOMPARABLE,
            f"{report.records:,} records replayed to {at}; the live book has moved on, "
            "so its digest at that point is not known here.",
            report,
        )
    state_equal = _same(seen[0], report.digests.state)
    events_equal = _same(seen[1], report.digests.events)
    if state_equal and events_equal:
        return ReplayOutcome(
            Verdict.EQUAL,
            f"{report.records:,} records replayed to {at}: book and events equal the live ones.",
            report,
        )
    what = " and ".join(
        name for name, equal in (("book", state_equal), ("events", events_equal)) if not equal
    )
    return ReplayOutcome(
        Verdict.DIFFERENT,
        f"Replay and live engine differ at {at}: {what}. Keep the data directory and report it.",
        report,
    )


def failed(error: BaseException) -> ReplayOutcome:
    """Return the outcome of a replay that did not come to an end."""
    return ReplayOutcome(Verdict.FAILED, f"The replay failed: {error}")


def _same(one: str, other: str) -> bool:
    """Compare two digests, however they are spelled."""
    try:
        return int(one, 16) == int(other, 16)
    except ValueError:
        return False


def _last_sentence(complaints: bytes, code: int | None) -> str:
    lines = [line.strip() for line in complaints.decode(errors="replace").splitlines()]
    spoken = [line for line in lines if line]
    return clean(spoken[-1])[:300] if spoken else f"it ended with exit code {code}."
