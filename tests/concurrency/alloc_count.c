/* Counts the memory calls of chosen threads: preloaded with LD_PRELOAD, asked through ctypes.
 *
 *   alloc_watch(who)         the calling thread is number `who` from now on (1..15)
 *   alloc_calls(who, kind)   calls that thread has made: 0 malloc, 1 calloc, 2 realloc, 3 free, 4 aligned, 5 mapping
 *   alloc_control()          makes one call of each kind: what is counted for it shows that counting works
 *
 * `mapping` is whatever asks the kernel for memory or gives it back: mmap, munmap, mremap, mprotect, madvise, brk, sbrk.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MALLOC, CALLOC, REALLOC, FREE, ALIGNED, MAPPING, KINDS };
enum { THREADS = 16 };

static uint64_t calls[THREADS][KINDS];
/* Initial exec: reading it never allocates. */
static __thread int me __attribute__((tls_model("initial-exec")));

static void count(int kind) {
    if (me)
        __atomic_fetch_add(&calls[me][kind], 1, __ATOMIC_RELAXED);
}

/* dlsym itself may allocate before the first lookup is done: from here, and never given back. */
static char early[1 << 16] __attribute__((aligned(64)));
static size_t early_used;
static int is_early(const void *p) { return (const char *) p >= early && (const char *) p < early + sizeof early; }
static void *early_alloc(size_t size) {
    void *p = early + early_used;
    early_used += (size + 63) & ~(size_t) 63;
    return early_used <= sizeof early ? p : NULL;
}

static int resolving;
#define REAL(result, name, ...)                                  \
    static result (*real)(__VA_ARGS__);                          \
    if (!real) {                                                 \
        resolving++;                                             \
        real = (result (*)(__VA_ARGS__)) dlsym(RTLD_NEXT, name); \
        resolving--;                                             \
    }

void *malloc(size_t size) {
    if (resolving) return early_alloc(size);
    REAL(void *, "malloc", size_t)
    count(MALLOC);
    return real(size);
}
void *calloc(size_t number, size_t size) {
    if (resolving) return early_alloc(number * size);       /* zero already */
    REAL(void *, "calloc", size_t, size_t)
    count(CALLOC);
    return real(number, size);
}
void *realloc(void *p, size_t size) {
    REAL(void *, "realloc", void *, size_t)
    count(REALLOC);
    if (is_early(p)) {
        void *copy = malloc(size);
        size_t most = (size_t) (early + sizeof early - (char *) p);
        if (copy) memcpy(copy, p, size < most ? size : most);
        return copy;
    }
    return real(p, size);
}
void *reallocarray(void *p, size_t number, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(number, size, &bytes)) { errno = ENOMEM; return NULL; }
    return realloc(p, bytes);
}
void free(void *p) {
    REAL(void, "free", void *)
    count(FREE);
    if (!is_early(p)) real(p);
}
int posix_memalign(void **out, size_t alignment, size_t size) {
    REAL(int, "posix_memalign", void **, size_t, size_t)
    count(ALIGNED);
    return real(out, alignment, size);
}
void *aligned_alloc(size_t alignment, size_t size) {
    REAL(void *, "aligned_alloc", size_t, size_t)
    count(ALIGNED);
    return real(alignment, size);
}
void *memalign(size_t alignment, size_t size) {
    REAL(void *, "memalign", size_t, size_t)
    count(ALIGNED);
    return real(alignment, size);
}
void *valloc(size_t size) {
    REAL(void *, "valloc", size_t)
    count(ALIGNED);
    return real(size);
}
void *mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset) {
    REAL(void *, "mmap", void *, size_t, int, int, int, off_t)
    count(MAPPING);
    return real(at, size, protection, flags, fd, offset);
}
void *mmap64(void *at, size_t size, int protection, int flags, int fd, off64_t offset) {
    REAL(void *, "mmap64", void *, size_t, int, int, int, off64_t)
    count(MAPPING);
    return real(at, size, protection, flags, fd, offset);
}
int munmap(void *at, size_t size) {
    REAL(int, "munmap", void *, size_t)
    count(MAPPING);
    return real(at, size);
}
void *mremap(void *at, size_t old_size, size_t new_size, int flags, ...) {
    REAL(void *, "mremap", void *, size_t, size_t, int, ...)
    void *target = NULL;
    if (flags & MREMAP_FIXED) {
        va_list more;
        va_start(more, flags);
        target = va_arg(more, void *);
        va_end(more);
    }
    count(MAPPING);
    return real(at, old_size, new_size, flags, target);
}
int mprotect(void *at, size_t size, int protection) {
    REAL(int, "mprotect", void *, size_t, int)
    count(MAPPING);
    return real(at, size, protection);
}
int madvise(void *at, size_t size, int advice) {
    REAL(int, "madvise", void *, size_t, int)
    count(MAPPING);
    return real(at, size, advice);
}
int brk(void *end) {
    REAL(int, "brk", void *)
    count(MAPPING);
    return real(end);
}
void *sbrk(intptr_t increment) {
    REAL(void *, "sbrk", intptr_t)
    count(MAPPING);
    return real(increment);
}

void alloc_watch(int who) { me = who; }
uint64_t alloc_calls(int who, int kind) { return __atomic_load_n(&calls[who][kind], __ATOMIC_RELAXED); }

void alloc_control(void) {
    /* Volatile, or the compiler sees that nothing comes of it and leaves it out. */
    void *volatile one = malloc(100);
    void *volatile two = calloc(3, 5);
    void *volatile three = realloc(one, 5000);
    void *aligned = NULL;
    int failed = posix_memalign(&aligned, 64, 640);
    void *pages = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages != MAP_FAILED)
        munmap(pages, 4096);
    free(three);
    free(two);
    if (!failed)
        free(aligned);
}
