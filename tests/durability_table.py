"""The table of docs/durability.md: rows, and the tests that each of them names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "docs" / "durability.md"


def rows() -> dict[str, list[str]]:
    """Each row's name and the node ids that it names, without their parameters."""
    found: dict[str, list[str]] = {}
    for line in PAGE.read_text().splitlines():
        if match := re.match(r"\| ([A-Z]\d+) \|", line):
            assert match[1] not in found, f"row {match[1]} is there twice"
            found[match[1]] = re.findall(r"`(tests/[\w/]+\.py::\w+)`", line)
    return found


def matching(name: str, node_ids: Iterable[str]) -> list[str]:
    """Those of the node ids that are this test, whatever its parameters."""
    return [one for one in node_ids if re.match(rf"{re.escape(name)}($|\[|::)", one)]


def not_run(outcomes: dict[str, str]) -> list[str]:
    """What rows lack when these tests had these outcomes ("passed", or why they were skipped)."""
    missing = []
    for row, tests in rows().items():
        for name in tests:
            found = [outcomes[one] for one in matching(name, outcomes)]
            if not found:
                missing.append(f"{row}: {name} did not run")
            elif "passed" not in found and not all(found):
                missing.append(f"{row}: {name} was skipped without a reason")
    return missing
