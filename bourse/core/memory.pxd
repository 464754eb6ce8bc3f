# Memory straight from the kernel: reserved address ranges in which pools grow in place, and tables of indexes.
#
# Reserving costs nothing, so a pool reserves all that it may ever need and makes it usable chunk by chunk: it grows
# without copying and without a table of chunks. Pages are zero and cost nothing before their first use.

cdef extern from * nogil:
    """
    #include <stddef.h>
    #include <sys/mman.h>
    static inline void *bourse_reserve(size_t size_bytes) {
        void *memory = mmap(NULL, size_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        return memory == MAP_FAILED ? NULL : memory;
    }
    static inline int bourse_commit(void *memory, size_t size_bytes) {
        return mprotect(memory, size_bytes, PROT_READ | PROT_WRITE) == 0;
    }
    static inline void *bourse_map_zeroed(size_t size_bytes) {
        void *memory = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        return memory == MAP_FAILED ? NULL : memory;
    }
    #ifndef MADV_POPULATE_WRITE
    #define MADV_POPULATE_WRITE 23
    #endif
    static inline void bourse_prefault(void *memory, size_t size_bytes) {
        /* Huge pages where the kernel has them. Before Linux 5.14 each page is touched instead. */
        madvise(memory, size_bytes, MADV_HUGEPAGE);
        if (madvise(memory, size_bytes, MADV_POPULATE_WRITE) != 0)
            for (size_t at = 0; at < size_bytes; at += 4096)
                ((volatile char *)memory)[at] = 0;
    }
    static inline void bourse_unmap(void *memory, size_t size_bytes) {
        if (memory != NULL)
            munmap(memory, size_bytes);
    }
    """
    void *reserve "bourse_reserve"(size_t size_bytes)           # not usable yet; NULL when there is no room
    bint commit "bourse_commit"(void *memory, size_t size_bytes)  # make usable; false when there is no memory
    void *map_zeroed "bourse_map_zeroed"(size_t size_bytes)     # usable at once; NULL when there is none
    void prefault "bourse_prefault"(void *memory, size_t size_bytes)  # have the pages now; they are usable and zero
    void unmap "bourse_unmap"(void *memory, size_t size_bytes)
