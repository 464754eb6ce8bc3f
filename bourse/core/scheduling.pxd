# What a thread that spins asks of the scheduler.
#
# On a machine with fewer CPUs than spinning threads two things decide who waits for whom:
#   * a thread that spins must yield, often;
#   * its time slice must be short. The scheduler lets a thread finish its slice of about 3 ms before one that has
#     just become ready, such as the one whose fdatasync has returned. And since Linux 6.18 a thread that yields
#     forfeits the rest of its slice: with a long one it would not be asked again for as long.
# Measured on 2 CPUs: docs/architecture.md, "Waiting".

cdef extern from * nogil:
    """
    #include <stdint.h>
    #include <sys/syscall.h>
    #include <unistd.h>
    struct bourse_sched_attr {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime, deadline, period;
    };
    static inline void bourse_short_slice(void) {
        /* sched_setattr(2): sched_runtime of a SCHED_OTHER thread is its slice, from Linux 6.12 on; ignored before. */
        struct bourse_sched_attr attr = { sizeof attr, 0, 0, 0, 0, 100000, 0, 0 };
        syscall(SYS_sched_getattr, 0, &attr, sizeof attr, 0);
        if (attr.policy == 0) {
            attr.runtime = 100000;
            syscall(SYS_sched_setattr, 0, &attr, 0);
        }
    }
    """
    # Ask for the shortest time slice, 0.1 ms, for the calling thread. Needs no privilege; ignored before Linux 6.12.
    void short_slice "bourse_short_slice"()
