"""Results kept in files: what `--keep` writes and `bourse bench compare` reads.

A directory has a file for each process that measured, `<case>.json`, then `<case>-2.json`: nothing
is overwritten, and all of one name are repetitions of one case. What `bourse bench all --json`
prints, or one workload's object, serves as well.
"""

from __future__ import annotations

import json
import re
import socket
import subprocess
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bourse import __version__
from bourse.bench.results import SCHEMA
from bourse.errors import UsageError

RESULTS = Path("bench/results")


def directory_of_today() -> Path:
    """Return bench/results/<date>-<host>-<commit>; without a checkout the version stands there."""
    host = re.sub(r"[^A-Za-z0-9]+", "_", socket.gethostname()) or "host"
    return RESULTS / f"{datetime.now(UTC):%Y-%m-%d}-{host}-{_commit()}"


def _commit() -> str:
    """Name the commit that the package is of, `+` behind it when files were changed."""
    here = Path(__file__).parent
    try:
        named = subprocess.run(
            ["git", "describe", "--always", "--exclude=*", "--dirty=+", "--abbrev=9"],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
            cwd=here,
        )
    except (OSError, subprocess.SubprocessError):
        return f"v{__version__}"
    return named.stdout.strip()


def keep(directory: Path, name: str, results: Iterable[dict[str, Any]]) -> list[Path]:
    """Write results beside those that are there; returns the new files.

    Args:
        directory: made when it is not there.
        name: of the case.
        results: one of each process.

    Raises:
        UsageError: it cannot be written there.
    """
    written = []
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for result in results:
            path = directory / f"{name}.json"
            number = 1
            while path.exists():
                number += 1
                path = directory / f"{name}-{number}.json"
            path.write_text(json.dumps({**result, "case": name}, indent=1) + "\n")
            written.append(path)
    except OSError as error:
        raise UsageError(f"cannot keep results in {directory}: {error.strerror}") from None
    return written


def name_of(result: dict[str, Any]) -> str:
    """Return what a result is of: its case, else its workload, of a daemon with the policy."""
    if "case" in result:
        return str(result["case"])
    if result.get("boundary") == "client":
        return f"{result['workload']}-{result['policy']}"
    return str(result["workload"])


def load(path: Path) -> dict[str, list[dict[str, Any]]]:
    """Read a results directory or a file of results, by case.

    Raises:
        UsageError: there is none, or it is of another kind.
    """
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    if not files:
        raise UsageError(f"{path} has no results; `bourse bench ... --keep` writes some")
    found: dict[str, list[dict[str, Any]]] = {}
    for file in files:
        for result in _read(file):
            found.setdefault(name_of(result), []).append(result)
    return found


def _read(file: Path) -> list[dict[str, Any]]:
    try:
        value = json.loads(file.read_bytes())
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}") from None
    except ValueError:
        raise UsageError(f"{file} is not JSON, as `bourse bench ... --json` prints it") from None
    results = value.get("results", [value]) if isinstance(value, dict) else None
    if not results or not all(_is_result(one) for one in results):
        raise UsageError(f"{file} has no results of schema {SCHEMA}")
    assert isinstance(results, list)
    return results


def _is_result(value: object) -> bool:
    """Tell whether this is a workload's object; one that ended with an error is."""
    if not isinstance(value, dict):
        return False
    return ("workload" in value or "case" in value) and value.get("schema", SCHEMA) == SCHEMA
