# What fills the pools: the C layout of orders, levels, blocks of levels, sides of books, and sessions.

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t

cdef extern from * nogil:
    """
    #include <stdint.h>
    __attribute__((unused)) static const int64_t BOURSE_KEY_MIN = INT64_MIN;
    """
    const int64_t KEY_MIN "BOURSE_KEY_MIN"

cdef enum:
    BLOCK_LEVELS = 128


cdef struct Order:                  # 64 bytes, one cache line: a live order, or a free slot
    uint64_t client_order_id        # this and the next one are neighbours here and in an Event, and copied at once
    uint64_t order_id
    uint64_t leaves_lots            # open quantity; 0: the slot is free
    uint64_t qty_lots               # total quantity
    uint64_t place                  # priority << 8 | order type; 2**56 priorities last 200 years at 10 million a second
    uint32_t level
    uint32_t next                   # younger order of the level's queue; of a free slot: the next free one
    uint32_t prev                   # older order of the queue
    uint32_t session
    uint32_t session_next           # the session's orders, ascending order_id
    uint32_t session_prev


cdef struct Level:                  # 32 bytes: the queue at one price of one side; never empty between commands
    int64_t key                     # price as BookSide.best_key has it
    uint64_t qty_lots               # sum of leaves_lots
    uint32_t head                   # oldest order; of a free slot: the next free one
    uint32_t tail                   # youngest order
    uint32_t order_count
    uint32_t side                   # slot of the BookSide


cdef struct Block:                  # 1,600 bytes: up to 128 levels in ascending order of key
    uint32_t count
    uint32_t slot                   # its own
    uint32_t next_free
    uint32_t spare[13]
    int64_t keys[128]
    uint32_t levels[128]


# One side of one book. Its levels are sorted by key = price for bids, ~price (that is -price - 1) for asks, so that on
# both sides a higher key is a better price, the best is last, and what happens at the touch moves nothing.
# blocks[0 .. block_count-1] hold the levels, a side keeps its last block when it is empty; separators[i] <= every key of block i, and > every key before (i > 0).
cdef struct BookSide:               # 64 bytes; slot 2n is instrument n's buy side, 2n+1 its sell side
    int64_t best_key                # meaningful if best_level is not 0
    uint32_t best_level
    uint32_t level_count
    Block *top                      # the last block, NULL before the first level
    int64_t *separators
    uint32_t *blocks
    uint32_t block_count
    uint32_t block_capacity
    uint32_t instrument_id
    uint8_t side                    # BUY or SELL
    uint8_t is_halted               # cancels only; the same on both sides of a book
    uint16_t spare
    uint64_t symbol                 # buy side: first 8 bytes; sell side: last 8 bytes


cdef struct Session:                # 32 bytes: a session that is open, or closed with live orders
    uint32_t session_id             # 0: the slot is free
    uint32_t is_open
    uint32_t head                   # oldest order; of a free slot: the next free one
    uint32_t tail
    uint64_t owner                  # session_id << 32, as it stands in the first word of an Event
    uint64_t salt                   # its part of the hash of its orders' keys


ctypedef Order *OrderPtr
ctypedef Level *LevelPtr
ctypedef Block *BlockPtr
ctypedef BookSide *SidePtr
ctypedef Session *SessionPtr
ctypedef uint32_t *Uint32Ptr
ctypedef uint64_t *Uint64Ptr
ctypedef int64_t *Int64Ptr
ctypedef const void *ConstVoidPtr
