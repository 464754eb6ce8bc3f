"""Looking at a book between two commands: the best price of a side, the level at a price.

Reads what books.pxd keeps, as audit.py does, and changes nothing. Both faces of the library
call it, with and without the GIL. Compiled only.
"""

from __future__ import annotations

import cython
from cython.cimports.bourse.core.books import BooksPtr, block_at, level_at, side_at
from cython.cimports.bourse.core.engine import Engine
from cython.cimports.bourse.core.exports import DepthLevelPtr
from cython.cimports.bourse.core.levels import find_block, key_of, position_in
from cython.cimports.bourse.core.registry import find_instrument
from cython.cimports.bourse.core.structures import BlockPtr, Int64Ptr, LevelPtr, SidePtr
from cython.cimports.bourse.core.words import BUY
from cython.cimports.libc.stdint import int64_t, uint32_t


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def side_of(engine: Engine, instrument_id: uint32_t, side: uint32_t) -> SidePtr:
    """Return one side of a book, NULL when there is no such instrument."""
    books: BooksPtr = cython.address(engine.books)
    slot: uint32_t = find_instrument(books, instrument_id)
    if slot == 0:
        return cython.NULL
    return side_at(books, slot if side == BUY else slot + 1)


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
    price_ticks[0] = key_of(book.side, book.best_key)
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
    books: BooksPtr = cython.address(engine.books)
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
    key = key_of(book.side, price_ticks)
    block = block_at(books, book.blocks[find_block(book, key)])
    position = position_in(block, key)
    if position == block.count or block.keys[position] != key:
        return 0
    found = level_at(books, block.levels[position])
    level.qty_lots = found.qty_lots
    level.order_count = found.order_count
    return 1
