"""Depth ladder: asks above, bids below, the best prices in the middle, a bar for each size.

    │A2    10,002     9,070    8   16,640 ▐█████▍     │      side and rank, price, quantity, orders,
    │A1    10,001     7,570   20    7,570 ▐████▌      │      cumulated quantity, the level's size
    │  mid 10,000  spread 2  last 10,001   imb +12 %  │
    │B1     9,999    11,870   26   11,870 ▐███████    │

The glyph bar is the level's own quantity. In colour the ground behind the numbers is shaded
from the right by the cumulated quantity: the shape of the book.
"""

from __future__ import annotations

from textwrap import wrap
from typing import ClassVar, NamedTuple

import msgspec

from bourse.admin.messages import Depth, Level
from bourse.tui import glyphs
from bourse.tui.format import count, fit, mid
from bourse.tui.line import Cell, LineView, Row, exactly, foreign, join_while_fits, panel, spread
from bourse.tui.state import ConsoleState

HALTED = "HALTED, cancels only"
LEVELS_ASKED = 64
"""Levels a side that the console subscribes to: a ladder of 130 rows."""


class Columns(NamedTuple):
    """Cells of each column; 0 leaves the column out."""

    rank: int
    price: int
    quantity: int
    orders: int
    cumulated: int
    bar: int


def columns_for(depth: Depth, shown: int, width: int) -> Columns:
    """Fit the columns to the numbers at hand; what matters least goes first."""
    both = depth.bids[:shown] + depth.asks[:shown]
    price = max(7, *(len(f"{level.price_ticks:,}") for level in both))
    quantity = max(6, *(len(f"{level.qty_lots:,}") for level in both))
    orders = max(3, *(len(f"{level.order_count:,}") for level in both))
    totals = [sum(level.qty_lots for level in side[:shown]) for side in (depth.bids, depth.asks)]
    cumulated = max(7, *(len(f"{total:,}") for total in totals))
    rank = 3
    base = rank + 1 + price + 1 + quantity + 1
    for with_orders, with_cumulated in ((1, 1), (1, 0), (0, 0)):
        used = base + with_orders * (orders + 1) + with_cumulated * (cumulated + 1)
        bar = width - used
        if bar >= 6:
            break
    else:
        bar = max(0, width - base)
    # A wide ladder breathes: half of what is left over goes between the numbers.
    spare = max(0, bar - 14) // 4
    return Columns(
        rank,
        price + spare,
        quantity + spare,
        (orders + spare) * with_orders,
        (cumulated + spare) * with_cumulated,
        max(0, bar - spare * (2 + with_orders + with_cumulated)),
    )


def shade(cells: list[Cell], start: int, end: int, ground: str) -> Row:
    """Give the cells from `start` to before `end` a background, splitting texts at the borders."""
    row: list[Cell] = []
    at = 0
    for text, token in cells:
        first = min(len(text), max(0, start - at))
        last = min(len(text), max(first, end - at))
        for part, style in (
            (text[:first], token),
            (text[first:last], f"{token}/{ground}"),
            (text[last:], token),
        ):
            if part:
                row.append((part, style))
        at += len(text)
    return tuple(row)


def level_row(
    side: str,
    rank: int,
    level: Level,
    cumulated: int,
    most: int,
    most_cumulated: int,
    columns: Columns,
    width: int,
    is_chosen: bool = False,
) -> Row:
    """Return one level's row in `width` cells.

    Args:
        side: A or B.
        rank: 1 is the best price of the side.
        level: what there is.
        cumulated: quantity from the best price to this one.
        most: the largest quantity of a level on screen.
        most_cumulated: the largest cumulated quantity on screen.
        columns: cells of each column.
        width: cells of the row.
        is_chosen: the operator's choice stands on this level.
    """
    tone, ground = ("ask", "ask-shade") if side == "A" else ("bid", "bid-shade")
    strong = f"{tone}-strong" if rank == 1 else tone
    cells: list[Cell] = [
        (f"{side}{rank}".ljust(columns.rank), strong),
        (glyphs.CHOSEN if is_chosen else " ", "key"),
        (count(level.price_ticks).rjust(columns.price), strong),
        (" " + count(level.qty_lots).rjust(columns.quantity), "bright" if rank == 1 else "text"),
    ]
    if columns.orders:
        cells.append((" " + count(level.order_count).rjust(columns.orders), "text"))
    if columns.cumulated:
        cells.append((" " + count(cumulated).rjust(columns.cumulated), "text"))
    if columns.bar > 1:
        cells.append((" " + glyphs.bar(level.qty_lots / most, columns.bar - 1), f"{tone}-bar"))
    text_cells = width - columns.bar
    row = list(exactly(cells, width))
    covered = round(text_cells * cumulated / most_cumulated) if most_cumulated else 0
    return shade(row, text_cells - covered, text_cells, ground)


def imbalance(depth: Depth, shown: int) -> float:
    """Return (bid - ask) / (bid + ask) of the quantity on screen: +1.0 is bids only."""
    bid = sum(level.qty_lots for level in depth.bids[:shown])
    ask = sum(level.qty_lots for level in depth.asks[:shown])
    return (bid - ask) / (bid + ask) if bid + ask else 0.0


def middle_row(depth: Depth, shown: int, width: int) -> Row:
    """Return the row between both sides: mid, spread, last trade, imbalance."""
    parts: list[list[Cell]] = []
    if depth.bids and depth.asks:
        bid, ask = depth.bids[0].price_ticks, depth.asks[0].price_ticks
        parts.append([("mid ", "dim"), (mid(bid, ask), "bright")])
        parts.append([("spread ", "dim"), (count(ask - bid), "text")])
    elif depth.bids:
        parts.append([("no asks", "warning")])
    elif depth.asks:
        parts.append([("no bids", "warning")])
    lean = imbalance(depth, shown)
    tone = "bid" if lean > 0 else "ask" if lean < 0 else "text"
    right: list[Cell] = [("imb ", "dim"), (f"{lean * 100:+.0f}% ", tone)]
    if depth.last_price_ticks is not None:
        parts.append([("last ", "dim"), (count(depth.last_price_ticks), "text")])
    left = [(" ", "text"), *join_while_fits(parts, width - 14, "  ")]
    return spread(left, right, width)


