# A taker, and how it trades with the other side of its book.

from libc.stdint cimport int64_t, uint32_t, uint64_t

from bourse.core.books cimport Books, side_at
from bourse.core.levels cimport crosses
from bourse.core.records cimport Event, EventWindow


cdef struct Taker:
    uint64_t open_lots          # what it still wants
    int64_t limit_key           # worst key of the other side that it may trade with
    uint32_t own_side
    bint is_stashed
    Event stash                 # the end of a maker that did not fit behind its trade


ctypedef Taker *TakerPtr


# matching.py
cdef bint trade(Books *books, Taker *taker, EventWindow *window) noexcept nogil


cdef inline bint match(Books *books, Taker *taker, EventWindow *window) noexcept nogil:
    # Trade a taker with the other side as far as its price allows; false: the window is full.
    if taker.open_lots == 0 or not crosses(side_at(books, taker.own_side ^ 1), taker.limit_key):
        return True
    return trade(books, taker, window)
