# C face of engine.py: what other compiled modules may call. Fields are declared here only.

cimport cython
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from bourse.core.records cimport (
    Command, DepthLevel, EngineState, Event, EventWindow, InstrumentRecord, OrderRecord,
)
from bourse.core.structures cimport Index, OrderTable, Pool


@cython.final
cdef class Engine:
    cdef EngineState state          # every counter, with the running digests

    cdef Pool order_pool
    cdef Pool level_pool
    cdef Pool block_pool
    cdef Pool session_pool
    cdef Pool side_pool
    cdef Index by_client            # (session, client_order_id) -> order
    cdef OrderTable by_order_id
    cdef Index by_session_id
    cdef Index by_instrument_id     # -> the instrument's buy side
    cdef uint64_t multiplier        # of the hash of by_client's keys, odd
    cdef uint64_t sure_count        # orders for which there is room without looking

    # The command being executed.
    cdef Command command            # a copy, made only when the window was too small
    cdef Event stash                # the end of a maker that did not fit behind its trade
    cdef bint is_stashed
    cdef uint32_t phase
    cdef uint32_t reason
    cdef uint32_t target            # order or session to cancel; session of a new order
    cdef uint32_t own_side          # of a new order
    cdef uint64_t open_lots         # of a new order
    cdef int64_t limit_key          # worst key of the other side that a new order may trade with
    cdef uint64_t head_order_id
    cdef uint32_t tag               # of a new order's key in by_client
    # Where find_level() ended: a level, or where to insert it.
    cdef uint32_t found_level
    cdef uint32_t found_block
    cdef uint32_t found_position

    # Execute one logged command (kind < 128). True: finished. False: the window is full; call resume() with more
    # room until it says True. The window needs at least one free slot for progress.
    cdef bint execute(self, const Command *command, EventWindow *window) noexcept nogil
    cdef bint resume(self, EventWindow *window) noexcept nogil
    # Best first; *_levels: how many exist. Returns 0, or 1 when there is no such instrument.
    cdef uint32_t depth(
        self, uint32_t instrument_id, uint32_t levels_max, DepthLevel *bids, uint32_t *bid_count,
        DepthLevel *asks, uint32_t *ask_count, uint32_t *bid_levels, uint32_t *ask_levels,
    ) noexcept nogil
    # Copies for a snapshot, between commands. Each returns the count, or 2**64-1 when `capacity` is too small.
    cdef uint64_t export_orders(self, OrderRecord *out, uint64_t capacity) noexcept nogil
    cdef uint64_t export_sessions(self, uint32_t *out, uint64_t capacity) noexcept nogil
    cdef uint64_t export_instruments(self, InstrumentRecord *out, uint64_t capacity) noexcept nogil


# For audit.py and restoring.py: 0 means none.
cdef uint32_t find_client(Engine engine, uint32_t session, uint64_t client_order_id) noexcept nogil
cdef uint32_t find_order(Engine engine, uint64_t order_id) noexcept nogil
cdef uint32_t find_session(Engine engine, uint32_t session_id) noexcept nogil
cdef uint32_t find_instrument(Engine engine, uint32_t instrument_id) noexcept nogil
# For restoring.py.
cdef uint32_t open_session(Engine engine, uint32_t session_id) noexcept nogil
cdef bint symbol_is_valid(uint64_t low, uint64_t high) noexcept nogil
cdef bint define_instrument(Engine engine, uint32_t instrument_id, uint64_t symbol_low, uint64_t symbol_high) noexcept nogil
cdef uint32_t put_back(Engine engine, uint32_t side_slot, uint32_t session_slot, OrderRecord *record) noexcept nogil
cdef int by_order_id(const void *left, const void *right) noexcept nogil
