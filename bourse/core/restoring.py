"""Puts a new engine into the state of a snapshot, and believes nothing of it.

Every field is checked, and the counters and the state digest at the end. Called by
Engine.restore(), with the GIL. Compiled only: it reads records and structures.pxd in place.
"""

from __future__ import annotations

import cython
from cython.cimports.bourse.core.engine import (
    Engine,
    by_order_id,
    define_instrument,
    find_client,
    find_instrument,
    find_order,
    find_session,
    open_session,
    put_back,
    symbol_is_valid,
)
from cython.cimports.bourse.core.records import InstrumentRecord, OrderRecord
from cython.cimports.bourse.core.structures import (
    BUY,
    LIMIT,
    OPERATOR,
    OUT_OF_MEMORY,
    POST_ONLY,
    QUANTITY_OVERFLOW,
    SELL,
    EngineStatePtr,
    InstrumentRecordPtr,
    OrderRecordPtr,
    SessionPtr,
    SidePtr,
    Uint32Ptr,
)
from cython.cimports.cpython.bytearray import PyByteArray_AS_STRING
from cython.cimports.cpython.bytes import PyBytes_AS_STRING
from cython.cimports.libc.stdint import uint32_t, uint64_t
from cython.cimports.libc.stdlib import qsort
from cython.cimports.libc.string import memcpy


def restore(
    engine: Engine, state: bytes, instruments: bytes, sessions: bytes, orders: bytes
) -> None:
    """Rebuild books, sessions and indexes, then compare them with the counters and the digest.

    Args:
        engine: a new one; useless after an exception.
        state: 128 bytes.
        instruments: 32 bytes each, in order of definition.
        sessions: 4 bytes each.
        orders: 64 bytes each.

    Raises:
        ValueError: the parts do not fit each other.
        MemoryError: there is no memory.
    """
    saved: EngineStatePtr = cython.cast(
        EngineStatePtr, cython.cast(cython.p_void, PyBytes_AS_STRING(state))
    )
    record: OrderRecordPtr
    instrument: InstrumentRecordPtr = cython.cast(
        InstrumentRecordPtr, cython.cast(cython.p_void, PyBytes_AS_STRING(instruments))
    )
    session_ids: Uint32Ptr = cython.cast(
        Uint32Ptr, cython.cast(cython.p_void, PyBytes_AS_STRING(sessions))
    )
    symbol = cython.declare(uint64_t[2])
    number: uint64_t
    order_count: uint64_t = len(orders) // cython.sizeof(OrderRecord)
    sorted_orders: bytearray = bytearray(orders)
    records: OrderRecordPtr = cython.cast(
        OrderRecordPtr,
        cython.cast(cython.p_void, PyByteArray_AS_STRING(sorted_orders)),
    )
    session: uint32_t
    slot: uint32_t
    side: SidePtr
    other: SidePtr
    found: object

    for number in range(len(instruments) // cython.sizeof(InstrumentRecord)):
        memcpy(cython.address(symbol[0]), cython.address(instrument[number].symbol[0]), 16)
        if (
            instrument[number].instrument_id == 0
            or find_instrument(engine, instrument[number].instrument_id) != 0
            or not symbol_is_valid(symbol[0], symbol[1])
        ):
            raise ValueError(f"instrument {instrument[number].instrument_id} is not valid")
        if not define_instrument(engine, instrument[number].instrument_id, symbol[0], symbol[1]):
            raise MemoryError
    for number in range(len(sessions) // cython.sizeof(uint32_t)):
        if session_ids[number] == OPERATOR:
            continue
        if session_ids[number] == 0 or find_session(engine, session_ids[number]) != 0:
            raise ValueError(f"session {session_ids[number]} is not valid")
        if open_session(engine, session_ids[number]) == 0:
            raise MemoryError

    # By order_id, so that the sessions' lists ascend; put_back() sorts the queues.
    qsort(records, order_count, cython.sizeof(OrderRecord), by_order_id)
    for number in range(order_count):
        record = cython.address(records[number])
        slot = find_instrument(engine, record.instrument_id)
        if (
            slot == 0
            or record.order_id == 0
            or record.order_id >= saved.next_order_id
            or record.priority == 0
            or record.priority >= saved.next_priority
            or record.leaves_lots == 0
            or record.leaves_lots > record.qty_lots
            or (record.side != BUY and record.side != SELL)
            or (record.order_type != LIMIT and record.order_type != POST_ONLY)
            or record.session_id == 0
            or find_order(engine, record.order_id) != 0
        ):
            raise ValueError(f"order {record.order_id} is not valid")
        session = find_session(engine, record.session_id)
        if session == 0:
            session = open_session(engine, record.session_id)
            if session == 0:
                raise MemoryError
            (cython.cast(SessionPtr, engine.session_pool.base) + session).is_open = 0
        if find_client(engine, session, record.client_order_id) != 0:
            raise ValueError(f"order {record.order_id} has the client order id of another one")
        found = put_back(engine, slot + record.side - BUY, session, record)
        if found == OUT_OF_MEMORY:
            raise MemoryError
        if found == QUANTITY_OVERFLOW:
            raise ValueError(f"order {record.order_id} overflows the quantity of its level")
    for name, found, expected in (
        ("live_order_count", engine.state.live_order_count, saved.live_order_count),
        ("session_count", engine.state.session_count, saved.session_count),
        ("instrument_count", engine.state.instrument_count, saved.instrument_count),
        ("state_digest", engine.state.state_digest, saved.state_digest),
    ):
        if found != expected:
            raise ValueError(f"{name} is {found} after restoring, expected {expected}")
    for slot in range(2, cython.cast(uint32_t, engine.side_pool.next_unused), 2):
        side = cython.cast(SidePtr, engine.side_pool.base) + slot
        other = side + 1
        if side.best_level != 0 and other.best_level != 0 and side.best_key >= ~other.best_key:
            raise ValueError(f"the book of instrument {side.instrument_id} is crossed")
    if engine.state.last_session_id > saved.last_session_id:
        raise ValueError(f"session {engine.state.last_session_id} was never opened")
    engine.state = saved[0]
