# What the engine keeps in memory: the C layout of orders, levels, blocks, books, sessions and indexes.
#
# Everything refers to everything by a slot: a 32-bit position in a pool. Slot 0 is never given out and
# means none, so zeroed memory is empty memory. Slots are reused and never leave the engine.

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from bourse.core.records cimport (
    Command, DepthLevel, EngineState, Event, EventWindow, InstrumentRecord, OrderRecord,
)

cdef extern from * nogil:
    """
    #include <stdint.h>
    enum {
        BOURSE_BLOCK_LEVELS = 128,
    };
    static const uint32_t BOURSE_TOMBSTONE = 0xFFFFFFFFu;
    static const uint64_t BOURSE_ALL_ONES = 0xFFFFFFFFFFFFFFFFull;
    static const int64_t BOURSE_KEY_MIN = INT64_MIN;
    /* Multipliers of the digests and of the index's hash: the five primes of XXH64 and the first
       multiplier of SplitMix64 (docs/matching.md). Variables that nothing writes, since the compiler must not know it:
       a multiplication takes them as its operand from memory, where a 64-bit constant costs an instruction more. */
    #define BOURSE_OPERAND __attribute__((visibility("hidden")))
    BOURSE_OPERAND uint64_t BOURSE_P1 = 0x9E3779B185EBCA87ull;
    BOURSE_OPERAND uint64_t BOURSE_P2 = 0xC2B2AE3D27D4EB4Full;
    BOURSE_OPERAND uint64_t BOURSE_P3 = 0x165667B19E3779F9ull;
    BOURSE_OPERAND uint64_t BOURSE_P4 = 0x85EBCA77C2B2AE63ull;
    BOURSE_OPERAND uint64_t BOURSE_P5 = 0x27D4EB2F165667C5ull;
    BOURSE_OPERAND uint64_t BOURSE_M1 = 0xBF58476D1CE4E5B9ull;
    static inline uint64_t bourse_fold(uint64_t a, uint64_t b) {
        unsigned __int128 product = (unsigned __int128)a * b;
        return (uint64_t)product ^ (uint64_t)(product >> 64);
    }
    """
    enum:
        BLOCK_LEVELS "BOURSE_BLOCK_LEVELS"
    const uint32_t TOMBSTONE "BOURSE_TOMBSTONE"     # an entry of an index that is being emptied
    const uint64_t ALL_ONES "BOURSE_ALL_ONES"
    const int64_t KEY_MIN "BOURSE_KEY_MIN"
    const uint64_t P1 "BOURSE_P1"
    const uint64_t P2 "BOURSE_P2"
    const uint64_t P3 "BOURSE_P3"
    const uint64_t P4 "BOURSE_P4"
    const uint64_t P5 "BOURSE_P5"
    const uint64_t M1 "BOURSE_M1"
    uint64_t fold "bourse_fold"(uint64_t a, uint64_t b)     # both halves of the product, xored


# The values of domain.py as compile-time constants; engine.py compares them with it when it is imported.
cdef enum:
    BUY = 1
    SELL = 2

    LIMIT = 1
    MARKET = 2
    IOC = 3
    POST_ONLY = 4
    FOK = 5

    NEW_ORDER = 1
    CANCEL = 2
    REPLACE = 3
    SESSION_OPEN = 5
    SESSION_END = 6
    INSTRUMENT_DEFINE = 7
    SNAPSHOT_MARK = 10
    FIRST_READ = 128                # kinds from here are not logged and never reach execute()

    BY_ORDER_ID = 1
    CANCEL_ORDERS = 2

    ACCEPTED = 1
    TRADE = 2
    DONE = 3
    REPLACED = 4
    HEAD = 16

    OPERATOR = 1

    FILLED = 1
    CANCELLED = 2
    EXPIRED = 3
    NO_LIQUIDITY = 4
    OPERATOR_CANCELLED = 5
    SESSION_ENDED = 6
    REPLACED_TO_FILLED = 7
    ZERO_QUANTITY = 32
    DUPLICATE_ORDER_ID = 33
    POST_ONLY_WOULD_CROSS = 34
    FOK_CANNOT_FILL = 35
    UNKNOWN_ORDER = 36
    UNKNOWN_INSTRUMENT = 37
    UNKNOWN_SESSION = 38
    QUANTITY_OVERFLOW = 39
    OUT_OF_MEMORY = 40
    BAD_COMMAND = 41
    DUPLICATE_INSTRUMENT = 42
    DUPLICATE_SESSION = 43


