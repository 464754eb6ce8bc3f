"""Finds live orders by either of their ids (orders.pxd). Compiled only."""

from __future__ import annotations

import cython
from cython.cimports.bourse.core.books import BooksPtr, order_at
from cython.cimports.bourse.core.indexes import OrderTablePtr, Search, index_next, stray_tag
from cython.cimports.bourse.core.structures import OrderPtr
from cython.cimports.libc.stdint import uint32_t, uint64_t


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def search_client(
    books: BooksPtr, tag: uint32_t, session: uint32_t, client_order_id: uint64_t
) -> uint32_t:
    """Return the slot of a session's live order whose tag is known, 0 when none."""
    search = cython.declare(Search)
    order: OrderPtr
    slot: uint32_t
    search.distance = 0
    search.in_old = False
    while True:
        slot = index_next(cython.address(books.by_client), tag, cython.address(search))
        if slot == 0:
            return 0
        order = order_at(books, slot)
        if order.client_order_id == client_order_id and order.session == session:
            return slot


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def find_order(books: BooksPtr, order_id: uint64_t) -> uint32_t:
    """Return the slot of a live order, 0 when none."""
    search = cython.declare(Search)
    table: OrderTablePtr = cython.address(books.by_order_id)
    slot: uint32_t = table.slots[order_id & table.mask]
    if slot != 0 and order_at(books, slot).order_id == order_id:
        return slot
    if table.old_slots != cython.NULL:
        slot = table.old_slots[order_id & table.old_mask]
        if slot != 0 and order_at(books, slot).order_id == order_id:
            return slot
    search.distance = 0
    search.in_old = False
    while True:
        slot = index_next(cython.address(table.strays), stray_tag(order_id), cython.address(search))
        if slot == 0 or order_at(books, slot).order_id == order_id:
            return slot
