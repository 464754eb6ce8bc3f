# C face of stages.py: stamps on the gateway's thread.

from libc.stdint cimport int64_t, uint64_t

from bourse.core.histogram cimport Histogram
from bourse.core.records cimport Event


cdef struct Run:                    # the commands of one socket read
    uint64_t first                  # position in the command ring
    uint64_t count
    int64_t received_ns             # monotonic
    int64_t decoded_ns
    int64_t wall_ns


cdef struct Sample:                 # one command of this turn that is measured
    int64_t received_ns
    int64_t decoded_ns
    int64_t dequeued_ns
    int64_t matched_ns
    int64_t durable_ns


cdef class StageRecorder:
    cdef Run *runs
    cdef uint64_t run_head
    cdef uint64_t run_tail
    cdef Sample *samples
    cdef int sample_count
    cdef uint64_t heads_in_turn
    cdef uint64_t passed_position
    cdef Histogram decoded
    cdef Histogram dequeued
    cdef Histogram matched
    cdef Histogram durable
    cdef Histogram encoded
    cdef Histogram written
    cdef Histogram total
    cdef readonly list histograms
    cdef int tick

    cdef void note_read(self, uint64_t first, uint64_t count, int64_t received_ns, int64_t wall_ns) noexcept nogil
    cdef void begin_turn(self) noexcept nogil
    cdef int64_t pass_command(self, const Event *head, int64_t durable_ns) noexcept nogil
    cdef void pass_read(self) noexcept nogil
    cdef void end_turn(self, int64_t encoded_ns) noexcept nogil
