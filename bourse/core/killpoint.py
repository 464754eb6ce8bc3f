"""Named kill points: places where a test has the process end as `kill -9` would end it.

BOURSE_KILL_POINT=NAME:N makes the daemon send itself SIGKILL as it passes that point for the N-th
time. Without it nothing is armed, and a point in the hot path (killpoint.pxd, `passing`) is one
load and one branch that is never taken. `bourse doctor --kill-points` lists them.

Armed once, before the threads start; each point is passed by one thread only.
"""

import cython
from cython.cimports.libc.signal import SIGKILL
from cython.cimports.posix.signal import kill
from cython.cimports.posix.unistd import getpid, pause

VARIABLE = "BOURSE_KILL_POINT"
"""The environment variable that arms a point."""

FILE_KINDS = {"snapshot": "a snapshot", "segment": "a segment", "torn": "a cut torn tail"}
FILE_STEPS = {
    "created": "exists under its .new name, empty",
    "written": "has all its bytes, not synced",
    "synced": "is synced, still under its .new name",
    "renamed": "has its final name, its directory is not synced",
    "durable": "has its final name and its directory is synced",
}
"""What happens to each file that appears whole or not at all (journal/storage.py)."""

POINTS = {
    # In the order of killpoint.pxd: passed by compiled code.
    "frame_read": "a request was decoded, the matcher has not been shown it",
    "in_ring": "commands are in the command ring, visible to the matcher",
    "recorded": "a group's records are with the journal thread, none of it is matched",
    "matched": "a command was executed, its events are not published",
    "before_write": "a batch is encoded, nothing of it is written",
    "after_write": "a batch is written, not synced",
    "before_sync": "all that is written is about to be synced",
    "after_sync_before_ack": "the sync has returned, the release gate has not been told",
    "mid_fan_out": "one session was sent a turn's events, another has yet to be",
    "after_ack": "all sessions were sent a turn's events",
    "spare_filled": "the next segment is full of zeros and synced, and has no name yet",
    "spare_renamed": "the next segment has its name, its directory is not synced",
    "spare_named": "the next segment's name is synced, the journal has not been told",
    "segment_begun": "the journal has changed to the next segment, nothing is written to it",
    # Passed by Python code.
    "recovery_read": "recovery has executed the log and changed nothing",
    "recovery_confirmed": "recovery has synced the log's end and read it again",
    "tail_truncated": "recovery has cut the torn tail off",
    "tail_zeroed": "recovery has put zeros where the torn tail was, not synced",
    "tail_durable": "recovery's cut is synced",
    "recovery_cleared": "recovery has removed what a crash left unfinished",
    "file_removed": "a snapshot or segment is removed, its directory is not synced",
    "file_moved": "a segment is moved to the archive, neither directory is synced",
    **{
        f"{kind}_{step}": f"{what} {happened}"
        for kind, what in FILE_KINDS.items()
        for step, happened in FILE_STEPS.items()
    },
}
"""Name of each point and what has happened when it is passed."""

_NUMBERS = {name: number for number, name in enumerate(POINTS, 1)}

armed = cython.declare(cython.int, 0)
_left = cython.declare(cython.longlong, 0)


def arm(text: str) -> None:
    """Arm a point: `NAME` or `NAME:N`; the empty text disarms.

    Raises:
        ValueError: there is no such point, or N is no positive number; nothing was changed.
    """
    global armed, _left
    name, _, times = text.partition(":")
    if text and name not in _NUMBERS:
        raise ValueError(f"there is no kill point {name!r}")
    count = int(times or "1") if (times or "1").isdecimal() else 0
    if count < 1:
        raise ValueError(f"kill point {name}: {times!r} is no number from 1 on")
    _left = count
    armed = _NUMBERS[name] if text else 0


def passed(name: str) -> None:
    """Say that a point was passed; for code that holds the GIL."""
    number: cython.int = _NUMBERS[name]
    if armed == number:
        count_down()


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def count_down() -> cython.void:
    """Count a passing of the armed point; at the last one this is the end."""
    global _left
    _left -= 1
    if _left == 0:
        kill(getpid(), SIGKILL)
        while True:
            # The signal is on its way; nothing more may happen here.
            pause()
