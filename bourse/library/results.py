"""What a command answers: an Outcome with its Fills.

Both hold C numbers; a Python int is made when it is asked for. Compiled only.
"""

from __future__ import annotations

import cython
from cython.cimports.libc.string import memcmp

from bourse.domain import Reason, Side

# C variables: found without a look into the module's names.
_REASONS = cython.declare(
    tuple, tuple(Reason(number) if number in set(Reason) else None for number in range(256))
)
_SIDES = cython.declare(tuple, (None, Side.BUY, Side.SELL))


@cython.final
@cython.cclass
class Fill:
    """One trade of an order with one that was in the book, at that one's price."""

    def __init__(self) -> None:
        """Engines make them, past this."""
        raise TypeError("a Fill is made by an Engine")

    @property
    def price_ticks(self) -> int:
        """Price of the trade: the maker's."""
        return self.event.price_ticks

    @property
    def qty_lots(self) -> int:
        """Lots that changed hands."""
        return self.event.qty_lots

    @property
    def maker_order_id(self) -> int:
        """Order id of the order that was in the book."""
        return self.event.order_id

    @property
    def maker_client_order_id(self) -> int:
        """Client order id of that order, in its session."""
        return self.event.client_order_id

    @property
    def maker_session_id(self) -> int:
        """Session of that order."""
        return self.event.session_id

    @property
    def maker_side(self) -> Side:
        """Side of that order."""
        return _SIDES[self.event.side]

    @property
    def maker_leaves_lots(self) -> int:
        """What is left of that order in the book; 0: it has ended."""
        return self.event.leaves_lots

    @property
    def instrument_id(self) -> int:
        """What was traded."""
        return self.event.instrument_id

    @property
    def sequence(self) -> int:
        """The trade's event number."""
        return self.event.sequence

    def __eq__(self, other: object) -> bool:
        """The same trade: all of its fields are equal."""
        if not isinstance(other, Fill):
            return NotImplemented
        difference: cython.int = memcmp(
            cython.address(self.event),
            cython.address(cython.cast(Fill, other).event),
            cython.sizeof(self.event),
        )
        return difference == 0

    def __hash__(self) -> int:
        """Equal trades have equal hashes."""
        return hash((self.event.sequence, self.event.order_id))

    def __repr__(self) -> str:
        """Say it shortly."""
        return (
            f"Fill(qty_lots={self.event.qty_lots}, price_ticks={self.event.price_ticks}, "
            f"maker_order_id={self.event.order_id})"
        )


@cython.final
@cython.cclass
class Outcome:
    """What became of one command of an order: refused and why, or accepted with its fills."""

    def __init__(self) -> None:
        """Engines make them, past this."""
        raise TypeError("an Outcome is made by an Engine")

    @property
    def is_accepted(self) -> bool:
        """Whether the command was taken."""
        return self.reason_number == 0

    @property
    def reason(self) -> Reason:
        """Why the command was refused; NONE if it was not. `reason.sentence` is for people."""
        return _REASONS[self.reason_number]

    @property
    def order_id(self) -> int:
        """The exchange's number of the order; 0 if the command was refused."""
        return self.order_number

    @property
    def client_order_id(self) -> int:
        """The session's number of the order."""
        return self.client_number

    @property
    def fills(self) -> tuple[Fill, ...]:
        """The trades that the command made, in their order."""
        return self.trades

    @property
    def filled_lots(self) -> int:
        """Sum of the fills' quantities."""
        return self.traded_lots

    @property
    def leaves_lots(self) -> int:
        """What is in the book of the order now; 0 if it has ended or was refused."""
        return self.open_lots

    @property
    def end_reason(self) -> Reason:
        """Why the order ended with this command: FILLED, EXPIRED...; NONE if it did not."""
        return _REASONS[self.end_number]

    @property
    def ended_lots(self) -> int:
        """Open quantity that ended with the order: what was cancelled, or could not be filled."""
        return self.lost_lots

    def __repr__(self) -> str:
        """Say it shortly."""
        if self.reason_number != 0:
            return f"Outcome(refused: {_REASONS[self.reason_number].name})"
        text = f"order {self.order_number}: {self.traded_lots} filled"
        if self.end_number == 0:
            return f"Outcome({text}, {self.open_lots} open)"
        return f"Outcome({text}, {self.lost_lots} ended: {_REASONS[self.end_number].name})"
