# C face of reads.py: looking at a book between two commands.

from libc.stdint cimport int64_t, uint32_t

from bourse.core.engine cimport Engine
from bourse.core.records cimport DepthLevel


# 1: written to *price_ticks; 0: the side is empty; -1: there is no such instrument.
cdef int best_price(
    Engine engine, uint32_t instrument_id, uint32_t side, int64_t *price_ticks,
) noexcept nogil
# 1: written to *level; 0: nobody rests at that price, *level says so; -1: there is no such instrument.
cdef int level_at_price(
    Engine engine, uint32_t instrument_id, uint32_t side, int64_t price_ticks, DepthLevel *level,
) noexcept nogil
