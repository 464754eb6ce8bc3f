"""The calibration loop: fixed integer work on memory that the first cache holds. Compiled only.

Figures of different machines and moments are compared as ratios to it (bench/budgets.toml), so it
never changes: another loop needs another name. Its module also knows how it was compiled.
"""

import cython
from cython.cimports.bourse.bench.compiled import CFLAGS, COMPILER, PROFILE
from cython.cimports.bourse.bench.sockets import monotonic_ns
from cython.cimports.libc.stdint import int64_t, uint64_t

STEPS = 100_000
"""Steps of one run, about a third of a millisecond."""

_STEPS = cython.declare(cython.int, STEPS)
_GOLDEN = cython.declare(uint64_t, 0x9E3779B97F4A7C15)


def run(runs: cython.int) -> float:
    """Return nanoseconds of a thousand steps, those of the fastest of so many runs."""
    # 16 KiB: half of the smallest first cache of a server.
    memory = cython.declare(uint64_t[2048])
    number: cython.int
    step: cython.int
    state: uint64_t
    started_ns: int64_t
    best_ns: int64_t = 1 << 62
    total: uint64_t = 0
    with cython.nogil:
        for step in range(2048):
            memory[step] = step * _GOLDEN
        for number in range(runs):
            state = number + 1
            started_ns = monotonic_ns()
            for step in range(_STEPS):
                # Each step needs the one before: a multiplication, a load, a store.
                state = (state ^ memory[state >> 53]) * _GOLDEN + step
                memory[step & 2047] = state
            started_ns = monotonic_ns() - started_ns
            best_ns = min(best_ns, started_ns)
            total ^= state
    if total == 1:  # what is computed must be used, or the compiler leaves it away
        raise AssertionError
    return best_ns * 1000 / cython.cast(cython.double, _STEPS)


def compiled_with() -> tuple[str, str, str]:
    """Return compiler, flags and build profile of this module, which are those of all."""
    return (
        COMPILER.decode("ascii", "replace"),
        CFLAGS.decode("ascii", "replace"),
        PROFILE.decode("ascii", "replace"),
    )
