# C face of histogram.py: record without the GIL.

from libc.stdint cimport int64_t, uint64_t

cdef extern from * nogil:
    """
    static inline int bourse_clz64(uint64_t v) { return __builtin_clzll(v); }
    """
    int clz64 "bourse_clz64"(uint64_t value)


cdef class Histogram:
    cdef uint64_t *current          # counts since the last rotate()
    cdef uint64_t *previous         # counts of the period before
    cdef uint64_t *closed           # everything older
    cdef uint64_t max_current
    cdef uint64_t max_previous
    cdef uint64_t max_closed

    cdef inline void record(self, int64_t value_ns, uint64_t count) noexcept nogil:
        # Buckets of HdrHistogram(1, 60 s, 3 digits): exact below 2048, then 1024 steps an octave.
        cdef uint64_t value = <uint64_t> value_ns if value_ns > 0 else 0
        cdef int bucket
        if value > 60000000000ULL:
            value = 60000000000ULL
        bucket = 53 - clz64(value | 2047)
        self.current[(bucket << 10) + <int> (value >> bucket)] += count
        if value > self.max_current:
            self.max_current = value

    cpdef void rotate(self) noexcept nogil
