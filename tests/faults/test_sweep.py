"""Fail the n-th call of each kind, for n = 1 and on, in one scripted session (rows D1, D2, D3, S1).

The session: a new directory, orders one by one, a snapshot, a burst that changes segments, a stop;
then a recovery, orders, a stop. After the failure the directory is recovered without the shim:
nothing acknowledged is lost, nothing is there twice, no gap, and the digests are a replay's.
"""

import contextlib
import errno
import re
from collections.abc import Callable

import pytest

from bourse.errors import BourseError
from tests.faults.shim import FaultShim
from tests.faults.story import Story
from tests.integration.harness import ROUNDS, Client, Daemon, Orders, StartError, buy, pump
from tests.tally import tally

# Kind, error, and what a write takes before it fails.
SWEEPS = [
    ("write", errno.EIO, -1),
    ("write", errno.ENOSPC, 100),
    ("fdatasync", errno.EIO, -1),
    ("fsync", errno.EIO, -1),
    ("rename", errno.EIO, -1),
    ("open", errno.EIO, -1),
    ("open", errno.EMFILE, -1),
    ("ftruncate", errno.EIO, -1),
    ("unlink", errno.EACCES, -1),
]
EVERY_NTH = ROUNDS > 1
"""`make torture` sweeps n = 1, 2, 3, ...; `make test` takes a few of them."""
A_FEW = {
    ("write", errno.EIO): (5,),
    ("write", errno.ENOSPC): (6,),
    ("fdatasync", errno.EIO): (3,),
    ("fsync", errno.EIO): (3,),
    ("rename", errno.EIO): (2,),
    ("open", errno.EIO): (7,),
}
CALLS_MAX = 1_000
REFUSED = (1, 2, 65, 74)
"""Exit codes of a start that says in one sentence that the disk or the directory is at fault."""


def exchange(client: Client, source: Orders, count: int) -> None:
    """Send requests and wait until the last of them is answered, or the connection ends."""
    last = buy(1_000_000 + len(source.sent), 1, 100)  # rests or trades: it is always answered
    client.queue(source.batch(count - 1) + last.pack())
    source.sent.append(last)

    def is_answered() -> bool:
        ids = [getattr(one, "id", 0) or getattr(one, "taker", 0) for one in client.parse()]
        return last.id in ids

    pump([client], lambda: bool(client.ended) or is_answered())


def life(story: Story, snapshot: bool) -> int:
    """Start, trade, stop as far as the daemon goes; returns its exit code."""
    daemon = story.daemon
    try:
        daemon.start()
    except StartError as error:
        assert error.code in REFUSED, (error.code, error.stderr)
        story.compare({})
        return error.code
    met: dict[int, tuple[Client, Orders]] = {}
    source = Orders(story.random)
    with contextlib.ExitStack() as open_sockets:
        # It ends when the daemon has gone, or refused the snapshot.
        with contextlib.suppress(BourseError, OSError):
            client = daemon.connect()
            open_sockets.callback(client.close)
            met[daemon.session_of(client)] = (client, source)
            exchange(client, source, 1)
            exchange(client, source, 1)
            if snapshot:
                daemon.call("snapshot")
            # Enough to change segments in the first life.
            exchange(client, source, 700 if snapshot else 7)
            client.finish_sending()
            client.read_to_end()
        code = daemon.stop() if daemon.is_running else daemon.wait()
        for client, _ in met.values():
            client.read_to_end()
    assert code in (0, 74), (code, daemon.log())
    assert "Traceback" not in daemon.log()
    story.compare(met)
    return code


def last_durable(log: str) -> int:
    """The record that a daemon whose disk failed says was the last one on it; 0: it never ran."""
    found = re.findall(r"nothing was acknowledged after record (\d+)", log)
    return int(found[-1]) if found else 0


def run_with_a_failure(story: Story, shim: FaultShim, kind: str) -> bool:
    """Run the session; False when nothing failed."""
    failed = False
    for snapshot in (True, False):
        code = life(story, snapshot)
        if failed or not shim["failed"]:
            assert code == 0, story.daemon.log(all_starts=True)
        elif kind == "fdatasync":
            # Only the log is synced so: the end at once. What was sent after the failure had been
            # durable before it.
            assert code in REFUSED
            assert (shim["syncs_after"], shim["writes_after"]) == (0, 0)
            assert story.acknowledged_seq <= last_durable(story.daemon.log())
        failed = bool(shim["failed"])
    # What it said of our fault is no trouble.
    story.daemon.log_path.unlink()
    story.end()
    return failed


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("kind", "error", "short_bytes"), SWEEPS)
def test_the_nth_call_fails_and_nothing_acknowledged_is_lost(
    new_daemon: Callable[..., Daemon], shim: FaultShim, kind: str, error: int, short_bytes: int
) -> None:
    few = A_FEW.get((kind, error), ())
    if not EVERY_NTH and not few:
        pytest.skip("only in make torture")
    failures = 0
    for nth in range(1, CALLS_MAX) if EVERY_NTH else few:
        shim.reset()
        shim.plan(kind, nth, error, short_bytes=short_bytes)
        story = Story(new_daemon(poll="adaptive", wal_segment_bytes=1 << 16), seed=nth)
        story.daemon.environment = shim.environment(story.daemon.data_dir)

        failed = run_with_a_failure(story, shim, kind)

        failures += failed
        story.daemon.remove()
        if EVERY_NTH and not failed:
            break
        assert failed, f"the session makes fewer than {nth} calls of {kind}"
    tally(f"sessions in which a {kind} failed with {errno.errorcode[error]}", failures)
    assert failures or not few
