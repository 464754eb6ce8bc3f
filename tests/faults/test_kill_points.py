"""kill -9 of the real daemon at each named point (rows C1, C5, S1, S4 of docs/durability.md)."""

import contextlib
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bourse.core import killpoint
from bourse.core.killpoint import POINTS
from bourse.errors import BourseError
from bourse.journal.replay import replay
from tests.faults.story import KILLED, Story, tear_tail
from tests.integration.harness import ROUNDS, Daemon

ROOT = Path(__file__).resolve().parents[2]

# How often a point has been passed by the time of the kill: a command each, a batch or turn each.
TRADING = {
    "frame_read": (5, 400),
    "in_ring": (3, 60),
    "recorded": (5, 60),
    "matched": (5, 400),
    "before_write": (5, 40),
    "after_write": (5, 40),
    "before_sync": (5, 40),
    "after_sync_before_ack": (5, 40),
    "mid_fan_out": (1, 20),
    "after_ack": (2, 40),
}
# The first one is made before anybody trades.
ROTATION = {
    "spare_filled": (2, 3),
    "spare_renamed": (1, 2),
    "spare_named": (1, 2),
    "segment_begun": (1, 2),
}
RETENTION = {"file_removed": "delete", "file_moved": "archive"}
LOGGED_UNSEEN = ("after_write", "before_sync", "after_sync_before_ack")
"""Points where a batch is in the log whose clients cannot know of it."""
SNAPSHOT = [name for name in POINTS if name.startswith("snapshot_")]
SEGMENT = [name for name in POINTS if name.startswith("segment_") and name not in ROTATION]
RECOVERY = [name for name in POINTS if name.startswith(("recovery_", "tail_", "torn_"))]
EVERY_POINT = ROUNDS > 1
"""`make torture` kills at every point of everything; `make test` at some of the slow ones."""


def at(point: str, count: int = 1) -> dict[str, str]:
    return {killpoint.VARIABLE: f"{point}:{count}"}


def test_every_point_is_killed_at_here() -> None:
    assert {*TRADING, *ROTATION, *RETENTION, *SNAPSHOT, *SEGMENT, *RECOVERY} == set(POINTS)


