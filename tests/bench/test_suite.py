"""Runs of many workloads: order, figures, table, exit codes, budgets."""

import json
from pathlib import Path
from typing import Any

import pytest

from bourse.bench import suite
from bourse.bench.suite import Budget, Run
from bourse.bench.workloads import WORKLOADS, Bound, Case
from bourse.cli import run as bourse
from bourse.errors import UsageError


def result(figure: float, *, ok: bool = True, **more: Any) -> dict[str, Any]:
    return {
        "ns_per_op": figure,
        "samples": 100,
        "checks": [{"name": "counted", "ok": ok, "detail": ""}],
        "environment": {"calibration_ns": 1000.0},
        "quiet_reasons": [],
        **more,
    }


def a_run(*results: dict[str, Any], must: Bound | None = None) -> Run:
    case = Case(name="a-case", must=must, unit="a thing")
    return Run(case=case, workload=WORKLOADS[0], results=list(results))


def test_the_fastest_repetition_is_the_figure() -> None:
    run = a_run(result(20.0), result(10.0), result(30.0), must=Bound("ns_per_op", 11))

    found = run.summary()
    assert found["ns_per_op"] == 10.0
    assert found["repetitions"]["median"] == 20.0
    assert found["repetitions"]["range"] == [10.0, 30.0]
    assert found["must"] == {"figure": "ns_per_op", "limit": 11, "holds": True}


def test_a_bound_takes_the_ping_pong_of_its_own_run() -> None:
    bound = Bound("ns_per_op", 50, ping_pong=1.5)

    assert a_run(result(200.0, ping_pong_ns=100.0), must=bound).holds is True
    assert a_run(result(200.0, ping_pong_ns=90.0), must=bound).holds is False


def test_more_is_better_for_a_rate() -> None:
    rates = [{"rate_per_s": rate, "environment": {"calibration_ns": 10.0}} for rate in (5e6, 7e6)]
    run = a_run(*rates, must=Bound("rate_per_s", 6e6, at_least=True))

    assert run.best["rate_per_s"] == 7e6
    assert run.holds is True
    assert suite.ratio_of(run, rates[0], Budget()) == pytest.approx(1e9 / 5e6 / 10.0)


def test_every_case_has_a_command_line_that_its_workload_takes() -> None:
    for run in suite.choose([]):
        for full in (False, True):
            command = suite.command_of(run, full)
            assert command[1:4] == ["-m", "bourse", "bench"]
            assert command[-1] == "--json"
            known = {flag.flag for flag in run.workload.flags} | {"--json"}
            assert {part for part in command[5:] if part.startswith("--")} <= known


def test_repetitions_take_turns_when_asked() -> None:
    def order(interleave: bool) -> list[str]:
        runs = suite.choose(["walk"])
        seen: list[str] = []
        suite.perform(
            runs,
            repeat=2,
            interleave=interleave,
            on_start=lambda run, number: seen.append(run.case.name),
            execute=lambda command: result(1.0),
        )
        return seen

    assert order(False) == ["walk-1000", "walk-1000", "walk-1", "walk-1"]
    assert order(True) == ["walk-1000", "walk-1", "walk-1000", "walk-1"]


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(UsageError, match="no workload nope"):
        suite.choose(["walk", "nope"])


def test_a_process_that_prints_no_object_is_an_error() -> None:
    found = suite.execute(["sh", "-c", "echo oh dear >&2; exit 9"])

    assert found == {"error": {"sentence": "oh dear", "exit_code": 9}}
    assert a_run(found).faults == ["oh dear"]


def test_the_table_fits_80_columns_and_names_what_failed() -> None:
    long = a_run(
        result(123_456_789.0, ok=False, ping_pong_ns=1_234.5),
        result(999_456_789.0),
        must=Bound("ns_per_op", 1_000),
    )
    lines = suite.table([long, a_run(result(1.0)), a_run({"error": {"sentence": "x" * 100}})])

    assert all(len(line) <= 80 for line in lines), lines
    assert any("MISS" in line and "FAILED" in line for line in lines)
    assert "  counted" in lines


