"""What a watcher knows of a daemon: latest value a topic, rates, histories, and how old it all is.

    Feed ──Frame, Connection──► Store.apply() ──► .status .depth .latency .wal .sessions .trades
                                             ├──► .log (the daemon's lines and the watcher's own)
                                             ├──► .markers (what happened along the log)
                                             ├──► rates (per second, from counters and mono_ns)
                                             ├──► histories (one sample a second) for charts
                                             ├──► dirty topics, until take_dirty()
                                             └──► badge(): LIVE, STALE n s, RECONNECTING, CONNECTING

One writer, one reader, one thread. It reads a clock only to tell the age of the last frame. A value
that equals the one before, but for the daemon's clock, makes nothing dirty: an idle exchange costs
no paint.

The module imports neither Textual nor Rich: the commands and the console share it.
"""

from __future__ import annotations

import copy
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import msgspec

from bourse.admin.client import Connection, ConnectionState
from bourse.admin.markers import (
    REJECT_SHARE_MIN,
    REJECTS_PER_S_MIN,
    SLOW_FACTOR,
    SYNCS_MIN,
    Marker,
    MarkerKind,
    Markers,
)
from bourse.admin.messages import (
    Depth,
    Frame,
    Hello,
    Latency,
    Log,
    SessionInfo,
    Sessions,
    StageLatency,
    Status,
    Trade,
    Trades,
    Wal,
)

STALE_SECONDS = 3.0
"""Older than this, numbers are shown as stale: ten frames missed at the slowest usual rate."""
HISTORY_SAMPLES_MAX = 240
"""One a second: four minutes, the widest chart."""
TRADES_MAX = 500
LOG_ENTRIES_MAX = 2_000
DIGESTS_MAX = 8_192
"""Live digests remembered by wal_seq: about half an hour at five frames a second."""
RATE_WINDOW_NS = 2_000_000_000
_NOISE = {"status": ("mono_ns", "command_ring_used", "event_ring_used")}
"""What may differ though nothing happened: to ask is to put a read into the ring, seen or not."""


BUCKETS = 36
"""Powers of two that a stage's buckets count: up to a minute."""


def buckets_of(stage: StageLatency) -> tuple[int, ...]:
    """Return a stage's buckets, exactly BUCKETS of them, none negative."""
    hits = [max(0, hits) for hits in stage.buckets[:BUCKETS]]
    return tuple(hits + [0] * (BUCKETS - len(hits)))


@dataclass
class LogEntry:
    """One line of the log's screen; equal neighbours are one entry with a count."""

    key: int
    time_ns: int
    """Wall clock of the last of them."""
    level: str
    source: str
    """daemon or console."""
    text: str
    count: int = 1


class Badge(Enum):
    """How far the numbers can be trusted."""

    CONNECTING = "CONNECTING"
    LIVE = "LIVE"
    STALE = "STALE"
    RECONNECTING = "RECONNECTING"


class Meter:
    """Per-second rate of a counter over the last two seconds of the daemon's clock.

    A counter or clock that goes back (the daemon was restarted) starts it anew.
    """

    def __init__(self, window_ns: int = RATE_WINDOW_NS) -> None:
        self._window_ns = window_ns
        self._samples: deque[tuple[int, int]] = deque()

    def add(self, mono_ns: int, value: int) -> None:
        """Take a reading."""
        samples = self._samples
        if samples and (mono_ns < samples[-1][0] or value < samples[-1][1]):
            samples.clear()
        if samples and mono_ns == samples[-1][0]:
            return
        samples.append((mono_ns, value))
        while len(samples) > 2 and samples[1][0] <= mono_ns - self._window_ns:
            samples.popleft()

    @property
    def per_second(self) -> float:
        """The rate; 0.0 until there are two readings."""
        if len(self._samples) < 2:
            return 0.0
        (first_ns, first), (last_ns, last) = self._samples[0], self._samples[-1]
        return (last - first) * 1e9 / (last_ns - first_ns)


