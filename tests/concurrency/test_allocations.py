"""No allocation in steady state: the matcher's and the journal's memory calls, counted.

A million commands go through the real threads, while a preloaded shim (alloc_count.c) counts each
thread's malloc, calloc, realloc, free, posix_memalign, mmap, munmap, mprotect and their kin.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from bourse.domain import Durability, PollMode
from tests.concurrency import processes

COUNT = 1_050_000
NOTHING = dict.fromkeys(("malloc", "calloc", "realloc", "free", "aligned", "mapping"), 0)


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The counting library; skips where it cannot be compiled or preloaded."""
    path = tmp_path_factory.mktemp("shim") / "alloc_count.so"
    source = processes.HERE / "alloc_count.c"
    flags = ["-O2", "-fno-builtin", "-shared", "-fPIC", "-o", path, source, "-ldl"]
    try:
        subprocess.run([processes.COMPILER, *flags], check=True, capture_output=True)
    except OSError:
        pytest.skip("no C compiler to compile the counting shim with")
    probe = subprocess.run(["env", f"LD_PRELOAD={path}", "true"], capture_output=True, check=False)
    if probe.returncode or probe.stderr:
        pytest.skip(f"the counting shim cannot be preloaded here: {probe.stderr!r}")
    return path


@pytest.mark.parametrize(
    ("durability", "poll"),
    [
        (Durability.MEMORY, PollMode.ADAPTIVE),
        (Durability.ASYNC, PollMode.BLOCK),
        (Durability.FSYNC, PollMode.ADAPTIVE),
    ],
    ids=lambda value: value.label,
)
@pytest.mark.timeout(300 * processes.ROUNDS)
def test_a_million_commands_allocate_nothing(durability, poll, shim):
    modules = processes.build("plain")
    with processes.fast_directory() as directory:
        order = {
            "durability": durability,
            "poll": poll,
            "directory": str(directory),
            "command_slots": 16384,
            "event_slots": 32768,
            "journal_slots": 16384,
            "live_max": 4096,
            "price_spread": 1024,
            "warm_up": 100_000,
            "count": COUNT * min(processes.ROUNDS, 4),  # the log is in memory
            "seed": 5,
            "kept_bytes": 0,
            "mistake": 0,
            "shim": str(shim),
        }
        result = processes.run("run_pipeline.py", order, modules, preload=shim)
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)

    # The run was what it should be, and of every kind of command.
    assert report["errors"] == 0
    assert report["same_digests"]
    assert report["steady"]["commands"] >= 1_000_000
    for what in ("accepted", "trades", "cancelled", "refused"):
        assert report["steady"][what] > 50_000, report
    # The shim counts: every kind of call, and the matcher's own while its pools grew.
    assert all(report["control"][call] > 0 for call in NOTHING), report
    assert report["matcher_warm_up"]["mapping"] > 0, report
    # And in steady state there was nothing to count.
    assert report["matcher"] == NOTHING
    assert report["journal"] == NOTHING
