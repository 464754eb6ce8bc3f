"""Takes the memory of an engine, keeps room ahead in it and gives it back (books.pxd).

Compiled only.
"""

from __future__ import annotations

import cython
from cython.cimports.bourse.core.digests import P1, P2, fold
from cython.cimports.bourse.core.indexes import (
    index_close,
    index_open,
    index_ready,
    index_room,
    room,
    table_bytes,
    table_close,
    table_open,
    table_ready,
)
from cython.cimports.bourse.core.memory import prefault
from cython.cimports.bourse.core.pools import (
    PoolPtr,
    least,
    pool_close,
    pool_grow,
    pool_open,
    pool_ready,
    pool_room,
)
from cython.cimports.bourse.core.structures import (
    Block,
    BookSide,
    Level,
    Order,
    OrderPtr,
    Session,
    SidePtr,
)
from cython.cimports.libc.stdint import uint32_t, uint64_t
from cython.cimports.libc.stdlib import free
from cython.cimports.libc.string import memset

# Live orders that one engine can hold at most: 64 GiB of them, reserved as address space.
ORDERS_MAX = cython.declare(uint64_t, 1 << 30)

# Places that the indexes begin with, powers of two.
CLIENT_PLACES = cython.declare(uint64_t, 1 << 11)
ID_PLACES = cython.declare(uint64_t, 1 << 10)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def books_open(books: BooksPtr) -> cython.bint:
    """Take memory for an empty engine; false when there is none. Close it either way."""
    ok: cython.bint
    memset(books, 0, cython.sizeof(Books))
    books.state.next_order_id = 1
    books.state.next_priority = 1
    ok = pool_open(cython.address(books.order_pool), cython.sizeof(Order), 1 << 16, ORDERS_MAX)
    ok &= pool_open(cython.address(books.level_pool), cython.sizeof(Level), 1 << 14, 1 << 26)
    ok &= pool_open(cython.address(books.block_pool), cython.sizeof(Block), 1 << 8, 1 << 20)
    ok &= pool_open(cython.address(books.session_pool), cython.sizeof(Session), 1 << 12, 1 << 26)
    ok &= pool_open(cython.address(books.side_pool), cython.sizeof(BookSide), 1 << 12, 1 << 24)
    ok &= index_open(cython.address(books.by_client), CLIENT_PLACES)
    ok &= table_open(cython.address(books.by_order_id), CLIENT_PLACES)
    ok &= index_open(cython.address(books.by_session_id), ID_PLACES)
    ok &= index_open(cython.address(books.by_instrument_id), ID_PLACES)
    ok = ok and pool_grow(cython.address(books.session_pool))
    ok = ok and pool_grow(cython.address(books.side_pool))
    # Memory lies somewhere else in every process; that moves keys in the index, and no event.
    books.multiplier = fold(cython.cast(uint64_t, books.order_pool.base) + P2, P1) | 1
    books.side_pool.next_unused = 2
    return ok


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def books_expect(books: BooksPtr, orders: uint64_t) -> cython.bint:
    """Take and touch the memory for so many orders now; false when there is none.

    No order among them waits for a page or for an index that grows, and what a large book touches
    lies in huge pages: fewer walks through page tables. There is no order yet.
    """
    pool: PoolPtr = cython.address(books.order_pool)
    places: uint64_t = CLIENT_PLACES
    while room(places - 1, 0) <= orders:
        places *= 2
    index_close(cython.address(books.by_client))
    table_close(cython.address(books.by_order_id))
    if not index_open(cython.address(books.by_client), places):
        return False
    if not table_open(cython.address(books.by_order_id), places):
        return False
    while pool.capacity <= orders + 1:
        if not pool_grow(pool):
            return False
    prefault(pool.base, pool.capacity * pool.item_bytes)
    prefault(books.by_client.entries, table_bytes(books.by_client.mask))
    prefault(books.by_order_id.slots, places * cython.sizeof(uint32_t))
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def books_close(books: BooksPtr) -> cython.void:
    """Give all memory back."""
    slot: uint64_t
    side: SidePtr
    if books.side_pool.base != cython.NULL and books.side_pool.capacity != 0:
        for slot in range(2, books.side_pool.next_unused):
            side = side_at(books, cython.cast(uint32_t, slot))
            free(side.separators)
            free(side.blocks)
    pool_close(cython.address(books.order_pool))
    pool_close(cython.address(books.level_pool))
    pool_close(cython.address(books.block_pool))
    pool_close(cython.address(books.session_pool))
    pool_close(cython.address(books.side_pool))
    index_close(cython.address(books.by_client))
    table_close(cython.address(books.by_order_id))
    index_close(cython.address(books.by_session_id))
    index_close(cython.address(books.by_instrument_id))


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def make_ready(books: BooksPtr) -> cython.bint:
    """Make room for one more order, and note for how many more there is room then."""
    sure: uint64_t
    books.by_client.count = books.state.live_order_count
    if not (
        pool_ready(cython.address(books.order_pool))
        and pool_ready(cython.address(books.level_pool))
        and pool_ready(cython.address(books.block_pool))
        and index_ready(cython.address(books.by_client))
        and table_ready(
            cython.address(books.by_order_id),
            cython.cast(OrderPtr, books.order_pool.base),
            books.state.live_order_count,
        )
    ):
        return False
    sure = least(
        least(
            pool_room(cython.address(books.order_pool), books.state.live_order_count),
            pool_room(cython.address(books.level_pool), books.level_pool.live_count),
        ),
        pool_room(cython.address(books.block_pool), books.block_pool.live_count),
    )
    sure = least(sure, index_room(cython.address(books.by_client)))
    sure = least(sure, index_room(cython.address(books.by_order_id.strays)))
    if books.by_order_id.old_slots != cython.NULL or books.by_order_id.refuse.size_bytes != 0:
        sure = 1
    sure = least(sure, room(books.by_order_id.mask, books.state.live_order_count))
    books.sure_count = sure if sure != 0 else 1
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def books_bytes(books: BooksPtr) -> uint64_t:
    """Return the address space of pools and indexes; pages not yet used cost nothing."""
    total: uint64_t = (
        books.order_pool.capacity * cython.sizeof(Order)
        + books.level_pool.capacity * cython.sizeof(Level)
        + books.block_pool.capacity * cython.sizeof(Block)
        + books.session_pool.capacity * cython.sizeof(Session)
        + books.side_pool.capacity * cython.sizeof(BookSide)
        + table_bytes(books.by_client.mask)
        + (books.by_order_id.mask + 1) * cython.sizeof(uint32_t)
        + table_bytes(books.by_order_id.strays.mask)
        + table_bytes(books.by_session_id.mask)
        + table_bytes(books.by_instrument_id.mask)
        + books.by_client.refuse.size_bytes
        + books.by_order_id.refuse.size_bytes
    )
    if books.by_client.old != cython.NULL:
        total += table_bytes(books.by_client.old_mask)
    if books.by_order_id.old_slots != cython.NULL:
        total += (books.by_order_id.old_mask + 1) * cython.sizeof(uint32_t)
    return total
