"""What watching costs: `console-cost` puts `bourse tui` on a terminal and looks at its process.

The console runs on a pseudo terminal of its own, whose other end takes every byte. After its first
full frame and a moment to settle, its processor clock is read before and after the measured
seconds: another program's load changes the wall clock, but hardly this. Measured twice: beside an
exchange that trades (`bourse demo`, whose market has a fixed seed), and one at rest. What it costs
the exchange is the matter of bourse.bench.watched.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from bourse.admin.checks import Check
from bourse.admin.client import call
from bourse.bench import results
from bourse.bench.private_daemon import PrivateDaemon
from bourse.bench.results import Digests, Result
from bourse.domain import Durability, PollMode
from bourse.errors import UnavailableError, UsageError

SETTLE_SECONDS = 2.0
START_SECONDS_MAX = 30.0
FULL_FRAME = b"Quit"
"""The last word of the last line."""
BUDGET_SIZE = (120, 36)
BUDGET_RATE_HZ = 5
BUDGET_CORE_SHARE = 0.10
BUDGET_BYTES_PER_S = 64 * 1024
BUDGET_RESIDENT_BYTES = 80 << 20
BUDGET_FIRST_FRAME_SECONDS = 0.8
BUDGET_IDLE_CORE_SHARE = 0.005
BUDGET_RTT_P50_RATIO = 1.10
BUDGET_RTT_P99_RATIO = 1.25
PAIR_SAMPLES = 10_000
"""Round trips in each run of a pair: half a second or more, some paints long."""
_SCHEDULER_CLOCK = 2
"""Makes of a process's number the id of its processor clock, in nanoseconds; see
clock_getcpuclockid(3)."""
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Cost(msgspec.Struct, frozen=True):
    """What one console took."""

    seconds: float
    first_frame_seconds: float
    """From the process's start to its whole first frame."""
    core_share: float
    """Of one core, over the measured seconds."""
    bytes_per_s: float
    frames: int
    """Bursts of bytes that came."""
    resident_bytes: int
    wakings_per_s: float
    """How often one of its threads went to sleep, and so woke before."""


class Terminal:
    """A console process on a pseudo terminal, and our end of it."""

    def __init__(self, admin: Path, size: tuple[int, int], rate_hz: int) -> None:
        self._master, slave = pty.openpty()
        columns, rows = size
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        words = ["-m", "bourse", "tui", "--admin", str(admin), "--rate-hz", str(rate_hz)]
        environment = {name: text for name, text in os.environ.items() if name != "NO_COLOR"}
        self._started_s = time.monotonic()
        self._process = subprocess.Popen(
            [sys.executable, *words],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**environment, "TERM": "xterm-256color", "COLORTERM": "truecolor"},
            start_new_session=True,
        )
        os.close(slave)

    def take(self, seconds: float, until: bytes = b"") -> tuple[int, int]:
        """Take what comes for some seconds, or until it holds some bytes.

        Returns:
            How many bytes, in how many reads.
        """
        deadline_s = time.monotonic() + seconds
        taken = reads = 0
        tail = b""
        while (left_s := deadline_s - time.monotonic()) > 0:
            if not select.select([self._master], [], [], left_s)[0]:
                break
            try:
                chunk = os.read(self._master, 1 << 16)
            except OSError:
                break
            taken += len(chunk)
            reads += 1
            tail = tail[-len(until) :] + chunk if until else b""
            if until and until in tail:
                break
        return taken, reads

    def wait_for_first_frame(self, seconds_max: float) -> float:
        """Take its first full frame; return the seconds since the process's start.

        Raises:
            UnavailableError: it showed none.
        """
        self.take(self._started_s + seconds_max - time.monotonic(), FULL_FRAME)
        took_s = time.monotonic() - self._started_s
        if not self.runs or took_s >= seconds_max:
            raise UnavailableError("the console showed nothing; see what `bourse tui` says")
        return took_s

    def send_signal(self, number: int) -> None:
        """Send the process a signal."""
        self._process.send_signal(number)

    def processor_seconds(self) -> float:
        """Return the processor time that the process took so far, all its threads."""
        return time.clock_gettime(~self._process.pid << 3 | _SCHEDULER_CLOCK)

    def wakings(self) -> int:
        """Return how often its threads went to sleep so far."""
        return sum(
            int(line.split()[1])
            for status in Path(f"/proc/{self._process.pid}/task").glob("*/status")
            for line in status.read_text().splitlines()
            if line.startswith("voluntary_ctxt_switches")
        )

    def resident_bytes(self) -> int:
        """Return the process's resident memory."""
        return int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1]) * _PAGE_BYTES

    @property
    def runs(self) -> bool:
        """Whether the process is there."""
        return self._process.poll() is None

    def close(self) -> None:
        """End it."""
        if self.runs:
            self._process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(5)
        if self.runs:
            self._process.kill()
        self._process.wait()
        os.close(self._master)


