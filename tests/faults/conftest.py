"""Fixtures of the fault tests: those of the integration tests, the shim, and disks that fail."""

from tests.integration.conftest import disk_path, new_daemon

__all__ = ["disk_path", "new_daemon"]
