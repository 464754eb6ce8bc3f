/* Faults for a test's daemon: LD_PRELOAD over the calls that reach a disk, a client or the clock.
 *
 * The test and the shim share one file (FAULT_SHIM, laid out in shim.py); every value has 64 bits. Only calls on files
 * below FAULT_SHIM_DIR are touched; of the others only what is sent over TCP is logged.
 *
 *   counts      calls of each kind so far
 *   plan        the n-th call of one kind fails with an errno, once or for ever; or takes only some of its bytes
 *   failures    what happened on the same descriptor, and what was sent, after the first failure, planned or real
 *   delays      each call of a kind takes so much longer
 *   log         syncs, writes and sends in the order in which they began and ended
 *   clock       CLOCK_REALTIME is off by so much; CLOCK_MONOTONIC is left alone
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum kind { WRITE, FDATASYNC, FSYNC, RENAME, OPEN, FTRUNCATE, FALLOCATE, UNLINK, SEND, KINDS };

#define LOGGED 65536

struct entry {
    int64_t kind, fd, bytes, durable_end, began_ns, ended_ns;
};

struct control {
    volatile int64_t calls[KINDS];
    volatile int64_t delay_us[KINDS];
    volatile int64_t fail_kind;         /* the plan */
    volatile int64_t fail_at;           /* 0: nothing fails */
    volatile int64_t fail_errno;        /* 0: a write is short and nothing else */
    volatile int64_t fail_for_ever;     /* 1: every later call of the kind fails too */
    volatile int64_t short_bytes;       /* what a write that fails takes before; -1: nothing */
    volatile int64_t failed;            /* calls that failed */
    volatile int64_t failed_fd;         /* the first one's descriptor, -1 for a path */
    volatile int64_t failed_ns;         /* and its monotonic time */
    volatile int64_t syncs_after;       /* later syncs of that descriptor */
    volatile int64_t writes_after;      /* later writes to it */
    volatile int64_t sends_after;       /* sends after the first failure */
    volatile int64_t rest_fails;        /* inner: the rest of a short write fails */
    volatile int64_t written_end;       /* where the last write to a segment ended */
    volatile int64_t durable_end;       /* written_end as of the start of the last good fdatasync */
    volatile int64_t wall_offset_ns;
    volatile int64_t log_next;
    struct entry log[LOGGED];
};

static struct control *control;
static const char *directory;
static size_t directory_bytes;

static void *real(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    if (!found)
        abort();
    return found;
}

