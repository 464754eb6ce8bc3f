# The arithmetic of the two digests (docs/matching.md, section 8), which is the hash of the indexes, too.

from libc.stdint cimport int64_t, uint32_t, uint64_t

cdef extern from * nogil:
    """
    #include <stdint.h>
    /* Multipliers of the digests and of the index's hash: the five primes of XXH64 and the first
       multiplier of SplitMix64 (docs/matching.md). Variables that nothing writes, since the compiler must not know it:
       a multiplication takes them as its operand from memory, where a 64-bit constant costs an instruction more. */
    #define BOURSE_OPERAND __attribute__((visibility("hidden")))
    BOURSE_OPERAND uint64_t BOURSE_P1 = 0x9E3779B185EBCA87ull;
    BOURSE_OPERAND uint64_t BOURSE_P2 = 0xC2B2AE3D27D4EB4Full;
    BOURSE_OPERAND uint64_t BOURSE_P3 = 0x165667B19E3779F9ull;
    BOURSE_OPERAND uint64_t BOURSE_P4 = 0x85EBCA77C2B2AE63ull;
    BOURSE_OPERAND uint64_t BOURSE_P5 = 0x27D4EB2F165667C5ull;
    BOURSE_OPERAND uint64_t BOURSE_M1 = 0xBF58476D1CE4E5B9ull;
    /* GCC puts the two halves of an __int128 product through memory. */
    static inline uint64_t bourse_fold(uint64_t a, uint64_t b) {
    #if defined(__x86_64__)
        uint64_t low, high;
        __asm__("mulq %3" : "=a"(low), "=d"(high) : "0"(a), "rm"(b) : "cc");
        return low ^ high;
    #else
        unsigned __int128 product = (unsigned __int128)a * b;
        return (uint64_t)product ^ (uint64_t)(product >> 64);
    #endif
    }
    """
    const uint64_t P1 "BOURSE_P1"
    const uint64_t P2 "BOURSE_P2"
    const uint64_t P3 "BOURSE_P3"
    const uint64_t P4 "BOURSE_P4"
    const uint64_t P5 "BOURSE_P5"
    const uint64_t M1 "BOURSE_M1"
    uint64_t fold "bourse_fold"(uint64_t a, uint64_t b)     # both halves of the product, xored


cdef inline uint64_t place_word(uint32_t instrument_id, uint32_t side, int64_t price_ticks) noexcept nogil:
    # The part of an order's term that all orders of a level share.
    return (<uint64_t> instrument_id * 4 + side) * P5 + <uint64_t> price_ticks * P3


cdef inline uint64_t order_term(
    uint64_t order_id, uint64_t priority, uint64_t leaves_lots, uint64_t place,
) noexcept nogil:
    # What one live order adds to the state digest.
    return fold(order_id * P1 + priority * P2 + leaves_lots * P4 + place, M1)


cdef inline uint64_t halted_term(uint32_t instrument_id) noexcept nogil:
    # What a halted instrument adds to the state digest: as an order of no side, with nothing else to it.
    return order_term(0, 0, 0, place_word(instrument_id, 3, 0))


cdef inline uint64_t link(uint64_t digest, uint64_t word) noexcept nogil:
    # Return the event digest after one more event's word.
    digest = digest ^ word
    return ((digest << 29) | (digest >> 35)) * P1 + P5


cdef inline uint64_t chain(
    uint64_t digest, uint64_t kind, uint64_t reason, uint64_t side, uint64_t instrument_id, uint64_t order_id,
    int64_t price_ticks, uint64_t qty_lots,
) noexcept nogil:
    # Return the event digest after one more event.
    #
    # Only the last two lines depend on the digest before: events' multiplications overlap.
    cdef uint64_t word = kind | (reason << 8) | (side << 16) | (instrument_id << 32)
    return link(
        digest,
        word * P1 + order_id * P2 + <uint64_t> price_ticks * P3 + qty_lots * P4,
    )
