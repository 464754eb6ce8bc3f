"""Proves an engine's invariants by walking everything it holds; nothing is taken from its counters.

O(everything), with the GIL, between commands: after every command in tests, on demand elsewhere.
The digest of the state is computed anew. Compiled only: it reads books.pxd in place.
"""

from __future__ import annotations

import cython
from cython.cimports.bourse.core.books import (
    BooksPtr,
    block_at,
    level_at,
    order_at,
    session_at,
    side_at,
)
from cython.cimports.bourse.core.digests import M1, P1, P2, P3, P4, P5, fold
from cython.cimports.bourse.core.engine import Engine
from cython.cimports.bourse.core.executor import PHASE_IDLE
from cython.cimports.bourse.core.indexes import ALL_ONES, TOMBSTONE, IndexPtr
from cython.cimports.bourse.core.orders import find_client, find_order
from cython.cimports.bourse.core.registry import find_instrument, find_session
from cython.cimports.bourse.core.structures import (
    BLOCK_LEVELS,
    BlockPtr,
    LevelPtr,
    OrderPtr,
    SessionPtr,
    SidePtr,
    Uint64Ptr,
)
from cython.cimports.bourse.core.words import BUY, SELL
from cython.cimports.libc.stdint import int64_t, uint32_t, uint64_t


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def key_of(side: uint32_t, price_ticks: int64_t) -> int64_t:
    """Price to key, and key to price."""
    return price_ticks if side == BUY else ~price_ticks


@cython.cfunc
def require(holds: cython.bint, invariant_text: str) -> object:
    """Raise with the text of an invariant that does not hold."""
    if not holds:
        raise AssertionError(invariant_text)
    return None


@cython.cfunc
def check_queue(
    books: BooksPtr, level_slot: uint32_t, side_slot: uint32_t, key: int64_t, digest: Uint64Ptr
) -> object:
    """Check one level's queue; returns its order count and adds its orders' terms to the digest."""
    level: LevelPtr = level_at(books, level_slot)
    side: SidePtr = side_at(books, side_slot)
    order: OrderPtr
    slot: uint32_t = level.head
    before: uint32_t = 0
    count: uint64_t = 0
    lots: uint64_t = 0
    priority: uint64_t = 0
    # docs/matching.md, section 8, written out once more.
    shared: uint64_t = cython.cast(uint64_t, key_of(side.side, key)) * P3
    shared += (cython.cast(uint64_t, side.instrument_id) * 4 + side.side) * P5
    require(level.key == key and level.side == side_slot, "a level knows its side and price")
    require(slot != 0, "no level is empty")
    while slot != 0:
        require(slot < books.order_pool.next_unused, "a queue holds slots that exist")
        order = order_at(books, slot)
        require(order.level == level_slot, "an order is in the queue of its level")
        require(order.prev == before, "a queue's links agree both ways")
        require(0 < order.leaves_lots <= order.qty_lots, "0 < leaves <= quantity")
        require(order.leaves_lots <= ALL_ONES - lots, "no level total overflows")
        require(order.place >> 8 > priority, "a queue is in order of priority")
        require(order.place >> 8 < books.state.next_priority, "priorities were given out")
        require(0 < order.order_id < books.state.next_order_id, "order ids were given out")
        require(find_order(books, order.order_id) == slot, "an order is found by its order id")
        require(
            find_client(books, order.session, order.client_order_id) == slot,
            "an order is found by its session and client order id",
        )
        priority = order.place >> 8
        lots += order.leaves_lots
        count += 1
        digest[0] += fold(order.order_id * P1 + priority * P2 + order.leaves_lots * P4 + shared, M1)
        before = slot
        slot = order.next
        require(count <= books.state.live_order_count, "queues have no cycles")
    require(level.tail == before, "a level's tail is its youngest order")
    require(level.order_count == count, "a level counts its orders")
    require(level.qty_lots == lots, "a level's total is the sum of its orders' open quantities")
    return count


