"""The table of workloads: complete, within 80 columns, and what commands and documents say."""

import inspect
from pathlib import Path
from pkgutil import resolve_name

import pytest

from bourse.bench.workloads import WORKLOADS, Bound, Workload, find, list_lines

by_name = pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)


def test_names_are_unique() -> None:
    names = [workload.name for workload in WORKLOADS]
    cases = [case.name for workload in WORKLOADS for case in workload.cases]

    assert len(set(names)) == len(names)
    assert len(set(cases)) == len(cases)
    assert find("walk") is WORKLOADS[0]
    assert find("nothing") is None


def test_the_list_fits_a_terminal_and_stands_in_the_documents() -> None:
    document = Path("docs/performance.md").read_text()

    for line in list_lines():
        assert len(line) <= 80, line
        assert line in document


@by_name
def test_the_function_takes_every_flag(workload: Workload) -> None:
    function = resolve_name(workload.function)
    values = {flag.name: flag.default for flag in workload.flags}

    inspect.signature(function).bind(**values)
    for case in workload.cases:
        for given in (case.flags, case.quick, case.full):
            assert given.keys() <= values.keys()


@by_name
def test_flags_are_said_in_full(workload: Workload) -> None:
    boundaries = (
        "engine",
        "reported",
        "library",
        "pipeline",
        "journal",
        "client",
        "confirmed",
        "console",
    )
    assert workload.boundary in boundaries
    assert workload.example.split()[0] == workload.name
    for flag in workload.flags:
        assert flag.flag.startswith("--")
        assert flag.help.endswith(".")


def test_a_bound_follows_the_ping_pong() -> None:
    bound = Bound("ns_per_op", 50, ping_pong=1.5)

    assert bound.limit(100) == 200
    assert bound.holds(200, 100)
    assert not bound.holds(201, 100)
    assert Bound("rate_per_s", 10, at_least=True).holds(10)
    assert not Bound("rate_per_s", 10, at_least=True).holds(9)