# What is left to do of the command being executed; only seen from outside when the window was too small.
cdef enum:
    PHASE_IDLE = 0
    PHASE_HEAD = 1                  # nothing written yet
    PHASE_REJECTED = 2              # NEW_ORDER: the Done that says why
    PHASE_ACCEPTED = 3
    PHASE_MATCH = 4
    PHASE_CANCEL = 5                # the one order in `target`
    PHASE_CANCEL_SESSION = 6        # all orders of the session in `target`
    PHASE_REPLACE = 7               # the order in `target`: what it was is still in the book


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
    uint32_t side                   # BUY or SELL
    uint64_t symbol                 # buy side: first 8 bytes; sell side: last 8 bytes


cdef struct Session:                # 32 bytes: a session that is open, or closed with live orders
    uint32_t session_id             # 0: the slot is free
    uint32_t is_open
    uint32_t head                   # oldest order; of a free slot: the next free one
    uint32_t tail
    uint64_t owner                  # session_id << 32, as it stands in the first word of an Event
    uint64_t salt                   # its part of the hash of its orders' keys


cdef struct Entry:                  # 8 bytes: one place of an index
    uint32_t tag                    # hash of the key; its low bits are the home position
    uint32_t slot                   # 0: empty


# Memory of a table that has been emptied. It is given back piece by piece, because the kernel takes its time for each page.
cdef struct Refuse:
    void *base
    uint64_t size_bytes             # 0: none


# Open addressing with linear probing: entries stand in the order of their homes ("Robin Hood": Celis, Larson and Munro,
# 1985), so a search ends early and a removal moves back only what is not at home. It grows step by step: `old` is emptied
# a few places an insertion while both are searched, so no command pays for the whole table.
cdef struct Index:
    Entry *entries
    uint64_t mask                   # count of places - 1
    uint64_t count                  # keys in entries and old together; of by_client only brought up to date when room is made
    Entry *old                      # NULL when nothing is being moved
    uint64_t old_mask
    uint64_t cursor                 # positions of old below it are moved
    Refuse refuse


# order_id -> order. An order's home is the low bits of its id. Ids are consecutive, so orders that live at the same time
# rarely share a home; those that find theirs taken are in `strays`. Grows step by step like an Index.
cdef struct OrderTable:
    uint32_t *slots                 # 0: empty
    uint64_t mask
    uint32_t *old_slots             # NULL when nothing is being moved
    uint64_t old_mask
    uint64_t cursor                 # positions of old_slots below it are moved
    Refuse refuse
    Index strays


# A reserved range of addresses, usable up to `capacity` slots.
cdef struct Pool:
    void *base
    uint64_t item_bytes
    uint64_t chunk_slots            # grows by as many
    uint64_t capacity
    uint64_t reserved_bytes
    uint64_t slots_max              # slots that may ever be used
    uint64_t next_unused            # never given out yet
    uint64_t live_count             # of orders: EngineState.live_order_count
    uint32_t free                   # given back, 0 when none
    uint32_t spare


ctypedef Order *OrderPtr
ctypedef Level *LevelPtr
ctypedef Block *BlockPtr
ctypedef BookSide *SidePtr
ctypedef Session *SessionPtr
ctypedef Entry *EntryPtr
ctypedef Index *IndexPtr
ctypedef Pool *PoolPtr
ctypedef OrderTable *OrderTablePtr
ctypedef Refuse *RefusePtr
ctypedef const Command *CommandPtr
ctypedef Event *EventPtr
ctypedef EventWindow *WindowPtr
ctypedef DepthLevel *DepthLevelPtr
ctypedef OrderRecord *OrderRecordPtr
ctypedef InstrumentRecord *InstrumentRecordPtr
ctypedef EngineState *EngineStatePtr
ctypedef uint32_t *Uint32Ptr
ctypedef uint64_t *Uint64Ptr
ctypedef int64_t *Int64Ptr
ctypedef const void *ConstVoidPtr