@cython.cfunc
def check_side(books: BooksPtr, side_slot: uint32_t, digest: Uint64Ptr) -> object:
    """Check one side's levels; returns its order count."""
    side: SidePtr = side_at(books, side_slot)
    block: BlockPtr
    at: uint32_t
    position: uint32_t
    key: int64_t = 0
    levels: uint64_t = 0
    orders: object = 0
    best: uint32_t = 0
    for at in range(side.block_count):
        block = block_at(books, side.blocks[at])
        require(block.slot == side.blocks[at], "a block knows its slot")
        require(block.count <= BLOCK_LEVELS, "no block is overfull")
        require(block.count > 0 or side.block_count == 1, "no block but a side's only one is empty")
        if at > 0:
            require(side.separators[at] > key, "separators are above the block before")
            require(side.separators[at] <= block.keys[0], "separators are not above their block")
        for position in range(block.count):
            require(levels == 0 or block.keys[position] > key, "a side's levels are in order")
            key = block.keys[position]
            best = block.levels[position]
            levels += 1
            orders += check_queue(books, best, side_slot, key, digest)
    require(side.level_count == levels, "a side counts its levels")
    require(side.best_level == best, "a side knows its best level")
    require(best == 0 or side.best_key == key, "a side knows its best price")
    if side.block_count == 0:
        require(side.top == cython.NULL, "an empty side has no top block")
    else:
        require(
            side.top == block_at(books, side.blocks[side.block_count - 1]),
            "a side knows its top block",
        )
    return orders


@cython.cfunc
def check_sessions(books: BooksPtr) -> object:
    """Check the sessions' lists; returns the number of orders on them."""
    slot: uint64_t
    session: SessionPtr
    order: OrderPtr
    at: uint32_t
    before: uint32_t
    count: uint64_t
    total: uint64_t = 0
    sessions: uint64_t = 0
    order_id: uint64_t
    for slot in range(1, books.session_pool.next_unused):
        session = session_at(books, slot)
        if session.session_id == 0:
            continue
        sessions += 1
        require(session.session_id <= books.state.last_session_id, "session ids were opened")
        require(find_session(books, session.session_id) == slot, "a session is found by its id")
        require(session.is_open or session.head != 0, "a session is open or has live orders")
        require(session.owner >> 32 == session.session_id, "a session knows its word in events")
        at = session.head
        before = 0
        count = 0
        order_id = 0
        while at != 0:
            order = order_at(books, at)
            require(order.leaves_lots != 0, "a session's orders are live")
            require(order.session == slot, "an order is on the list of its session")
            require(order.session_prev == before, "a session's links agree both ways")
            require(order.order_id > order_id, "a session's orders ascend by order id")
            order_id = order.order_id
            before = at
            at = order.session_next
            count += 1
            require(count <= books.state.live_order_count, "session lists have no cycles")
        require(session.tail == before, "a session's tail is its youngest order")
        total += count
    require(sessions == books.state.session_count, "sessions are counted")
    require(books.by_session_id.count == sessions, "the session index holds the sessions")
    return total


@cython.cfunc
def check_pools(books: BooksPtr, level_count: uint64_t, block_count: uint64_t) -> object:
    """Check that every slot is live or on its pool's free list."""
    slot: uint32_t
    count: uint64_t = 0
    slot = books.order_pool.free
    while slot != 0:
        require(order_at(books, slot).leaves_lots == 0, "free order slots are empty")
        slot = order_at(books, slot).next
        count += 1
    require(
        books.state.live_order_count + count == books.order_pool.next_unused - 1,
        "every order slot is live or free",
    )
    count = 0
    slot = books.level_pool.free
    while slot != 0:
        slot = level_at(books, slot).head
        count += 1
    require(books.level_pool.live_count == level_count, "the pool counts levels")
    require(
        level_count + count == books.level_pool.next_unused - 1, "every level slot is live or free"
    )
    count = 0
    slot = books.block_pool.free
    while slot != 0:
        slot = block_at(books, slot).next_free
        count += 1
    require(books.block_pool.live_count == block_count, "the pool counts blocks")
    require(
        block_count + count == books.block_pool.next_unused - 1, "every block slot is live or free"
    )
    count = 0
    slot = books.session_pool.free
    while slot != 0:
        slot = session_at(books, slot).head
        count += 1
    require(books.session_pool.live_count == books.state.session_count, "the pool counts sessions")
    require(
        books.session_pool.live_count + count == books.session_pool.next_unused - 1,
        "every session slot is live or free",
    )
    return None


