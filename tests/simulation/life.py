"""A seeded run: clients, daemon and disk, crash after crash, and what must be true in between.

The product's own code: gateway, sessions, codec, outbound with the release gate, command, event and
journal rings, MatchingThread and JournalThread (driven by `step`, in an order that the seed
decides), JournalWriter, engine, snapshots, pipeline (which wires them), store, recovery, reader and
storage.
Simulated: the disk and the clocks (syscalls.c, disk.py), the event loop and the connections
(loop.py), the clients, and the threads: one Python thread takes their steps. While the journal or
a snapshot is inside a write or a sync, the others go on, as they would.

Not simulated: two threads inside their code at the same time (tests/concurrency), the real kernel
(tests/integration).
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import logging
import os
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec

from bourse.config import DaemonConfig
from bourse.core.records import Command
from bourse.daemon import snapshots
from bourse.daemon.pipeline import Pipeline
from bourse.daemon.snapshots import Snapshots
from bourse.daemon.store import Store, open_store
from bourse.domain import OPERATOR_SESSION_ID, CommandKind, Durability, PollMode, WalRetention
from bourse.errors import AdminError, BourseError
from bourse.journal import segment, storage
from tests.integration.harness import Orders
from tests.simulation import damage, system
from tests.simulation.disk import Disk, Fault
from tests.simulation.loop import Loop, Transport
from tests.simulation.truth import OPERATORS, Failure, Peer, Truth, batch_commands, require

MS = 1_000_000
START_WALL_NS = 1_767_225_600_000_000_000
ADVANCE_NS_MAX = 2 * MS
"""Between two looks of the journal thread at its clock; it could oversleep as long."""
SEGMENT_BYTES = (6 << 10, 8 << 10, 12 << 10, 32 << 10, 128 << 10)
"""Small, so that a run has many; the daemon takes none below 64 KiB for want of sense, not code."""


class Clock:
    """Simulated time: monotonic, and a wall clock that people set."""

    def __init__(self, hold: system.System) -> None:
        self._system = hold
        self.now_ns = 10**12
        self.wall_ns = START_WALL_NS
        self._show()

    def advance(self, ns: int) -> None:
        """Let time pass."""
        self.now_ns += ns
        self.wall_ns += ns
        self._show()

    def set_wall(self, ns: int) -> None:
        """Let somebody set the wall clock."""
        self.wall_ns += ns
        self._show()

    def _show(self) -> None:
        self._system.set_clock(self.now_ns, self.wall_ns)


class Client:
    """One connection's peer: sends requests in pieces, keeps what comes."""

    def __init__(self, life: Life, gateway: Any) -> None:
        self._life = life
        self._rng = life.rng
        self.transport = Transport(life.loop, self._on_sent)
        self.protocol = gateway.new_protocol()
        self.transport.protocol = self.protocol
        self._orders = Orders(life.rng)
        self._outgoing = bytearray()
        self.protocol.connection_made(self.transport)
        self.peer = Peer(self.protocol.session_id, self._orders.sent)
        self.is_over = False

    def _on_sent(self, data: bytes) -> None:
        self.peer.received.append((self._life.clock.now_ns, data))
        self._life.on_acknowledged(self.peer.session_id, data)

    def act(self) -> None:
        """Send something, or leave."""
        rng = self._rng
        roll = rng.random()
        if roll < 0.015:
            self.is_over = True
            self._life.trace("client", self.peer.session_id, "aborts")
            self.transport.abort()
        elif roll < 0.03:
            self.is_over = True
            self._life.trace("client", self.peer.session_id, "sends no more")
            self._deliver(len(self._outgoing))
            self.protocol.eof_received()
        elif roll < 0.035:
            self.is_over = True
            self._life.trace("client", self.peer.session_id, "sends garbage")
            self._deliver(len(self._outgoing))
            self._outgoing += rng.randbytes(rng.randrange(14, 60))
            self._deliver(len(self._outgoing))
        else:
            self._outgoing += self._orders.batch(rng.choice((1, 1, 1, 1, 2, 2, 4, 12)))
            whole = len(self._outgoing)
            self._deliver(whole if rng.random() < 0.8 else rng.randrange(whole))

    def _deliver(self, count: int) -> None:
        if self.transport.is_paused or self.transport.is_over:
            return
        data = bytes(self._outgoing[:count])
        del self._outgoing[:count]
        if data:
            self._life.trace("client", self.peer.session_id, "sends", len(data))
            self.protocol.get_buffer(-1)[: len(data)] = data
            self.protocol.buffer_updated(len(data))


