"""The percentile curve: its points are the histogram's, text and picture show all of it."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from bourse.bench import curve, results
from bourse.cli import run as bourse

SVG = "{http://www.w3.org/2000/svg}"


def a_curve(values: list[int]) -> curve.Curve:
    results.latencies(values)
    return curve.curve_of(results.kept_histogram())


def test_the_curve_rises_to_the_maximum_and_has_the_percentiles() -> None:
    found = a_curve(list(range(1, 1001)))

    assert [point[1] for point in found] == sorted(point[1] for point in found)
    assert found[-1] == (pytest.approx(3.0), 1000)
    by_nines = {round(nines, 6): value for nines, value in found}
    assert by_nines[1.0] == 900
    assert by_nines[2.0] == 990


@pytest.mark.parametrize("values", [[5], [7] * 1000, [1, 10**10], list(range(1, 100_000, 7))])
@pytest.mark.parametrize("ascii_only", [False, True])
def test_the_text_fits_and_begins_and_ends_at_the_edges(
    values: list[int], ascii_only: bool
) -> None:
    lines = curve.plot(a_curve(values), 80, 10, ascii_only)

    assert len(lines) == 12
    assert all(len(line) <= 80 for line in lines)
    edge = "|" if ascii_only else "│"
    fields = [line.partition(edge)[2].ljust(70) for line in lines[:10]]
    assert any(field[0] != " " for field in fields)
    assert any(field[69] != " " for field in fields)
    assert lines[0].startswith("  ")
    assert "90%" in lines[-1]
    if ascii_only:
        assert all(line.isascii() for line in lines)


def test_the_scale_names_powers_of_ten() -> None:
    assert [curve.power_text(power) for power in (0, 2, 3, 5, 6, 9, 10)] == [
        *("1 ns", "100 ns", "1 us", "100 us", "1 ms", "1 s", "10 s")
    ]
    assert [curve.nines_text(nines) for nines in range(5)] == [
        *("0%", "90%", "99%", "99.9%", "99.99%")
    ]


def test_the_picture_is_well_formed_and_inside_its_frame() -> None:
    root = ElementTree.fromstring(curve.svg(a_curve(list(range(1, 5000))), "a title"))

    (way,) = root.iter(f"{SVG}polyline")
    places = [tuple(map(float, place.split(","))) for place in way.attrib["points"].split()]
    assert len(places) > 50
    assert all(0 <= x <= curve.WIDTH and 0 <= y <= curve.HEIGHT for x, y in places)
    assert [x for x, _ in places] == sorted(x for x, _ in places)
    assert "a title" in "".join(root.itertext())


def test_a_workload_writes_and_draws_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "curve.svg"
    command = ["bench", "commit", "--n", "2", "--samples", "50"]
    assert bourse([*command, "--plot", "--svg", str(picture)]) == 0

    said = capsys.readouterr().out
    assert "  batch  " in said
    assert "with operation 'a batch', records_in_batch 2" in said
    assert said.splitlines()[-1].split() == ["0%", "90%", "max"]
    ElementTree.fromstring(picture.read_text())
    assert bourse([*command, "--svg", str(tmp_path / "no" / "curve.svg")]) == 2


def test_a_workload_without_latencies_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(results, "_kept", [])
    picture = tmp_path / "curve.svg"
    command = ["bench", "ring", "--samples", "1000", "--plot", "--svg", str(picture)]
    assert bourse(command) == 0

    said = capsys.readouterr().err
    assert "ring has no latencies; " in said
    assert "ring has no latencies to draw" in said
    assert not picture.exists()
