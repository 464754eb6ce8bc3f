"""The Book screen's own panels: the whole ladder, the chosen level's sums, the book's shape."""

from __future__ import annotations

from bourse.admin.messages import Depth, Level
from bourse.tui import glyphs
from bourse.tui.format import NOTHING, count, fit, mid
from bourse.tui.line import Cell, Row, exactly, foreign, panel
from bourse.tui.state import ConsoleState
from bourse.tui.widgets.ladder import HALTED, grouped, ladder_rows, sums_of, waiting_rows
from bourse.tui.widgets.wal import labelled

LEVELS_ASKED_MAX = 256
"""Levels a side that the Book screen subscribes to where the preset or a group needs them."""


def shown_depth(state: ConsoleState) -> Depth | None:
    """Return the book as the Book screen groups it."""
    depth = state.store.depth
    return grouped(depth, state.group_ticks) if depth else None


def places(state: ConsoleState) -> list[tuple[str, int]]:
    """Return every level from the farthest ask to the farthest bid, as a choice."""
    depth = shown_depth(state)
    if depth is None:
        return []
    most = state.levels or LEVELS_ASKED_MAX
    asks = [("A", level.price_ticks) for level in depth.asks[:most]]
    return asks[::-1] + [("B", level.price_ticks) for level in depth.bids[:most]]


def move_level(state: ConsoleState, step: int) -> None:
    """Move the choice along the ladder, across the middle; from a level that is gone, nearby."""
    all_places = places(state)
    if not all_places:
        state.level = None
        return
    if state.level is None:
        # One begins at the touch: the best bid downwards, the best ask upwards.
        asks = sum(side == "A" for side, _ in all_places)
        index = asks if step > 0 else asks - 1
    elif state.level in all_places:
        index = all_places.index(state.level) + step
    else:
        price = state.level[1]
        index = min(range(len(all_places)), key=lambda at: abs(all_places[at][1] - price))
    state.level = all_places[max(0, min(len(all_places) - 1, index))]


def book_panel(state: ConsoleState, width: int, height: int) -> list[Row]:
    """Return the Book screen's ladder."""
    depth = shown_depth(state)
    if depth is None:
        return panel(waiting_rows(state, width - 2, height - 2), width, height, "BOOK")
    notes = [HALTED] if depth.halted else []
    if state.levels:
        notes.append(f"{state.levels} a side")
    if state.group_ticks > 1:
        notes.append(f"{count(state.group_ticks)} ticks a row")
    return panel(
        ladder_rows(depth, width - 2, height - 2, state.levels, state.level),
        width,
        height,
        f"BOOK {fit(foreign(depth.symbol), min(16, len(depth.symbol)))}",
        note=" · ".join(notes),
        bottom=f"{count(depth.live_orders)} orders · "
        f"{count(depth.bid_levels)} bid, {count(depth.ask_levels)} ask levels",
        stale=state.stale,
    )


def level_rows(state: ConsoleState, width: int, height: int) -> list[Row]:
    """Return what taking the book up to the chosen level would mean."""
    depth = shown_depth(state)
    if depth is None:
        return []
    if state.level is None:
        words = (" ↑↓ choose a level", " asks above, bids below the middle")
        return [exactly(((line, "dim"),), width) for line in words[:height]]
    side, price = state.level
    levels = depth.asks if side == "A" else depth.bids
    prices = [level.price_ticks for level in levels]
    if price not in prices:
        return [exactly(((f" {count(price)}: this level is gone", "warning"),), width)]
    rank = prices.index(price)
    upto = levels[: rank + 1]
    level = levels[rank]
    total = sums_of(upto)[-1]
    notional = sum(one.price_ticks * one.qty_lots for one in upto)
    tone = "ask" if side == "A" else "bid"
    name = "ask" if side == "A" else "bid"
    rows = [
        labelled("level", [(f"{name} {rank + 1}", tone), (f"  {count(price)}", "bright")], width),
        labelled("quantity", [(count(level.qty_lots), "bright")], width),
        labelled("orders", _orders(level), width),
        labelled("sum to it", [(count(total), "bright"), (" lots", "dim")], width),
        labelled("worth", [(count(notional), "text"), (" ticks×lots", "dim")], width),
        labelled("average", [(f"{notional / total:,.2f}", "text")] if total else [], width),
        labelled("from mid", _distance(depth, price), width),
        labelled("share", _share(depth, side, total), width),
    ]
    if height < 4:
        rows = [rows[0], rows[3]]
    return rows[:height]


