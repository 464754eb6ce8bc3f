/* The release gate: matcher, journal thread and gateway, from the command to the client, with the end of the run.
 *
 *     step of the model                  line of the code
 *     -----------------                  ----------------
 *     matcher: records = n, ring         MatchingThread._record: ring_publish(journal), doorbell_ring(journal_bell)
 *     matcher: heads = n, ring           MatchingThread._publish_events: ring_publish(events), doorbell_ring(gateway_bell)
 *     matcher: matcher_done, ring        end of MatchingThread._serve_group
 *     journal: take, sync, durable       JournalThread._wait, _commit, _sync: store_seq_cst(durable_seq), doorbell_ring
 *     gateway: turn                      Outbound.turn: a head leaves when its sequence is at most durable_seq
 *     gateway: has_work                  Outbound.has_work: ring_ready_now, then the gate
 *
 * Both threads sleep on their doorbells as in parking.pml (memory: TSO, seq_cst stores wait for their buffer). The
 * gateway often finds the ring full of heads that are not released yet: it must sleep then, and the journal must wake it.
 *
 * Proven for COMMANDS commands, recorded in any groups: no head leaves before its record is synced; when nothing can
 * move any more every head has left, and the journal thread has ended after a matcher that has.
 *
 * Variants that must fail: BROKEN_GATE_IGNORED (heads leave unseen to disk), BROKEN_GATE_NOT_RECHECKED (before sleeping
 * the gateway looks at the ring alone), BROKEN_SILENT_JOURNAL (durable_seq moves without the bell),
 * BROKEN_RELEASE_DURABLE (durable_seq is stored with release), BROKEN_RELEASE_DONE (matcher_done is).
 */

#ifndef COMMANDS
#define COMMANDS 3
#endif
#define NONE 255

byte records = 0;                       /* the journal ring's tail */
byte heads = 0;                         /* the event ring's tail */
byte durable_seq = 0;
byte durable_buffer = NONE;             /* the journal's store buffer */
byte matcher_done = 0;
byte done_buffer = NONE;                /* the matcher's store buffer */
byte on_disk = 0;                       /* for the proof: what fdatasync has made durable */
byte passed = 0;                        /* heads that left to the clients */
bool journal_ended = false;
bool matcher_ended = false;

byte gateway_parked = 0;
byte bell = 0;                          /* the gateway's eventfd */
byte journal_parked = 0;
byte journal_asleep = 0;                /* on its futex */

inline ring_gateway(buffer) {
    if
    :: gateway_parked == 1 ->
        atomic { buffer == NONE -> was_parked = gateway_parked; gateway_parked = 0 };
        if
        :: was_parked == 1 -> bell = 1
        :: else
        fi
    :: else
    fi
}

inline ring_journal() {
    if
    :: journal_parked == 1 ->
        atomic { done_buffer == NONE -> was_parked = journal_parked; journal_parked = 0 };
        if
        :: was_parked == 1 -> journal_asleep = 0
        :: else
        fi
    :: else
    fi
}

active proctype matcher() {
    byte group = 0;
    byte was_parked;
    do
    :: heads < COMMANDS ->
        group = heads;
        do                              /* a group of any size */
        :: group < COMMANDS -> group++
        :: group > heads -> break
        od;
        records = group;
        ring_journal();
        do                              /* its events become visible at once or one by one */
        :: heads < group -> heads++; ring_gateway(done_buffer)
        :: heads < group -> heads = group; ring_gateway(done_buffer)
        :: heads == group -> break
        od
    :: break                            /* STOP, after any number of commands */
    od;
#ifdef BROKEN_RELEASE_DONE
    done_buffer = 1;
#else
    matcher_done = 1;
#endif
    ring_journal();
    ring_gateway(done_buffer);
    matcher_ended = true
}

active proctype journal() {
    byte taken = 0;                     /* head of the journal ring */
    byte ready;
    byte was_parked;
    do
    :: ready = records;
        if
        :: ready != taken ->
            taken = ready;
            on_disk = taken;            /* pwrite, fdatasync */
#ifdef BROKEN_RELEASE_DURABLE
            atomic { durable_buffer == NONE -> durable_buffer = taken };
#else
            durable_seq = taken;
#endif
#ifndef BROKEN_SILENT_JOURNAL
            ring_gateway(durable_buffer)
#endif
        :: else ->
            if
            :: matcher_done == 1 ->
                ready = records;        /* ring_ready_now, after matcher_done */
                if
                :: ready == taken -> break
                :: else
                fi
            :: else ->
                journal_parked = 1;
                ready = records;
                if
                :: ready == taken ->
                    if
                    :: matcher_done == 0 ->
                        atomic {
                            if
                            :: journal_parked == 1 -> journal_asleep = 1
                            :: else
                            fi
                        };
end_asleep:             journal_asleep == 0
                    :: else
                    fi
                :: else
                fi;
                journal_parked = 0
            fi
        fi
    od;
    journal_ended = true
}

active proctype gateway() {
    byte ready, released;
    bool worked;
    bool armed = true;
    bool found;
end_asleep:
    do
    :: armed ->
        worked = false;
        ready = heads;
        if
        :: ready != passed ->
            released = durable_seq;
            do
#ifdef BROKEN_GATE_IGNORED
            :: passed < ready ->
#else
            :: passed < ready && passed + 1 <= released ->
#endif
                d_step { passed++; worked = true; assert(passed <= on_disk) }
            :: else -> break
            od
        :: else
        fi;
        if
        :: worked
        :: else ->
            gateway_parked = 1;
            found = false;
#ifdef BROKEN_GATE_NOT_RECHECKED
            if
            :: heads != ready -> found = true
            :: else
            fi;
#else
            if
            :: heads != passed ->
                if
                :: passed + 1 <= durable_seq -> found = true
                :: else
                fi
            :: else
            fi;
#endif
            if
            :: found -> gateway_parked = 0
            :: else -> armed = false
            fi
        fi
    :: bell > 0 ->
        bell = 0;
        gateway_parked = 0;
        armed = true
    od
}

active proctype memory() {
end_empty:
    do
    :: d_step { durable_buffer != NONE -> durable_seq = durable_buffer; durable_buffer = NONE }
    :: d_step { done_buffer != NONE -> matcher_done = done_buffer; done_buffer = NONE }
    od
}

active proctype proof() {
    timeout ->                          /* nothing else can move: for ever */
    assert(matcher_ended && journal_ended);
    assert(passed == heads)
}
