"""Puts a new engine into the state of a snapshot, and believes nothing of it.

Every field is checked, and the counters and the state digest at the end. Called by
Engine.restore(), with the GIL. Compiled only: it reads records and books.pxd in place.
"""

from __future__ import annotations

import cython
from cython.cimports.bourse.core.books import (
    BooksPtr,
    EngineStatePtr,
    level_at,
    order_at,
    session_at,
    side_at,
)
from cython.cimports.bourse.core.digests import order_term, place_word
from cython.cimports.bourse.core.engine import Engine
from cython.cimports.bourse.core.exports import InstrumentRecordPtr, OrderRecordPtr, by_order_id
from cython.cimports.bourse.core.indexes import ALL_ONES
from cython.cimports.bourse.core.levels import add_level, find_level, key_of
from cython.cimports.bourse.core.orders import (
    append_order,
    client_tag,
    find_client,
    find_order,
    order_ready,
)
from cython.cimports.bourse.core.records import InstrumentRecord, OrderRecord
from cython.cimports.bourse.core.registry import (
    define_instrument,
    find_instrument,
    find_session,
    open_session,
    set_halted,
    symbol_is_valid,
)
from cython.cimports.bourse.core.structures import LevelPtr, OrderPtr, SidePtr, Uint32Ptr
from cython.cimports.bourse.core.words import (
    BUY,
    LIMIT,
    OPERATOR,
    OUT_OF_MEMORY,
    POST_ONLY,
    QUANTITY_OVERFLOW,
    SELL,
)
from cython.cimports.cpython.bytearray import PyByteArray_AS_STRING
from cython.cimports.cpython.bytes import PyBytes_AS_STRING
from cython.cimports.libc.stdint import int64_t, uint32_t, uint64_t
from cython.cimports.libc.stdlib import qsort
from cython.cimports.libc.string import memcpy


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def move_to_place(books: BooksPtr, level_slot: uint32_t) -> cython.void:
    """Move the last order of a queue before those of higher priority: the queue is sorted by it."""
    level: LevelPtr = level_at(books, level_slot)
    slot: uint32_t = level.tail
    order: OrderPtr = order_at(books, slot)
    before: uint32_t = order.prev
    after: uint32_t = 0
    while before != 0 and order_at(books, before).place > order.place:
        after = before
        before = order_at(books, before).prev
    if after == 0:
        return
    level.tail = order.prev
    order_at(books, order.prev).next = 0
    order.prev = before
    order.next = after
    order_at(books, after).prev = slot
    if before != 0:
        order_at(books, before).next = slot
    else:
        level.head = slot


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def put_back(
    books: BooksPtr, side_slot: uint32_t, session_slot: uint32_t, record: OrderRecordPtr
) -> uint32_t:
    """Put an order of a snapshot into its queue by its priority; 0, or why that is not possible."""
    side: SidePtr = side_at(books, side_slot)
    key: int64_t = key_of(side.side, record.price_ticks)
    level: uint32_t
    is_new: cython.bint
    if not order_ready(books, side):
        return OUT_OF_MEMORY
    level = find_level(books, side, key)
    is_new = level == 0
    if is_new:
        level = add_level(books, side_slot, key)
    elif level_at(books, level).qty_lots > ALL_ONES - record.leaves_lots:
        return QUANTITY_OVERFLOW
    append_order(
        books,
        level,
        is_new,
        session_slot,
        client_tag(books, session_at(books, session_slot), record.client_order_id),
        record.client_order_id,
        record.order_id,
        record.leaves_lots,
        record.qty_lots,
        (record.priority << 8) | record.order_type,
    )
    move_to_place(books, level)
    books.state.live_order_count += 1
    books.state.state_digest += order_term(
        record.order_id,
        record.priority,
        record.leaves_lots,
        place_word(record.instrument_id, record.side, record.price_ticks),
    )
    return 0


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
    books: BooksPtr = cython.address(engine.books)

    for number in range(len(instruments) // cython.sizeof(InstrumentRecord)):
        memcpy(cython.address(symbol[0]), cython.address(instrument[number].symbol[0]), 16)
        if (
            instrument[number].instrument_id == 0
            or find_instrument(books, instrument[number].instrument_id) != 0
            or not symbol_is_valid(symbol[0], symbol[1])
            or instrument[number].is_halted > 1
        ):
            raise ValueError(f"instrument {instrument[number].instrument_id} is not valid")
        if not define_instrument(books, instrument[number].instrument_id, symbol[0], symbol[1]):
            raise MemoryError
        if instrument[number].is_halted:
            set_halted(books, find_instrument(books, instrument[number].instrument_id), True)
    for number in range(len(sessions) // cython.sizeof(uint32_t)):
        if session_ids[number] == OPERATOR:
            continue
        if session_ids[number] == 0 or find_session(books, session_ids[number]) != 0:
            raise ValueError(f"session {session_ids[number]} is not valid")
        if open_session(books, session_ids[number]) == 0:
            raise MemoryError

    # By order_id, so that the sessions' lists ascend; put_back() sorts the queues.
    qsort(records, order_count, cython.sizeof(OrderRecord), by_order_id)
    for number in range(order_count):
        record = cython.address(records[number])
        slot = find_instrument(books, record.instrument_id)
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
            or find_order(books, record.order_id) != 0
        ):
            raise ValueError(f"order {record.order_id} is not valid")
        session = find_session(books, record.session_id)
        if session == 0:
            session = open_session(books, record.session_id)
            if session == 0:
                raise MemoryError
            session_at(books, session).is_open = 0
        if find_client(books, session, record.client_order_id) != 0:
            raise ValueError(f"order {record.order_id} has the client order id of another one")
        found = put_back(books, slot + record.side - BUY, session, record)
        if found == OUT_OF_MEMORY:
            raise MemoryError
        if found == QUANTITY_OVERFLOW:
            raise ValueError(f"order {record.order_id} overflows the quantity of its level")
    for name, found, expected in (
        ("live_order_count", books.state.live_order_count, saved.live_order_count),
        ("session_count", books.state.session_count, saved.session_count),
        ("instrument_count", books.state.instrument_count, saved.instrument_count),
        ("state_digest", books.state.state_digest, saved.state_digest),
    ):
        if found != expected:
            raise ValueError(f"{name} is {found} after restoring, expected {expected}")
    for slot in range(2, cython.cast(uint32_t, books.side_pool.next_unused), 2):
        side = side_at(books, slot)
        other = side + 1
        if side.best_level != 0 and other.best_level != 0 and side.best_key >= ~other.best_key:
            raise ValueError(f"the book of instrument {side.instrument_id} is crossed")
    if books.state.last_session_id > saved.last_session_id:
        raise ValueError(f"session {books.state.last_session_id} was never opened")
    books.state = saved[0]