@cython.cfunc
def count_table(books: BooksPtr) -> object:
    """Return how many orders the table of order ids holds."""
    position: uint64_t
    found: uint64_t = books.by_order_id.strays.count
    for position in range(books.by_order_id.mask + 1):
        found += books.by_order_id.slots[position] != 0
    if books.by_order_id.old_slots != cython.NULL:
        for position in range(books.by_order_id.old_mask + 1):
            found += books.by_order_id.old_slots[position] != 0
    return found


@cython.cfunc
def check_index(index: IndexPtr, keys: uint64_t, name: str) -> object:
    """Check that an index holds as many entries as there are keys, each reachable from its home."""
    position: uint64_t
    step: uint64_t
    found: uint64_t = 0
    for position in range(index.mask + 1):
        if index.entries[position].slot == 0:
            continue
        found += 1
        step = index.entries[position].tag & index.mask
        while step != position:
            require(index.entries[step].slot != 0, f"{name}: an entry is reachable from its home")
            step = (step + 1) & index.mask
    if index.old != cython.NULL:
        for position in range(index.old_mask + 1):
            if index.old[position].slot != 0 and index.old[position].slot != TOMBSTONE:
                require(position >= index.cursor, f"{name}: nothing is left behind the cursor")
                found += 1
    require(found == keys, f"{name}: the index holds what is live and nothing else")
    return None


def check(engine: Engine) -> None:
    """Check everything, from the books outwards.

    Raises:
        AssertionError: names the first invariant that does not hold.
    """
    books: BooksPtr = cython.address(engine.books)
    digest: uint64_t = 0
    book: uint32_t
    orders: object = 0
    levels: uint64_t = 0
    blocks: uint64_t = 0
    buy: SidePtr
    sell: SidePtr
    require(engine.phase == PHASE_IDLE, "no command is unfinished")
    for book in range(2, 2 * books.state.instrument_count + 2, 2):
        buy = side_at(books, book)
        sell = side_at(books, book + 1)
        require(
            find_instrument(books, buy.instrument_id) == book
            and sell.instrument_id == buy.instrument_id
            and buy.side == BUY
            and sell.side == SELL,
            "an instrument is found by its id",
        )
        require(
            buy.is_halted <= 1 and sell.is_halted == buy.is_halted,
            "both sides of a book are halted, or none",
        )
        if buy.is_halted:
            digest += fold((cython.cast(uint64_t, buy.instrument_id) * 4 + 3) * P5, M1)
        orders += check_side(books, book, cython.address(digest))
        orders += check_side(books, book + 1, cython.address(digest))
        levels += buy.level_count + sell.level_count
        blocks += buy.block_count + sell.block_count
        if buy.best_level != 0 and sell.best_level != 0:
            require(key_of(BUY, buy.best_key) < key_of(SELL, sell.best_key), "no book is crossed")
    require(orders == books.state.live_order_count, "live orders are counted")
    require(check_sessions(books) == orders, "every live order is on its session's list")
    check_pools(books, levels, blocks)
    check_index(cython.address(books.by_client), orders, "by_client")
    require(count_table(books) == orders, "by_order_id: the table holds what is live")
    require(books.by_instrument_id.count == books.state.instrument_count, "instruments are counted")
    check_index(
        cython.address(books.by_order_id.strays), books.by_order_id.strays.count, "by_order_id"
    )
    check_index(cython.address(books.by_session_id), books.state.session_count, "by_session_id")
    check_index(
        cython.address(books.by_instrument_id), books.state.instrument_count, "by_instrument_id"
    )
    require(books.state.state_digest == digest, "the state digest is that of the books")
    require(books.state.bought_lots == books.state.sold_lots, "bought = sold")
    require(books.state.order_count + 1 == books.state.next_order_id, "accepted orders are counted")


def longest_search(engine: Engine) -> int:
    """Return how far the entry of by_client that is farthest from home stands."""
    index: IndexPtr = cython.address(engine.books.by_client)
    position: uint64_t
    distance: uint64_t
    most: uint64_t = 0
    for position in range(index.mask + 1):
        if index.entries[position].slot != 0:
            distance = (position - index.entries[position].tag) & index.mask
            most = max(most, distance)
    return most
