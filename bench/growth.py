"""Growth curves: nanoseconds a command over live orders and over levels, drawn as SVG.

    .venv/bin/python bench/growth.py            # some minutes, at most 2 GB of memory
    .venv/bin/python bench/growth.py --quick    # one process a point, smaller books

Each point is a process of its own, and rounds are interleaved: all points once, then all again. A
point's figure is the fastest of its processes; up to the slowest one a thin bar is drawn. Each book
is kept at its size (bourse/bench/churn.py) by a mix: with a fifth of cancels, with two fifths, and
with a fifth in an engine that has grown instead of expecting its orders. Prints a table and the
ratio of the slowest to the fastest point.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from bourse.bench.drawing import growth_picture

PICTURES = Path(__file__).resolve().parent.parent / "docs" / "pictures"
ORDERS = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
ORDERS_LEVELS = 100
LEVELS = (10, 100, 1_000, 10_000, 100_000, 1_000_000)
LEVELS_ORDERS = 2_000_000
ROUNDS = 3
MIXES = {"a fifth cancels": (2, True), "two fifths": (4, True), "a fifth, not expected": (2, False)}
"""Cancels of ten commands, and whether the engine took memory for the orders at its start."""
WARM_COMMANDS, SLICE_COMMANDS, SLICES = 200_000, 200_000, 5
RATIO_MAX = 3.0
BYTES_PER_ORDER = 84
"""An order and its places in both indexes, at ten million (docs/performance.md)."""
BYTES_PER_LEVEL = 48
"""A level, its key and slot in a block that is two thirds full."""
MEMORY_NEEDED_KB = 3 << 20


class Point(NamedTuple):
    """One book, and what each process found for each mix."""

    orders: int
    levels: int
    found: dict[str, list[float]]


# --- Measuring ------------------------------------------------------------------------------------


def measure(orders: int, levels: int) -> dict[str, float]:
    """Return the nanoseconds a command of each mix, the best of some slices."""
    from bourse.bench import churn, engine_runs

    best = {}
    for name, (cancels, is_expected) in MIXES.items():
        engine = engine_runs.new_engine(
            churn.CHURN_SESSIONS, orders_expected=orders + 1 if is_expected else 0
        )
        plan = churn.Churn(23, orders, levels)
        plan.fill(engine)
        churn.run(engine, plan.make(WARM_COMMANDS, cancels))
        best[name] = min(
            churn.run(engine, plan.make(SLICE_COMMANDS, cancels)) / SLICE_COMMANDS
            for _ in range(SLICES)
        )
        state = engine_runs.state(engine)
        if state.live_order_count != orders or state.reject_count:
            raise SystemExit(f"{state.live_order_count} orders of {orders}: the figures are void")
        del engine
    return best


def measure_apart(point: Point) -> None:
    """Measure a point once more, in a process of its own."""
    command = [sys.executable, __file__, "--point", str(point.orders), str(point.levels)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise SystemExit(done.stderr or done.stdout)
    for name, ns in json.loads(done.stdout).items():
        point.found.setdefault(name, []).append(ns)


def enough_memory() -> bool:
    """Tell whether the largest book fits without driving others out."""
    for row in Path("/proc/meminfo").read_text().splitlines():
        if row.startswith("MemAvailable:"):
            return int(row.split()[1]) >= MEMORY_NEEDED_KB
    return False


def cache_sizes() -> dict[str, int]:
    """Return the size of each data cache in bytes, by its name."""
    sizes = {}
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        if (index / "type").read_text().strip() != "Instruction":
            size = (index / "size").read_text().strip()
            unit = {"K": 1 << 10, "M": 1 << 20}.get(size[-1], 1)
            sizes[f"L{(index / 'level').read_text().strip()}"] = int(size.rstrip("KM")) * unit
    return sizes


# --- Drawing --------------------------------------------------------------------------------------


def draw(
    title: str, axis: str, points: list[tuple[int, Point]], bytes_each: int, caches: dict[str, int]
) -> str:
    """Draw the curves of all mixes over a logarithmic axis."""
    series = {mix: [(value, point.found[mix]) for value, point in points] for mix in MIXES}
    bound = RATIO_MAX * min(min(values) for _, values in series[next(iter(MIXES))])
    fits = {name: size / bytes_each for name, size in caches.items()}
    return growth_picture(title, axis, series, fits, {"3 x the fastest": bound})


def table(name: str, points: list[tuple[int, Point]]) -> list[str]:
    """Write the points and the ratio of each mix."""
    lines = [f"{name:>12}" + "".join(f"{mix:>26}" for mix in MIXES)]
    for value, point in points:
        cells = [f"{min(point.found[mix]):.1f} to {max(point.found[mix]):.1f} ns" for mix in MIXES]
        lines.append(f"{value:>12,}" + "".join(f"{cell:>26}" for cell in cells))
    ratios = []
    for mix in MIXES:
        best = [min(point.found[mix]) for _, point in points]
        ratios.append(f"{max(best) / min(best):.2f}")
    return [*lines, f"{'ratio':>12}" + "".join(f"{ratio:>26}" for ratio in ratios)]


def main() -> int:
    """Measure all points, print them and draw them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one process a point, small books")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="processes a point")
    parser.add_argument("--out", type=Path, default=PICTURES, help="folder of the pictures")
    parser.add_argument("--point", type=int, nargs=2, metavar=("ORDERS", "LEVELS"))
    options = parser.parse_args()
    if options.point:
        print(json.dumps(measure(*options.point)))
        return 0
    if not options.quick and not enough_memory():
        raise SystemExit("less than 3 GB of memory are free; use --quick")
    most = 100_000 if options.quick else ORDERS[-1]
    orders = [(one, Point(one, ORDERS_LEVELS, {})) for one in ORDERS if one <= most]
    at = min(most, LEVELS_ORDERS)
    levels = [(one, Point(at, one, {})) for one in LEVELS if one <= at // 2]
    for _ in range(1 if options.quick else options.rounds):
        for _, point in (*orders, *levels):
            measure_apart(point)
    print("\n".join([*table("live orders", orders), "", *table("levels", levels)]))
    options.out.mkdir(parents=True, exist_ok=True)
    caches = cache_sizes()
    for name, title, axis, points, size in (
        (
            "growth-orders",
            f"Nanoseconds a command, {ORDERS_LEVELS} levels",
            "live orders (dotted: where the book outgrows a cache)",
            orders,
            BYTES_PER_ORDER,
        ),
        (
            "growth-levels",
            f"Nanoseconds a command, {at:,} live orders",
            "levels (dotted: where they outgrow a cache)",
            levels,
            BYTES_PER_LEVEL,
        ),
    ):
        path = options.out / f"{name}.svg"
        path.write_text(draw(title, axis, points, size, caches))
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
