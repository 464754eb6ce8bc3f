"""Runs of many workloads: each case of the table in a process of its own, judged and tabulated.

A process for each repetition, because two processes of one binary differ by some per cent by
themselves: where memory happens to lie is part of the figure. A case's figure is the field that its
bound names, else ns_per_op, the median latency or the rate, whichever it has.
"""

from __future__ import annotations

import json
import re
import statistics
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from bourse.bench.workloads import FAULT, WORKLOADS, Case, Workload
from bourse.errors import UsageError

OVER_BUDGET = 0.10
"""How much over its budget a figure may be."""

DEFAULT_FIGURES = ("ns_per_op", "latency_ns.p50", "rate_per_s")
_AT_LEAST = ("rate_per_s",)


class Run(msgspec.Struct, kw_only=True):
    """A case and the results of its repetitions, as their processes printed them."""

    case: Case
    workload: Workload
    results: list[dict[str, Any]] = []

    @property
    def figure(self) -> str:
        """Field that the case is judged by, dotted."""
        if self.case.must is not None:
            return self.case.must.figure
        for name in DEFAULT_FIGURES:
            if any(value_of(result, name) is not None for result in self.results):
                return name
        return DEFAULT_FIGURES[0]

    @property
    def more_is_better(self) -> bool:
        """Whether the figure is a rate."""
        bound = self.case.must
        return bound.at_least if bound is not None else self.figure in _AT_LEAST

    @property
    def values(self) -> list[float]:
        """The figure of each repetition that has one."""
        found = (value_of(result, self.figure) for result in self.results)
        return [value for value in found if value is not None]

    @property
    def best(self) -> dict[str, Any]:
        """Result of the fastest repetition; a failed one where there is no other."""
        having = [one for one in self.results if value_of(one, self.figure) is not None]
        if not having:
            return self.results[0]
        choose = max if self.more_is_better else min
        return choose(having, key=lambda result: value_of(result, self.figure) or 0.0)

    @property
    def faults(self) -> list[str]:
        """Names of the checks that failed in any repetition, and errors."""
        names: list[str] = []
        for result in self.results:
            if "error" in result:
                names.append(str(result["error"]["sentence"]))
            names += [check["name"] for check in result.get("checks", []) if not check["ok"]]
        return list(dict.fromkeys(names))

    @property
    def limit(self) -> float | None:
        """What the figure must reach, with the fastest repetition's own ping-pong."""
        if self.case.must is None:
            return None
        return self.case.must.limit(self.best.get("ping_pong_ns", 0.0))

    @property
    def holds(self) -> bool | None:
        """Whether the fastest repetition reaches it; None where nothing is asked."""
        if self.case.must is None:
            return None
        value = value_of(self.best, self.figure)
        return value is not None and self.case.must.holds(value, self.best.get("ping_pong_ns", 0.0))

    def summary(self) -> dict[str, Any]:
        """Return the result of the fastest repetition, with its case, bound and spread."""
        values = self.values
        found: dict[str, Any] = {**self.best, "case": self.case.name}
        if values:
            found["repetitions"] = {
                "figure": self.figure,
                "values": values,
                "median": statistics.median(values),
                "best": max(values) if self.more_is_better else min(values),
                "range": [min(values), max(values)],
            }
        if self.case.must is not None:
            found["must"] = {"figure": self.figure, "limit": self.limit, "holds": self.holds}
        return found


def value_of(result: dict[str, Any], field: str) -> float | None:
    """Return a result's field by its dotted name, None when it has none."""
    found: Any = result
    for name in field.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return float(found) if isinstance(found, int | float) else None


def choose(names: Sequence[str]) -> list[Run]:
    """Return the cases of that name, or of the workloads of that name; all without a name.

    Raises:
        UsageError: there is no such case or workload.
    """
    known = [Run(case=case, workload=one) for one in WORKLOADS for case in one.cases]
    for name in names:
        if not any(name in (run.case.name, run.workload.name) for run in known):
            raise UsageError(f"there is no workload {name}; `bourse bench` lists them")
    if not names:
        return known
    return [run for run in known if run.case.name in names or run.workload.name in names]


