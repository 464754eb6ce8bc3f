"""What the console may take, with three times the room, for this is a loaded machine.

`bourse bench console-cost` measures the budgets themselves. What it takes while everything changes
is in test_pty, beside the daemon that changes everything.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bourse.bench import console_cost, watched
from bourse.bench.private_daemon import PrivateDaemon
from bourse.domain import Durability, PollMode


@pytest.fixture
def at_rest() -> Iterator[Path]:
    with PrivateDaemon(Durability.MEMORY, PollMode.BLOCK) as daemon:
        yield Path(daemon.banner.admin)


def test_beside_an_exchange_at_rest_it_writes_nothing_and_sleeps(at_rest: Path) -> None:
    cost = console_cost.watch(at_rest, (120, 36), seconds=2.5)

    assert cost.bytes_per_s == 0
    assert cost.frames == 0
    assert cost.core_share <= 3 * console_cost.BUDGET_IDLE_CORE_SHARE
    assert cost.first_frame_seconds <= 3 * console_cost.BUDGET_FIRST_FRAME_SECONDS
    assert cost.resident_bytes <= console_cost.BUDGET_RESIDENT_BYTES
    # Each waking is a beat: one a second of its own, and the frames of one credit round.
    assert cost.wakings_per_s <= 3 * 8


def test_round_trips_with_and_without_a_console_are_compared_in_pairs() -> None:
    ratios = watched.compare((80, 24), 5, pairs=1, samples=200, data=None)

    assert ratios.pairs == 1
    assert ratios.p50 > 0
    assert ratios.p99 > 0
    assert 0 < ratios.p50_ns <= ratios.p99_ns
