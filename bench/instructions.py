"""Instructions of the engine's inner loops, counted by callgrind: the same on a busy machine.

    .venv/bin/python bench/instructions.py             # a few minutes; needs valgrind

Each loop runs twice, with FEW and with MANY operations, in processes that are otherwise the same,
so that what Python and the preparations take is in both: the difference by the operations is what
one costs, the loop around it and the writing of its events included.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable

FEW, MANY = 10_000, 30_000


def walk(levels: int, books: int) -> Callable[[int], None]:
    """Return a run of makers and the takers that fill them: an operation is a maker, filled."""

    def run(count: int) -> None:
        from bourse.bench import engine_loops, engine_runs

        engine = engine_runs.new_engine(instruments=books)
        engine_loops.walk(engine, levels, books, 10_000 // (levels * books))
        engine_loops.walk(engine, levels, books, count // (levels * books))

    return run


def alternating(count: int) -> None:
    """Send equal bids and asks in turn."""
    from bourse.bench import engine_loops, engine_runs

    engine = engine_runs.new_engine()
    engine_loops.alternating(engine, 10_000)
    engine_loops.alternating(engine, count)


def mixed(resting: int) -> Callable[[int], None]:
    """Return a run of the mixed stream; as much of it is made for few commands as for many."""

    def run(count: int) -> None:
        from bourse.bench import engine_loops, engine_runs

        maker = engine_runs.new_engine(engine_loops.MIX_SESSIONS)
        mix = engine_loops.Mix(maker, 23, resting, 16 * resting + 2 * MANY)
        parts = []
        while mix.live_orders < resting:
            parts.append(mix.fill(min(10_000, resting)))
        commands = mix.fill(MANY)
        engine = engine_runs.new_engine(engine_loops.MIX_SESSIONS)
        engine.run(b"".join(parts))
        engine_loops.stream(engine, commands[: count * engine_runs.COMMAND_SIZE])

    return run


LOOPS: dict[str, tuple[Callable[[int], None], str]] = {
    "walk-1000": (walk(1000, 1), "a maker and its fill"),
    "walk-1": (walk(1, 1), "a maker and its taker"),
    "alternating": (alternating, "an order"),
    "mixed-1000": (mixed(1000), "a command"),
    "mixed-40000": (mixed(40_000), "a command"),
}


def instructions(name: str, count: int) -> int:
    """Return all instructions of a process that runs a loop with so many operations."""
    done = subprocess.run(
        [
            *("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"),
            *(sys.executable, __file__, "--run", name, str(count)),
        ],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
        env={**os.environ, "PYTHONHASHSEED": "0", "PYTHONMALLOC": "malloc"},
    )
    said = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode or said is None:
        raise SystemExit(f"{name}: {done.stderr.strip()[-500:]}")
    return int(said[1])


def main() -> int:
    """Count the loops that were named, all without a name."""
    if sys.argv[1:2] == ["--run"]:
        LOOPS[sys.argv[2]][0](int(sys.argv[3]))
        return 0
    if shutil.which("valgrind") is None:
        raise SystemExit("valgrind is not installed: its callgrind counts the instructions")
    names = sys.argv[1:] or list(LOOPS)
    if unknown := [name for name in names if name not in LOOPS]:
        raise SystemExit(f"there is no {', '.join(unknown)}; there are {', '.join(LOOPS)}")
    for name in names:
        each = (instructions(name, MANY) - instructions(name, FEW)) / (MANY - FEW)
        print(f"{name:<14}{each:>8,.0f} instructions {LOOPS[name][1]}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