def grouped(depth: Depth, ticks: int) -> Depth:
    """Return a book whose rows cover `ticks` ticks each: asks rounded up, bids down.

    A group that the daemon's levels end in may hold more than is shown.
    """
    if ticks <= 1:
        return depth

    def group(levels: list[Level], up: bool) -> list[Level]:
        groups: dict[int, Level] = {}
        for level in levels:
            price = level.price_ticks
            edge = -(-price // ticks) * ticks if up else price // ticks * ticks
            known = groups.get(edge, Level(edge, 0, 0))
            groups[edge] = Level(
                edge, known.qty_lots + level.qty_lots, known.order_count + level.order_count
            )
        return list(groups.values())

    return msgspec.structs.replace(
        depth, bids=group(depth.bids, False), asks=group(depth.asks, True)
    )


def ladder_rows(
    depth: Depth,
    width: int,
    height: int,
    levels: int = 0,
    chosen: tuple[str, int] | None = None,
) -> list[Row]:
    """Return the inside of the ladder: asks from far to best, the middle, bids from best to far.

    Args:
        depth: the book.
        width: cells of each row.
        height: how many rows there are.
        levels: levels a side at most; 0: as many as fit.
        chosen: the operator's choice: side A or B, and its price. A ladder higher than the panel is
            shown around it.
    """
    if not depth.bids and not depth.asks:
        words = [
            "The book is empty.",
            "",
            "First orders by hand:",
            "  bourse buy --help",
            "  bourse sell --help",
        ]
        lead = max(0, (height - len(words)) // 2)
        return [exactly((), width)] * lead + [
            exactly(((f"  {line}", "dim"),), width) for line in words[: height - lead]
        ]
    asks_shown = max(0, (height - 1) // 2)
    bids_shown = max(0, height - 1 - asks_shown)
    if levels:
        asks_shown = bids_shown = levels
    shown = max(asks_shown, bids_shown)
    columns = columns_for(depth, shown, width)

    asks, bids = depth.asks[:asks_shown], depth.bids[:bids_shown]
    most = max([1, *(level.qty_lots for level in asks + bids)])
    totals = [sums_of(side) for side in (asks, bids)]
    most_cumulated = max((sums[-1] for sums in totals if sums), default=0)

    def side_rows(side: str, side_levels: list[Level], sums: list[int]) -> list[Row]:
        return [
            level_row(
                side,
                rank,
                level,
                total,
                most,
                most_cumulated,
                columns,
                width,
                chosen == (side, level.price_ticks),
            )
            for rank, (level, total) in enumerate(zip(side_levels, sums, strict=True), 1)
        ]

    ask_rows = side_rows("A", asks, totals[0])[::-1]
    bid_rows = side_rows("B", bids, totals[1])
    middle = middle_row(depth, shown, width)
    if not levels:
        padding = [exactly((), width)] * (asks_shown - len(ask_rows))
        return [*padding, *ask_rows, middle, *bid_rows]
    rows = [*ask_rows, middle, *bid_rows]
    if len(rows) <= height:
        lead = max(0, min((height - 1) // 2 - len(ask_rows), height - len(rows)))
        return [exactly((), width)] * lead + rows
    # Around the choice, or the middle.
    here = len(ask_rows)
    if chosen is not None:
        side, price = chosen
        prices = [level.price_ticks for level in (asks if side == "A" else bids)]
        if price in prices:
            rank = prices.index(price) + 1
            here += -rank if side == "A" else rank
    first = max(0, min(here - height // 2, len(rows) - height))
    return rows[first : first + height]


def sums_of(levels: list[Level]) -> list[int]:
    """Return for each level the quantity from the best price to it."""
    running, sums = 0, []
    for level in levels:
        running += level.qty_lots
        sums.append(running)
    return sums


def waiting_rows(state: ConsoleState, width: int, height: int) -> list[Row]:
    """Return what to read, and what to do, while no daemon has answered yet."""
    sentence = state.live.connection.sentence or f"Waiting for a daemon at {state.admin_path}."
    lines = [*wrap(foreign(sentence), max(10, width - 4)), "", "The console goes on trying."]
    above = max(0, (height - len(lines)) // 2)
    rows = [exactly((), width)] * above
    return rows + [exactly(((f"  {line}", "text"),), width) for line in lines][: height - above]


def ladder_panel(state: ConsoleState, width: int, height: int) -> list[Row]:
    """Return the framed ladder."""
    depth = state.store.depth
    if depth is None:
        return panel(waiting_rows(state, width - 2, height - 2), width, height, "BOOK")
    return panel(
        ladder_rows(depth, width - 2, height - 2),
        width,
        height,
        f"BOOK {fit(foreign(depth.symbol), min(16, len(depth.symbol)))}",
        note=HALTED if depth.halted else "",
        bottom=f"{count(depth.live_orders)} orders · "
        f"{count(depth.bid_levels)} bid, {count(depth.ask_levels)} ask levels",
        stale=state.stale,
    )


class DepthLadder(LineView):
    """Show the book's best levels."""

    TOPICS: ClassVar[frozenset[str]] = frozenset({"depth", "connection"})

    def draw(self, state: ConsoleState, width: int, height: int) -> list[Row]:
        """Return the framed ladder."""
        return ladder_panel(state, width, height)
