# Looking ahead: brings what the next commands will touch into the cache while the present one is executed.
#
#     9 commands before: the order's place in the index ──► 6: the order, or the level of a new one
#     ──► 3: its neighbours in the queue and in its session's list, its level, its place among the order ids
#
# In a book that does not fit the second cache each of these is a miss, and they follow from each other. Whoever has a
# group of commands in hand asks for them early, one step for each command that it executes. Nothing here changes a
# book: whatever the commands in between do, what has been foreseen wrongly costs time only.

from libc.stdint cimport int64_t, uint32_t, uint64_t

from bourse.core.books cimport Books, block_at, level_at, order_at, session_at, side_at
from bourse.core.indexes cimport SPARSE_PLACES, EntryPtr, IndexPtr
from bourse.core.levels cimport find_block, key_of, position_in
from bourse.core.orders cimport client_tag
from bourse.core.records cimport Command
from bourse.core.structures cimport BlockPtr, LevelPtr, OrderPtr, SidePtr
from bourse.core.words cimport BUY, CANCEL, LIMIT, NEW_ORDER, REPLACE, SELL

cdef extern from * nogil:
    """
    static inline void bourse_fetch(const void *line) { __builtin_prefetch(line, 1, 3); }
    """
    void fetch "bourse_fetch"(const void *line)

cdef enum:
    INDEX_AHEAD = 9                 # commands between a step and the execution that it is for
    ORDER_AHEAD = 6
    NEIGHBOURS_AHEAD = 3
    FORESEEN = 16                   # commands that are remembered: a power of two over INDEX_AHEAD
    PROBES_MAX = 16                 # places of the index that are looked at
    # Finding a new order's level costs more than it saves (97 to 92 ns a command at 42,000 orders) until the last order
    # of a level is in no cache.
    LEVEL_PLACES = 1048576


cdef struct Foresight:              # what is known of the next commands, by their number modulo FORESEEN; begins zeroed
    uint32_t tags[16]
    uint32_t slots[16]              # of the order that a command names, or of the level that it joins; 0: not known


ctypedef Foresight *ForesightPtr
ctypedef const Command *NextPtr


cdef inline bint foresight_pays(Books *books) noexcept nogil:
    # Tell whether the book is so large that its index is: a smaller one is in the cache anyway.
    return books.by_client.mask >= SPARSE_PLACES


cdef inline void foresee_index(Books *books, ForesightPtr ahead, uint64_t number, NextPtr command) noexcept nogil:
    # Ask for the place of a command's order among the client ids.
    cdef EntryPtr entry = books.by_session_id.entries + (command.session_id & books.by_session_id.mask)
    cdef uint32_t tag = client_tag(books, session_at(books, entry.slot), command.client_order_id)
    ahead.tags[number % FORESEEN] = tag
    ahead.slots[number % FORESEEN] = 0
    if command.kind <= REPLACE:
        fetch(books.by_client.entries + (tag & books.by_client.mask))


cdef inline void foresee_level(Books *books, ForesightPtr ahead, uint64_t number, NextPtr command) noexcept nogil:
    # Ask for the level that a new order is to join.
    cdef EntryPtr entry = books.by_instrument_id.entries + (command.instrument_id & books.by_instrument_id.mask)
    cdef SidePtr side
    cdef BlockPtr block
    cdef int64_t key
    cdef uint32_t position
    if entry.slot == 0 or command.side - BUY > SELL - BUY or command.order_type != LIMIT:
        return
    side = side_at(books, entry.slot + command.side - BUY)
    if side.block_count == 0:
        return
    key = key_of(command.side, command.price_ticks)
    block = block_at(books, side.blocks[find_block(side, key)])
    position = position_in(block, key)
    if position < block.count and block.keys[position] == key:
        ahead.slots[number % FORESEEN] = block.levels[position]
        fetch(level_at(books, block.levels[position]))


cdef inline void foresee_order(Books *books, ForesightPtr ahead, uint64_t number, NextPtr command) noexcept nogil:
    # Ask for the order that a command names.
    cdef IndexPtr index = &books.by_client
    cdef uint32_t tag = ahead.tags[number % FORESEEN]
    cdef EntryPtr entry
    cdef uint64_t probe
    if command.kind == NEW_ORDER:
        if index.mask >= LEVEL_PLACES:
            foresee_level(books, ahead, number, command)
        return
    if command.kind != CANCEL and command.kind != REPLACE:
        return
    for probe in range(PROBES_MAX):
        entry = index.entries + ((tag + probe) & index.mask)
        if entry.slot == 0:
            return
        if entry.tag == tag:
            ahead.slots[number % FORESEEN] = entry.slot
            fetch(order_at(books, entry.slot))
            return


cdef inline void foresee_neighbours(Books *books, ForesightPtr ahead, uint64_t number, NextPtr command) noexcept nogil:
    # Ask for what joining or leaving lists will write.
    cdef uint32_t slot = ahead.slots[number % FORESEEN]
    cdef OrderPtr order
    if slot == 0:
        return
    if command.kind == NEW_ORDER:
        fetch(order_at(books, level_at(books, slot).tail))
        return
    order = order_at(books, slot)
    fetch(level_at(books, order.level))
    fetch(order_at(books, order.next))
    fetch(order_at(books, order.prev))
    fetch(order_at(books, order.session_next))
    fetch(order_at(books, order.session_prev))
    fetch(books.by_order_id.slots + (order.order_id & books.by_order_id.mask))


cdef inline void foresee(
    Books *books, ForesightPtr ahead, NextPtr base, uint64_t mask, uint64_t number, uint64_t end,
) noexcept nogil:
    # Take one step of each kind before the command at base[number & mask] is executed; those up to `end` are known.
    if number + INDEX_AHEAD < end:
        foresee_index(books, ahead, number + INDEX_AHEAD, base + ((number + INDEX_AHEAD) & mask))
    if number + ORDER_AHEAD < end:
        foresee_order(books, ahead, number + ORDER_AHEAD, base + ((number + ORDER_AHEAD) & mask))
    if number + NEIGHBOURS_AHEAD < end:
        foresee_neighbours(books, ahead, number + NEIGHBOURS_AHEAD, base + ((number + NEIGHBOURS_AHEAD) & mask))


cdef inline void foresee_first(
    Books *books, ForesightPtr ahead, NextPtr base, uint64_t mask, uint64_t number, uint64_t end,
) noexcept nogil:
    # Begin with a group: take the steps that its first commands would have had before them.
    cdef uint64_t each
    for each in range(number, min(number + INDEX_AHEAD, end)):
        foresee_index(books, ahead, each, base + (each & mask))
    for each in range(number, min(number + ORDER_AHEAD, end)):
        foresee_order(books, ahead, each, base + (each & mask))
    for each in range(number, min(number + NEIGHBOURS_AHEAD, end)):
        foresee_neighbours(books, ahead, each, base + (each & mask))
