# A pool: slots of one size in a reserved range of addresses, which grows in place, chunk by chunk.
#
# Everything refers to everything by a slot: a 32-bit position in a pool. Slot 0 is never given out and
# means none, so zeroed memory is empty memory. Slots are reused and never leave the engine.

from libc.stdint cimport uint32_t, uint64_t


# A reserved range of addresses, usable up to `capacity` slots.
cdef struct Pool:
    void *base
    uint64_t item_bytes
    uint64_t chunk_slots            # grows by as many
    uint64_t capacity
    uint64_t reserved_bytes
    uint64_t slots_max              # slots that may ever be used
    uint64_t next_unused            # never given out yet
    uint64_t live_count             # of orders: EngineState.live_order_count
    uint32_t free                   # given back, 0 when none
    uint32_t spare


ctypedef Pool *PoolPtr


# pools.py
cdef bint pool_open(PoolPtr pool, uint64_t item_bytes, uint64_t chunk_slots, uint64_t slots_max) noexcept nogil
cdef void pool_close(PoolPtr pool) noexcept nogil
cdef bint pool_grow(PoolPtr pool) noexcept nogil


cdef inline uint64_t least(uint64_t a, uint64_t b) noexcept nogil:
    # Return the smaller number.
    return a if a < b else b


cdef inline bint pool_ready(PoolPtr pool) noexcept nogil:
    # Make sure that one slot can be taken; false when there is no memory.
    if pool.free != 0:
        return True
    if pool.next_unused >= pool.slots_max:
        return False
    return pool.next_unused < pool.capacity or pool_grow(pool)


cdef inline uint64_t pool_room(PoolPtr pool, uint64_t live_count) noexcept nogil:
    # Return how many slots can be taken for sure when so many are live.
    return least(pool.capacity, pool.slots_max) - 1 - live_count
