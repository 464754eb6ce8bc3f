"""Results kept and compared: nothing is overwritten, only what lies beyond the noise counts."""

import json
from pathlib import Path
from typing import Any

import pytest

from bourse.bench import compare, kept
from bourse.cli import run as bourse
from bourse.errors import UsageError


def result(figure: float, *, ok: bool = True, **more: Any) -> dict[str, Any]:
    return {
        "schema": 1,
        "workload": "ring",
        "boundary": "pipeline",
        "policy": "memory",
        "poll": "none",
        "ns_per_op": figure,
        "checks": [{"name": "ring_empty", "ok": ok, "detail": ""}],
        "environment": {"calibration_ns": 1000.0, "cpu": "a cpu"},
        **more,
    }


def verdict(before: list[float], after: list[float], name: str = "ring") -> str:
    figure = "rate_per_s" if name.startswith("burst") else "ns_per_op"

    def side(values: list[float]) -> dict[str, list[dict[str, Any]]]:
        return {name: [{**result(0.0), figure: value} for value in values]}

    (row,) = compare.compare(side(before), side(after)).rows
    return row.verdict


@pytest.mark.parametrize(
    ("before", "after", "wanted"),
    [
        ([10, 11, 12], [13, 14, 15], "slower"),
        ([13, 14, 15], [10, 11, 12], "faster"),
        ([10, 11, 12], [12, 13, 14], "same"),  # one value is in both ranges
        ([10.0, 10.01, 10.02], [10.1, 10.11, 10.12], "same"),  # apart, but by one per cent
        ([10, 11], [20, 21, 22], "few runs"),
        ([10], [20], "few runs"),
    ],
)
def test_only_what_lies_outside_the_noise_counts(
    before: list[float], after: list[float], wanted: str
) -> None:
    assert verdict(before, after) == wanted


def test_of_a_rate_more_is_faster() -> None:
    assert verdict([10, 11, 12], [13, 14, 15], "burst-memory") == "faster"


def test_a_failed_check_or_an_error_voids_the_row() -> None:
    good = {"ring": [result(10)]}
    bad = {"ring": [result(9, ok=False)]}
    broken = {"ring": [{"case": "ring", "error": {"sentence": "no daemon", "exit_code": 3}}]}

    for other in (bad, broken):
        found = compare.compare(good, other)
        assert [row.verdict for row in found.rows] == ["void"]
        assert found.exit_code == 1
    assert "after: no daemon" in "\n".join(compare.table(found))


def test_what_makes_a_comparison_doubtful_is_said() -> None:
    other = result(10, poll="busy", quiet=False)
    other["environment"] = {"calibration_ns": 1200.0, "cpu": "another"}
    found = compare.compare({"ring": [result(10)]}, {"ring": [other], "walk-1": [result(1)]})

    assert found.only_after == ["walk-1"]
    text = "\n".join(found.notes)
    for words in ("a cpu; another", "policy or poll", "1.20 times", "quiet"):
        assert words in text


def test_nothing_that_was_kept_is_overwritten(tmp_path: Path) -> None:
    place = tmp_path / "new" / "results"
    kept.keep(place, "ring", [result(10.0), result(11.0)])
    kept.keep(place, "ring", [result(12.0)])

    assert sorted(path.name for path in place.iterdir()) == [
        "ring-2.json",
        "ring-3.json",
        "ring.json",
    ]
    found = kept.load(place)
    assert sorted(one["ns_per_op"] for one in found["ring"]) == [10.0, 11.0, 12.0]


def test_the_directory_names_date_host_and_commit() -> None:
    place = kept.directory_of_today()

    assert place.parent == Path("bench/results")
    date, _, rest = place.name[:10], place.name[10], place.name[11:]
    assert len(date.split("-")) == 3
    host, _, commit = rest.partition("-")
    assert host
    assert commit


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": 2, "workload": "ring"}', '"x"'])
def test_what_is_no_result_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "x.json"
    file.write_text(text)

    with pytest.raises(UsageError):
        kept.load(file)
    with pytest.raises(UsageError, match="cannot read"):
        kept.load(tmp_path / "none.json")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="--keep"):
        kept.load(tmp_path / "empty")


def test_the_command_reads_what_all_prints_and_what_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = iter([10.0, 10.5, 11.0, 20.0, 20.5, 21.0])
    monkeypatch.setattr(
        "bourse.bench.suite.perform",
        lambda runs, **_: [run.results.append(result(next(figures))) for run in runs * 3],
    )
    assert bourse(["bench", "all", "ring", "--json"]) == 0
    before = tmp_path / "before.json"
    before.write_text(capsys.readouterr().out)
    assert bourse(["bench", "all", "ring", "--keep-in", str(tmp_path / "after")]) == 0
    capsys.readouterr()

    command = ["bench", "compare", str(before), str(tmp_path / "after")]
    assert bourse(command) == 1
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert lines[1].split() == [
        *("*", "ring", "10.5", "ns", "10%", "20.5", "ns", "5%", "1.952", "slower")
    ]
    assert bourse([*command, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["rows"][0]["before"]["range"] == [10.0, 11.0]
    assert bourse(["bench", "compare", str(before), str(before)]) == 0
    assert bourse(["bench", "compare", str(before), "nowhere"]) == 2
    other = tmp_path / "other.json"
    other.write_text(json.dumps(result(1.0, case="walk-1")))
    assert bourse(["bench", "compare", str(before), str(other)]) == 2
