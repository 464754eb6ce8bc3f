# Copies of what the books hold: depth, and all that a snapshot keeps. Between commands.

from libc.stdint cimport uint32_t, uint64_t

from bourse.core.books cimport Books
from bourse.core.records cimport DepthLevel, InstrumentRecord, OrderRecord
from bourse.core.structures cimport BookSide


# Best first; *_levels: how many exist. Returns 0, or 1 when there is no such instrument.
cdef uint32_t export_depth(
    Books *books, uint32_t instrument_id, uint32_t levels_max, DepthLevel *bids, uint32_t *bid_count,
    DepthLevel *asks, uint32_t *ask_count, uint32_t *bid_levels, uint32_t *ask_levels,
) noexcept nogil
cdef uint32_t fill_depth(Books *books, BookSide *side, uint32_t levels_max, DepthLevel *out) noexcept nogil
# For a snapshot. Each returns the count, or 2**64-1 when `capacity` is too small.
cdef uint64_t export_orders(Books *books, OrderRecord *out, uint64_t capacity) noexcept nogil
cdef uint64_t export_sessions(Books *books, uint32_t *out, uint64_t capacity) noexcept nogil
cdef uint64_t export_instruments(Books *books, InstrumentRecord *out, uint64_t capacity) noexcept nogil
cdef int by_order_id(const void *left, const void *right) noexcept nogil    # of order records, for qsort()


ctypedef DepthLevel *DepthLevelPtr
ctypedef OrderRecord *OrderRecordPtr
ctypedef InstrumentRecord *InstrumentRecordPtr


cdef enum:
    COUNTED_MAX = 65536             # orders, or levels, that one look counts: some milliseconds of a cold book


cdef struct Impact:                 # what a mass cancel would hit
    uint64_t orders
    uint64_t lots                   # of open quantity; stops at 2**64 - 1
    uint64_t sessions               # that have live orders
    uint32_t is_least               # 1: there is more than was counted


# Counts the live orders of a session, 0: of everybody. 1 when no such session is known, else 0.
cdef uint32_t export_impact(Books *books, uint32_t session_id, Impact *out) noexcept nogil

# 1 when the instrument is halted, 0 when it is not or is unknown.
cdef uint32_t export_halted(Books *books, uint32_t instrument_id) noexcept nogil


ctypedef Impact *ImpactPtr
