"""Results of benchmarks: percentiles, the object, the environment and what is wrong with it."""

import json
from pathlib import Path

import pytest
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

from bourse.admin.checks import Check
from bourse.bench import calibration, results
from bourse.bench.disk import SyncTimer
from bourse.bench.private_daemon import scratch_parent
from bourse.bench.results import Environment, Percentiles, Result, percentiles
from bourse.domain import Durability
from bourse.errors import UsageError


def result(*checks: Check) -> Result:
    return Result(
        workload="rtt",
        boundary="client",
        policy="fsync",
        poll="busy",
        samples=3,
        seconds=0.5,
        checks=list(checks),
    )


def environment(load_average: float, filesystem: str) -> Environment:
    return Environment("cpu", 2, "Linux", "3.11", "gcc", filesystem, load_average, "0")


def test_percentiles_have_three_significant_digits() -> None:
    found = percentiles(range(1_000, 101_000))

    assert isinstance(found.p50, int)
    assert isinstance(found.p99_9, int)
    assert found.p50 == pytest.approx(51_000, rel=0.002)
    assert found.p99_9 == pytest.approx(100_900, rel=0.002)
    assert found.max == 100_999


def test_no_percentile_is_above_the_maximum() -> None:
    assert percentiles([4_421_240]) == Percentiles(
        **dict.fromkeys(("p50", "p90", "p99", "p99_9", "max"), 4_421_240)
    )


def test_no_samples_have_no_percentiles() -> None:
    assert percentiles([]) == Percentiles()


def test_fields_that_do_not_apply_are_absent() -> None:
    found = json.loads(result(Check("a", True)).json())

    assert found["schema"] == 1
    assert "latency_ns" not in found
    assert "fdatasync_ns" not in found
    assert found["checks"] == [{"name": "a", "ok": True, "detail": ""}]


def test_one_failed_check_voids_the_result() -> None:
    assert result(Check("a", True)).exit_code == 0
    assert result(Check("a", True), Check("b", False)).exit_code == 1


def test_a_busy_machine_and_a_disk_in_memory_are_warned_of() -> None:
    assert results.machine_warnings(environment(0.1, "ext4")) == []
    assert "load average" in results.machine_warnings(environment(0.3, "ext4"))[0]
    assert "tmpfs" in results.machine_warnings(environment(0.0, "tmpfs"))[0]


def test_the_filesystem_is_that_of_the_deepest_mount(monkeypatch: pytest.MonkeyPatch) -> None:
    table = (
        "1 0 8:1 / / rw - ext4 /dev/a rw\n"
        "2 1 0:2 / /data rw shared:1 - tmpfs none rw\n"
        "3 1 8:2 / /data/a\\040b rw - xfs /dev/b rw\n"
        "4 1 8:3 / /data rw - btrfs /dev/c rw\n"
    )
    monkeypatch.setattr(Path, "read_text", lambda self: table)

    assert results.filesystem_of(Path("/")) == "ext4"
    assert results.filesystem_of(Path("/database")) == "ext4"
    assert results.filesystem_of(Path("/data/x")) == "btrfs"
    assert results.filesystem_of(Path("/data/a b/c")) == "xfs"


def test_the_environment_of_this_machine_is_complete(tmp_path: Path) -> None:
    found = results.environment(tmp_path, results.load_average())

    assert found.cores >= 1
    assert all((found.cpu, found.kernel, found.python, found.compiler, found.filesystem))


def test_the_disk_is_timed_and_nothing_is_left(tmp_path: Path) -> None:
    with SyncTimer(tmp_path) as timer:
        timer.time(3)
        timer.time(2)
    durations = timer.durations_ns

    assert len(durations) == 5
    assert min(durations) > 0
    assert list(tmp_path.iterdir()) == []


def test_the_scratch_directory_is_the_one_that_is_named(tmp_path: Path) -> None:
    assert scratch_parent(Durability.FSYNC, tmp_path) == tmp_path
    with pytest.raises(UsageError, match="not a directory"):
        scratch_parent(Durability.FSYNC, tmp_path / "none")
    assert scratch_parent(Durability.MEMORY, None).is_dir()


def test_a_calibration_far_from_its_best_is_a_noise() -> None:
    def calibrated(now_ns: float, best_ns: float | None) -> list[str]:
        return results.noises(
            Environment(
                "cpu", 2, "Linux", "3.11", "gcc", "ext4", 0.1, "0",
                calibration_ns=now_ns, calibration_best_ns=best_ns,
            )
        )  # fmt: skip

    assert calibrated(104.0, 100.0) == []
    assert calibrated(90.0, 100.0) == []
    assert calibrated(500.0, None) == []
    assert "calibration loop took 6% longer" in calibrated(106.0, 100.0)[0]


def test_the_best_calibration_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    found = iter([100.0, 120.0, 90.0, 95.0, 80.0])
    monkeypatch.setattr("bourse.bench.calibration_loop.run", lambda runs: next(found))

    assert calibration.calibrate("one") == (100.0, None)
    assert calibration.calibrate("one") == (120.0, 100.0)
    assert calibration.calibrate("one") == (90.0, 100.0)
    assert calibration.calibrate("one") == (95.0, 90.0)
    assert calibration.calibrate("another") == (80.0, None)
    assert [path.name for path in (tmp_path / "bourse").iterdir()] == ["calibration.json"]


def test_the_environment_says_how_the_product_was_built() -> None:
    found = results.environment(None, 0.0)

    assert found.compiler.startswith(("gcc", "clang"))
    assert "-O" in found.compiler_flags
    assert found.build in ("release", "checked")
    assert found.pinning == "none"


def test_a_written_log_is_read_back(tmp_path: Path) -> None:
    found = results.latencies([1_000, 2_000, 2_000, 250_000_000])
    path = tmp_path / "rtt.hlog"

    assert results.write_hlog(path, "rtt")
    reader = HistogramLogReader(str(path), HdrHistogram(1, 3_600_000_000_000, 3))
    histogram = reader.get_next_interval_histogram()
    reader.close()
    assert histogram.get_total_count() == 4
    assert histogram.get_value_at_percentile(50) == found.p50
    assert histogram.get_max_value() == pytest.approx(250_000_000, rel=0.001)
    assert path.read_text().startswith("#[bourse")