#define REAL(name)                                                  \
    ({                                                              \
        static __typeof__(&name) found;                             \
        if (!found)                                                 \
            found = (__typeof__(&name)) real(#name);                \
        found;                                                      \
    })

static int64_t mono_ns(void) {
    struct timespec now;
    REAL(clock_gettime)(CLOCK_MONOTONIC, &now);
    return (int64_t) now.tv_sec * 1000000000 + now.tv_nsec;
}

__attribute__((constructor)) static void attach(void) {
    const char *path = getenv("FAULT_SHIM");
    int fd = path ? REAL(open)(path, O_RDWR | O_CLOEXEC) : -1;
    directory = getenv("FAULT_SHIM_DIR");
    directory_bytes = directory ? strlen(directory) : 0;
    if (fd >= 0) {
        void *page = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        control = page == MAP_FAILED ? NULL : page;
        close(fd);
    }
}

/* --- what concerns us */

static int is_ours(const char *path) {
    return control && directory_bytes && !strncmp(path, directory, directory_bytes)
        && (path[directory_bytes] == '/' || path[directory_bytes] == 0);
}

static int path_of(int fd, char *path, size_t size) {
    char link[64];
    ssize_t length;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    length = readlink(link, path, size - 1);
    path[length < 0 ? 0 : length] = 0;
    return length > 0;
}

static int is_our_fd(int fd) {
    char path[4096];
    return control && path_of(fd, path, sizeof path) && is_ours(path);
}

static int is_segment(int fd) {
    char path[4096];
    size_t size;
    if (!path_of(fd, path, sizeof path))
        return 0;
    size = strlen(path);
    return size > 4 && strstr(path, "/wal/wal-") && !strcmp(path + size - 4, ".log");
}

static int is_tcp(int fd) {
    struct sockaddr_storage address;
    socklen_t size = sizeof address;
    return control && !getsockname(fd, (struct sockaddr *) &address, &size)
        && (address.ss_family == AF_INET || address.ss_family == AF_INET6);
}

/* --- counting, failing, logging */

static void wait_us(int64_t us) {
    struct timespec pause = {us / 1000000, us % 1000000 * 1000};
    if (us)
        nanosleep(&pause, NULL);
}

static int is_down_to(enum kind kind, int fd) {
    int64_t number = __atomic_add_fetch(&control->calls[kind], 1, __ATOMIC_SEQ_CST);
    wait_us(control->delay_us[kind]);
    if (control->failed && fd >= 0 && fd == control->failed_fd) {
        control->syncs_after += kind == FDATASYNC || kind == FSYNC;
        control->writes_after += kind == WRITE;
    }
    return control->fail_at && control->fail_kind == kind
        && (number == control->fail_at || (number > control->fail_at && control->fail_for_ever));
}

static void note_failure(int fd) {
    if (!control->failed++) {
        control->failed_fd = fd;
        control->failed_ns = mono_ns();
    }
}

static int fail(int fd) {
    note_failure(fd);
    errno = (int) control->fail_errno;
    return -1;
}

/* The disk's own verdict on a sync; an error counts as one that was planned. */
static int judged(int fd, int result, int64_t written) {
    int error = errno;
    if (result)
        note_failure(fd);
    else if (is_segment(fd))
        control->durable_end = written;
    errno = error;
    return result;
}

static struct entry *begin(enum kind kind, int fd) {
    int64_t at = __atomic_fetch_add(&control->log_next, 1, __ATOMIC_SEQ_CST);
    struct entry *entry = &control->log[at % LOGGED];
    entry->kind = kind;
    entry->fd = fd;
    entry->durable_end = control->durable_end;
    entry->began_ns = mono_ns();
    return entry;
}

static void end(struct entry *entry, int64_t bytes) {
    entry->bytes = bytes;
    entry->ended_ns = mono_ns();
}

/* --- writes */

/* Returns how many bytes may be written; -1: the call fails now. */
static ssize_t allowed(int fd, size_t size) {
    int fails = is_down_to(WRITE, fd);
    if (control->rest_fails) {
        control->rest_fails = 0;
        return fail(fd);
    }
    if (!fails)
        return (ssize_t) size;
    if (control->short_bytes < 0)
        return fail(fd);
    control->rest_fails = control->fail_errno != 0;
    return size > (size_t) control->short_bytes ? (ssize_t) control->short_bytes : (ssize_t) size;
}

static ssize_t note_sent(struct entry *entry, ssize_t result) {
    int error = errno;
    control->sends_after += control->failed && result > 0;
    end(entry, result);
    errno = error;
    return result;
}

ssize_t write(int fd, const void *data, size_t size) {
    ssize_t most;
    if (is_tcp(fd)) {
        control->calls[SEND]++;
        struct entry *entry = begin(SEND, fd);
        return note_sent(entry, REAL(write)(fd, data, size));
    }
    if (!is_our_fd(fd))
        return REAL(write)(fd, data, size);
    most = allowed(fd, size);
    return most < 0 ? -1 : REAL(write)(fd, data, (size_t) most);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    if (is_tcp(fd)) {
        control->calls[SEND]++;
        struct entry *entry = begin(SEND, fd);
        return note_sent(entry, REAL(writev)(fd, parts, count));
    }
    return REAL(writev)(fd, parts, count);
}

ssize_t send(int fd, const void *data, size_t size, int flags) {
    if (!is_tcp(fd))
        return REAL(send)(fd, data, size, flags);
    control->calls[SEND]++;
    struct entry *entry = begin(SEND, fd);
    return note_sent(entry, REAL(send)(fd, data, size, flags));
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
    if (!is_tcp(fd))
        return REAL(sendmsg)(fd, message, flags);
    control->calls[SEND]++;
    struct entry *entry = begin(SEND, fd);
    return note_sent(entry, REAL(sendmsg)(fd, message, flags));
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t offset) {
    ssize_t most, result;
    int error;
    struct entry *entry;
    if (!is_our_fd(fd))
        return REAL(pwrite64)(fd, data, size, offset);
    most = allowed(fd, size);
    if (most < 0)
        return -1;
    entry = begin(WRITE, fd);
    result = REAL(pwrite64)(fd, data, (size_t) most, offset);
    error = errno;
    if (result < 0)
        note_failure(fd);
    else if (is_segment(fd))
        control->written_end = offset + result;
    end(entry, result);
    errno = error;
    return result;
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t offset) {
    return pwrite64(fd, data, size, offset);
}

/* --- syncs */

int fdatasync(int fd) {
    int64_t written;
    int result, error;
    struct entry *entry;
    if (!is_our_fd(fd))
        return REAL(fdatasync)(fd);
    written = control->written_end;
    entry = begin(FDATASYNC, fd);
    result = is_down_to(FDATASYNC, fd) ? fail(fd) : judged(fd, REAL(fdatasync)(fd), written);
    error = errno;
    end(entry, result);
    errno = error;
    return result;
}

int fsync(int fd) {
    int64_t written;
    int result, error;
    struct entry *entry;
    if (!is_our_fd(fd))
        return REAL(fsync)(fd);
    written = control->written_end;
    entry = begin(FSYNC, fd);
    result = is_down_to(FSYNC, fd) ? fail(fd) : judged(fd, REAL(fsync)(fd), written);
    error = errno;
    end(entry, result);
    errno = error;
    return result;
}

/* --- names and sizes */

int rename(const char *from, const char *to) {
    if (is_ours(to) && is_down_to(RENAME, -1))
        return fail(-1);
    return REAL(rename)(from, to);
}

int renameat(int from_fd, const char *from, int to_fd, const char *to) {
    if (is_ours(to) && is_down_to(RENAME, -1))
        return fail(-1);
    return REAL(renameat)(from_fd, from, to_fd, to);
}

int unlink(const char *path) {
    if (is_ours(path) && is_down_to(UNLINK, -1))
        return fail(-1);
    return REAL(unlink)(path);
}

static mode_t mode_of(int flags, va_list arguments) {
    return flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
}

#define OPENS(name)                                                 \
    int name(const char *path, int flags, ...) {                    \
        va_list arguments;                                          \
        mode_t mode;                                                \
        va_start(arguments, flags);                                 \
        mode = mode_of(flags, arguments);                           \
        va_end(arguments);                                          \
        if (is_ours(path) && is_down_to(OPEN, -1))                  \
            return fail(-1);                                        \
        return REAL(name)(path, flags, mode);                       \
    }
#define OPENS_AT(name)                                              \
    int name(int at, const char *path, int flags, ...) {            \
        va_list arguments;                                          \
        mode_t mode;                                                \
        va_start(arguments, flags);                                 \
        mode = mode_of(flags, arguments);                           \
        va_end(arguments);                                          \
        if (is_ours(path) && is_down_to(OPEN, -1))                  \
            return fail(-1);                                        \
        return REAL(name)(at, path, flags, mode);                   \
    }
OPENS(open)
OPENS(open64)
OPENS_AT(openat)
OPENS_AT(openat64)

int ftruncate64(int fd, off64_t size) {
    if (is_our_fd(fd) && is_down_to(FTRUNCATE, fd))
        return fail(fd);
    return REAL(ftruncate64)(fd, size);
}

int ftruncate(int fd, off_t size) {
    return ftruncate64(fd, size);
}

int fallocate64(int fd, int mode, off64_t offset, off64_t size) {
    if (is_our_fd(fd) && is_down_to(FALLOCATE, fd))
        return fail(fd);
    return REAL(fallocate64)(fd, mode, offset, size);
}

int fallocate(int fd, int mode, off_t offset, off_t size) {
    return fallocate64(fd, mode, offset, size);
}

int posix_fallocate64(int fd, off64_t offset, off64_t size) {
    if (is_our_fd(fd) && is_down_to(FALLOCATE, fd)) {
        fail(fd);
        return (int) control->fail_errno;
    }
    return REAL(posix_fallocate64)(fd, offset, size);
}

int posix_fallocate(int fd, off_t offset, off_t size) {
    return posix_fallocate64(fd, offset, size);
}

/* --- the wall clock */

int clock_gettime(clockid_t id, struct timespec *now) {
    int result = REAL(clock_gettime)(id, now);
    if (result == 0 && control && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) {
        int64_t total = (int64_t) now->tv_sec * 1000000000 + now->tv_nsec + control->wall_offset_ns;
        now->tv_sec = total / 1000000000;
        now->tv_nsec = total % 1000000000;
    }
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec exact;
    (void) zone;
    if (clock_gettime(CLOCK_REALTIME, &exact))
        return -1;
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *out) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (out)
        *out = exact.tv_sec;
    return exact.tv_sec;
}
