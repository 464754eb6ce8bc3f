"""Fixtures of the tests that start real daemons."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.harness import Daemon, scratch_directory


@pytest.fixture
def disk_path() -> Iterator[Path]:
    """A directory on a disk, with a short path."""
    path = scratch_directory()
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def new_daemon() -> Iterator[Callable[..., Daemon]]:
    """Makes daemons, not started, each in a directory of its own; ends those that still run.

    A daemon whose log tells of a fault of its own fails the test, unless the test cleared
    `daemon.log_path` because it caused the fault.
    """
    made: list[Daemon] = []

    def make(**options: Any) -> Daemon:
        daemon = Daemon(scratch_directory(), **options)
        made.append(daemon)
        return daemon

    yield make
    trouble = []
    for daemon in made:
        daemon.close()
        if daemon.log_path.exists():
            trouble += daemon.trouble()
        shutil.rmtree(daemon.base, ignore_errors=True)
    assert not trouble
