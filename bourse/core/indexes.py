"""Makes, grows, searches and drops indexes and order tables (indexes.pxd). Compiled only."""

from __future__ import annotations

import cython
from cython.cimports.bourse.core.invariant import invariant
from cython.cimports.bourse.core.memory import map_zeroed, unmap
from cython.cimports.bourse.core.pools import least
from cython.cimports.bourse.core.structures import OrderPtr, Uint32Ptr
from cython.cimports.libc.stdint import uint32_t, uint64_t

# Places that the index of strays begins with, a power of two.
STRAY_PLACES = cython.declare(uint64_t, 1 << 10)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def give_back(refuse: RefusePtr, most_bytes: uint64_t) -> cython.void:
    """Give back what is left of an emptied table, from its end, at most so much of it."""
    part_bytes: uint64_t = least(refuse.size_bytes, most_bytes)
    if part_bytes == 0:
        return
    refuse.size_bytes -= part_bytes
    unmap(cython.cast(cython.p_char, refuse.base) + refuse.size_bytes, part_bytes)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def throw_away(refuse: RefusePtr, table: cython.p_void, size_bytes: uint64_t) -> cython.void:
    """Note that a table has been emptied."""
    give_back(refuse, ALL_ONES)
    refuse.base = table
    refuse.size_bytes = size_bytes


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def index_open(index: IndexPtr, places: uint64_t) -> cython.bint:
    """Prepare an empty index of `places` places, a power of two; false when there is no memory."""
    index.mask = places - 1
    index.count = 0
    index.old = cython.NULL
    index.old_mask = 0
    index.cursor = 0
    index.refuse.size_bytes = 0
    index.entries = cython.cast(EntryPtr, map_zeroed(table_bytes(index.mask)))
    return index.entries != cython.NULL


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def index_close(index: IndexPtr) -> cython.void:
    """Give all memory back."""
    unmap(index.entries, table_bytes(index.mask))
    unmap(index.old, table_bytes(index.old_mask))
    give_back(cython.address(index.refuse), ALL_ONES)
    index.entries = cython.NULL
    index.old = cython.NULL


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def index_move(index: IndexPtr, places: uint64_t) -> cython.void:
    """Move what stands in the next `places` places of the old table; after the last, drop it."""
    entry: EntryPtr
    while places != 0 and index.cursor <= index.old_mask:
        entry = cython.address(index.old[index.cursor])
        if entry.slot != 0 and entry.slot != TOMBSTONE:
            index_put(index, entry.tag, entry.slot)
            entry.slot = TOMBSTONE
        index.cursor += 1
        places -= 1
    if index.cursor > index.old_mask:
        throw_away(cython.address(index.refuse), index.old, table_bytes(index.old_mask))
        index.old = cython.NULL


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def index_grow(index: IndexPtr) -> cython.bint:
    """Start to move to a table of twice the size; false when there is no memory."""
    entries: EntryPtr
    if index.old != cython.NULL:
        index_move(index, ALL_ONES)
    entries = cython.cast(EntryPtr, map_zeroed(2 * table_bytes(index.mask)))
    if entries == cython.NULL:
        return False
    index.old = index.entries
    index.old_mask = index.mask
    index.cursor = 0
    index.entries = entries
    index.mask = index.mask * 2 + 1
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def index_search(index: IndexPtr, tag: uint32_t, slot: uint32_t) -> uint64_t:
    """Return where an entry is that is not at home.

    ALL_ONES: it was still in the old table, and is a tombstone there now.
    """
    mask: uint64_t = index.mask
    position: uint64_t = tag & mask
    while index.entries[position].slot != slot:
        if index.entries[position].slot == 0:
            invariant(index.old != cython.NULL, b"an index entry to remove is in no table")
            position = tag & index.old_mask
            while index.old[position].slot != slot:
                invariant(index.old[position].slot != 0, b"an index entry to remove is in no table")
                position = (position + 1) & index.old_mask
            index.old[position].slot = TOMBSTONE
            return ALL_ONES
        position = (position + 1) & mask
    return position


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def index_next(index: IndexPtr, tag: uint32_t, search: SearchPtr) -> uint32_t:
    """Return the next slot that stands under a tag, 0 when there is none more.

    Tombstones keep their tag, so one order of entries holds in both tables.
    """
    entries: EntryPtr = index.old if search.in_old else index.entries
    mask: uint64_t = index.old_mask if search.in_old else index.mask
    entry: EntryPtr
    position: uint64_t
    while True:
        position = (tag + search.distance) & mask
        entry = entries + position
        # An entry nearer to its home would have been moved on by the one that is looked for.
        if entry.slot == 0 or ((position - entry.tag) & mask) < search.distance:
            if search.in_old or index.old == cython.NULL:
                return 0
            search.in_old = True
            search.distance = 0
            entries = index.old
            mask = index.old_mask
            continue
        search.distance += 1
        if entry.tag == tag and entry.slot != TOMBSTONE:
            return entry.slot


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def index_only(index: IndexPtr, tag: uint32_t) -> uint32_t:
    """Return the slot under a tag that at most one entry has, 0 when none."""
    search = cython.declare(Search)
    search.distance = 0
    search.in_old = False
    return index_next(index, tag, cython.address(search))


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def table_open(table: OrderTablePtr, places: uint64_t) -> cython.bint:
    """Prepare an empty table of `places` places, a power of two; false when there is no memory."""
    table.mask = places - 1
    table.old_slots = cython.NULL
    table.old_mask = 0
    table.cursor = 0
    table.slots = cython.cast(Uint32Ptr, map_zeroed(places * cython.sizeof(uint32_t)))
    return index_open(cython.address(table.strays), STRAY_PLACES) and table.slots != cython.NULL


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def table_close(table: OrderTablePtr) -> cython.void:
    """Give all memory back."""
    unmap(table.slots, (table.mask + 1) * cython.sizeof(uint32_t))
    unmap(table.old_slots, (table.old_mask + 1) * cython.sizeof(uint32_t))
    give_back(cython.address(table.refuse), ALL_ONES)
    table.slots = cython.NULL
    table.old_slots = cython.NULL
    index_close(cython.address(table.strays))


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def table_move(table: OrderTablePtr, orders: OrderPtr, places: uint64_t) -> cython.bint:
    """Move the next `places` places of the old table; false when there is no memory."""
    slot: uint32_t
    while places != 0 and table.cursor <= table.old_mask:
        slot = table.old_slots[table.cursor]
        if slot != 0:
            if not index_ready(cython.address(table.strays)):
                return False
            table.old_slots[table.cursor] = 0
            table_put(table, orders[slot].order_id, slot)
        table.cursor += 1
        places -= 1
    if table.cursor > table.old_mask:
        throw_away(
            cython.address(table.refuse),
            table.old_slots,
            (table.old_mask + 1) * cython.sizeof(uint32_t),
        )
        table.old_slots = cython.NULL
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def table_grow(table: OrderTablePtr, orders: OrderPtr) -> cython.bint:
    """Start to move to a table of twice the size; false when there is no memory."""
    slots: Uint32Ptr
    if table.old_slots != cython.NULL and not table_move(table, orders, ALL_ONES):
        return False
    slots = cython.cast(Uint32Ptr, map_zeroed((table.mask + 1) * 2 * cython.sizeof(uint32_t)))
    if slots == cython.NULL:
        return False
    table.old_slots = table.slots
    table.old_mask = table.mask
    table.cursor = 0
    table.slots = slots
    table.mask = table.mask * 2 + 1
    return True
