"""The workloads between two cores: their checks hold, and name every fault on the way to them."""

import os
import subprocess
from pathlib import Path

import pytest

from bourse.bench import pipeline
from bourse.bench.results import Result
from bourse.errors import UsageError

two_cpus = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")


def failed(result: Result) -> set[str]:
    return {check.name for check in result.checks if not check.ok}


@two_cpus
@pytest.mark.parametrize("workload", ["market", "cross"])
def test_round_trips_are_timed_beside_a_ping_pong(workload: str) -> None:
    before = os.sched_getaffinity(0)
    found = pipeline.pipeline(workload, 2_000)

    assert found.exit_code == 0, found.checks
    assert found.workload == f"pipeline-{workload}"
    assert found.boundary == "pipeline"
    assert isinstance(found.ns_per_op, float)
    assert isinstance(found.ping_pong_ns, float)
    assert found.ping_pong_ns > 0
    assert os.sched_getaffinity(0) == before


@two_cpus
def test_the_digests_repeat() -> None:
    assert pipeline.pipeline("cross", 2_000).digests == pipeline.pipeline("cross", 2_000).digests


@two_cpus
@pytest.mark.parametrize(
    ("fault", "names"),
    [
        ("drop", {"events_heard", "sequence_gapless"}),
        ("double", {"events_heard", "sequence_gapless"}),
        ("quantity", set()),
    ],
)
def test_one_wrong_event_voids_the_figure(fault: str, names: set[str]) -> None:
    found = pipeline.pipeline("cross", 2_000, fault)

    always = {"events_exact", "heard_bought_equals_sold", "event_digest_heard"}
    assert failed(found) == names | always
    assert found.exit_code == 1


@two_cpus
def test_the_floor_under_it_is_measured_by_a_program_of_its_own(tmp_path: Path) -> None:
    program = tmp_path / "ring_floor"
    source = Path(__file__).resolve().parents[2] / "bench" / "ring_floor.c"
    subprocess.run(["cc", "-O2", "-Werror", "-pthread", source, "-o", program], check=True)
    said = subprocess.run([program, "1"], capture_output=True, text=True, timeout=60, check=True)

    rows = [line.split() for line in said.stdout.splitlines()]
    assert [row[0] for row in rows] == ["lines", "1", "1", "2"]
    assert all(float(row[3]) > 0 for row in rows[1:])


def test_the_ring_reads_back_what_was_pushed() -> None:
    found = pipeline.ring(10_000)

    assert found.exit_code == 0, found.checks
    assert isinstance(found.ns_per_op, float)


def test_wrong_flags_are_refused() -> None:
    with pytest.raises(UsageError, match="market or cross"):
        pipeline.pipeline("sideways", 10)
    with pytest.raises(UsageError, match="--samples"):
        pipeline.ring(0)
