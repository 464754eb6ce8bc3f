"""Benchmarks of journal, recovery and snapshots: small runs, and checks that can fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from bourse.bench import journal_runs, recovery_run, snapshot_stall
from bourse.bench.results import Result
from bourse.errors import UsageError
from bourse.journal import storage


def failed(result: Result) -> list[str]:
    return [f"{check.name}: {check.detail}" for check in result.checks if not check.ok]


def test_commit_times_batches_singles_and_one_by_one(tmp_path: Path) -> None:
    result = journal_runs.commit(count=8, samples=4, data=tmp_path)

    assert failed(result) == []
    assert result.workload == "commit-8"
    assert result.parameters["single_ns"] > 0  # type: ignore[operator]
    assert result.parameters["batch_to_single"] > 0  # type: ignore[operator]
    # Eight syncs cost more than one: the speedup would be 1 if the series were one batch.
    assert isinstance(result.speedup, float)
    assert result.speedup > 1.5
    assert list(tmp_path.iterdir()) == [], "what it wrote is removed"


def test_journal_writes_every_record_in_few_batches(tmp_path: Path) -> None:
    result = journal_runs.journal(samples=50_000, data=tmp_path)

    assert failed(result) == []
    assert result.samples == 50_000
    assert result.parameters["records_a_batch"] > 10  # type: ignore[operator]
    assert result.parameters["dd_bytes_per_s"] > 0  # type: ignore[operator]


@pytest.mark.parametrize(
    ("count", "samples"), [(0, 1), (journal_runs.COMMIT_MAX + 1, 1), (1, 0), (1, 100_001)]
)
def test_commit_refuses_numbers_out_of_range(count: int, samples: int, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not allowed"):
        journal_runs.commit(count=count, samples=samples, data=tmp_path)


def test_the_log_check_misses_no_record(tmp_path: Path) -> None:
    log = tmp_path / "data"
    with journal_runs.running_journal(log, 1 << 20) as journal:
        journal.append(100)
    path = storage.list_segments(log)[0]

    assert journal_runs.log_check(log, 100).ok
    assert not journal_runs.log_check(log, 101).ok
    assert not journal_runs.log_check(log, 99).ok
    data = bytearray(path.read_bytes())
    data[data.rindex((50).to_bytes(8, "little"))] ^= 1
    path.write_bytes(data)
    assert not journal_runs.log_check(log, 100).ok


def test_recovery_starts_from_the_log_and_from_a_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery_run, "ROUNDS", 1)

    result = recovery_run.measure(samples=2_000, resting=500, data=tmp_path)

    assert failed(result) == []
    assert result.samples >= 2_000
    assert result.parameters["snapshot_orders"] == 500


def test_snapshot_stall_counts_every_order_of_the_flow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_stall, "CALM_SECONDS", 0.1)

    result = snapshot_stall.measure(resting=1_000, rate=5_000, durability="async", data=tmp_path)

    assert failed(result) == []
    assert result.parameters["rate_seen_per_s"] > 0  # type: ignore[operator]
    assert result.parameters["pause_ns_max"] > 0  # type: ignore[operator]


@pytest.mark.parametrize("durability", ["memory", "sometimes"])
def test_snapshot_stall_needs_a_log(durability: str) -> None:
    with pytest.raises(UsageError, match="async or fsync"):
        snapshot_stall.measure(resting=0, rate=1_000, durability=durability, data=None)
