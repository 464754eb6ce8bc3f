# The processor's time-stamp counter, for spans too short for clock_gettime().
#
# Readings are not fenced: a loop that reads once at each boundary splits the whole of its time among its parts, and
# out-of-order execution moves a few cycles from one part to its neighbour, none out of the sum.

from libc.stdint cimport uint64_t

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
    """
    uint64_t ticks "bourse_ticks"()