@pytest.mark.parametrize("durability", ["fsync", "async"])
def test_a_kill_at_each_point_of_a_commands_way_loses_and_repeats_nothing(
    new_daemon: Callable[..., Daemon], durability: str
) -> None:
    story = Story(new_daemon(durability=durability, poll="adaptive"), seed=21)
    rounds = ROUNDS if durability == "fsync" else max(1, ROUNDS // 5)
    points = list(TRADING) if durability == "fsync" or EVERY_POINT else ["after_write"]
    logged_unseen = 0
    for point in points * rounds:
        story.daemon.environment = at(point, story.random.randint(*TRADING[point]))

        assert story.live() == KILLED, point

        if point in LOGGED_UNSEEN:
            logged_unseen += story.owed_unseen
    # Not at each kill: a batch may hold nothing but the sessions that begin.
    assert logged_unseen > 0
    assert story.acknowledged_bytes > 0
    story.end()


def test_a_kill_at_each_step_of_a_change_of_segments_loses_and_repeats_nothing(
    new_daemon: Callable[..., Daemon],
) -> None:
    story = Story(new_daemon(poll="adaptive", wal_segment_bytes=1 << 16), seed=25)
    for point in list(ROTATION) * ROUNDS:
        story.daemon.environment = at(point, story.random.randint(*ROTATION[point]))

        assert story.live() == KILLED, point

    story.end()
    names = [path.name for path in (story.daemon.data_dir / "wal").iterdir()]
    assert len(names) >= 2 * ROUNDS
    assert not [name for name in names if name.endswith(".new")]


@pytest.mark.parametrize(("point", "policy"), RETENTION.items())
def test_a_kill_while_segments_are_given_up_leaves_a_log_without_a_gap(
    new_daemon: Callable[..., Daemon], point: str, policy: str
) -> None:
    daemon = new_daemon(
        poll="adaptive", wal_segment_bytes=1 << 16, wal_retention=policy, snapshots_kept=1
    )
    kills = 0
    for number in range(1, 1 + ROUNDS):
        # Retention takes the log's beginning away: each life is compared with what it left.
        story = Story(daemon, seed=26 + number)
        daemon.environment = at(point, number)
        snapshots = threading.Thread(target=ask_for_snapshots, args=(daemon,))

        def during(snapshots: threading.Thread = snapshots) -> None:
            if snapshots.ident is None:
                snapshots.start()

        daemon.start()
        kills += story.trade({}, clients=2, during=during) == KILLED
        snapshots.join()
        daemon.environment.clear()
        status = daemon.start().settled()
        result = replay(daemon.data_dir)
        assert int(status.state_digest, 16) == result.state_digest
        assert int(status.event_digest, 16) == result.event_digest
        assert result.snapshot_path is not None or result.records == result.last_wal_seq
        assert daemon.stop() == 0
    assert kills == ROUNDS


def ask_for_snapshots(daemon: Daemon) -> None:
    with contextlib.suppress(BourseError):
        while True:
            daemon.call("snapshot")
            time.sleep(0.05)


@pytest.mark.parametrize("keeps_older", [False, True] if EVERY_POINT else [True])
def test_a_kill_at_each_step_of_a_snapshot_leaves_the_old_or_the_new_one(
    new_daemon: Callable[..., Daemon], keeps_older: bool
) -> None:
    story = Story(new_daemon(poll="adaptive"), seed=22)
    daemon = story.daemon
    if keeps_older:
        daemon.start().call("snapshot")
        daemon.kill()
        story.compare({})
    for point in SNAPSHOT * ROUNDS:
        daemon.environment = at(point)
        taker = threading.Thread(target=ask_for_a_snapshot, args=(daemon,))

        def during(taker: threading.Thread = taker) -> None:
            if taker.ident is None:
                taker.start()

        assert story.live(during=during) == KILLED, point
        taker.join()
        # The replay compares its digests with those of each snapshot on the way: none is half.
        assert story.log is not None
        assert story.log.result.snapshots_skipped == ()
        assert not keeps_older or story.log.result.snapshots_compared > 0
    story.end()
    assert not list((daemon.data_dir / "snapshots").glob("*.new"))


def ask_for_a_snapshot(daemon: Daemon) -> None:
    with contextlib.suppress(BourseError):
        daemon.call("snapshot")


@pytest.mark.parametrize("point", SEGMENT if EVERY_POINT else ["segment_renamed"])
def test_a_kill_while_the_first_segment_is_made_leaves_a_directory_that_starts(
    new_daemon: Callable[..., Daemon], point: str
) -> None:
    story = Story(new_daemon(), seed=23)
    story.daemon.environment = at(point)

    assert story.live() == KILLED

    story.end()


def test_a_kill_at_each_step_of_a_recovery_is_harmless(new_daemon: Callable[..., Daemon]) -> None:
    """One directory, killed again and again as it recovers from a torn tail: rows C5 and W1."""
    story = Story(new_daemon(), seed=24)
    daemon = story.daemon
    daemon.environment = at("after_write", 20)
    assert story.live() == KILLED
    daemon.environment = at("after_ack", 5)
    for point in RECOVERY * ROUNDS if EVERY_POINT else RECOVERY[::2]:
        tear_tail(daemon.data_dir, story.random)
        daemon.environment = at(point)

        assert story.live() == KILLED, point

    # Every recovery but the last was cut short; this one is not, and sees a torn tail for the last
    # time.
    tear_tail(daemon.data_dir, story.random)
    story.end()
    assert list((daemon.data_dir / "wal").glob("*.torn"))
    assert not list((daemon.data_dir / "wal").glob("*.new"))


def test_points_have_the_numbers_that_compiled_code_knows_them_by() -> None:
    text = (ROOT / "bourse/core/killpoint.pxd").read_text()
    listed = re.findall(r"^    ([A-Z_]+)$", text.split("cdef enum")[1].split("cdef int")[0], re.M)

    assert listed[0] == "NOWHERE"
    assert [name.lower() for name in listed[1:]] == list(POINTS)[: len(listed) - 1]


def test_each_point_is_passed_somewhere() -> None:
    sources = "\n".join(path.read_text() for path in (ROOT / "bourse").rglob("*.py"))
    for name in POINTS:
        kind, _, step = name.partition("_")
        assert (
            f"passing({name.upper()})" in sources
            or f'passed("{name}")' in sources
            or (kind in killpoint.FILE_KINDS and f'_passed(path, "{step}")' in sources)
        ), name


@pytest.mark.parametrize("text", ["nowhere", "frame_read:0", "frame_read:x", "frame_read:-1", ":3"])
def test_a_point_that_does_not_exist_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="kill point"):
        killpoint.arm(text)


def test_a_daemon_with_an_unknown_point_does_not_start(new_daemon: Callable[..., Daemon]) -> None:
    daemon = new_daemon()
    daemon.environment = at("after_lunch")

    assert daemon.spawn().wait() == 2

    assert daemon.log_lines("after_lunch", "bourse doctor --kill-points")
    assert not daemon.data_dir.exists()
