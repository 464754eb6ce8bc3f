# C face of results.py: what the engine fills in.

cimport cython
from libc.stdint cimport uint8_t, uint64_t

from bourse.core.records cimport Event


@cython.final
@cython.freelist(256)
cdef class Fill:
    cdef Event event                # the Trade


@cython.final
@cython.no_gc
@cython.freelist(64)
cdef class Outcome:
    cdef uint8_t reason_number      # why it was refused, 0: accepted
    cdef uint8_t end_number         # why the order ended with this command, 0: it did not
    cdef uint64_t order_number
    cdef uint64_t client_number
    cdef uint64_t open_lots         # what is in the book now
    cdef uint64_t lost_lots         # what ended with the order
    cdef uint64_t traded_lots
    cdef tuple trades
