# What the gateway, the matcher and the journal thread say to each other beside the rings.
#
# One writer a group; groups are 128 bytes apart. Cursors are published with release (or seq_cst where a doorbell
# follows) and read with acquire; counters for display are read relaxed.

from libc.stdint cimport int64_t, uint32_t, uint64_t

from bourse.core.atomics cimport load_seq_cst
from bourse.core.parking cimport Doorbell
from bourse.core.records cimport DepthLevel, EngineState, InstrumentRecord, OrderRecord

cdef extern from * nogil:
    """
    #include <stdint.h>
    #include <linux/sockios.h>
    #include <sys/ioctl.h>
    #include <sys/socket.h>
    #include <time.h>
    static inline int bourse_unsent(int fd) {
        int bytes = 0;
        return ioctl(fd, SIOCOUTQ, &bytes) == 0 ? bytes : 0;
    }
    static inline ssize_t bourse_send(int fd, const void *data, size_t size) {
        return send(fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    static inline int64_t bourse_mono_ns(void) {
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        return (int64_t) t.tv_sec * 1000000000 + t.tv_nsec;
    }
    static inline int64_t bourse_wall_ns(void) {
        struct timespec t;
        clock_gettime(CLOCK_REALTIME, &t);
        return (int64_t) t.tv_sec * 1000000000 + t.tv_nsec;
    }
    """
    int socket_unsent "bourse_unsent"(int fd)      # bytes that the peer's kernel has not acknowledged
    Py_ssize_t socket_send "bourse_send"(int fd, const void *data, size_t size)
    int64_t mono_ns "bourse_mono_ns"()
    int64_t wall_ns "bourse_wall_ns"()


cdef enum:
    DEPTH_LEVELS_MAX = 256
    DEPTH_BUFFERS = 4


cdef struct DepthBuffer:            # written by the matcher between a depth command and its reply
    EngineState state
    uint32_t bid_count
    uint32_t ask_count
    uint32_t bid_levels
    uint32_t ask_levels
    uint32_t unknown_instrument
    uint32_t is_halted
    DepthLevel bids[256]
    DepthLevel asks[256]


cdef struct SnapshotImage:          # memory of the gateway's, lent to the matcher from the mark to SNAPSHOT_READY
    EngineState state
    OrderRecord *orders
    uint64_t order_capacity
    uint64_t order_count            # 2**64 - 1: the capacity was too small
    uint32_t *sessions              # ids of the open sessions
    uint64_t session_capacity
    uint64_t session_count
    InstrumentRecord *instruments
    uint64_t instrument_capacity
    uint64_t instrument_count
    int64_t pause_ns


cdef struct Shared:
    # The journal thread writes:
    uint64_t written_seq
    uint64_t durable_seq
    uint64_t durable_ns             # monotonic time of the last durable_seq (async: written_seq)
    uint64_t failed_errno           # 0, or why the journal stopped for ever
    uint64_t journal_done           # 1 after everything is on disk and the thread is leaving
    uint64_t batches
    uint64_t syncs
    uint64_t last_batch_records
    uint64_t written_bytes
    uint64_t segment_used_bytes
    uint64_t segment_size_bytes
    uint64_t segment_index          # of the segment that is written; published after the two below
    uint64_t segment_first_seq
    uint64_t segment_fd
    uint64_t next_first_seq         # record that begins the next segment; 0: not planned
    uint64_t pad0[17]
    # The segment thread writes:
    uint64_t spare_index            # of the next segment, filled with zeros; published after the two below
    uint64_t spare_fd
    uint64_t spare_bytes
    uint64_t named_seq              # the last next_first_seq whose file has its name, durably
    uint64_t spare_errno            # 0, or why filling is tried again
    uint64_t spare_failed_errno     # 0, or why the daemon must end
    uint64_t pad2[26]
    # The matcher writes:
    uint64_t matched_seq
    uint64_t matcher_done
    uint64_t pad1[30]
    # Anybody may ring:
    Doorbell gateway_bell
    Doorbell matcher_bell
    Doorbell journal_bell
    Doorbell segment_bell


cdef inline uint64_t disk_errno(const Shared *shared) noexcept nogil:
    # 0, or the disk error that ends the daemon.
    cdef uint64_t failed = load_seq_cst(&shared.failed_errno)
    return failed if failed else load_seq_cst(&shared.spare_failed_errno)


cdef class SharedMemory:
    cdef Shared *shared
    cdef DepthBuffer *depth_buffers
    cdef SnapshotImage image
    cdef int64_t last_pause_ns
