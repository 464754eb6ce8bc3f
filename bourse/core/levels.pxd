# The price levels of one side: found by key, made, taken away.
#
# A side's levels are sorted by key = price for bids, ~price (that is -price - 1) for asks, so that on both sides a
# higher key is a better price, the best is last, and what happens at the touch moves nothing. They stand in blocks
# of 128, which a directory finds (structures.pxd). What is done at the touch is here, the rest in levels.py.

from libc.stdint cimport int64_t, uint32_t, uint64_t

from bourse.core.books cimport Books, block_at, level_at, side_at
from bourse.core.pools cimport PoolPtr, pool_ready
from bourse.core.structures cimport BLOCK_LEVELS, BlockPtr, LevelPtr, SidePtr


# levels.py
cdef bint directory_ready(SidePtr side) noexcept nogil
cdef BlockPtr add_block(Books *books, SidePtr side, uint32_t at) noexcept nogil
cdef void drop_block(Books *books, SidePtr side, uint32_t at) noexcept nogil
cdef void append_entries(BlockPtr block, BlockPtr source, uint32_t first) noexcept nogil
cdef void insert_level(Books *books, SidePtr side, uint32_t slot, int64_t key) noexcept nogil
cdef void merge_block(Books *books, SidePtr side, uint32_t at) noexcept nogil
cdef void remove_level(Books *books, SidePtr side, int64_t key) noexcept nogil
cdef bint can_fill(Books *books, SidePtr side, int64_t limit_key, uint64_t qty_lots) noexcept nogil


cdef inline int64_t key_of(uint32_t side, int64_t price_ticks) noexcept nogil:
    # Price to key, and key to price: higher keys are better prices on both sides.
    #
    # The same price for BUY (1), all bits turned over for SELL (2), without a branch to guess.
    return price_ticks ^ (1 - <int64_t> side)


cdef inline uint32_t find_block(SidePtr side, int64_t key) noexcept nogil:
    # Return the position of the one block that may hold a key; there is at least one block.
    cdef uint32_t low = 0
    cdef uint32_t high = side.block_count - 1
    cdef uint32_t middle
    if high == 0 or key >= side.separators[high]:
        return high
    # Block `low` starts at or before the key, block `high` after it.
    while high - low > 1:
        middle = low + (high - low) // 2
        if key >= side.separators[middle]:
            low = middle
        else:
            high = middle
    return low


cdef inline uint32_t position_in(BlockPtr block, int64_t key) noexcept nogil:
    # Return the position of the first level of a block whose key is not lower, or its count.
    #
    # Keys are distinct whole numbers, so a key that is `distance` below the last one stands at most
    # as many places before it, and exactly there where every price has its level, as near the touch.
    # Else the rest is halved without a branch to guess.
    cdef uint32_t count = block.count
    cdef uint32_t low = 0
    cdef uint32_t half
    cdef uint64_t distance
    if count == 0 or key > block.keys[count - 1]:
        return count
    distance = <uint64_t> block.keys[count - 1] - <uint64_t> key
    if distance < count:
        low = count - 1 - <uint32_t> distance
    if block.keys[low] >= key:
        return low
    count -= low
    while count > 1:
        half = count // 2
        low += half * <uint32_t> (block.keys[low + half - 1] < key)
        count -= half
    return low + <uint32_t> (block.keys[low] < key)


cdef inline uint32_t search_level(Books *books, SidePtr side, int64_t key) noexcept nogil:
    # Return the level of a key behind the touch, 0 when there is none; sets `found_*`.
    cdef BlockPtr block
    cdef uint32_t position
    books.found_level = 0
    books.found_block = find_block(side, key)
    block = (
        side.top
        if books.found_block == side.block_count - 1
        else block_at(books, side.blocks[books.found_block])
    )
    position = position_in(block, key)
    books.found_position = position
    if position < block.count and block.keys[position] == key:
        books.found_level = block.levels[position]
    return books.found_level


cdef inline uint32_t find_level(Books *books, SidePtr side, int64_t key) noexcept nogil:
    # Return the level of a key, 0 when there is none.
    #
    # `found_*` say where it is or would be, unless it is the best level or would be.
    if side.best_level != 0 and key < side.best_key:
        return search_level(books, side, key)
    books.found_level = 0
    if side.best_level != 0 and key == side.best_key:
        books.found_level = side.best_level
    return books.found_level


cdef inline uint32_t add_level(Books *books, uint32_t side_slot, int64_t key) noexcept nogil:
    # Make the level that find_level() has just not found; memory was made sure of before.
    #
    # Its queue is begin_queue()'s to make.
    cdef SidePtr side = side_at(books, side_slot)
    cdef PoolPtr pool = &books.level_pool
    cdef uint32_t slot = pool.free
    cdef LevelPtr level
    cdef BlockPtr block = side.top
    cdef uint32_t count
    if slot != 0:
        level = level_at(books, slot)
        pool.free = level.head
    else:
        slot = <uint32_t> pool.next_unused
        pool.next_unused += 1
        level = level_at(books, slot)
    pool.live_count += 1
    level.key = key
    level.side = side_slot
    side.level_count += 1
    if side.best_level != 0 and key < side.best_key:
        insert_level(books, side, slot, key)
        return slot
    side.best_key = key
    side.best_level = slot
    if block == NULL or block.count == BLOCK_LEVELS:
        books.found_block = side.block_count - 1
        books.found_position = BLOCK_LEVELS
        insert_level(books, side, slot, key)
        return slot
    count = block.count
    block.keys[count] = key
    block.levels[count] = slot
    block.count = count + 1
    return slot


cdef inline void free_level(Books *books, uint32_t slot, LevelPtr level) noexcept nogil:
    # Give a level that is on no side any more back to the pool.
    level.head = books.level_pool.free
    books.level_pool.free = slot
    books.level_pool.live_count -= 1


cdef inline void pop_best(Books *books, SidePtr side) noexcept nogil:
    # Take the best level off a side; its queue is empty.
    cdef BlockPtr block = side.top
    block.count -= 1
    side.level_count -= 1
    if block.count == 0:
        # The last block stays, so that a side between empty and one level does no work for it.
        if side.block_count == 1:
            side.best_level = 0
            return
        drop_block(books, side, side.block_count - 1)
        block = side.top
    side.best_key = block.keys[block.count - 1]
    side.best_level = block.levels[block.count - 1]


cdef inline bint crosses(SidePtr side, int64_t limit_key) noexcept nogil:
    # Tell whether the best price of a side is marketable.
    return side.best_level != 0 and side.best_key >= limit_key


cdef inline bint level_ready(Books *books, SidePtr side) noexcept nogil:
    # Make sure that a side can have one more level; false when there is no memory.
    if books.sure_count == 0 and not (
        pool_ready(&books.level_pool)
        and pool_ready(&books.block_pool)
    ):
        return False
    return side.block_count < side.block_capacity or directory_ready(side)
