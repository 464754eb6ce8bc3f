/* A host in C: embeds Python, loads the engine once, then drives it without the interpreter's lock.
 *
 *     ./host [COMMANDS [PYTHON]]
 *
 * COMMANDS seeded commands (100000), made by SplitMix64 as make_command() says; PYTHON is the
 * interpreter whose packages are used, for example a virtual environment's bin/python. Prints both
 * digests: the same commands give the same ones in every language and on every machine.
 */
#include "bourse.h" /* first: it includes Python.h */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t split_mix_64(uint64_t *state)
{
    uint64_t word = *state += 0x9E3779B97F4A7C15;
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9;
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB;
    return word ^ (word >> 31);
}

/* Command number 1, 2, ... of the stream: two random words each.
 *
 *     first % 100     0..19 cancel, 20..29 replace, 30..74 limit, 75..84 IOC, 85..89 post-only,
 *                     90..94 market, 95..99 FOK
 *     first >> 16     even: buy, odd: sell
 *     first >> 24     price: 990 + that % 21
 *     first >> 32     quantity: 1 + that % 20
 *     second % number + 1: the order that a cancel or a replace names
 */
static bourse_command make_command(uint64_t number, uint64_t *random)
{
    uint64_t first = split_mix_64(random);
    uint64_t second = split_mix_64(random);
    uint64_t dice = first % 100;
    bourse_command command = {.kind = BOURSE_NEW_ORDER, .session_id = 2};

    if (dice < 30) {
        command.kind = dice < 20 ? BOURSE_CANCEL : BOURSE_REPLACE;
        command.client_order_id = second % number + 1;
        if (dice < 20)
            return command;
    } else {
        command.client_order_id = number;
        command.instrument_id = 1;
        command.side = (first >> 16) % 2 == 0 ? BOURSE_BUY : BOURSE_SELL;
        command.order_type = dice < 75   ? BOURSE_LIMIT
                             : dice < 85 ? BOURSE_IOC
                             : dice < 90 ? BOURSE_POST_ONLY
                             : dice < 95 ? BOURSE_MARKET
                                         : BOURSE_FOK;
    }
    command.price_ticks = 990 + (int64_t)((first >> 24) % 21);
    command.qty_lots = 1 + (first >> 32) % 20;
    return command;
}

static void execute(const bourse_functions *bourse, bourse_engine *engine,
                    const bourse_command *command, uint64_t *event_count, uint64_t *traded_lots)
{
    const bourse_event *event;
    int answer = bourse->submit(engine, command);

    if (answer != BOURSE_OK) {
        fprintf(stderr, "host: submit() returned %d\n", answer);
        exit(1);
    }
    while ((event = bourse->next_event(engine)) != NULL) {
        *event_count += 1;
        if (event->kind == BOURSE_TRADE)
            *traded_lots += event->qty_lots;
    }
}

/* Everything here happens without Python. */
static void drive(const bourse_functions *bourse, bourse_engine *engine, uint64_t commands)
{
    bourse_command define = {.kind = BOURSE_INSTRUMENT_DEFINE, .instrument_id = 1};
    bourse_command open = {.kind = BOURSE_SESSION_OPEN, .session_id = 2};
    uint64_t random = 1, event_count = 0, traded_lots = 0;
    int64_t price_ticks;
    bourse_level level;

    memcpy(&define.client_order_id, "DEMO", 4);
    execute(bourse, engine, &define, &event_count, &traded_lots);
    execute(bourse, engine, &open, &event_count, &traded_lots);
    for (uint64_t number = 1; number <= commands; number++) {
        bourse_command command = make_command(number, &random);
        execute(bourse, engine, &command, &event_count, &traded_lots);
    }

    printf("commands %" PRIu64 ", events %" PRIu64 ", traded lots %" PRIu64 "\n", commands,
           event_count, traded_lots);
    if (bourse->best_bid(engine, 1, &price_ticks) == BOURSE_FOUND &&
        bourse->depth_at(engine, 1, BOURSE_BUY, price_ticks, &level) == BOURSE_FOUND)
        printf("best bid %" PRId64 ": %" PRIu64 " lots in %" PRIu32 " orders\n", price_ticks,
               level.qty_lots, level.order_count);
    if (bourse->best_ask(engine, 1, &price_ticks) == BOURSE_FOUND &&
        bourse->depth_at(engine, 1, BOURSE_SELL, price_ticks, &level) == BOURSE_FOUND)
        printf("best ask %" PRId64 ": %" PRIu64 " lots in %" PRIu32 " orders\n", price_ticks,
               level.qty_lots, level.order_count);
    printf("state digest 0x%016" PRIx64 "\n", bourse->state_digest(engine));
    printf("event digest 0x%016" PRIx64 "\n", bourse->event_digest(engine));
}

static int start_python(const char *executable)
{
    PyConfig config;
    PyStatus status = PyStatus_Ok();

    PyConfig_InitPythonConfig(&config);
    config.install_signal_handlers = 0; /* Ctrl-C stays the host's */
    if (executable != NULL)
        status = PyConfig_SetBytesString(&config, &config.program_name, executable);
    if (!PyStatus_Exception(status))
        status = Py_InitializeFromConfig(&config);
    PyConfig_Clear(&config);
    if (PyStatus_Exception(status)) {
        fprintf(stderr, "host: cannot start Python: %s\n", status.err_msg);
        return -1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    uint64_t commands = 100000;
    bourse_functions bourse;
    bourse_engine *engine;
    PyThreadState *python;

    if (argc > 1) {
        char *end = argv[1];
        commands = strtoull(argv[1], &end, 10);
        if (argv[1][0] < '0' || argv[1][0] > '9' || *end != '\0') {
            fprintf(stderr, "host: COMMANDS '%s' is no whole number\n"
                            "usage: host [COMMANDS [PYTHON]]\n", argv[1]);
            return 2;
        }
    }
    if (start_python(argc > 2 ? argv[2] : NULL) != 0)
        return 1;
    if (bourse_load(&bourse) != 0) {
        if (PyErr_ExceptionMatches(PyExc_ModuleNotFoundError))
            fprintf(stderr, "host: this Python does not find bourse; name the one that has it: "
                            "host COMMANDS .venv/bin/python\n");
        PyErr_Print();
        return 1;
    }

    python = PyEval_SaveThread(); /* the lock is given away */
    engine = bourse.create();     /* takes it for a moment */
    if (engine == NULL) {
        fprintf(stderr, "host: no memory for an engine\n");
        return 1;
    }
    if (PyGILState_Check()) {
        fprintf(stderr, "host: the interpreter's lock is still held\n");
        return 1;
    }
    drive(&bourse, engine, commands);
    bourse.destroy(engine);

    PyEval_RestoreThread(python);
    return Py_FinalizeEx() == 0 ? 0 : 1;
}
