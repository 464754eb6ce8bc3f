"""Runs of seeds: the command line, the summary, and how a failing seed is shown."""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path

from tests.simulation.life import Life
from tests.simulation.mutations import MUTATIONS, planted
from tests.simulation.system import System
from tests.simulation.truth import Failure

TAIL_LINES = 60


def main(arguments: list[str]) -> int:
    """Run what the command line says; 0 when every seed was right."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation",
        description="Crash the exchange on a simulated disk, and check what its clients know.",
        epilog="examples:\n"
        "  python -m tests.simulation --seed 1 --count 10000\n"
        "  python -m tests.simulation --seed 1000000 --seconds 600\n"
        "  python -m tests.simulation --seed 42 --verbose",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="the first seed")
    parser.add_argument("--count", type=int, metavar="K", help="this many seeds")
    parser.add_argument(
        "--seconds",
        type=float,
        metavar="S",
        help="no new seed after this time",
    )
    parser.add_argument("--verbose", action="store_true", help="print what happens in each run")
    parser.add_argument(
        "--mutations", action="store_true", help="plant each mistake in turn; all must be noticed"
    )
    parser.add_argument("--mutation", choices=MUTATIONS, default="", help="plant a mistake")
    options = parser.parse_args(arguments)
    # A crash leaves coroutines where they are.
    warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
    shm = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    base = Path(tempfile.mkdtemp(prefix="bourse-simulation-", dir=shm))
    try:
        return (run_mutations if options.mutations else run)(options, base, System())
    finally:
        shutil.rmtree(base, ignore_errors=True)


def live(
    seed: int, base: Path, hold: System, mutation: str, looks_inside: bool = True
) -> tuple[Life, Exception | None]:
    """Run one seed; returns what it was, and why it failed if it did."""
    life = Life(seed, base / "data", hold, looks_inside)
    try:
        with planted(mutation, life):
            life.run()
    except Exception as error:
        return life, error
    finally:
        hold.free_clock()
    return life, None


def run_mutations(options: argparse.Namespace, base: Path, hold: System) -> int:
    """Run each planted mistake until a client's truth is hurt; 1 when that never happens."""
    missed = 0
    for mutation in MUTATIONS:
        for number in range(options.count or 200):
            life, error = live(options.seed + number, base, hold, mutation, looks_inside=False)
            if error is not None and not isinstance(error, Failure):
                raise error
            if error is not None:
                print(f"{mutation}: noticed after {number + 1} seeds, by {life.seed}: {error}")
                break
        else:
            print(f"{mutation}: not noticed")
            missed += 1
    return 1 if missed else 0


def run(options: argparse.Namespace, base: Path, hold: System) -> int:
    """Run seeds until there are enough, or one fails."""
    count = options.count
    if count is None:
        count = 1 if options.seconds is None else 2**62
    totals: Counter[str] = Counter()
    started = time.monotonic()
    for seed in range(options.seed, options.seed + count):
        if options.seconds is not None and time.monotonic() >= started + options.seconds:
            break
        life, error = live(seed, base, hold, options.mutation)
        if error is not None:
            _show_failure(life, error, options)
            return 1
        totals["runs"] += 1
        totals.update(life.counts)
        totals.update({word: life.disk.counts.get(word, 0) for word in ("EIO", "ENOSPC")})
        if options.verbose:
            _show_lines(life.lines)
            print(f"seed {seed}: trace {life.digest}")
    seconds = time.monotonic() - started
    words = [
        "crashes",
        "power losses",
        "kills",
        "stops",
        "crashes in recovery",
        "EIO",
        "ENOSPC",
        "torn tails",
        "acknowledged",
        "snapshots",
        "rotations",
        "shortened logs",
        "waits for a segment",
        "async losses",
        "flips taken for corrupt",
        "flips taken for torn",
        "damaged snapshots passed over",
        "damaged snapshots refused",
    ]
    text = ", ".join(f"{totals[word]} {word}" for word in words)
    print(f"simulation: {totals['runs']} runs in {seconds:.1f} s: {text}")
    return 0


def _show_failure(life: Life, error: Exception, options: argparse.Namespace) -> None:
    """Print what went wrong, what led to it, and how to see it again."""
    _show_lines(life.lines if options.verbose else life.lines[-TAIL_LINES:])
    text = str(error)
    if not isinstance(error, Failure):
        text = "".join(traceback.format_exception(error))
    print(f"seed {life.seed} failed: {text}")
    mutation = f" --mutation {options.mutation}" if options.mutation else ""
    print(f"replay: python -m tests.simulation --seed {life.seed}{mutation} --verbose")


def _show_lines(lines: list[tuple[object, ...]]) -> None:
    start = lines[0][0] if lines else 0
    for now, *words in lines:
        assert isinstance(now, int) and isinstance(start, int)
        print(f"{(now - start) / 1e6:12.3f} ms  {' '.join(str(word) for word in words)}")
