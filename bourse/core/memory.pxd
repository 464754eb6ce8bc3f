# Zeroed memory straight from the kernel, in whole pages: chunks of pools and tables of indexes.
#
# Pages cost nothing before their first use, so a table of two million pointers of which ten are used is ten
# pointers' pages, and a growing index is not zeroed in one go.

cdef extern from * nogil:
    """
    #include <stddef.h>
    #include <sys/mman.h>
    static inline void *bourse_map_zeroed(size_t size_bytes) {
        void *memory = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        return memory == MAP_FAILED ? NULL : memory;
    }
    static inline void bourse_unmap(void *memory, size_t size_bytes) {
        if (memory != NULL)
            munmap(memory, size_bytes);
    }
    static inline void bourse_prefetch(const void *address) { __builtin_prefetch(address, 1, 3); }
    """
    void *map_zeroed "bourse_map_zeroed"(size_t size_bytes)     # NULL when there is none
    void unmap "bourse_unmap"(void *memory, size_t size_bytes)
    void prefetch "bourse_prefetch"(const void *address)        # will be written soon
