"""Looking at a book between two commands: the best price of a side, the level at a price.

Reads what structures.pxd draws, as audit.py does, and changes nothing. Both faces of the library
call it, with and without the GIL. Compiled only.
"""

from __future__ import annotations

import cython
from cython.cimports.bourse.core.engine import Engine, find_instrument
from cython.cimports.bourse.core.structures import (
    BUY,
    BlockPtr,
    DepthLevelPtr,
    Int64Ptr,
    LevelPtr,
    SidePtr,
)
from cython.cimports.libc.stdint import int64_t, uint32_t


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def side_of(engine: Engine, instrument_id: uint32_t, side: uint32_t) -> SidePtr:
    """Return one side of a book, NULL when there is no such instrument."""
    slot: uint32_t = find_instrument(engine, instrument_id)
    if slot == 0:
        return cython.NULL
    return cython.cast(SidePtr, engine.side_pool.base) + (slot if side == BUY else slot + 1)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def turned(side: SidePtr, price_or_key: int64_t) -> int64_t:
    """Price to key, and key to price: higher keys are better prices on both sides."""
    return price_or_key if side.side == BUY else ~price_or_key


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def last_not_above(keys: Int64Ptr, count: uint32_t, key: int64_t) -> uint32_t:
    """Return the position of the last of ascending keys that is not above `key`, 0 if all are."""
    low: uint32_t = 0
    high: uint32_t = count
    middle: uint32_t
    while high - low > 1:
        middle = (low + high) // 2
        if keys[middle] <= key:
            low = middle
        else:
            high = middle
    return low


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def best_price(
    engine: Engine, instrument_id: uint32_t, side: uint32_t, price_ticks: Int64Ptr
) -> cython.int:
    """Find the touch of one side (see reads.pxd)."""
    book: SidePtr = side_of(engine, instrument_id, side)
    if book == cython.NULL:
        return -1
    if book.best_level == 0:
        return 0
    price_ticks[0] = turned(book, book.best_key)
    return 1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def level_at_price(
    engine: Engine,
    instrument_id: uint32_t,
    side: uint32_t,
    price_ticks: int64_t,
    level: DepthLevelPtr,
) -> cython.int:
    """Find what rests at one price of one side (see reads.pxd)."""
    book: SidePtr = side_of(engine, instrument_id, side)
    block: BlockPtr
    found: LevelPtr
    position: uint32_t
    key: int64_t
    level.price_ticks = price_ticks
    level.qty_lots = 0
    level.order_count = 0
    level.spare = 0
    if book == cython.NULL:
        return -1
    if book.best_level == 0:
        return 0
    key = turned(book, price_ticks)
    position = last_not_above(book.separators, book.block_count, key)
    block = cython.cast(BlockPtr, engine.block_pool.base) + book.blocks[position]
    position = last_not_above(cython.address(block.keys[0]), block.count, key)
    if block.count == 0 or block.keys[position] != key:
        return 0
    found = cython.cast(LevelPtr, engine.level_pool.base) + block.levels[position]
    level.qty_lots = found.qty_lots
    level.order_count = found.order_count
    return 1
