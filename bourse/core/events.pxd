# How an event is written: all 64 bytes at once.

from libc.stdint cimport int64_t, uint32_t, uint64_t

from bourse.core.records cimport Event, EventWindow
from bourse.core.structures cimport Uint64Ptr

cdef extern from * nogil:
    """
    #include <stdint.h>
    #include <string.h>
    /* Two neighbouring words of an event, written by one store. */
    typedef uint64_t bourse_pair __attribute__((vector_size(16)));
    static inline bourse_pair bourse_pair_of(uint64_t first, uint64_t second) {
        return (bourse_pair){first, second};
    }
    static inline bourse_pair bourse_pair_sum(bourse_pair a, bourse_pair b) { return a + b; }
    static inline bourse_pair bourse_pair_read(const void *from) {
        bourse_pair value;
        memcpy(&value, from, 16);
        return value;
    }
    static inline void bourse_pair_write(void *to, bourse_pair value) { memcpy(to, &value, 16); }
    """
    ctypedef struct Pair "bourse_pair":
        pass
    Pair pair_of "bourse_pair_of"(uint64_t first, uint64_t second)
    Pair pair_sum "bourse_pair_sum"(Pair a, Pair b)             # word by word
    Pair pair_read "bourse_pair_read"(const void *from_)        # need not be aligned
    void pair_write "bourse_pair_write"(void *to, Pair value)


ctypedef Event *EventPtr
ctypedef EventWindow *WindowPtr


cdef inline void put_event(
    EventPtr event, uint64_t kind, uint64_t reason, uint64_t side, uint64_t session_id, uint64_t sequence,
    uint64_t client_order_id, uint64_t order_id, int64_t price_ticks, uint64_t qty_lots, uint64_t leaves_lots,
    uint32_t instrument_id,
) noexcept nogil:
    # Write all 64 bytes of an event.
    #
    # Eight words instead of thirteen fields, because a core stores one or two words a cycle. The
    # first word is kind, reason, side, command_kind and session_id, the last one instrument_id and
    # spare: the machine is little-endian.
    cdef Uint64Ptr words = <Uint64Ptr> event
    words[0] = kind | (reason << 8) | (side << 16) | (session_id << 32)
    words[1] = sequence
    words[2] = client_order_id
    words[3] = order_id
    words[4] = <uint64_t> price_ticks
    words[5] = qty_lots
    words[6] = leaves_lots
    words[7] = instrument_id
