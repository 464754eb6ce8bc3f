"""Two sets of results side by side: ratios, the spread of both, and what lies outside the noise.

Two processes of one binary differ by some per cent by themselves. So a difference counts only when
each side has REPETITIONS_LEAST processes, no repetition of one side is within the range of the
other, and the medians are further apart than NOISE. All else is the same, as far as can be told.
"""

from __future__ import annotations

import statistics
from typing import Any

import msgspec

from bourse.bench import suite
from bourse.bench.workloads import WORKLOADS, Case

NOISE = 0.03
"""Medians that are not further apart do not differ."""
REPETITIONS_LEAST = 3
"""Processes a side before its spread says anything."""
CALIBRATION_APART = 0.05

FASTER, SLOWER, SAME, FEW, VOID = "faster", "slower", "same", "few runs", "void"


class Side(msgspec.Struct, frozen=True):
    """One side's repetitions of a case."""

    values: list[float]
    median: float
    range: list[float]
    faults: list[str]
    """Names of the checks that failed."""

    @property
    def spread(self) -> float:
        """How far the slowest is from the fastest, as a share."""
        low, high = self.range
        return high / low - 1 if low else 0.0


class Row(msgspec.Struct, frozen=True):
    """One case on both sides."""

    case: str
    figure: str
    before: Side
    after: Side
    ratio: float
    """Median after over median before."""
    verdict: str


class Comparison(msgspec.Struct, frozen=True):
    """Everything that both sides have, and what is to be said about the rest."""

    rows: list[Row]
    only_before: list[str]
    only_after: list[str]
    notes: list[str]

    @property
    def exit_code(self) -> int:
        """1 when something is slower, outside the noise, or void."""
        return 1 if any(row.verdict in (SLOWER, VOID) for row in self.rows) else 0


Results = dict[str, list[dict[str, Any]]]


def compare(before: Results, after: Results) -> Comparison:
    """Compare what kept.load() read, case by case."""
    both = [name for name in before if name in after]
    rows = [row for name in both if (row := _row(name, before[name], after[name]))]
    return Comparison(
        rows=rows,
        only_before=[name for name in before if name not in after],
        only_after=[name for name in after if name not in before],
        notes=_notes(before, after, both),
    )


def _run_of(name: str, results: list[dict[str, Any]]) -> suite.Run:
    """Give results the case of that name, which knows what figure it is judged by."""
    for workload in WORKLOADS:
        for case in workload.cases:
            if case.name == name:
                return suite.Run(case=case, workload=workload, results=results)
    return suite.Run(case=Case(name=name), workload=WORKLOADS[0], results=results)


def _side(results: list[dict[str, Any]], run: suite.Run, figure: str) -> Side | None:
    values: list[float] = []
    for result in results:
        repeated = result.get("repetitions")
        if isinstance(repeated, dict) and repeated.get("figure") == figure:
            values += [float(value) for value in repeated["values"]]
        elif (value := suite.value_of(result, figure)) is not None:
            values.append(value)
    if not values and not run.faults:
        return None
    return Side(
        values=values,
        median=statistics.median(values) if values else 0.0,
        range=[min(values), max(values)] if values else [0.0, 0.0],
        faults=run.faults,
    )


def _row(name: str, before: list[dict[str, Any]], after: list[dict[str, Any]]) -> Row | None:
    run = _run_of(name, [*before, *after])
    old = _side(before, _run_of(name, before), run.figure)
    new = _side(after, _run_of(name, after), run.figure)
    if old is None or new is None:
        return None
    ratio = new.median / old.median if old.median else 0.0
    return Row(name, run.figure, old, new, ratio, _verdict(old, new, ratio, run.more_is_better))


def _verdict(before: Side, after: Side, ratio: float, more_is_better: bool) -> str:
    if before.faults or after.faults or not before.values or not after.values:
        return VOID
    if min(len(before.values), len(after.values)) < REPETITIONS_LEAST:
        return FEW
    apart = before.range[1] < after.range[0] or after.range[1] < before.range[0]
    if not apart or abs(ratio - 1) <= NOISE:
        return SAME
    return FASTER if (ratio > 1) == more_is_better else SLOWER


def _notes(before: Results, after: Results, both: list[str]) -> list[str]:
    """Say what makes the two sides hard to compare."""
    notes = []
    sides_of = [
        {name: [one for one in side[name] if "error" not in one] for name in both}
        for side in (before, after)
    ]
    all_of = [[one for results in side.values() for one in results] for side in sides_of]
    for field, words in (
        ("cpu", "processors"),
        ("cores", "numbers of processors"),
        ("kernel", "kernels"),
        ("python", "versions of Python"),
        ("compiler", "compilers"),
        ("compiler_flags", "compilers' flags"),
        ("build", "builds"),
        ("filesystem", "filesystems"),
    ):
        sides = [
            {str(found) for one in side if (found := one.get("environment", {}).get(field))}
            for side in all_of
        ]
        if all(sides) and sides[0] != sides[1]:
            old, new = (", ".join(sorted(side)) for side in sides)
            notes.append(f"the {words} differ: {old}; {new}")
    for name in both:
        ways = [{(one.get("policy"), one.get("poll")) for one in side[name]} for side in sides_of]
        if ways[0] != ways[1]:
            notes.append(f"{name} ran with another policy or poll mode")
    calibrations = [
        [
            value
            for one in side
            if (value := suite.value_of(one, "environment.calibration_ns")) is not None
        ]
        for side in all_of
    ]
    if all(calibrations):
        old_ns, new_ns = (min(side) for side in calibrations)
        if abs(new_ns / old_ns - 1) > CALIBRATION_APART:
            notes.append(
                f"the calibration loop took {new_ns / old_ns:.2f} times as long on the second side"
            )
    if any(one.get("quiet") is False for side in all_of for one in side):
        notes.append("some runs were not made in a quiet moment")
    return notes


def table(found: Comparison) -> list[str]:
    """Return a line for each case, in at most 80 columns; `*` marks what is outside the noise."""
    lines = [
        f"  {'case':<22}{'before':>9}{'spread':>8}  {'after':>9}{'spread':>8}{'ratio':>8}  verdict"
    ]
    for row in found.rows:
        mark = "*" if row.verdict in (FASTER, SLOWER) else "!" if row.verdict == VOID else " "
        sides = ""
        for side in (row.before, row.after):
            shown = suite.amount(side.median, row.figure) if side.values else "-"
            spread = f"{side.spread:.0%}" if len(side.values) > 1 else ""
            sides += f"{shown:>9}{spread:>8}  "
        ratio = f"{row.ratio:.3f}" if row.ratio else "-"
        lines.append(f"{mark} {row.case[:22]:<22}{sides[:-2]}{ratio:>8}  {row.verdict}"[:80])
        for name, side in (("before", row.before), ("after", row.after)):
            lines += [f"    {name}: {fault}"[:80] for fault in side.faults]
    for names, where in ((found.only_before, "before"), (found.only_after, "after")):
        if names:
            lines.append(f"  only {where}: {', '.join(names)}")
    return lines
