# The processor's time-stamp counter, for spans too short for clock_gettime().
#
# Readings are not fenced: a loop that reads once at each boundary splits the whole of its time among its parts, and
# out-of-order execution moves a few cycles from one part to its neighbour, none out of the sum.

from libc.stdint cimport int64_t, uint64_t

cdef extern from * nogil:
    """
    #include <stdint.h>
    #include <time.h>
    #if defined(__x86_64__)
    #include <x86intrin.h>
    static inline uint64_t bourse_ticks(void) { return __rdtsc(); }
    #elif defined(__aarch64__)
    static inline uint64_t bourse_ticks(void) {
        uint64_t ticks;
        __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
        return ticks;
    }
    #else
    static inline uint64_t bourse_ticks(void) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    }
    #endif
    static inline double bourse_ns_per_tick(int64_t span_ns) {
        struct timespec now;
        int64_t start_ns, end_ns;
        uint64_t start;
        clock_gettime(CLOCK_MONOTONIC, &now);
        start_ns = end_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
        start = bourse_ticks();
        while (end_ns - start_ns < span_ns) {
            clock_gettime(CLOCK_MONOTONIC, &now);
            end_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
        }
        return (double)(end_ns - start_ns) / (double)(bourse_ticks() - start);
    }
    """
    uint64_t ticks "bourse_ticks"()
    double ns_per_tick "bourse_ns_per_tick"(int64_t span_ns)   # measured over so long
