"""Curves over connections, instruments and the size of the log, and where a round trip's time goes.

    .venv/bin/python bench/curves.py                   # some minutes, 1 GB of disk
    .venv/bin/python bench/curves.py --quick           # small ones
    .venv/bin/python bench/curves.py instruments       # one of them

    connections   `bourse bench fan-in`: nanoseconds an order, all connections together
    instruments   boundary `engine`: a maker and its taker, the instruments in turn
    log           `bourse bench recovery`: from the process's start until it accepts
    waterfall     `bourse bench rtt`: the median of each stage, and what is left of the client's

Each point is a process of its own and rounds are interleaved; the best is drawn, a thin bar goes up
to the worst. Prints a table of each and writes docs/pictures/*.svg.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bourse.bench.drawing import Series, growth_picture, waterfall_picture

PICTURES = Path(__file__).resolve().parent.parent / "docs" / "pictures"
ROUNDS = 3
CONNECTIONS = (2, 8, 32, 128, 512)
INSTRUMENTS = (1, 10, 100, 1_000, 10_000, 100_000)
LOG_RECORDS = (10_000, 100_000, 1_000_000, 10_000_000)
STAGES = ("decoded", "dequeued", "matched", "durable", "encoded", "written")


def bench(*arguments: object) -> dict[str, Any]:
    """Run a workload in a process of its own and return its result.

    Raises:
        SystemExit: a check failed.
    """
    command = [sys.executable, "-m", "bourse", "bench", *map(str, arguments), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command[3:])}: {done.stderr.strip() or done.stdout}")
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


# --- Measuring ------------------------------------------------------------------------------------


def connections(count: int, quick: bool) -> dict[str, float]:
    """Measure orders over so many connections."""
    samples = 20_000 if quick else 400_000
    found = bench(
        *("fan-in", "--connections", count, "--samples", samples, "--durability", "memory")
    )
    return {"ns an order": found["ns_per_op"]}


def instruments(count: int, quick: bool) -> dict[str, float]:
    """Measure a maker and its taker in books that take turns."""
    command = [sys.executable, __file__, "--instruments-point", str(count)]
    if quick:
        command.append("--quick")
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=True)
    return {str(name): float(ns) for name, ns in json.loads(done.stdout).items()}


def measure_instruments(count: int, quick: bool) -> dict[str, float]:
    """Measure in this process: one and ten levels a book, the best of five slices."""
    from bourse.bench import engine_loops, engine_runs

    found = {}
    for levels in (1, 10):
        engine = engine_runs.new_engine(instruments=count)
        rounds = max(1, (100_000 if quick else 1_000_000) // (count * levels))
        engine_loops.walk(engine, levels, count, max(1, rounds // 10))
        trades = rounds * count * levels
        found[f"{levels} level{'s' if levels > 1 else ''}"] = min(
            sum(engine_loops.walk(engine, levels, count, rounds)) / trades for _ in range(5)
        )
        if engine_runs.state(engine).live_order_count:
            raise SystemExit("orders are left: the figures are void")
    return found


def log(count: int, quick: bool) -> dict[str, float]:
    """Measure how long a daemon takes until it accepts, in milliseconds."""
    found = bench("recovery", "--samples", count, "--resting", 1_000 if quick else 100_000)
    return {
        "replay of the log": 1e3 * min(found["parameters"]["replay_seconds"]),
        "from a snapshot": 1e3 * min(found["parameters"]["snapshot_seconds"]),
    }


def waterfall(policy: str, quick: bool) -> list[tuple[str, float]]:
    """Measure a round trip's stages, in microseconds; the last is what the daemon does not see."""
    samples = 2_000 if quick else 50_000
    found = bench("rtt", "--durability", policy, "--poll", "busy", "--samples", samples)
    stages = found["stages_ns"]
    rows = [(name, stages[name]["p50"] / 1e3) for name in STAGES if name in stages]
    rest = found["latency_ns"]["p50"] / 1e3 - sum(took for _, took in rows)
    return [*rows, ("TCP, client", max(0.0, rest))]


# --- Drawing --------------------------------------------------------------------------------------

CURVES: dict[str, tuple[Callable[[int, bool], dict[str, float]], tuple[int, ...], str, str]] = {
    "connections": (
        connections,
        CONNECTIONS,
        "Nanoseconds an order, all connections together",
        "connections, each with one order on its way",
    ),
    "instruments": (
        instruments,
        INSTRUMENTS,
        "Nanoseconds a maker and its fill",
        "instruments in turn, an empty book each",
    ),
    "log": (
        log,
        LOG_RECORDS,
        "Milliseconds until a daemon accepts",
        "records of the log",
    ),
}


def grow(name: str, quick: bool, rounds: int) -> tuple[Series, str]:
    """Measure a curve; returns it and its picture."""
    measure, places, title, axis = CURVES[name]
    if quick:
        places = places[:3]
    series: Series = {}
    for _ in range(rounds):
        for place in places:
            for kind, figure in measure(place, quick).items():
                points = series.setdefault(kind, [(each, []) for each in places])
                points[places.index(place)][1].append(figure)
    return series, growth_picture(title, axis, series)


def table(name: str, series: Series) -> list[str]:
    """Write a curve's points."""
    lines = [f"{name:>12}" + "".join(f"{kind:>26}" for kind in series)]
    for number, (place, _) in enumerate(next(iter(series.values()))):
        figures = (series[kind][number][1] for kind in series)
        cells = "".join(f"{f'{min(each):,.1f} to {max(each):,.1f}':>26}" for each in figures)
        lines.append(f"{place:>12,}{cells}")
    return lines


def main() -> int:
    """Measure what was asked for, print it and draw it."""
    names = (*CURVES, "waterfall")
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(names)}")
    parser.add_argument("--quick", action="store_true", help="small ones, one process a point")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="processes a point")
    parser.add_argument("--out", type=Path, default=PICTURES, help="folder of the pictures")
    parser.add_argument("--instruments-point", type=int, metavar="N", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.instruments_point:
        print(json.dumps(measure_instruments(options.instruments_point, options.quick)))
        return 0
    if unknown := set(options.names) - set(names):
        parser.error(f"there is no {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.names or names:
        if name == "waterfall":
            rows = {
                f"policy {policy}": waterfall(policy, options.quick)
                for policy in ("memory", "fsync")
            }
            drawn = waterfall_picture("Microseconds of a round trip, medians of its stages", rows)
            for policy, stages in rows.items():
                print(f"{policy}: " + ", ".join(f"{stage} {took:.2f}" for stage, took in stages))
        else:
            series, drawn = grow(name, options.quick, 1 if options.quick else options.rounds)
            print("\n".join(table(name, series)))
        path = options.out / (f"{name}.svg" if name == "waterfall" else f"growth-{name}.svg")
        path.write_text(drawn)
        print(path, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