class History:
    """One sample a second of the daemon's clock, oldest first, at most HISTORY_SAMPLES_MAX."""

    def __init__(self) -> None:
        self.samples: deque[Any] = deque(maxlen=HISTORY_SAMPLES_MAX)
        self._due_ns = 0
        self._last_ns = 0
        self._quiet = HISTORY_SAMPLES_MAX
        """Samples since the last one that was not nothing."""

    def due(self, mono_ns: int) -> bool:
        """Say whether a second has passed since the last sample; the caller then adds one."""
        if mono_ns < self._last_ns:  # another daemon's clock
            self._due_ns = 0
        self._last_ns = mono_ns
        if mono_ns < self._due_ns:
            return False
        # Keep the beat, unless frames came so late that the beat is lost.
        beat_ns = self._due_ns + 1_000_000_000
        self._due_ns = beat_ns if beat_ns > mono_ns else mono_ns + 1_000_000_000
        return True

    def add(self, value: Any, is_nothing: bool = False) -> bool:
        """Append a sample; say whether the picture changed: where all is nothing, it does not."""
        self.samples.append(value)
        self._quiet = min(self._quiet + 1, HISTORY_SAMPLES_MAX) if is_nothing else 0
        return self._quiet < HISTORY_SAMPLES_MAX

    def tail(self, count: int) -> Sequence[Any]:
        """Return the last `count` samples, fewer when there are fewer."""
        samples = self.samples
        return [samples[index] for index in range(max(0, len(samples) - count), len(samples))]


