"""Counts that tests leave for a summary (tools/torture.py): what was really done, and how often."""

from __future__ import annotations

import os
from pathlib import Path


def tally(what: str, count: int = 1) -> None:
    """Add to a count; BOURSE_TALLY names the file, and without it nothing is kept."""
    if path := os.environ.get("BOURSE_TALLY"):
        with Path(path).open("a") as file:
            file.write(f"{count} {what}\n")
