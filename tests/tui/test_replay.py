"""Replay beside the daemon: the process, its report, the comparison."""

import asyncio
import sys

import pytest

from bourse.tui import replay
from bourse.tui.replay import ReplayError, ReplayReport, Verdict

REPORT = (
    b'{"records":2500,"last_wal_seq":2500,"resting_orders":3,"best_bid":1,"best_ask":null,'
    b'"digests":{"state":"0x00ff","events":"0xab"},"seconds":0.5,"records_per_s":5000,'
    b'"torn_tail":false,"live":true}'
)


def run(program: str) -> ReplayReport:
    return asyncio.run(replay.run([sys.executable, "-c", program]))


@pytest.fixture
def report() -> ReplayReport:
    return run(f"print({REPORT.decode()!r})")


def test_a_report_is_read_and_what_is_new_in_it_ignored(report: ReplayReport) -> None:
    assert report.last_wal_seq == 2500
    assert report.digests.state == "0x00ff"
    assert report.checkpoints == 2


def test_digests_are_compared_at_that_wal_seq(report: ReplayReport) -> None:
    outcome = replay.judge(report, {2499: ("0", "0"), 2500: ("00000000000000ff", "ab")})

    assert outcome.verdict is Verdict.EQUAL
    assert "@2,500" in outcome.sentence


@pytest.mark.parametrize(
    ("live", "what"),
    [
        (("0xfe", "0xab"), "book."),
        (("0xff", "0xac"), "events."),
        (("0x1", "0x2"), "book and events."),
        (("", ""), "book and events."),
    ],
)
def test_a_difference_names_what_differs(
    report: ReplayReport, live: tuple[str, str], what: str
) -> None:
    outcome = replay.judge(report, {2500: live})

    assert outcome.verdict is Verdict.DIFFERENT
    assert what in outcome.sentence


def test_an_exchange_that_moved_on_leaves_the_checkpoints(report: ReplayReport) -> None:
    outcome = replay.judge(report, {2600: ("0xff", "0xab")})

    assert outcome.verdict is Verdict.CHECKPOINTS
    assert "all 2 checkpoints" in outcome.sentence


def test_a_short_log_that_moved_on_proves_nothing() -> None:
    report = ReplayReport(999, 999, replay.Digests("0x1", "0x2"))

    assert replay.judge(report, {}).verdict is Verdict.INCOMPARABLE


def test_a_failed_replay_says_its_last_sentence() -> None:
    program = (
        "import sys; sys.stderr.write('first\\nbourse: the log is corrupt\\n\\n'); sys.exit(65)"
    )

    with pytest.raises(ReplayError, match="the log is corrupt"):
        run(program)


def test_a_silent_failure_says_its_exit_code() -> None:
    with pytest.raises(ReplayError, match="exit code 7"):
        run("raise SystemExit(7)")


def test_what_is_no_report_is_refused() -> None:
    with pytest.raises(ReplayError, match="no report"):
        run("print('hello')")


def test_leaving_takes_the_process_along() -> None:
    async def scenario() -> int | None:
        words = [sys.executable, "-c", "import time; time.sleep(60)"]
        running = asyncio.create_task(replay.run(words))
        await asyncio.sleep(0.1)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return 0

    assert asyncio.run(scenario()) == 0


def test_the_command_is_this_pythons_own() -> None:
    assert replay.command("/data")[:5] == [sys.executable, "-P", "-m", "bourse", "replay"]
