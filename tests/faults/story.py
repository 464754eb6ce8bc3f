"""Many lives of one data directory: trade until the daemon is gone, compare, go on.

The oracle, after each life: every byte that a client received is what the log owes it, in order and
once; the log holds what clients sent, in order, once, without a gap; the past has not changed; and
the daemon that recovers has the digests of a replay of the log.
"""

from __future__ import annotations

import random
import signal
from collections.abc import Callable
from pathlib import Path

from bourse.domain import EventKind
from bourse.errors import BourseError
from bourse.journal import storage
from tests.integration.harness import (
    Client,
    Daemon,
    LogView,
    Orders,
    StartError,
    packed,
    pump,
    request_key,
)
from tests.tally import tally

LIFE_SECONDS_MAX = 20.0
KILLED = -signal.SIGKILL


class Story:
    """One data directory and everything that was ever acknowledged from it."""

    def __init__(self, daemon: Daemon, seed: int) -> None:
        self.daemon = daemon
        self.random = random.Random(seed)
        self.log: LogView | None = None
        self.owed_unseen = 0
        """Bytes that the log of the last life owes to clients who did not receive them."""
        self.acknowledged_bytes = 0
        self.acknowledged_seq = 0
        """Last record of which a client heard anything in the last life; 0: none."""

    # --- a life

    def live(self, clients: int = 3, during: Callable[[], None] | None = None) -> int:
        """Start, trade until the daemon is gone, compare; return its exit code."""
        met: dict[int, tuple[Client, Orders]] = {}
        try:
            self.daemon.start()
            code = self.trade(met, clients, during)
        except StartError as error:
            code = error.code
        if code == KILLED:
            tally("kill -9 at a named point")
        self.compare(met)
        return code

    def trade(
        self,
        met: dict[int, tuple[Client, Orders]],
        clients: int,
        during: Callable[[], None] | None = None,
    ) -> int:
        """Trade until the daemon is gone; return its exit code."""
        connections: list[Client] = []
        try:
            for _ in range(clients):
                client = self.daemon.connect()
                connections.append(client)
                met[self.daemon.session_of(client)] = (client, Orders(self.random))
        except (BourseError, OSError):
            # It went while they connected: they have sent nothing.
            return self.daemon.wait(LIFE_SECONDS_MAX)

        def feed() -> None:
            for client, source in met.values():
                if len(client.outgoing) < 1024 and not client.ended:
                    client.queue(source.batch(self.random.randrange(1, 9)))
            if during is not None:
                during()

        pump(connections, lambda: all(c.ended for c in connections), LIFE_SECONDS_MAX, feed)
        return self.daemon.wait(LIFE_SECONDS_MAX)

    # --- what must hold

    def compare(self, met: dict[int, tuple[Client, Orders]]) -> None:
        """Compare what the clients of a life saw with the log."""
        if not storage.list_segments(self.daemon.data_dir):
            assert self.log is None, "the log is gone"
            assert not any(client.received for client, _ in met.values())
            return
        self.log = LogView.of(self.daemon.data_dir, since=self.log)
        self.owed_unseen = compare_clients(self.log, met)
        self.acknowledged_bytes += sum(len(client.received) for client, _ in met.values())
        self.acknowledged_seq = last_acknowledged(self.log, met)

    def end(self) -> None:
        """Recover once more without a fault, compare digests, trade, stop in order."""
        self.daemon.environment.clear()
        status = self.daemon.start().settled()
        self.log = LogView.of(self.daemon.data_dir, since=self.log)
        assert int(status.state_digest, 16) == self.log.result.state_digest
        assert int(status.event_digest, 16) == self.log.result.event_digest
        client = self.daemon.connect()
        session = self.daemon.session_of(client)
        source = Orders(self.random)
        client.send_bytes(source.batch(5))
        client.finish_sending()
        client.read_to_end()
        status = self.daemon.settled()
        assert self.daemon.stop() == 0
        self.compare({session: (client, source)})
        assert self.owed_unseen == 0
        assert self.log is not None
        assert int(status.state_digest, 16) == self.log.result.state_digest
        assert int(status.event_digest, 16) == self.log.result.event_digest
        assert not self.log.result.torn_tail


def compare_clients(log: LogView, met: dict[int, tuple[Client, Orders]]) -> int:
    """All that was acknowledged is in the log, once; returns how many bytes are owed and unseen."""
    owed, logged = log.frames(), log.requests()
    unseen = 0
    for session_id, (client, source) in met.items():
        due = packed(owed.get(session_id, []))
        received = bytes(client.received)
        assert due.startswith(received), f"session {session_id}"
        unseen += len(due) - len(received)
        sent = [request_key(request) for request in source.sent]
        found = logged.get(session_id, [])
        assert sent[: len(found)] == found, f"session {session_id}"
    return unseen


def last_acknowledged(log: LogView, met: dict[int, tuple[Client, Orders]]) -> int:
    """The last record that an event which a client received belongs to; 0: none."""
    wal_seq = 0
    record_of: dict[int, int] = {}
    for event in log.events:
        if event.kind == EventKind.HEAD:
            wal_seq = event.sequence
        else:
            record_of[event.sequence] = wal_seq
    heard = [execution.seq for client, _ in met.values() for execution in client.parse()]
    return max((record_of[sequence] for sequence in heard), default=0)


def tear_tail(data_dir: Path, rng: random.Random) -> None:
    """Leave half a write at the end of the log, as a crash would."""
    for path in reversed(storage.list_segments(data_dir)):
        data = bytearray(path.read_bytes())
        if end := len(data.rstrip(b"\0")):
            break  # else it was made ahead, and nothing has been written to it
    start = (end + 71) // 8 * 8
    data[start : start + 64] = rng.randbytes(64)
    path.write_bytes(data)
