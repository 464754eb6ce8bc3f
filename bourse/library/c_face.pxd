# What C hosts call: Cython publishes each function below in c_face.__pyx_capi__, by name and signature.
# bourse/include/bourse.h declares the same for a C compiler and explains it; a test compares the two.

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

cdef extern from *:
    """
    #define BOURSE_TYPES_ONLY
    #include "bourse.h"
    """
    ctypedef struct bourse_engine:
        pass
    ctypedef struct bourse_command:
        uint8_t kind
    ctypedef struct bourse_event:
        pass
    ctypedef struct bourse_level:
        pass


cdef bourse_engine *create() noexcept nogil
cdef int submit(bourse_engine *handle, const bourse_command *command) noexcept nogil
cdef const bourse_event *next_event(bourse_engine *handle) noexcept nogil
cdef int best_bid(bourse_engine *handle, uint32_t instrument_id, int64_t *price_ticks) noexcept nogil
cdef int best_ask(bourse_engine *handle, uint32_t instrument_id, int64_t *price_ticks) noexcept nogil
cdef int depth_at(
    bourse_engine *handle, uint32_t instrument_id, uint8_t side, int64_t price_ticks, bourse_level *level,
) noexcept nogil
cdef uint64_t state_digest(bourse_engine *handle) noexcept nogil
cdef uint64_t event_digest(bourse_engine *handle) noexcept nogil
cdef void destroy(bourse_engine *handle) noexcept nogil
