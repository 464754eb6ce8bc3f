"""Copies what the books hold into records, for those who look from outside (exports.pxd).

Compiled only.
"""

from __future__ import annotations

import cython
from cython.cimports.bourse.core.books import (
    BooksPtr,
    block_at,
    level_at,
    order_at,
    session_at,
    side_at,
)
from cython.cimports.bourse.core.indexes import ALL_ONES
from cython.cimports.bourse.core.levels import key_of
from cython.cimports.bourse.core.records import InstrumentRecord, OrderRecord
from cython.cimports.bourse.core.registry import find_instrument, find_session
from cython.cimports.bourse.core.structures import (
    BlockPtr,
    ConstVoidPtr,
    LevelPtr,
    OrderPtr,
    SessionPtr,
    SidePtr,
    Uint32Ptr,
)
from cython.cimports.libc.stdint import uint8_t, uint32_t, uint64_t
from cython.cimports.libc.string import memcpy, memset


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def fill_depth(
    books: BooksPtr, side: SidePtr, levels_max: uint32_t, out: DepthLevelPtr
) -> uint32_t:
    """Copy the best levels of a side, best first; return how many."""
    count: uint32_t = 0
    at: uint32_t = side.block_count
    position: uint32_t
    block: BlockPtr
    level: LevelPtr
    while at != 0 and count < levels_max:
        at -= 1
        block = block_at(books, side.blocks[at])
        position = block.count
        while position != 0 and count < levels_max:
            position -= 1
            level = level_at(books, block.levels[position])
            out[count].price_ticks = key_of(side.side, level.key)
            out[count].qty_lots = level.qty_lots
            out[count].order_count = level.order_count
            out[count].spare = 0
            count += 1
    return count


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def export_depth(
    books: BooksPtr,
    instrument_id: uint32_t,
    levels_max: uint32_t,
    bids: DepthLevelPtr,
    bid_count: Uint32Ptr,
    asks: DepthLevelPtr,
    ask_count: Uint32Ptr,
    bid_levels: Uint32Ptr,
    ask_levels: Uint32Ptr,
) -> uint32_t:
    """Copy the best levels of both sides; 1 when there is no such instrument, else 0."""
    slot: uint32_t = find_instrument(books, instrument_id)
    if slot == 0:
        return 1
    bid_levels[0] = side_at(books, slot).level_count
    ask_levels[0] = side_at(books, slot + 1).level_count
    bid_count[0] = fill_depth(books, side_at(books, slot), levels_max, bids)
    ask_count[0] = fill_depth(books, side_at(books, slot + 1), levels_max, asks)
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def export_orders(books: BooksPtr, out: OrderRecordPtr, capacity: uint64_t) -> uint64_t:
    """Copy every live order; the count, or 2**64-1 when `capacity` is too small."""
    slot: uint32_t
    order: OrderPtr
    level: LevelPtr
    side: SidePtr
    count: uint64_t = 0
    if capacity < books.state.live_order_count:
        return ALL_ONES
    for slot in range(1, cython.cast(uint32_t, books.order_pool.next_unused)):
        order = order_at(books, slot)
        if order.leaves_lots == 0:
            continue
        level = level_at(books, order.level)
        side = side_at(books, level.side)
        memset(cython.address(out[count]), 0, cython.sizeof(OrderRecord))
        out[count].order_id = order.order_id
        out[count].client_order_id = order.client_order_id
        out[count].priority = order.place >> 8
        out[count].leaves_lots = order.leaves_lots
        out[count].qty_lots = order.qty_lots
        out[count].price_ticks = key_of(side.side, level.key)
        out[count].session_id = session_at(books, order.session).session_id
        out[count].instrument_id = side.instrument_id
        out[count].side = cython.cast(uint8_t, side.side)
        out[count].order_type = cython.cast(uint8_t, order.place & 0xFF)
        count += 1
    return count


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def export_sessions(books: BooksPtr, out: Uint32Ptr, capacity: uint64_t) -> uint64_t:
    """Copy the ids of the open sessions; the count, or 2**64-1 when `capacity` is too small."""
    slot: uint32_t
    session: SessionPtr
    count: uint64_t = 0
    for slot in range(1, cython.cast(uint32_t, books.session_pool.next_unused)):
        session = session_at(books, slot)
        if session.session_id == 0 or not session.is_open:
            continue
        if count == capacity:
            return ALL_ONES
        out[count] = session.session_id
        count += 1
    return count


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def export_instruments(books: BooksPtr, out: InstrumentRecordPtr, capacity: uint64_t) -> uint64_t:
    """Copy every instrument; the count, or 2**64-1 when `capacity` is too small."""
    which: uint32_t
    side: SidePtr
    if capacity < books.state.instrument_count:
        return ALL_ONES
    for which in range(books.state.instrument_count):
        side = side_at(books, 2 * which + 2)
        memset(cython.address(out[which]), 0, cython.sizeof(InstrumentRecord))
        out[which].instrument_id = side.instrument_id
        out[which].is_halted = side.is_halted
        memcpy(cython.address(out[which].symbol[0]), cython.address(side.symbol), 8)
        side = side_at(books, 2 * which + 3)
        memcpy(cython.address(out[which].symbol[8]), cython.address(side.symbol), 8)
    return books.state.instrument_count


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def add_lots(out: ImpactPtr, lots: uint64_t) -> cython.void:
    """Add up, and stop at the top."""
    out.lots = out.lots + lots if lots <= ALL_ONES - out.lots else ALL_ONES


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def export_impact(books: BooksPtr, session_id: uint32_t, out: ImpactPtr) -> uint32_t:
    """Count what a mass cancel would hit; 1 when no such session is known, else 0.

    Of everybody the levels' totals are added up, of a session its orders, and of neither more than
    COUNTED_MAX: a matcher asks.
    """
    slot: uint32_t
    at: uint32_t
    position: uint32_t
    side: SidePtr
    block: BlockPtr
    left: uint32_t = COUNTED_MAX
    memset(out, 0, cython.sizeof(Impact))
    if session_id != 0:
        slot = find_session(books, session_id)
        if slot == 0:
            return 1
        slot = session_at(books, slot).head
        out.sessions = slot != 0
        while slot != 0 and out.orders < COUNTED_MAX:
            out.orders += 1
            add_lots(out, order_at(books, slot).leaves_lots)
            slot = order_at(books, slot).session_next
        out.is_least = slot != 0
        return 0
    out.orders = books.state.live_order_count
    for slot in range(1, cython.cast(uint32_t, books.session_pool.next_unused)):
        if session_at(books, slot).session_id != 0 and session_at(books, slot).head != 0:
            out.sessions += 1
    for slot in range(2, cython.cast(uint32_t, books.side_pool.next_unused)):
        side = side_at(books, slot)
        for at in range(side.block_count):
            block = block_at(books, side.blocks[at])
            if block.count > left:
                out.is_least = 1
                return 0
            left -= block.count
            for position in range(block.count):
                add_lots(out, level_at(books, block.levels[position]).qty_lots)
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def export_halted(books: BooksPtr, instrument_id: uint32_t) -> uint32_t:
    """Return 1 when the instrument is halted."""
    slot: uint32_t = find_instrument(books, instrument_id)
    return side_at(books, slot).is_halted if slot != 0 else 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def by_order_id(left: ConstVoidPtr, right: ConstVoidPtr) -> cython.int:
    """Compare two order records, for qsort()."""
    a: uint64_t = cython.cast(OrderRecordPtr, left).order_id
    b: uint64_t = cython.cast(OrderRecordPtr, right).order_id
    return (a > b) - (a < b)
