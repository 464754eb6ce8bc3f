/* The ring of bourse/core/ring.pxd: one producer, one consumer, cached cursors, on weakly ordered memory.
 *
 *     step of the model                     line of the code
 *     -----------------                     ----------------
 *     producer: room, cached_head           ring_room(next, wanted)
 *     producer: write(next), two halves     the caller's stores to *ring_slot(next)
 *     producer: pending_tail = next         ring_publish(next)
 *     consumer: ready, cached_tail          ring_ready(head), ring_ready_now(head)
 *     consumer: two halves, asserted        the caller's loads from *ring_slot(head)
 *     consumer: pending_head = head         ring_release(head)
 *
 * Memory: a store waits in the writer's buffer (pending_...) and `memory` moves it out at any later moment, in any
 * order. Only what the code asks for is kept: a release store leaves after every store that its thread made before
 * it, so `tail` leaves after the slots. (The code publishes with a sequentially consistent store, which is more; this
 * proof does not need it.) A load of ours that follows an acquire load is made after it. A slot is two halves, so that
 * half a slot would be noticed. A thread that spins for room or for slots is modelled as one that blocks until the
 * other cursor has moved: if that never happened, the run would end in an invalid end state.
 *
 * Proven for COUNT slots and MESSAGES messages, every batch size on both sides: each message is read once, whole and
 * in order; no slot is written before it was read; both sides come to their ends.
 *
 * Variants that must fail: BROKEN_RELAXED_PUBLISH (tail may overtake the slots), BROKEN_EARLY_READ (slot read before
 * the cursor), BROKEN_EARLY_RELEASE (slot given back before it is read), BROKEN_ROOM (one slot too many).
 */

#ifndef COUNT
#define COUNT 2
#endif
#ifndef MESSAGES
#define MESSAGES 6
#endif
#define NONE 255
#define UNWRITTEN 200

byte low[COUNT] = UNWRITTEN;            /* the slots, as memory holds them: the position whose message they hold */
byte high[COUNT] = UNWRITTEN;
byte tail = 0;
byte head = 0;

byte pending_low[COUNT] = NONE;         /* the producer's store buffer */
byte pending_high[COUNT] = NONE;
byte pending_tail = NONE;
byte pending_head = NONE;               /* the consumer's */

byte read_count = 0;                    /* for the proof only: messages that were read whole */

inline slot_is_free(position) {
    assert(position < read_count + COUNT)               /* nothing is overwritten */
}

active proctype producer() {
    byte next = 0;
    byte cached_head = 0;
    byte first, room, wanted;
    do
    :: next < MESSAGES ->
        if                                              /* any number wanted */
        :: wanted = 1
        :: wanted = COUNT
        fi;
        d_step { room = COUNT - (next - cached_head) };
#ifdef BROKEN_ROOM
        room++;
#endif
        if
        :: room < wanted ->
            d_step { cached_head = head; room = COUNT - (next - cached_head) }
#ifdef BROKEN_ROOM
            ; room++
#endif
        :: else
        fi;
        first = next;
        do
        :: room > 0 && next < MESSAGES ->
            atomic { pending_low[next % COUNT] == NONE -> pending_low[next % COUNT] = next };
            atomic { pending_high[next % COUNT] == NONE -> pending_high[next % COUNT] = next };
            next++;
            room--
        :: next != first ->                             /* any batch size */
            atomic { pending_tail == NONE -> pending_tail = next };
            break
        :: room == 0 && next == first ->
            head != cached_head;                        /* spins until there is room */
            break
        od
    :: else -> break
    od
}

active proctype consumer() {
    byte position = 0;                                  /* head, as the consumer keeps it */
    byte cached_tail = 0;
    byte ready, taken, got_low, got_high;
    do
    :: position < MESSAGES ->
#ifdef BROKEN_EARLY_READ
        got_low = low[position % COUNT];
        got_high = high[position % COUNT];
#endif
        if
        :: cached_tail == position -> cached_tail = tail        /* ring_ready */
        :: cached_tail = tail                                   /* ring_ready_now */
        :: cached_tail != position                              /* ring_ready: some are known */
        fi;
        ready = cached_tail - position;
        assert(ready <= COUNT);
        taken = 0;
        do
        :: taken < ready ->
#ifdef BROKEN_EARLY_RELEASE
            atomic { pending_head == NONE -> pending_head = position + 1 };
#endif
#ifndef BROKEN_EARLY_READ
            got_low = low[position % COUNT];
            got_high = high[position % COUNT];
#endif
            assert(got_low == position && got_high == position);
            d_step { position++; read_count++; taken++ }
#ifdef BROKEN_EARLY_READ
            ; break
#endif
        :: taken > 0 -> break                                   /* any batch size */
        :: ready == 0 ->
            tail != cached_tail;                                /* spins until there is something */
            break
        od;
#ifndef BROKEN_EARLY_RELEASE
        if
        :: taken > 0 -> atomic { pending_head == NONE -> pending_head = position }
        :: else
        fi
#endif
    :: else -> break
    od
}

#define OLDER(slot) \
    ((pending_low[slot] == NONE || pending_low[slot] >= pending_tail) && \
     (pending_high[slot] == NONE || pending_high[slot] >= pending_tail))

#ifdef BROKEN_RELAXED_PUBLISH
#define SLOTS_HAVE_LEFT true
#elif COUNT > 2
#define SLOTS_HAVE_LEFT (OLDER(0) && OLDER(1) && OLDER(2) && OLDER(3))
#else
#define SLOTS_HAVE_LEFT (OLDER(0) && OLDER(1))
#endif

active proctype memory() {
    do
    :: d_step { pending_tail != NONE && SLOTS_HAVE_LEFT -> tail = pending_tail; pending_tail = NONE }
    :: d_step { pending_head != NONE -> head = pending_head; pending_head = NONE }
    :: d_step { pending_low[0] != NONE -> slot_is_free(pending_low[0]); low[0] = pending_low[0]; pending_low[0] = NONE }
    :: d_step { pending_high[0] != NONE -> slot_is_free(pending_high[0]); high[0] = pending_high[0]; pending_high[0] = NONE }
    :: d_step { pending_low[1] != NONE -> slot_is_free(pending_low[1]); low[1] = pending_low[1]; pending_low[1] = NONE }
    :: d_step { pending_high[1] != NONE -> slot_is_free(pending_high[1]); high[1] = pending_high[1]; pending_high[1] = NONE }
#if COUNT > 2
    :: d_step { pending_low[2] != NONE -> slot_is_free(pending_low[2]); low[2] = pending_low[2]; pending_low[2] = NONE }
    :: d_step { pending_high[2] != NONE -> slot_is_free(pending_high[2]); high[2] = pending_high[2]; pending_high[2] = NONE }
    :: d_step { pending_low[3] != NONE -> slot_is_free(pending_low[3]); low[3] = pending_low[3]; pending_low[3] = NONE }
    :: d_step { pending_high[3] != NONE -> slot_is_free(pending_high[3]); high[3] = pending_high[3]; pending_high[3] = NONE }
#endif
    :: head == MESSAGES && tail == MESSAGES && read_count == MESSAGES -> break
    od
}