def choose_at(address: str, names: Sequence[str]) -> tuple[list[Run], list[str]]:
    """Return a run for each workload that a daemon at an address can be asked for, and the others.

    Such a daemon has the policy and the poll mode that it has: one case of a workload is enough.

    Raises:
        UsageError: there is no such case or workload, or none that takes an address.
    """
    runs: dict[str, Run] = {}
    left: list[str] = []
    for run in choose(names):
        if not run.workload.needs_a_daemon:
            left.append(run.case.name)
        elif run.case.name in names or run.workload.name not in runs:
            flags = {
                name: value
                for name, value in run.case.flags.items()
                if name not in ("durability", "poll")
            }
            case = msgspec.structs.replace(run.case, flags={**flags, "connect": address}, must=None)
            runs[run.workload.name] = Run(case=case, workload=run.workload)
    if not runs:
        raise UsageError(f"none of {', '.join(left)} measures a daemon at --connect")
    return list(runs.values()), left


def command_of(run: Run, full: bool, fault: str | None = None) -> list[str]:
    """Return the command line of a case; a fault is for the workloads that hear events."""
    values = {**run.case.flags, **(run.case.full if full else run.case.quick)}
    if fault is not None and FAULT in run.workload.flags:
        values[FAULT.name] = fault
    flags = {flag.name: flag.flag for flag in run.workload.flags}
    arguments = [part for name, value in values.items() for part in (flags[name], str(value))]
    return [sys.executable, "-m", "bourse", "bench", run.workload.name, *arguments, "--json"]


def execute(command: list[str]) -> dict[str, Any]:
    """Run one process and return the object that it printed; an error is an object too."""
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        found = json.loads(ended.stdout)
        assert isinstance(found, dict)
    except (ValueError, AssertionError):
        last = ended.stderr.strip().splitlines()[-1:] or ["it printed nothing"]
        found = {"error": {"sentence": last[0], "exit_code": ended.returncode}}
    return found


def perform(
    runs: list[Run],
    *,
    full: bool = False,
    repeat: int = 1,
    interleave: bool = False,
    fault: str | None = None,
    on_start: Callable[[Run, int], None] = lambda run, number: None,
    execute: Callable[[list[str]], dict[str, Any]] = execute,
) -> None:
    """Run all cases, one process at a time.

    Args:
        runs: what choose() returned.
        full: properly, else quickly.
        repeat: processes a case.
        interleave: whether all cases take turns, so that each sees the same moods of the machine.
        fault: what happens, on purpose, to one event of each case that hears events (faults.py).
        on_start: told before each process.
        execute: runs a command line.
    """
    for number, run in _order(runs, repeat, interleave):
        on_start(run, number)
        run.results.append(execute(command_of(run, full, fault)))


def _order(runs: list[Run], repeat: int, interleave: bool) -> Iterator[tuple[int, Run]]:
    if interleave:
        yield from ((number, run) for number in range(repeat) for run in runs)
    else:
        yield from ((number, run) for run in runs for number in range(repeat))


# --- Tables ---------------------------------------------------------------------------------------


def amount(value: float, figure: str) -> str:
    """Write a figure with its unit in at most nine characters."""
    if figure in _AT_LEAST:
        for unit, size in (("M/s", 1e6), ("k/s", 1e3)):
            if value >= size:
                return (
                    f"{value / size:.3g} {unit}" if value < 1e9 else f"{value / size:,.0f} {unit}"
                )
        return f"{value:.3g} /s"
    words = re.split(r"[._]", figure)
    if "ns" not in words and not any(re.fullmatch(r"p\d+", word) for word in words):
        return f"{value:.3g}x"  # a ratio
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g} ns"


