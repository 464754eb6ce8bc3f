"""The words of the exchange: sides, order types, commands, events, reasons.

Every protocol, the log and the console share these enumerations. Values are stored in files and may
never be reused or renumbered; new ones are added at the end of their block.
"""

from enum import IntEnum, IntFlag

OPERATOR_SESSION_ID = 1
"""The operator's session: orders and cancels from the admin socket."""

INSTRUMENT_ID = 1
"""The one instrument that protocol version 1 trades."""


class Side(IntEnum):
    """Side of an order, as on the wire."""

    BUY = 1
    SELL = 2


class OrderType(IntEnum):
    """Kind of an order, as on the wire of protocol version 1."""

    LIMIT = 1
    MARKET = 2
    IOC = 3
    POST_ONLY = 4
    FOK = 5


class CommandKind(IntEnum):
    """What a command asks for; below 128 logged and numbered, from 128 reads that are not."""

    NEW_ORDER = 1
    CANCEL = 2
    REPLACE = 3
    MASS_CANCEL = 4
    SESSION_OPEN = 5
    SESSION_END = 6
    INSTRUMENT_DEFINE = 7
    HALT = 8
    RESUME = 9
    SNAPSHOT_MARK = 10
    DEPTH = 128
    FENCE = 129
    """Answered by an event of its own: everything before it has been matched."""
    IMPACT = 130
    """Answered by an event of its own: what a mass cancel would hit."""
    STOP = 255


class CommandFlag(IntFlag):
    """Bits of `Command.flags`."""

    BY_ORDER_ID = 1
    """CANCEL: the order is named by `order_id`; only the operator may."""
    CANCEL_ORDERS = 2
    """SESSION_END: the session's live orders are cancelled with it."""
    SPACE_IS_LOW = 4
    """NEW_ORDER: to be refused, because the log's disk was nearly full when it came."""


class EventKind(IntEnum):
    """What happened; below 16 numbered by `event_seq` and digested, from 16 bookkeeping."""

    ACCEPTED = 1
    TRADE = 2
    DONE = 3
    REPLACED = 4
    HEAD = 16
    """First event of each logged command: its wal_seq, who asked, and the outcome (`reason`)."""
    DEPTH_REPLY = 17
    SNAPSHOT_READY = 18
    STOPPED = 19
    FENCE = 20
    IMPACT = 21


class Reason(IntEnum):
    """Why an order ended or a command was refused: one enumeration for every protocol.

    1 to 31 end an order that was accepted; from 32 refusals, which leave no trace in the book.
    """

    NONE = 0
    FILLED = 1
    CANCELLED = 2
    EXPIRED = 3
    NO_LIQUIDITY = 4
    OPERATOR_CANCELLED = 5
    SESSION_ENDED = 6
    REPLACED_TO_FILLED = 7
    ZERO_QUANTITY = 32
    DUPLICATE_ORDER_ID = 33
    POST_ONLY_WOULD_CROSS = 34
    FOK_CANNOT_FILL = 35
    UNKNOWN_ORDER = 36
    UNKNOWN_INSTRUMENT = 37
    UNKNOWN_SESSION = 38
    QUANTITY_OVERFLOW = 39
    OUT_OF_MEMORY = 40
    BAD_COMMAND = 41
    DUPLICATE_INSTRUMENT = 42
    DUPLICATE_SESSION = 43
    LOW_SPACE = 44
    HALTED = 45
    ALREADY_HALTED = 46
    NOT_HALTED = 47
    NOTHING_TO_CANCEL = 48

    @property
    def sentence(self) -> str:
        """Say it to a person."""
        return _SENTENCES[self]

    @property
    def is_reject(self) -> bool:
        """True for a refusal, false for an end of an accepted order (and for NONE)."""
        return self >= 32


_SENTENCES = {
    Reason.NONE: "Accepted.",
    Reason.FILLED: "The order is filled.",
    Reason.CANCELLED: "The order was cancelled by its owner.",
    Reason.EXPIRED: "What an immediate-or-cancel order could not fill at once has expired.",
    Reason.NO_LIQUIDITY: "The other side is empty, so the rest of the market order ended.",
    Reason.OPERATOR_CANCELLED: "The operator cancelled the order.",
    Reason.SESSION_ENDED: "The order was cancelled because its session ended.",
    Reason.REPLACED_TO_FILLED: "The order was replaced by a quantity that is filled already.",
    Reason.ZERO_QUANTITY: "The quantity must be at least 1.",
    Reason.DUPLICATE_ORDER_ID: "An order with this id is already live in this session.",
    Reason.POST_ONLY_WOULD_CROSS: "A post-only order may not trade on arrival, and this one would.",
    Reason.FOK_CANNOT_FILL: "A fill-or-kill order must fill whole at once, and this one cannot.",
    Reason.UNKNOWN_ORDER: "No live order has this id.",
    Reason.UNKNOWN_INSTRUMENT: "No instrument has this id.",
    Reason.UNKNOWN_SESSION: "The session is not open.",
    Reason.QUANTITY_OVERFLOW: "The price level's total quantity would pass 2**64 - 1.",
    Reason.OUT_OF_MEMORY: "The machine has no memory left for another order.",
    Reason.BAD_COMMAND: "The command has a field that no rule allows.",
    Reason.DUPLICATE_INSTRUMENT: "An instrument with this id exists already.",
    Reason.DUPLICATE_SESSION: "A session with this id was opened before.",
    Reason.LOW_SPACE: "The exchange's disk is nearly full: new orders are refused, cancels work.",
    Reason.HALTED: "The instrument is halted: only cancels work until the operator resumes it.",
    Reason.ALREADY_HALTED: "The instrument is halted already.",
    Reason.NOT_HALTED: "The instrument is not halted.",
    Reason.NOTHING_TO_CANCEL: "No live order is left to cancel.",
}


class Durability(IntEnum):
    """What an acknowledgement means (docs/architecture.md)."""

    MEMORY = 0
    ASYNC = 1
    FSYNC = 2

    @property
    def label(self) -> str:
        """The name used in flags, configuration and figures."""
        return self.name.lower()


class PollMode(IntEnum):
    """How the gateway and the matcher wait."""

    BLOCK = 0
    ADAPTIVE = 1
    BUSY = 2

    @property
    def label(self) -> str:
        """The name used in flags, configuration and figures."""
        return self.name.lower()


class WalRetention(IntEnum):
    """What becomes of the log's segments that the kept snapshots make superfluous."""

    KEEP = 0
    ARCHIVE = 1
    DELETE = 2

    @property
    def label(self) -> str:
        """The name used in flags and configuration."""
        return self.name.lower()