def _orders(level: Level) -> list[Cell]:
    each = level.qty_lots / level.order_count if level.order_count else 0
    return [(count(level.order_count), "text"), (f"  {each:,.1f} lots each", "dim")]


def _distance(depth: Depth, price: int) -> list[Cell]:
    if not depth.bids or not depth.asks:
        return [(NOTHING, "dim")]
    bid, ask = depth.bids[0].price_ticks, depth.asks[0].price_ticks
    middle = (bid + ask) / 2
    ticks = price - middle
    points = f"  {ticks / middle * 10_000:+,.2f} bp" if middle > 0 else ""
    return [(f"{ticks:+,.1f} ticks", "text"), (points, "dim"), (f"  mid {mid(bid, ask)}", "dim")]


def _share(depth: Depth, side: str, total: int) -> list[Cell]:
    levels = depth.asks if side == "A" else depth.bids
    all_lots = sum(level.qty_lots for level in levels)
    share = f"{total / all_lots * 100:.1f}%" if all_lots else NOTHING
    return [(share, "text"), (f" of {count(all_lots)} in {count(len(levels))} levels", "dim")]


def level_panel(state: ConsoleState, width: int, height: int) -> list[Row]:
    """Return the chosen level's panel."""
    return panel(
        level_rows(state, width - 2, height - 2), width, height, "LEVEL", stale=state.stale
    )


def shape_rows(depth: Depth, width: int, height: int) -> list[Row]:
    """Return the cumulated quantity by level: bids to the left of the middle, asks to the right."""
    half = (width - 1) // 2
    bids, asks = sums_of(depth.bids[:half]), sums_of(depth.asks[:half])
    most = max([1, *bids[-1:], *asks[-1:]])
    height = max(1, height - 1)
    left = [glyphs.column(total / most, height) for total in bids][::-1]
    right = [glyphs.column(total / most, height) for total in asks]
    rows = []
    for y in range(height):
        cells: list[Cell] = [
            ("".join(column[y] for column in left).rjust(half), "bid-bar"),
            ("│", "faint"),
            ("".join(column[y] for column in right), "ask-bar"),
        ]
        rows.append(exactly(cells, width))
    far_bid = count(depth.bids[: half or 1][-1].price_ticks) if depth.bids else ""
    far_ask = count(depth.asks[: half or 1][-1].price_ticks) if depth.asks else ""
    start = max(0, half - len(bids))
    label = (" " * start + far_bid).ljust(half)[:half] + "│"
    end = len(label) + len(asks)
    rows.append(
        exactly(((label.ljust(max(len(label), end - len(far_ask))) + far_ask, "dim"),), width)
    )
    return rows


def shape_panel(state: ConsoleState, width: int, height: int) -> list[Row]:
    """Return the book's shape."""
    depth = shown_depth(state)
    rows = shape_rows(depth, width - 2, height - 2) if depth and (depth.bids or depth.asks) else []
    lots = ""
    if depth is not None:
        lots = (
            f"{count(sum(level.qty_lots for level in depth.bids))} bid, "
            f"{count(sum(level.qty_lots for level in depth.asks))} ask lots"
        )
    return panel(
        rows,
        width,
        height,
        "SHAPE",
        note="cumulated, a column a level",
        bottom=lots,
        stale=state.stale,
    )
