/* bourse.h: the matching engine for hosts in other languages.
 *
 * A host embeds Python once, loads the functions once, and from then on drives engines without the
 * interpreter and without its lock (the GIL):
 *
 *     bourse_functions bourse;
 *     Py_Initialize();
 *     if (bourse_load(&bourse) != 0) { PyErr_Print(); return 1; }   // holds the GIL
 *     bourse_engine *engine = bourse.create();
 *     PyThreadState *python = PyEval_SaveThread();                  // gives the GIL away
 *
 *     bourse.submit(engine, &command);
 *     while ((event = bourse.next_event(engine)) != NULL) { ... }
 *
 *     bourse.destroy(engine);
 *     PyEval_RestoreThread(python);
 *     Py_Finalize();
 *
 * Threads: an engine belongs to one thread at a time, any one, known to Python or not; handing it
 * over is the host's business (a mutex, a join). Two engines know nothing of each other. No function
 * but create() and destroy() touches Python; those two take the GIL themselves, so no lock that a
 * holder of the GIL may wait for can be held around them. All must be over before Py_Finalize().
 *
 * docs/library.md explains, docs/matching.md has every rule, examples/c_host is a whole host.
 */
#ifndef BOURSE_H
#define BOURSE_H

#ifndef BOURSE_TYPES_ONLY
#include <Python.h> /* wants to be before the system's headers, so bourse.h does, too */
#endif
#include <stddef.h>
#include <stdint.h>

typedef struct bourse_engine bourse_engine;

/* A request. Unnamed fields are 0. */
typedef struct {                    /* 64 bytes */
    uint8_t kind;                   /* BOURSE_NEW_ORDER ... */
    uint8_t side;                   /* BOURSE_BUY or BOURSE_SELL; 0 where it does not apply */
    uint8_t order_type;             /* BOURSE_LIMIT ...; 0 where it does not apply */
    uint8_t flags;                  /* BOURSE_BY_ORDER_ID, BOURSE_CANCEL_ORDERS */
    uint32_t instrument_id;
    uint32_t session_id;            /* who asks; 1 is the operator */
    uint32_t spare;                 /* 0 */
    uint64_t client_order_id;       /* unique among the session's live orders */
    uint64_t order_id;              /* target of a cancel by order id */
    int64_t price_ticks;
    uint64_t qty_lots;
    int64_t received_ns;            /* kept with the command; the engine does not look at it */
    int64_t client_time_ns;         /* the same */
} bourse_command;

/* A fact that followed from a command. */
typedef struct {                    /* 64 bytes */
    uint8_t kind;                   /* BOURSE_HEAD ... */
    uint8_t reason;                 /* 0: accepted; from 32: refused; docs/matching.md */
    uint8_t side;                   /* of the order that the event is about; TRADE: the maker's */
    uint8_t command_kind;           /* HEAD: kind of the command; else 0 */
    uint32_t session_id;            /* owner of the order; TRADE: the maker's */
    uint64_t sequence;              /* number of the event; HEAD: of the command */
    uint64_t client_order_id;       /* TRADE: the maker's */
    uint64_t order_id;              /* TRADE: the maker's; HEAD: the order's, 0 when refused */
    int64_t price_ticks;            /* TRADE: the maker's price */
    uint64_t qty_lots;              /* TRADE: this fill; DONE: open quantity that ended */
    uint64_t leaves_lots;           /* TRADE: the maker's open quantity after it */
    uint32_t instrument_id;
    uint32_t spare;
} bourse_event;

/* What rests at one price. */
typedef struct {                    /* 24 bytes */
    int64_t price_ticks;
    uint64_t qty_lots;              /* sum of open quantities */
    uint32_t order_count;
    uint32_t spare;
} bourse_level;

/* Kinds of commands. An instrument's symbol, up to 16 characters and zeros after them, stands in
 * client_order_id and order_id, which are neighbours. */
