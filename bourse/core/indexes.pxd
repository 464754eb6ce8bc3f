# From an id to a slot: an index of hashed keys, and a table for the consecutive ids of orders.
#
# Both grow step by step, so that no command pays for the whole table. What is done for each order is here,
# what is done now and then is in indexes.py.

from libc.stdint cimport uint32_t, uint64_t

from bourse.core.digests cimport P1, fold
from bourse.core.structures cimport OrderPtr

cdef extern from * nogil:
    """
    #include <stdint.h>
    __attribute__((unused)) static const uint32_t BOURSE_TOMBSTONE = 0xFFFFFFFFu;
    static const uint64_t BOURSE_ALL_ONES = 0xFFFFFFFFFFFFFFFFull;
    /* Up to so many places (512 KiB of an index) at most an eighth is used. */
    static const uint64_t BOURSE_SPARSE_PLACES = 1ull << 16;
    """
    const uint32_t TOMBSTONE "BOURSE_TOMBSTONE"     # an entry of an index that is being emptied
    const uint64_t ALL_ONES "BOURSE_ALL_ONES"
    const uint64_t SPARSE_PLACES "BOURSE_SPARSE_PLACES"

# Entries of the old table looked at for each insertion while an index grows. A table of n places is
# emptied after n/16 insertions; the next growth is at least n/8 insertions away.
cdef enum:
    MOVED_PER_INSERT = 16
# Bytes of an emptied table given back at each insertion: four pages, 5 to 10 us (16: 25 to 35).
cdef enum:
    GIVEN_BACK_PER_INSERT = 16384


cdef struct Entry:                  # 8 bytes: one place of an index
    uint32_t tag                    # hash of the key; its low bits are the home position
    uint32_t slot                   # 0: empty


# Memory of a table that has been emptied. It is given back piece by piece, because the kernel takes its time for each page.
cdef struct Refuse:
    void *base
    uint64_t size_bytes             # 0: none


# Open addressing with linear probing: entries stand in the order of their homes ("Robin Hood": Celis, Larson and Munro,
# 1985), so a search ends early and a removal moves back only what is not at home. It grows step by step: `old` is emptied
# a few places an insertion while both are searched, so no command pays for the whole table.
cdef struct Index:
    Entry *entries
    uint64_t mask                   # count of places - 1
    uint64_t count                  # keys in entries and old together; of by_client only brought up to date when room is made
    Entry *old                      # NULL when nothing is being moved
    uint64_t old_mask
    uint64_t cursor                 # positions of old below it are moved
    Refuse refuse


# order_id -> order. An order's home is the low bits of its id. Ids are consecutive, so orders that live at the same time
# rarely share a home; those that find theirs taken are in `strays`. Grows step by step like an Index.
cdef struct OrderTable:
    uint32_t *slots                 # 0: empty
    uint64_t mask
    uint32_t *old_slots             # NULL when nothing is being moved
    uint64_t old_mask
    uint64_t cursor                 # positions of old_slots below it are moved
    Refuse refuse
    Index strays


ctypedef Entry *EntryPtr
ctypedef Index *IndexPtr
ctypedef OrderTable *OrderTablePtr
ctypedef Refuse *RefusePtr


cdef struct Search:                 # where index_next() goes on; all zeros: at the beginning
    uint64_t distance               # from the key's home
    bint in_old


ctypedef Search *SearchPtr


# indexes.py
cdef bint index_open(Index *index, uint64_t places) noexcept nogil  # places: a power of two; false: no memory
cdef void index_close(Index *index) noexcept nogil
cdef void index_move(Index *index, uint64_t places) noexcept nogil
cdef bint index_grow(Index *index) noexcept nogil
cdef uint32_t index_next(Index *index, uint32_t tag, Search *search) noexcept nogil
cdef uint32_t index_only(Index *index, uint32_t tag) noexcept nogil
cdef uint64_t index_search(Index *index, uint32_t tag, uint32_t slot) noexcept nogil
cdef void give_back(Refuse *refuse, uint64_t most_bytes) noexcept nogil
cdef bint table_open(OrderTable *table, uint64_t places) noexcept nogil
cdef void table_close(OrderTable *table) noexcept nogil
cdef bint table_move(OrderTable *table, OrderPtr orders, uint64_t places) noexcept nogil
cdef bint table_grow(OrderTable *table, OrderPtr orders) noexcept nogil


cdef inline uint64_t room(uint64_t mask, uint64_t count) noexcept nogil:
    # Return how many entries fit into a table until it is to grow.
    #
    # A small table stays nearly empty: then nearly every entry is at home, and a processor guesses
    # right where a search ends. A large one, whose cache misses cost more, is filled to 3/5.
    cdef uint64_t places = mask + 1
    cdef uint64_t most = places // 8 if places <= SPARSE_PLACES else places *3 // 5
    return most - count if most > count else 0


