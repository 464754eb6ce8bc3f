# Waiting for many sockets at once: the three calls of epoll that fan-in makes without the GIL.

from libc.stdint cimport uint32_t, uint64_t

cdef extern from "<sys/epoll.h>" nogil:
    int EPOLLIN
    int EPOLL_CTL_ADD

    ctypedef union epoll_data_t:
        uint64_t u64

    struct epoll_event:
        uint32_t events
        epoll_data_t data

    int epoll_create1(int flags)
    int epoll_ctl(int epoll_fd, int operation, int fd, epoll_event *event)
    int epoll_wait(int epoll_fd, epoll_event *events, int count_max, int timeout_ms)

cdef extern from "<unistd.h>" nogil:
    int close(int fd)
