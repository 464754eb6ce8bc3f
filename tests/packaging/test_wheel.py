"""The wheel: built from the sources alone, installed elsewhere, complete and compiled."""

import os
import re
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = re.findall(r'"(bourse/[\w/]+\.py)"', (ROOT / "setup.py").read_text())
MODULES = [path.removesuffix(".py").replace("/", ".") for path in SOURCES if (ROOT / path).exists()]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(420)]


def run(*command: object, **options: Any) -> str:
    result = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, check=False, **options
    )
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-4000:]
    return result.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a wheel from a copy of the sources, without anything that was built before."""
    copy = tmp_path_factory.mktemp("sources")
    names = ["bourse", "setup.py", "pyproject.toml", "README.md", "LICENSE"]
    ignored = ["--exclude=*.so", "--exclude=__pycache__"]
    with subprocess.Popen(
        ["tar", "-c", *ignored, *names], cwd=ROOT, stdout=subprocess.PIPE
    ) as packed:
        run("tar", "-x", cwd=copy, stdin=packed.stdout)
    out = tmp_path_factory.mktemp("wheel")
    # Optimising would only take time here; the sources and flags that matter are the same.
    environment = {**os.environ, "BOURSE_BUILD": "checked"}
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet"]
    run(*pip, "--no-build-isolation", "--no-deps", "-w", out, copy, env=environment)
    (found,) = out.glob("bourse_exchange-*.whl")
    return found


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A throwaway environment with the wheel; its dependencies are borrowed, not fetched again."""
    place = tmp_path_factory.mktemp("venv")
    venv.create(place, with_pip=False)
    executable = place / "bin" / "python"
    site = Path(run(executable, "-c", "import site; print(site.getsitepackages()[0])").strip())
    (site / "borrowed.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", executable]
    run(*pip, "install", "--quiet", "--no-deps", "--no-index", wheel)
    yield executable


def test_wheel_is_for_this_python_and_holds_every_compiled_module(wheel: Path) -> None:
    assert "py3-none-any" not in wheel.name
    names = zipfile.ZipFile(wheel).namelist()
    for source in SOURCES:
        if (ROOT / source).exists():
            stem = source.removesuffix(".py")
            assert any(name.startswith(f"{stem}.") and name.endswith(".so") for name in names), stem
            assert source in names
    for path in (ROOT / "bourse").rglob("*"):
        if path.suffix in (".py", ".pxd", ".tcss", ".h") or path.name == "py.typed":
            assert str(path.relative_to(ROOT)) in names
    assert not [name for name in names if name.startswith(("tests/", "tools/", "build/"))]
    assert not [name for name in names if name.endswith((".c", ".cpp"))]


def test_compiled_modules_import_from_another_folder(python: Path, tmp_path: Path) -> None:
    code = f"""
import importlib, sys
for name in {MODULES!r}:
    module = importlib.import_module(name)
    assert module.__file__.endswith(".so"), module.__file__
    assert {str(ROOT)!r} not in module.__file__, module.__file__
"""
    run(python, "-c", code, cwd=tmp_path)


def test_the_command_is_installed(python: Path, tmp_path: Path) -> None:
    command = python.with_name("bourse")
    assert "Usage: bourse" in run(command, "--help", cwd=tmp_path)
    assert run(command, "--version", cwd=tmp_path).startswith("bourse ")
    assert "Usage: bourse" in run(python, "-m", "bourse", "--help", cwd=tmp_path)


def test_the_installed_library_trades_and_names_its_header(python: Path, tmp_path: Path) -> None:
    code = """
import bourse, pathlib
engine = bourse.Engine()
engine.limit("sell", 1, 5)
print(engine.limit("buy", 1, 5).filled_lots)
print(pathlib.Path(bourse.get_include(), "bourse.h").exists())
"""
    assert run(python, "-c", code, cwd=tmp_path) == "1\nTrue\n"


def test_an_installed_daemon_trades(python: Path, tmp_path: Path) -> None:
    command = python.with_name("bourse")
    flags = ["--durability", "fsync", "--samples", "100", "--json"]
    assert '"schema":1' in run(command, "bench", "burst", *flags, cwd=tmp_path)
