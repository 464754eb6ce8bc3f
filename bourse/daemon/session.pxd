# C face of session.py: what the gateway and its outbound side see of a connection.

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t


cdef class Session:
    cdef object owner               # the gateway: on_made, on_bytes, on_end_of_input, on_lost, ...
    cdef object transport           # None before it is made and after it is lost
    cdef object read_view           # where the next read goes: the gateway's buffer
    cdef readonly uint32_t session_id
    cdef int fd
    cdef readonly str peer
    # States, in the order in which they are left.
    cdef bint closing               # no more is read or decoded
    cdef bint end_sent              # SESSION_END is on its way
    cdef bint end_passed            # SESSION_END has passed the gate
    cdef int64_t owed_orders        # Dones that are still to come with it
    cdef int64_t lingering_ns       # monotonic time since when our side is closed; 0 when it is not
    cdef bint input_ended           # the peer will send no more
    # Why it is not read from.
    cdef bint read_paused           # it is not
    cdef bint write_paused          # the peer has not taken what is queued
    cdef bytes stalled              # received but not decoded: the command ring was full
    cdef int64_t stalled_ns         # monotonic time of the read that it came with
    # Less than a frame, waiting for its end.
    cdef uint8_t residual[64]
    cdef int residual_bytes
    cdef int64_t residual_ns        # monotonic time since when it could have come; 0 when there is none
    # Encoded in this turn.
    cdef bint dirty
    cdef uint8_t *out
    cdef size_t out_bytes
    cdef size_t out_capacity
    cdef bint queued                # the transport holds bytes that the socket did not take
    # Counters for people.
    cdef uint64_t commands
    cdef uint64_t events
    cdef uint64_t rejects
    cdef int64_t open_orders
    cdef uint64_t bytes_in
    cdef uint64_t bytes_out
    cdef int64_t connected_ns       # wall clock
    cdef int64_t active_ns          # wall clock of the last read
    # Is the peer taking what is queued?
    cdef uint64_t drained_bytes
    cdef int64_t stuck_ns           # monotonic time since when it takes nothing; 0 when it does

    cdef uint8_t *room(self) noexcept
    cdef uint64_t send(self) except? 0xFFFFFFFF
    cdef close_output(self)
    cdef void drop_output(self) noexcept
    cpdef pause_reading(self)
    cpdef resume_reading(self)


cdef class SessionTable:
    cdef dict by_id
    cdef void **cache

    cdef Session find(self, uint32_t session_id)
    cdef add(self, Session session)
    cdef bint remove(self, Session session)
