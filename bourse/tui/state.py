"""What the console shows: the store, what the operator chose, and what his actions came to."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Literal

from bourse.admin.messages import STAGES, SnapshotResult
from bourse.admin.store import Badge, Store
from bourse.tui.replay import ReplayOutcome
from bourse.tui.theme import Palette, palette

Chart = Literal["histogram", "heat"]
RATES_HZ = (1, 2, 5, 10, 20)
RATE_HZ_DEFAULT = 5
LEVELS_CHOICES = (0, 5, 10, 20, 50, 150)
"""Levels a side on the Book screen; 0: as many as fit."""
GROUP_CHOICES = (1, 2, 5, 10, 25, 50, 100, 250, 1_000)
"""Ticks that one row of the ladder covers."""
UI = "ui"
"""Pseudo topic: something that the operator chose, or an action's outcome."""


@dataclass
class TableState:
    """What the operator chose in one table: a row by its key, a filter, an order."""

    cursor: Hashable | None = None
    """The chosen row's key; rows may move, the choice stays on its row."""
    index: int = 0
    """Where the chosen row was last seen."""
    filter: str = ""
    sort: int = 0
    """Index of the column that orders the rows."""


@dataclass
class ConsoleState:
    """Everything that a panel may draw from. Only the app writes it."""

    live: Store = field(default_factory=Store)
    """What the feed fills."""
    held: Store | None = None
    """While frozen: what `live` was when the picture was held."""
    screen: str = "overview"
    """The screen that is shown."""
    stage: str = "total"
    """The latency stage that histogram and history show."""
    chart: Chart = "histogram"
    picture_for_log: bool = False
    """On a small terminal: the picture stands where the log was."""
    levels: int = 0
    """Levels a side on the Book screen, one of LEVELS_CHOICES."""
    group_ticks: int = 1
    """Ticks a row of the Book screen's ladder, one of GROUP_CHOICES."""
    level: tuple[str, int] | None = None
    """The chosen level on the Book screen: side A or B, price."""
    tables: dict[str, TableState] = field(default_factory=dict)
    rate_hz: int = RATE_HZ_DEFAULT
    theme: str = "dark"
    """One of theme.THEMES."""
    mono: bool = False
    ascii: bool = False
    """Draw with the letters of 1963 only."""
    truecolor: bool = True
    read_only: bool = False
    """Nothing that changes the exchange is done from here."""
    environment: str = ""
    """What the operator calls this instance's surroundings, such as prod; shown in the status line
    with a stripe of its own."""
    admin_path: str = ""
    keys: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Keys that the operator bound anew, by action."""
    snapshot_running: bool = False
    snapshot: SnapshotResult | None = None
    """The last snapshot that this console asked for."""
    replay_started: float | None = None
    """Monotonic clock when the running replay began."""
    replay_progress: tuple[int, int] = (0, 0)
    """Bytes that the running replay has read, and how many there are."""
    replay: ReplayOutcome | None = None
    """What the last replay came to."""
    skipped: int = 0
    """Paints left out because the terminal was behind."""
    held_at_frames: int = 0
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
        self.held_at_frames = self.live.frames

    @property
    def frames_missed(self) -> int:
        """Frames that came since the picture is held."""
        return self.live.frames - self.held_at_frames if self.frozen else 0

    @property
    def stale(self) -> bool:
        """True when the numbers are not the daemon's numbers of now."""
        return self.live.badge()[0] is not Badge.LIVE

    @property
    def refuses_changes(self) -> bool:
        """True when this console, or the daemon's socket, is for looking only."""
        return self.read_only or bool(self.live.hello and self.live.hello.read_only)

    @property
    def palette(self) -> Palette:
        """The styles of this moment."""
        return palette("mono" if self.mono else self.theme, self.stale, self.truecolor)

    @property
    def look(self) -> str:
        """Names everything about a cell but its text: when it changes, all is drawn anew."""
        return self.palette.name + ("-ascii" if self.ascii else "")

    def table(self, name: str) -> TableState:
        """Return a table's choices."""
        return self.tables.setdefault(name, TableState())

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

    def next_levels(self) -> None:
        """Take the next depth preset."""
        self.levels = following(LEVELS_CHOICES, self.levels)

    def next_group(self) -> None:
        """Take the next price grouping; the choice of a level ends, for levels are others now."""
        self.group_ticks = following(GROUP_CHOICES, self.group_ticks)
        self.level = None


def following(choices: tuple[int, ...], value: int) -> int:
    """Return the choice after a value, the first one after the last."""
    here = choices.index(value) if value in choices else -1
    return choices[(here + 1) % len(choices)]
