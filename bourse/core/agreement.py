"""Holds structures.pxd against domain.py and records.py, whose values and sizes it repeats for C.

Compiled only: the compile-time constants are not visible from Python.
"""

from __future__ import annotations

import cython
from cython.cimports.bourse.core.records import (
    Command,
    DepthLevel,
    EngineState,
    Event,
    InstrumentRecord,
    OrderRecord,
)
from cython.cimports.bourse.core.structures import Block, BookSide, Level, Order, Session
from cython.cimports.bourse.core.words import (
    ACCEPTED,
    ALREADY_HALTED,
    BAD_COMMAND,
    BUY,
    BY_ORDER_ID,
    CANCEL,
    CANCEL_ORDERS,
    CANCELLED,
    DONE,
    DUPLICATE_INSTRUMENT,
    DUPLICATE_ORDER_ID,
    DUPLICATE_SESSION,
    EXPIRED,
    FILLED,
    FIRST_READ,
    FOK,
    FOK_CANNOT_FILL,
    HALT,
    HALTED,
    HEAD,
    INSTRUMENT_DEFINE,
    IOC,
    LIMIT,
    LOW_SPACE,
    MARKET,
    MASS_CANCEL,
    NEW_ORDER,
    NO_LIQUIDITY,
    NOT_HALTED,
    NOTHING_TO_CANCEL,
    OPERATOR,
    OPERATOR_CANCELLED,
    OUT_OF_MEMORY,
    POST_ONLY,
    POST_ONLY_WOULD_CROSS,
    QUANTITY_OVERFLOW,
    REPLACE,
    REPLACED,
    REPLACED_TO_FILLED,
    RESUME,
    SELL,
    SESSION_END,
    SESSION_ENDED,
    SESSION_OPEN,
    SNAPSHOT_MARK,
    SPACE_IS_LOW,
    TRADE,
    UNKNOWN_INSTRUMENT,
    UNKNOWN_ORDER,
    UNKNOWN_SESSION,
    ZERO_QUANTITY,
)

from bourse import domain
from bourse.core import records


def check() -> None:
    """Compare; called once, when engine.py is imported.

    Raises:
        ImportError: names the first constant or size that differs.
    """
    words = (
        (domain.Side, ("BUY", BUY), ("SELL", SELL)),
        (
            domain.OrderType,
            ("LIMIT", LIMIT),
            ("MARKET", MARKET),
            ("IOC", IOC),
            ("POST_ONLY", POST_ONLY),
            ("FOK", FOK),
        ),
        (
            domain.CommandKind,
            ("NEW_ORDER", NEW_ORDER),
            ("CANCEL", CANCEL),
            ("REPLACE", REPLACE),
            ("MASS_CANCEL", MASS_CANCEL),
            ("SESSION_OPEN", SESSION_OPEN),
            ("SESSION_END", SESSION_END),
            ("INSTRUMENT_DEFINE", INSTRUMENT_DEFINE),
            ("HALT", HALT),
            ("RESUME", RESUME),
            ("SNAPSHOT_MARK", SNAPSHOT_MARK),
            ("DEPTH", FIRST_READ),
        ),
        (
            domain.CommandFlag,
            ("BY_ORDER_ID", BY_ORDER_ID),
            ("CANCEL_ORDERS", CANCEL_ORDERS),
            ("SPACE_IS_LOW", SPACE_IS_LOW),
        ),
        (
            domain.EventKind,
            ("ACCEPTED", ACCEPTED),
            ("TRADE", TRADE),
            ("DONE", DONE),
            ("REPLACED", REPLACED),
            ("HEAD", HEAD),
        ),
        (
            domain.Reason,
            ("FILLED", FILLED),
            ("CANCELLED", CANCELLED),
            ("EXPIRED", EXPIRED),
            ("NO_LIQUIDITY", NO_LIQUIDITY),
            ("OPERATOR_CANCELLED", OPERATOR_CANCELLED),
            ("SESSION_ENDED", SESSION_ENDED),
            ("REPLACED_TO_FILLED", REPLACED_TO_FILLED),
            ("ZERO_QUANTITY", ZERO_QUANTITY),
            ("DUPLICATE_ORDER_ID", DUPLICATE_ORDER_ID),
            ("POST_ONLY_WOULD_CROSS", POST_ONLY_WOULD_CROSS),
            ("FOK_CANNOT_FILL", FOK_CANNOT_FILL),
            ("UNKNOWN_ORDER", UNKNOWN_ORDER),
            ("UNKNOWN_INSTRUMENT", UNKNOWN_INSTRUMENT),
            ("UNKNOWN_SESSION", UNKNOWN_SESSION),
            ("QUANTITY_OVERFLOW", QUANTITY_OVERFLOW),
            ("OUT_OF_MEMORY", OUT_OF_MEMORY),
            ("BAD_COMMAND", BAD_COMMAND),
            ("DUPLICATE_INSTRUMENT", DUPLICATE_INSTRUMENT),
            ("DUPLICATE_SESSION", DUPLICATE_SESSION),
            ("LOW_SPACE", LOW_SPACE),
            ("HALTED", HALTED),
            ("ALREADY_HALTED", ALREADY_HALTED),
            ("NOT_HALTED", NOT_HALTED),
            ("NOTHING_TO_CANCEL", NOTHING_TO_CANCEL),
        ),
    )
    for enumeration, *members in words:
        for name, value in members:
            if enumeration[name] != value:
                raise ImportError(f"structures.pxd says {name} = {value}, domain.py does not")
    if OPERATOR != domain.OPERATOR_SESSION_ID:
        raise ImportError("structures.pxd and domain.py name different operators")
    for name, size, expected in (
        ("Order", cython.sizeof(Order), 64),
        ("Level", cython.sizeof(Level), 32),
        ("Block", cython.sizeof(Block), 1600),
        ("BookSide", cython.sizeof(BookSide), 64),
        ("Session", cython.sizeof(Session), 32),
        ("Command", cython.sizeof(Command), records.COMMAND_SIZE),
        ("Event", cython.sizeof(Event), records.EVENT_SIZE),
        ("DepthLevel", cython.sizeof(DepthLevel), records.DEPTH_LEVEL_SIZE),
        ("OrderRecord", cython.sizeof(OrderRecord), records.ORDER_RECORD_SIZE),
        ("InstrumentRecord", cython.sizeof(InstrumentRecord), records.INSTRUMENT_RECORD_SIZE),
        ("EngineState", cython.sizeof(EngineState), records.ENGINE_STATE_SIZE),
    ):
        if size != expected:
            raise ImportError(f"{name} has {size} bytes, expected {expected}")


check()
