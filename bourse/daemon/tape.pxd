# C face of tape.py.

from libc.stdint cimport int64_t, uint64_t


cdef struct TapeTrade:
    uint64_t sequence
    int64_t price_ticks
    uint64_t qty_lots
    uint64_t taker_side
    uint64_t taker_order_id
    uint64_t maker_order_id
    int64_t received_ns             # wall clock of the taker's command


cdef class TradeTape:
    cdef TapeTrade *trades
    cdef uint64_t count

    cdef TapeTrade *append(self) noexcept nogil
