"""The result of a benchmark: one JSON object for every workload, its checks, its environment.

    {"schema": 1, "workload": "rtt", "boundary": "client", "policy": "fsync", "poll": "busy", ...}

docs/performance.md says what each field means. Fields that do not apply to a workload are absent. A
figure whose check failed is void: `exit_code` is 1 then.
"""

from __future__ import annotations

import array
import os
import platform
import re
import subprocess
import sysconfig
from collections.abc import Iterable
from pathlib import Path

import msgspec
from msgspec import UNSET, UnsetType

from bourse import __version__
from bourse.journal.filesystem import MEMORY_FILESYSTEMS, filesystem_of

SCHEMA = 1

QUIET_LOAD_AVERAGE = 0.3
"""Above this the machine is busy with something else, and a figure is not worth publishing."""


class Percentiles(msgspec.Struct, frozen=True, omit_defaults=True):
    """Durations in nanoseconds, from an HdrHistogram with three significant digits."""

    p50: int | UnsetType = UNSET
    p90: int | UnsetType = UNSET
    p99: int | UnsetType = UNSET
    p99_9: int | UnsetType = UNSET
    max: int | UnsetType = UNSET


class Check(msgspec.Struct, frozen=True):
    """One thing that must hold for the figure to count."""

    name: str
    ok: bool
    detail: str = ""


class Digests(msgspec.Struct, frozen=True):
    """State of the book and stream of events, as hexadecimal text."""

    state: str
    events: str


class Environment(msgspec.Struct, frozen=True):
    """Where it was measured."""

    cpu: str
    cores: int
    kernel: str
    python: str
    compiler: str
    filesystem: str
    load_average: float
    version: str


class Result(msgspec.Struct, kw_only=True):
    """What a benchmark found; see the module's text."""

    schema: int = SCHEMA
    workload: str
    boundary: str
    policy: str
    poll: str
    seed: int | UnsetType = UNSET
    samples: int
    seconds: float
    latency_ns: Percentiles | UnsetType = UNSET
    rate_per_s: int | UnsetType = UNSET
    ns_per_op: float | UnsetType = UNSET
    ping_pong_ns: float | UnsetType = UNSET
    stages_ns: dict[str, Percentiles] | UnsetType = UNSET
    fdatasync_ns: Percentiles | UnsetType = UNSET
    digests: Digests | UnsetType = UNSET
    speedup: float | UnsetType = UNSET
    checks: list[Check] = []
    environment: Environment | UnsetType = UNSET
    parameters: dict[str, object] = {}
    warnings: list[str] = []

    @property
    def exit_code(self) -> int:
        """0 when every check is ok, else 1."""
        return 0 if all(check.ok for check in self.checks) else 1

    def json(self) -> str:
        """Return the one object."""
        return msgspec.json.encode(self).decode()


def percentiles(values_ns: Iterable[int]) -> Percentiles:
    """Summarise durations of at least a nanosecond; empty input gives an empty summary."""
    from hdrh.histogram import (
        HdrHistogram,
    )  # pulls in a compiled codec that --help must not wait for

    histogram = HdrHistogram(1, 3_600_000_000_000, 3)
    most = 0
    for value in values_ns:
        histogram.record_value(max(1, value))
        most = max(most, value)
    if not histogram.get_total_count():
        return Percentiles()

    def at(percent: float) -> int:
        # The histogram answers with the upper end of a bucket, which may be above what was seen.
        return min(int(histogram.get_value_at_percentile(percent)), most)

    return Percentiles(p50=at(50), p90=at(90), p99=at(99), p99_9=at(99.9), max=most)


def native_int64(data: bytes) -> array.array[int]:
    """View a compiled client's durations as integers."""
    values = array.array("q")
    values.frombytes(data)
    return values


def load_average() -> float:
    """Return the run queue's average length over the last minute."""
    return round(os.getloadavg()[0], 2)


def environment(directory: Path | None, load_average_before: float) -> Environment:
    """Describe the machine; `directory` is where the data is, None when nothing is stored."""
    return Environment(
        cpu=_cpu_model(),
        cores=len(os.sched_getaffinity(0)),
        kernel=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        compiler=_compiler(),
        filesystem=filesystem_of(directory) if directory else "",
        load_average=load_average_before,
        version=__version__,
    )


def machine_warnings(found: Environment) -> list[str]:
    """Say what makes a figure of this run not worth publishing."""
    warnings = []
    if found.load_average >= QUIET_LOAD_AVERAGE:
        warnings.append(
            f"the load average was {found.load_average} before the start; "
            f"a quiet machine is under {QUIET_LOAD_AVERAGE}"
        )
    if found.filesystem in MEMORY_FILESYSTEMS:
        warnings.append(f"the data directory is on {found.filesystem}: nothing reaches a disk")
    return warnings


def _cpu_model() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.machine()
    match = re.search(r"^model name\s*: (.*)$", text, re.M)
    return match[1] if match else platform.machine()


def _compiler() -> str:
    """Name the compiler that setup.py uses; the modules do not say which one made them."""
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    try:
        result = subprocess.run([compiler, "--version"], capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return platform.python_compiler()
    lines = result.stdout.splitlines()
    return lines[0] if lines else platform.python_compiler()
