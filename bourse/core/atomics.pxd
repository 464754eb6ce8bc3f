# Atomic loads and stores, pauses and CPU hints over the compiler's builtins (GCC and Clang).
#
# The order of memory is named at each call: `_acquire` pairs with `_release`; `_seq_cst` is for the
# parking protocol alone, where a store must be seen before a later load (see ring.pxd).
# No bare fences: ThreadSanitizer cannot model them.

from libc.stdint cimport int64_t, uint32_t, uint64_t

cdef extern from * nogil:
    """
    #include <stdint.h>
    #include <sched.h>
    static inline uint64_t bourse_load_acquire(const uint64_t *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
    static inline uint64_t bourse_load_relaxed(const uint64_t *p) { return __atomic_load_n(p, __ATOMIC_RELAXED); }
    static inline uint64_t bourse_load_seq_cst(const uint64_t *p) { return __atomic_load_n(p, __ATOMIC_SEQ_CST); }
    static inline void bourse_store_release(uint64_t *p, uint64_t v) { __atomic_store_n(p, v, __ATOMIC_RELEASE); }
    static inline void bourse_store_relaxed(uint64_t *p, uint64_t v) { __atomic_store_n(p, v, __ATOMIC_RELAXED); }
    static inline void bourse_store_seq_cst(uint64_t *p, uint64_t v) { __atomic_store_n(p, v, __ATOMIC_SEQ_CST); }
    static inline uint32_t bourse_load32_seq_cst(const uint32_t *p) { return __atomic_load_n(p, __ATOMIC_SEQ_CST); }
    static inline uint32_t bourse_load32_relaxed(const uint32_t *p) { return __atomic_load_n(p, __ATOMIC_RELAXED); }
    static inline void bourse_store32_seq_cst(uint32_t *p, uint32_t v) { __atomic_store_n(p, v, __ATOMIC_SEQ_CST); }
    static inline uint32_t bourse_exchange32_seq_cst(uint32_t *p, uint32_t v) { return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST); }
    static inline void bourse_cpu_relax(void) {
    #if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
    #elif defined(__aarch64__)
        __asm__ __volatile__("yield");
    #endif
    }
    static inline void bourse_prefetch_read(const void *p) { __builtin_prefetch(p, 0, 3); }
    static inline void bourse_prefetch_write(void *p) {
    #if defined(__x86_64__)
        /* GCC's __builtin_prefetch(p, 1) is a prefetch for reading where -mprfchw is not given. */
        __asm__ __volatile__("prefetchw %0" : : "m"(*(char *) p));
    #else
        __builtin_prefetch(p, 1, 3);
    #endif
    }
    """
    uint64_t load_acquire "bourse_load_acquire"(const uint64_t *p)
    uint64_t load_relaxed "bourse_load_relaxed"(const uint64_t *p)
    uint64_t load_seq_cst "bourse_load_seq_cst"(const uint64_t *p)
    void store_release "bourse_store_release"(uint64_t *p, uint64_t v)
    void store_relaxed "bourse_store_relaxed"(uint64_t *p, uint64_t v)
    void store_seq_cst "bourse_store_seq_cst"(uint64_t *p, uint64_t v)
    uint32_t load32_seq_cst "bourse_load32_seq_cst"(const uint32_t *p)
    uint32_t load32_relaxed "bourse_load32_relaxed"(const uint32_t *p)
    void store32_seq_cst "bourse_store32_seq_cst"(uint32_t *p, uint32_t v)
    uint32_t exchange32_seq_cst "bourse_exchange32_seq_cst"(uint32_t *p, uint32_t v)
    void cpu_relax "bourse_cpu_relax"()
    void prefetch_read "bourse_prefetch_read"(const void *p)    # begin to fetch a cache line
    void prefetch_write "bourse_prefetch_write"(void *p)    # begin to make a cache line this CPU's own
    void yield_cpu "sched_yield"()
