"""Opens sessions, defines and halts instruments (registry.pxd). Compiled only."""

from __future__ import annotations

import cython
from cython.cimports.bourse.core.books import BooksPtr, session_at, side_at
from cython.cimports.bourse.core.digests import halted_term
from cython.cimports.bourse.core.indexes import index_add, index_ready
from cython.cimports.bourse.core.pools import PoolPtr, pool_ready
from cython.cimports.bourse.core.structures import SessionPtr, SidePtr
from cython.cimports.bourse.core.words import BUY
from cython.cimports.libc.stdint import uint32_t, uint64_t


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def open_session(books: BooksPtr, session_id: uint32_t) -> uint32_t:
    """Return the slot of a new open session, 0 when there is no memory."""
    pool: PoolPtr = cython.address(books.session_pool)
    session: SessionPtr
    slot: uint32_t
    if not pool_ready(pool) or not index_ready(cython.address(books.by_session_id)):
        return 0
    slot = pool.free
    if slot != 0:
        session = session_at(books, slot)
        pool.free = session.head
    else:
        slot = cython.cast(uint32_t, pool.next_unused)
        pool.next_unused += 1
        session = session_at(books, slot)
    pool.live_count += 1
    session.session_id = session_id
    session.is_open = 1
    session.head = 0
    session.tail = 0
    session.owner = cython.cast(uint64_t, session_id) << 32
    session.salt = slot * books.multiplier
    index_add(cython.address(books.by_session_id), session_id, slot)
    books.state.session_count += 1
    if session_id > books.state.last_session_id:
        books.state.last_session_id = session_id
    return slot


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def symbol_is_valid(low: uint64_t, high: uint64_t) -> cython.bint:
    """Printable ASCII without blanks, then zero bytes up to 16."""
    position: cython.int
    byte: uint64_t
    ended: cython.bint = False
    for position in range(16):
        byte = ((low if position < 8 else high) >> (8 * (position & 7))) & 0xFF
        if byte == 0:
            ended = True
        elif ended or byte < 0x21 or byte > 0x7E:
            return False
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def define_instrument(
    books: BooksPtr, instrument_id: uint32_t, symbol_low: uint64_t, symbol_high: uint64_t
) -> cython.bint:
    """Make an empty book; false when there is no memory."""
    pool: PoolPtr = cython.address(books.side_pool)
    slot: uint32_t
    side: SidePtr
    which: uint32_t
    if not pool_ready(pool) or not index_ready(cython.address(books.by_instrument_id)):
        return False
    slot = cython.cast(uint32_t, pool.next_unused)
    pool.next_unused += 2
    pool.live_count += 2
    for which in range(2):
        side = side_at(books, slot + which)
        side.instrument_id = instrument_id
        side.side = BUY + which
        side.symbol = symbol_low if which == 0 else symbol_high
    index_add(cython.address(books.by_instrument_id), instrument_id, slot)
    books.state.instrument_count += 1
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def set_halted(books: BooksPtr, slot: uint32_t, is_halted: cython.bint) -> cython.void:
    """Halt or resume the instrument whose buy side is in `slot`; the state digest follows."""
    term: uint64_t = halted_term(side_at(books, slot).instrument_id)
    if is_halted:
        books.state.state_digest += term
    else:
        books.state.state_digest -= term
    side_at(books, slot).is_halted = is_halted
    side_at(books, slot + 1).is_halted = is_halted
