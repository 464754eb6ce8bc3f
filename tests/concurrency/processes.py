"""Builds the hammers and runs them in processes of their own, preloaded with what watches them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.concurrency.build import folder

HERE = Path(__file__).resolve().parent
COMPILER = (os.environ.get("CC") or "cc").split()[0]
ROUNDS = int(os.environ.get("ROUNDS", "1"))
"""How many times as long as in `make test` the hammers run."""


def build(profile: str) -> Path:
    """Compile a profile of build.py, if anything has changed; returns its folder."""
    command = [sys.executable, HERE / "build.py", profile]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert result.returncode == 0, result.stdout + result.stderr
    return folder(profile)


@contextmanager
def fast_directory() -> Iterator[Path]:
    """A new directory in memory where there is one: a sync is then over at once."""
    memory = Path("/dev/shm")
    place = memory if os.access(memory, os.W_OK) else None
    with TemporaryDirectory(prefix="bourse-proofs-", dir=place) as name:
        yield Path(name)


def run(
    script: str,
    order: dict[str, Any],
    modules: Path,
    *,
    preload: Path | str,
    prefix: tuple[str, ...] = (),
    **environment: str,
) -> subprocess.CompletedProcess[str]:
    """Run run_rings.py or run_pipeline.py with an order; a process that hangs fails the test."""
    # -P: the hammers' sources lie beside the script and must not be taken for the modules.
    inner = ["env", f"LD_PRELOAD={preload}", sys.executable, "-P", str(HERE / script)]
    limit_seconds = 60 * ROUNDS
    try:
        return subprocess.run(
            [*prefix, *inner, json.dumps(order)],
            env={**os.environ, "PYTHONPATH": str(modules), **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=limit_seconds,
        )
    except subprocess.TimeoutExpired as hung:
        raise AssertionError(
            f"{script} {order} was not done after {limit_seconds} s: a lost wake-up?\n{hung.stderr}"
        ) from None
