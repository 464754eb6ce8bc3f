"""Tables whose rows move: the choice is a row's key, so that it stays on its row.

The cost is that of the rows on screen: rows are drawn as lines (line.py), and only those that
changed are painted. A choice whose row is gone chooses nothing; what acts on a row is then refused.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from bourse.tui import filters, glyphs
from bourse.tui.format import clean, count, fit
from bourse.tui.line import Cell, Row, exactly
from bourse.tui.state import TableState

T = TypeVar("T")


class Column(NamedTuple):
    """One column: how an item's value is written, and what orders rows by it."""

    title: str
    cells: int
    text: Callable[[Any], str]
    rank: int = 0
    """What a narrow table leaves out: the highest first."""
    order: Callable[[Any], Any] | None = None
    """Key to sort by, largest first; None: not by this column."""
    left: bool = False
    tone: Callable[[Any], str] | None = None


class Table(Generic[T]):
    """A kind of table: its columns, and what is a row's key. The items are given with each call."""

    def __init__(
        self, key: Callable[[T], Hashable], columns: Sequence[Column], grows: str, empty: str
    ) -> None:
        """Describe a table.

        Args:
            key: an item's identity.
            columns: from left to right.
            grows: title of the column that takes what room is left.
            empty: what is said where there is no row.
        """
        self.key = key
        self.columns = tuple(columns)
        self.grows = grows
        self.empty = empty

    def fields(self, item: T) -> dict[str, str]:
        """Return an item's texts by column, for filters, copies and exports."""
        return {column.title: column.text(item) for column in self.columns}

    @property
    def orders(self) -> list[Column]:
        """The columns that rows can be sorted by."""
        return [column for column in self.columns if column.order]

    def shown(self, items: Sequence[T], table: TableState) -> list[T]:
        """Return the items that pass the filter, in the chosen order."""
        kept = list(items)
        if table.filter:
            matches, _ = filters.parse(table.filter)
            kept = [item for item in kept if matches(self.fields(item))]
        if table.sort and self.orders:
            order = self.orders[(table.sort - 1) % len(self.orders)].order
            assert order is not None
            kept.sort(key=order, reverse=True)
        return kept

    def chosen(self, items: Sequence[T], table: TableState) -> T | None:
        """Return the chosen item; None when nothing is chosen, or its row is gone."""
        if table.cursor is None:
            return None
        return next((item for item in items if self.key(item) == table.cursor), None)

    def move(self, items: Sequence[T], table: TableState, step: int) -> None:
        """Move the choice by rows; from a row that is gone, to what stands in its place."""
        shown = self.shown(items, table)
        if not shown:
            return
        keys = [self.key(item) for item in shown]
        if table.cursor in keys:
            index = keys.index(table.cursor) + step
        elif table.cursor is None:
            index = 0 if step >= 0 else len(keys) - 1
        else:
            index = table.index
        table.index = max(0, min(len(keys) - 1, index))
        table.cursor = keys[table.index]

    def rows(self, items: Sequence[T], table: TableState, width: int, height: int) -> list[Row]:
        """Return a head and as many rows as fit, the chosen one among them."""
        shown = self.shown(items, table)
        if not shown:
            words = self.empty if not items else f"none of {count(len(items))} fits the filter"
            return [exactly(((f" {words}", "dim"),), width)]
        columns, grown = self._fit(width)
        sorted_by = self.orders[(table.sort - 1) % len(self.orders)] if table.sort else None
        head: list[Cell] = [(" ", "dim")]
        for column, cells in zip(columns, grown, strict=True):
            title = column.title + ("↓" if column is sorted_by else "")
            text = fit(title, cells) if column.left else fit(title, cells).strip().rjust(cells)
            head.append((f" {text}", "bright" if column is sorted_by else "dim"))
        rows = [exactly(head, width)]
        keys = [self.key(item) for item in shown]
        here = keys.index(table.cursor) if table.cursor in keys else -1
        fits = max(0, height - 1)
        first = max(0, min(here - fits // 2, len(shown) - fits)) if here >= 0 else 0
        for index in range(first, min(len(shown), first + fits)):
            item = shown[index]
            is_chosen = index == here
            cells_of: list[Cell] = [(glyphs.CHOSEN if is_chosen else " ", "accent")]
            for column, cells in zip(columns, grown, strict=True):
                text = fit(column.text(item), cells)
                if not column.left:
                    text = text.rstrip().rjust(cells)
                tone = column.tone(item) if column.tone else "bright" if is_chosen else "text"
                cells_of.append((f" {text}", tone))
            ground = "/chosen" if is_chosen else ""
            rows.append(tuple((text, tone + ground) for text, tone in exactly(cells_of, width)))
        return rows

    def _fit(self, width: int) -> tuple[list[Column], list[int]]:
        """Return the columns that fit, and their cells."""
        room = width - 2
        kept: set[str] = set()
        for column in sorted(self.columns, key=lambda column: column.rank):
            if kept and column.cells + 1 > room:
                break
            kept.add(column.title)
            room -= column.cells + 1
        columns = [column for column in self.columns if column.title in kept]
        cells = [
            column.cells + (max(0, room) if column.title == self.grows else 0) for column in columns
        ]
        return columns, cells


def position(shown: int, all_items: int, table: TableState) -> str:
    """Return what a table's bottom line says about its filter."""
    return f"{count(shown)} of {count(all_items)} · /{clean(table.filter)}" if table.filter else ""
