# The few system calls that the benchmark's client makes without the GIL.

from libc.stdint cimport int64_t

cdef extern from "<sys/socket.h>" nogil:
    int MSG_DONTWAIT
    int MSG_NOSIGNAL
    ssize_t recv(int fd, void *buffer, size_t length, int flags)
    ssize_t send(int fd, const void *buffer, size_t length, int flags)

cdef extern from * nogil:
    """
    #include <stdint.h>
    #include <time.h>
    static inline int64_t bourse_monotonic_ns(void) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    }
    static inline void bourse_sleep_ns(int64_t ns) {
        struct timespec wait = { ns / 1000000000, ns % 1000000000 };
        nanosleep(&wait, NULL);
    }
    """
    void sleep_ns "bourse_sleep_ns"(int64_t ns)
    int64_t monotonic_ns "bourse_monotonic_ns"()
