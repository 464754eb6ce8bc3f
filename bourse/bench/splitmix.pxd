# Random numbers for streams of commands: SplitMix64, so that one seed is one stream on any machine.

from libc.stdint cimport uint64_t


cdef inline uint64_t random_below(uint64_t *state, uint64_t below) noexcept nogil:
    """Return the next random number below a bound; the bias of the remainder is of no matter here."""
    cdef uint64_t word
    state[0] += <uint64_t>0x9E3779B97F4A7C15
    word = state[0]
    word = (word ^ (word >> 30)) * <uint64_t>0xBF58476D1CE4E5B9
    word = (word ^ (word >> 27)) * <uint64_t>0x94D049BB133111EB
    return (word ^ (word >> 31)) % below
