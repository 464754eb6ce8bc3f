# C face of codec.py: frames to commands and events to frames, without the GIL.

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from bourse.core.records cimport Command, Event

# What decode_request() returns when it took no frame. Positive: the frame's bytes.
cdef enum:
    DECODE_INCOMPLETE = 0
    DECODE_BAD_LENGTH = -1
    DECODE_BAD_VERSION = -2
    DECODE_BAD_TYPE = -3
    DECODE_BAD_SIDE = -4
    DECODE_BAD_KIND = -5

cdef int decode_request(const uint8_t *data, uint64_t size_bytes, Command *command) noexcept nogil
cdef int encode_accepted(uint8_t *out, uint64_t client_order_id, const Event *event) noexcept nogil
cdef int encode_trade(uint8_t *out, uint64_t taker_id, uint64_t maker_id, const Event *event) noexcept nogil
cdef int encode_done(uint8_t *out, uint64_t client_order_id, const Event *event) noexcept nogil
