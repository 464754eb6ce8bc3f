"""Takes a pool's memory from the kernel and gives it back (pools.pxd). Compiled only."""

from __future__ import annotations

import cython
from cython.cimports.bourse.core.memory import commit, reserve, unmap
from cython.cimports.libc.stdint import uint64_t


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def pool_open(
    pool: PoolPtr, item_bytes: uint64_t, chunk_slots: uint64_t, slots_max: uint64_t
) -> cython.bint:
    """Prepare an empty pool; false when not even a small range of addresses is free."""
    pool.item_bytes = item_bytes
    pool.chunk_slots = chunk_slots
    pool.slots_max = slots_max
    pool.capacity = 0
    pool.next_unused = 1
    pool.live_count = 0
    pool.free = 0
    pool.base = cython.NULL
    # A limit on the process's address space leaves room for fewer.
    while pool.base == cython.NULL and pool.slots_max >= chunk_slots:
        pool.reserved_bytes = pool.slots_max * item_bytes
        pool.base = reserve(pool.reserved_bytes)
        if pool.base == cython.NULL:
            pool.slots_max //= 2
    return pool.base != cython.NULL


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def pool_close(pool: PoolPtr) -> cython.void:
    """Give all memory back."""
    unmap(pool.base, pool.reserved_bytes)
    pool.base = cython.NULL


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def pool_grow(pool: PoolPtr) -> cython.bint:
    """Make one more chunk usable; false when there is no memory."""
    start: cython.p_char = cython.cast(cython.p_char, pool.base) + pool.capacity * pool.item_bytes
    if (pool.capacity + pool.chunk_slots) * pool.item_bytes > pool.reserved_bytes:
        return False
    if not commit(start, pool.chunk_slots * pool.item_bytes):
        return False
    pool.capacity += pool.chunk_slots
    return True
