"""Executes one command at a time against the books, deterministically.

    Command ──► judge ──► HEAD ──► numbered events ──► window
                  │                    │
                  └── reason,          └── books.pxd: levels, queues, sessions, indexes, digests
                      no trace

The rules, the order of events and the digests are specified in docs/matching.md. Nothing here
knows a clock, a file or a thread; whoever owns an executor calls it from one thread at a time
without the GIL. Events go to a window of a ring. When it is full, the executor stops between two
events, remembers where (`phase`), and `resume()` goes on: a command with a million fills needs no
buffer of that size.

Each kind of command has two functions: judge_...() says why it is refused and prepares it without
a trace in the books, proceed_...() carries it out from its phase. Compiled only.
"""

from __future__ import annotations

import cython
from cython.cimports.bourse.core.books import (
    BooksPtr,
    books_close,
    books_open,
    level_at,
    order_at,
    session_at,
    side_at,
)
from cython.cimports.bourse.core.digests import P1, P2, P3, P4, chain, link, order_term, place_word
from cython.cimports.bourse.core.events import (
    EventPtr,
    Pair,
    WindowPtr,
    pair_of,
    pair_read,
    pair_write,
    put_event,
)
from cython.cimports.bourse.core.indexes import ALL_ONES
from cython.cimports.bourse.core.invariant import invariant
from cython.cimports.bourse.core.levels import (
    add_level,
    can_fill,
    crosses,
    find_level,
    key_of,
    level_ready,
)
from cython.cimports.bourse.core.matching import TakerPtr, match
from cython.cimports.bourse.core.orders import (
    append_order,
    begin_queue,
    client_tag,
    find_client,
    find_order,
    find_tagged,
    forget_order,
    join_queue,
    leave_queue,
    order_ready,
)
from cython.cimports.bourse.core.registry import (
    define_instrument,
    find_instrument,
    find_session,
    free_session_if_over,
    open_session,
    set_halted,
    symbol_is_valid,
)
from cython.cimports.bourse.core.structures import (
    KEY_MIN,
    LevelPtr,
    OrderPtr,
    SessionPtr,
    SidePtr,
    Uint64Ptr,
)
from cython.cimports.bourse.core.words import (
    ACCEPTED,
    ALREADY_HALTED,
    BAD_COMMAND,
    BUY,
    BY_ORDER_ID,
    CANCEL,
    CANCEL_ORDERS,
    CANCELLED,
    DONE,
    DUPLICATE_INSTRUMENT,
    DUPLICATE_ORDER_ID,
    DUPLICATE_SESSION,
    EXPIRED,
    FILLED,
    FIRST_READ,
    FOK,
    FOK_CANNOT_FILL,
    HALT,
    HALTED,
    HEAD,
    INSTRUMENT_DEFINE,
    IOC,
    LIMIT,
    LOW_SPACE,
    MARKET,
    MASS_CANCEL,
    NEW_ORDER,
    NO_LIQUIDITY,
    NOT_HALTED,
    NOTHING_TO_CANCEL,
    OPERATOR,
    OPERATOR_CANCELLED,
    OUT_OF_MEMORY,
    POST_ONLY,
    POST_ONLY_WOULD_CROSS,
    QUANTITY_OVERFLOW,
    REPLACE,
    REPLACED,
    REPLACED_TO_FILLED,
    RESUME,
    SELL,
    SESSION_END,
    SESSION_ENDED,
    SESSION_OPEN,
    SNAPSHOT_MARK,
    SPACE_IS_LOW,
    UNKNOWN_INSTRUMENT,
    UNKNOWN_ORDER,
    UNKNOWN_SESSION,
    ZERO_QUANTITY,
)
from cython.cimports.libc.stdint import int64_t, uint8_t, uint32_t, uint64_t


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def put_head(executor: Executor, command: CommandPtr, window: WindowPtr) -> cython.bint:
    """Write the first event of a command; false when the window is full."""
    books: BooksPtr = cython.address(executor.books)
    event: EventPtr
    if window.next == window.limit:
        return False
    event = window.base + (window.next & window.mask)
    window.next += 1
    put_event(
        event,
        HEAD,
        executor.reason,
        command.side | (cython.cast(uint64_t, command.kind) << 8),
        command.session_id,
        books.state.wal_seq,
        command.client_order_id,
        executor.head_order_id,
        0 if command.kind == NEW_ORDER and command.order_type == MARKET else command.price_ticks,
        command.qty_lots,
        0,
        command.instrument_id,
    )
    return True


