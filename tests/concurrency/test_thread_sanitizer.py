"""The rings, the doorbells and the daemon's two threads under ThreadSanitizer.

What runs is the code of the release build, compiled again with -fsanitize=thread: ring.pxd and
parking.pxd in a hammer of three threads, and the real MatchingThread, JournalThread and Engine
with a compiled stand-in for the gateway. Rings are tiny, so that they are full or empty all the
time and threads park all the time. A lost wake-up hangs the process, which fails the test.

Deliberate mistakes show that ThreadSanitizer sees what it should see.
"""

from __future__ import annotations

import json
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from bourse.domain import Durability, PollMode
from tests.concurrency import processes

RACE = "WARNING: ThreadSanitizer: data race"
RACE_EXIT_CODE = 66
OPTIONS = f"exitcode={RACE_EXIT_CODE} history_size=4"

NO_MISTAKE = 0
RELAXED_PUBLISH = 1
PLAIN_PUBLISH = 2
RELAXED_RELEASE = 3
EARLY_DEPTH_READ = 4


@cache
def sanitizer() -> tuple[str, tuple[str, ...]]:
    """The library to preload and what to start processes with; skips where it does not work."""
    try:
        command = [processes.COMPILER, "-print-file-name=libtsan.so"]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("the C compiler does not say where libtsan.so is")
    version = subprocess.run(
        [processes.COMPILER, "--version"], capture_output=True, text=True, check=False
    )
    if "clang" in version.stdout:
        pytest.skip("GCC's ThreadSanitizer is needed, and the compiler is clang")
    if not Path(said).is_absolute():
        pytest.skip("libtsan is not installed (Debian: it comes with gcc)")
    # Older ThreadSanitizers cannot live with much randomness in addresses: setarch -R removes it.
    for prefix in ((), ("setarch", "-R")):
        probe = [*prefix, "env", f"LD_PRELOAD={said}", "true"]
        try:
            if subprocess.run(probe, capture_output=True, check=False).returncode == 0:
                return said, prefix
        except OSError:
            continue
    pytest.skip("ThreadSanitizer does not start here (kernel.vm.mmap_rnd_bits, seccomp?)")


@pytest.fixture(scope="module")
def modules() -> Path:
    """The sanitized build."""
    sanitizer()
    return processes.build("tsan")


def run(script: str, order: dict[str, Any], modules: Path) -> subprocess.CompletedProcess[str]:
    """Run a script under ThreadSanitizer."""
    library, prefix = sanitizer()
    return processes.run(
        script, order, modules, preload=library, prefix=prefix, TSAN_OPTIONS=OPTIONS
    )


def clean_report(result: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """What the script counted, after a run that nothing was said about."""
    assert "ThreadSanitizer" not in result.stderr, result.stderr
    assert result.returncode == 0, result.stderr
    report: dict[str, Any] = json.loads(result.stdout)
    assert report["errors"] == 0, report
    return report


def ring_order(**changes: int | bool) -> dict[str, Any]:
    return {
        "slots": 2,
        "messages": 20_000 * processes.ROUNDS,
        "poll": PollMode.BLOCK,
        "eventfd": False,
        "mistake": NO_MISTAKE,
        **changes,
    }


@pytest.mark.parametrize("slots", [2, 4, 64])
@pytest.mark.parametrize("eventfd", [False, True], ids=["futex", "eventfd"])
@pytest.mark.timeout(300 * processes.ROUNDS)
def test_two_producers_and_a_consumer_that_parks(slots, eventfd, modules):
    order = ring_order(slots=slots, eventfd=eventfd)

    report = clean_report(run("run_rings.py", order, modules))

    assert report["sleeps"] > 0, report


@pytest.mark.parametrize("poll", [PollMode.ADAPTIVE, PollMode.BUSY])
@pytest.mark.timeout(300 * processes.ROUNDS)
def test_two_producers_and_a_consumer_that_spins(poll, modules):
    clean_report(run("run_rings.py", ring_order(poll=poll, eventfd=True), modules))


@pytest.mark.parametrize("mistake", [RELAXED_PUBLISH, PLAIN_PUBLISH, RELAXED_RELEASE])
@pytest.mark.timeout(300 * processes.ROUNDS)
def test_a_mistake_in_the_ring_is_reported(mistake, modules):
    # Spinning: to sleep and to be woken through the kernel would order what the mistake does not.
    order = ring_order(mistake=mistake, poll=PollMode.BUSY, messages=2000)

    result = run("run_rings.py", order, modules)

    assert RACE in result.stderr, result.stdout
    assert result.returncode == RACE_EXIT_CODE
    assert "ring_hammer" in result.stderr


def pipeline_order(directory: Path, **changes: Any) -> dict[str, Any]:
    count = 8_000 * processes.ROUNDS
    return {
        "durability": Durability.FSYNC,
        "poll": PollMode.BLOCK,
        "directory": str(directory),
        "command_slots": 4,
        "event_slots": 8,
        "journal_slots": 4,
        "live_max": 64,
        "price_spread": 32,
        "warm_up": 1000,
        "count": count,
        "seed": 5,
        "kept_bytes": 640 * (count + 2000),
        "mistake": NO_MISTAKE,
        **changes,
    }


@pytest.mark.parametrize("poll", list(PollMode), ids=lambda poll: poll.label)
@pytest.mark.parametrize("durability", list(Durability), ids=lambda policy: policy.label)
@pytest.mark.timeout(300 * processes.ROUNDS)
def test_the_daemons_threads(durability, poll, modules):
    with processes.fast_directory() as directory:
        order = pipeline_order(directory, durability=durability, poll=poll)
        report = clean_report(run("run_pipeline.py", order, modules))

    assert report["stopped"]
    assert report["same_events"], "the events differ from those of an engine alone"
    assert report["same_digests"]
    assert report.get("same_log", True), "the log differs from what was executed"
    assert report["depth_replies"] > 0, report
    assert report["snapshots"] == 1, report
    if poll is PollMode.BLOCK:
        # Whoever spins may be lucky all the time; whoever sleeps is not.
        assert report["full_rings"] > 0, report
        assert report["sleeps"] > 0, report
        assert durability is Durability.MEMORY or report["shut_gates"] > 0, report


@pytest.mark.parametrize(
    ("mistake", "whose"),
    [
        (RELAXED_PUBLISH, "matching_thread"),
        (RELAXED_RELEASE, "executor"),
        (EARLY_DEPTH_READ, "matching_thread"),
    ],
)
@pytest.mark.timeout(300 * processes.ROUNDS)
def test_a_mistake_of_the_stand_in_is_reported_by_the_real_threads(
    mistake, whose, modules, tmp_path
):
    order = pipeline_order(tmp_path, mistake=mistake, poll=PollMode.BUSY)
    order |= {"durability": Durability.MEMORY, "event_slots": 2, "count": 4000}

    result = run("run_pipeline.py", order, modules)

    assert RACE in result.stderr, result.stdout
    assert result.returncode == RACE_EXIT_CODE
    assert whose in result.stderr
