# Everything that an engine keeps, in one struct: counters, pools and indexes.

from libc.stdint cimport uint32_t, uint64_t

from bourse.core.indexes cimport Index, OrderTable
from bourse.core.pools cimport Pool
from bourse.core.records cimport EngineState
from bourse.core.structures cimport BlockPtr, LevelPtr, OrderPtr, SessionPtr, SidePtr


cdef struct Books:
    EngineState state           # every counter, with the running digests
    Pool order_pool
    Pool level_pool
    Pool block_pool
    Pool session_pool
    Pool side_pool
    Index by_client             # (session, client_order_id) -> order
    OrderTable by_order_id
    Index by_session_id
    Index by_instrument_id      # -> the instrument's buy side
    uint64_t multiplier         # of the hash of by_client's keys, odd
    uint64_t sure_count         # orders for which there is room without looking
    # Where find_level() ended: a level, or where to insert it.
    uint32_t found_level
    uint32_t found_block
    uint32_t found_position


ctypedef Books *BooksPtr
ctypedef EngineState *EngineStatePtr


# books.py
cdef bint books_open(Books *books) noexcept nogil       # false when there is no memory
cdef bint books_expect(Books *books, uint64_t orders) noexcept nogil  # takes memory for them; false when there is none
cdef void books_close(Books *books) noexcept nogil
cdef uint64_t books_bytes(Books *books) noexcept nogil  # address space of pools and indexes
cdef bint make_ready(Books *books) noexcept nogil


cdef inline OrderPtr order_at(Books *books, uint32_t slot) noexcept nogil:
    # Return the order in a slot.
    return <OrderPtr> books.order_pool.base + slot


cdef inline LevelPtr level_at(Books *books, uint32_t slot) noexcept nogil:
    # Return the level in a slot.
    return <LevelPtr> books.level_pool.base + slot


cdef inline BlockPtr block_at(Books *books, uint32_t slot) noexcept nogil:
    # Return the block in a slot.
    return <BlockPtr> books.block_pool.base + slot


cdef inline SessionPtr session_at(Books *books, uint32_t slot) noexcept nogil:
    # Return the session in a slot.
    return <SessionPtr> books.session_pool.base + slot


cdef inline SidePtr side_at(Books *books, uint32_t slot) noexcept nogil:
    # Return the side in a slot.
    return <SidePtr> books.side_pool.base + slot