def watch(admin: Path, size: tuple[int, int], seconds: float, rate_hz: int = 5) -> Cost:
    """Put a console on a terminal and return what it takes.

    Args:
        admin: the daemon's admin socket.
        size: columns and rows.
        seconds: how long to measure.
        rate_hz: paints a second.

    Raises:
        UnavailableError: the console showed nothing.
    """
    terminal = Terminal(admin, size, rate_hz)
    try:
        first_frame_s = terminal.wait_for_first_frame(START_SECONDS_MAX)
        terminal.take(SETTLE_SECONDS)
        before_s, began_s = terminal.processor_seconds(), time.monotonic()
        wakings_before = terminal.wakings()
        taken = frames = 0
        while (left_s := began_s + seconds - time.monotonic()) > 0:
            more, reads = terminal.take(left_s)
            taken += more
            frames += reads
        took_s = time.monotonic() - began_s
        return Cost(
            seconds=took_s,
            first_frame_seconds=first_frame_s,
            core_share=(terminal.processor_seconds() - before_s) / took_s,
            bytes_per_s=taken / took_s,
            frames=frames,
            resident_bytes=terminal.resident_bytes(),
            wakings_per_s=(terminal.wakings() - wakings_before) / took_s,
        )
    finally:
        terminal.close()


@contextlib.contextmanager
def _market(home: Path, seconds: float) -> Iterator[Path]:
    """Let the demo's market trade; yields the admin socket of its daemon."""
    words = ["-m", "bourse", "demo", "--headless", "--seconds", str(seconds)]
    demo = subprocess.Popen(
        [sys.executable, *words, "--data", str(home / "data")],
        env={**os.environ, "XDG_RUNTIME_DIR": str(home)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    admin = home / "bourse" / "default.sock"
    try:
        deadline_s = time.monotonic() + START_SECONDS_MAX
        while not admin.exists():
            if demo.poll() is not None or time.monotonic() > deadline_s:
                raise UnavailableError("the exchange did not start; see what `bourse demo` says")
            time.sleep(0.05)
        time.sleep(SETTLE_SECONDS)
        yield admin
    finally:
        demo.terminate()
        demo.wait()


def measure(size: str, rate: int, seconds: float, pairs: int, data: Path | None) -> Result:
    """Measure; see the module's text.

    Args:
        size: COLUMNSxROWS of the terminal.
        rate: paints a second: 1, 2, 5, 10, 20.
        seconds: how long each part is measured.
        pairs: pairs of round-trip runs, without and with a console; 0: none.
        data: where the temporary data directories are made.

    Raises:
        UsageError: a flag is out of range.
        UnavailableError: exchange or console did not start.
    """
    from bourse.bench import watched  # which needs this module's Terminal

    columns, _, rows = size.partition("x")
    if not (columns.isdecimal() and rows.isdecimal() and int(columns) >= 60 and int(rows) >= 16):
        raise UsageError(f"--size is {size!r}, expected COLUMNSxROWS, at least 60x16")
    if rate not in (1, 2, 5, 10, 20):
        raise UsageError(f"--rate-hz is {rate}, expected 1, 2, 5, 10 or 20")
    if not 1 <= seconds <= 3_600:
        raise UsageError(f"--seconds is {seconds:g}, expected 1 to 3600")
    if not 0 <= pairs <= 1_000:
        raise UsageError(f"--pairs is {pairs}, expected 0 to 1000")
    area = (int(columns), int(rows))
    load_average = results.load_average()
    with tempfile.TemporaryDirectory(prefix="bourse-", dir=data) as scratch:
        home = Path(scratch)
        with _market(home, 2 * START_SECONDS_MAX + seconds) as admin:
            busy = watch(admin, area, seconds, rate)
            before = call(admin, "status", name="bourse bench")
        environment = results.environment(home, load_average)
    with PrivateDaemon(Durability.MEMORY, PollMode.BLOCK, data) as daemon:
        admin = Path(daemon.banner.admin)
        idle = watch(admin, area, seconds, rate)
    ratios = watched.compare(area, rate, pairs, PAIR_SAMPLES, data) if pairs else None
    result = Result(
        workload=f"console-cost-{size}",
        boundary="console",
        policy=before.durability,
        poll=before.poll,
        samples=busy.frames,
        seconds=round(busy.seconds, 3),
        digests=Digests(before.state_digest, before.event_digest),
        checks=[
            Check("it_traded", before.trades > 0, f"{before.trades} trades"),
            Check("it_painted", busy.frames > 0, f"{busy.frames} reads"),
            Check("idle_writes_nothing", idle.bytes_per_s == 0, f"{idle.bytes_per_s:.1f} B/s"),
            _budget("first_frame", busy.first_frame_seconds, BUDGET_FIRST_FRAME_SECONDS, "s"),
            _budget("core", busy.core_share, BUDGET_CORE_SHARE, "of a core"),
            _budget("idle_core", idle.core_share, BUDGET_IDLE_CORE_SHARE, "of a core"),
            _budget("terminal", busy.bytes_per_s / 1024, BUDGET_BYTES_PER_S / 1024, "KiB/s"),
            _budget("resident", busy.resident_bytes / 2**20, BUDGET_RESIDENT_BYTES / 2**20, "MiB"),
        ],
        parameters={
            "size": size,
            "rate_hz": rate,
            "core_share": round(busy.core_share, 4),
            "idle_core_share": round(idle.core_share, 4),
            "bytes_per_s": round(busy.bytes_per_s),
            "idle_wakings_per_s": round(idle.wakings_per_s, 1),
            "idle_bytes_per_s": round(idle.bytes_per_s),
            "resident_bytes": busy.resident_bytes,
            "first_frame_seconds": round(busy.first_frame_seconds, 3),
        },
    )
    if ratios is not None:
        result.checks += [
            _budget("rtt_p50", ratios.p50, BUDGET_RTT_P50_RATIO, "times without a console"),
            _budget("rtt_p99", ratios.p99, BUDGET_RTT_P99_RATIO, "times without a console"),
        ]
        result.parameters |= {
            "pairs": ratios.pairs,
            "rtt_p50_ratio": round(ratios.p50, 3),
            "rtt_p99_ratio": round(ratios.p99, 3),
            "rtt_p50_ns": ratios.p50_ns,
            "rtt_p99_ns": ratios.p99_ns,
        }
    result.environment = environment
    result.warnings = results.machine_warnings(environment)
    if area != BUDGET_SIZE or rate != BUDGET_RATE_HZ:
        # The budgets are for one size and rate; at others the figures stand for themselves.
        result.checks = [one for one in result.checks if not one.name.startswith("budget")]
    elif results.noises(environment):
        # What others take from the machine is not the console's.
        missed = [one for one in result.checks if one.name in TIMED_BUDGETS and not one.ok]
        result.checks = [one for one in result.checks if one not in missed]
        result.warnings += [
            f"{one.name} is missed ({one.detail}), which counts in a quiet moment only"
            for one in missed
        ]
    return result


TIMED_BUDGETS = tuple(
    f"budget_{name}" for name in ("first_frame", "core", "idle_core", "rtt_p50", "rtt_p99")
)
"""Those that others who use the machine can make the console miss."""


def _budget(name: str, value: float, most: float, unit: str) -> Check:
    return Check(f"budget_{name}", value <= most, f"{value:.3f} of {most:g} {unit}")