# --- New orders -----------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def judge_new_order(executor: Executor, command: CommandPtr) -> uint32_t:
    """Return why a new order is refused, 0 when it is accepted; prepares it, changes no book."""
    books: BooksPtr = cython.address(executor.books)
    taker: TakerPtr = cython.address(executor.taker)
    book: uint32_t
    maker_side: SidePtr
    own_side: SidePtr
    order_type: uint32_t = command.order_type
    side: uint32_t = command.side
    level: uint32_t
    session: uint32_t = find_session(books, command.session_id)
    if session == 0 or not session_at(books, session).is_open:
        return UNKNOWN_SESSION
    book = find_instrument(books, command.instrument_id)
    if book == 0:
        return UNKNOWN_INSTRUMENT
    # Unsigned, so that 0 is far above the range, too.
    if side - BUY > SELL - BUY or order_type - LIMIT > FOK - LIMIT:
        return BAD_COMMAND
    # One look for both: neither is there but on a bad day.
    if (command.flags | side_at(books, book).is_halted) != 0:
        if (command.flags | SPACE_IS_LOW) != SPACE_IS_LOW:
            return BAD_COMMAND
        return LOW_SPACE if command.flags == SPACE_IS_LOW else HALTED
    if command.qty_lots == 0:
        return ZERO_QUANTITY
    executor.tag = client_tag(books, session_at(books, session), command.client_order_id)
    if find_tagged(books, executor.tag, session, command.client_order_id) != 0:
        return DUPLICATE_ORDER_ID
    executor.target = session
    taker.own_side = book + side - BUY
    taker.open_lots = command.qty_lots
    own_side = side_at(books, taker.own_side)
    maker_side = side_at(books, taker.own_side ^ 1)
    if order_type == MARKET:
        taker.limit_key = KEY_MIN
        return 0
    taker.limit_key = ~key_of(side, command.price_ticks)
    if order_type == IOC:
        return 0
    if order_type == FOK:
        if not can_fill(books, maker_side, taker.limit_key, command.qty_lots):
            return FOK_CANNOT_FILL
        return 0
    # Limit and PostOnly may rest.
    if crosses(maker_side, taker.limit_key):
        if order_type == POST_ONLY:
            return POST_ONLY_WOULD_CROSS
        # The other side reaches beyond this price, so this side has no level here.
    else:
        level = find_level(books, own_side, key_of(side, command.price_ticks))
        if level != 0 and level_at(books, level).qty_lots > ALL_ONES - command.qty_lots:
            return QUANTITY_OVERFLOW
    if not order_ready(books, own_side):
        return OUT_OF_MEMORY
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def rest(executor: Executor, command: CommandPtr, traded: cython.bint) -> cython.void:
    """Put what is left of a new order into the book."""
    books: BooksPtr = cython.address(executor.books)
    taker: TakerPtr = cython.address(executor.taker)
    side: SidePtr = side_at(books, taker.own_side)
    key: int64_t = key_of(command.side, command.price_ticks)
    level: uint32_t
    is_new: cython.bint
    priority: uint64_t
    if traded:
        find_level(books, side, key)
    level = books.found_level
    is_new = level == 0
    if is_new:
        level = add_level(books, taker.own_side, key)
    priority = books.state.next_priority
    books.state.next_priority = priority + 1
    books.state.live_order_count += 1
    books.state.state_digest += order_term(
        executor.head_order_id,
        priority,
        taker.open_lots,
        place_word(side.instrument_id, side.side, command.price_ticks),
    )
    append_order(
        books,
        level,
        is_new,
        executor.target,
        executor.tag,
        command.client_order_id,
        executor.head_order_id,
        taker.open_lots,
        command.qty_lots,
        (priority << 8) | command.order_type,
    )


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def accept(
    executor: Executor, command: CommandPtr, window: WindowPtr, price_ticks: int64_t
) -> cython.void:
    """Write the ACCEPTED of a new order; the window has room for it."""
    books: BooksPtr = cython.address(executor.books)
    event: EventPtr = window.base + (window.next & window.mask)
    window.next += 1
    books.state.order_count += 1
    books.state.next_order_id += 1
    books.state.event_seq += 1
    books.state.event_digest = chain(
        books.state.event_digest,
        ACCEPTED,
        0,
        command.side,
        command.instrument_id,
        executor.head_order_id,
        price_ticks,
        command.qty_lots,
    )
    put_event(
        event,
        ACCEPTED,
        0,
        command.side,
        command.session_id,
        books.state.event_seq,
        command.client_order_id,
        executor.head_order_id,
        price_ticks,
        command.qty_lots,
        0,
        command.instrument_id,
    )


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def begin_new_order(executor: Executor, command: CommandPtr, window: WindowPtr) -> cython.void:
    """Write HEAD and ACCEPTED of an accepted order at once; the window has room for both.

    The two differ in two words only.
    """
    books: BooksPtr = cython.address(executor.books)
    next_event: uint64_t = window.next
    mask: uint64_t = window.mask
    base: EventPtr = window.base
    head: Uint64Ptr = cython.cast(Uint64Ptr, base + (next_event & mask))
    accepted: Uint64Ptr = cython.cast(Uint64Ptr, base + ((next_event + 1) & mask))
    side: uint64_t = cython.cast(uint64_t, command.side) << 16
    owner: uint64_t = cython.cast(uint64_t, command.session_id) << 32
    client_order_id: uint64_t = command.client_order_id
    order_id: uint64_t = books.state.next_order_id
    price_ticks: uint64_t = (
        0 if command.order_type == MARKET else cython.cast(uint64_t, command.price_ticks)
    )
    qty_lots: uint64_t = command.qty_lots
    instrument_id: uint64_t = command.instrument_id
    event_seq: uint64_t = books.state.event_seq + 1
    ids: Pair
    amount: Pair
    tail: Pair
    window.next = next_event + 2
    executor.head_order_id = order_id
    books.state.next_order_id = order_id + 1
    books.state.order_count += 1
    books.state.event_seq = event_seq
    books.state.event_digest = link(
        books.state.event_digest,
        (ACCEPTED | side | (instrument_id << 32)) * P1
        + order_id * P2
        + price_ticks * P3
        + qty_lots * P4,
    )
    ids = pair_of(client_order_id, order_id)
    # price_ticks and qty_lots are neighbours in a command, too.
    amount = pair_of(0, qty_lots)
    if command.order_type != MARKET:
        amount = pair_read(cython.address(command.price_ticks))
    tail = pair_of(0, instrument_id)
    head[0] = HEAD | side | (cython.cast(uint64_t, NEW_ORDER) << 24) | owner
    head[1] = books.state.wal_seq
    pair_write(head + 2, ids)
    pair_write(head + 4, amount)
    pair_write(head + 6, tail)
    accepted[0] = ACCEPTED | side | owner
    accepted[1] = event_seq
    pair_write(accepted + 2, ids)
    pair_write(accepted + 4, amount)
    pair_write(accepted + 6, tail)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def end_new_order(
    executor: Executor, command: CommandPtr, window: WindowPtr, reason: uint64_t, order_id: uint64_t
) -> cython.bint:
    """Write the DONE of an order that does not rest; false when the window is full."""
    books: BooksPtr = cython.address(executor.books)
    taker: TakerPtr = cython.address(executor.taker)
    event: EventPtr
    price_ticks: int64_t = 0 if command.order_type == MARKET else command.price_ticks
    open_lots: uint64_t = taker.open_lots
    if window.next == window.limit:
        return False
    event = window.base + (window.next & window.mask)
    window.next += 1
    books.state.event_seq += 1
    executor.phase = PHASE_IDLE
    books.state.event_digest = chain(
        books.state.event_digest,
        DONE,
        reason,
        command.side,
        command.instrument_id,
        order_id,
        price_ticks,
        open_lots,
    )
    put_event(
        event,
        DONE,
        reason,
        command.side,
        command.session_id,
        books.state.event_seq,
        command.client_order_id,
        order_id,
        price_ticks,
        open_lots,
        0,
        command.instrument_id,
    )
    return True


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def finish_new_order(executor: Executor, command: CommandPtr, window: WindowPtr) -> cython.bint:
    """Match an accepted order, then end it or let it rest; false when the window is full."""
    books: BooksPtr = cython.address(executor.books)
    taker: TakerPtr = cython.address(executor.taker)
    if not match(books, taker, window):
        return False
    if taker.open_lots == 0:
        return end_new_order(executor, command, window, FILLED, executor.head_order_id)
    if command.order_type == IOC:
        return end_new_order(executor, command, window, EXPIRED, executor.head_order_id)
    if command.order_type == MARKET:
        return end_new_order(executor, command, window, NO_LIQUIDITY, executor.head_order_id)
    invariant(command.order_type != FOK, b"a fill-or-kill order was not filled")
    rest(executor, command, taker.open_lots != command.qty_lots)
    executor.phase = PHASE_IDLE
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def proceed_new_order(executor: Executor, command: CommandPtr, window: WindowPtr) -> cython.bint:
    """Go on with a new order from its phase; false when the window is full."""
    if executor.phase == PHASE_HEAD:
        if not put_head(executor, command, window):
            return False
        executor.phase = PHASE_REJECTED if executor.reason != 0 else PHASE_ACCEPTED
    if executor.phase == PHASE_REJECTED:
        return end_new_order(executor, command, window, executor.reason, 0)
    if executor.phase == PHASE_ACCEPTED:
        if window.next == window.limit:
            return False
        accept(
            executor, command, window, 0 if command.order_type == MARKET else command.price_ticks
        )
        executor.phase = PHASE_MATCH
    return finish_new_order(executor, command, window)


