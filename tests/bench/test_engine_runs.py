"""The engine's own benchmarks: their checks hold, and would not if something were wrong."""

from __future__ import annotations

import json

import pytest

from bourse.bench import engine_loops, engine_runs
from bourse.bench.engine_runs import Expected
from bourse.bench.results import Result
from bourse.core.records import unpack_events
from bourse.domain import CommandKind, EventKind
from bourse.errors import UsageError


@pytest.mark.parametrize("levels", [1, 10, 300])
def test_walk_counts_every_event(levels: int) -> None:
    found = engine_runs.walk(levels, 3_000)

    assert found.exit_code == 0, found.checks
    assert found.workload == f"walk-{levels}"
    assert found.boundary == "engine"
    assert isinstance(found.ns_per_op, float)
    assert 0 < found.ns_per_op < 100_000


def test_alternating_leaves_nothing() -> None:
    found = engine_runs.alternating(2_000)

    assert found.exit_code == 0, found.checks
    assert json.loads(found.json())["digests"]["state"] == "0x0000000000000000"


@pytest.mark.parametrize("resting", [500, 2_000])
def test_mixed_keeps_its_depth_and_its_shares(resting: int) -> None:
    found = engine_runs.mixed(resting, 20_000, seed=5)

    assert found.exit_code == 0, found.checks
    parameters = found.parameters
    assert parameters["share_cancel"] == pytest.approx(0.22, abs=0.02)
    after = parameters["resting_after"]
    assert isinstance(after, int)
    assert 0.8 * resting <= after <= 1.2 * resting
    for share in ("share_ioc", "share_market", "share_fok", "share_post_only", "refused_share"):
        value = parameters[share]
        assert isinstance(value, float)
        assert value > 0


def test_the_same_seed_gives_the_same_digests_and_another_one_others() -> None:
    def digests(seed: int) -> Result:
        return engine_runs.mixed(100, 2_000, seed)

    assert digests(1).digests == digests(1).digests != digests(2).digests


def test_a_wrong_count_voids_the_figure() -> None:
    engine = engine_runs.new_engine()
    engine_loops.alternating(engine, 10)
    right = Expected(events=25, trades=5, rejects=0, live_orders=0)

    assert all(check.ok for check in engine_runs.engine_checks(engine, right))
    for wrong in (
        Expected(events=26, trades=5, rejects=0, live_orders=0),
        Expected(events=25, trades=4, rejects=0, live_orders=0),
        Expected(events=25, trades=5, rejects=1, live_orders=0),
        Expected(events=25, trades=5, rejects=0, live_orders=1),
    ):
        assert sum(not check.ok for check in engine_runs.engine_checks(engine, wrong)) == 1


def test_the_stream_runs_the_same_command_by_command() -> None:
    mix = engine_loops.Mix(engine_runs.new_engine(16), 3, 100, 100_000)
    commands = mix.fill(5_000)
    loop, single = engine_runs.new_engine(16), engine_runs.new_engine(16)

    engine_loops.stream(loop, commands)
    events = unpack_events(single.apply_all(commands))

    assert loop.state_bytes() == single.state_bytes()
    numbers = [event.sequence for event in events if event.kind != EventKind.HEAD]
    assert numbers == list(range(1, len(numbers) + 1))
    assert {event.command_kind for event in events} >= {CommandKind.NEW_ORDER, CommandKind.CANCEL}


def test_numbers_out_of_range_are_refused() -> None:
    with pytest.raises(UsageError, match="--n 0"):
        engine_runs.walk(0, 10)
    with pytest.raises(UsageError, match="--samples 0"):
        engine_runs.walk(1, 0)
    with pytest.raises(UsageError, match="even"):
        engine_runs.alternating(3)
    with pytest.raises(UsageError, match="--resting 0"):
        engine_runs.mixed(0, 10, 1)
