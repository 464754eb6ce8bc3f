/* A host that makes every mistake, then runs four threads that Python has never seen. */
#include "bourse.h" /* first, as Python.h wants it */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(truth) \
    do { if (!(truth)) { fprintf(stderr, "line %d: %s\n", __LINE__, #truth); exit(1); } } while (0)

static bourse_functions bourse;

static int drain(bourse_engine *engine)
{
    int count = 0;
    while (bourse.next_event(engine) != NULL)
        count++;
    return count;
}

static void send(bourse_engine *engine, bourse_command command)
{
    CHECK(bourse.submit(engine, &command) == BOURSE_OK);
}

static void prepare(bourse_engine *engine)
{
    bourse_command define = {.kind = BOURSE_INSTRUMENT_DEFINE, .instrument_id = 1};
    bourse_command open = {.kind = BOURSE_SESSION_OPEN, .session_id = 2};
    send(engine, define);
    CHECK(drain(engine) == 1);
    send(engine, open);
    CHECK(drain(engine) == 1);
}

static bourse_command order(uint8_t side, uint64_t id, int64_t price, uint64_t lots)
{
    bourse_command command = {
        .kind = BOURSE_NEW_ORDER, .order_type = BOURSE_LIMIT, .side = side, .instrument_id = 1,
        .session_id = 2, .client_order_id = id, .price_ticks = price, .qty_lots = lots};
    return command;
}

/* A thread that Python has never seen: makes an engine, sweeps, and gives it away. */
static void *sweep(void *unused)
{
    bourse_engine *engine = bourse.create();
    const bourse_event *event;
    uint64_t count = 0;
    (void)unused;
    CHECK(engine != NULL);
    prepare(engine);
    for (uint64_t id = 1; id <= 5000; id++) {
        send(engine, order(BOURSE_SELL, id, 100 + (int64_t)(id % 7), 1));
        CHECK(drain(engine) == 2);
    }
    send(engine, order(BOURSE_BUY, 5001, 200, 5000));
    while ((event = bourse.next_event(engine)) != NULL)
        count += event->kind == BOURSE_TRADE;
    CHECK(count == 5000);
    CHECK(bourse.next_event(engine) == NULL);
    CHECK(bourse.state_digest(engine) == 0);
    return engine;
}

int main(int argc, char **argv)
{
    bourse_engine *engine;
    bourse_command command;
    bourse_level level;
    int64_t price;
    pthread_t threads[4];
    uint64_t digests[4];
    PyConfig config;
    PyThreadState *python;

    CHECK(argc == 2);
    PyConfig_InitPythonConfig(&config);
    PyConfig_SetBytesString(&config, &config.program_name, argv[1]);
    CHECK(!PyStatus_Exception(Py_InitializeFromConfig(&config)));
    PyConfig_Clear(&config);
    CHECK(bourse_load(&bourse) == 0);
    engine = bourse.create(); /* with the GIL held */
    python = PyEval_SaveThread();
    CHECK(engine != NULL);

    for (int kind = 0; kind < 256; kind++) {
        command = order(BOURSE_BUY, 1, 1, 1);
        command.kind = (uint8_t)kind;
        if (kind == 0 || kind > 10)
            CHECK(bourse.submit(engine, &command) == BOURSE_BAD_KIND);
    }
    CHECK(bourse.submit(NULL, &command) == BOURSE_BAD_ARGUMENT);
    CHECK(bourse.submit(engine, NULL) == BOURSE_BAD_ARGUMENT);
    CHECK(bourse.next_event(engine) == NULL);
    CHECK(bourse.next_event(NULL) == NULL);
    CHECK(bourse.best_bid(engine, 1, &price) == BOURSE_UNKNOWN_INSTRUMENT);
    CHECK(bourse.best_bid(NULL, 1, &price) == BOURSE_UNKNOWN_INSTRUMENT);
    CHECK(bourse.depth_at(engine, 1, BOURSE_BUY, 1, &level) == BOURSE_UNKNOWN_INSTRUMENT);
    CHECK(bourse.event_digest(NULL) == 0 && bourse.state_digest(NULL) == 0);
    bourse.destroy(NULL);

    prepare(engine);
    CHECK(bourse.best_bid(engine, 1, &price) == BOURSE_NOBODY);
    CHECK(bourse.best_bid(engine, 1, NULL) == BOURSE_UNKNOWN_INSTRUMENT);
    CHECK(bourse.depth_at(engine, 1, BOURSE_BUY, 5, &level) == BOURSE_NOBODY);
    CHECK(level.price_ticks == 5 && level.qty_lots == 0 && level.order_count == 0);
    CHECK(bourse.depth_at(engine, 1, 3, 5, &level) == BOURSE_UNKNOWN_INSTRUMENT);
    CHECK(bourse.depth_at(engine, 1, BOURSE_BUY, 5, NULL) == BOURSE_UNKNOWN_INSTRUMENT);

    command = order(BOURSE_BUY, 1, -5, 7);
    CHECK(bourse.submit(engine, &command) == BOURSE_OK);
    CHECK(bourse.submit(engine, &command) == BOURSE_EVENTS_LEFT);
    CHECK(bourse.next_event(engine)->kind == BOURSE_HEAD);
    CHECK(bourse.submit(engine, &command) == BOURSE_EVENTS_LEFT);
    CHECK(drain(engine) == 1);
    CHECK(bourse.submit(engine, &command) == BOURSE_OK);
    CHECK(bourse.next_event(engine)->reason == 33); /* DUPLICATE_ORDER_ID */
    CHECK(drain(engine) == 1);
    CHECK(bourse.best_bid(engine, 1, &price) == BOURSE_FOUND && price == -5);
    CHECK(bourse.best_ask(engine, 1, &price) == BOURSE_NOBODY);
    CHECK(bourse.depth_at(engine, 1, BOURSE_BUY, -5, &level) == BOURSE_FOUND);
    CHECK(level.price_ticks == -5 && level.qty_lots == 7 && level.order_count == 1);
    CHECK(bourse.depth_at(engine, 1, BOURSE_SELL, -5, &level) == BOURSE_NOBODY);

    for (int at = 0; at < 4; at++)
        CHECK(pthread_create(&threads[at], NULL, sweep, NULL) == 0);
    for (int at = 0; at < 4; at++) {
        void *found;
        CHECK(pthread_join(threads[at], &found) == 0);
        digests[at] = bourse.event_digest(found);
        CHECK(digests[at] != 0 && digests[at] == digests[0]);
        bourse.destroy(found); /* by another thread than the one that made it */
    }
    bourse.destroy(engine);
    PyEval_RestoreThread(python);
    return Py_FinalizeEx();
}
