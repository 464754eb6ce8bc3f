"""Three compiled threads on two tiny rings and one doorbell, as the gateway has them.

    producer 0 ──► ring 0 ──┐
                            ├──► consumer, who sleeps on one doorbell that both ring
    producer 1 ──► ring 1 ──┘

Each slot's eight words follow from ring and position, so that a torn, lost, repeated or overtaken
slot is counted as an error. A producer that finds its ring full waits as the matcher does (a short
sleep with a limit on its own doorbell); the consumer waits without one: a lost wake-up hangs.
`mistake` breaks the ring on purpose, for the proof that ThreadSanitizer notices.
"""

import cython
from cython.cimports.bourse.core.atomics import cpu_relax, store_relaxed, yield_cpu
from cython.cimports.bourse.core.parking import (
    Doorbell,
    doorbell_arm,
    doorbell_disarm,
    doorbell_init,
    doorbell_ring,
    doorbell_sleep,
)
from cython.cimports.bourse.core.ring import (
    Ring,
    RingMemory,
    ring_publish,
    ring_ready,
    ring_ready_now,
    ring_release,
    ring_room,
    ring_slot,
)
from cython.cimports.libc.stdint import uint64_t
from cython.cimports.libc.stdlib import free
from cython.cimports.libc.string import memset
from cython.cimports.posix.stdlib import posix_memalign
from cython.cimports.posix.unistd import read

BLOCK = 0
ADAPTIVE = 1
BUSY = 2

NO_MISTAKE = 0
RELAXED_PUBLISH = 1
PLAIN_PUBLISH = 2
RELAXED_RELEASE = 3

_BLOCK = cython.declare(cython.int, BLOCK)
_BUSY = cython.declare(cython.int, BUSY)
_RELAXED_PUBLISH = cython.declare(cython.int, RELAXED_PUBLISH)
_PLAIN_PUBLISH = cython.declare(cython.int, PLAIN_PUBLISH)
_RELAXED_RELEASE = cython.declare(cython.int, RELAXED_RELEASE)
_WORDS = cython.declare(cython.int, 8)
_SPINS = cython.declare(cython.int, 200)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def word_of(which: uint64_t, position: uint64_t, word: uint64_t) -> uint64_t:
    """What a slot must hold."""
    value: uint64_t = (position * 8 + word) * 2 + which + 1
    value ^= value << 13
    value ^= value >> 7
    value ^= value << 17
    return value