# --- Cancels --------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def cancel_order(
    executor: Executor, slot: uint32_t, reason: uint8_t, window: WindowPtr
) -> cython.void:
    """End one live order; the window has room for its event."""
    books: BooksPtr = cython.address(executor.books)
    order: OrderPtr = order_at(books, slot)
    level: LevelPtr = level_at(books, order.level)
    side: SidePtr = side_at(books, level.side)
    price_ticks: int64_t = key_of(side.side, level.key)
    event: EventPtr = window.base + (window.next & window.mask)
    window.next += 1
    books.state.event_seq += 1
    books.state.live_order_count -= 1
    put_event(
        event,
        DONE,
        reason,
        cython.cast(uint8_t, side.side),
        session_at(books, order.session).session_id,
        books.state.event_seq,
        order.client_order_id,
        order.order_id,
        price_ticks,
        order.leaves_lots,
        0,
        side.instrument_id,
    )
    books.state.event_digest = chain(
        books.state.event_digest,
        DONE,
        reason,
        side.side,
        side.instrument_id,
        order.order_id,
        price_ticks,
        order.leaves_lots,
    )
    books.state.state_digest -= order_term(
        order.order_id,
        order.place >> 8,
        order.leaves_lots,
        place_word(side.instrument_id, side.side, price_ticks),
    )
    leave_queue(books, order, side)
    forget_order(books, slot, order, session_at(books, order.session))


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def judge_cancel(executor: Executor, command: CommandPtr) -> uint32_t:
    """Return why a cancel is refused, 0 when it names a live order (then in `target`)."""
    books: BooksPtr = cython.address(executor.books)
    session: uint32_t = find_session(books, command.session_id)
    if session == 0 or not session_at(books, session).is_open:
        return UNKNOWN_SESSION
    if command.flags == 0:
        executor.target = find_client(books, session, command.client_order_id)
    elif command.flags == BY_ORDER_ID and command.session_id == OPERATOR:
        executor.target = find_order(books, command.order_id)
    else:
        return BAD_COMMAND
    if executor.target == 0:
        return UNKNOWN_ORDER
    executor.head_order_id = order_at(books, executor.target).order_id
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def proceed_cancel(executor: Executor, command: CommandPtr, window: WindowPtr) -> cython.bint:
    """Go on with an accepted cancel; false when the window is full."""
    books: BooksPtr = cython.address(executor.books)
    session: SessionPtr
    reason: uint8_t = CANCELLED
    if executor.phase == PHASE_HEAD:
        if not put_head(executor, command, window):
            return False
        executor.phase = PHASE_CANCEL
    if window.next == window.limit:
        return False
    session = session_at(books, order_at(books, executor.target).session)
    if command.flags == BY_ORDER_ID and session.session_id != OPERATOR:
        reason = OPERATOR_CANCELLED
    cancel_order(executor, executor.target, reason, window)
    executor.phase = PHASE_IDLE
    return True