cdef inline uint64_t table_bytes(uint64_t mask) noexcept nogil:
    # Return the size of a table of `mask + 1` places.
    return (mask + 1) * sizeof(Entry)


cdef inline void index_put(Index *index, uint32_t tag, uint32_t slot) noexcept nogil:
    # Store an entry at or after its home, moving on those that are nearer to theirs.
    cdef EntryPtr entries = index.entries
    cdef uint64_t mask = index.mask
    cdef uint64_t position = tag & mask
    cdef uint64_t distance = 0
    cdef uint64_t other_distance
    cdef uint32_t other_tag
    cdef uint32_t other_slot
    while entries[position].slot != 0:
        other_distance = (position - entries[position].tag) & mask
        if other_distance < distance:
            other_tag = entries[position].tag
            other_slot = entries[position].slot
            entries[position].tag = tag
            entries[position].slot = slot
            tag = other_tag
            slot = other_slot
            distance = other_distance
        position = (position + 1) & mask
        distance += 1
    entries[position].tag = tag
    entries[position].slot = slot


cdef inline bint index_ready(Index *index) noexcept nogil:
    # Make sure that one entry can be added; false when there is no memory.
    if index.old != NULL:
        index_move(index, MOVED_PER_INSERT)
    else:
        give_back(&index.refuse, GIVEN_BACK_PER_INSERT)
    if room(index.mask, index.count) != 0:
        return True
    return index_grow(index)


cdef inline uint64_t index_room(Index *index) noexcept nogil:
    # Return how many entries can be added for sure; 1 while it grows step by step.
    if index.old != NULL or index.refuse.size_bytes != 0:
        return 1
    return room(index.mask, index.count)


cdef inline void index_add(Index *index, uint32_t tag, uint32_t slot) noexcept nogil:
    # Add an entry that is not there and count it; index_ready() came before.
    index_put(index, tag, slot)
    index.count += 1


cdef inline void index_take(Index *index, uint32_t tag, uint32_t slot) noexcept nogil:
    # Remove an entry; those after it move back until one is at home.
    cdef EntryPtr entries = index.entries
    cdef uint64_t mask = index.mask
    cdef uint64_t hole = tag & mask
    cdef uint64_t position
    if entries[hole].slot != slot:
        hole = index_search(index, tag, slot)
        if hole == ALL_ONES:
            return
    position = (hole + 1) & mask
    while entries[position].slot != 0 and (position - entries[position].tag) & mask != 0:
        entries[hole] = entries[position]
        hole = position
        position = (position + 1) & mask
    entries[hole].slot = 0


cdef inline void index_remove(Index *index, uint32_t tag, uint32_t slot) noexcept nogil:
    # Remove an entry and count it.
    index.count -= 1
    index_take(index, tag, slot)


cdef inline uint32_t index_get(Index *index, uint32_t key) noexcept nogil:
    # Return the slot of an id that is its own tag, 0 when none.
    cdef EntryPtr entry = index.entries + (key & index.mask)
    if entry.tag == key and entry.slot != 0:
        return entry.slot
    return index_only(index, key)


cdef inline uint32_t stray_tag(uint64_t order_id) noexcept nogil:
    # Hash of an order id; ids that share a home do not share this.
    return <uint32_t> (fold(order_id, P1) >> 32)


cdef inline void table_put(OrderTable *table, uint64_t order_id, uint32_t slot) noexcept nogil:
    # Store an order at home or among the strays; table_ready() came before.
    cdef uint64_t home = order_id & table.mask
    if table.slots[home] == 0:
        table.slots[home] = slot
    else:
        index_add(&table.strays, stray_tag(order_id), slot)


cdef inline bint table_ready(OrderTable *table, OrderPtr orders, uint64_t count) noexcept nogil:
    # Make sure that one order can be added; false when there is no memory.
    if table.old_slots == NULL:
        give_back(&table.refuse, GIVEN_BACK_PER_INSERT)
    elif not table_move(table, orders, MOVED_PER_INSERT):
        return False
    if room(table.mask, count) == 0 and not table_grow(table, orders):
        return False
    return index_ready(&table.strays)


cdef inline void table_remove(OrderTable *table, uint64_t order_id, uint32_t slot) noexcept nogil:
    # Remove an order that is there.
    if table.slots[order_id & table.mask] == slot:
        table.slots[order_id & table.mask] = 0
    elif table.old_slots != NULL and table.old_slots[order_id & table.old_mask] == slot:
        table.old_slots[order_id & table.old_mask] = 0
    else:
        index_remove(&table.strays, stray_tag(order_id), slot)