@pytest.mark.parametrize(
    ("results", "floors", "sentence"),
    [
        ([result(11.0)], {}, None),
        ([result(30.0), result(10.9)], {}, None),
        ([result(11.2)], {}, "its budget is 0.01"),
        ([result(5.0)], {"samples": 101}, "samples is 100, at least 101"),
        ([result(5.0)], {"parameters.fills": 1}, "parameters.fills is nothing"),
        ([result(5.0, ok=False)], {}, "counted"),
        ([{"error": {"sentence": "no", "exit_code": 1}}], {}, "there is no figure"),
    ],
)
def test_budgets(
    results: list[dict[str, Any]], floors: dict[str, float], sentence: str | None
) -> None:
    wrong = suite.judge(a_run(*results), Budget(ratio=0.01, floors=floors))

    assert (not wrong) if sentence is None else any(sentence in each for each in wrong)


def test_the_budgets_are_for_cases_that_exist() -> None:
    names = {run.case.name for run in suite.choose([])}
    budgets = suite.load_budgets(Path("bench/budgets.toml"))

    # What a console costs is judged by checks of its own.
    assert budgets.keys() == {name for name in names if not name.startswith("console-cost")}
    assert all(budget.floors for budget in budgets.values())


@pytest.mark.parametrize(
    ("budget", "wrong"),
    [
        (Budget(ratio=2.0, over="fdatasync_ns.p50", figure="latency_ns.p50"), None),
        (
            Budget(ratio=1.2, over="fdatasync_ns.p50", figure="latency_ns.p50"),
            "1.5 times fdatasync",
        ),
        (Budget(ratio=1.1, over="", figure="parameters.time_to_dd"), None),
        (Budget(ratio=0.5, over="", figure="parameters.time_to_dd"), "time_to_dd 0.9, its budget"),
        (Budget(ratio=1.0, over="nothing"), "there is no figure"),
        (Budget(floors={"samples": 100}), None),
    ],
)
def test_a_budget_may_be_a_ratio_to_another_figure_of_the_run(
    budget: Budget, wrong: str | None
) -> None:
    run = a_run(
        result(
            5.0,
            latency_ns={"p50": 150},
            fdatasync_ns={"p50": 100},
            parameters={"time_to_dd": 0.9},
        )
    )

    found = suite.judge(run, budget, 0.0)
    assert (not found) if wrong is None else wrong in found[0]


@pytest.mark.parametrize("text", ["ratio =", '[walk-1]\nratio = "x"', "[walk-1]\nratoi = 1.0"])
def test_a_wrong_table_is_one_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / "budgets.toml"
    path.write_text(text)

    with pytest.raises(UsageError, match="not a table of budgets"):
        suite.load_budgets(path)
    with pytest.raises(UsageError, match="cannot read"):
        suite.load_budgets(tmp_path / "none.toml")


def test_all_prints_one_object(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = {"walk": result(10.0), "ring": result(4.0, ok=False)}
    monkeypatch.setattr(
        "bourse.bench.suite.perform",
        lambda runs, **_: [run.results.append(answers[run.workload.name]) for run in runs],
    )

    assert bourse(["bench", "all", "walk", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == 1
    assert [each["case"] for each in found["results"]] == ["walk-1000", "walk-1"]
    assert bourse(["bench", "all", "walk", "ring"]) == 1
    assert "counted" in capsys.readouterr().out
    assert bourse(["bench", "all", "--quick", "--full"]) == 2


def test_check_ends_with_1_over_a_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    budgets = tmp_path / "budgets.toml"
    monkeypatch.setattr(
        "bourse.bench.suite.perform",
        lambda runs, **_: [run.results.append(result(12.0)) for run in runs],
    )
    command = ["bench", "check", "ring", "--budgets", str(budgets)]

    budgets.write_text("[ring]\nratio = 0.011\n")
    assert bourse(command) == 0
    budgets.write_text("[ring]\nratio = 0.0108\n")
    assert bourse(command) == 1
    assert "ring: 0.012 calibrations" in capsys.readouterr().err
    assert bourse([*command, "--slack", "50"]) == 0


def test_the_engine_keeps_its_budgets_with_much_slack(capsys: pytest.CaptureFixture[str]) -> None:
    """A fifth of the speed passes, so that a busy machine does; counters and checks count fully."""
    command = ["bench", "check", "walk-1", "alternating", "ring", "--repeat", "1"]

    assert bourse([*command, "--slack", "400", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["over_budget"] == []
    assert [one["workload"] for one in found["results"]] == ["walk-1", "alternating", "ring"]
    for one in found["results"]:
        assert one["environment"]["calibration_ns"] > 0
        assert isinstance(one["quiet"], bool)
