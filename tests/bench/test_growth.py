"""`growth-tail`: every command is timed, counted, and named when it is slow."""

from __future__ import annotations

import pytest

from bourse.bench import engine_runs, growth, growth_loops
from bourse.bench.results import Percentiles
from bourse.errors import UsageError


def test_every_command_has_its_time_and_every_check_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(growth, "SLICE_COMMANDS", 19_200)

    found = growth.run(57_600, 50)

    assert found.exit_code == 0, [check for check in found.checks if not check.ok]
    assert isinstance(found.latency_ns, Percentiles)
    assert found.parameters["resting_after"] == 57_600 - 900 * 11
    runs = found.parameters["repetitions"]
    assert isinstance(runs, list)
    assert len(runs) == growth.REPETITIONS
    assert all(run["bare_clock"]["seconds"] > 0 for run in runs)
    assert all(run["bare_pages"]["max"] > 0 for run in runs)


def test_a_slow_command_is_named_and_counted() -> None:
    spans = growth_loops.Spans(1_000, 0)
    spans.grow(engine_runs.new_engine(), 10, 100)

    # Everything takes longer than nothing: all are named, in their order.
    assert [number for number, _ in spans.longest()] == list(range(1_000))
    assert sum(count for _, count in spans.counts()) == 1_000
    slowest = max(ns for _, ns in spans.longest())
    assert spans.percentiles()[5] == slowest
    assert growth.over(spans, slowest) == 0
    assert growth.over(spans, slowest - 1) >= 1
    # One in a thousand is more than one in ten thousand.
    assert growth.tail(spans)["p99_99"] >= slowest


def test_the_clock_alone_runs_as_long_as_it_is_told() -> None:
    spans = growth_loops.Spans(1_000, 1_000_000_000)

    assert spans.idle(2_000_000) >= 2_000_000
    assert spans.longest() == []


def test_every_page_is_touched_once() -> None:
    spans = growth_loops.Spans(1_000, 0)

    spans.touch(300)
    assert sum(count for _, count in spans.counts()) == 300
    # No more than there is room for.
    spans.touch(5_000)
    assert sum(count for _, count in spans.counts()) == 1_300


@pytest.mark.parametrize(("samples", "levels"), [(0, 100), (1_500_000, 100), (1_000_000, 1)])
def test_numbers_out_of_range_are_refused(samples: int, levels: int) -> None:
    with pytest.raises(UsageError):
        growth.run(samples, levels)
