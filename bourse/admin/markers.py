"""What happened along the log, for timelines: restarts, slow syncs, bursts of rejects, lost links.

A marker says at which wal_seq, when, and what. They are found by one watcher, from the frames that
it sees; what happened while nobody watched is not there, but for snapshots, which the daemon lists.

The module imports neither Textual nor Rich: the commands and the console share it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from enum import Enum

import msgspec

MARKERS_MAX = 500
SYNCS_MIN = 100
"""Fewer in a window say nothing about its p99."""
SLOW_FACTOR = 2
"""A window's p99 over this many times the p99 since the start is worth a mark."""
REJECTS_PER_S_MIN = 20.0
REJECT_SHARE_MIN = 0.2
"""Of all commands; a market maker's post-only orders alone make some."""


class MarkerKind(Enum):
    """What a marker stands for."""

    SNAPSHOT = "snapshot"
    RESTART = "restart"
    SLOW_SYNC = "slow sync"
    REJECTS = "reject burst"
    LOST = "connection lost"
    REPLAY = "replay"


class Marker(msgspec.Struct, frozen=True):
    """One thing that happened."""

    wal_seq: int
    time_ns: int
    """Wall clock, nanoseconds since 1970; 0 where nobody knows."""
    kind: MarkerKind
    text: str

    @property
    def key(self) -> tuple[int, str]:
        """What stays the same while markers come and go around it."""
        return self.wal_seq, self.kind.value


class Markers:
    """The newest MARKERS_MAX markers in the order of their finding.

    A state that lasts (slow syncs, rejects) makes one marker as it begins.
    """

    def __init__(self) -> None:
        self._markers: deque[Marker] = deque(maxlen=MARKERS_MAX)
        self._lasting: set[MarkerKind] = set()

    def __iter__(self) -> Iterator[Marker]:
        return iter(self._markers)

    def __len__(self) -> int:
        return len(self._markers)

    def add(self, marker: Marker) -> bool:
        """Take a marker unless it is known; say whether it was new."""
        if any(known.key == marker.key for known in self._markers):
            return False
        self._markers.append(marker)
        return True

    def during(self, kind: MarkerKind, lasts: bool, wal_seq: int, time_ns: int, text: str) -> bool:
        """Mark the beginning of a state that lasts; say whether a marker was added."""
        if not lasts:
            self._lasting.discard(kind)
            return False
        if kind in self._lasting:
            return False
        self._lasting.add(kind)
        return self.add(Marker(wal_seq, time_ns, kind, text))

    def copy(self) -> Markers:
        """Return markers that stay as these are now."""
        twin = Markers()
        twin._markers = self._markers.copy()
        twin._lasting = set(self._lasting)
        return twin
