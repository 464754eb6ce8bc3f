"""What may import what, seen from the running interpreter (lint-imports reads the sources)."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PURE_PACKAGES = ("core", "protocol", "journal", "library")
FORBIDDEN = ("asyncio", "uvloop", "socket", "textual", "rich", "typer", "cython", "Cython")


def module_names(package: str) -> list[str]:
    folder = ROOT / "bourse" / package
    return sorted(
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in folder.rglob("*.py")
        if path.name not in ("__init__.py", "__main__.py")
    )


def loaded_by(module: str) -> set[str]:
    """Names of the modules that are loaded after importing one in a new interpreter."""
    code = f"import sys, {module}; print(*sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert result.returncode == 0, f"import {module}: {result.stderr}"
    return set(result.stdout.split())


@pytest.mark.parametrize("package", PURE_PACKAGES)
def test_pure_packages_load_no_loop_no_socket_no_screen(package: str) -> None:
    modules = module_names(package) or [f"bourse.{package}"]

    loaded = loaded_by(", ".join(modules))

    assert not loaded & set(FORBIDDEN)


def test_the_command_line_starts_without_the_heavy_parts() -> None:
    loaded = loaded_by("bourse.cli")

    heavy = {"textual", "asyncio", "uvloop", "hdrh", "bourse.tui.app", "bourse.daemon.main"}
    assert not loaded & heavy


def test_no_package_but_the_console_names_textual() -> None:
    for path in (ROOT / "bourse").rglob("*.py"):
        if "tui" in path.parts:
            continue
        assert not re.search(r"^\s*(import|from) textual\b", path.read_text(), re.M), path


def test_every_third_party_import_is_a_declared_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    lines = [*project["dependencies"], *extras["numpy"], *extras["web"]]
    declared = {re.split(r"[<>=!~ \[]", line)[0] for line in lines}
    # cython compiles away
    provides = {"hdrh": "hdrhistogram", "textual_serve": "textual-serve", "cython": None}
    # Part of typer's own dependencies, and of its public interface.
    provides["click"] = "typer"
    for path in (ROOT / "bourse").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [node.module]
            for name in names:
                top = name.partition(".")[0]
                if top == "bourse" or top in sys.stdlib_module_names:
                    continue
                distribution = provides.get(top, top)
                assert distribution is None or distribution in declared, f"{path}: {top}"
