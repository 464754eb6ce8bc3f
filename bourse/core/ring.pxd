# A bounded queue of fixed-size slots between exactly one producer and one consumer thread (SPSC).
#
#     slots      [ . . c c c c c p p . . ]        position & mask = slot index
#                      ^head     ^tail  ^next      positions count for ever, from 0
#
#     producer: `ring_room(next)` slots may be written from `next`; `ring_publish(next)` makes them visible
#     consumer: `ring_ready(head)` slots may be read from `head`;  `ring_release(head)` gives them back
#
# Each side keeps its own position in a local variable and a cached copy of the other side's cursor, so the
# other side's cache line is touched only when the cached value runs out. What one side writes is on lines of its own,
# and so are the copies that only one side uses; 128 bytes apart, a line and the one that the prefetcher takes with it.

from libc.stdint cimport uint8_t, uint64_t

from bourse.core.atomics cimport load_acquire, load_seq_cst, store_release, store_seq_cst


cdef struct Ring:
    uint8_t *slots
    uint64_t count              # slots, a power of two
    uint64_t mask               # count - 1
    uint64_t slot_bytes
    uint64_t pad0[12]
    uint64_t tail               # producer writes, consumer reads: first position not yet published
    uint64_t pad1[15]
    uint64_t cached_head        # producer alone: its copy of head
    uint64_t pad2[15]
    uint64_t head               # consumer writes, producer reads: first position not yet released
    uint64_t pad3[15]
    uint64_t cached_tail        # consumer alone: its copy of tail
    uint64_t pad4[15]


cdef inline void *ring_slot(Ring *ring, uint64_t position) noexcept nogil:
    return ring.slots + (position & ring.mask) * ring.slot_bytes


cdef inline uint64_t ring_room(Ring *ring, uint64_t next, uint64_t wanted) noexcept nogil:
    # Producer: slots that may be written from `next`; looks at the consumer only if fewer than `wanted` are known.
    cdef uint64_t room = ring.count - (next - ring.cached_head)
    if room < wanted:
        ring.cached_head = load_acquire(&ring.head)     # pairs with ring_release()
        room = ring.count - (next - ring.cached_head)
    return room


cdef inline void ring_publish(Ring *ring, uint64_t next) noexcept nogil:
    # Sequentially consistent, because a doorbell is looked at next (parking.pxd).
    store_seq_cst(&ring.tail, next)


cdef inline uint64_t ring_ready(Ring *ring, uint64_t head) noexcept nogil:
    # Consumer: slots that may be read from `head`; looks at the producer only if none is known.
    if ring.cached_tail == head:
        ring.cached_tail = load_acquire(&ring.tail)     # pairs with ring_publish()
    return ring.cached_tail - head


cdef inline uint64_t ring_ready_now(Ring *ring, uint64_t head) noexcept nogil:
    # The same, never from the cache, and ordered after doorbell_arm().
    ring.cached_tail = load_seq_cst(&ring.tail)
    return ring.cached_tail - head


cdef inline void ring_release(Ring *ring, uint64_t head) noexcept nogil:
    store_release(&ring.head, head)                     # pairs with ring_room()


cdef class RingMemory:
    cdef Ring *ring