class Store:
    """The latest of everything, from one daemon.

    Invariants:
        * a topic is dirty if and only if its value changed since `take_dirty()`.
        * `trades` ascends by sequence without duplicates.
        * rates and histories never mix two processes of the daemon.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.connection = Connection(ConnectionState.CONNECTING)
        self.hello: Hello | None = None
        self.status: Status | None = None
        self.depth: Depth | None = None
        self.latency: Latency | None = None
        self.wal: Wal | None = None
        self.sessions: Sessions | None = None
        self.trades: deque[Trade] = deque(maxlen=TRADES_MAX)
        self.trades_missed = 0
        self.trade_gaps: dict[int, int] = {}
        """How many trades were missed right before the one with this sequence."""
        self.log: deque[LogEntry] = deque(maxlen=LOG_ENTRIES_MAX)
        self.log_missed = 0
        self.markers = Markers()
        self.frames = 0
        """Frames taken so far."""
        self.skipped = 0
        """Frames that the daemon did not build because we were slow."""
        self.changed_ns = 0
        """Wall clock when a value last changed; 0 before the first."""
        self.digests: OrderedDict[int, tuple[str, str]] = OrderedDict()
        """State and event digest of the live engine at the wal_seq of each depth frame."""
        self._news = False
        self._log_last = 0
        self._log_keys = 0
        self._dirty: set[str] = set()
        self._heard: float | None = None
        self._meters: dict[str, Meter] = {}
        self._session_meters: dict[int, tuple[Meter, Meter]] = {}
        self.commands_history = History()
        """Commands a second, one sample a second."""
        self.latency_history = History()
        """{stage: (window p99 in ns, buckets)}, one sample a second."""
        self.sync_history = History()
        """(syncs a second, bytes written a second), one sample a second."""

    # --- in

    def apply(self, event: Frame | Connection) -> bool:
        """Take what the feed yields; say whether there is anything new to see."""
        self._news = False
        if isinstance(event, Connection):
            self._take_connection(event)
            return True
        self._heard = self._clock()
        self.frames += 1
        self.skipped += event.skipped
        take = getattr(self, f"_take_{event.topic}", None)
        if take is not None:
            take(event.data)
        return self._news

    def note(self, level: str, text: str) -> None:
        """Add a line of the watcher's own to the log."""
        self._log_line(time.time_ns(), level, "console", text)

    def mark(self, kind: MarkerKind, wal_seq: int, text: str) -> None:
        """Add a marker of the watcher's own to the timeline."""
        if self.markers.add(Marker(wal_seq, time.time_ns(), kind, text)):
            self._dirty.add("markers")

    def _take_connection(self, event: Connection) -> None:
        was = self.connection.state
        self.connection = event
        if event.hello is not None:
            if self.hello is not None and self.hello.pid != event.hello.pid:
                self._log_last = 0
            self.hello = event.hello
        self._dirty.add("connection")
        if event.state is ConnectionState.LOST and was is ConnectionState.CONNECTED:
            seen = self.status.wal_seq if self.status else 0
            self.mark(MarkerKind.LOST, seen, event.sentence)

    def _log_line(self, time_ns: int, level: str, source: str, text: str) -> None:
        last = self.log[-1] if self.log else None
        if last is not None and (last.level, last.source, last.text) == (level, source, text):
            last.count += 1
            last.time_ns = time_ns
        else:
            self._log_keys += 1
            self.log.append(LogEntry(self._log_keys, time_ns, level, source, text))
        self._changed("log")

    def _pictured(self, changed: bool) -> None:
        if changed:
            self._dirty.add("history")

    def _changed(self, topic: str) -> None:
        self._news = True
        self._dirty.add(topic)
        self.changed_ns = time.time_ns()

    def _take(self, topic: str, value: Any) -> bool:
        """Keep a value; True if anything but clock and noise differs from the one before."""
        before = getattr(self, topic)
        setattr(self, topic, value)
        noise = {name: getattr(value, name) for name in _NOISE.get(topic, ("mono_ns",))}
        if before is not None and msgspec.structs.replace(before, **noise) == value:
            return False
        self._changed(topic)
        return True

    def _take_status(self, status: Status) -> None:
        before = self.status
        if before is not None and (before.pid, before.started_ns) != (
            status.pid,
            status.started_ns,
        ):
            self._forget()
        self._take("status", status)
        for name in ("commands", "trades", "orders", "event_seq", "rejects"):
            self._meter(name).add(status.mono_ns, getattr(status, name))
        self._mark_status(status)
        if self.commands_history.due(status.mono_ns):
            rate = self.rate("commands")
            self._pictured(self.commands_history.add(rate, rate == 0))

    def _mark_status(self, status: Status) -> None:
        restart = Marker(
            status.recovered_wal_seq,
            status.started_ns,
            MarkerKind.RESTART,
            f"started, pid {status.pid}",
        )
        rejects, commands = self.rate("rejects"), self.rate("commands")
        burst = rejects >= REJECTS_PER_S_MIN and rejects >= REJECT_SHARE_MIN * commands
        added = self.markers.during(
            MarkerKind.REJECTS,
            burst,
            status.wal_seq,
            time.time_ns(),
            f"{rejects:,.0f} of {commands:,.0f} commands a second refused",
        )
        if self.markers.add(restart) or added:
            self._dirty.add("markers")

    def _take_depth(self, depth: Depth) -> None:
        self._take("depth", depth)
        self.digests[depth.wal_seq] = (depth.state_digest, depth.event_digest)
        self.digests.move_to_end(depth.wal_seq)
        if len(self.digests) > DIGESTS_MAX:
            self.digests.popitem(last=False)

    def _take_latency(self, latency: Latency) -> None:
        self._take("latency", latency)
        if self.latency_history.due(latency.mono_ns):
            found = {stage.stage: (stage.window.p99, buckets_of(stage)) for stage in latency.stages}
            nothing = not any(p99 or any(buckets) for p99, buckets in found.values())
            self._pictured(self.latency_history.add(found, nothing))

    def _take_wal(self, wal: Wal) -> None:
        self._take("wal", wal)
        for name in ("syncs", "batches", "written_bytes", "accepted_seq"):
            self._meter(f"wal.{name}").add(wal.mono_ns, getattr(wal, name))
        window, ever = wal.sync_window, wal.sync
        if self.markers.during(
            MarkerKind.SLOW_SYNC,
            window.count >= SYNCS_MIN and window.p99 > SLOW_FACTOR * ever.p99 > 0,
            wal.accepted_seq,
            time.time_ns(),
            f"syncs: p99 {window.p99 / 1e6:,.2f} ms, since the start {ever.p99 / 1e6:,.2f} ms",
        ):
            self._dirty.add("markers")
        if self.sync_history.due(wal.mono_ns):
            rates = (self.rate("wal.syncs"), self.rate("wal.written_bytes"))
            self._pictured(self.sync_history.add(rates, not any(rates)))

    def _take_sessions(self, sessions: Sessions) -> None:
        self._take("sessions", sessions)
        live = {}
        for session in sessions.sessions:
            meters = self._session_meters.get(session.session_id) or (Meter(), Meter())
            meters[0].add(sessions.mono_ns, session.commands)
            meters[1].add(sessions.mono_ns, session.events)
            live[session.session_id] = meters
        self._session_meters = live

    def _take_trades(self, trades: Trades) -> None:
        """Append the new trades; a lower last sequence (another log) starts the tape anew."""
        if self.trades and trades.last_sequence < self.trades[-1].sequence:
            self.trades.clear()
            self.trade_gaps.clear()
            self.trades_missed = 0
        last = self.trades[-1].sequence if self.trades else 0
        fresh = [trade for trade in trades.trades if trade.sequence > last]
        # What was before the tape began was not missed; nor was anything where the frame reaches
        # back to what is known, as the first one of a new subscription does.
        if self.trades and len(fresh) == len(trades.trades):
            self.trades_missed += trades.missed
            if trades.missed and fresh:
                self.trade_gaps[fresh[0].sequence] = trades.missed
        if fresh or trades.missed:
            self.trades.extend(fresh)
            self._changed("trades")
        if len(self.trade_gaps) > TRADES_MAX:
            kept = self.trades[0].sequence
            self.trade_gaps = {at: gap for at, gap in self.trade_gaps.items() if at >= kept}

    def _take_log(self, log: Log) -> None:
        """Append the new lines; what another process of the daemon said stays."""
        if log.last_number < self._log_last:
            self._log_last = 0
        fresh = [line for line in log.lines if line.number > self._log_last]
        # Nothing was missed before the first look, nor where the frame reaches back to known lines.
        if self._log_last and len(fresh) == len(log.lines):
            self.log_missed += log.missed
        for line in fresh:
            self._log_line(line.time_ns, line.level, "daemon", line.text)
        self._log_last = max(self._log_last, log.last_number)

    def _forget(self) -> None:
        """Another process answers: what was counted before means nothing now."""
        self._meters.clear()
        self._session_meters.clear()
        self.digests.clear()

    def _meter(self, name: str) -> Meter:
        return self._meters.setdefault(name, Meter())

    def copy(self) -> Store:
        """Return a store that stays as this one is now."""
        twin = copy.copy(self)
        twin.trades = self.trades.copy()
        twin.trade_gaps = self.trade_gaps.copy()
        twin.log = deque((copy.copy(entry) for entry in self.log), LOG_ENTRIES_MAX)
        twin.markers = self.markers.copy()
        twin.digests = self.digests.copy()
        twin.commands_history = copy.deepcopy(self.commands_history)
        twin.latency_history = copy.copy(self.latency_history)
        twin.latency_history.samples = self.latency_history.samples.copy()
        twin.sync_history = copy.deepcopy(self.sync_history)
        twin._meters = copy.deepcopy(self._meters)
        twin._session_meters = copy.deepcopy(self._session_meters)
        twin._dirty = set()
        return twin

    # --- out

    def rate(self, name: str) -> float:
        """Return a counter's rate a second: commands, trades, orders, event_seq, wal.syncs, ..."""
        meter = self._meters.get(name)
        return meter.per_second if meter else 0.0

    def session_rates(self, session: SessionInfo) -> tuple[float, float]:
        """Return a session's commands and events a second."""
        meters = self._session_meters.get(session.session_id)
        return (meters[0].per_second, meters[1].per_second) if meters else (0.0, 0.0)

    def stage(self, name: str) -> StageLatency | None:
        """Return a stage of the latest latency frame."""
        for stage in self.latency.stages if self.latency else ():
            if stage.stage == name:
                return stage
        return None

    def all_markers(self) -> list[Marker]:
        """Return everything for a timeline, in the order of the log: markers, and snapshots."""
        found = list(self.markers)
        for snapshot in self.wal.snapshots if self.wal else ():
            text = f"{snapshot.bytes:,} bytes"
            found.append(Marker(snapshot.wal_seq, snapshot.created_ns, MarkerKind.SNAPSHOT, text))
        return sorted(found, key=lambda marker: (marker.wal_seq, marker.kind.value))

    def last_trades(self, count: int) -> Iterable[Trade]:
        """Return the newest trades, newest first."""
        newest = reversed(self.trades)
        return [trade for _, trade in zip(range(count), newest, strict=False)]

    def take_dirty(self) -> set[str]:
        """Return the topics that changed since the last call."""
        dirty, self._dirty = self._dirty, set()
        return dirty

    def age_seconds(self) -> float | None:
        """Return how long ago the last frame came; None before the first."""
        return None if self._heard is None else self._clock() - self._heard

    def badge(self) -> tuple[Badge, int]:
        """Say how far the numbers can be trusted, and their age in whole seconds."""
        age = self.age_seconds()
        state = self.connection.state
        if state is ConnectionState.LOST:
            return Badge.RECONNECTING, int(age or 0)
        if age is None:
            return Badge.CONNECTING, 0
        if state is ConnectionState.CONNECTED and age <= STALE_SECONDS:
            return Badge.LIVE, 0
        return (Badge.STALE if state is ConnectionState.CONNECTED else Badge.RECONNECTING), int(age)

    @property
    def is_live(self) -> bool:
        """True while the numbers on screen are the daemon's numbers of now."""
        return self.badge()[0] is Badge.LIVE
