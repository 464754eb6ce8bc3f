"""Trade tape: the last trades, newest first; the taker's side as letter, mark and colour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from bourse.admin.messages import Trade
from bourse.domain import Side
from bourse.tui import glyphs
from bourse.tui.format import clock, count, rate
from bourse.tui.line import Cell, LineView, Row, exactly, panel
from bourse.tui.state import ConsoleState


def tape_rows(
    trades: Sequence[Trade], width: int, gaps: Mapping[int, int] | None = None
) -> list[Row]:
    """Return one row a trade: time, side, price, quantity, and a bar for the quantity.

    Args:
        trades: newest first.
        width: cells of each row.
        gaps: how many trades were missed right before the one with a sequence; said between rows.
    """
    if not trades:
        return [exactly(((" no trades yet", "dim"),), width)]
    price_width = max(7, *(len(count(trade.price_ticks)) for trade in trades))
    qty_width = max(5, *(len(count(trade.qty_lots)) for trade in trades))
    most = max(1, *(trade.qty_lots for trade in trades))
    with_milliseconds = width >= 12 + 4 + price_width + 1 + qty_width + 1
    bar_width = width - (12 if with_milliseconds else 8) - 4 - price_width - 2 - qty_width - 3
    rows = []
    for trade in trades:
        bought = trade.taker_side == Side.BUY
        tone = "bid" if bought else "ask"
        cells: list[Cell] = [
            (time_of(trade, with_milliseconds), "dim"),
            (f" {glyphs.BUY if bought else glyphs.SELL} {'B' if bought else 'S'}", tone),
            (" " + count(trade.price_ticks).rjust(price_width), tone),
            ("  " + count(trade.qty_lots).rjust(qty_width), "text"),
        ]
        if bar_width >= 4:
            cells.append(
                (" " + glyphs.bar(trade.qty_lots / most, min(24, bar_width)), f"{tone}-bar")
            )
        rows.append(exactly(cells, width))
        if gaps and trade.sequence in gaps:
            words = f" … {count(gaps[trade.sequence])} trades missed"
            rows.append(exactly(((words, "warning"),), width))
    return rows


def time_of(trade: Trade, with_milliseconds: bool) -> str:
    """Return when the taker's command came; the operator's come by no read, and have no time."""
    text = clock(trade.received_ns, with_milliseconds)
    return text if trade.received_ns else "operator".ljust(len(text))


def tape_panel(state: ConsoleState, width: int, height: int) -> list[Row]:
    """Return the framed tape."""
    store = state.store
    trades = list(store.last_trades(height - 2))
    missed = f" · {count(store.trades_missed)} missed" if store.trades_missed else ""
    return panel(
        tape_rows(trades, width - 2, store.trade_gaps),
        width,
        height,
        "TRADES",
        note=f"{rate(store.rate('trades'))}/s{missed}",
        stale=state.stale,
    )


class TradeTape(LineView):
    """Show the last trades."""

    TOPICS: ClassVar[frozenset[str]] = frozenset({"trades", "status"})

    def draw(self, state: ConsoleState, width: int, height: int) -> list[Row]:
        """Return the framed tape."""
        return tape_panel(state, width, height)
