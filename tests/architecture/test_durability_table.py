"""docs/durability.md names a test for each behaviour, and each of those tests exists."""

import subprocess
import sys
from pathlib import Path

from tests.durability_table import matching, not_run, rows

ROOT = Path(__file__).resolve().parents[2]
LAST = {"W": 8, "D": 7, "C": 7, "S": 8, "P": 6, "L": 8}
# Of other systems' faults there is none for us under L7.
NONE = {"L7"}


def test_each_behaviour_has_its_row_and_each_row_a_test() -> None:
    expected = {f"{kind}{number}" for kind, last in LAST.items() for number in range(1, last + 1)}

    table = rows()

    assert set(table) == expected - NONE
    for row, tests in table.items():
        assert tests, f"row {row} names no test"


def test_each_named_test_is_collected() -> None:
    named = {name for tests in rows().values() for name in tests}
    files = sorted({name.partition("::")[0] for name in named})
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", *files],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr
    collected = result.stdout.splitlines()

    assert [name for name in sorted(named) if not matching(name, collected)] == []


def test_a_test_that_did_not_run_is_noticed() -> None:
    outcomes = {name: "passed" for tests in rows().values() for name in tests}
    assert not_run(outcomes) == []
    first = rows()["W1"][0]

    assert not_run({**outcomes, first: "needs root"}) == []
    assert f"W1: {first} was skipped without a reason" in not_run({**outcomes, first: ""})
    del outcomes[first]
    assert f"W1: {first} did not run" in not_run(outcomes)
