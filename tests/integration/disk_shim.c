/* Disk faults for a test's daemon: LD_PRELOAD over pwrite and fdatasync of the log's segments.
 *
 * The test and the shim share one page (file named by DISK_SHIM, layout in disk_shim.py); all values
 * are 64 bits. Only descriptors of a segment under its final name are touched. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

struct control {
    volatile int64_t syncs;             /* fdatasync calls so far */
    volatile int64_t sync_fail_at;      /* the call of this number fails; 0: none does */
    volatile int64_t sync_errno;
    volatile int64_t sync_delay_us;     /* each call takes so much longer */
    volatile int64_t syncs_after_error; /* calls after one that failed */
    volatile int64_t writes;            /* pwrite calls so far */
    volatile int64_t write_fail_at;     /* the call of this number is short, then fails */
    volatile int64_t write_errno;       /* 0: it is only short */
    volatile int64_t write_bytes;       /* what the short write takes; -1: fails at once */
    volatile int64_t writes_after_error;
    volatile int64_t failed;            /* 1 after an error was returned */
    volatile int64_t written_end;       /* where the last write ended */
    volatile int64_t durable_end;       /* written_end as it was when the last good sync began */
    volatile int64_t fail_next_write;   /* inner: the rest of a short write fails */
};

static struct control *control;
static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);
static int (*real_fdatasync)(int);

__attribute__((constructor)) static void attach(void) {
    const char *path = getenv("DISK_SHIM");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    real_pwrite = (ssize_t (*)(int, const void *, size_t, off_t)) dlsym(RTLD_NEXT, "pwrite64");
    real_fdatasync = (int (*)(int)) dlsym(RTLD_NEXT, "fdatasync");
    if (fd >= 0) {
        void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        control = page == MAP_FAILED ? NULL : page;
        close(fd);
    }
}

static int is_segment(int fd) {
    char link[64], path[4096];
    ssize_t size;
    if (!control)
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    size = readlink(link, path, sizeof path - 1);
    if (size < 4)
        return 0;
    path[size] = 0;
    return strstr(path, "/wal/wal-") && !strcmp(path + size - 4, ".log");
}

static ssize_t fail(int64_t error) {
    control->failed = 1;
    errno = (int) error;
    return -1;
}

ssize_t pwrite64(int fd, const void *data, size_t size, off_t offset) {
    ssize_t result;
    if (!is_segment(fd))
        return real_pwrite(fd, data, size, offset);
    control->writes_after_error += control->failed;
    if (control->fail_next_write) {
        control->fail_next_write = 0;
        return fail(control->write_errno);
    }
    if (++control->writes == control->write_fail_at) {
        if (control->write_bytes < 0)
            return fail(control->write_errno);
        if (size > (size_t) control->write_bytes)
            size = (size_t) control->write_bytes;
        control->fail_next_write = control->write_errno != 0;
    }
    result = real_pwrite(fd, data, size, offset);
    if (result > 0)
        control->written_end = offset + result;
    return result;
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t offset) {
    return pwrite64(fd, data, size, offset);
}

int fdatasync(int fd) {
    int64_t end;
    int result;
    if (!is_segment(fd))
        return real_fdatasync(fd);
    end = control->written_end;
    control->syncs_after_error += control->failed;
    if (control->sync_delay_us) {
        struct timespec pause = {control->sync_delay_us / 1000000,
                                 control->sync_delay_us % 1000000 * 1000};
        nanosleep(&pause, NULL);
    }
    if (++control->syncs == control->sync_fail_at)
        return (int) fail(control->sync_errno);
    result = real_fdatasync(fd);
    if (result == 0)
        control->durable_end = end;
    return result;
}