class Bugs(logging.Handler):
    """Takes the daemon's log; what it calls critical is a failure."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.CRITICAL:
            self.found.append(record.getMessage())


class Life:
    """One data directory from its making to the end of the run."""

    def __init__(
        self, seed: int, root: Path, hold: system.System, looks_inside: bool = True
    ) -> None:
        """Prepare a run.

        Args:
            seed: what decides everything.
            root: where the data directory is made.
            hold: the preloaded library.
            looks_inside: fail too for what no client has noticed yet: an acknowledgement before
                its sync, a log that is not durable after a stop, a descriptor used after it failed.
        """
        self.seed = seed
        self.rng = rng = random.Random(seed)
        self.root = root
        self.looks_inside = looks_inside
        self._system = hold
        self.lines: list[tuple[Any, ...]] = []
        self.counts: Counter[str] = Counter()
        self.clock = Clock(hold)
        self.disk = Disk(root, rng, self.trace)
        self.disk.on_write = self._on_write
        self.disk.on_sync = self._on_sync
        self.disk.during = self._during
        self.disk.on_wait = self._on_wait
        self.truth = Truth(with_model=rng.random() < 0.05)
        self.policy = rng.choices(
            (Durability.FSYNC, Durability.ASYNC, Durability.MEMORY), (62, 33, 5)
        )[0]
        self.config = DaemonConfig(
            data=str(root),
            admin=str(root / "admin.sock"),
            durability=self.policy,
            poll=PollMode.BLOCK,
            async_interval_ms=rng.choice((1, 5, 10, 50)),
            cancel_on_disconnect=rng.random() < 0.3,
            command_ring_count=rng.choice((64, 256)),
            event_ring_count=4096,
            journal_ring_count=rng.choice((64, 64, 256)),
            wal_segment_bytes=64 << 10,
            wal_retention=rng.choice(list(WalRetention)),
            snapshots_kept=rng.choice((1, 2, 3)),
            snapshot_every_records=rng.choice((0, 40, 150)),
            snapshot_at_shutdown=rng.random() < 0.3,
            low_space_bytes=0,
        )
        # Past the check of the range.
        segment_bytes = rng.choice(SEGMENT_BYTES)
        msgspec.structs.force_setattr(self.config, "wal_segment_bytes", segment_bytes)
        self.is_slow = rng.random() < 0.2
        self.captured: dict[int, bytes] = {}
        """Commands of the log's writes, by wal_seq, whether or not they survive."""
        self.known_ids: set[int] = set()
        self._log = logging.Logger("simulation")
        self._bugs = Bugs()
        self._log.addHandler(self._bugs)
        self._written: dict[str, int] = {}
        self._going = ("", 0, 0)
        """The last write of a batch: its file, its end, its last record."""
        self.written_seq = self.synced_seq = 0
        self._reset()

    def _reset(self) -> None:
        """Nothing runs."""
        self.peers: dict[int, Peer] = {}
        self.clients: list[Client] = []
        self.store: Store | None = None
        self.pipeline: Any = None
        self.loop: Any = None
        self.due: Any = None
        self.failed_errno = 0
        self.journal_since_ns = 0
        """When the journal's step came to the disk that it is in, or that failed; 0 outside.

        What the disk takes for a write and its sync is added to what `async` may lose.
        """
        self._inside: set[str] = set()
        self._depth = 0
        self._waits = 0
        self.is_ready = False
        self.is_stopping = False
        self.matcher_going = self.journal_going = self.segments_going = False
        self.may_be_torn = False
        self.may_lose = False
        """What was not synced may be gone: the power was lost, or the disk has failed."""

    # What is seen.

    def trace(self, *words: Any) -> None:
        """Note what happened; the run's hash is made of this."""
        self.lines.append((self.clock.now_ns, *words))

    @property
    def digest(self) -> str:
        """What tells two runs apart."""
        text = "\n".join(" ".join(map(str, line)) for line in self.lines)
        return hashlib.sha256(text.encode()).hexdigest()

    def on_acknowledged(self, session_id: int, data: bytes) -> None:
        """Bytes have left for a client: what they acknowledge must be where the policy says."""
        released = self.pipeline.gateway.wal_seq
        self.trace("acknowledged", session_id, len(data), hash_of(data), released)
        if self.policy is Durability.MEMORY or not self.looks_inside:
            return
        reached = self.synced_seq if self.policy is Durability.FSYNC else self.written_seq
        require(
            released <= reached,
            f"record {released} was acknowledged, and {self.policy.label} has reached {reached}",
        )

    def _on_write(self, name: str, offset: int, data: bytes, is_done: bool) -> None:
        """Note what is going to the log: a part of a write may be all that a record needs."""
        if not (name.startswith(storage.WAL_DIRECTORY) and name.endswith(".log")):
            return
        if not is_done:
            for wal_seq, command in batch_commands(data):
                self.captured[wal_seq] = command
                self._going = (name, offset + len(data), wal_seq)
        elif self._going[:2] == (name, offset + len(data)):
            # The whole batch, in one piece or with the rest of one.
            self._written[name] = self.written_seq = self._going[2]

    def _on_sync(self, name: str) -> None:
        if name in self._written:
            self.synced_seq = max(self.synced_seq, self._written[name])

    # The order of things.

    def run(self) -> None:
        """Live through some generations.

        Raises:
            Failure: something is not as it must be.
        """
        with self._world():
            for generation in range(self.rng.randrange(2, 6)):
                self.trace("generation", generation)
                self._start()
                if self.policy is not Durability.MEMORY:
                    self._check_recovered()
                self._serve()
                self.counts["acknowledged"] += self._acknowledged()
            self._start()
            if self.policy is not Durability.MEMORY:
                self._check_recovered()
            self._close()

    @contextlib.contextmanager
    def _world(self) -> Iterator[None]:
        shutil.rmtree(self.root, ignore_errors=True)
        self.root.mkdir(parents=True)
        self._system.install(str(self.root), self.disk.answer)
        ids = mock.patch.object(storage, "new_store_id", lambda: self.rng.randbytes(16))
        pid = mock.patch.object(os, "getpid", lambda: 4711)
        try:
            # A look each half second is for people; here a millisecond is long.
            look = mock.patch.object(snapshots, "LOOK_SECONDS", 0.003)
            with ids, pid, look:
                yield
        finally:
            asyncio._set_running_loop(None)
            self._close()
            self._system.install("/nowhere", lambda *_: 0)

    def _close(self) -> None:
        """Let the operating system take back what a dead process held."""
        asyncio._set_running_loop(None)
        if self.loop is not None:
            self.loop.die()
        if self.store is not None:
            self.store.close()
        if self.pipeline is not None:
            # It closes its descriptor as it goes: now, not on a descriptor of the next process.
            self.pipeline._segments = None
            with contextlib.suppress(OSError):
                os.close(self.pipeline._eventfd)
        self.store = self.pipeline = None
        self.disk.close_all()

    def _check_health(self) -> None:
        """Fail for what went wrong where nobody could be told."""
        if self._system.trouble is not None:
            trouble, self._system.trouble = self._system.trouble, None
            raise trouble
        if self.disk.is_down:
            return
        if self.disk.violations and self.looks_inside:
            raise Failure(self.disk.violations[0])
        if self._bugs.found:
            raise Failure(f"the daemon says: {self._bugs.found[0]}")

    # A start.

    def _start(self) -> None:
        """Start the daemon, through crashes and errors in recovery, until it has recovered."""
        rng = self.rng
        for _ in range(20):
            self._maybe_damage()
            self.disk.begin_process()
            # A first start has the most that can be left half done.
            if rng.random() < (0.12 if self.captured else 0.4):
                self.disk.crash_in = rng.randrange(1, 16)
            elif rng.random() < 0.06:
                kinds = (system.WRITE, system.FSYNC, system.FDATASYNC, system.RENAME, system.OPEN)
                error = rng.choice((errno.EIO, errno.ENOSPC))
                self.disk.fault = Fault(rng.randrange(1, 8), error, kinds)
            hits = self.disk.faults_hit
            store = None
            try:
                store = open_store(self.config)
            except BourseError as error:
                self._check_health()
                self.trace("start refused", type(error).__name__)
                if not self.disk.is_down and self.disk.faults_hit == hits:
                    raise Failure(f"the daemon does not start: {error}") from error
            except OSError:
                if not self.disk.is_down:
                    raise
            self._check_health()
            if self.disk.is_down or store is None:
                self.store = store
                self.counts["crashes in recovery"] += self.disk.is_down
                self._go_down(rng.choice(("kill", "power")))
                continue
            self.disk.crash_in = 0
            self.disk.fault = None
            self.store = store
            if store.torn_bytes:
                self.counts["torn tails"] += 1
            return
        raise Failure("the daemon does not come up")

    def _maybe_damage(self) -> None:
        """Now and then, flip a byte and see whether recovery tells damage from a torn write."""
        if self.policy is Durability.MEMORY or self.rng.random() > 0.12:
            return
        with self.disk.raw():
            flip = self.rng.choice((damage.try_log, damage.try_log, damage.try_snapshot))
            what = flip(self.root, self.rng)
        if what:
            self.trace("damage", what)
            self.counts[what] += 1

    def _check_recovered(self) -> None:
        """Compare what recovery came to with all that is known."""
        store = self.store
        assert store is not None
        last = store.recovered_wal_seq
        known = self.truth.wal_seq
        require(last >= known, f"recovered up to record {last}, {known} was recovered before")
        require(
            not (store.torn_bytes and not self.may_be_torn),
            f"{store.torn_bytes} torn bytes where everything had been written and synced",
        )
        due = None
        paths = storage.list_segments(self.root)
        self.counts["shortened logs"] += (storage.first_seq_of(paths[0]) or 1) > 1
        for path in paths:
            for wal_seq, _, command, _ in segment.records(path):
                if due is not None and wal_seq != due:
                    raise Failure(f"record {wal_seq} stands where {due} belongs")
                due = wal_seq + 1
                if self.captured.get(wal_seq) != command:
                    raise Failure(f"record {wal_seq} is not what was written")
        require(due is None or due == last + 1, f"the log ends before {due}, recovery at {last}")
        commands = [self.captured[wal_seq] for wal_seq in range(known + 1, last + 1)]
        owed = self.truth.extend(commands, self.peers, self.known_ids)
        self.truth.operated.clear()
        self.truth.operated_count = 0
        self.truth.compare(store.engine)
        self._check_received(owed)
        self.trace("recovered", last, store.torn_bytes, store.engine.state_digest)
        # What was written after it is gone for good, and may be written otherwise.
        self.captured = {seq: data for seq, data in self.captured.items() if seq <= last}
        self.written_seq = self.synced_seq = last
        self._written.clear()
        self.known_ids = set(store.engine.sessions())

    def _check_received(self, owed: dict[int, bytes]) -> None:
        """Every byte that a client got is what the log owes it, and in the log."""
        for session_id, peer in self.peers.items():
            due = owed.get(session_id, b"")
            got = b"".join(data for _, data in peer.received)
            common = min(len(due), len(got))
            if due[:common] != got[:common]:
                raise Failure(f"session {session_id} was sent something else than its log says")
            if len(got) <= len(due):
                continue
            lost_at = self._time_of(peer, len(due))
            what = f"session {session_id}: {len(got) - len(due)} acknowledged bytes are lost"
            require(self.policy is Durability.ASYNC and self.may_lose, what)
            window_ns = self.config.async_interval_ms * MS + 2 * ADVANCE_NS_MAX
            require(
                lost_at >= self.down_since_ns - window_ns,
                f"{what}, the first from {(self.down_since_ns - lost_at) / MS:.1f} ms before",
            )
            self.counts["async losses"] += 1

    @staticmethod
    def _time_of(peer: Peer, position: int) -> int:
        """Return when a byte of what was received came."""
        for time_ns, data in peer.received:
            if position < len(data):
                return time_ns
            position -= len(data)
        raise AssertionError("no such byte")

    def _acknowledged(self) -> int:
        """How many executions clients got in this generation."""
        return sum(len(peer.received) for peer in self.peers.values())

    # A generation.

    def _serve(self) -> None:
        """Serve clients until the end that the seed has chosen."""
        rng = self.rng
        store = self.store
        assert store is not None
        self._reset_generation()
        ending = rng.choices(
            ("kill", "power", "kill in a call", "power in a call", "fault", "stop"),
            (14, 20, 14, 20, 18, 14),
        )[0]
        actions = rng.randrange(10, rng.choice((30, 90, 250)))
        self.trace("ending", ending, actions)
        if ending.endswith("call"):
            self.disk.crash_in = rng.randrange(1, rng.choice((8, 60)))
        elif ending == "fault":
            error, kinds = rng.choice(
                (
                    (errno.EIO, (system.WRITE,)),
                    (errno.EIO, (system.FDATASYNC,)),
                    (errno.EIO, (system.FSYNC, system.RENAME, system.OPEN)),
                    (errno.ENOSPC, (system.WRITE,)),
                )
            )
            self.disk.fault = Fault(rng.randrange(1, 30), error, kinds)
        for _ in range(actions):
            self._act()
            if self.disk.is_down or self.failed_errno:
                break
        else:
            if ending == "stop":
                self._stop()
        if self.failed_errno:
            ending = rng.choice(("kill", "power"))
        elif ending in ("fault", "stop"):
            ending = "kill" if not self.disk.is_down else rng.choice(("kill", "power"))
        self._go_down(ending.partition(" ")[0])

    def _reset_generation(self) -> None:
        store, had = self.store, self.disk.faults_hit
        self._reset()
        self.store = store
        self.faults_before = had
        self.loop = Loop(lambda: self.clock.now_ns, self._bugs.found.append)
        asyncio._set_running_loop(self.loop)
        self.pipeline = Pipeline(self.config, store, self.loop, self._log)
        # Nobody but this module takes their steps.
        self.pipeline._threads = []
        self.pipeline.gateway.on_failure = self._on_failure
        self.snapshots = Snapshots(self.pipeline, self._log)
        self.pipeline._matching.begin()
        self.matcher_going = True
        if self.policy is not Durability.MEMORY:
            self.pipeline._journal.begin()
            self.journal_going = self.segments_going = True
        self.loop.create_task(self._open())

    async def _open(self) -> None:
        await self.pipeline.start()
        self.is_ready = True
        self.trace("ready")
        if self.policy is not Durability.MEMORY:
            self.due = self.loop.create_task(self.snapshots.run())

    def _on_failure(self, error: int) -> None:
        self.failed_errno = error
        self.trace("daemon ends", error)

    def _act(self) -> None:
        """Take one step of somebody, by chance."""
        rng = self.rng
        roll = rng.random()
        if roll < 0.24:
            self._client_step()
        elif roll < 0.47:
            self._loop_step()
        elif roll < 0.64:
            self._matcher_step()
        elif roll < 0.80:
            self._journal_step()
        elif roll < 0.86:
            self._job_step()
        elif roll < 0.88:
            self._segment_step()
        elif roll < 0.91:
            self._snapshot()
        elif roll < 0.913:
            self._operate()
        elif roll < 0.915:
            self.clock.set_wall(rng.choice((-3_600_000, -1, 1, 3_600_000)) * MS)
        else:
            self._pass_time()
        self._check_health()

    def _pass_time(self) -> None:
        """Let time pass, and let the journal thread see it in time."""
        rng = self.rng
        steps = 1 if rng.random() < 0.9 else rng.randrange(20, 200)
        for _ in range(steps):
            self.clock.advance(rng.randrange(1, ADVANCE_NS_MAX))
            self._journal_step()
            if self.disk.is_down or self.failed_errno:
                return

    def _client_step(self) -> None:
        if not self.is_ready or self.is_stopping:
            return
        self.clients = [client for client in self.clients if not client.is_over]
        if not self.clients or (len(self.clients) < 4 and self.rng.random() < 0.1):
            client = Client(self, self.pipeline.gateway)
            self.trace("client", client.peer.session_id, "connects")
            self.clients.append(client)
            self.peers[client.peer.session_id] = client.peer
        self.rng.choice(self.clients).act()

    def _once(self, who: str, step: Callable[[], None]) -> None:
        """Take a step of somebody who is not inside one."""
        if who not in self._inside:
            self._inside.add(who)
            try:
                step()
            finally:
                self._inside.discard(who)

    def _loop_step(self) -> None:
        if self.loop.has_work() and not self.failed_errno:
            self._once("loop", self.loop.run_once)

    def _job_step(self) -> None:
        if self.loop.jobs:
            self._once("job", self.loop.run_job)

    def _matcher_step(self) -> None:
        pipeline = self.pipeline
        # Nobody else runs while it waits for room: it is not asked to.
        has_room = pipeline.events.count - pipeline.events.used >= 2048
        has_room = has_room and pipeline.records.used < pipeline.records.count
        if self.matcher_going and has_room:
            self._once("matcher", self._match)

    def _match(self) -> None:
        self.matcher_going = self.pipeline._matching.step(self.rng.choice((1, 3, 64)))

    def _segment_step(self) -> None:
        if self.segments_going:
            self._once("segments", self._prepare)

    def _prepare(self) -> None:
        self.segments_going = self.pipeline._segments.step()

    def _on_wait(self) -> None:
        """The journal waits for the next segment's name; nobody else may be asked to wait."""
        self.counts["waits for a segment"] += 1
        self._waits += 1
        if self._waits > 1000:
            raise Failure(f"{sorted(self._inside)} wait for ever")
        self.clock.advance(50_000)
        self._segment_step()

    def _journal_step(self) -> None:
        writer = self.store.writer if self.store is not None else None
        if not self.journal_going or writer is None:
            return
        # Inside a step of the segment thread it would wait for the end of that, which is ours.
        if "segments" in self._inside and writer.next_wal_seq == writer.rotation_seq:
            return
        self._once("journal", self._commit)

    def _commit(self) -> None:
        index = self.pipeline.memory.segment[0]
        self.journal_going = self.pipeline._journal.step()
        self.counts["rotations"] += self.pipeline.memory.segment[0] - index
        if self.journal_going and not self.disk.is_down:
            self.journal_since_ns = 0

    def _snapshot(self) -> None:
        if self.is_ready and not self.is_stopping and self.policy is not Durability.MEMORY:
            self.trace("snapshot asked")
            self.loop.create_task(self._take())

    def _operate(self) -> None:
        """Halt, resume, or cancel a batch of somebody's orders."""
        if not self.is_ready or self.is_stopping:
            return
        rng = self.rng
        kind = rng.choice((*OPERATORS, CommandKind.RESUME))
        command = Command(kind=kind, session_id=OPERATOR_SESSION_ID)
        if kind == CommandKind.MASS_CANCEL:
            named = rng.choice((0, 0, *self.peers))
            command = command._replace(client_order_id=named, qty_lots=rng.choice((1, 5, 500)))
        else:
            command = command._replace(instrument_id=1)
        self.trace("operator", kind.name)
        self.counts["operator commands"] += 1
        self.truth.operated.append(command)
        self.pipeline.gateway.submit(command.pack())

    async def _take(self) -> None:
        with contextlib.suppress(AdminError):
            result = await self.snapshots.take()
            self.trace("snapshot taken", result.wal_seq)
            self.counts["snapshots"] += 1

    def _during(self, word: str, name: str) -> None:
        """While somebody is inside a write or a sync, the others go on."""
        if self.pipeline is None or self._depth > 1:
            return
        rng = self.rng
        self._depth += 1
        is_journal = "journal" in self._inside and self._depth == 1
        if is_journal:
            self.journal_since_ns = self.journal_since_ns or self.clock.now_ns
        try:
            self.clock.advance(rng.randrange(1000, 200_000))
            if not is_journal:
                # The journal thread sees its clock in time.
                self._journal_step()
            elif self.is_slow and rng.random() < 0.1:
                self.clock.advance(rng.randrange(1, 2000) * MS)
            for _ in range(rng.choice((0, 0, 0, 1, 2, 5))):
                self._act_meanwhile()
                if self.disk.is_down:
                    return
            if rng.random() < 0.002:
                self.disk.is_down = True
                self.trace("down inside", word, name)
        finally:
            self._depth -= 1

    def _act_meanwhile(self) -> None:
        roll = self.rng.random()
        if roll < 0.4:
            if "loop" not in self._inside:
                self._once("loop", self._client_step)
        elif roll < 0.7:
            self._loop_step()
        elif roll < 0.87:
            self._matcher_step()
        elif roll < 0.93:
            self._segment_step()
        else:
            self._journal_step()

    # An end.

    def _stop(self) -> None:
        """Stop as SIGTERM does: the order is that of daemon/main.py."""
        self.is_stopping = True
        self.trace("stop asked")
        done = self.loop.create_task(self._wind_down())
        for _ in range(5000):
            self._loop_step()
            self._job_step()
            self._matcher_step()
            self._journal_step()
            self._segment_step()
            self.clock.advance(100_000)
            self._check_health()
            if self.disk.is_down or self.failed_errno:
                return
            if done.done() and not (
                self.matcher_going or self.journal_going or self.segments_going
            ):
                break
        else:
            raise Failure("the daemon does not stop")
        done.result()
        self.counts["stops"] += 1
        self.trace("stopped")
        if self.policy is Durability.MEMORY or not self.looks_inside:
            return
        index, first_seq, _ = self.pipeline.memory.segment
        path = self.pipeline.store.path_of(index, first_seq)
        name = str(path.relative_to(self.root))
        require(self.disk.is_synced(name), f"{name} is not durable after a stop")

    async def _wind_down(self) -> None:
        while not self.is_ready:
            await asyncio.sleep(0.001)
        if self.due is not None:
            self.due.cancel()
        await self.snapshots.finish()
        self.pipeline.gateway.end_sessions()
        await self.snapshots.take_last()
        self.pipeline.gateway.stop()
        await self.pipeline.desk.stopped
        self.pipeline.gateway.reap()
        self.pipeline.gateway.abort_all()
        await asyncio.sleep(0)

    def _go_down(self, how: str) -> None:
        """End the process, or the machine."""
        disk = self.disk
        self.trace("down", how)
        self.down_since_ns = self.journal_since_ns or self.clock.now_ns
        synced = all(disk.is_synced(name) for name in disk.files if name.endswith(".log"))
        torn_before = self.may_be_torn and self.store is None
        self.may_be_torn = torn_before or (
            disk.partial_write
            or disk.faults_hit > getattr(self, "faults_before", 0)
            or (how == "power" and not synced)
            or bool(any(file is not None and file.lost for file in disk.files.values()))
        )
        if any(name.endswith(".log") for name in disk.failed_names):
            self.may_lose = True
        self._close()
        self.counts["crashes"] += 1
        if how == "power":
            self.counts["power losses"] += 1
            self.may_lose = True
            disk.lose_power()
        else:
            self.counts["kills"] += 1
            disk.kill()


def hash_of(data: bytes) -> str:
    """A short name for bytes."""
    return hashlib.blake2b(data, digest_size=6).hexdigest()
