"""The library's benchmarks: small runs, judged, and mistakes that they notice."""

import pytest

from bourse.bench import library
from bourse.errors import UsageError


def test_a_small_run_of_calls_is_judged() -> None:
    result = library.call(3000)

    assert result.exit_code == 0
    assert [check.name for check in result.checks] == ["counters_of_the_twin", "engine_invariants"]
    assert (result.boundary, result.samples) == ("library", 3000)


def test_a_small_run_of_batches_is_judged() -> None:
    result = library.batch(resting=200, samples=20_000, batch_size=777, seed=5)

    assert result.exit_code == 0
    assert len(result.parameters["repetitions_times_engine_only"]) == library.REPETITIONS  # type: ignore[arg-type]
    assert float(str(result.parameters["times_engine_only"])) > 0


def test_another_engine_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    real = library._twin_of_calls
    monkeypatch.setattr(library, "_twin_of_calls", lambda blocks: real(blocks + 1))

    result = library.call(1000)

    assert result.exit_code == 1
    assert "wal_seq" in result.checks[0].detail


@pytest.mark.parametrize(
    "arguments",
    [
        {"resting": 0, "samples": 1, "batch_size": 1},
        {"resting": 1, "samples": 0, "batch_size": 1},
        {"resting": 1, "samples": 1, "batch_size": 0},
    ],
)
def test_numbers_out_of_range_are_refused(arguments: dict[str, int]) -> None:
    with pytest.raises(UsageError):
        library.batch(**arguments, seed=1)
