"""`mixed-league`: the stream has the shape that it says, the second thread misses nothing."""

from __future__ import annotations

import msgspec
import pytest

from bourse.bench import engine_runs, league, league_flow, league_loops
from bourse.bench.league import Shape
from bourse.core.ring import RingMemory
from bourse.domain import CommandKind, OrderType
from bourse.errors import UsageError

MESSAGES = 20_000


@pytest.fixture(scope="module")
def stream() -> league.Stream:
    return league.make(Shape(240, 60, "normal"), MESSAGES, 5)


@pytest.mark.parametrize("mid", league.MIDS)
def test_every_check_holds_and_the_figure_is_the_slowest_shapes(mid: str) -> None:
    found = league.run("small", None, None, mid, MESSAGES, 7)

    assert found.exit_code == 0, [check for check in found.checks if not check.ok]
    shapes = found.parameters["shapes"]
    assert isinstance(shapes, dict)
    assert list(shapes) == [f"240/60/{mid}"]
    assert found.ns_per_op == shapes[f"240/60/{mid}"]["ns_per_message"]
    assert found.boundary == "reported"


def test_the_stream_has_its_shares(stream: league.Stream) -> None:
    kinds = stream.commands[0::64]
    types = stream.commands[2::64]

    def share(count: int) -> float:
        return count / MESSAGES

    assert share(types.count(OrderType.IOC)) == pytest.approx(0.15, abs=0.01)
    # A hundredth each of cancels and replaces name an order that has ended.
    assert share(kinds.count(CommandKind.REPLACE)) == pytest.approx(0.21, abs=0.01)
    assert share(kinds.count(CommandKind.CANCEL)) == pytest.approx(0.317, abs=0.01)
    refused = stream.after.reject_count - stream.before.reject_count
    assert refused == stream.counts["repeats"]
    assert share(refused) == pytest.approx(0.02, abs=0.005)


def test_an_odd_shape_is_calibrated(stream: league.Stream) -> None:
    found = league.make(Shape(1_000, 200, "swing"), MESSAGES, 3)
    levels = found.counts["levels_sum"] / found.counts["samples"]

    assert levels == pytest.approx(200, rel=0.1)
    assert found.counts["mid_range"] >= 20
    assert stream.counts["mid_range"] > 0


def test_the_same_seed_makes_the_same_stream() -> None:
    shape = Shape(240, 60, "swing")

    first = league.make(shape, 2_000, 1)
    assert league.make(shape, 2_000, 1).commands == first.commands
    assert league.make(shape, 2_000, 2).commands != first.commands


def test_a_small_ring_loses_nothing(stream: league.Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(league, "RING_EVENTS", 256)

    found = league.measure(stream, [0])

    assert all(check.ok for check in league.judge(stream, found))


@pytest.mark.parametrize("count", ["heads", "accepted", "gaps", "trades", "event_digest"])
def test_a_wrong_finding_voids_the_figure(stream: league.Stream, count: str) -> None:
    found = league.measure(stream, [0])
    assert all(check.ok for check in league.judge(stream, found))

    wrong = msgspec.structs.replace(
        found, findings={**found.findings, count: found.findings[count] + 1}
    )
    assert not all(check.ok for check in league.judge(stream, wrong))


def test_the_reader_sees_a_gap_and_another_digest(stream: league.Stream) -> None:
    engine = engine_runs.new_engine(league_flow.FLOW_SESSIONS)
    engine.run(stream.warm)
    handover = league_loops.Handover(RingMemory(1024, 64))
    before = engine.event_seq, engine.event_digest

    league.with_second_thread(
        [0],
        lambda: handover.write(engine, stream.commands),
        # As if one event had been lost before.
        lambda: handover.read(engine.wal_seq, before[0] + 1, before[1] ^ 1),
    )

    assert handover.findings()["gaps"] > 0
    assert handover.findings()["event_digest"] != engine.event_digest


@pytest.mark.parametrize(
    ("size", "resting", "levels", "mid"),
    [
        ("huge", None, None, None),
        ("small", 500, None, None),
        (None, None, 60, None),
        (None, 50, 20, None),
        (None, 500, 400, None),
        (None, None, None, "wild"),
    ],
)
def test_flags_that_do_not_fit_are_refused(
    size: str | None, resting: int | None, levels: int | None, mid: str | None
) -> None:
    with pytest.raises(UsageError):
        league.chosen(size, resting, levels, mid)