# --- Replaces -------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def judge_replace(executor: Executor, command: CommandPtr) -> uint32_t:
    """Return why a replace is refused, 0 when it is accepted; prepares it, changes no book."""
    books: BooksPtr = cython.address(executor.books)
    taker: TakerPtr = cython.address(executor.taker)
    slot: uint32_t
    order: OrderPtr
    side: SidePtr
    maker_side: SidePtr
    level: uint32_t
    key: int64_t
    filled_lots: uint64_t
    others_lots: uint64_t
    session: uint32_t = find_session(books, command.session_id)
    if session == 0 or not session_at(books, session).is_open:
        return UNKNOWN_SESSION
    if command.flags != 0:
        return BAD_COMMAND
    if command.qty_lots == 0:
        return ZERO_QUANTITY
    slot = find_client(books, session, command.client_order_id)
    if slot == 0:
        return UNKNOWN_ORDER
    order = order_at(books, slot)
    filled_lots = order.qty_lots - order.leaves_lots
    executor.target = slot
    taker.own_side = level_at(books, order.level).side
    side = side_at(books, taker.own_side)
    if side.is_halted:
        return HALTED
    taker.open_lots = 0
    if command.qty_lots > filled_lots:
        taker.open_lots = command.qty_lots - filled_lots
        maker_side = side_at(books, taker.own_side ^ 1)
        key = key_of(side.side, command.price_ticks)
        taker.limit_key = ~key
        if crosses(maker_side, taker.limit_key):
            if order.place & 0xFF == POST_ONLY:
                return POST_ONLY_WOULD_CROSS
            # The other side reaches beyond this price, so this side has no level here.
        else:
            level = find_level(books, side, key)
            if level != 0:
                others_lots = level_at(books, level).qty_lots
                if level == order.level:
                    others_lots -= order.leaves_lots
                if others_lots > ALL_ONES - taker.open_lots:
                    return QUANTITY_OVERFLOW
        if level_at(books, order.level).key != key and not level_ready(books, side):
            return OUT_OF_MEMORY
    executor.head_order_id = order.order_id
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def change_order(executor: Executor, command: CommandPtr, window: WindowPtr) -> cython.bint:
    """Give the order in `target` its new price and quantity; the window has room for the event.

    Returns:
        True if it has kept its place; else it is in no queue.
    """
    books: BooksPtr = cython.address(executor.books)
    taker: TakerPtr = cython.address(executor.taker)
    order: OrderPtr = order_at(books, executor.target)
    level: LevelPtr = level_at(books, order.level)
    side: SidePtr = side_at(books, taker.own_side)
    price_ticks: int64_t = key_of(side.side, level.key)
    place: uint64_t = place_word(side.instrument_id, side.side, price_ticks)
    event: EventPtr = window.base + (window.next & window.mask)
    window.next += 1
    books.state.event_seq += 1
    put_event(
        event,
        REPLACED,
        0,
        side.side,
        command.session_id,
        books.state.event_seq,
        order.client_order_id,
        order.order_id,
        command.price_ticks,
        command.qty_lots,
        taker.open_lots,
        side.instrument_id,
    )
    books.state.event_digest = chain(
        books.state.event_digest,
        REPLACED,
        0,
        side.side,
        side.instrument_id,
        order.order_id,
        command.price_ticks,
        command.qty_lots,
    )
    books.state.state_digest -= order_term(
        order.order_id, order.place >> 8, order.leaves_lots, place
    )
    if price_ticks == command.price_ticks and command.qty_lots <= order.qty_lots:
        books.state.state_digest += order_term(
            order.order_id, order.place >> 8, taker.open_lots, place
        )
        level.qty_lots -= order.leaves_lots - taker.open_lots
        order.leaves_lots = taker.open_lots
        order.qty_lots = command.qty_lots
        return True
    leave_queue(books, order, side)
    order.qty_lots = command.qty_lots
    return False


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def rest_again(executor: Executor, price_ticks: int64_t) -> cython.void:
    """Put what is left of a replaced order at the end of the queue at its new price."""
    books: BooksPtr = cython.address(executor.books)
    taker: TakerPtr = cython.address(executor.taker)
    order: OrderPtr = order_at(books, executor.target)
    side: SidePtr = side_at(books, taker.own_side)
    key: int64_t = key_of(side.side, price_ticks)
    level: uint32_t = find_level(books, side, key)
    is_new: cython.bint = level == 0
    priority: uint64_t = books.state.next_priority
    if is_new:
        level = add_level(books, taker.own_side, key)
        # A level more without an order more.
        if books.sure_count != 0:
            books.sure_count -= 1
    books.state.next_priority += 1
    order.leaves_lots = taker.open_lots
    order.place = (priority << 8) | (order.place & 0xFF)
    books.state.state_digest += order_term(
        order.order_id,
        priority,
        order.leaves_lots,
        place_word(side.instrument_id, side.side, price_ticks),
    )
    if is_new:
        begin_queue(books, executor.target, order, level)
    else:
        join_queue(books, executor.target, order, level)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def proceed_replace(executor: Executor, command: CommandPtr, window: WindowPtr) -> cython.bint:
    """Go on with an accepted replace; false when the window is full.

    While it is matched, the order is on its session's list and in the indexes, but in no queue.
    """
    books: BooksPtr = cython.address(executor.books)
    taker: TakerPtr = cython.address(executor.taker)
    order: OrderPtr = order_at(books, executor.target)
    side: SidePtr = side_at(books, taker.own_side)
    event: EventPtr
    if executor.phase == PHASE_HEAD:
        if not put_head(executor, command, window):
            return False
        executor.phase = PHASE_REPLACE
    if executor.phase == PHASE_REPLACE:
        if window.next == window.limit:
            return False
        if taker.open_lots == 0:
            cancel_order(executor, executor.target, REPLACED_TO_FILLED, window)
            executor.phase = PHASE_IDLE
            return True
        if change_order(executor, command, window):
            executor.phase = PHASE_IDLE
            return True
        executor.phase = PHASE_MATCH
    if executor.phase == PHASE_MATCH and not match(books, taker, window):
        return False
    if taker.open_lots != 0:
        rest_again(executor, command.price_ticks)
        executor.phase = PHASE_IDLE
        return True
    if window.next == window.limit:
        return False
    event = window.base + (window.next & window.mask)
    window.next += 1
    books.state.event_seq += 1
    books.state.live_order_count -= 1
    put_event(
        event,
        DONE,
        FILLED,
        side.side,
        command.session_id,
        books.state.event_seq,
        order.client_order_id,
        order.order_id,
        command.price_ticks,
        0,
        0,
        side.instrument_id,
    )
    books.state.event_digest = chain(
        books.state.event_digest,
        DONE,
        FILLED,
        side.side,
        side.instrument_id,
        order.order_id,
        command.price_ticks,
        0,
    )
    forget_order(books, executor.target, order, session_at(books, order.session))
    executor.phase = PHASE_IDLE
    return True


