"""Faults on purpose: one event spoiled between the event ring and the checks, to see them fail.

A check that cannot fail proves nothing. `--fault KIND` spoils one event in the middle of a run,
after it has left the exchange's ring (or its socket) and before anything has looked at it.
"""

from __future__ import annotations

from bourse.errors import UsageError

FAULTS = {"drop": 1, "double": 2, "quantity": 3}
"""Event left out, heard twice, or heard with a lot too many; numbers as the loops know them."""


def fault_number(name: str | None) -> int:
    """Return the loops' number of a fault, 0 without one.

    Raises:
        UsageError: there is no such fault.
    """
    if name is None:
        return 0
    if name not in FAULTS:
        raise UsageError(f"--fault {name} is not allowed; it must be drop, double or quantity")
    return FAULTS[name]
