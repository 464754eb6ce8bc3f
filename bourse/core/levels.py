"""Makes, splits, joins and removes levels and their blocks; reads what stands in them (levels.pxd).

Compiled only.
"""

from __future__ import annotations

import cython
from cython.cimports.bourse.core.books import BooksPtr, block_at, level_at
from cython.cimports.bourse.core.invariant import invariant
from cython.cimports.bourse.core.pools import PoolPtr
from cython.cimports.bourse.core.structures import (
    BLOCK_LEVELS,
    KEY_MIN,
    BlockPtr,
    Int64Ptr,
    SidePtr,
    Uint32Ptr,
)
from cython.cimports.libc.stdint import int64_t, uint32_t, uint64_t
from cython.cimports.libc.stdlib import realloc
from cython.cimports.libc.string import memcpy, memmove


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def directory_ready(side: SidePtr) -> cython.bint:
    """Make sure that a side can have one more block; false when there is no memory."""
    capacity: uint32_t
    separators: cython.p_void
    blocks: cython.p_void
    if side.block_count < side.block_capacity:
        return True
    capacity = 8 if side.block_capacity == 0 else side.block_capacity * 2
    separators = realloc(side.separators, capacity * cython.sizeof(int64_t))
    if separators == cython.NULL:
        return False
    side.separators = cython.cast(Int64Ptr, separators)
    blocks = realloc(side.blocks, capacity * cython.sizeof(uint32_t))
    if blocks == cython.NULL:
        return False
    side.blocks = cython.cast(Uint32Ptr, blocks)
    side.block_capacity = capacity
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def add_block(books: BooksPtr, side: SidePtr, at: uint32_t) -> BlockPtr:
    """Insert an empty block into a side's directory; memory was made sure of before."""
    pool: PoolPtr = cython.address(books.block_pool)
    slot: uint32_t = pool.free
    block: BlockPtr
    if slot != 0:
        block = block_at(books, slot)
        pool.free = block.next_free
    else:
        slot = cython.cast(uint32_t, pool.next_unused)
        pool.next_unused += 1
        block = block_at(books, slot)
    pool.live_count += 1
    block.slot = slot
    block.count = 0
    invariant(side.block_count < side.block_capacity, b"no room in a side's directory")
    memmove(
        side.separators + at + 1,
        side.separators + at,
        (side.block_count - at) * cython.sizeof(int64_t),
    )
    memmove(
        side.blocks + at + 1, side.blocks + at, (side.block_count - at) * cython.sizeof(uint32_t)
    )
    side.blocks[at] = slot
    side.separators[at] = KEY_MIN
    side.block_count += 1
    side.top = block_at(books, side.blocks[side.block_count - 1])
    return block


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def drop_block(books: BooksPtr, side: SidePtr, at: uint32_t) -> cython.void:
    """Take a block out of a side's directory."""
    block: BlockPtr = block_at(books, side.blocks[at])
    block.next_free = books.block_pool.free
    books.block_pool.free = block.slot
    books.block_pool.live_count -= 1
    side.block_count -= 1
    memmove(
        side.separators + at,
        side.separators + at + 1,
        (side.block_count - at) * cython.sizeof(int64_t),
    )
    memmove(
        side.blocks + at, side.blocks + at + 1, (side.block_count - at) * cython.sizeof(uint32_t)
    )
    side.top = block_at(books, side.blocks[side.block_count - 1])


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def append_entries(block: BlockPtr, source: BlockPtr, first: uint32_t) -> cython.void:
    """Move the entries of a block from `first` on to the end of another."""
    count: uint32_t = source.count - first
    memcpy(
        cython.address(block.keys[block.count]),
        cython.address(source.keys[first]),
        count * cython.sizeof(int64_t),
    )
    memcpy(
        cython.address(block.levels[block.count]),
        cython.address(source.levels[first]),
        count * cython.sizeof(uint32_t),
    )
    block.count += count
    source.count = first


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def insert_level(books: BooksPtr, side: SidePtr, slot: uint32_t, key: int64_t) -> cython.void:
    """Put a level where `found_block` and `found_position` say, or into a side's first block."""
    position: uint32_t = books.found_position
    at: uint32_t = books.found_block
    block: BlockPtr
    upper: BlockPtr
    if side.block_count == 0:
        block = add_block(books, side, 0)
        position = 0
    else:
        block = block_at(books, side.blocks[at])
    if block.count == BLOCK_LEVELS:
        upper = add_block(books, side, at + 1)
        append_entries(upper, block, BLOCK_LEVELS // 2)
        side.separators[at + 1] = upper.keys[0]
        if position > BLOCK_LEVELS // 2:
            block = upper
            position -= BLOCK_LEVELS // 2
    memmove(
        cython.address(block.keys[position + 1]),
        cython.address(block.keys[position]),
        (block.count - position) * cython.sizeof(int64_t),
    )
    memmove(
        cython.address(block.levels[position + 1]),
        cython.address(block.levels[position]),
        (block.count - position) * cython.sizeof(uint32_t),
    )
    block.keys[position] = key
    block.levels[position] = slot
    block.count += 1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def merge_block(books: BooksPtr, side: SidePtr, at: uint32_t) -> cython.void:
    """Join a block that is nearly empty with a neighbour that has room, so that blocks stay few."""
    block: BlockPtr = block_at(books, side.blocks[at])
    other: BlockPtr
    if at + 1 < side.block_count:
        other = block_at(books, side.blocks[at + 1])
        if block.count + other.count <= BLOCK_LEVELS * 3 // 4:
            append_entries(block, other, 0)
            drop_block(books, side, at + 1)
            return
    if at > 0:
        other = block_at(books, side.blocks[at - 1])
        if block.count + other.count <= BLOCK_LEVELS * 3 // 4:
            append_entries(other, block, 0)
            drop_block(books, side, at)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def remove_level(books: BooksPtr, side: SidePtr, key: int64_t) -> cython.void:
    """Take any level off a side; its queue is empty."""
    block: BlockPtr
    at: uint32_t
    position: uint32_t
    if key == side.best_key:
        pop_best(books, side)
        return
    at = find_block(side, key)
    block = block_at(books, side.blocks[at])
    position = position_in(block, key)
    invariant(position < block.count and block.keys[position] == key, b"a level is not on its side")
    block.count -= 1
    side.level_count -= 1
    memmove(
        cython.address(block.keys[position]),
        cython.address(block.keys[position + 1]),
        (block.count - position) * cython.sizeof(int64_t),
    )
    memmove(
        cython.address(block.levels[position]),
        cython.address(block.levels[position + 1]),
        (block.count - position) * cython.sizeof(uint32_t),
    )
    # The best level is still there, so a block that is now empty is not the top one.
    if block.count == 0:
        drop_block(books, side, at)
    elif block.count < BLOCK_LEVELS // 4 and at + 1 < side.block_count:
        merge_block(books, side, at)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def can_fill(books: BooksPtr, side: SidePtr, limit_key: int64_t, qty_lots: uint64_t) -> cython.bint:
    """Tell whether the levels of a side down to a key hold a quantity. O(levels looked at)."""
    at: uint32_t = side.block_count
    block: BlockPtr
    position: uint32_t
    level_lots: uint64_t
    while at != 0:
        at -= 1
        block = block_at(books, side.blocks[at])
        position = block.count
        while position != 0:
            position -= 1
            if block.keys[position] < limit_key:
                return False
            level_lots = level_at(books, block.levels[position]).qty_lots
            if level_lots >= qty_lots:
                return True
            qty_lots -= level_lots
    return False
