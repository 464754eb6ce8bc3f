"""bourse book, watch: the market as text."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Annotated

import typer

from bourse.cli.options import AdminOption, JsonOption, admin_path, command_app
from bourse.cli.output import say, say_json
from bourse.domain import Side

if TYPE_CHECKING:
    from bourse.admin.messages import Depth, Level, Trade

book_app = command_app()
watch_app = command_app()

BAR_CELLS = 24


@book_app.command()
def book(
    levels: Annotated[
        int, typer.Option("--levels", metavar="N", min=1, max=256, help="Levels a side.")
    ] = 10,
    admin: AdminOption = None,
    as_json: JsonOption = False,
) -> int:
    """Show the best levels of both sides, at one moment between two commands.

    \b
    Example:
      bourse book --levels 5

    \b
    Exit codes:
      0  shown
      3  no daemon answers
    """
    from bourse.admin.client import call
    from bourse.admin.messages import DepthParams

    depth = call(admin_path(admin), "depth", DepthParams(levels), name="bourse book")
    if as_json:
        say_json(depth)
        return 0
    for line in book_lines(depth):
        say(line)
    return 0


def book_lines(depth: Depth) -> list[str]:
    """Draw both sides, asks from far to best, then bids from best to far."""
    most_lots = max((level.qty_lots for level in (*depth.asks, *depth.bids)), default=1)

    def line(name: str, level: Level) -> str:
        bar = "█" * max(1, level.qty_lots * BAR_CELLS // most_lots)
        cells = f"{level.price_ticks:>14,}{level.qty_lots:>14,}{level.order_count:>9,}"
        return f"  {name}{cells}  {bar}"

    halted = "; HALTED, it takes cancels only" if depth.halted else ""
    lines = [f"{depth.symbol} at wal_seq {depth.wal_seq:,}, event_seq {depth.event_seq:,}{halted}"]
    lines.append(f"  {'':3}{'price':>14}{'quantity':>14}{'orders':>9}")
    lines += [line("ask", level) for level in reversed(depth.asks)]
    spread = "-"
    if depth.asks and depth.bids:
        spread = f"{depth.asks[0].price_ticks - depth.bids[0].price_ticks:,}"
    last = "-"
    if depth.last_price_ticks is not None and depth.last_qty_lots is not None:
        last = f"{depth.last_qty_lots:,} at {depth.last_price_ticks:,}"
    lines.append(f"  --- spread {spread}, last trade {last}")
    lines += [line("bid", level) for level in depth.bids]
    lines.append(
        f"  {depth.ask_levels:,} ask and {depth.bid_levels:,} bid levels, "
        f"{depth.live_orders:,} live orders"
    )
    return lines


@watch_app.command()
def watch(
    count: Annotated[
        int, typer.Option("--count", metavar="N", min=0, help="Stop after N trades; 0 is never.")
    ] = 0,
    admin: AdminOption = None,
    as_json: JsonOption = False,
) -> int:
    """Follow the trades as they happen, until Ctrl-C. With --json an object a line.

    \b
    Example:
      bourse watch --count 10

    \b
    Exit codes:
      0  N trades shown, or Ctrl-C
      3  no daemon answers, or it went away
    """
    import msgspec

    from bourse.admin.client import BlockingClient
    from bourse.admin.messages import SubscribeParams, Trades

    shown = 0
    with (
        contextlib.suppress(KeyboardInterrupt),
        BlockingClient(admin_path(admin), "bourse watch") as client,
    ):
        last_sequence = client.call("trades").last_sequence
        for frame in client.frames(SubscribeParams("trades", max_hz=20.0)):
            trades = msgspec.convert(frame.data, Trades)
            # The first frame begins with what is kept, all of which is older.
            if trades.missed and frame.number > 1:
                say_json({"missed": trades.missed}) if as_json else say(
                    f"  ... {trades.missed:,} more"
                )
            for trade in trades.trades:
                if trade.sequence <= last_sequence:
                    continue
                last_sequence = trade.sequence
                say_json(_fields(trade)) if as_json else say(trade_line(trade))
                shown += 1
                if count and shown >= count:
                    return 0
    return 0


def trade_line(trade: Trade) -> str:
    """Write one trade."""
    seconds, nanoseconds = divmod(trade.received_ns, 1_000_000_000)
    clock = time.strftime("%H:%M:%S", time.localtime(seconds)) + f".{nanoseconds // 1_000_000:03}"
    if not trade.received_ns:  # the operator's commands come by no read
        clock = "operator".ljust(len(clock))
    verb = "bought from" if trade.taker_side == Side.BUY else "sold to"
    return (
        f"  {clock}  {trade.price_ticks:>12,} x {trade.qty_lots:<10,} "
        f"order {trade.taker_order_id} {verb} order {trade.maker_order_id}"
    )


def _fields(trade: Trade) -> dict[str, int]:
    """Name the fields: on the admin socket a trade is an array."""
    return {name: getattr(trade, name) for name in trade.__struct_fields__}
