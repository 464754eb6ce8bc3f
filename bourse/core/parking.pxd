# A doorbell: how one thread sleeps until another has something for it, without a lost wake-up.
#
#     waiter                                   ringer
#     ------                                   ------
#     doorbell_arm()    parked = 1             publish the work        (seq_cst store)
#     look for work again  (seq_cst load)      doorbell_ring():
#     none: doorbell_sleep()                       parked == 1? (seq_cst load) then parked = 0 and wake
#     doorbell_disarm() parked = 0
#
# All four accesses are sequentially consistent, so either the waiter sees the work or the ringer sees
# `parked`. The waiter sleeps on a futex on `parked`, or, when it has a file descriptor (the gateway's event
# loop), in epoll until the eventfd is readable. One waiter; any number of ringers.

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from bourse.core.atomics cimport exchange32_seq_cst, load32_seq_cst, store32_seq_cst

cdef extern from * nogil:
    """
    #include <linux/futex.h>
    #include <sys/syscall.h>
    #include <time.h>
    #include <unistd.h>
    static inline void bourse_futex_wait(uint32_t *word, uint32_t expected, int64_t timeout_ns) {
        struct timespec limit = { timeout_ns / 1000000000, timeout_ns % 1000000000 };
        syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, timeout_ns < 0 ? NULL : &limit, NULL, 0);
    }
    static inline void bourse_futex_wake(uint32_t *word) {
        syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    }
    static inline void bourse_eventfd_ring(int fd) {
        uint64_t one = 1;
        ssize_t ignored = write(fd, &one, sizeof one);
        (void) ignored;
    }
    """
    void futex_wait "bourse_futex_wait"(uint32_t *word, uint32_t expected, int64_t timeout_ns)
    void futex_wake "bourse_futex_wake"(uint32_t *word)
    void eventfd_ring "bourse_eventfd_ring"(int fd)


cdef struct Doorbell:
    uint32_t parked     # 1 while the waiter sleeps or is about to
    int32_t eventfd     # -1: the waiter sleeps on the futex
    uint64_t pad[15]    # keeps two doorbells off one pair of cache lines


cdef inline void doorbell_init(Doorbell *bell, int32_t eventfd) noexcept nogil:
    bell.parked = 0
    bell.eventfd = eventfd


cdef inline void doorbell_ring(Doorbell *bell) noexcept nogil:
    # The plain check first: an exchange would take the cache line from a waiter that is awake.
    if load32_seq_cst(&bell.parked) and exchange32_seq_cst(&bell.parked, 0):
        if bell.eventfd >= 0:
            eventfd_ring(bell.eventfd)
        else:
            futex_wake(&bell.parked)


cdef inline void doorbell_arm(Doorbell *bell) noexcept nogil:
    store32_seq_cst(&bell.parked, 1)


cdef inline void doorbell_sleep(Doorbell *bell, int64_t timeout_ns) noexcept nogil:
    # Returns at once when the bell was rung since doorbell_arm(); timeout_ns < 0 waits for ever.
    futex_wait(&bell.parked, 1, timeout_ns)


cdef inline void doorbell_disarm(Doorbell *bell) noexcept nogil:
    store32_seq_cst(&bell.parked, 0)
