"""What a terminal too small for any panel shows: the size needed, and the size that it has."""

from __future__ import annotations

from typing import ClassVar

from bourse.tui.layout import HEIGHT_MIN, WIDTH_MIN
from bourse.tui.line import LineView, Row, exactly
from bourse.tui.state import ConsoleState


def gate_rows(width: int, height: int) -> list[Row]:
    """Return the sentence, in the middle."""
    text = f"{WIDTH_MIN}×{HEIGHT_MIN} needed, have {width}×{height}"
    lead = " " * max(0, (width - len(text)) // 2)
    above = [exactly((), width)] * (max(0, height - 1) // 2)
    return [*above, exactly(((lead + text, "warning"),), width)]


class Gate(LineView):
    """Ask for a larger terminal."""

    TOPICS: ClassVar[frozenset[str]] = frozenset()

    def draw(self, state: ConsoleState, width: int, height: int) -> list[Row]:
        """Return the sentence."""
        return gate_rows(width, height)
