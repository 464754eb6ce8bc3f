"""Run `bourse replay` beside the daemon and hold its digests against the live ones.

The replay is a process of its own: it reads the log while the daemon writes it, takes no lock, and
neither slows the matcher nor can bring the console down. What it proves has two strengths, and the
console says which one it was:

    EQUAL        the digests at its last record are those that the live engine reported to this
                 console at exactly that wal_seq: certain on an exchange at rest
    CHECKPOINTS  the exchange moved on, but each 1,000th record carries the digests that the live
                 engine had then; the replay ends at the first difference, and passed them all
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable, Mapping
from enum import Enum

import msgspec

from bourse.errors import BourseError
from bourse.tui.format import clean

CHECKPOINT_RECORDS = 1_000
"""Each record whose number this divides carries digests (docs: the log's format)."""


class Verdict(Enum):
    """What the comparison came to."""

    EQUAL = "equal"
    DIFFERENT = "different"
    CHECKPOINTS = "checkpoints"
    """Equal at every checkpoint in the log; the live engine has moved on since the last record."""
    INCOMPARABLE = "incomparable"
    """The same, but the log is too short to hold a checkpoint."""
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

    @property
    def checkpoints(self) -> int:
        """How many records with the live engine's digests it passed."""
        before = self.last_wal_seq - self.records
        return self.last_wal_seq // CHECKPOINT_RECORDS - before // CHECKPOINT_RECORDS


class ReplayOutcome(msgspec.Struct, frozen=True):
    """What one replay came to."""

    verdict: Verdict
    sentence: str
    """For a person: what was found."""
    report: ReplayReport | None = None
    live: tuple[str, str] | None = None
    """State and event digest of the live engine at the replay's last record, where it was seen."""


class ReplayError(BourseError):
    """The replay's process failed; the text is its own last sentence."""


def command(data_dir: str) -> list[str]:
    """Return the command line that replays a data directory."""
    return [
        sys.executable,
        "-P",
        "-m",
        "bourse",
        "replay",
        "--wal",
        data_dir,
        "--json",
        "--progress",
    ]


async def run(words: list[str], advance: Callable[[int, int], None] | None = None) -> ReplayReport:
    """Run a replay to its end; a cancelled one takes its process with it.

    Args:
        words: the command line.
        advance: told how many bytes of how many it has read, as it goes.

    Raises:
        ReplayError: it ended with an error, or printed what is no report.
    """
    process = await asyncio.create_subprocess_exec(
        *words,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=1 << 20,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        output, complaints = await asyncio.gather(
            process.stdout.read(), _complaints(process.stderr, advance)
        )
        await process.wait()
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


async def _complaints(
    stream: asyncio.StreamReader, advance: Callable[[int, int], None] | None
) -> bytes:
    """Read stderr to its end; lines of progress are told, the others kept."""
    kept: list[bytes] = []
    async for line in stream:
        words = line.split()
        if len(words) == 3 and words[0] == b"progress" and all(w.isdigit() for w in words[1:]):
            if advance is not None:
                advance(int(words[1]), int(words[2]))
        else:
            kept.append(line)
    return b"".join(kept)


def judge(report: ReplayReport, live: Mapping[int, tuple[str, str]]) -> ReplayOutcome:
    """Compare a report with the live digests seen at each wal_seq."""
    at = f"@{report.last_wal_seq:,}"
    seen = live.get(report.last_wal_seq)
    if seen is None:
        if report.checkpoints > 0:
            return ReplayOutcome(
                Verdict.CHECKPOINTS,
                f"{report.records:,} records replayed to {at}: equal to the live engine at all "
                f"{report.checkpoints:,} checkpoints; it has moved on since.",
                report,
            )
        return ReplayOutcome(
            Verdict.INCOMPARABLE,
            f"{report.records:,} records replayed to {at}; the live book has moved on, "
            "and so short a log holds no checkpoint. Try again when it is quiet.",
            report,
        )
    state_equal = _same(seen[0], report.digests.state)
    events_equal = _same(seen[1], report.digests.events)
    if state_equal and events_equal:
        return ReplayOutcome(
            Verdict.EQUAL,
            f"{report.records:,} records replayed to {at}: book and events equal the live ones.",
            report,
            seen,
        )
    what = " and ".join(
        name for name, equal in (("book", state_equal), ("events", events_equal)) if not equal
    )
    return ReplayOutcome(
        Verdict.DIFFERENT,
        f"Replay and live engine differ at {at}: {what}. Keep the data directory and report it.",
        report,
        seen,
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
