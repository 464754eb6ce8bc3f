/* The system calls of the simulation: LD_PRELOAD over those that change files, and over the clocks.
 *
 * A call that concerns a file below the simulated directory asks the simulated disk (disk.py) first, through one
 * callback: a negative answer is the errno with which the call fails, undone; of a write, a positive one is how
 * many bytes are really written. The real call follows, on real files, which are the simulated page cache.
 * Reads go there without being asked. A call of this kind that is not simulated ends the run (SIM_UNKNOWN).
 *
 * The clocks stand where sim_clock() puts them, for all of the process, while it says so. One thread only. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum {
    SIM_OPEN = 1, SIM_OPENED, SIM_WRITE, SIM_TRUNCATE, SIM_FSYNC, SIM_FDATASYNC, SIM_RENAME, SIM_UNLINK, SIM_MKDIR,
    SIM_DROP_CACHE, SIM_CLOSE, SIM_UNKNOWN, SIM_WAIT
};

typedef int64_t (*sim_callback)(int32_t kind, int32_t fd, int64_t a, int64_t b, const char *path, const void *data);

#define FDS 65536
static sim_callback ask;
static char prefix[4096];
static size_t prefix_size;
static unsigned char watched[FDS];
static int clock_is_set;
static int64_t clock_mono_ns, clock_wall_ns;
static int clock_reads;                 /* since it was set */
#define CLOCK_READS_MAX 5000

#define REAL(name) ((__typeof__(&name)) dlsym(RTLD_NEXT, #name))
#define CACHED(name) static __typeof__(&name) real; if (!real) real = REAL(name)

void sim_install(const char *directory, sim_callback callback) {
    memset(watched, 0, sizeof watched);
    strncpy(prefix, directory, sizeof prefix - 1);
    prefix_size = strlen(prefix);
    ask = callback;
}

void sim_clock(int is_set, int64_t mono_ns, int64_t wall_ns) {
    clock_is_set = is_set;
    clock_reads = 0;
    clock_mono_ns = mono_ns;
    clock_wall_ns = wall_ns;
}

static int is_ours(const char *path) {
    return ask && path && strncmp(path, prefix, prefix_size) == 0
        && (path[prefix_size] == '/' || path[prefix_size] == 0);
}

static int is_watched(int fd) {
    return ask && fd >= 0 && fd < FDS && watched[fd];
}

static int64_t refused(int64_t answer) {
    if (answer >= 0)
        return 0;
    errno = (int) -answer;
    return -1;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    CACHED(clock_gettime);
    int64_t now_ns;
    if (!clock_is_set || (clock != CLOCK_MONOTONIC && clock != CLOCK_REALTIME))
        return real(clock, time);
    now_ns = clock == CLOCK_MONOTONIC ? clock_mono_ns : clock_wall_ns;
    if (++clock_reads >= CLOCK_READS_MAX) {
        /* Somebody waits for the clock to move (stamps.pxd measures a counter by it): it seems to, once. */
        clock_reads = 0;
        now_ns += 1000000;
    }
    time->tv_sec = now_ns / 1000000000;
    time->tv_nsec = now_ns % 1000000000;
    return 0;
}

static int open_ours(int (*real)(const char *, int, ...), const char *path, int flags, mode_t mode) {
    int fd;
    if (!is_ours(path))
        return real(path, flags, mode);
    if (refused(ask(SIM_OPEN, -1, flags, 0, path, NULL)))
        return -1;
    fd = real(path, flags, mode);
    if (fd >= 0 && fd < FDS) {
        watched[fd] = 1;
        ask(SIM_OPENED, fd, flags, 0, path, NULL);
    }
    return fd;
}

#define OPEN(name)                                       \
    int name(const char *path, int flags, ...) {         \
        CACHED(name);                                    \
        mode_t mode = 0;                                 \
        if (flags & (O_CREAT | O_TMPFILE)) {             \
            va_list rest;                                \
            va_start(rest, flags);                       \
            mode = va_arg(rest, mode_t);                 \
            va_end(rest);                                \
        }                                                \
        return open_ours(real, path, flags, mode);       \
    }
OPEN(open)
OPEN(open64)

int close(int fd) {
    CACHED(close);
    if (is_watched(fd)) {
        watched[fd] = 0;
        ask(SIM_CLOSE, fd, 0, 0, NULL, NULL);
    }
    return real(fd);
}

#define PWRITE(name)                                                                        \
    ssize_t name(int fd, const void *data, size_t size, off_t offset) {                     \
        CACHED(name);                                                                       \
        if (is_watched(fd)) {                                                               \
            int64_t taken = ask(SIM_WRITE, fd, offset, (int64_t) size, NULL, data);         \
            if (refused(taken))                                                             \
                return -1;                                                                  \
            size = (size_t) taken;                                                          \
        }                                                                                   \
        return real(fd, data, size, offset);                                                \
    }
PWRITE(pwrite)
PWRITE(pwrite64)

ssize_t write(int fd, const void *data, size_t size) {
    CACHED(write);
    if (is_watched(fd)) {
        int64_t taken = ask(SIM_WRITE, fd, lseek(fd, 0, SEEK_CUR), (int64_t) size, NULL, data);
        if (refused(taken))
            return -1;
        size = (size_t) taken;
    }
    return real(fd, data, size);
}