def table(runs: Iterable[Run]) -> list[str]:
    """Return a line for each case, in at most 80 columns."""
    lines = [f"{'case':<22}{'figure':>9}  {'of':<13}{'spread':>6}{'must':>11}  {'':<5}checks"]
    for run in runs:
        checks = [check for result in run.results for check in result.get("checks", [])]
        values = run.values
        best = value_of(run.best, run.figure)
        shown = amount(best, run.figure) if best is not None else "-"
        spread = f"{max(values) / min(values) - 1:.0%}" if len(values) > 1 and min(values) else ""
        limit = run.limit
        sign = ">=" if run.more_is_better else "<="
        must = f"{sign}{amount(limit, run.figure)}" if limit is not None else ""
        held = {True: "ok", False: "MISS", None: ""}[run.holds]
        faults = run.faults
        judged = f"{len(checks)} ok" if not faults else f"FAILED {len(faults)}"
        lines.append(
            f"{run.case.name[:22]:<22}{shown:>9}  {run.case.unit[:12]:<13}{spread:>6}{must:>11}"
            f"  {held:<5}{judged}"
        )
        lines += [f"  {fault}"[:80] for fault in faults]
        if "ping_pong_ns" in run.best:
            lines.append(
                f"{'  ping-pong':<22}{amount(run.best['ping_pong_ns'], 'ns'):>9}  there and back"
            )
    return lines


# --- Budgets --------------------------------------------------------------------------------------


CALIBRATION = "environment.calibration_ns"


class Budget(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a case may take, as a ratio within one run, and how much it must have seen."""

    ratio: float | None = None
    """The figure over the field `over`; None where only the floors count."""
    figure: str | None = None
    """Field that is judged, dotted; None: the case's own. Of a rate, 1e9 by it is taken."""
    over: str = CALIBRATION
    """What it is divided by; an empty text where the figure is a ratio already."""
    floors: dict[str, float] = {}
    """Least values of fields of the result, dotted."""


def load_budgets(path: Path) -> dict[str, Budget]:
    """Read budgets.toml.

    Raises:
        UsageError: it is not there or not of this form.
    """
    try:
        return msgspec.convert(tomllib.loads(path.read_text()), dict[str, Budget])
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}; name one with --budgets") from None
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise UsageError(f"{path} is not a table of budgets: {error}") from None


def ratio_of(run: Run, result: dict[str, Any], budget: Budget) -> float | None:
    """Return a repetition's figure over what its budget names, of the same run; None without it."""
    figure = budget.figure or run.figure
    value = value_of(result, figure)
    unit = value_of(result, budget.over) if budget.over else 1.0
    if not value or not unit:
        return None
    return (1e9 / value if figure in _AT_LEAST else value) / unit


def ratio_text(ratio: float, budget: Budget) -> str:
    """Write a ratio with what it is a ratio to."""
    if budget.over == CALIBRATION:
        return f"{ratio:.4g} calibrations"
    return f"{ratio:.4g} times {budget.over}" if budget.over else f"{budget.figure} {ratio:.4g}"


def judge(run: Run, budget: Budget, slack: float = OVER_BUDGET) -> list[str]:
    """Return what is wrong with a case, a sentence each.

    Args:
        run: with its results.
        budget: what it may take.
        slack: how much more it may take, as a share.
    """
    wrong = [f"{run.case.name}: {fault}" for fault in run.faults]
    ratios = [ratio for one in run.results if (ratio := ratio_of(run, one, budget)) is not None]
    if budget.ratio is None:
        pass
    elif not ratios:
        wrong.append(f"{run.case.name}: there is no figure")
    elif min(ratios) > budget.ratio * (1 + slack):
        wrong.append(
            f"{run.case.name}: {ratio_text(min(ratios), budget)}, its budget is "
            f"{budget.ratio:.4g} ({min(ratios) / budget.ratio - 1:+.0%})"
        )
    for field, floor in budget.floors.items():
        value = value_of(run.best, field)
        if value is None or value < floor:
            seen = "nothing" if value is None else f"{value:,.0f}"
            wrong.append(f"{run.case.name}: {field} is {seen}, at least {floor:,.0f} is expected")
    return wrong
