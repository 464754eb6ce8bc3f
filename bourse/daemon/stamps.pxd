# A clock for stamps that are read with every group of commands: CLOCK_MONOTONIC, taken forward by the processor's counter.
#
# clock_gettime() waits until everything before it is done, and takes 20 to 30 ns; the bare counter takes a third. Its
# rate is measured against the system's clock from the start of the thread on, the longer the better, and the stamp begins
# anew from the system's clock when it is STAMP_FRESH_NS old: an error of 500 parts in a million, the most by which the system
# slews its clock, is 500 ns then, and a stamp may be as much below the one before. A counter that goes backwards, as where CPUs
# do not agree, is seen as an old stamp. One thread a clock.

from libc.stdint cimport int64_t, uint64_t

cdef extern from * nogil:
    """
    #include <stdint.h>
    #include <time.h>
    #if defined(__x86_64__)
    #include <x86intrin.h>
    static inline uint64_t bourse_counter(void) { return __rdtsc(); }
    #elif defined(__aarch64__)
    static inline uint64_t bourse_counter(void) {
        uint64_t counter;
        __asm__ volatile("mrs %0, cntvct_el0" : "=r"(counter));
        return counter;
    }
    #else
    static inline uint64_t bourse_counter(void) {
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t) t.tv_sec * 1000000000u + (uint64_t) t.tv_nsec;
    }
    #endif

    enum { BOURSE_STAMP_FRESH_NS = 1000000, BOURSE_STAMP_START_NS = 200000, BOURSE_STAMP_TOGETHER_NS = 1000 };

    struct bourse_stamp_clock {
        int64_t origin_ns, base_ns;
        uint64_t origin, base;      /* the counter then */
        uint64_t fresh;             /* counts for which `base` holds */
        uint64_t rate;              /* nanoseconds a count, times 2**32 */
    };
    static inline int64_t bourse_stamp_system_ns(void) {
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        return (int64_t) t.tv_sec * 1000000000 + t.tv_nsec;
    }
    static __attribute__((noinline, unused)) int64_t bourse_stamp_renew(struct bourse_stamp_clock *clock) {
        int64_t ns = bourse_stamp_system_ns();
        uint64_t count = bourse_counter();
        if (count > clock->origin && ns > clock->origin_ns) {
            double rate = (double) (ns - clock->origin_ns) / (double) (count - clock->origin);
            clock->rate = (uint64_t) (rate * 4294967296.0);
            clock->fresh = (uint64_t) (BOURSE_STAMP_FRESH_NS / rate);
        }
        clock->base_ns = ns;
        clock->base = count;
        return ns;
    }
    static inline void bourse_stamp_start(struct bourse_stamp_clock *clock) {
        /* Both at one moment: a pause between the two readings would make the rate wrong for seconds. */
        for (int tries = 0; tries < 100; tries++) {
            clock->origin_ns = bourse_stamp_system_ns();
            clock->origin = bourse_counter();
            if (bourse_stamp_system_ns() - clock->origin_ns < BOURSE_STAMP_TOGETHER_NS)
                break;
        }
        clock->rate = clock->fresh = 0;
        while (bourse_stamp_renew(clock) - clock->origin_ns < BOURSE_STAMP_START_NS)
            ;
    }
    static inline int64_t bourse_stamp_ns(struct bourse_stamp_clock *clock) {
        uint64_t passed = bourse_counter() - clock->base;
        if (passed > clock->fresh)
            return bourse_stamp_renew(clock);
        return clock->base_ns + (int64_t) (passed * clock->rate >> 32);
    }
    """
    struct StampClock "bourse_stamp_clock":
        pass
    void stamp_start "bourse_stamp_start"(StampClock *clock)    # takes 0.2 ms
    int64_t stamp_ns "bourse_stamp_ns"(StampClock *clock)       # monotonic time, as mono_ns() says it