# --- Sessions and instruments ---------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def judge_session_open(executor: Executor, command: CommandPtr) -> uint32_t:
    """Open a session, or return why it is refused."""
    books: BooksPtr = cython.address(executor.books)
    if command.flags != 0:
        return BAD_COMMAND
    if command.session_id <= books.state.last_session_id:
        return DUPLICATE_SESSION
    if open_session(books, command.session_id) == 0:
        return OUT_OF_MEMORY
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def judge_session_end(executor: Executor, command: CommandPtr) -> uint32_t:
    """Return why the end of a session is refused, 0 when `target` is to end."""
    books: BooksPtr = cython.address(executor.books)
    session: uint32_t = find_session(books, command.session_id)
    if session == 0 or not session_at(books, session).is_open:
        return UNKNOWN_SESSION
    if (command.flags | CANCEL_ORDERS) != CANCEL_ORDERS or command.session_id == OPERATOR:
        return BAD_COMMAND
    executor.target = session
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def proceed_session_end(executor: Executor, command: CommandPtr, window: WindowPtr) -> cython.bint:
    """Go on with an accepted end of a session; false when the window is full."""
    books: BooksPtr = cython.address(executor.books)
    session: SessionPtr = session_at(books, executor.target)
    if executor.phase == PHASE_HEAD:
        if not put_head(executor, command, window):
            return False
        executor.phase = PHASE_CANCEL_SESSION
    # The session stays open until its last order is gone: cancel_order() forgets closed sessions.
    if command.flags == CANCEL_ORDERS:
        while session.head != 0:
            if window.next == window.limit:
                return False
            cancel_order(executor, session.head, SESSION_ENDED, window)
    session.is_open = 0
    free_session_if_over(books, executor.target, session)
    executor.phase = PHASE_IDLE
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def judge_instrument_define(executor: Executor, command: CommandPtr) -> uint32_t:
    """Define an instrument, or return why it is refused."""
    books: BooksPtr = cython.address(executor.books)
    if (
        command.flags != 0
        or command.instrument_id == 0
        or not symbol_is_valid(command.client_order_id, command.order_id)
    ):
        return BAD_COMMAND
    if find_instrument(books, command.instrument_id) != 0:
        return DUPLICATE_INSTRUMENT
    if not define_instrument(
        books, command.instrument_id, command.client_order_id, command.order_id
    ):
        return OUT_OF_MEMORY
    return 0


