/* The doorbell of bourse/core/parking.pxd: one waiter, two ringers, no lost wake-up.
 *
 *     step of the model                line of the code
 *     -----------------                ----------------
 *     ringer: publish                  ring_publish(), store_seq_cst(&shared.durable_seq, ...)
 *     ringer: parked? exchange         doorbell_ring(): load32_seq_cst, then exchange32_seq_cst
 *     ringer: wake                     futex_wake(), or eventfd_ring()
 *     waiter: arm, look, disarm        doorbell_arm(), ring_ready_now() or Outbound.has_work(), doorbell_disarm()
 *
 *   SLEEP_FUTEX: the loop of MatchingThread._wait_for_commands and JournalThread._wait, without the spinning
 *     and without a time limit.
 *     waiter: atomic compare, asleep   doorbell_sleep(): the kernel sleeps only while the word is 1
 *   else: the event loop of gateway.py
 *     turn                             Gateway._on_turn: turn, arm, has_work, and sleep by returning to the loop
 *     bell > 0                         Gateway._on_bell: the eventfd stays readable until it is read, then _arm()
 *     socket                           Gateway.on_bytes -> _arm(): another reason to wake, at any moment
 *
 * Memory: x86's kind (TSO). A store waits in its thread's buffer and leaves at any later moment; a sequentially
 * consistent store, and the exchange, wait until the buffer is empty. The broken variants use the buffer.
 *
 * A ringer may stop after any number of publications, so no lost wake-up is repaired by luck. When nothing can move any
 * more, everything that was published has been seen.
 *
 * Variants that must fail: BROKEN_NO_RECHECK (sleeps without looking again), BROKEN_RECHECK_FIRST (looks, then arms),
 * BROKEN_RING_FIRST (`parked` is looked at before the work is published), BROKEN_RELEASE_PUBLISH (publishes with a
 * release store), BROKEN_RELEASE_ARM (arms with one), BROKEN_BLIND_SLEEP (futex: sleeps without comparing the word).
 */

#define RINGERS 2
#ifndef TIMES
#define TIMES 2                         /* publications of each ringer at most */
#endif
#ifndef SOCKETS
#define SOCKETS 2
#endif
#define NONE 255

byte work[RINGERS] = 0;                 /* how much each has published, in memory */
byte work_buffer[RINGERS] = NONE;       /* the same in its store buffer */
byte parked = 0;
byte parked_buffer = NONE;              /* the waiter's store buffer */
byte asleep = 0;                        /* futex: in the kernel's queue */
byte bell = 0;                          /* eventfd: its counter; more than one is as good as one */
byte socket = 0;                        /* another file descriptor that is readable */
byte seen[RINGERS] = 0;

inline publish() {
#ifdef BROKEN_RELEASE_PUBLISH
    atomic { work_buffer[_pid] == NONE -> work_buffer[_pid] = published }
#else
    work[_pid] = published
#endif
}

inline ring() {
    if
    :: parked == 1 ->
        atomic { work_buffer[_pid] == NONE -> was_parked = parked; parked = 0 };
        if
#ifdef SLEEP_FUTEX
        :: was_parked == 1 -> asleep = 0
#else
        :: was_parked == 1 -> bell = 1
#endif
        :: else
        fi
    :: else
    fi
}

active [RINGERS] proctype ringer() {    /* processes 0 and 1 */
    byte published = 0;
    byte was_parked;
    do
    :: published < TIMES ->
        published++;
#ifdef BROKEN_RING_FIRST
        ring();
        publish()
#else
        publish();
        ring()
#endif
    :: break
    od
}

inline look() {                         /* the two are looked at one after the other */
    found = 0;
    d_step { now_seen = work[0]; found = found || now_seen != seen[0] };
    d_step { now_seen = work[1]; found = found || now_seen != seen[1]; now_seen = 0 }
}

inline take() {                         /* as in look(), and what is there is served */
    found = 0;
    d_step { now_seen = work[0]; found = found || now_seen != seen[0]; seen[0] = now_seen };
    d_step { now_seen = work[1]; found = found || now_seen != seen[1]; seen[1] = now_seen; now_seen = 0 }
}

inline arm() {
#ifdef BROKEN_RELEASE_ARM
    atomic { parked_buffer == NONE -> parked_buffer = 1 }
#else
    atomic { parked_buffer == NONE -> parked = 1 }
#endif
}

inline disarm() {
    atomic { parked_buffer == NONE -> parked = 0 }
}

inline arm_and_look() {
#ifdef BROKEN_RECHECK_FIRST
    look();
    arm()
#else
    arm();
#ifdef BROKEN_NO_RECHECK
    found = 0
#else
    look()
#endif
#endif
}

#ifdef SLEEP_FUTEX

active proctype waiter() {
    bool found;
    byte now_seen;
    do
    :: take();
        if
        :: found
        :: else ->
            arm_and_look();
            if
            :: found
            :: else ->
                atomic {                /* the kernel's compare; a system call empties the store buffer */
                    parked_buffer == NONE ->
                    if
#ifdef BROKEN_BLIND_SLEEP
                    :: asleep = 1
#else
                    :: parked == 1 -> asleep = 1
                    :: else
#endif
                    fi
                };
end_asleep:     asleep == 0
            fi;
            disarm()
        fi
    od
}

#else

active proctype waiter() {
    bool found;
    byte now_seen;
    bool armed = true;                  /* a turn is coming */
    bool sleeping = false;              /* the bell will wake us */
end_asleep:
    do
    :: armed ->                         /* _on_turn */
        take();
        if
        :: found
        :: else ->
            arm_and_look();
            if
            :: found -> disarm()
            :: else -> d_step { armed = false; sleeping = true }
            fi
        fi
    :: bell > 0 ->                      /* _on_bell, also when a turn is coming anyway */
        bell = 0;
        if
        :: sleeping -> sleeping = false; disarm()
        :: else
        fi;
        armed = true
    :: socket > 0 ->                    /* on_bytes */
        socket = 0;
        if
        :: sleeping -> sleeping = false; disarm()
        :: else
        fi;
        armed = true
    od
}

active proctype clients() {
    byte sent = 0;
    do
    :: sent < SOCKETS -> sent++; socket = 1
    :: break
    od
}

#endif

active proctype memory() {
end_empty:
    do
    :: d_step { work_buffer[0] != NONE -> work[0] = work_buffer[0]; work_buffer[0] = NONE }
    :: d_step { work_buffer[1] != NONE -> work[1] = work_buffer[1]; work_buffer[1] = NONE }
    :: d_step { parked_buffer != NONE -> parked = parked_buffer; parked_buffer = NONE }
    od
}

active proctype proof() {
    timeout ->                          /* nothing else can move: for ever */
    assert(seen[0] == work[0] && seen[1] == work[1])
}
