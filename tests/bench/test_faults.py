"""One event spoiled on its way to the checks: each workload that hears it names what is wrong."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from bourse.bench.faults import FAULTS, fault_number
from bourse.bench.private_daemon import PrivateDaemon
from bourse.bench.suite import choose, command_of
from bourse.bench.workloads import FAULT, WORKLOADS, find
from bourse.cli import run as bourse
from bourse.domain import Durability, PollMode
from bourse.errors import UsageError

NAMES = {
    "drop": {"events_expected", "bought_equals_sold"},
    "double": {"events_expected", "events_exact", "bought_equals_sold"},
    "quantity": {"events_exact", "bought_equals_sold"},
}
SMALL: dict[str, dict[str, Any]] = {
    "rtt": {"samples": 200},
    "burst": {"samples": 2_000},
    "load": {"rate": 20_000, "seconds": 0.05},
    "fan-in": {"samples": 1_000, "connections": 8},
}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with PrivateDaemon(Durability.MEMORY, PollMode.ADAPTIVE) as daemon:
        yield daemon.banner.listen


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("fault", [None, *FAULTS])
def test_the_checks_of_a_client_name_the_fault(name: str, fault: str | None, address: str) -> None:
    workload = find(name)
    assert workload is not None
    found = workload.run(connect=address, fault=fault, **SMALL[name])

    failed = {check.name for check in found.checks if not check.ok}
    assert failed == set() if fault is None else failed >= NAMES[fault]
    assert found.exit_code == (1 if fault else 0)


@pytest.mark.parametrize("fault", FAULTS)
def test_all_ends_with_1_and_names_the_check(
    fault: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = bourse(["bench", "all", "burst-memory", "--quick", "--fault", fault, "--json"])

    (spoiled,) = json.loads(capsys.readouterr().out)["results"]
    assert code == 1
    assert {check["name"] for check in spoiled["checks"] if not check["ok"]} >= NAMES[fault]


def test_a_fault_reaches_every_case_that_hears_events() -> None:
    hearing = {workload.name for workload in WORKLOADS if FAULT in workload.flags}

    assert hearing == {"pipeline", "rtt", "burst", "load", "fan-in"}
    for run in choose([]):
        assert ("--fault" in command_of(run, False, "drop")) == (run.workload.name in hearing)
        assert "--fault" not in command_of(run, False)


def test_an_unknown_fault_is_refused() -> None:
    assert fault_number(None) == 0
    with pytest.raises(UsageError, match="drop, double or quantity"):
        fault_number("lose")