# --- What only the operator may do ----------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def judge_halt(executor: Executor, command: CommandPtr) -> uint32_t:
    """Halt or resume an instrument, or return why that is refused."""
    books: BooksPtr = cython.address(executor.books)
    book: uint32_t
    is_halted: cython.bint = command.kind == HALT
    if command.flags != 0 or command.session_id != OPERATOR:
        return BAD_COMMAND
    book = find_instrument(books, command.instrument_id)
    if book == 0:
        return UNKNOWN_INSTRUMENT
    if side_at(books, book).is_halted == is_halted:
        return ALREADY_HALTED if is_halted else NOT_HALTED
    set_halted(books, book, is_halted)
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def holds_until(books: BooksPtr, session: SessionPtr, order_id: uint64_t) -> cython.bint:
    """Say whether a session has a live order up to `order_id`; its list ascends."""
    return (
        session.session_id != 0
        and session.head != 0
        and order_at(books, session.head).order_id <= order_id
    )


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def first_to_cancel(books: BooksPtr, order_id: uint64_t) -> uint32_t:
    """Return the slot of the lowest session id with a live order up to `order_id`, 0 when none.

    Slots are given out anew after a restore, session ids are not: so a replay finds the same one.
    """
    slot: uint32_t
    found: uint32_t = 0
    lowest: uint64_t = ALL_ONES
    for slot in range(1, cython.cast(uint32_t, books.session_pool.next_unused)):
        if session_at(books, slot).session_id < lowest and holds_until(
            books, session_at(books, slot), order_id
        ):
            found = slot
            lowest = session_at(books, slot).session_id
    return found


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def judge_mass_cancel(executor: Executor, command: CommandPtr) -> uint32_t:
    """Return why a mass cancel is refused, 0 when the session in `target` has orders to end."""
    books: BooksPtr = cython.address(executor.books)
    until: uint64_t = books.state.next_order_id - 1
    if command.flags != 0 or command.session_id != OPERATOR:
        return BAD_COMMAND
    if command.qty_lots == 0:
        return ZERO_QUANTITY
    if command.order_id != 0 and command.order_id < until:
        until = command.order_id
    if command.client_order_id == 0:
        executor.target = first_to_cancel(books, until)
    else:
        if command.client_order_id >> 32 != 0:
            return UNKNOWN_SESSION
        executor.target = find_session(books, cython.cast(uint32_t, command.client_order_id))
        if executor.target == 0:
            return UNKNOWN_SESSION
        if not holds_until(books, session_at(books, executor.target), until):
            executor.target = 0
    if executor.target == 0:
        return NOTHING_TO_CANCEL
    executor.head_order_id = until
    executor.taker.open_lots = command.qty_lots
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def proceed_mass_cancel(executor: Executor, command: CommandPtr, window: WindowPtr) -> cython.bint:
    """Go on with an accepted mass cancel; false when the window is full."""
    books: BooksPtr = cython.address(executor.books)
    taker: TakerPtr = cython.address(executor.taker)
    session: SessionPtr = session_at(books, executor.target)
    if executor.phase == PHASE_HEAD:
        if not put_head(executor, command, window):
            return False
        executor.phase = PHASE_MASS_CANCEL
    # A closed session is forgotten with its last order, and its slot is then none.
    while taker.open_lots != 0 and holds_until(books, session, executor.head_order_id):
        if window.next == window.limit:
            return False
        cancel_order(executor, session.head, OPERATOR_CANCELLED, window)
        taker.open_lots -= 1
    executor.phase = PHASE_IDLE
    return True


