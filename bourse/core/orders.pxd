# An order's way into its queue, its session's list and both indexes, and out of them again.

from libc.stdint cimport uint32_t, uint64_t

from bourse.core.books cimport Books, level_at, make_ready, order_at, session_at
from bourse.core.digests cimport fold
from bourse.core.indexes cimport Index, index_put, index_take, table_put, table_remove
from bourse.core.levels cimport directory_ready, free_level, remove_level
from bourse.core.pools cimport PoolPtr
from bourse.core.registry cimport free_session_if_over
from bourse.core.structures cimport LevelPtr, OrderPtr, SessionPtr, SidePtr


# orders.py; 0 means none
cdef uint32_t find_order(Books *books, uint64_t order_id) noexcept nogil
cdef uint32_t search_client(
    Books *books, uint32_t tag, uint32_t session, uint64_t client_order_id,
) noexcept nogil


cdef inline uint32_t client_tag(Books *books, SessionPtr session, uint64_t client_order_id) noexcept nogil:
    # Hash of an order's key among its session's.
    #
    # Eight consecutive ids are neighbours, for most clients count; the groups are spread well, and
    # differently in every process (`multiplier`), so nobody can choose ids that share a home.
    cdef uint64_t word = (client_order_id >> 3) + session.salt
    return <uint32_t> (((fold(word, books.multiplier) >> 32) << 3) | (client_order_id & 7))


cdef inline uint32_t find_tagged(
    Books *books, uint32_t tag, uint32_t session, uint64_t client_order_id,
) noexcept nogil:
    # Return the slot of a session's live order whose tag is known, 0 when none.
    #
    # Most new orders' homes are empty.
    cdef Index *index = &books.by_client
    if index.entries[tag & index.mask].slot == 0 and index.old == NULL:
        return 0
    return search_client(books, tag, session, client_order_id)


cdef inline uint32_t find_client(Books *books, uint32_t session, uint64_t client_order_id) noexcept nogil:
    # Return the slot of a session's live order, 0 when none.
    return find_tagged(
        books, client_tag(books, session_at(books, session), client_order_id), session, client_order_id
    )


cdef inline void join_queue(Books *books, uint32_t slot, OrderPtr order, uint32_t level_slot) noexcept nogil:
    # Make an order the last one of a level's queue.
    cdef LevelPtr level = level_at(books, level_slot)
    order.level = level_slot
    order.next = 0
    order.prev = level.tail
    if level.tail != 0:
        order_at(books, level.tail).next = slot
    else:
        level.head = slot
    level.tail = slot
    level.qty_lots += order.leaves_lots
    level.order_count += 1


cdef inline void begin_queue(Books *books, uint32_t slot, OrderPtr order, uint32_t level_slot) noexcept nogil:
    # Make an order the only one of a new level's queue.
    cdef LevelPtr level = level_at(books, level_slot)
    order.level = level_slot
    order.next = 0
    order.prev = 0
    level.head = slot
    level.tail = slot
    level.qty_lots = order.leaves_lots
    level.order_count = 1


cdef inline void leave_queue(Books *books, OrderPtr order, SidePtr side) noexcept nogil:
    # Take an order out of its level's queue; a level that is empty then goes with it.
    cdef uint32_t level_slot = order.level
    cdef LevelPtr level = level_at(books, level_slot)
    level.qty_lots -= order.leaves_lots
    level.order_count -= 1
    if order.prev != 0:
        order_at(books, order.prev).next = order.next
    else:
        level.head = order.next
    if order.next != 0:
        order_at(books, order.next).prev = order.prev
    else:
        level.tail = order.prev
    if level.head == 0:
        remove_level(books, side, level.key)
        free_level(books, level_slot, level)


cdef inline void unlist_order(Books *books, uint32_t slot, OrderPtr order, SessionPtr session) noexcept nogil:
    # Take an order off its session and the indexes; its slot is marked free, but on no list.
    if order.session_prev != 0:
        order_at(books, order.session_prev).session_next = order.session_next
    else:
        session.head = order.session_next
    if order.session_next != 0:
        order_at(books, order.session_next).session_prev = order.session_prev
    else:
        session.tail = order.session_prev
        free_session_if_over(books, order.session, session)
    index_take(
        &books.by_client, client_tag(books, session, order.client_order_id), slot
    )
    table_remove(&books.by_order_id, order.order_id, slot)
    order.leaves_lots = 0


cdef inline void forget_order(Books *books, uint32_t slot, OrderPtr order, SessionPtr session) noexcept nogil:
    # Take an order off its session and the indexes and free it; it has left its queue.
    unlist_order(books, slot, order, session)
    order.next = books.order_pool.free
    books.order_pool.free = slot


cdef inline void append_order(
    Books *books, uint32_t level_slot, bint is_new_level, uint32_t session_slot, uint32_t tag,
    uint64_t client_order_id, uint64_t order_id, uint64_t leaves_lots, uint64_t qty_lots, uint64_t place,
) noexcept nogil:
    # Put a new order at the end of a level's queue, its session's list and both indexes.
    cdef PoolPtr pool = &books.order_pool
    cdef uint32_t slot = pool.free
    cdef OrderPtr order
    cdef SessionPtr session = session_at(books, session_slot)
    if slot != 0:
        order = order_at(books, slot)
        pool.free = order.next
    else:
        slot = <uint32_t> pool.next_unused
        pool.next_unused += 1
        order = order_at(books, slot)
    order.client_order_id = client_order_id
    order.order_id = order_id
    order.leaves_lots = leaves_lots
    order.qty_lots = qty_lots
    order.place = place
    order.session = session_slot
    order.session_next = 0
    order.session_prev = session.tail
    if session.tail != 0:
        order_at(books, session.tail).session_next = slot
    else:
        session.head = slot
    session.tail = slot
    if is_new_level:
        begin_queue(books, slot, order, level_slot)
    else:
        join_queue(books, slot, order, level_slot)
    books.sure_count -= 1
    index_put(&books.by_client, tag, slot)
    table_put(&books.by_order_id, order_id, slot)


cdef inline bint order_ready(Books *books, SidePtr side) noexcept nogil:
    # Make sure that one order can rest on a side; false when there is no memory.
    return (books.sure_count != 0 or make_ready(books)) and (
        side.block_count < side.block_capacity or directory_ready(side)
    )
