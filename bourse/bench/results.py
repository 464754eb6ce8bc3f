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
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from bourse import __version__
from bourse.admin.checks import Check, exit_code_of
from bourse.journal.filesystem import MEMORY_FILESYSTEMS, filesystem_of

SCHEMA = 1

QUIET_LOAD_AVERAGE = 0.3
"""Above this the machine is busy with something else, and a figure is not worth publishing."""

QUIET_CALIBRATION = 1.05
"""Above so many times its best the calibration loop has been disturbed."""


class Percentiles(msgspec.Struct, frozen=True, omit_defaults=True):
    """Durations in nanoseconds, from an HdrHistogram with three significant digits."""

    p50: int | UnsetType = UNSET
    p90: int | UnsetType = UNSET
    p99: int | UnsetType = UNSET
    p99_9: int | UnsetType = UNSET
    max: int | UnsetType = UNSET


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
    """Before the start."""
    version: str
    compiler_flags: str = ""
    build: str = ""
    """Profile of the build: release or checked."""
    pinning: str = "none"
    """Which threads were tied to which CPUs."""
    calibration_ns: float = 0.0
    """A thousand steps of the calibration loop, just after the measurement."""
    calibration_best_ns: float | None = None
    """The best that was seen on this machine before; none at first."""


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
    quiet: bool | UnsetType = UNSET
    """Whether the moment was quiet enough for the figure to be published."""
    quiet_reasons: list[str] | UnsetType = UNSET
    """Why it was not."""
    parameters: dict[str, object] = {}
    skipped: list[str] | UnsetType = UNSET
    """What could not be looked at, because the daemon at --connect is not known well enough."""
    warnings: list[str] = []

    @property
    def exit_code(self) -> int:
        """0 when every check is ok, else 1."""
        return exit_code_of(self.checks)

    def json(self) -> str:
        """Return the one object."""
        return msgspec.json.encode(self).decode()


_kept: list[Any] = []
"""The histogram of the last run's latencies, for write_hlog() and the percentile curve."""


def latencies(values_ns: Iterable[int]) -> Percentiles:
    """Summarise a run's latencies, and keep their histogram for kept_histogram()."""
    return percentiles(values_ns, _kept)


def kept_histogram() -> Any:
    """Return the histogram of the last run's latencies, None without one."""
    return _kept[-1] if _kept else None


def write_hlog(path: Path, workload: str) -> bool:
    """Write the kept histogram as a standard HdrHistogram log; false without one.

    Values are in nanoseconds, so a plotting tool that expects another unit must be told.
    """
    from hdrh.log import HistogramLogWriter

    histogram = kept_histogram()
    if histogram is None:
        return False
    now_ms = int(time.time() * 1000)
    histogram.set_start_time_stamp(now_ms)
    histogram.set_end_time_stamp(now_ms)
    histogram.set_tag(workload)
    with path.open("w") as file:
        writer = HistogramLogWriter(file)
        writer.output_comment(f"[bourse {__version__}, {workload}, nanoseconds]")
        writer.output_log_format_version()
        writer.output_base_time(now_ms)
        writer.output_legend()
        writer.output_interval_histogram(histogram, 0, 0, 1)
    return True


def keep_latencies(counts: Iterable[tuple[int, int]]) -> None:
    """Keep a histogram that was counted elsewhere, durations and how often, as latencies() does."""
    _kept[:] = [_histogram_of(counts)]


def percentiles(values_ns: Iterable[int], keep_in: list[Any] | None = None) -> Percentiles:
    """Summarise durations of at least a nanosecond; empty input gives an empty summary."""
    counts = Counter(values_ns)
    if not counts:
        return Percentiles()
    histogram = _histogram_of(counts.items())
    most = max(counts)
    if keep_in is not None:
        keep_in[:] = [histogram]

    def at(percent: float) -> int:
        # The histogram answers with the upper end of a bucket, which may be above what was seen.
        return min(int(histogram.get_value_at_percentile(percent)), most)

    return Percentiles(p50=at(50), p90=at(90), p99=at(99), p99_9=at(99.9), max=most)


def _histogram_of(counts: Iterable[tuple[int, int]]) -> Any:
    from hdrh.histogram import (
        HdrHistogram,
    )  # pulls in a compiled codec that --help must not wait for

    histogram = HdrHistogram(1, 3_600_000_000_000, 3)
    for value, count in counts:
        histogram.record_value(max(1, value), count)
    return histogram


def native_int64(data: bytes) -> array.array[int]:
    """View a compiled client's durations as integers."""
    values = array.array("q")
    values.frombytes(data)
    return values


def load_average() -> float:
    """Return the run queue's average length over the last minute."""
    return round(os.getloadavg()[0], 2)


def environment(
    directory: Path | None, load_average_before: float, pinning: str = "none"
) -> Environment:
    """Describe the machine, and time the calibration loop.

    Args:
        directory: where the data is, None when nothing is stored.
        load_average_before: load_average() before the start.
        pinning: which threads were tied to which CPUs.
    """
    from bourse.bench.calibration import calibrate
    from bourse.bench.calibration_loop import compiled_with

    cpu = _cpu_model()
    compiler, flags, build = compiled_with()
    calibration_ns, best_ns = calibrate(cpu)
    return Environment(
        cpu=cpu,
        cores=len(os.sched_getaffinity(0)),
        kernel=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        compiler=compiler,
        filesystem=filesystem_of(directory) if directory else "",
        load_average=load_average_before,
        version=__version__,
        compiler_flags=flags,
        build=build,
        pinning=pinning,
        calibration_ns=calibration_ns,
        calibration_best_ns=best_ns,
    )


def noises(found: Environment) -> list[str]:
    """Say why this was not a quiet moment; nothing when it was."""
    reasons = []
    if found.load_average >= QUIET_LOAD_AVERAGE:
        reasons.append(
            f"the load average was {found.load_average} before the start; "
            f"a quiet machine is under {QUIET_LOAD_AVERAGE}"
        )
    best_ns = found.calibration_best_ns
    if best_ns and found.calibration_ns > best_ns * QUIET_CALIBRATION:
        reasons.append(
            f"the calibration loop took {found.calibration_ns / best_ns - 1:.0%} longer than at "
            f"its best; a quiet machine is within {QUIET_CALIBRATION - 1:.0%}"
        )
    return reasons


def machine_warnings(found: Environment) -> list[str]:
    """Say what makes a figure of this run not worth publishing."""
    warnings = [f"not a quiet moment: {reason}" for reason in noises(found)]
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
