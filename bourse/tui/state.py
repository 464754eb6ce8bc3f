"""What the console shows: the store, what the operator chose, and what his actions came to."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from bourse.admin.messages import STAGES, SnapshotResult
from bourse.admin.store import Badge, Store
from bourse.tui.replay import ReplayOutcome
from bourse.tui.theme import Palette, palette

Chart = Literal["histogram", "heat"]
RATES_HZ = (1, 2, 5, 10, 20)
RATE_HZ_DEFAULT = 5
UI = "ui"
"""Pseudo topic: something that the operator chose, or an action's outcome."""


@dataclass
class ConsoleState:
    """Everything that a panel may draw from. Only the app writes it."""

    live: Store = field(default_factory=Store)
    """What the feed fills."""
    held: Store | None = None
    """While frozen: what `live` was when the picture was held."""
    stage: str = "total"
    """The latency stage that histogram and history show."""
    chart: Chart = "histogram"
    picture_for_log: bool = False
    """On a small terminal: the picture stands where the log was."""
    rate_hz: int = RATE_HZ_DEFAULT
    mono: bool = False
    truecolor: bool = True
    admin_path: str = ""
    snapshot_running: bool = False
    snapshot: SnapshotResult | None = None
    """The last snapshot that this console asked for."""
    replay_started: float | None = None
    """Monotonic clock when the running replay began."""
    replay: ReplayOutcome | None = None
    """What the last replay came to."""
    skipped: int = 0
    """Paints left out because the terminal was behind."""
    clock: Callable[[], float] = time.monotonic

    @property
    def store(self) -> Store:
        """What the panels show."""
        return self.held or self.live

    @property
    def frozen(self) -> bool:
        """True while the picture is held."""
        return self.held is not None

    def freeze(self, hold: bool) -> None:
        """Hold the picture, or go on; the feed fills `live` all the while."""
        self.held = self.live.copy() if hold else None

    @property
    def stale(self) -> bool:
        """True when the numbers are not the daemon's numbers of now."""
        return self.live.badge()[0] is not Badge.LIVE

    @property
    def palette(self) -> Palette:
        """The styles of this moment."""
        return palette(self.mono, self.stale, self.truecolor)

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages that there are, in the order of a command's life."""
        latency = self.store.latency
        return tuple(stage.stage for stage in latency.stages) if latency else STAGES

    def choose_stage(self, step: int) -> None:
        """Move the choice of the stage up or down, around the ends."""
        stages = self.stages
        here = stages.index(self.stage) if self.stage in stages else 0
        self.stage = stages[(here + step) % len(stages)]

    def change_rate(self, step: int) -> None:
        """Move the paint rate along RATES_HZ; it stops at the ends."""
        here = RATES_HZ.index(self.rate_hz)
        self.rate_hz = RATES_HZ[max(0, min(len(RATES_HZ) - 1, here + step))]
