/* The physical limits that the exchange is near: what the machine takes for the least of each kind.
 *
 *     cc -O2 -pthread bench/limits.c -o /tmp/limits && /tmp/limits [DIRECTORY] [ROUNDS]
 *
 *     cache line     one line that two pinned threads write in turn, there and back
 *     system call    one that does nothing: getppid
 *     clock          clock_gettime(CLOCK_MONOTONIC)
 *     loopback TCP   40 bytes there and 32 back between two pinned threads, both polling; and both asleep in recv
 *     fdatasync      4 KiB written over what is there, and synced, in DIRECTORY (default: the one that it runs in)
 *
 * Prints the best and the median round of each in nanoseconds. A process that has one CPU has no pairs of threads.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS_MAX = 10000, TRIPS = 200, CALLS = 2000, SYNCS = 5, THERE = 40, BACK = 32 };

static int rounds = 50, first_cpu, last_cpu;

static double now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e9 + now.tv_nsec;
}

static void die(const char *what) {
    perror(what);
    exit(1);
}

static void pin(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set)) die("sched_setaffinity");
}

static int by_size(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static void say(const char *name, double *each_ns) {
    qsort(each_ns, rounds, sizeof *each_ns, by_size);
    printf("%-22s%12.1f%12.1f\n", name, each_ns[0], each_ns[rounds / 2]);
    fflush(stdout);
}

static double each[ROUNDS_MAX];

/* --- A cache line ------------------------------------------------------------------------------ */

static struct {
    uint64_t number;
    char pad[120];
} ball __attribute__((aligned(128)));

static void wait_for(uint64_t number) {
    for (unsigned looks = 0; __atomic_load_n(&ball.number, __ATOMIC_ACQUIRE) != number; looks++)
        if (looks > 100000) sched_yield();  /* somebody else has the other CPU */
}

static void *give_back(void *unused) {
    (void)unused;
    pin(last_cpu);
    for (uint64_t trip = 0; trip < (uint64_t)rounds * TRIPS; trip++) {
        wait_for(2 * trip + 1);
        __atomic_store_n(&ball.number, 2 * trip + 2, __ATOMIC_RELEASE);
    }
    return NULL;
}

static void cache_line(void) {
    pthread_t other;
    uint64_t trip = 0;
    if (pthread_create(&other, NULL, give_back, NULL)) die("pthread_create");
    for (int round = 0; round < rounds; round++) {
        double start = now_ns();
        for (int turn = 0; turn < TRIPS; turn++, trip++) {
            __atomic_store_n(&ball.number, 2 * trip + 1, __ATOMIC_RELEASE);
            wait_for(2 * trip + 2);
        }
        each[round] = (now_ns() - start) / TRIPS;
    }
    pthread_join(other, NULL);
    say("cache line", each);
}

/* --- Loopback TCP ------------------------------------------------------------------------------ */

static int polling, there_fd;

static void take(int fd, char *data, int count) {
    int have = 0;
    for (unsigned looks = 0; have < count;) {
        ssize_t got = recv(fd, data + have, count - have, polling ? MSG_DONTWAIT : 0);
        if (got > 0) have += got;
        else if (got == 0) die("the other side hung up");
        else if (errno != EAGAIN && errno != EINTR) die("recv");
        else if (++looks % 1000 == 0) sched_yield();
    }
}

static void give(int fd, const char *data, int count) {
    if (send(fd, data, count, MSG_NOSIGNAL) != count) die("send");
}

static void *answer(void *unused) {
    char data[THERE] = {0};
    (void)unused;
    pin(last_cpu);
    for (int trip = 0; trip < rounds * TRIPS; trip++) {
        take(there_fd, data, THERE);
        give(there_fd, data, BACK);
    }
    return NULL;
}

static void loopback(const char *name, int with_polling) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM, 0);
    char data[THERE] = {0};
    pthread_t other;
    polling = with_polling;
    if (bind(listener, (void *)&address, length) || listen(listener, 1)) die("listen");
    if (getsockname(listener, (void *)&address, &length)) die("getsockname");
    if (connect(fd, (void *)&address, length)) die("connect");
    if ((there_fd = accept(listener, NULL, NULL)) < 0) die("accept");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(there_fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (pthread_create(&other, NULL, answer, NULL)) die("pthread_create");
    for (int round = 0; round < rounds; round++) {
        double start = now_ns();
        for (int turn = 0; turn < TRIPS; turn++) {
            give(fd, data, THERE);
            take(fd, data, BACK);
        }
        each[round] = (now_ns() - start) / TRIPS;
    }
    pthread_join(other, NULL);
    close(fd), close(there_fd), close(listener);
    say(name, each);
}

/* --- One thread -------------------------------------------------------------------------------- */

static void system_call(void) {
    for (int round = 0; round < rounds; round++) {
        double start = now_ns();
        for (int turn = 0; turn < CALLS; turn++) syscall(SYS_getppid);
        each[round] = (now_ns() - start) / CALLS;
    }
    say("system call", each);
}

static void read_clock(void) {
    volatile double last = 0;
    for (int round = 0; round < rounds; round++) {
        double start = now_ns();
        for (int turn = 0; turn < CALLS; turn++) last = now_ns();
        each[round] = (now_ns() - start) / CALLS;
    }
    (void)last;
    say("clock", each);
}

static void sync_disk(const char *directory) {
    char path[4096], *page = aligned_alloc(4096, 4096);
    snprintf(path, sizeof path, "%s/limits-XXXXXX", directory);
    int fd = mkstemp(path);
    if (fd < 0 || !page) die(path);
    unlink(path);
    memset(page, 0x5a, 4096);
    if (pwrite(fd, page, 4096, 0) != 4096 || fsync(fd)) die("fsync");
    for (int round = 0; round < rounds; round++) {
        double start = now_ns();
        for (int turn = 0; turn < SYNCS; turn++)
            if (pwrite(fd, page, 4096, 0) != 4096 || fdatasync(fd)) die("fdatasync");
        each[round] = (now_ns() - start) / SYNCS;
    }
    close(fd);
    say("write, fdatasync", each);
}

int main(int count, char **words) {
    cpu_set_t set;
    if (count > 2) rounds = atoi(words[2]);
    if (rounds < 1 || rounds > ROUNDS_MAX) {
        fprintf(stderr, "rounds must be 1 to %d\n", ROUNDS_MAX);
        return 2;
    }
    if (sched_getaffinity(0, sizeof set, &set)) die("sched_getaffinity");
    for (first_cpu = 0; !CPU_ISSET(first_cpu, &set);) first_cpu++;
    for (last_cpu = CPU_SETSIZE - 1; !CPU_ISSET(last_cpu, &set);) last_cpu--;
    printf("%-22s%12s%12s\n", "nanoseconds", "best", "median");
    pin(first_cpu);
    system_call();
    read_clock();
    if (first_cpu != last_cpu) {
        cache_line();
        loopback("loopback TCP, polling", 1);
        loopback("loopback TCP, asleep", 0);
    }
    sync_disk(count > 1 ? words[1] : ".");
    return 0;
}