@cython.final
@cython.cclass
class RingHammer:
    """Two rings of `slots` slots with `messages` messages each, and the bells."""

    first: RingMemory
    second: RingMemory
    bells: cython.pointer[Doorbell]  # 0 the consumer's, 1 and 2 the producers'
    messages: uint64_t
    poll_mode: cython.int
    mistake: cython.int
    eventfd: cython.int
    errors = cython.declare(cython.ulonglong, visibility="readonly")
    sleeps = cython.declare(cython.ulonglong, visibility="readonly")

    def __init__(
        self,
        slots: cython.int,
        messages: cython.ulonglong,
        poll_mode: cython.int,
        eventfd: cython.int,
        mistake: cython.int,
    ) -> None:
        """`eventfd`: a blocking one to sleep on, or -1 for the futex."""
        memory: cython.p_void = cython.NULL
        if posix_memalign(cython.address(memory), 128, 3 * cython.sizeof(Doorbell)) != 0:
            raise MemoryError
        memset(memory, 0, 3 * cython.sizeof(Doorbell))
        self.bells = cython.cast(cython.pointer[Doorbell], memory)
        doorbell_init(cython.address(self.bells[0]), eventfd)
        doorbell_init(cython.address(self.bells[1]), -1)
        doorbell_init(cython.address(self.bells[2]), -1)
        self.first = RingMemory(slots, 64)
        self.second = RingMemory(slots, 64)
        self.messages = messages
        self.poll_mode = poll_mode
        self.eventfd = eventfd
        self.mistake = mistake

    def __dealloc__(self):
        free(self.bells)

    def produce(self, which: cython.int) -> None:
        """A producer's thread."""
        ring: cython.pointer[Ring] = self.first.ring if which == 0 else self.second.ring
        with cython.nogil:
            self._produce(ring, which)

    def consume(self) -> None:
        """The consumer's thread."""
        with cython.nogil:
            self._consume()

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _produce(self, ring: cython.pointer[Ring], which: uint64_t) -> cython.void:
        bell: cython.pointer[Doorbell] = cython.address(self.bells[which + 1])
        slot: cython.pointer[uint64_t]
        next_position: uint64_t = 0
        random: uint64_t = 362436069 + which
        room: uint64_t
        batch: uint64_t
        word: uint64_t
        while next_position < self.messages:
            random ^= random << 13
            random ^= random >> 7
            random ^= random << 17
            batch = 1 + random % ring.count
            room = ring_room(ring, next_position, batch)
            if room == 0:
                if self.poll_mode == _BUSY or random & 1024:
                    yield_cpu()
                else:
                    doorbell_arm(bell)
                    doorbell_sleep(bell, 50_000)
                    doorbell_disarm(bell)
                continue
            batch = min(batch, room, self.messages - next_position)
            while batch:
                slot = cython.cast(cython.pointer[uint64_t], ring_slot(ring, next_position))
                for word in range(_WORDS):
                    slot[word] = word_of(which, next_position, word)
                next_position += 1
                batch -= 1
            if self.mistake == _RELAXED_PUBLISH:
                store_relaxed(cython.address(ring.tail), next_position)
            elif self.mistake == _PLAIN_PUBLISH:
                ring.tail = next_position
            else:
                ring_publish(ring, next_position)
            doorbell_ring(cython.address(self.bells[0]))

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _take(
        self, ring: cython.pointer[Ring], which: uint64_t, head: uint64_t, most: uint64_t
    ) -> uint64_t:
        """Check and give back at most `most` slots; returns the new head."""
        slot: cython.pointer[uint64_t]
        word: uint64_t
        ready: uint64_t = ring_ready(ring, head)
        if ready > ring.count:
            self.errors += 1
        ready = min(ready, most)
        if ready == 0:
            return head
        while ready:
            slot = cython.cast(cython.pointer[uint64_t], ring_slot(ring, head))
            for word in range(_WORDS):
                if slot[word] != word_of(which, head, word):
                    self.errors += 1
            head += 1
            ready -= 1
        if self.mistake == _RELAXED_RELEASE:
            store_relaxed(cython.address(ring.head), head)
        else:
            ring_release(ring, head)
        return head

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _consume(self) -> cython.void:
        bell: cython.pointer[Doorbell] = cython.address(self.bells[0])
        first: cython.pointer[Ring] = self.first.ring
        second: cython.pointer[Ring] = self.second.ring
        first_head: uint64_t = 0
        second_head: uint64_t = 0
        before: uint64_t
        counter: uint64_t
        random: uint64_t = 362436069
        polls: cython.int = 0
        while first_head + second_head < 2 * self.messages:
            random ^= random << 13
            random ^= random >> 7
            random ^= random << 17
            before = first_head + second_head
            first_head = self._take(first, 0, first_head, 1 + random % first.count)
            second_head = self._take(second, 1, second_head, 1 + (random >> 20) % second.count)
            if first_head + second_head != before:
                polls = 0
                continue
            if self.poll_mode != _BLOCK:
                polls += 1
                cpu_relax()
                if polls < _SPINS or self.poll_mode == _BUSY:
                    if polls % 16 == 0:
                        yield_cpu()
                    continue
                polls = 0
            doorbell_arm(bell)
            if ring_ready_now(first, first_head) == 0 and ring_ready_now(second, second_head) == 0:
                self.sleeps += 1
                if self.eventfd >= 0:
                    # Sleeps until the bell is readable: what epoll and _on_bell do together.
                    read(self.eventfd, cython.address(counter), 8)
                else:
                    doorbell_sleep(bell, -1)
            doorbell_disarm(bell)
        if ring_ready_now(first, first_head) or ring_ready_now(second, second_head):
            self.errors += 1
