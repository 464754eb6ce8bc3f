"""The scripts behind docs/performance.md: curves, waterfall, counted loops, limits."""

import importlib.util
import itertools
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from types import ModuleType

import pytest

from bourse.bench import drawing

SVG = "{http://www.w3.org/2000/svg}"
BENCH = Path(__file__).resolve().parents[2] / "bench"


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"bench_{name}", BENCH / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


curves = script("curves")
instructions = script("instructions")


def test_a_curve_takes_every_process_of_every_point(monkeypatch: pytest.MonkeyPatch) -> None:
    figures = iter(range(100, 200))
    row = (lambda place, quick: {"one": next(figures) / 2.0}, (1, 10, 100), "Title", "axis")
    monkeypatch.setitem(curves.CURVES, "connections", row)

    series, drawn = curves.grow("connections", False, 2)

    assert series == {"one": [(1, [50.0, 51.5]), (10, [50.5, 52.0]), (100, [51.0, 52.5])]}
    assert curves.table("connections", series)[1].split() == ["1", "50.0", "to", "51.5"]
    root = ElementTree.fromstring(drawn)
    assert len(list(root.iter(f"{SVG}circle"))) == 3
    assert {"Title", "axis", "one", "100"} <= {each.text for each in root.iter(f"{SVG}text")}


def test_instruments_are_measured_in_this_process() -> None:
    found = curves.measure_instruments(300, True)

    assert list(found) == ["1 level", "10 levels"]
    assert all(0 < ns < 100_000 for ns in found.values())


def test_a_failed_run_ends_a_script(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit, match="walk"):
        curves.bench("walk", "--n", "0")


def test_the_waterfall_is_the_daemons_stages_and_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    stages = {name: {"p50": 1_000} for name in (*curves.STAGES, "total")}
    found = {"stages_ns": stages, "latency_ns": {"p50": 20_000}}
    monkeypatch.setattr(curves, "bench", lambda *arguments: found)

    rows = curves.waterfall("memory", True)

    assert rows[-1] == ("TCP, client", 14.0)
    drawn = drawing.waterfall_picture("Microseconds", {"memory": rows, "fsync": rows})
    bars = list(ElementTree.fromstring(drawn).iter(f"{SVG}rect"))[1:]
    assert len(bars) == 2 * len(rows)
    for before, after in itertools.pairwise(bars):
        if after.attrib["class"] == before.attrib["class"]:
            end = float(before.attrib["x"]) + float(before.attrib["width"])
            assert float(after.attrib["x"]) == pytest.approx(end, abs=0.2)


@pytest.mark.parametrize("name", ["walk-1000", "walk-1", "alternating", "mixed-1000"])
def test_a_loop_that_is_counted_runs(name: str) -> None:
    instructions.LOOPS[name][0](2_000)


def test_the_limits_of_the_machine_are_measured_by_a_program(tmp_path: Path) -> None:
    program = tmp_path / "limits"
    flags = ("-O2", "-Wall", "-Wextra", "-Werror", "-pthread")
    subprocess.run(["cc", *flags, BENCH / "limits.c", "-o", program], check=True)
    said = subprocess.run(
        [program, tmp_path, "2"], capture_output=True, text=True, timeout=60, check=True
    )

    rows = [line.rsplit(maxsplit=2) for line in said.stdout.splitlines()]
    assert rows[0] == ["nanoseconds", "best", "median"]
    assert {"system call", "clock", "write, fdatasync"} <= {row[0] for row in rows}
    assert all(0 < float(row[1]) <= float(row[2]) for row in rows[1:])
    wrong = subprocess.run([program, tmp_path, "0"], capture_output=True, timeout=60, check=False)
    assert wrong.returncode == 2
