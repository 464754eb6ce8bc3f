# Who may trade, and what: sessions and instruments by their ids.

from libc.stdint cimport uint32_t, uint64_t

from bourse.core.books cimport Books
from bourse.core.indexes cimport index_get, index_remove
from bourse.core.structures cimport SessionPtr


# registry.py
cdef uint32_t open_session(Books *books, uint32_t session_id) noexcept nogil
cdef bint symbol_is_valid(uint64_t low, uint64_t high) noexcept nogil
cdef bint define_instrument(
    Books *books, uint32_t instrument_id, uint64_t symbol_low, uint64_t symbol_high,
) noexcept nogil
cdef void set_halted(Books *books, uint32_t slot, bint is_halted) noexcept nogil


cdef inline uint32_t find_session(Books *books, uint32_t session_id) noexcept nogil:
    # Return the slot of a session that is open or has live orders, 0 when none.
    return index_get(&books.by_session_id, session_id)


cdef inline uint32_t find_instrument(Books *books, uint32_t instrument_id) noexcept nogil:
    # Return the slot of an instrument's buy side, 0 when none.
    return index_get(&books.by_instrument_id, instrument_id)


cdef inline void free_session_if_over(Books *books, uint32_t slot, SessionPtr session) noexcept nogil:
    # Forget a session that is closed and has no live order.
    if session.head != 0 or session.is_open:
        return
    index_remove(&books.by_session_id, session.session_id, slot)
    session.session_id = 0
    session.head = books.session_pool.free
    books.session_pool.free = slot
    books.session_pool.live_count -= 1
    books.state.session_count -= 1
