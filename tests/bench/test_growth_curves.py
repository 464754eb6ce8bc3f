"""bench/growth.py: it measures a book that keeps its size, and draws what it found."""

from __future__ import annotations

import importlib.util
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from types import ModuleType

import pytest

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def growth() -> ModuleType:
    spec = importlib.util.spec_from_file_location("growth_curves", Path("bench/growth.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_a_point_is_measured_for_each_mix(
    growth: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(growth, "WARM_COMMANDS", 100)
    monkeypatch.setattr(growth, "SLICE_COMMANDS", 1_000)

    found = growth.measure(500, 20)

    assert list(found) == list(growth.MIXES)
    assert all(0 < ns < 100_000 for ns in found.values())


def test_the_picture_has_every_point_and_the_caches_between_them(growth: ModuleType) -> None:
    found = [
        (value, growth.Point(value, 100, {mix: [ns, 2 * ns] for mix in growth.MIXES}))
        for value, ns in ((1_000, 40.0), (100_000, 90.0), (10_000_000, 200.0))
    ]

    drawn = growth.draw("A title", "orders", found, 100, {"L2": 1 << 20, "L9": 1 << 60})

    root = ElementTree.fromstring(drawn)
    words = [each.text for each in root.iter(f"{SVG}text")]
    assert len(list(root.iter(f"{SVG}circle"))) == 3 * len(growth.MIXES)
    assert {"1k", "100k", "10M", "L2", "3 x the fastest"} <= set(words)
    assert "L9" not in words
    assert "prefers-color-scheme: dark" in drawn
    assert growth.table("orders", found)[-1].split() == ["ratio", *["5.00"] * len(growth.MIXES)]


def test_the_published_pictures_are_of_this_script(growth: ModuleType) -> None:
    for name in ("growth-orders", "growth-levels"):
        root = ElementTree.fromstring((growth.PICTURES / f"{name}.svg").read_text())
        assert len(list(root.iter(f"{SVG}polyline"))) == len(growth.MIXES)
        assert f"{name}.svg" in Path("docs/performance.md").read_text()
