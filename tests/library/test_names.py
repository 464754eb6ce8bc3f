"""What `bourse` offers by name, and that asking for nothing costs nothing."""

import subprocess
import sys
from pathlib import Path

import pytest

import bourse

ROOT = Path(__file__).resolve().parents[2]


def test_every_name_that_is_promised_is_there() -> None:
    for name in bourse.__all__:
        assert getattr(bourse, name) is not None
    assert bourse.Engine is bourse.Engine


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'bourse' has no attribute 'Exchange'"):
        bourse.Exchange  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize("module", ["bourse", "bourse.cli", "bourse.errors"])
def test_the_library_is_loaded_when_it_is_asked_for(module: str) -> None:
    code = f"import sys, {module}; print(*sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True
    )

    loaded = set(result.stdout.split())

    assert not loaded & {"numpy", "bourse.library", "bourse.core.engine"}
    if module == "bourse":
        assert not loaded & {"bourse.domain", "enum", "typing", "pathlib", "re"} - BEFORE


BEFORE = set(
    subprocess.run(
        [sys.executable, "-c", "import sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
)
