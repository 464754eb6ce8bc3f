"""`bourse bench`: its list, its commands, and what it says when it cannot measure."""

import json

import pytest

from bourse.bench.workloads import WORKLOADS
from bourse.cli import run


def test_without_a_name_it_lists_every_workload(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench"]) == 0

    said = capsys.readouterr().out.splitlines()
    for workload in WORKLOADS:
        assert any(workload.line in line and workload.name in line for line in said)


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
def test_help_has_every_flag_and_an_example(
    workload: object, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["bench", workload.name, "--help"]) == 0  # type: ignore[attr-defined]

    said = capsys.readouterr().out
    assert "Example:" in said
    for flag in (*(flag.flag for flag in workload.flags), "--json"):  # type: ignore[attr-defined]
        assert flag in said


def test_one_object_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "walk", "--n", "3", "--samples", "300", "--json"]) == 0

    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == 1
    assert found["workload"] == "walk-3"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["walk", "--n", "0"], 2),
        (["rtt", "--samples", "0"], 2),
        (["rtt", "--client-poll", "never"], 2),
        (["rtt", "--connect", "127.0.0.1:1"], 3),
    ],
)
def test_an_error_is_an_object_too(
    arguments: list[str], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["bench", *arguments, "--json"]) == code

    said = capsys.readouterr()
    found = json.loads(said.out)
    assert found["workload"] == arguments[0]
    assert found["error"]["exit_code"] == code
    assert found["error"]["sentence"] in said.err