#define CALL(name, kind, arguments, given, fd, a, b)                         \
    int name arguments {                                                     \
        CACHED(name);                                                        \
        if (is_watched(fd) && refused(ask(kind, fd, a, b, NULL, NULL)))      \
            return -1;                                                       \
        return real given;                                                   \
    }
CALL(ftruncate, SIM_TRUNCATE, (int fd, off_t size), (fd, size), fd, size, 0)
CALL(ftruncate64, SIM_TRUNCATE, (int fd, off_t size), (fd, size), fd, size, 0)
CALL(fsync, SIM_FSYNC, (int fd), (fd), fd, 0, 0)
CALL(fdatasync, SIM_FDATASYNC, (int fd), (fd), fd, 0, 0)

#define ADVISE(name)                                                         \
    int name(int fd, off_t offset, off_t size, int advice) {                 \
        CACHED(name);                                                        \
        if (is_watched(fd) && advice == POSIX_FADV_DONTNEED)                 \
            ask(SIM_DROP_CACHE, fd, offset, size, NULL, NULL);               \
        return real(fd, offset, size, advice);                               \
    }
ADVISE(posix_fadvise)
ADVISE(posix_fadvise64)

int rename(const char *from, const char *to) {
    CACHED(rename);
    if (is_ours(from) && refused(ask(SIM_RENAME, -1, 0, 0, from, to)))
        return -1;
    return real(from, to);
}

int unlink(const char *path) {
    CACHED(unlink);
    if (is_ours(path) && refused(ask(SIM_UNLINK, -1, 0, 0, path, NULL)))
        return -1;
    return real(path);
}

int mkdir(const char *path, mode_t mode) {
    CACHED(mkdir);
    if (is_ours(path) && refused(ask(SIM_MKDIR, -1, 0, 0, path, NULL)))
        return -1;
    return real(path, mode);
}

/* A thread that sleeps until another has something for it: the others go on, and it looks again. */
long syscall(long number, ...) {
    CACHED(syscall);
    long a[6];
    va_list rest;
    va_start(rest, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(rest, long);
    va_end(rest);
    if (number == SYS_futex && ask && clock_is_set && (a[1] & FUTEX_CMD_MASK) == FUTEX_WAIT) {
        ask(SIM_WAIT, -1, 0, 0, NULL, NULL);
        errno = ETIMEDOUT;
        return -1;
    }
    return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* Not simulated: whoever begins to use one of these on the log must teach it to the simulation first. */

#define UNKNOWN_FD(type, name, arguments, given, fd)                         \
    type name arguments {                                                    \
        CACHED(name);                                                        \
        if (is_watched(fd) && refused(ask(SIM_UNKNOWN, fd, 0, 0, #name, NULL))) \
            return -1;                                                       \
        return real given;                                                   \
    }
UNKNOWN_FD(ssize_t, writev, (int fd, const struct iovec *v, int n), (fd, v, n), fd)
UNKNOWN_FD(ssize_t, pwritev, (int fd, const struct iovec *v, int n, off_t at), (fd, v, n, at), fd)
UNKNOWN_FD(ssize_t, pwritev64, (int fd, const struct iovec *v, int n, off64_t at), (fd, v, n, at), fd)
UNKNOWN_FD(int, fallocate, (int fd, int mode, off_t at, off_t size), (fd, mode, at, size), fd)
UNKNOWN_FD(int, fallocate64, (int fd, int mode, off64_t at, off64_t size), (fd, mode, at, size), fd)
UNKNOWN_FD(int, sync_file_range, (int fd, off64_t at, off64_t size, unsigned flags), (fd, at, size, flags), fd)
UNKNOWN_FD(ssize_t, copy_file_range,
           (int in, off64_t *a, int fd, off64_t *b, size_t size, unsigned flags), (in, a, fd, b, size, flags), fd)

#define UNKNOWN_PATH(name, arguments, given, path)                           \
    int name arguments {                                                     \
        CACHED(name);                                                        \
        if (is_ours(path) && refused(ask(SIM_UNKNOWN, -1, 0, 0, #name, NULL))) \
            return -1;                                                       \
        return real given;                                                   \
    }
UNKNOWN_PATH(link, (const char *from, const char *to), (from, to), from)
UNKNOWN_PATH(symlink, (const char *from, const char *to), (from, to), to)
UNKNOWN_PATH(rmdir, (const char *path), (path), path)
UNKNOWN_PATH(truncate, (const char *path, off_t size), (path, size), path)

/* These return the error instead of setting errno. */
#define ALLOCATE(name)                                                       \
    int name(int fd, off_t at, off_t size) {                                 \
        CACHED(name);                                                        \
        if (is_watched(fd) && ask(SIM_UNKNOWN, fd, 0, 0, #name, NULL) < 0)   \
            return EIO;                                                      \
        return real(fd, at, size);                                           \
    }
ALLOCATE(posix_fallocate)
ALLOCATE(posix_fallocate64)
