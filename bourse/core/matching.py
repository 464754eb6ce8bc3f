"""Trades a taker with the makers of the other side, best price first, oldest first (matching.pxd).

    trade() ──► trade_once()    the one maker has all that is wanted, as most takers meet
            ├─► sweep()         many makers, while two events fit into one piece of the window
            └─► sweep_edge()    one place is left in it

Each trade leaves a TRADE, and a DONE where the maker has nothing left. Compiled only.
"""

from __future__ import annotations

import cython
from cython.cimports.bourse.core.books import BooksPtr, level_at, order_at, session_at, side_at
from cython.cimports.bourse.core.digests import (
    M1,
    P1,
    P2,
    P3,
    P4,
    fold,
    link,
    order_term,
    place_word,
)
from cython.cimports.bourse.core.events import (
    EventPtr,
    Pair,
    WindowPtr,
    pair_of,
    pair_read,
    pair_sum,
    pair_write,
)
from cython.cimports.bourse.core.levels import crosses, drop_block, free_level, key_of, pop_best
from cython.cimports.bourse.core.orders import forget_order, unlist_order
from cython.cimports.bourse.core.pools import least
from cython.cimports.bourse.core.records import Event
from cython.cimports.bourse.core.structures import (
    BlockPtr,
    LevelPtr,
    OrderPtr,
    SessionPtr,
    SidePtr,
    Uint64Ptr,
)
from cython.cimports.bourse.core.words import DONE, FILLED, TRADE
from cython.cimports.libc.stdint import int64_t, uint32_t, uint64_t


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def sweep(books: BooksPtr, taker: TakerPtr, event: EventPtr, last: EventPtr) -> EventPtr:
    """Trade a taker with the other side, best price first, oldest first, while two events fit.

    The hot loop, bound by how many words a core reads and writes in a cycle. Counters and digests
    live in locals, because every store to an event might alias them for all that the compiler
    knows; what is cheap to find again is not kept. What a level's queue loses is taken off when the
    level is left: the makers that are used up are still chained, and go to the free list as they
    are.

    Args:
        books: all of them.
        taker: wants more than 0; the other side has a level.
        event: where the next event goes.
        last: the last place of all: a trade and the end of its maker fit while event < last.

    Returns:
        Where the next event would go.
    """
    side: SidePtr = side_at(books, taker.own_side ^ 1)
    block: BlockPtr = side.top
    orders: OrderPtr = cython.cast(OrderPtr, books.order_pool.base)
    words: Uint64Ptr = cython.cast(Uint64Ptr, event)
    last_words: Uint64Ptr = cython.cast(Uint64Ptr, last)
    level_start: Uint64Ptr = words
    level_slot: uint32_t = side.best_level
    level: LevelPtr = level_at(books, level_slot)
    slot: uint32_t = level.head
    maker: OrderPtr = orders + slot
    session: SessionPtr
    level_count: uint32_t = block.count
    block_start: uint32_t = level_count
    levels_gone: uint32_t = 0
    order_id: uint64_t
    leaves_lots: uint64_t
    open_lots: uint64_t = taker.open_lots
    level_lots: uint64_t = open_lots
    traded: uint64_t
    named: uint64_t
    key: int64_t = side.best_key
    flip: int64_t = 1 - cython.cast(int64_t, side.side)
    price_ticks: uint64_t = cython.cast(uint64_t, key ^ flip)  # key_of()
    instrument_id: uint64_t = side.instrument_id
    trade_kind: uint64_t = TRADE | (cython.cast(uint64_t, side.side) << 16)
    done_kind: uint64_t = trade_kind - TRADE + (DONE | (FILLED << 8))
    # What the digests' words of all events at a price share.
    priced: uint64_t = price_ticks * P3
    side_place: uint64_t = place_word(side.instrument_id, side.side, 0)
    trade_word: uint64_t = (trade_kind | (instrument_id << 32)) * P1
    done_word: uint64_t = (done_kind | (instrument_id << 32)) * P1
    event_digest: uint64_t = books.state.event_digest
    state_digest: uint64_t = books.state.state_digest
    # Pairs of words of events: kind and number, how they go on to a DONE and to the next TRADE;
    # client_order_id and order_id; price and 0; 0 and the instrument.
    numbered: Pair = pair_of(trade_kind, books.state.event_seq + 1)
    to_done: Pair = pair_of(done_kind - trade_kind, 1)
    to_next: Pair = pair_of(0, 2)
    heading: Pair
    ids: Pair
    price: Pair = pair_of(price_ticks, 0)
    tail: Pair = pair_of(0, instrument_id)

    while True:
        leaves_lots = maker.leaves_lots
        if leaves_lots > open_lots:
            break
        # All of this maker: TRADE, then its DONE.
        session = session_at(books, maker.session)
        order_id = maker.order_id
        traded = leaves_lots * P4
        named = order_id * P2
        state_digest -= fold(
            order_id * P1 + (maker.place >> 8) * P2 + traded + priced + side_place, M1
        )
        named += priced
        event_digest = link(event_digest, trade_word + named + traded)
        event_digest = link(event_digest, done_word + named)
        heading = pair_sum(numbered, pair_of(session.owner, 0))
        ids = pair_read(cython.address(maker.client_order_id))
        pair_write(words, heading)
        pair_write(words + 2, ids)
        pair_write(words + 4, price)
        words[5] = leaves_lots
        pair_write(words + 6, tail)
        pair_write(words + 8, pair_sum(heading, to_done))
        pair_write(words + 10, ids)
        pair_write(words + 12, price)
        pair_write(words + 14, tail)
        words += 16
        numbered = pair_sum(numbered, to_next)
        unlist_order(books, slot, maker, session)
        open_lots -= leaves_lots
        slot = maker.next
        if slot == 0:
            # The level is used up.
            maker.next = books.order_pool.free
            books.order_pool.free = level.head
            level.head = books.level_pool.free
            books.level_pool.free = level_slot
            level_count -= 1
            if level_count == 0:
                levels_gone += block_start
                block_start = 0
                block.count = 0
                # The last block stays (pop_best()).
                if side.block_count == 1:
                    break
                drop_block(books, side, side.block_count - 1)
                block = side.top
                level_count = block.count
                block_start = level_count
            level_slot = block.levels[level_count - 1]
            level = level_at(books, level_slot)
            slot = level.head
            key = block.keys[level_count - 1]
            level_start = words
            level_lots = open_lots
            if key < taker.limit_key:
                break
            price_ticks = cython.cast(uint64_t, key ^ flip)
            price = pair_of(price_ticks, 0)
            priced = price_ticks * P3
        if open_lots == 0 or words >= last_words:
            break
        maker = orders + slot

    if level_count != 0:
        if slot != level.head:
            maker = orders + slot
            orders[maker.prev].next = books.order_pool.free
            books.order_pool.free = level.head
            maker.prev = 0
            level.head = slot
            level.order_count -= cython.cast(uint32_t, (words - level_start) // 16)
        level.qty_lots -= level_lots - open_lots
        if open_lots != 0 and words < last_words and key >= taker.limit_key:
            # A part of this maker, which keeps its place.
            maker = orders + slot
            leaves_lots = maker.leaves_lots
            pair_write(
                words, pair_sum(numbered, pair_of(session_at(books, maker.session).owner, 0))
            )
            pair_write(words + 2, pair_read(cython.address(maker.client_order_id)))
            pair_write(words + 4, pair_of(price_ticks, open_lots))
            pair_write(words + 6, pair_of(leaves_lots - open_lots, instrument_id))
            words += 8
            named = maker.order_id * P2 + priced
            event_digest = link(event_digest, trade_word + named + open_lots * P4)
            side_place += priced
            state_digest -= order_term(maker.order_id, maker.place >> 8, leaves_lots, side_place)
            leaves_lots -= open_lots
            state_digest += order_term(maker.order_id, maker.place >> 8, leaves_lots, side_place)
            maker.leaves_lots = leaves_lots
            level.qty_lots -= open_lots
            open_lots = 0

    levels_gone += block_start - level_count
    if levels_gone != 0:
        block.count = level_count
        side.level_count -= levels_gone
        books.level_pool.live_count -= levels_gone
        side.best_level = 0
        if level_count != 0:
            side.best_level = level_slot
            side.best_key = key
    # Every maker that ended left two events; one that did not is the last and left one.
    traded = (words - cython.cast(Uint64Ptr, event)) // 8
    books.state.trade_count += (traded + 1) >> 1
    books.state.live_order_count -= traded >> 1
    books.state.bought_lots += taker.open_lots - open_lots
    books.state.sold_lots += taker.open_lots - open_lots
    taker.open_lots = open_lots
    books.state.event_seq += traded
    books.state.event_digest = event_digest
    books.state.state_digest = state_digest
    return cython.cast(EventPtr, cython.cast(cython.p_void, words))


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def trade_once(books: BooksPtr, taker: TakerPtr, side: SidePtr, event: EventPtr) -> uint64_t:
    """Trade a taker with the one maker that has all that it still wants.

    What sweep() does, without what only pays for many makers: most takers meet one.

    Args:
        books: all of them.
        taker: wants more than 0.
        side: the maker's; its best price is marketable.
        event: where the next two events go.

    Returns:
        How many were written: 2, or 1 if something is left of the maker, or 0: the maker has less.
    """
    level_slot: uint32_t = side.best_level
    level: LevelPtr = level_at(books, level_slot)
    slot: uint32_t = level.head
    maker: OrderPtr = order_at(books, slot)
    session: SessionPtr
    words: Uint64Ptr = cython.cast(Uint64Ptr, event)
    open_lots: uint64_t = taker.open_lots
    left_lots: uint64_t = maker.leaves_lots - open_lots
    instrument_id: uint64_t = side.instrument_id
    kind: uint64_t = (cython.cast(uint64_t, side.side) << 16) | TRADE
    price_ticks: uint64_t
    order_id: uint64_t
    priced: uint64_t
    named: uint64_t
    traded: uint64_t
    shared: uint64_t
    event_seq: uint64_t
    event_digest: uint64_t
    ids: Pair
    if maker.leaves_lots < open_lots:
        return 0
    session = session_at(books, maker.session)
    ids = pair_read(cython.address(maker.client_order_id))
    price_ticks = cython.cast(uint64_t, key_of(side.side, side.best_key))
    event_seq = books.state.event_seq + 1
    words[0] = kind | session.owner
    words[1] = event_seq
    pair_write(words + 2, ids)
    words[4] = price_ticks
    words[5] = open_lots
    words[6] = left_lots
    words[7] = instrument_id
    taker.open_lots = 0
    books.state.trade_count += 1
    books.state.bought_lots += open_lots
    books.state.sold_lots += open_lots
    order_id = maker.order_id
    priced = price_ticks * P3
    traded = open_lots * P4
    named = order_id * P2 + priced
    shared = (
        order_id * P1
        + (maker.place >> 8) * P2
        + priced
        + place_word(side.instrument_id, side.side, 0)
    )
    event_digest = link(
        books.state.event_digest, (kind | (instrument_id << 32)) * P1 + named + traded
    )
    if left_lots != 0:
        books.state.event_seq = event_seq
        books.state.event_digest = event_digest
        books.state.state_digest += fold(shared + left_lots * P4, M1)
        books.state.state_digest -= fold(shared + maker.leaves_lots * P4, M1)
        maker.leaves_lots = left_lots
        level.qty_lots -= open_lots
        return 1
    kind += DONE - TRADE + (FILLED << 8)
    words[8] = kind | session.owner
    words[9] = event_seq + 1
    pair_write(words + 10, ids)
    pair_write(words + 12, pair_of(price_ticks, 0))
    pair_write(words + 14, pair_of(0, instrument_id))
    books.state.event_seq = event_seq + 1
    books.state.live_order_count -= 1
    books.state.state_digest -= fold(shared + traded, M1)
    books.state.event_digest = link(event_digest, (kind | (instrument_id << 32)) * P1 + named)
    if maker.next == 0:
        pop_best(books, side)
        free_level(books, level_slot, level)
    else:
        level.qty_lots -= open_lots
        level.order_count -= 1
        level.head = maker.next
        order_at(books, maker.next).prev = 0
    forget_order(books, slot, maker, session)
    return 2


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def sweep_edge(books: BooksPtr, taker: TakerPtr, window: WindowPtr) -> cython.bint:
    """Trade with one maker when one place is left before the end of the window or of its ring.

    The end of a maker of which nothing is left belongs to the trade. When only the trade still
    fits into the window, the end waits in `stash`, so that the book never stands between the two;
    false then.
    """
    edge = cython.declare(Event[2])
    end: EventPtr = sweep(books, taker, cython.address(edge[0]), cython.address(edge[1]))
    window.base[window.next & window.mask] = edge[0]
    window.next += 1
    if end - cython.address(edge[0]) == 2:
        if window.next == window.limit:
            taker.stash = edge[1]
            taker.is_stashed = True
            return False
        window.base[window.next & window.mask] = edge[1]
        window.next += 1
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def trade(books: BooksPtr, taker: TakerPtr, window: WindowPtr) -> cython.bint:
    """Trade a taker whose price is met, as far as it allows; false: the window is full."""
    maker_side: SidePtr = side_at(books, taker.own_side ^ 1)
    event: EventPtr
    position: uint64_t
    run: uint64_t
    written: uint64_t
    while True:
        if window.next == window.limit:
            return False
        # Places in one piece.
        position = window.next & window.mask
        run = least(window.limit - window.next, window.mask + 1 - position)
        if run == 1:
            if not sweep_edge(books, taker, window):
                return False
        else:
            event = window.base + position
            written = trade_once(books, taker, maker_side, event)
            if written == 0:
                written = sweep(books, taker, event, event + (run - 1)) - event
            window.next += written
        if taker.open_lots == 0 or not crosses(maker_side, taker.limit_key):
            return True