# --- All kinds ------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def judge(executor: Executor, command: CommandPtr) -> uint32_t:
    """Return why a command is refused, 0 when it is accepted."""
    if command.kind == CANCEL:
        return judge_cancel(executor, command)
    if command.kind == REPLACE:
        return judge_replace(executor, command)
    if command.kind == SESSION_OPEN:
        return judge_session_open(executor, command)
    if command.kind == SESSION_END:
        return judge_session_end(executor, command)
    if command.kind == INSTRUMENT_DEFINE:
        return judge_instrument_define(executor, command)
    if command.kind == HALT or command.kind == RESUME:
        return judge_halt(executor, command)
    if command.kind == MASS_CANCEL:
        return judge_mass_cancel(executor, command)
    if command.kind == SNAPSHOT_MARK and command.flags == 0:
        return 0
    return BAD_COMMAND


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def proceed_seldom(executor: Executor, command: CommandPtr, window: WindowPtr) -> cython.bint:
    """Go on with an accepted command of a kind that is seldom; false when the window is full."""
    if command.kind == SESSION_END:
        return proceed_session_end(executor, command, window)
    if command.kind == MASS_CANCEL:
        return proceed_mass_cancel(executor, command, window)
    if not put_head(executor, command, window):
        return False
    executor.phase = PHASE_IDLE
    return True


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def proceed(executor: Executor, command: CommandPtr, window: WindowPtr) -> cython.bint:
    """Go on with the current command from its phase; false when the window is full."""
    if command.kind == NEW_ORDER:
        return proceed_new_order(executor, command, window)
    if executor.reason == 0 and command.kind == CANCEL:
        return proceed_cancel(executor, command, window)
    if executor.reason == 0 and command.kind == REPLACE:
        return proceed_replace(executor, command, window)
    if executor.reason == 0:
        return proceed_seldom(executor, command, window)
    if not put_head(executor, command, window):
        return False
    executor.phase = PHASE_IDLE
    return True


