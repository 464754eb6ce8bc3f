"""Fixtures of the fault tests: those of the integration tests, the shim, and disks that fail."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.disks import FsyncGate, FullDisk, PowerDisk, why_not
from tests.faults.shim import FaultShim, compile_shim
from tests.integration.conftest import disk_path, new_daemon

__all__ = ["disk_path", "new_daemon"]


@pytest.fixture(scope="session")
def shim_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled shim."""
    return compile_shim(tmp_path_factory.mktemp("fault-shim"))


@pytest.fixture
def shim(shim_library: Path, tmp_path: Path) -> Iterator[FaultShim]:
    """The shim's page, nothing planned."""
    shim = FaultShim(shim_library, tmp_path / "page")
    yield shim
    shim.close()


@pytest.fixture
def power_disk(request: pytest.FixtureRequest, disk_path: Path) -> Iterator[PowerDisk]:
    """A disk whose power can be cut; its kind is the fixture's parameter."""
    kind = getattr(request, "param", "ext4")
    if reason := why_not(kind):
        pytest.skip(f"no power loss on {kind}: {reason}")
    disk = PowerDisk(disk_path, kind)
    yield disk
    disk.close()


@pytest.fixture
def fsync_gate(disk_path: Path) -> Iterator[FsyncGate]:
    """A disk whose sync fails once and then lies."""
    if reason := why_not():
        pytest.skip(f"no failing disk: {reason}")
    disk = FsyncGate(disk_path)
    yield disk
    disk.close()


@pytest.fixture
def full_disk(request: pytest.FixtureRequest, disk_path: Path) -> Iterator[FullDisk]:
    """A small disk that can be filled; its kind is the fixture's parameter."""
    kind = getattr(request, "param", "tmpfs")
    if reason := why_not(kind):
        pytest.skip(f"no full {kind}: {reason}")
    disk = FullDisk(disk_path, kind)
    yield disk
    disk.close()
