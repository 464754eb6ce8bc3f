"""bourse buy, sell, cancel: a person's first orders, as the operator's session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from bourse.cli.options import AdminOption, JsonOption, admin_path, command_app
from bourse.cli.output import say, say_json

if TYPE_CHECKING:
    from pathlib import Path

    from bourse.admin.messages import OrderResult

buy_app = command_app()
sell_app = command_app()
cancel_app = command_app()

TYPES = ("limit", "market", "ioc", "post_only", "fok")

QtyArgument = Annotated[int, typer.Argument(metavar="QTY", help="Quantity, in lots.")]
PriceArgument = Annotated[
    int | None,
    typer.Argument(metavar="PRICE", help="Limit, in ticks, of any sign; none for a market order."),
]
TypeOption = Annotated[
    str, typer.Option("--type", metavar="TYPE", help=f"Kind of the order: {', '.join(TYPES)}.")
]
# A price below zero is no flag.
NEGATIVE = {"ignore_unknown_options": True}


@buy_app.command(context_settings=NEGATIVE)
def buy(
    qty: QtyArgument,
    price: PriceArgument = None,
    order_type: TypeOption = "limit",
    admin: AdminOption = None,
    as_json: JsonOption = False,
) -> int:
    """Buy QTY at PRICE or better, and say what became of it once the policy has it.

    \b
    Examples:
      bourse buy 5 100
      bourse buy 5 --type market

    \b
    Exit codes:
      0  taken: it rests, or traded
      1  refused, with the reason
      2  wrong usage
      3  no daemon answers
    """
    return _order("buy", qty, price, order_type, admin, as_json)


@sell_app.command(context_settings=NEGATIVE)
def sell(
    qty: QtyArgument,
    price: PriceArgument = None,
    order_type: TypeOption = "limit",
    admin: AdminOption = None,
    as_json: JsonOption = False,
) -> int:
    """Sell QTY at PRICE or better, and say what became of it once the policy has it.

    \b
    Examples:
      bourse sell 5 101
      bourse sell 5 101 --type post_only

    \b
    Exit codes:
      0  taken: it rests, or traded
      1  refused, with the reason
      2  wrong usage
      3  no daemon answers
    """
    return _order("sell", qty, price, order_type, admin, as_json)


@cancel_app.command()
def cancel(
    order_id: Annotated[
        int, typer.Argument(metavar="ORDER_ID", help="The order's exchange number.", min=1)
    ],
    admin: AdminOption = None,
    as_json: JsonOption = False,
) -> int:
    """Cancel any live order by its exchange number.

    \b
    Example:
      bourse cancel 17

    \b
    Exit codes:
      0  cancelled
      1  no live order has this number
      3  no daemon answers
    """
    from bourse.admin.client import call
    from bourse.admin.messages import CancelParams
    from bourse.domain import Reason

    result = call(admin_path(admin), "cancel", CancelParams(order_id), name="bourse cancel")
    if as_json:
        say_json(result)
    elif Reason(result.reason).is_reject:
        say(f"Not cancelled: {result.sentence}")
    else:
        say(f"Order {order_id} is cancelled; {result.leaves_lots:,} lots were open.")
    return 1 if Reason(result.reason).is_reject else 0


def _order(
    side: str, qty: int, price: int | None, order_type: str, admin: Path | None, as_json: bool
) -> int:
    from bourse.admin.client import call
    from bourse.admin.messages import OrderParams
    from bourse.domain import Reason
    from bourse.errors import UsageError

    spelled = order_type
    order_type = order_type.lower().replace("-", "_").replace("postonly", "post_only")
    if order_type not in TYPES:
        raise UsageError(f"--type {spelled} is not allowed; it must be one of {', '.join(TYPES)}")
    if not 0 <= qty < 1 << 64:
        raise UsageError(f"QTY {qty} is not allowed; it must be from 1 to 2**64 - 1")
    if price is not None and not -(1 << 63) <= price < 1 << 63:
        raise UsageError(f"PRICE {price} is not allowed; it must be from -2**63 to 2**63 - 1")
    if (price is None) != (order_type == "market"):
        raise UsageError(
            "a market order has no PRICE; leave it away"
            if price is not None
            else f"an order of type {order_type} needs a PRICE: bourse {side} {qty} PRICE"
        )
    params = OrderParams(side, qty, price, order_type)
    path = admin_path(admin)
    result = call(path, "order", params, name=f"bourse {side}")
    if as_json:
        say_json(result)
    else:
        for line in _order_lines(side, qty, result, path):
            say(line)
    return 1 if Reason(result.reason).is_reject else 0


def _order_lines(side: str, qty: int, result: OrderResult, path: Path) -> list[str]:
    from bourse.config import admin_flag
    from bourse.domain import Reason

    if Reason(result.reason).is_reject:
        return [f"Refused: {result.sentence}"]
    verb = "bought" if side == "buy" else "sold"
    lines = [f"Order {result.order_id}: {verb} {result.filled_lots:,} of {qty:,}."]
    lines += [
        f"  {fill.qty_lots:,} at {fill.price_ticks:,} (order {fill.maker_order_id})"
        for fill in result.fills
    ]
    if result.resting:
        lines.append(
            f"  {result.leaves_lots:,} rest in the book; take them back with: "
            f"bourse cancel {result.order_id}{admin_flag(path)}"
        )
    elif result.leaves_lots:
        lines.append(f"  {result.leaves_lots:,} ended: {result.sentence}")
    return lines
