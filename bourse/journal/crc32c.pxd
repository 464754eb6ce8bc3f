# C face of crc32c.py: extend a CRC-32C without the GIL.

from libc.stdint cimport uint8_t, uint32_t, uint64_t


cdef extern from * nogil:
    """
    #include <stdint.h>
    #include <string.h>
    #if defined(__x86_64__)
    #include <nmmintrin.h>
    __attribute__((unused)) static int bourse_crc32c_has_instruction(void) {
        __builtin_cpu_init();
        return __builtin_cpu_supports("sse4.2") != 0;
    }
    /* The target attribute lets one function use SSE4.2 in a build for any x86-64. */
    __attribute__((target("sse4.2"), unused))
    static uint32_t bourse_crc32c_instruction(uint32_t crc, const uint8_t *p, uint64_t n) {
        uint64_t c = (uint32_t)~crc, word;
        for (; n >= 8; n -= 8, p += 8) {
            memcpy(&word, p, 8);
            c = _mm_crc32_u64(c, word);
        }
        for (; n > 0; n--, p++)
            c = _mm_crc32_u8((uint32_t)c, *p);
        return ~(uint32_t)c;
    }
    #else
    __attribute__((unused)) static int bourse_crc32c_has_instruction(void) { return 0; }
    __attribute__((unused)) static uint32_t bourse_crc32c_instruction(uint32_t crc, const uint8_t *p, uint64_t n) {
        (void)p; (void)n;
        return crc;
    }
    #endif
    static inline uint64_t bourse_load_word(const uint8_t *p) {
        uint64_t word;
        memcpy(&word, p, 8);
        return word;
    }
    """
    bint crc32c_has_instruction "bourse_crc32c_has_instruction"()
    uint32_t crc32c_instruction "bourse_crc32c_instruction"(uint32_t crc, const uint8_t *p, uint64_t n)
    uint64_t load_word "bourse_load_word"(const uint8_t *p)


cdef uint32_t crc32c_extend(uint32_t crc, const uint8_t *start, uint64_t length_bytes) noexcept nogil
cdef uint32_t crc32c_extend_software(uint32_t crc, const uint8_t *start, uint64_t length_bytes) noexcept nogil