@cython.cclass
class Executor:
    """The books of one exchange, and the command that is being executed.

    Obligations of the caller: one thread at a time; after execute() or resume() said false,
    resume() until true before anything else. Invariants: see audit.py.
    """

    def __cinit__(self) -> None:
        """Take memory for empty books."""
        books: BooksPtr = cython.address(self.books)
        if not books_open(books) or open_session(books, OPERATOR) == 0:
            raise MemoryError("no memory for an empty engine")

    def __dealloc__(self) -> None:
        """Give all memory back."""
        books_close(cython.address(self.books))

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def execute(self, command: CommandPtr, window: WindowPtr) -> cython.bint:
        """Execute one logged command; false when the window is full (see executor.pxd)."""
        reason: uint32_t
        invariant(self.phase == PHASE_IDLE, b"execute() while a command is unfinished")
        invariant(command.kind < FIRST_READ, b"execute() of a command that is not logged")
        self.books.state.wal_seq += 1
        if command.kind == NEW_ORDER:
            reason = judge_new_order(self, command)
            if reason == 0 and window.limit - window.next >= 2:
                begin_new_order(self, command, window)
                if finish_new_order(self, command, window):
                    return True
                self.phase = PHASE_MATCH
            else:
                self.phase = PHASE_HEAD
                self.reason = reason
                self.head_order_id = 0
                if reason == 0:
                    self.head_order_id = self.books.state.next_order_id
                else:
                    self.taker.open_lots = command.qty_lots
                    self.books.state.reject_count += 1
                if proceed_new_order(self, command, window):
                    return True
        else:
            self.phase = PHASE_HEAD
            self.head_order_id = 0
            self.reason = judge(self, command)
            if self.reason != 0:
                self.books.state.reject_count += 1
            if proceed(self, command, window):
                return True
        self.command = command[0]
        return False

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def resume(self, window: WindowPtr) -> cython.bint:
        """Go on with the command that execute() did not finish; false when the window is full."""
        invariant(self.phase != PHASE_IDLE, b"resume() of a finished command")
        if self.taker.is_stashed:
            if window.next == window.limit:
                return False
            window.base[window.next & window.mask] = self.taker.stash
            window.next += 1
            self.taker.is_stashed = False
        return proceed(self, cython.address(self.command), window)