enum {
    BOURSE_NEW_ORDER = 1,
    BOURSE_CANCEL = 2,
    BOURSE_REPLACE = 3,
    BOURSE_SESSION_OPEN = 5,
    BOURSE_SESSION_END = 6,
    BOURSE_INSTRUMENT_DEFINE = 7
};
enum { BOURSE_BUY = 1, BOURSE_SELL = 2 };
enum {
    BOURSE_LIMIT = 1,
    BOURSE_MARKET = 2,
    BOURSE_IOC = 3,
    BOURSE_POST_ONLY = 4,
    BOURSE_FOK = 5
};
enum {
    BOURSE_BY_ORDER_ID = 1,         /* CANCEL, by the operator: the order is named by order_id */
    BOURSE_CANCEL_ORDERS = 2        /* SESSION_END: the session's orders end with it */
};
/* Kinds of events. */
enum {
    BOURSE_ACCEPTED = 1,
    BOURSE_TRADE = 2,
    BOURSE_DONE = 3,
    BOURSE_REPLACED = 4,
    BOURSE_HEAD = 16                /* first of each command: its number and its outcome */
};
/* What submit() returns. Below 0 nothing was executed. */
enum {
    BOURSE_OK = 0,                  /* executed: the exchange's answer is in the events */
    BOURSE_BAD_KIND = -1,           /* the command's kind is none */
    BOURSE_EVENTS_LEFT = -2,        /* next_event() has more of the command before */
    BOURSE_BAD_ARGUMENT = -3        /* a pointer is NULL */
};
/* What best_bid(), best_ask() and depth_at() return. */
enum {
    BOURSE_FOUND = 1,
    BOURSE_NOBODY = 0,              /* the side is empty; nobody rests at that price */
    BOURSE_UNKNOWN_INSTRUMENT = -1  /* or a NULL pointer, or no side */
};

typedef struct {
    /* An engine without instruments, with one session: 1, the operator. NULL: no memory. */
    bourse_engine *(*create)(void);
    /* Execute one command; allocates only when the books grow. */
    int (*submit)(bourse_engine *engine, const bourse_command *command);
    /* The next event of the last command, valid until the next call; NULL: that was all. */
    const bourse_event *(*next_event)(bourse_engine *engine);
    /* Between commands, that is after next_event() has returned NULL: */
    int (*best_bid)(bourse_engine *engine, uint32_t instrument_id, int64_t *price_ticks);
    int (*best_ask)(bourse_engine *engine, uint32_t instrument_id, int64_t *price_ticks);
    int (*depth_at)(bourse_engine *engine, uint32_t instrument_id, uint8_t side,
                    int64_t price_ticks, bourse_level *level);
    uint64_t (*state_digest)(bourse_engine *engine);
    uint64_t (*event_digest)(bourse_engine *engine);
    /* Give all its memory back; NULL is nothing. */
    void (*destroy)(bourse_engine *engine);
} bourse_functions;

#ifndef BOURSE_TYPES_ONLY
/* Import bourse and find its functions; 0, or -1 with a Python exception set. The GIL is held.
 * Each function's signature is compared with the installed package's. */
static inline int bourse_load(bourse_functions *functions)
{
    const struct {
        const char *name;
        const char *signature;
        void *place;
    } wanted[] = {
        {"create", "bourse_engine *(void)", &functions->create},
        {"submit", "int (bourse_engine *, bourse_command const *)", &functions->submit},
        {"next_event", "bourse_event const *(bourse_engine *)", &functions->next_event},
        {"best_bid", "int (bourse_engine *, uint32_t, int64_t *)", &functions->best_bid},
        {"best_ask", "int (bourse_engine *, uint32_t, int64_t *)", &functions->best_ask},
        {"depth_at", "int (bourse_engine *, uint32_t, uint8_t, int64_t, bourse_level *)",
         &functions->depth_at},
        {"state_digest", "uint64_t (bourse_engine *)", &functions->state_digest},
        {"event_digest", "uint64_t (bourse_engine *)", &functions->event_digest},
        {"destroy", "void (bourse_engine *)", &functions->destroy},
    };
    int result = -1;
    PyObject *published = NULL;
    PyObject *module = PyImport_ImportModule("bourse.library.c_face");
    if (module != NULL)
        published = PyObject_GetAttrString(module, "__pyx_capi__");
    if (published != NULL) {
        result = 0;
        for (size_t at = 0; at < sizeof wanted / sizeof *wanted && result == 0; at++) {
            PyObject *capsule = PyMapping_GetItemString(published, wanted[at].name);
            void *found = NULL;
            if (capsule != NULL)
                found = PyCapsule_GetPointer(capsule, wanted[at].signature);
            if (found != NULL)
                *(void **)wanted[at].place = found;
            else
                result = -1;
            Py_XDECREF(capsule);
        }
    }
    Py_XDECREF(published);
    Py_XDECREF(module);
    return result;
}
#endif

#endif
