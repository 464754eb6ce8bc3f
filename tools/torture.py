"""make torture: every fault of docs/durability.md, many times; then seeds until the time is over.

    1. 100,000 steps of the model against the engine
    2. kill -9 of the real daemon at each named point, power losses on real file systems, the n-th
       call of each kind failing (tests/faults)
    3. kill -9 at random moments, disk errors, slow readers, bad input, races (the other folders)
    4. 10,000 simulated lives
    5. more seeds of the simulation until --seconds are over, counted from the start

The whole list runs once, however long it takes. The summary prints what was done, as the tests
themselves have counted it; the exit code is 0 when nothing was found and nothing is missing.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROUNDS = "4"
"""How often the tests of the real daemon repeat their loops."""
LIVES = 10_000
MODEL = ["tests/matching/test_model_against_engine.py"]
MODEL_STEPS = 100_000
FAULTS = ["tests/faults"]
DAEMON = [
    "tests/integration/test_crash.py",
    "tests/integration/test_disk_errors.py",
    "tests/integration/test_snapshots.py",
    "tests/integration/test_replay_equality.py",
    "tests/integration/test_slow_readers.py",
    "tests/integration/test_bad_input.py",
    "tests/integration/test_back_pressure.py",
    "tests/concurrency",
]
KILLS_LEAST = 200
POWER_LOSSES_LEAST = 50


def main() -> int:
    """Run the list, then seeds; print the counts; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=600.0, help="go on until then (600)")
    parser.add_argument("--seed", type=int, default=None, help="first seed; random without it")
    parser.add_argument("--lives", type=int, default=LIVES, help="simulated lives in the list")
    options = parser.parse_args()
    started = time.monotonic()
    seed = random.randrange(2**31) if options.seed is None else options.seed
    counts: Counter[str] = Counter()
    failed: list[str] = []
    with tempfile.TemporaryDirectory() as place:
        tally = Path(place) / "tally"
        for name, files, environment in (
            ("model", MODEL, {"BOURSE_TORTURE": "1"}),
            ("faults", FAULTS, {}),
            ("daemon", DAEMON, {}),
        ):
            say(f"{name}: {' '.join(files)}")
            if not run_tests(files, {"BOURSE_TALLY": str(tally), **environment}):
                failed.append(name)
            elif name == "model":
                counts["steps of the model against the engine, at least"] = MODEL_STEPS
        if tally.exists():
            for line in tally.read_text().splitlines():
                count, _, what = line.partition(" ")
                counts[what] += int(count)
    say(f"simulation: {options.lives:,} lives from seed {seed}")
    if not simulate(counts, seed, options.lives, None):
        failed.append("simulation")
    left = options.seconds - (time.monotonic() - started)
    if left > 1 and not failed:
        say(f"simulation: more seeds for {left:.0f} s")
        if not simulate(counts, seed + options.lives, 10**9, left):
            failed.append("more seeds")
    failed += missing(counts)
    say(f"after {time.monotonic() - started:.0f} s, first seed {seed}:")
    for what in sorted(counts):
        say(f"  {counts[what]:>12,} {what}")
    say(f"FAILED: {', '.join(failed)}" if failed else "nothing was lost, doubled or out of order")
    return 1 if failed else 0


def say(text: str) -> None:
    """Print a line at once."""
    print(f"torture: {text}", flush=True)


def run_tests(files: list[str], environment: dict[str, str]) -> bool:
    """Run pytest on some files; say whether all passed."""
    command = [sys.executable, "-m", "pytest", "-q", "--timeout", "7200", "-rs", *files]
    rounds = os.environ.get("ROUNDS", ROUNDS)
    environment = {**os.environ, "ROUNDS": rounds, **environment}
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode == 0


def simulate(counts: Counter[str], seed: int, lives: int, seconds: float | None) -> bool:
    """Run so many lives, or for so long, on all CPUs; say whether all were right."""
    workers = len(os.sched_getaffinity(0))
    share = -(-lives // workers)
    processes = []
    for number in range(workers):
        command = [sys.executable, "-m", "tests.simulation", "--seed", str(seed + number * share)]
        command += ["--count", str(min(share, lives - number * share))]
        command += ["--seconds", f"{seconds:.1f}"] if seconds is not None else []
        processes.append(subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True))
    good = True
    for process in processes:
        output, _ = process.communicate()
        if process.returncode:
            good = False
            say(output)
        summary = next((line for line in output.splitlines() if line.startswith("simulation:")), "")
        lives_done = re.search(r"(\d+) runs in", summary)
        counts["simulated lives"] += int(lives_done[1]) if lives_done else 0
        for count, what in re.findall(r"(\d+) ([A-Za-z ]+)", summary.partition(" s: ")[2]):
            counts[f"simulated {what.strip()}"] += int(count)
    return good


def missing(counts: Counter[str]) -> list[str]:
    """What the list promises and was not done; what this machine cannot do is not missing."""
    found = []
    kills = sum(count for what, count in counts.items() if what.startswith("kill -9"))
    if kills < KILLS_LEAST:
        found.append(f"only {kills} kill -9, expected {KILLS_LEAST}")
    for kind in ("ext4", "xfs"):
        losses = counts[f"power losses on {kind}"]
        if 0 < losses < POWER_LOSSES_LEAST:
            found.append(f"only {losses} power losses on {kind}, expected {POWER_LOSSES_LEAST}")
        if losses == 0:
            counts[f"power losses on {kind}"] = 0
    return found


if __name__ == "__main__":
    sys.exit(main())
