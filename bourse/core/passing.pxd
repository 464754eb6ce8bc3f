# Handing whole cache lines to another core without taking its copies back first.
#
# A ring's slot was last in the cache of the thread that read it. An ordinary store has to get the line from there, and
# since stores become visible in order, one slot waits for the other: 100 ns each where two CPUs are 180 ns apart.
# Non-temporal stores write a whole line past the caches and need nothing from the other side. They are weakly
# ordered: pass_end() comes before the position that tells the reader of them.

cdef extern from * nogil:
    """
    #include <string.h>
    #if defined(__x86_64__)
    #include <emmintrin.h>
    static inline void bourse_pass_line(void *slot, const void *line) {
        __m128i *to = (__m128i *)slot;
        const __m128i *from = (const __m128i *)line;
        __m128i a = _mm_loadu_si128(from), b = _mm_loadu_si128(from + 1);
        __m128i c = _mm_loadu_si128(from + 2), d = _mm_loadu_si128(from + 3);
        _mm_stream_si128(to, a);
        _mm_stream_si128(to + 1, b);
        _mm_stream_si128(to + 2, c);
        _mm_stream_si128(to + 3, d);
    }
    static inline void bourse_pass_end(void) { _mm_sfence(); }
    #else
    static inline void bourse_pass_line(void *slot, const void *line) { memcpy(slot, line, 64); }
    static inline void bourse_pass_end(void) {}
    #endif
    """
    void pass_line "bourse_pass_line"(void *slot, const void *line)     # 64 bytes; slot is aligned to them
    void pass_end "bourse_pass_end"()
