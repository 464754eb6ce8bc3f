/* What two CPUs take to hand each other cache lines, and nothing else: the floor under `pipeline`.
 *
 *     cc -O2 -pthread bench/ring_floor.c -o /tmp/ring_floor && /tmp/ring_floor
 *
 *     ball   one line that both write in turn: the ping-pong
 *     1 / 1  one line there, another one back, no more in them than the number that says it is there
 *     1 / 3  as a Market order and its three events: 64 bytes each, written and read, no work between
 *     2 / 7  as two orders that meet and their seven events
 *
 * The number stands in the first line of a message and is written last: a reader waits for the line
 * that it wants to read, not for a cursor on another one. Batches of each row take turns with the ball.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TRIPS = 500, COMMANDS = 1 << 16, EVENTS = 1 << 18, NUMBER = 7 };

typedef struct {
    uint64_t words[8];
} __attribute__((aligned(64))) Line;

typedef struct {
    const char *name;
    int there, back, words;
} Row;

static const Row ROWS[] = {{"1 / 1", 1, 1, 0}, {"1 / 3", 1, 3, 7}, {"2 / 7", 2, 7, 7}};
enum { ROW_COUNT = sizeof ROWS / sizeof ROWS[0] };

static Line *commands, *events;
static uint64_t ball[32] __attribute__((aligned(256)));
static int batches = 200;
static int cpus[2];

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t) t.tv_sec * 1000000000 + t.tv_nsec;
}

static void pin(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof set, &set);
}

static void await(uint64_t *word, uint64_t value) {
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != value)
        ;
}

/* Write a message of `count` lines at `position`, the first one's number last. */
static void put(Line *ring, uint64_t mask, uint64_t position, int count, int words) {
    for (int k = count - 1; k >= 0; k--) {
        Line *line = &ring[(position + k) & mask];
        for (int w = 0; w < words; w++)
            line->words[w] = position + w;
        __atomic_store_n(&line->words[NUMBER], k ? 0 : position + 1, __ATOMIC_RELEASE);
    }
}

/* Wait for a message, read it; return the sum of its words. */
static uint64_t take(Line *ring, uint64_t mask, uint64_t position, int count, int words) {
    uint64_t sum = 0;
    await(&ring[position & mask].words[NUMBER], position + 1);
    for (int k = 0; k < count; k++)
        for (int w = 0; w < words; w++)
            sum += ring[(position + k) & mask].words[w];
    return sum;
}

/* The sum of the words of a message at `position`. */
static uint64_t expected(uint64_t position, int count, int words) {
    return (uint64_t) count * (position * words + words * (words - 1) / 2);
}

static void *answer(void *unused) {
    uint64_t bounced = 0, head = 0, tail = 0;
    pin(cpus[1]);
    for (int batch = 0; batch < batches; batch++)
        for (int row = 0; row < ROW_COUNT; row++) {
            Row r = ROWS[row];
            for (int i = 0; i < TRIPS; i++) {
                await(ball, bounced + 1);
                bounced += 2;
                __atomic_store_n(ball, bounced, __ATOMIC_RELEASE);
            }
            for (int i = 0; i < TRIPS; i++) {
                if (take(commands, COMMANDS - 1, head, r.there, r.words) !=
                    expected(head, r.there, r.words))
                    abort();
                put(events, EVENTS - 1, tail, r.back, r.words);
                head += r.there;
                tail += r.back;
            }
        }
    return unused;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *) a, y = *(const double *) b;
    return (x > y) - (x < y);
}

int main(int count, char **arguments) {
    if (count == 2)
        batches = atoi(arguments[1]);
    cpu_set_t allowed;
    sched_getaffinity(0, sizeof allowed, &allowed);
    int found = 0;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &allowed))
            cpus[found++ ? 1 : 0] = cpu;
    if (found < 2 || batches < 1) {
        fprintf(stderr, "two CPUs are needed, and one batch\n");
        return 2;
    }
    commands = calloc(COMMANDS, sizeof(Line));
    events = calloc(EVENTS, sizeof(Line));
    double *trips[ROW_COUNT], *bounces[ROW_COUNT];
    for (int row = 0; row < ROW_COUNT; row++) {
        trips[row] = calloc(batches, sizeof(double));
        bounces[row] = calloc(batches, sizeof(double));
    }
    pthread_t other;
    pin(cpus[0]);
    pthread_create(&other, NULL, answer, NULL);
    uint64_t bounced = 0, head = 0, tail = 0;
    for (int batch = 0; batch < batches; batch++)
        for (int row = 0; row < ROW_COUNT; row++) {
            Row r = ROWS[row];
            int64_t began = now_ns();
            for (int i = 0; i < TRIPS; i++) {
                __atomic_store_n(ball, bounced + 1, __ATOMIC_RELEASE);
                bounced += 2;
                await(ball, bounced);
            }
            bounces[row][batch] = (now_ns() - began) / (double) TRIPS;
            began = now_ns();
            for (int i = 0; i < TRIPS; i++) {
                put(commands, COMMANDS - 1, head, r.there, r.words);
                if (take(events, EVENTS - 1, tail, r.back, r.words) !=
                    expected(tail, r.back, r.words))
                    abort();
                head += r.there;
                tail += r.back;
            }
            trips[row][batch] = (now_ns() - began) / (double) TRIPS;
        }
    pthread_join(other, NULL);
    printf("lines    trip ns   ball ns   ratio\n");
    for (int row = 0; row < ROW_COUNT; row++) {
        qsort(trips[row], batches, sizeof(double), by_value);
        qsort(bounces[row], batches, sizeof(double), by_value);
        double trip = trips[row][batches / 2], bounce = bounces[row][batches / 2];
        printf("%-7s %8.0f  %8.0f  %6.2f\n", ROWS[row].name, trip, bounce, trip / bounce);
    }
    return 0;
}
