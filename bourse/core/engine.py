"""The matching engine: executes one command at a time against the books, deterministically.

    Command ──► validate ──► HEAD ──► numbered events ──► window
                   │                       │
                   └── reason, no trace    └── levels, queues, sessions, indexes, digests

The rules, the order of events and the digests are specified in docs/matching.md. Nothing here
knows a clock, a file or a thread; whoever owns an engine calls it from one thread at a time without
the GIL. Events go to a window of a ring. When it is full, the engine stops between two events,
remembers where (`phase`), and `resume()` goes on: a command with a million fills needs no buffer of
that size.

structures.pxd draws what is kept in memory; audit.py proves it, restoring.py rebuilds it from a
snapshot. Compiled only.
"""

from __future__ import annotations

import cython
from cython.cimports.bourse.core.invariant import invariant
from cython.cimports.bourse.core.memory import commit, map_zeroed, reserve, unmap
from cython.cimports.bourse.core.records import (
    Command,
    DepthLevel,
    EngineState,
    Event,
    EventWindow,
    InstrumentRecord,
    OrderRecord,
)
from cython.cimports.bourse.core.structures import (
    ACCEPTED,
    ALL_ONES,
    BAD_COMMAND,
    BLOCK_LEVELS,
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
    HEAD,
    INSTRUMENT_DEFINE,
    IOC,
    KEY_MIN,
    LIMIT,
    M1,
    MARKET,
    NEW_ORDER,
    NO_LIQUIDITY,
    OPERATOR,
    OPERATOR_CANCELLED,
    OUT_OF_MEMORY,
    P1,
    P2,
    P3,
    P4,
    P5,
    PHASE_ACCEPTED,
    PHASE_CANCEL,
    PHASE_CANCEL_SESSION,
    PHASE_HEAD,
    PHASE_IDLE,
    PHASE_MATCH,
    PHASE_REJECTED,
    PHASE_REPLACE,
    POST_ONLY,
    POST_ONLY_WOULD_CROSS,
    QUANTITY_OVERFLOW,
    REPLACE,
    REPLACED,
    REPLACED_TO_FILLED,
    SELL,
    SESSION_END,
    SESSION_ENDED,
    SESSION_OPEN,
    SNAPSHOT_MARK,
    TOMBSTONE,
    TRADE,
    UNKNOWN_INSTRUMENT,
    UNKNOWN_ORDER,
    UNKNOWN_SESSION,
    ZERO_QUANTITY,
    Block,
    BlockPtr,
    BookSide,
    CommandPtr,
    ConstVoidPtr,
    DepthLevelPtr,
    Entry,
    EntryPtr,
    EventPtr,
    IndexPtr,
    InstrumentRecordPtr,
    Int64Ptr,
    Level,
    LevelPtr,
    Order,
    OrderPtr,
    OrderRecordPtr,
    OrderTablePtr,
    PoolPtr,
    RefusePtr,
    Session,
    SessionPtr,
    SidePtr,
    Uint32Ptr,
    Uint64Ptr,
    WindowPtr,
    fold,
)
from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cython.cimports.libc.stdint import int64_t, uint8_t, uint32_t, uint64_t
from cython.cimports.libc.stdlib import free, malloc, qsort, realloc
from cython.cimports.libc.string import memcpy, memmove, memset

from bourse import domain
from bourse.core import agreement  # noqa: F401  (fails where the constants differ)

ORDERS_MAX = 1 << 30
"""Live orders that one engine can hold at most: 64 GiB of them, reserved as address space."""

_APPLY_EVENTS = 256

# Places that the indexes begin with, powers of two.
CLIENT_PLACES = cython.declare(uint64_t, 1 << 11)
STRAY_PLACES = cython.declare(uint64_t, 1 << 10)
# Up to so many places (512 KiB of an index) at most an eighth is used.
SPARSE_PLACES = cython.declare(uint64_t, 1 << 16)
# Entries of the old table looked at for each insertion while an index grows. A table of n places is
# emptied after n/16 insertions; the next growth is at least n/8 insertions away.
MOVED_PER_INSERT = cython.declare(cython.int, 16)
# Bytes of an emptied table given back at each insertion: four pages, 5 to 10 us (16: 25 to 35).
GIVEN_BACK_PER_INSERT = cython.declare(uint64_t, 1 << 14)


# --- Pools ----------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def pool_open(
    pool: PoolPtr, item_bytes: uint64_t, chunk_slots: uint64_t, slots_max: uint64_t
) -> cython.bint:
    """Prepare an empty pool; false when not even a small range of addresses is free."""
    pool.item_bytes = item_bytes
    pool.chunk_slots = chunk_slots
    pool.slots_max = slots_max
    pool.capacity = 0
    pool.next_unused = 1
    pool.live_count = 0
    pool.free = 0
    pool.base = cython.NULL
    # A limit on the process's address space leaves room for fewer.
    while pool.base == cython.NULL and pool.slots_max >= chunk_slots:
        pool.reserved_bytes = pool.slots_max * item_bytes
        pool.base = reserve(pool.reserved_bytes)
        if pool.base == cython.NULL:
            pool.slots_max //= 2
    return pool.base != cython.NULL


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def pool_close(pool: PoolPtr) -> cython.void:
    """Give all memory back."""
    unmap(pool.base, pool.reserved_bytes)
    pool.base = cython.NULL


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def pool_grow(pool: PoolPtr) -> cython.bint:
    """Make one more chunk usable; false when there is no memory."""
    start: cython.p_char = cython.cast(cython.p_char, pool.base) + pool.capacity * pool.item_bytes
    if (pool.capacity + pool.chunk_slots) * pool.item_bytes > pool.reserved_bytes:
        return False
    if not commit(start, pool.chunk_slots * pool.item_bytes):
        return False
    pool.capacity += pool.chunk_slots
    return True


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def pool_ready(pool: PoolPtr) -> cython.bint:
    """Make sure that one slot can be taken; false when there is no memory."""
    if pool.free != 0:
        return True
    if pool.next_unused >= pool.slots_max:
        return False
    return pool.next_unused < pool.capacity or pool_grow(pool)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def least(a: uint64_t, b: uint64_t) -> uint64_t:
    """Return the smaller number."""
    return a if a < b else b


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def pool_room(pool: PoolPtr, live_count: uint64_t) -> uint64_t:
    """Return how many slots can be taken for sure when so many are live."""
    return least(pool.capacity, pool.slots_max) - 1 - live_count


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def order_at(engine: Engine, slot: uint32_t) -> OrderPtr:
    """Return the order in a slot."""
    return cython.cast(OrderPtr, engine.order_pool.base) + slot


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def level_at(engine: Engine, slot: uint32_t) -> LevelPtr:
    """Return the level in a slot."""
    return cython.cast(LevelPtr, engine.level_pool.base) + slot


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def block_at(engine: Engine, slot: uint32_t) -> BlockPtr:
    """Return the block in a slot."""
    return cython.cast(BlockPtr, engine.block_pool.base) + slot


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def session_at(engine: Engine, slot: uint32_t) -> SessionPtr:
    """Return the session in a slot."""
    return cython.cast(SessionPtr, engine.session_pool.base) + slot


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def side_at(engine: Engine, slot: uint32_t) -> SidePtr:
    """Return the side in a slot."""
    return cython.cast(SidePtr, engine.side_pool.base) + slot


# --- Digests (docs/matching.md) -------------------------------------------------------------------


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def place_word(instrument_id: uint32_t, side: uint32_t, price_ticks: int64_t) -> uint64_t:
    """The part of an order's term that all orders of a level share."""
    return (cython.cast(uint64_t, instrument_id) * 4 + side) * P5 + cython.cast(
        uint64_t, price_ticks
    ) * P3


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def order_term(
    order_id: uint64_t, priority: uint64_t, leaves_lots: uint64_t, place: uint64_t
) -> uint64_t:
    """What one live order adds to the state digest."""
    return fold(order_id * P1 + priority * P2 + leaves_lots * P4 + place, M1)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def link(digest: uint64_t, word: uint64_t) -> uint64_t:
    """Return the event digest after one more event's word."""
    digest = digest ^ word
    return ((digest << 29) | (digest >> 35)) * P1 + P5


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def chain(
    digest: uint64_t,
    kind: uint64_t,
    reason: uint64_t,
    side: uint64_t,
    instrument_id: uint64_t,
    order_id: uint64_t,
    price_ticks: int64_t,
    qty_lots: uint64_t,
) -> uint64_t:
    """Return the event digest after one more event.

    Only the last two lines depend on the digest before: events' multiplications overlap.
    """
    word: uint64_t = kind | (reason << 8) | (side << 16) | (instrument_id << 32)
    return link(
        digest,
        word * P1 + order_id * P2 + cython.cast(uint64_t, price_ticks) * P3 + qty_lots * P4,
    )


# --- Indexes --------------------------------------------------------------------------------------


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def client_tag(engine: Engine, session: SessionPtr, client_order_id: uint64_t) -> uint32_t:
    """Hash of an order's key among its session's.

    Eight consecutive ids are neighbours, for most clients count; the groups are spread well, and
    differently in every process (`multiplier`), so nobody can choose ids that share a home.
    """
    word: uint64_t = (client_order_id >> 3) + session.salt
    return cython.cast(
        uint32_t, ((fold(word, engine.multiplier) >> 32) << 3) | (client_order_id & 7)
    )


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def table_bytes(mask: uint64_t) -> uint64_t:
    """Return the size of a table of `mask + 1` places."""
    return (mask + 1) * cython.sizeof(Entry)


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
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def index_put(index: IndexPtr, tag: uint32_t, slot: uint32_t) -> cython.void:
    """Store an entry at or after its home, moving on those that are nearer to theirs."""
    entries: EntryPtr = index.entries
    mask: uint64_t = index.mask
    position: uint64_t = tag & mask
    distance: uint64_t = 0
    other_distance: uint64_t
    other_tag: uint32_t
    other_slot: uint32_t
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
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def room(mask: uint64_t, count: uint64_t) -> uint64_t:
    """Return how many entries fit into a table until it is to grow.

    A small table stays nearly empty: then nearly every entry is at home, and a processor guesses
    right where a search ends. A large one, whose cache misses cost more, is filled to 3/5.
    """
    places: uint64_t = mask + 1
    most: uint64_t = places // 8 if places <= SPARSE_PLACES else places * 3 // 5
    return most - count if most > count else 0


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def index_ready(index: IndexPtr) -> cython.bint:
    """Make sure that one entry can be added; false when there is no memory."""
    if index.old != cython.NULL:
        index_move(index, MOVED_PER_INSERT)
    else:
        give_back(cython.address(index.refuse), GIVEN_BACK_PER_INSERT)
    if room(index.mask, index.count) != 0:
        return True
    return index_grow(index)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def index_room(index: IndexPtr) -> uint64_t:
    """Return how many entries can be added for sure; 1 while it grows step by step."""
    if index.old != cython.NULL or index.refuse.size_bytes != 0:
        return 1
    return room(index.mask, index.count)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def index_add(index: IndexPtr, tag: uint32_t, slot: uint32_t) -> cython.void:
    """Add an entry that is not there and count it; index_ready() came before."""
    index_put(index, tag, slot)
    index.count += 1


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
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def index_take(index: IndexPtr, tag: uint32_t, slot: uint32_t) -> cython.void:
    """Remove an entry; those after it move back until one is at home."""
    entries: EntryPtr = index.entries
    mask: uint64_t = index.mask
    hole: uint64_t = tag & mask
    position: uint64_t
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


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def index_remove(index: IndexPtr, tag: uint32_t, slot: uint32_t) -> cython.void:
    """Remove an entry and count it."""
    index.count -= 1
    index_take(index, tag, slot)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def matches(
    engine: Engine, what: cython.int, slot: uint32_t, key: uint64_t, session: uint32_t
) -> cython.bint:
    """Tell whether the thing in a slot has a key."""
    order: OrderPtr
    if what == 0:
        order = order_at(engine, slot)
        return order.client_order_id == key and order.session == session
    if what == 1:
        return order_at(engine, slot).order_id == key
    if what == 2:
        return session_at(engine, slot).session_id == key
    return side_at(engine, slot).instrument_id == key


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def find(
    engine: Engine,
    index: IndexPtr,
    what: cython.int,
    tag: uint32_t,
    key: uint64_t,
    session: uint32_t,
) -> uint32_t:
    """Return the slot that a key has in an index, 0 when none."""
    entries: EntryPtr = index.entries
    mask: uint64_t = index.mask
    position: uint64_t = tag & mask
    distance: uint64_t = 0
    slot: uint32_t
    while True:
        slot = entries[position].slot
        # An entry nearer to its home would have been moved on by the one that is looked for.
        if slot == 0 or ((position - entries[position].tag) & mask) < distance:
            break
        if entries[position].tag == tag and matches(engine, what, slot, key, session):
            return slot
        position = (position + 1) & mask
        distance += 1
    if index.old == cython.NULL:
        return 0
    # Tombstones keep their tag, so the same holds here.
    entries = index.old
    mask = index.old_mask
    position = tag & mask
    distance = 0
    while True:
        slot = entries[position].slot
        if slot == 0 or ((position - entries[position].tag) & mask) < distance:
            return 0
        if (
            slot != TOMBSTONE
            and entries[position].tag == tag
            and matches(engine, what, slot, key, session)
        ):
            return slot
        position = (position + 1) & mask
        distance += 1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def find_tagged(
    engine: Engine, tag: uint32_t, session: uint32_t, client_order_id: uint64_t
) -> uint32_t:
    """Return the slot of a session's live order whose tag is known, 0 when none.

    Most new orders' homes are empty.
    """
    index: IndexPtr = cython.address(engine.by_client)
    if index.entries[tag & index.mask].slot == 0 and index.old == cython.NULL:
        return 0
    return find(engine, index, 0, tag, client_order_id, session)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def find_client(engine: Engine, session: uint32_t, client_order_id: uint64_t) -> uint32_t:
    """Return the slot of a session's live order, 0 when none."""
    return find_tagged(
        engine,
        client_tag(engine, session_at(engine, session), client_order_id),
        session,
        client_order_id,
    )


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def stray_tag(order_id: uint64_t) -> uint32_t:
    """Hash of an order id; ids that share a home do not share this."""
    return cython.cast(uint32_t, fold(order_id, P1) >> 32)


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
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def table_put(table: OrderTablePtr, order_id: uint64_t, slot: uint32_t) -> cython.void:
    """Store an order at home or among the strays; order_table_ready() came before."""
    home: uint64_t = order_id & table.mask
    if table.slots[home] == 0:
        table.slots[home] = slot
    else:
        index_add(cython.address(table.strays), stray_tag(order_id), slot)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def table_move(engine: Engine, places: uint64_t) -> cython.bint:
    """Move the next `places` places of the old table; false when there is no memory."""
    table: OrderTablePtr = cython.address(engine.by_order_id)
    slot: uint32_t
    while places != 0 and table.cursor <= table.old_mask:
        slot = table.old_slots[table.cursor]
        if slot != 0:
            if not index_ready(cython.address(table.strays)):
                return False
            table.old_slots[table.cursor] = 0
            table_put(table, order_at(engine, slot).order_id, slot)
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
def table_grow(engine: Engine) -> cython.bint:
    """Start to move to a table of twice the size; false when there is no memory."""
    table: OrderTablePtr = cython.address(engine.by_order_id)
    slots: Uint32Ptr
    if table.old_slots != cython.NULL and not table_move(engine, ALL_ONES):
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


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def table_ready(engine: Engine) -> cython.bint:
    """Make sure that one order can be added; false when there is no memory."""
    table: OrderTablePtr = cython.address(engine.by_order_id)
    if table.old_slots == cython.NULL:
        give_back(cython.address(table.refuse), GIVEN_BACK_PER_INSERT)
    elif not table_move(engine, MOVED_PER_INSERT):
        return False
    if room(table.mask, engine.state.live_order_count) == 0 and not table_grow(engine):
        return False
    return index_ready(cython.address(table.strays))


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def table_remove(table: OrderTablePtr, order_id: uint64_t, slot: uint32_t) -> cython.void:
    """Remove an order that is there."""
    if table.slots[order_id & table.mask] == slot:
        table.slots[order_id & table.mask] = 0
    elif table.old_slots != cython.NULL and table.old_slots[order_id & table.old_mask] == slot:
        table.old_slots[order_id & table.old_mask] = 0
    else:
        index_remove(cython.address(table.strays), stray_tag(order_id), slot)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def find_order(engine: Engine, order_id: uint64_t) -> uint32_t:
    """Return the slot of a live order, 0 when none."""
    table: OrderTablePtr = cython.address(engine.by_order_id)
    slot: uint32_t = table.slots[order_id & table.mask]
    if slot != 0 and order_at(engine, slot).order_id == order_id:
        return slot
    if table.old_slots != cython.NULL:
        slot = table.old_slots[order_id & table.old_mask]
        if slot != 0 and order_at(engine, slot).order_id == order_id:
            return slot
    return find(engine, cython.address(table.strays), 1, stray_tag(order_id), order_id, 0)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def numbered(engine: Engine, index: IndexPtr, what: cython.int, key: uint32_t) -> uint32_t:
    """Return the slot of a session or instrument, 0 when none.

    Its tag is the id itself, so an entry at home needs no look at the thing.
    """
    entry: EntryPtr = index.entries + (key & index.mask)
    if entry.tag == key and entry.slot != 0:
        return entry.slot
    return find(engine, index, what, key, key, 0)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def find_session(engine: Engine, session_id: uint32_t) -> uint32_t:
    """Return the slot of a session that is open or has live orders, 0 when none."""
    return numbered(engine, cython.address(engine.by_session_id), 2, session_id)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def find_instrument(engine: Engine, instrument_id: uint32_t) -> uint32_t:
    """Return the slot of an instrument's buy side, 0 when none."""
    return numbered(engine, cython.address(engine.by_instrument_id), 3, instrument_id)


# --- Levels ---------------------------------------------------------------------------------------


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def key_of(side: uint32_t, price_ticks: int64_t) -> int64_t:
    """Price to key, and key to price: higher keys are better prices on both sides.

    The same price for BUY (1), all bits turned over for SELL (2), without a branch to guess.
    """
    return price_ticks ^ (1 - cython.cast(int64_t, side))


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def find_block(side: SidePtr, key: int64_t) -> uint32_t:
    """Return the position of the one block that may hold a key; there is at least one block."""
    low: uint32_t = 0
    high: uint32_t = side.block_count - 1
    middle: uint32_t
    if high == 0 or key >= side.separators[high]:
        return high
    # Block `low` starts at or before the key, block `high` after it.
    while high - low > 1:
        middle = low + (high - low) // 2
        if key >= side.separators[middle]:
            low = middle
        else:
            high = middle
    return low


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def position_in(block: BlockPtr, key: int64_t) -> uint32_t:
    """Return the position of the first level of a block whose key is not lower, or its count.

    Keys are distinct whole numbers, so a key that is `distance` below the last one stands at most
    as many places before it, and exactly there where every price has its level, as near the touch.
    Else the rest is halved without a branch to guess.
    """
    count: uint32_t = block.count
    low: uint32_t = 0
    half: uint32_t
    distance: uint64_t
    if count == 0 or key > block.keys[count - 1]:
        return count
    distance = cython.cast(uint64_t, block.keys[count - 1]) - cython.cast(uint64_t, key)
    if distance < count:
        low = count - 1 - cython.cast(uint32_t, distance)
    if block.keys[low] >= key:
        return low
    count -= low
    while count > 1:
        half = count // 2
        low += half * cython.cast(uint32_t, block.keys[low + half - 1] < key)
        count -= half
    return low + cython.cast(uint32_t, block.keys[low] < key)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def search_level(engine: Engine, side: SidePtr, key: int64_t) -> uint32_t:
    """Return the level of a key behind the touch, 0 when there is none; sets `found_*`."""
    block: BlockPtr
    position: uint32_t
    engine.found_level = 0
    engine.found_block = find_block(side, key)
    block = (
        side.top
        if engine.found_block == side.block_count - 1
        else block_at(engine, side.blocks[engine.found_block])
    )
    position = position_in(block, key)
    engine.found_position = position
    if position < block.count and block.keys[position] == key:
        engine.found_level = block.levels[position]
    return engine.found_level


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def find_level(engine: Engine, side: SidePtr, key: int64_t) -> uint32_t:
    """Return the level of a key, 0 when there is none.

    `found_*` say where it is or would be, unless it is the best level or would be.
    """
    if side.best_level != 0 and key < side.best_key:
        return search_level(engine, side, key)
    engine.found_level = 0
    if side.best_level != 0 and key == side.best_key:
        engine.found_level = side.best_level
    return engine.found_level


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def directory_ready(side: SidePtr) -> cython.bint:
    """Make sure that a side can have one more block; false when there is no memory."""
    capacity: uint32_t
    separators: cython.p_void
    blocks: cython.p_void
    if side.block_count < side.block_capacity:
        return True
    capacity = 8 if side.block_capacity == 0 else side.block_capacity * 2
    separators = realloc(side.separators, capacity * cython.sizeof(int64_t))
    if separators == cython.NULL:
        return False
    side.separators = cython.cast(Int64Ptr, separators)
    blocks = realloc(side.blocks, capacity * cython.sizeof(uint32_t))
    if blocks == cython.NULL:
        return False
    side.blocks = cython.cast(Uint32Ptr, blocks)
    side.block_capacity = capacity
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def add_block(engine: Engine, side: SidePtr, at: uint32_t) -> BlockPtr:
    """Insert an empty block into a side's directory; memory was made sure of before."""
    pool: PoolPtr = cython.address(engine.block_pool)
    slot: uint32_t = pool.free
    block: BlockPtr
    if slot != 0:
        block = block_at(engine, slot)
        pool.free = block.next_free
    else:
        slot = cython.cast(uint32_t, pool.next_unused)
        pool.next_unused += 1
        block = block_at(engine, slot)
    pool.live_count += 1
    block.slot = slot
    block.count = 0
    invariant(side.block_count < side.block_capacity, b"no room in a side's directory")
    memmove(
        side.separators + at + 1,
        side.separators + at,
        (side.block_count - at) * cython.sizeof(int64_t),
    )
    memmove(
        side.blocks + at + 1, side.blocks + at, (side.block_count - at) * cython.sizeof(uint32_t)
    )
    side.blocks[at] = slot
    side.separators[at] = KEY_MIN
    side.block_count += 1
    side.top = block_at(engine, side.blocks[side.block_count - 1])
    return block


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def drop_block(engine: Engine, side: SidePtr, at: uint32_t) -> cython.void:
    """Take a block out of a side's directory."""
    block: BlockPtr = block_at(engine, side.blocks[at])
    block.next_free = engine.block_pool.free
    engine.block_pool.free = block.slot
    engine.block_pool.live_count -= 1
    side.block_count -= 1
    memmove(
        side.separators + at,
        side.separators + at + 1,
        (side.block_count - at) * cython.sizeof(int64_t),
    )
    memmove(
        side.blocks + at, side.blocks + at + 1, (side.block_count - at) * cython.sizeof(uint32_t)
    )
    side.top = block_at(engine, side.blocks[side.block_count - 1])


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def append_entries(block: BlockPtr, source: BlockPtr, first: uint32_t) -> cython.void:
    """Move the entries of a block from `first` on to the end of another."""
    count: uint32_t = source.count - first
    memcpy(
        cython.address(block.keys[block.count]),
        cython.address(source.keys[first]),
        count * cython.sizeof(int64_t),
    )
    memcpy(
        cython.address(block.levels[block.count]),
        cython.address(source.levels[first]),
        count * cython.sizeof(uint32_t),
    )
    block.count += count
    source.count = first


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def insert_level(engine: Engine, side: SidePtr, slot: uint32_t, key: int64_t) -> cython.void:
    """Put a level where `found_block` and `found_position` say, or into a side's first block."""
    position: uint32_t = engine.found_position
    at: uint32_t = engine.found_block
    block: BlockPtr
    upper: BlockPtr
    if side.block_count == 0:
        block = add_block(engine, side, 0)
        position = 0
    else:
        block = block_at(engine, side.blocks[at])
    if block.count == BLOCK_LEVELS:
        upper = add_block(engine, side, at + 1)
        append_entries(upper, block, BLOCK_LEVELS // 2)
        side.separators[at + 1] = upper.keys[0]
        if position > BLOCK_LEVELS // 2:
            block = upper
            position -= BLOCK_LEVELS // 2
    memmove(
        cython.address(block.keys[position + 1]),
        cython.address(block.keys[position]),
        (block.count - position) * cython.sizeof(int64_t),
    )
    memmove(
        cython.address(block.levels[position + 1]),
        cython.address(block.levels[position]),
        (block.count - position) * cython.sizeof(uint32_t),
    )
    block.keys[position] = key
    block.levels[position] = slot
    block.count += 1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def add_level(engine: Engine, side_slot: uint32_t, key: int64_t) -> uint32_t:
    """Make the level that find_level() has just not found; memory was made sure of before.

    Its queue is begin_queue()'s to make.
    """
    side: SidePtr = side_at(engine, side_slot)
    pool: PoolPtr = cython.address(engine.level_pool)
    slot: uint32_t = pool.free
    level: LevelPtr
    block: BlockPtr = side.top
    count: uint32_t
    if slot != 0:
        level = level_at(engine, slot)
        pool.free = level.head
    else:
        slot = cython.cast(uint32_t, pool.next_unused)
        pool.next_unused += 1
        level = level_at(engine, slot)
    pool.live_count += 1
    level.key = key
    level.side = side_slot
    side.level_count += 1
    if side.best_level != 0 and key < side.best_key:
        insert_level(engine, side, slot, key)
        return slot
    side.best_key = key
    side.best_level = slot
    if block == cython.NULL or block.count == BLOCK_LEVELS:
        engine.found_block = side.block_count - 1
        engine.found_position = BLOCK_LEVELS
        insert_level(engine, side, slot, key)
        return slot
    count = block.count
    block.keys[count] = key
    block.levels[count] = slot
    block.count = count + 1
    return slot


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def free_level(engine: Engine, slot: uint32_t, level: LevelPtr) -> cython.void:
    """Give a level that is on no side any more back to the pool."""
    level.head = engine.level_pool.free
    engine.level_pool.free = slot
    engine.level_pool.live_count -= 1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def pop_best(engine: Engine, side: SidePtr) -> cython.void:
    """Take the best level off a side; its queue is empty."""
    block: BlockPtr = side.top
    block.count -= 1
    side.level_count -= 1
    if block.count == 0:
        # The last block stays, so that a side between empty and one level does no work for it.
        if side.block_count == 1:
            side.best_level = 0
            return
        drop_block(engine, side, side.block_count - 1)
        block = side.top
    side.best_key = block.keys[block.count - 1]
    side.best_level = block.levels[block.count - 1]


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def merge_block(engine: Engine, side: SidePtr, at: uint32_t) -> cython.void:
    """Join a block that is nearly empty with a neighbour that has room, so that blocks stay few."""
    block: BlockPtr = block_at(engine, side.blocks[at])
    other: BlockPtr
    if at + 1 < side.block_count:
        other = block_at(engine, side.blocks[at + 1])
        if block.count + other.count <= BLOCK_LEVELS * 3 // 4:
            append_entries(block, other, 0)
            drop_block(engine, side, at + 1)
            return
    if at > 0:
        other = block_at(engine, side.blocks[at - 1])
        if block.count + other.count <= BLOCK_LEVELS * 3 // 4:
            append_entries(other, block, 0)
            drop_block(engine, side, at)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def remove_level(engine: Engine, side: SidePtr, key: int64_t) -> cython.void:
    """Take any level off a side; its queue is empty."""
    block: BlockPtr
    at: uint32_t
    position: uint32_t
    if key == side.best_key:
        pop_best(engine, side)
        return
    at = find_block(side, key)
    block = block_at(engine, side.blocks[at])
    position = position_in(block, key)
    invariant(position < block.count and block.keys[position] == key, b"a level is not on its side")
    block.count -= 1
    side.level_count -= 1
    memmove(
        cython.address(block.keys[position]),
        cython.address(block.keys[position + 1]),
        (block.count - position) * cython.sizeof(int64_t),
    )
    memmove(
        cython.address(block.levels[position]),
        cython.address(block.levels[position + 1]),
        (block.count - position) * cython.sizeof(uint32_t),
    )
    # The best level is still there, so a block that is now empty is not the top one.
    if block.count == 0:
        drop_block(engine, side, at)
    elif block.count < BLOCK_LEVELS // 4 and at + 1 < side.block_count:
        merge_block(engine, side, at)


# --- Orders ---------------------------------------------------------------------------------------


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def free_session_if_over(engine: Engine, slot: uint32_t, session: SessionPtr) -> cython.void:
    """Forget a session that is closed and has no live order."""
    if session.head != 0 or session.is_open:
        return
    index_remove(cython.address(engine.by_session_id), session.session_id, slot)
    session.session_id = 0
    session.head = engine.session_pool.free
    engine.session_pool.free = slot
    engine.session_pool.live_count -= 1
    engine.state.session_count -= 1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def join_queue(
    engine: Engine, slot: uint32_t, order: OrderPtr, level_slot: uint32_t
) -> cython.void:
    """Make an order the last one of a level's queue."""
    level: LevelPtr = level_at(engine, level_slot)
    order.level = level_slot
    order.next = 0
    order.prev = level.tail
    if level.tail != 0:
        order_at(engine, level.tail).next = slot
    else:
        level.head = slot
    level.tail = slot
    level.qty_lots += order.leaves_lots
    level.order_count += 1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def begin_queue(
    engine: Engine, slot: uint32_t, order: OrderPtr, level_slot: uint32_t
) -> cython.void:
    """Make an order the only one of a new level's queue."""
    level: LevelPtr = level_at(engine, level_slot)
    order.level = level_slot
    order.next = 0
    order.prev = 0
    level.head = slot
    level.tail = slot
    level.qty_lots = order.leaves_lots
    level.order_count = 1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def leave_queue(engine: Engine, order: OrderPtr, side: SidePtr) -> cython.void:
    """Take an order out of its level's queue; a level that is empty then goes with it."""
    level_slot: uint32_t = order.level
    level: LevelPtr = level_at(engine, level_slot)
    level.qty_lots -= order.leaves_lots
    level.order_count -= 1
    if order.prev != 0:
        order_at(engine, order.prev).next = order.next
    else:
        level.head = order.next
    if order.next != 0:
        order_at(engine, order.next).prev = order.prev
    else:
        level.tail = order.prev
    if level.head == 0:
        remove_level(engine, side, level.key)
        free_level(engine, level_slot, level)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def unlist_order(
    engine: Engine, slot: uint32_t, order: OrderPtr, session: SessionPtr
) -> cython.void:
    """Take an order off its session and the indexes; its slot is marked free, but on no list."""
    if order.session_prev != 0:
        order_at(engine, order.session_prev).session_next = order.session_next
    else:
        session.head = order.session_next
    if order.session_next != 0:
        order_at(engine, order.session_next).session_prev = order.session_prev
    else:
        session.tail = order.session_prev
        free_session_if_over(engine, order.session, session)
    index_take(
        cython.address(engine.by_client), client_tag(engine, session, order.client_order_id), slot
    )
    table_remove(cython.address(engine.by_order_id), order.order_id, slot)
    order.leaves_lots = 0


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def forget_order(
    engine: Engine, slot: uint32_t, order: OrderPtr, session: SessionPtr
) -> cython.void:
    """Take an order off its session and the indexes and free it; it has left its queue."""
    unlist_order(engine, slot, order, session)
    order.next = engine.order_pool.free
    engine.order_pool.free = slot


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def append_order(
    engine: Engine,
    level_slot: uint32_t,
    is_new_level: cython.bint,
    session_slot: uint32_t,
    tag: uint32_t,
    client_order_id: uint64_t,
    order_id: uint64_t,
    leaves_lots: uint64_t,
    qty_lots: uint64_t,
    place: uint64_t,
) -> cython.void:
    """Put a new order at the end of a level's queue, its session's list and both indexes."""
    pool: PoolPtr = cython.address(engine.order_pool)
    slot: uint32_t = pool.free
    order: OrderPtr
    session: SessionPtr = session_at(engine, session_slot)
    if slot != 0:
        order = order_at(engine, slot)
        pool.free = order.next
    else:
        slot = cython.cast(uint32_t, pool.next_unused)
        pool.next_unused += 1
        order = order_at(engine, slot)
    order.client_order_id = client_order_id
    order.order_id = order_id
    order.leaves_lots = leaves_lots
    order.qty_lots = qty_lots
    order.place = place
    order.session = session_slot
    order.session_next = 0
    order.session_prev = session.tail
    if session.tail != 0:
        order_at(engine, session.tail).session_next = slot
    else:
        session.head = slot
    session.tail = slot
    if is_new_level:
        begin_queue(engine, slot, order, level_slot)
    else:
        join_queue(engine, slot, order, level_slot)
    engine.sure_count -= 1
    index_put(cython.address(engine.by_client), tag, slot)
    table_put(cython.address(engine.by_order_id), order_id, slot)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def make_ready(engine: Engine) -> cython.bint:
    """Make room for one more order, and note for how many more there is room then."""
    sure: uint64_t
    engine.by_client.count = engine.state.live_order_count
    if not (
        pool_ready(cython.address(engine.order_pool))
        and pool_ready(cython.address(engine.level_pool))
        and pool_ready(cython.address(engine.block_pool))
        and index_ready(cython.address(engine.by_client))
        and table_ready(engine)
    ):
        return False
    sure = least(
        least(
            pool_room(cython.address(engine.order_pool), engine.state.live_order_count),
            pool_room(cython.address(engine.level_pool), engine.level_pool.live_count),
        ),
        pool_room(cython.address(engine.block_pool), engine.block_pool.live_count),
    )
    sure = least(sure, index_room(cython.address(engine.by_client)))
    sure = least(sure, index_room(cython.address(engine.by_order_id.strays)))
    if engine.by_order_id.old_slots != cython.NULL or engine.by_order_id.refuse.size_bytes != 0:
        sure = 1
    sure = least(sure, room(engine.by_order_id.mask, engine.state.live_order_count))
    engine.sure_count = sure if sure != 0 else 1
    return True


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def order_ready(engine: Engine, side: SidePtr) -> cython.bint:
    """Make sure that one order can rest on a side; false when there is no memory."""
    return (engine.sure_count != 0 or make_ready(engine)) and (
        side.block_count < side.block_capacity or directory_ready(side)
    )


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def level_ready(engine: Engine, side: SidePtr) -> cython.bint:
    """Make sure that a side can have one more level; false when there is no memory."""
    if engine.sure_count == 0 and not (
        pool_ready(cython.address(engine.level_pool))
        and pool_ready(cython.address(engine.block_pool))
    ):
        return False
    return side.block_count < side.block_capacity or directory_ready(side)


# --- Events ---------------------------------------------------------------------------------------


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def put_event(
    event: EventPtr,
    kind: uint64_t,
    reason: uint64_t,
    side: uint64_t,
    session_id: uint64_t,
    sequence: uint64_t,
    client_order_id: uint64_t,
    order_id: uint64_t,
    price_ticks: int64_t,
    qty_lots: uint64_t,
    leaves_lots: uint64_t,
    instrument_id: uint32_t,
) -> cython.void:
    """Write all 64 bytes of an event.

    Eight words instead of thirteen fields, because a core stores one or two words a cycle. The
    first word is kind, reason, side, command_kind and session_id, the last one instrument_id and
    spare: the machine is little-endian.
    """
    words: Uint64Ptr = cython.cast(Uint64Ptr, event)
    words[0] = kind | (reason << 8) | (side << 16) | (session_id << 32)
    words[1] = sequence
    words[2] = client_order_id
    words[3] = order_id
    words[4] = cython.cast(uint64_t, price_ticks)
    words[5] = qty_lots
    words[6] = leaves_lots
    words[7] = instrument_id


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def put_head(engine: Engine, command: CommandPtr, window: WindowPtr) -> cython.bint:
    """Write the first event of a command; false when the window is full."""
    event: EventPtr
    if window.next == window.limit:
        return False
    event = window.base + (window.next & window.mask)
    window.next += 1
    put_event(
        event,
        HEAD,
        engine.reason,
        command.side | (cython.cast(uint64_t, command.kind) << 8),
        command.session_id,
        engine.state.wal_seq,
        command.client_order_id,
        engine.head_order_id,
        0 if command.kind == NEW_ORDER and command.order_type == MARKET else command.price_ticks,
        command.qty_lots,
        0,
        command.instrument_id,
    )
    return True


# --- New order ------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def can_fill(engine: Engine, side: SidePtr, limit_key: int64_t, qty_lots: uint64_t) -> cython.bint:
    """Tell whether the levels of a side down to a key hold a quantity. O(levels looked at)."""
    at: uint32_t = side.block_count
    block: BlockPtr
    position: uint32_t
    level_lots: uint64_t
    while at != 0:
        at -= 1
        block = block_at(engine, side.blocks[at])
        position = block.count
        while position != 0:
            position -= 1
            if block.keys[position] < limit_key:
                return False
            level_lots = level_at(engine, block.levels[position]).qty_lots
            if level_lots >= qty_lots:
                return True
            qty_lots -= level_lots
    return False


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def judge_new_order(engine: Engine, command: CommandPtr) -> uint32_t:
    """Return why a new order is refused, 0 when it is accepted; prepares it, changes no book."""
    book: uint32_t
    maker_side: SidePtr
    own_side: SidePtr
    order_type: uint32_t = command.order_type
    side: uint32_t = command.side
    level: uint32_t
    session: uint32_t = numbered(
        engine, cython.address(engine.by_session_id), 2, command.session_id
    )
    if session == 0 or not session_at(engine, session).is_open:
        return UNKNOWN_SESSION
    book = numbered(engine, cython.address(engine.by_instrument_id), 3, command.instrument_id)
    if book == 0:
        return UNKNOWN_INSTRUMENT
    # Unsigned, so that 0 is far above the range, too.
    if side - BUY > SELL - BUY or order_type - LIMIT > FOK - LIMIT or command.flags != 0:
        return BAD_COMMAND
    if command.qty_lots == 0:
        return ZERO_QUANTITY
    engine.tag = client_tag(engine, session_at(engine, session), command.client_order_id)
    if find_tagged(engine, engine.tag, session, command.client_order_id) != 0:
        return DUPLICATE_ORDER_ID
    engine.target = session
    engine.own_side = book + side - BUY
    engine.open_lots = command.qty_lots
    own_side = side_at(engine, engine.own_side)
    maker_side = side_at(engine, engine.own_side ^ 1)
    if order_type == MARKET:
        engine.limit_key = KEY_MIN
        return 0
    engine.limit_key = ~key_of(side, command.price_ticks)
    if order_type == IOC:
        return 0
    if order_type == FOK:
        if not can_fill(engine, maker_side, engine.limit_key, command.qty_lots):
            return FOK_CANNOT_FILL
        return 0
    # Limit and PostOnly may rest.
    if crosses(maker_side, engine.limit_key):
        if order_type == POST_ONLY:
            return POST_ONLY_WOULD_CROSS
        # The other side reaches beyond this price, so this side has no level here.
    else:
        level = find_level(engine, own_side, key_of(side, command.price_ticks))
        if level != 0 and level_at(engine, level).qty_lots > ALL_ONES - command.qty_lots:
            return QUANTITY_OVERFLOW
    if not order_ready(engine, own_side):
        return OUT_OF_MEMORY
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def rest(engine: Engine, command: CommandPtr, traded: cython.bint) -> cython.void:
    """Put what is left of a new order into the book."""
    side: SidePtr = side_at(engine, engine.own_side)
    key: int64_t = key_of(command.side, command.price_ticks)
    level: uint32_t
    is_new: cython.bint
    priority: uint64_t
    if traded:
        find_level(engine, side, key)
    level = engine.found_level
    is_new = level == 0
    if is_new:
        level = add_level(engine, engine.own_side, key)
    priority = engine.state.next_priority
    engine.state.next_priority = priority + 1
    engine.state.live_order_count += 1
    engine.state.state_digest += order_term(
        engine.head_order_id,
        priority,
        engine.open_lots,
        place_word(side.instrument_id, side.side, command.price_ticks),
    )
    append_order(
        engine,
        level,
        is_new,
        engine.target,
        engine.tag,
        command.client_order_id,
        engine.head_order_id,
        engine.open_lots,
        command.qty_lots,
        (priority << 8) | command.order_type,
    )


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def crosses(side: SidePtr, limit_key: int64_t) -> cython.bint:
    """Tell whether the best price of a side is marketable."""
    return side.best_level != 0 and side.best_key >= limit_key


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def sweep(engine: Engine, event: EventPtr, last: EventPtr) -> EventPtr:
    """Trade a taker with the other side, best price first, oldest first, while two events fit.

    The hot loop, bound by how many words a core reads and writes in a cycle. Counters and digests
    live in locals, because every store to an event might alias them for all that the compiler
    knows; what is cheap to find again is not kept. What a level's queue loses is taken off when the
    level is left: the makers that are used up are still chained, and go to the free list as they
    are.

    Args:
        engine: `own_side`, `open_lots` and `limit_key` are the taker's; the other side has a level.
        event: where the next event goes.
        last: the last place of all: a trade and the end of its maker fit while event < last.

    Returns:
        Where the next event would go.
    """
    side: SidePtr = side_at(engine, engine.own_side ^ 1)
    block: BlockPtr = side.top
    orders: OrderPtr = cython.cast(OrderPtr, engine.order_pool.base)
    words: Uint64Ptr = cython.cast(Uint64Ptr, event)
    last_words: Uint64Ptr = cython.cast(Uint64Ptr, last)
    level_start: Uint64Ptr
    level: LevelPtr
    maker: OrderPtr
    session: SessionPtr
    level_count: uint32_t = block.count
    block_start: uint32_t = level_count
    levels_gone: uint32_t = 0
    level_slot: uint32_t
    slot: uint32_t
    owner: uint64_t
    order_id: uint64_t
    client_order_id: uint64_t
    leaves_lots: uint64_t
    level_lots: uint64_t
    key: int64_t
    price_ticks: int64_t
    priced: uint64_t
    named: uint64_t
    traded: uint64_t
    # Pairs of words that are the same in many events, each written by one store.
    price = cython.declare(uint64_t[2])
    tail = cython.declare(uint64_t[2])
    open_lots: uint64_t = engine.open_lots
    limit_key: int64_t = engine.limit_key
    flip: int64_t = 1 - cython.cast(int64_t, side.side)
    instrument_id: uint64_t = side.instrument_id
    side_place: uint64_t = place_word(side.instrument_id, side.side, 0)
    trade_kind: uint64_t = TRADE | (cython.cast(uint64_t, side.side) << 16)
    trade_word: uint64_t = (trade_kind | (instrument_id << 32)) * P1
    done_word: uint64_t = (
        (trade_kind - TRADE + (DONE | (FILLED << 8))) | (instrument_id << 32)
    ) * P1
    event_seq: uint64_t = engine.state.event_seq
    event_digest: uint64_t = engine.state.event_digest
    state_digest: uint64_t = engine.state.state_digest
    tail[0] = 0
    tail[1] = instrument_id
    price[1] = 0

    while open_lots != 0 and words < last_words:
        key = block.keys[level_count - 1]
        if key < limit_key:
            break
        level_slot = block.levels[level_count - 1]
        level = level_at(engine, level_slot)
        price_ticks = key ^ flip  # key_of()
        price[0] = cython.cast(uint64_t, price_ticks)
        priced = cython.cast(uint64_t, price_ticks) * P3
        level_start = words
        level_lots = open_lots
        slot = level.head
        while True:
            maker = orders + slot
            leaves_lots = maker.leaves_lots
            if leaves_lots > open_lots:
                break
            # All of this maker: TRADE, then its DONE.
            order_id = maker.order_id
            client_order_id = maker.client_order_id
            session = session_at(engine, maker.session)
            owner = session.owner
            named = order_id * P2 + priced
            traded = leaves_lots * P4
            state_digest -= fold(
                order_id * P1 + (maker.place >> 8) * P2 + traded + priced + side_place, M1
            )
            event_digest = link(event_digest, trade_word + named + traded)
            event_digest = link(event_digest, done_word + named)
            open_lots -= leaves_lots
            words[0] = trade_kind | owner
            words[1] = event_seq + 1
            words[2] = client_order_id
            words[3] = order_id
            words[4] = cython.cast(uint64_t, price_ticks)
            words[5] = leaves_lots
            memcpy(words + 6, tail, 16)
            event_seq += 2
            words[8] = (trade_kind | owner) - TRADE + (DONE | (FILLED << 8))
            words[9] = event_seq
            words[10] = client_order_id
            words[11] = order_id
            memcpy(words + 12, price, 16)
            memcpy(words + 14, tail, 16)
            words += 16
            unlist_order(engine, slot, maker, session)
            slot = maker.next
            if slot == 0 or open_lots == 0 or words >= last_words:
                break
        if slot == 0:
            orders[level.tail].next = engine.order_pool.free
            engine.order_pool.free = level.head
            level.head = engine.level_pool.free
            engine.level_pool.free = block.levels[level_count - 1]
            level_count -= 1
            if level_count == 0:
                levels_gone += block_start
                block_start = 0
                block.count = 0
                # The last block stays (pop_best()).
                if side.block_count == 1:
                    break
                drop_block(engine, side, side.block_count - 1)
                block = side.top
                level_count = block.count
                block_start = level_count
            continue
        maker = orders + slot
        if slot != level.head:
            orders[maker.prev].next = engine.order_pool.free
            engine.order_pool.free = level.head
            maker.prev = 0
            level.head = slot
            level.order_count -= cython.cast(uint32_t, (words - level_start) // 16)
        if open_lots != 0 and words < last_words:
            # A part of this maker, which keeps its place.
            leaves_lots = maker.leaves_lots - open_lots
            session = session_at(engine, maker.session)
            event_seq += 1
            words[0] = trade_kind | session.owner
            words[1] = event_seq
            words[2] = maker.client_order_id
            words[3] = maker.order_id
            words[4] = cython.cast(uint64_t, price_ticks)
            words[5] = open_lots
            words[6] = leaves_lots
            words[7] = instrument_id
            words += 8
            event_digest = link(
                event_digest, trade_word + priced + maker.order_id * P2 + open_lots * P4
            )
            side_place += priced
            state_digest -= order_term(
                maker.order_id, maker.place >> 8, maker.leaves_lots, side_place
            )
            state_digest += order_term(maker.order_id, maker.place >> 8, leaves_lots, side_place)
            maker.leaves_lots = leaves_lots
            open_lots = 0
        level.qty_lots -= level_lots - open_lots
        break

    levels_gone += block_start - level_count
    if levels_gone != 0:
        block.count = level_count
        side.level_count -= levels_gone
        engine.level_pool.live_count -= levels_gone
        side.best_level = 0
        if level_count != 0:
            side.best_level = block.levels[level_count - 1]
            side.best_key = block.keys[level_count - 1]
    # Every maker that ended left two events; one that did not is the last and left one.
    traded = event_seq - engine.state.event_seq
    engine.state.trade_count += (traded + 1) >> 1
    engine.state.live_order_count -= traded >> 1
    engine.state.bought_lots += engine.open_lots - open_lots
    engine.state.sold_lots += engine.open_lots - open_lots
    engine.open_lots = open_lots
    engine.state.event_seq = event_seq
    engine.state.event_digest = event_digest
    engine.state.state_digest = state_digest
    return cython.cast(EventPtr, cython.cast(cython.p_void, words))


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def trade_once(engine: Engine, side: SidePtr, event: EventPtr) -> uint64_t:
    """Trade a taker with the one maker that has all that it still wants.

    What sweep() does, without what only pays for many makers: most takers meet one.

    Args:
        engine: `open_lots` is the taker's, and more than 0.
        side: the maker's; its best price is marketable.
        event: where the next two events go.

    Returns:
        How many were written: 2, or 1 if something is left of the maker, or 0: the maker has less.
    """
    level_slot: uint32_t = side.best_level
    level: LevelPtr = level_at(engine, level_slot)
    slot: uint32_t = level.head
    maker: OrderPtr = order_at(engine, slot)
    session: SessionPtr
    words: Uint64Ptr = cython.cast(Uint64Ptr, event)
    open_lots: uint64_t = engine.open_lots
    leaves_lots: uint64_t = maker.leaves_lots
    order_id: uint64_t
    client_order_id: uint64_t
    instrument_id: uint64_t
    kind: uint64_t
    price_ticks: int64_t
    named: uint64_t
    shared: uint64_t
    event_seq: uint64_t
    event_digest: uint64_t
    state_digest: uint64_t
    if leaves_lots < open_lots:
        return 0
    session = session_at(engine, maker.session)
    order_id = maker.order_id
    client_order_id = maker.client_order_id
    instrument_id = side.instrument_id
    price_ticks = key_of(side.side, side.best_key)
    kind = (cython.cast(uint64_t, side.side) << 16) | TRADE
    named = order_id * P2 + cython.cast(uint64_t, price_ticks) * P3
    shared = (
        order_id * P1
        + (maker.place >> 8) * P2
        + place_word(side.instrument_id, side.side, price_ticks)
    )
    event_seq = engine.state.event_seq + 1
    event_digest = link(
        engine.state.event_digest, (kind | (instrument_id << 32)) * P1 + named + open_lots * P4
    )
    state_digest = engine.state.state_digest - fold(shared + leaves_lots * P4, M1)
    leaves_lots -= open_lots
    engine.open_lots = 0
    engine.state.trade_count += 1
    engine.state.bought_lots += open_lots
    engine.state.sold_lots += open_lots
    words[0] = kind | session.owner
    words[1] = event_seq
    words[2] = client_order_id
    words[3] = order_id
    words[4] = cython.cast(uint64_t, price_ticks)
    words[5] = open_lots
    words[6] = leaves_lots
    words[7] = instrument_id
    if leaves_lots != 0:
        engine.state.event_seq = event_seq
        engine.state.event_digest = event_digest
        engine.state.state_digest = state_digest + fold(shared + leaves_lots * P4, M1)
        maker.leaves_lots = leaves_lots
        level.qty_lots -= open_lots
        return 1
    kind += DONE - TRADE + (FILLED << 8)
    engine.state.event_seq = event_seq + 1
    engine.state.event_digest = link(event_digest, (kind | (instrument_id << 32)) * P1 + named)
    engine.state.state_digest = state_digest
    engine.state.live_order_count -= 1
    words[8] = kind | session.owner
    words[9] = event_seq + 1
    words[10] = client_order_id
    words[11] = order_id
    words[12] = cython.cast(uint64_t, price_ticks)
    words[13] = 0
    words[14] = 0
    words[15] = instrument_id
    if maker.next == 0:
        pop_best(engine, side)
        free_level(engine, level_slot, level)
    else:
        level.qty_lots -= open_lots
        level.order_count -= 1
        level.head = maker.next
        order_at(engine, maker.next).prev = 0
    forget_order(engine, slot, maker, session)
    return 2


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def sweep_edge(engine: Engine, window: WindowPtr) -> cython.bint:
    """Trade with one maker when one place is left before the end of the window or of its ring.

    The end of a maker of which nothing is left belongs to the trade. When only the trade still
    fits into the window, the end waits in `stash`, so that the book never stands between the two;
    false then.
    """
    edge = cython.declare(Event[2])
    end: EventPtr = sweep(engine, cython.address(edge[0]), cython.address(edge[1]))
    window.base[window.next & window.mask] = edge[0]
    window.next += 1
    if end - cython.address(edge[0]) == 2:
        if window.next == window.limit:
            engine.stash = edge[1]
            engine.is_stashed = True
            return False
        window.base[window.next & window.mask] = edge[1]
        window.next += 1
    return True


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def match(engine: Engine, window: WindowPtr) -> cython.bint:
    """Trade a taker with the other side as far as its price allows; false: window full."""
    maker_side: SidePtr = side_at(engine, engine.own_side ^ 1)
    event: EventPtr
    position: uint64_t
    run: uint64_t
    written: uint64_t
    while engine.open_lots != 0 and crosses(maker_side, engine.limit_key):
        if window.next == window.limit:
            return False
        # Places in one piece.
        position = window.next & window.mask
        run = least(window.limit - window.next, window.mask + 1 - position)
        if run == 1:
            if not sweep_edge(engine, window):
                return False
            continue
        event = window.base + position
        written = trade_once(engine, maker_side, event)
        if written == 0:
            written = sweep(engine, event, event + (run - 1)) - event
        window.next += written
    return True


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def accept(
    engine: Engine, command: CommandPtr, window: WindowPtr, price_ticks: int64_t
) -> cython.void:
    """Write the ACCEPTED of a new order; the window has room for it."""
    event: EventPtr = window.base + (window.next & window.mask)
    window.next += 1
    engine.state.order_count += 1
    engine.state.next_order_id += 1
    engine.state.event_seq += 1
    engine.state.event_digest = chain(
        engine.state.event_digest,
        ACCEPTED,
        0,
        command.side,
        command.instrument_id,
        engine.head_order_id,
        price_ticks,
        command.qty_lots,
    )
    put_event(
        event,
        ACCEPTED,
        0,
        command.side,
        command.session_id,
        engine.state.event_seq,
        command.client_order_id,
        engine.head_order_id,
        price_ticks,
        command.qty_lots,
        0,
        command.instrument_id,
    )


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def begin_new_order(engine: Engine, command: CommandPtr, window: WindowPtr) -> cython.void:
    """Write HEAD and ACCEPTED of an accepted order at once; the window has room for both.

    The two differ in two words only.
    """
    next_event: uint64_t = window.next
    mask: uint64_t = window.mask
    base: EventPtr = window.base
    head: Uint64Ptr = cython.cast(Uint64Ptr, base + (next_event & mask))
    accepted: Uint64Ptr = cython.cast(Uint64Ptr, base + ((next_event + 1) & mask))
    side: uint64_t = cython.cast(uint64_t, command.side) << 16
    owner: uint64_t = cython.cast(uint64_t, command.session_id) << 32
    client_order_id: uint64_t = command.client_order_id
    order_id: uint64_t = engine.state.next_order_id
    price_ticks: uint64_t = (
        0 if command.order_type == MARKET else cython.cast(uint64_t, command.price_ticks)
    )
    qty_lots: uint64_t = command.qty_lots
    instrument_id: uint64_t = command.instrument_id
    event_seq: uint64_t = engine.state.event_seq + 1
    window.next = next_event + 2
    engine.head_order_id = order_id
    engine.state.next_order_id = order_id + 1
    engine.state.order_count += 1
    engine.state.event_seq = event_seq
    engine.state.event_digest = link(
        engine.state.event_digest,
        (ACCEPTED | side | (instrument_id << 32)) * P1
        + order_id * P2
        + price_ticks * P3
        + qty_lots * P4,
    )
    head[0] = HEAD | side | (cython.cast(uint64_t, NEW_ORDER) << 24) | owner
    head[1] = engine.state.wal_seq
    head[2] = client_order_id
    head[3] = order_id
    head[4] = price_ticks
    head[5] = qty_lots
    head[6] = 0
    head[7] = instrument_id
    accepted[0] = ACCEPTED | side | owner
    accepted[1] = event_seq
    accepted[2] = client_order_id
    accepted[3] = order_id
    accepted[4] = price_ticks
    accepted[5] = qty_lots
    accepted[6] = 0
    accepted[7] = instrument_id


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def end_new_order(
    engine: Engine, command: CommandPtr, window: WindowPtr, reason: uint64_t, order_id: uint64_t
) -> cython.bint:
    """Write the DONE of an order that does not rest; false when the window is full."""
    event: EventPtr
    price_ticks: int64_t = 0 if command.order_type == MARKET else command.price_ticks
    open_lots: uint64_t = engine.open_lots
    if window.next == window.limit:
        return False
    event = window.base + (window.next & window.mask)
    window.next += 1
    engine.state.event_seq += 1
    engine.phase = PHASE_IDLE
    engine.state.event_digest = chain(
        engine.state.event_digest,
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
        engine.state.event_seq,
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
def finish_new_order(engine: Engine, command: CommandPtr, window: WindowPtr) -> cython.bint:
    """Match an accepted order, then end it or let it rest; false when the window is full."""
    if not match(engine, window):
        return False
    if engine.open_lots == 0:
        return end_new_order(engine, command, window, FILLED, engine.head_order_id)
    if command.order_type == IOC:
        return end_new_order(engine, command, window, EXPIRED, engine.head_order_id)
    if command.order_type == MARKET:
        return end_new_order(engine, command, window, NO_LIQUIDITY, engine.head_order_id)
    invariant(command.order_type != FOK, b"a fill-or-kill order was not filled")
    rest(engine, command, engine.open_lots != command.qty_lots)
    engine.phase = PHASE_IDLE
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def proceed_new_order(engine: Engine, command: CommandPtr, window: WindowPtr) -> cython.bint:
    """Go on with a new order from its phase; false when the window is full."""
    if engine.phase == PHASE_HEAD:
        if not put_head(engine, command, window):
            return False
        engine.phase = PHASE_REJECTED if engine.reason != 0 else PHASE_ACCEPTED
    if engine.phase == PHASE_REJECTED:
        return end_new_order(engine, command, window, engine.reason, 0)
    if engine.phase == PHASE_ACCEPTED:
        if window.next == window.limit:
            return False
        accept(engine, command, window, 0 if command.order_type == MARKET else command.price_ticks)
        engine.phase = PHASE_MATCH
    return finish_new_order(engine, command, window)


# --- Cancels --------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def cancel_order(engine: Engine, slot: uint32_t, reason: uint8_t, window: WindowPtr) -> cython.void:
    """End one live order; the window has room for its event."""
    order: OrderPtr = order_at(engine, slot)
    level: LevelPtr = level_at(engine, order.level)
    side: SidePtr = side_at(engine, level.side)
    price_ticks: int64_t = key_of(side.side, level.key)
    event: EventPtr = window.base + (window.next & window.mask)
    window.next += 1
    engine.state.event_seq += 1
    engine.state.live_order_count -= 1
    put_event(
        event,
        DONE,
        reason,
        cython.cast(uint8_t, side.side),
        session_at(engine, order.session).session_id,
        engine.state.event_seq,
        order.client_order_id,
        order.order_id,
        price_ticks,
        order.leaves_lots,
        0,
        side.instrument_id,
    )
    engine.state.event_digest = chain(
        engine.state.event_digest,
        DONE,
        reason,
        side.side,
        side.instrument_id,
        order.order_id,
        price_ticks,
        order.leaves_lots,
    )
    engine.state.state_digest -= order_term(
        order.order_id,
        order.place >> 8,
        order.leaves_lots,
        place_word(side.instrument_id, side.side, price_ticks),
    )
    leave_queue(engine, order, side)
    forget_order(engine, slot, order, session_at(engine, order.session))


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def judge_cancel(engine: Engine, command: CommandPtr) -> uint32_t:
    """Return why a cancel is refused, 0 when it names a live order (then in `target`)."""
    session: uint32_t = find_session(engine, command.session_id)
    if session == 0 or not session_at(engine, session).is_open:
        return UNKNOWN_SESSION
    if command.flags == 0:
        engine.target = find_client(engine, session, command.client_order_id)
    elif command.flags == BY_ORDER_ID and command.session_id == OPERATOR:
        engine.target = find_order(engine, command.order_id)
    else:
        return BAD_COMMAND
    if engine.target == 0:
        return UNKNOWN_ORDER
    engine.head_order_id = order_at(engine, engine.target).order_id
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def proceed_cancel(engine: Engine, command: CommandPtr, window: WindowPtr) -> cython.bint:
    """Go on with an accepted cancel; false when the window is full."""
    session: SessionPtr
    reason: uint8_t = CANCELLED
    if engine.phase == PHASE_HEAD:
        if not put_head(engine, command, window):
            return False
        engine.phase = PHASE_CANCEL
    if window.next == window.limit:
        return False
    session = session_at(engine, order_at(engine, engine.target).session)
    if command.flags == BY_ORDER_ID and session.session_id != OPERATOR:
        reason = OPERATOR_CANCELLED
    cancel_order(engine, engine.target, reason, window)
    engine.phase = PHASE_IDLE
    return True


# --- Replaces ---------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def judge_replace(engine: Engine, command: CommandPtr) -> uint32_t:
    """Return why a replace is refused, 0 when it is accepted; prepares it, changes no book."""
    slot: uint32_t
    order: OrderPtr
    side: SidePtr
    maker_side: SidePtr
    level: uint32_t
    key: int64_t
    filled_lots: uint64_t
    others_lots: uint64_t
    session: uint32_t = find_session(engine, command.session_id)
    if session == 0 or not session_at(engine, session).is_open:
        return UNKNOWN_SESSION
    if command.flags != 0:
        return BAD_COMMAND
    if command.qty_lots == 0:
        return ZERO_QUANTITY
    slot = find_client(engine, session, command.client_order_id)
    if slot == 0:
        return UNKNOWN_ORDER
    order = order_at(engine, slot)
    filled_lots = order.qty_lots - order.leaves_lots
    engine.target = slot
    engine.own_side = level_at(engine, order.level).side
    engine.open_lots = 0
    if command.qty_lots > filled_lots:
        engine.open_lots = command.qty_lots - filled_lots
        side = side_at(engine, engine.own_side)
        maker_side = side_at(engine, engine.own_side ^ 1)
        key = key_of(side.side, command.price_ticks)
        engine.limit_key = ~key
        if crosses(maker_side, engine.limit_key):
            if order.place & 0xFF == POST_ONLY:
                return POST_ONLY_WOULD_CROSS
            # The other side reaches beyond this price, so this side has no level here.
        else:
            level = find_level(engine, side, key)
            if level != 0:
                others_lots = level_at(engine, level).qty_lots
                if level == order.level:
                    others_lots -= order.leaves_lots
                if others_lots > ALL_ONES - engine.open_lots:
                    return QUANTITY_OVERFLOW
        if level_at(engine, order.level).key != key and not level_ready(engine, side):
            return OUT_OF_MEMORY
    engine.head_order_id = order.order_id
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def change_order(engine: Engine, command: CommandPtr, window: WindowPtr) -> cython.bint:
    """Give the order in `target` its new price and quantity; the window has room for the event.

    Returns:
        True if it has kept its place; else it is in no queue.
    """
    order: OrderPtr = order_at(engine, engine.target)
    level: LevelPtr = level_at(engine, order.level)
    side: SidePtr = side_at(engine, engine.own_side)
    price_ticks: int64_t = key_of(side.side, level.key)
    place: uint64_t = place_word(side.instrument_id, side.side, price_ticks)
    event: EventPtr = window.base + (window.next & window.mask)
    window.next += 1
    engine.state.event_seq += 1
    put_event(
        event,
        REPLACED,
        0,
        side.side,
        command.session_id,
        engine.state.event_seq,
        order.client_order_id,
        order.order_id,
        command.price_ticks,
        command.qty_lots,
        engine.open_lots,
        side.instrument_id,
    )
    engine.state.event_digest = chain(
        engine.state.event_digest,
        REPLACED,
        0,
        side.side,
        side.instrument_id,
        order.order_id,
        command.price_ticks,
        command.qty_lots,
    )
    engine.state.state_digest -= order_term(
        order.order_id, order.place >> 8, order.leaves_lots, place
    )
    if price_ticks == command.price_ticks and command.qty_lots <= order.qty_lots:
        engine.state.state_digest += order_term(
            order.order_id, order.place >> 8, engine.open_lots, place
        )
        level.qty_lots -= order.leaves_lots - engine.open_lots
        order.leaves_lots = engine.open_lots
        order.qty_lots = command.qty_lots
        return True
    leave_queue(engine, order, side)
    order.qty_lots = command.qty_lots
    return False


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def rest_again(engine: Engine, price_ticks: int64_t) -> cython.void:
    """Put what is left of a replaced order at the end of the queue at its new price."""
    order: OrderPtr = order_at(engine, engine.target)
    side: SidePtr = side_at(engine, engine.own_side)
    key: int64_t = key_of(side.side, price_ticks)
    level: uint32_t = find_level(engine, side, key)
    is_new: cython.bint = level == 0
    priority: uint64_t = engine.state.next_priority
    if is_new:
        level = add_level(engine, engine.own_side, key)
        # A level more without an order more.
        if engine.sure_count != 0:
            engine.sure_count -= 1
    engine.state.next_priority += 1
    order.leaves_lots = engine.open_lots
    order.place = (priority << 8) | (order.place & 0xFF)
    engine.state.state_digest += order_term(
        order.order_id,
        priority,
        order.leaves_lots,
        place_word(side.instrument_id, side.side, price_ticks),
    )
    if is_new:
        begin_queue(engine, engine.target, order, level)
    else:
        join_queue(engine, engine.target, order, level)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def proceed_replace(engine: Engine, command: CommandPtr, window: WindowPtr) -> cython.bint:
    """Go on with an accepted replace; false when the window is full.

    While it is matched, the order is on its session's list and in the indexes, but in no queue.
    """
    order: OrderPtr = order_at(engine, engine.target)
    side: SidePtr = side_at(engine, engine.own_side)
    event: EventPtr
    if engine.phase == PHASE_HEAD:
        if not put_head(engine, command, window):
            return False
        engine.phase = PHASE_REPLACE
    if engine.phase == PHASE_REPLACE:
        if window.next == window.limit:
            return False
        if engine.open_lots == 0:
            cancel_order(engine, engine.target, REPLACED_TO_FILLED, window)
            engine.phase = PHASE_IDLE
            return True
        if change_order(engine, command, window):
            engine.phase = PHASE_IDLE
            return True
        engine.phase = PHASE_MATCH
    if engine.phase == PHASE_MATCH and not match(engine, window):
        return False
    if engine.open_lots != 0:
        rest_again(engine, command.price_ticks)
        engine.phase = PHASE_IDLE
        return True
    if window.next == window.limit:
        return False
    event = window.base + (window.next & window.mask)
    window.next += 1
    engine.state.event_seq += 1
    engine.state.live_order_count -= 1
    put_event(
        event,
        DONE,
        FILLED,
        side.side,
        command.session_id,
        engine.state.event_seq,
        order.client_order_id,
        order.order_id,
        command.price_ticks,
        0,
        0,
        side.instrument_id,
    )
    engine.state.event_digest = chain(
        engine.state.event_digest,
        DONE,
        FILLED,
        side.side,
        side.instrument_id,
        order.order_id,
        command.price_ticks,
        0,
    )
    forget_order(engine, engine.target, order, session_at(engine, order.session))
    engine.phase = PHASE_IDLE
    return True


# --- Sessions, instruments, marks -----------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def open_session(engine: Engine, session_id: uint32_t) -> uint32_t:
    """Return the slot of a new open session, 0 when there is no memory."""
    pool: PoolPtr = cython.address(engine.session_pool)
    session: SessionPtr
    slot: uint32_t
    if not pool_ready(pool) or not index_ready(cython.address(engine.by_session_id)):
        return 0
    slot = pool.free
    if slot != 0:
        session = session_at(engine, slot)
        pool.free = session.head
    else:
        slot = cython.cast(uint32_t, pool.next_unused)
        pool.next_unused += 1
        session = session_at(engine, slot)
    pool.live_count += 1
    session.session_id = session_id
    session.is_open = 1
    session.head = 0
    session.tail = 0
    session.owner = cython.cast(uint64_t, session_id) << 32
    session.salt = slot * engine.multiplier
    index_add(cython.address(engine.by_session_id), session_id, slot)
    engine.state.session_count += 1
    if session_id > engine.state.last_session_id:
        engine.state.last_session_id = session_id
    return slot


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def judge_session_open(engine: Engine, command: CommandPtr) -> uint32_t:
    """Open a session, or return why it is refused."""
    if command.flags != 0:
        return BAD_COMMAND
    if command.session_id <= engine.state.last_session_id:
        return DUPLICATE_SESSION
    if open_session(engine, command.session_id) == 0:
        return OUT_OF_MEMORY
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def judge_session_end(engine: Engine, command: CommandPtr) -> uint32_t:
    """Return why the end of a session is refused, 0 when `target` is to end."""
    session: uint32_t = find_session(engine, command.session_id)
    if session == 0 or not session_at(engine, session).is_open:
        return UNKNOWN_SESSION
    if (command.flags | CANCEL_ORDERS) != CANCEL_ORDERS or command.session_id == OPERATOR:
        return BAD_COMMAND
    engine.target = session
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def proceed_session_end(engine: Engine, command: CommandPtr, window: WindowPtr) -> cython.bint:
    """Go on with an accepted end of a session; false when the window is full."""
    session: SessionPtr = session_at(engine, engine.target)
    if engine.phase == PHASE_HEAD:
        if not put_head(engine, command, window):
            return False
        engine.phase = PHASE_CANCEL_SESSION
    # The session stays open until its last order is gone: cancel_order() forgets closed sessions.
    if command.flags == CANCEL_ORDERS:
        while session.head != 0:
            if window.next == window.limit:
                return False
            cancel_order(engine, session.head, SESSION_ENDED, window)
    session.is_open = 0
    free_session_if_over(engine, engine.target, session)
    engine.phase = PHASE_IDLE
    return True


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
    engine: Engine, instrument_id: uint32_t, symbol_low: uint64_t, symbol_high: uint64_t
) -> cython.bint:
    """Make an empty book; false when there is no memory."""
    pool: PoolPtr = cython.address(engine.side_pool)
    slot: uint32_t
    side: SidePtr
    which: uint32_t
    if not pool_ready(pool) or not index_ready(cython.address(engine.by_instrument_id)):
        return False
    slot = cython.cast(uint32_t, pool.next_unused)
    pool.next_unused += 2
    pool.live_count += 2
    for which in range(2):
        side = side_at(engine, slot + which)
        side.instrument_id = instrument_id
        side.side = BUY + which
        side.symbol = symbol_low if which == 0 else symbol_high
    index_add(cython.address(engine.by_instrument_id), instrument_id, slot)
    engine.state.instrument_count += 1
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def judge_instrument_define(engine: Engine, command: CommandPtr) -> uint32_t:
    """Define an instrument, or return why it is refused."""
    if (
        command.flags != 0
        or command.instrument_id == 0
        or not symbol_is_valid(command.client_order_id, command.order_id)
    ):
        return BAD_COMMAND
    if find_instrument(engine, command.instrument_id) != 0:
        return DUPLICATE_INSTRUMENT
    if not define_instrument(
        engine, command.instrument_id, command.client_order_id, command.order_id
    ):
        return OUT_OF_MEMORY
    return 0


# --- The engine -----------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def judge(engine: Engine, command: CommandPtr) -> uint32_t:
    """Return why a command is refused, 0 when it is accepted."""
    if command.kind == CANCEL:
        return judge_cancel(engine, command)
    if command.kind == REPLACE:
        return judge_replace(engine, command)
    if command.kind == SESSION_OPEN:
        return judge_session_open(engine, command)
    if command.kind == SESSION_END:
        return judge_session_end(engine, command)
    if command.kind == INSTRUMENT_DEFINE:
        return judge_instrument_define(engine, command)
    if command.kind == SNAPSHOT_MARK and command.flags == 0:
        return 0
    return BAD_COMMAND


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def proceed(engine: Engine, command: CommandPtr, window: WindowPtr) -> cython.bint:
    """Go on with the current command from its phase; false when the window is full."""
    if command.kind == NEW_ORDER:
        return proceed_new_order(engine, command, window)
    if engine.reason == 0 and command.kind == CANCEL:
        return proceed_cancel(engine, command, window)
    if engine.reason == 0 and command.kind == REPLACE:
        return proceed_replace(engine, command, window)
    if engine.reason == 0 and command.kind == SESSION_END:
        return proceed_session_end(engine, command, window)
    if not put_head(engine, command, window):
        return False
    engine.phase = PHASE_IDLE
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def fill_depth(engine: Engine, side: SidePtr, levels_max: uint32_t, out: DepthLevelPtr) -> uint32_t:
    """Copy the best levels of a side, best first; return how many."""
    count: uint32_t = 0
    at: uint32_t = side.block_count
    position: uint32_t
    block: BlockPtr
    level: LevelPtr
    while at != 0 and count < levels_max:
        at -= 1
        block = block_at(engine, side.blocks[at])
        position = block.count
        while position != 0 and count < levels_max:
            position -= 1
            level = level_at(engine, block.levels[position])
            out[count].price_ticks = key_of(side.side, level.key)
            out[count].qty_lots = level.qty_lots
            out[count].order_count = level.order_count
            out[count].spare = 0
            count += 1
    return count


@cython.final
@cython.cclass
class Engine:
    """All books, orders and sessions of one exchange, and the counters and digests over them.

    Obligations of the caller: one thread at a time; after execute() or resume() said false,
    resume() until true before anything else. Invariants: see `check()`.
    """

    def __cinit__(self) -> None:
        """Take memory for an empty engine."""
        ok: cython.bint
        memset(cython.address(self.state), 0, cython.sizeof(EngineState))
        self.state.next_order_id = 1
        self.state.next_priority = 1
        ok = pool_open(cython.address(self.order_pool), cython.sizeof(Order), 1 << 16, ORDERS_MAX)
        ok &= pool_open(cython.address(self.level_pool), cython.sizeof(Level), 1 << 14, 1 << 26)
        ok &= pool_open(cython.address(self.block_pool), cython.sizeof(Block), 1 << 8, 1 << 20)
        ok &= pool_open(cython.address(self.session_pool), cython.sizeof(Session), 1 << 12, 1 << 26)
        ok &= pool_open(cython.address(self.side_pool), cython.sizeof(BookSide), 1 << 12, 1 << 24)
        ok &= index_open(cython.address(self.by_client), CLIENT_PLACES)
        ok &= table_open(cython.address(self.by_order_id), CLIENT_PLACES)
        ok &= index_open(cython.address(self.by_session_id), STRAY_PLACES)
        ok &= index_open(cython.address(self.by_instrument_id), STRAY_PLACES)
        ok = ok and pool_grow(cython.address(self.session_pool))
        ok = ok and pool_grow(cython.address(self.side_pool))
        if not ok:
            raise MemoryError("no memory for an empty engine")
        # Memory lies somewhere else in every process; that moves keys in the index, and no event.
        self.multiplier = fold(cython.cast(uint64_t, self.order_pool.base) + P2, P1) | 1
        self.side_pool.next_unused = 2
        if open_session(self, OPERATOR) == 0:
            raise MemoryError("no memory for an empty engine")

    def __init__(self, orders_max: int = ORDERS_MAX) -> None:
        """Make an engine without instruments, with one session open: the operator's.

        Args:
            orders_max: live orders that it takes at most; one more is refused as OUT_OF_MEMORY.
        """
        if not 1 <= orders_max <= ORDERS_MAX:
            raise ValueError(f"orders_max={orders_max}, expected 1..{ORDERS_MAX}")
        if cython.cast(uint64_t, orders_max) + 1 < self.order_pool.slots_max:
            self.order_pool.slots_max = orders_max + 1

    def __dealloc__(self) -> None:
        """Give all memory back."""
        slot: uint64_t
        side: SidePtr
        if self.side_pool.base != cython.NULL and self.side_pool.capacity != 0:
            for slot in range(2, self.side_pool.next_unused):
                side = side_at(self, cython.cast(uint32_t, slot))
                free(side.separators)
                free(side.blocks)
        pool_close(cython.address(self.order_pool))
        pool_close(cython.address(self.level_pool))
        pool_close(cython.address(self.block_pool))
        pool_close(cython.address(self.session_pool))
        pool_close(cython.address(self.side_pool))
        index_close(cython.address(self.by_client))
        table_close(cython.address(self.by_order_id))
        index_close(cython.address(self.by_session_id))
        index_close(cython.address(self.by_instrument_id))

    # --- C face (engine.pxd) ---

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def execute(self, command: CommandPtr, window: WindowPtr) -> cython.bint:
        """Execute one logged command; false when the window is full (see engine.pxd)."""
        reason: uint32_t
        invariant(self.phase == PHASE_IDLE, b"execute() while a command is unfinished")
        invariant(command.kind < FIRST_READ, b"execute() of a command that is not logged")
        self.state.wal_seq += 1
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
                    self.head_order_id = self.state.next_order_id
                else:
                    self.open_lots = command.qty_lots
                    self.state.reject_count += 1
                if proceed_new_order(self, command, window):
                    return True
        else:
            self.phase = PHASE_HEAD
            self.head_order_id = 0
            self.reason = judge(self, command)
            if self.reason != 0:
                self.state.reject_count += 1
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
        if self.is_stashed:
            if window.next == window.limit:
                return False
            window.base[window.next & window.mask] = self.stash
            window.next += 1
            self.is_stashed = False
        return proceed(self, cython.address(self.command), window)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def depth(
        self,
        instrument_id: uint32_t,
        levels_max: uint32_t,
        bids: DepthLevelPtr,
        bid_count: Uint32Ptr,
        asks: DepthLevelPtr,
        ask_count: Uint32Ptr,
        bid_levels: Uint32Ptr,
        ask_levels: Uint32Ptr,
    ) -> uint32_t:
        """Copy the best levels of both sides; 1 when there is no such instrument, else 0."""
        slot: uint32_t = find_instrument(self, instrument_id)
        if slot == 0:
            return 1
        bid_levels[0] = side_at(self, slot).level_count
        ask_levels[0] = side_at(self, slot + 1).level_count
        bid_count[0] = fill_depth(self, side_at(self, slot), levels_max, bids)
        ask_count[0] = fill_depth(self, side_at(self, slot + 1), levels_max, asks)
        return 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def export_orders(self, out: OrderRecordPtr, capacity: uint64_t) -> uint64_t:
        """Copy every live order; the count, or 2**64-1 when `capacity` is too small."""
        slot: uint32_t
        order: OrderPtr
        level: LevelPtr
        side: SidePtr
        count: uint64_t = 0
        if capacity < self.state.live_order_count:
            return ALL_ONES
        for slot in range(1, cython.cast(uint32_t, self.order_pool.next_unused)):
            order = order_at(self, slot)
            if order.leaves_lots == 0:
                continue
            level = level_at(self, order.level)
            side = side_at(self, level.side)
            memset(cython.address(out[count]), 0, cython.sizeof(OrderRecord))
            out[count].order_id = order.order_id
            out[count].client_order_id = order.client_order_id
            out[count].priority = order.place >> 8
            out[count].leaves_lots = order.leaves_lots
            out[count].qty_lots = order.qty_lots
            out[count].price_ticks = key_of(side.side, level.key)
            out[count].session_id = session_at(self, order.session).session_id
            out[count].instrument_id = side.instrument_id
            out[count].side = cython.cast(uint8_t, side.side)
            out[count].order_type = cython.cast(uint8_t, order.place & 0xFF)
            count += 1
        return count

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def export_sessions(self, out: Uint32Ptr, capacity: uint64_t) -> uint64_t:
        """Copy the ids of the open sessions; the count, or 2**64-1 when `capacity` is too small."""
        slot: uint32_t
        session: SessionPtr
        count: uint64_t = 0
        for slot in range(1, cython.cast(uint32_t, self.session_pool.next_unused)):
            session = session_at(self, slot)
            if session.session_id == 0 or not session.is_open:
                continue
            if count == capacity:
                return ALL_ONES
            out[count] = session.session_id
            count += 1
        return count

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def export_instruments(self, out: InstrumentRecordPtr, capacity: uint64_t) -> uint64_t:
        """Copy every instrument; the count, or 2**64-1 when `capacity` is too small."""
        which: uint32_t
        side: SidePtr
        if capacity < self.state.instrument_count:
            return ALL_ONES
        for which in range(self.state.instrument_count):
            side = side_at(self, 2 * which + 2)
            memset(cython.address(out[which]), 0, cython.sizeof(InstrumentRecord))
            out[which].instrument_id = side.instrument_id
            memcpy(cython.address(out[which].symbol[0]), cython.address(side.symbol), 8)
            side = side_at(self, 2 * which + 3)
            memcpy(cython.address(out[which].symbol[8]), cython.address(side.symbol), 8)
        return self.state.instrument_count

    # --- Python face ---

    def apply(self, command: bytes, events_max: int = _APPLY_EVENTS) -> bytes:
        """Execute one command and return its events, HEAD first.

        Args:
            command: 64 bytes (records.Command.pack); a kind that is logged.
            events_max: size of the window that the events go through, 1..256; same result.

        Raises:
            ValueError: not 64 bytes, or a kind from 128; nothing was executed.
        """
        events = cython.declare(Event[256])
        window = cython.declare(EventWindow)
        record = cython.declare(Command)
        finished: cython.bint
        if len(command) != cython.sizeof(Command):
            raise ValueError(f"a command of {len(command)} bytes, expected 64")
        if not 1 <= events_max <= _APPLY_EVENTS:
            raise ValueError(f"events_max={events_max}, expected 1..{_APPLY_EVENTS}")
        memcpy(cython.address(record), PyBytes_AS_STRING(command), cython.sizeof(Command))
        if record.kind >= FIRST_READ:
            raise ValueError(f"kind={record.kind} is not logged, expected below {FIRST_READ}")
        window.base = cython.address(events[0])
        window.mask = _APPLY_EVENTS - 1
        window.next = 0
        window.limit = events_max
        finished = self.execute(cython.address(record), cython.address(window))
        if finished:
            return events_bytes(cython.address(window))
        parts = [events_bytes(cython.address(window))]
        while not finished:
            window.next = 0
            finished = self.resume(cython.address(window))
            parts.append(events_bytes(cython.address(window)))
        return b"".join(parts)

    def apply_all(self, commands: bytes) -> bytes:
        """Execute consecutive 64-byte commands and return all their events."""
        return b"".join([self.apply(commands[at : at + 64]) for at in range(0, len(commands), 64)])

    def run(self, commands: bytes) -> None:
        """Execute consecutive 64-byte commands without the GIL; their events are thrown away.

        Raises:
            ValueError: not whole commands, or a kind from 128; nothing was executed.
        """
        events = cython.declare(Event[256])
        window = cython.declare(EventWindow)
        first: CommandPtr
        count: uint64_t = len(commands) // cython.sizeof(Command)
        number: uint64_t
        if count * cython.sizeof(Command) != cython.cast(uint64_t, len(commands)):
            raise ValueError(f"{len(commands)} bytes are not whole commands of 64 bytes")
        first = cython.cast(CommandPtr, cython.cast(cython.p_void, PyBytes_AS_STRING(commands)))
        for number in range(count):
            if first[number].kind >= FIRST_READ:
                raise ValueError(f"kind={first[number].kind} is not logged")
        window.base = cython.address(events[0])
        window.mask = _APPLY_EVENTS - 1
        window.next = 0
        with cython.nogil:
            for number in range(count):
                window.limit = window.next + 256
                if not self.execute(first + number, cython.address(window)):
                    while True:
                        window.limit = window.next + 256
                        if self.resume(cython.address(window)):
                            break

    def orders(self) -> bytes:
        """Return every live order as 64-byte order records, by ascending order_id."""
        count: uint64_t = self.state.live_order_count
        data: bytes = PyBytes_FromStringAndSize(cython.NULL, count * cython.sizeof(OrderRecord))
        out: OrderRecordPtr = cython.cast(
            OrderRecordPtr, cython.cast(cython.p_void, PyBytes_AS_STRING(data))
        )
        self.export_orders(out, count)
        qsort(out, count, cython.sizeof(OrderRecord), by_order_id)
        return data

    def sessions(self) -> list[int]:
        """Return the ids of the open sessions, ascending."""
        count: uint64_t = self.state.session_count
        out: Uint32Ptr = cython.cast(Uint32Ptr, malloc((count + 1) * cython.sizeof(uint32_t)))
        if out == cython.NULL:
            raise MemoryError
        count = self.export_sessions(out, count)
        ids = sorted([out[number] for number in range(count)])
        free(out)
        return ids

    def instruments(self) -> bytes:
        """Return every instrument as 32-byte instrument records, in order of definition."""
        count: uint64_t = self.state.instrument_count
        data: bytes = PyBytes_FromStringAndSize(
            cython.NULL, count * cython.sizeof(InstrumentRecord)
        )
        self.export_instruments(
            cython.cast(
                InstrumentRecordPtr,
                cython.cast(cython.p_void, PyBytes_AS_STRING(data)),
            ),
            count,
        )
        return data

    def state_bytes(self) -> bytes:
        """Return the counters and digests (records.EngineState)."""
        return PyBytes_FromStringAndSize(
            cython.cast(cython.p_char, cython.cast(cython.p_void, cython.address(self.state))),
            cython.sizeof(EngineState),
        )

    def restore(self, state: bytes, instruments: bytes, sessions: bytes, orders: bytes) -> None:
        """Put a new engine into the state that another one exported.

        Args:
            state: the 128 bytes of `state_bytes()`.
            instruments: 32-byte instrument records, in order of definition.
            sessions: ids of the open sessions, 4 little-endian bytes each, any order.
            orders: 64-byte order records, any order.

        Raises:
            ValueError: the parts do not fit each other, or the engine is not new; throw it away.
        """
        if self.state.wal_seq != 0 or self.state.instrument_count != 0:
            raise ValueError("restore() into an engine that is not new")
        for name, part, size in (
            ("state", state, cython.sizeof(EngineState)),
            ("instruments", instruments, cython.sizeof(InstrumentRecord)),
            ("sessions", sessions, cython.sizeof(uint32_t)),
            ("orders", orders, cython.sizeof(OrderRecord)),
        ):
            if len(part) % size or (name == "state" and len(part) != size):
                raise ValueError(f"{name} of {len(part)} bytes, expected items of {size} bytes")
        from bourse.core import restoring

        restoring.restore(self, state, instruments, sessions, orders)

    def check(self) -> None:
        """Prove the engine's invariants; O(everything). The state digest is computed anew.

        Raises:
            AssertionError: names the first invariant that does not hold.
        """
        from bourse.core import audit

        audit.check(self)

    def best_bid(self, instrument_id: int = domain.INSTRUMENT_ID) -> int | None:
        """Return the highest price that somebody wants to buy at, in ticks."""
        return best_price(self, instrument_id, 0)

    def best_ask(self, instrument_id: int = domain.INSTRUMENT_ID) -> int | None:
        """Return the lowest price that somebody wants to sell at, in ticks."""
        return best_price(self, instrument_id, 1)

    def depth_levels(
        self, levels_max: int = 0xFFFF_FFFF, instrument_id: int = domain.INSTRUMENT_ID
    ) -> tuple[list[tuple[int, int, int]], list[tuple[int, int, int]]]:
        """Return bids and asks, best first, each as (price_ticks, qty_lots, order_count)."""
        slot: uint32_t = find_instrument(self, instrument_id)
        if slot == 0:
            raise ValueError(f"instrument_id={instrument_id} is not defined")
        return (
            side_levels(self, side_at(self, slot), levels_max),
            side_levels(self, side_at(self, slot + 1), levels_max),
        )

    @property
    def wal_seq(self) -> int:
        """Commands executed."""
        return self.state.wal_seq

    @property
    def event_seq(self) -> int:
        """Numbered events written."""
        return self.state.event_seq

    @property
    def state_digest(self) -> int:
        """Digest of the live orders."""
        return self.state.state_digest

    @property
    def event_digest(self) -> int:
        """Digest of all numbered events, in their order."""
        return self.state.event_digest

    @property
    def live_order_count(self) -> int:
        """Orders in the books."""
        return self.state.live_order_count

    @property
    def block_count(self) -> int:
        """Blocks of levels in use."""
        return self.block_pool.live_count

    @property
    def last_session_id(self) -> int:
        """Highest session id ever opened."""
        return self.state.last_session_id

    @property
    def memory_bytes(self) -> int:
        """Address space of pools and indexes; pages not yet used cost nothing."""
        return engine_memory(self)


# --- For the Python face --------------------------------------------------------------------------


@cython.cfunc
def events_bytes(window: WindowPtr) -> bytes:
    """Return what has been written to a window that started at 0."""
    return PyBytes_FromStringAndSize(
        cython.cast(cython.p_char, cython.cast(cython.p_void, window.base)),
        window.next * cython.sizeof(Event),
    )


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def by_order_id(left: ConstVoidPtr, right: ConstVoidPtr) -> cython.int:
    """Compare two order records, for qsort()."""
    a: uint64_t = cython.cast(OrderRecordPtr, left).order_id
    b: uint64_t = cython.cast(OrderRecordPtr, right).order_id
    return (a > b) - (a < b)


@cython.cfunc
def best_price(engine: Engine, instrument_id: uint32_t, which: uint32_t) -> object:
    """Return the price at the touch of one side, None when it is empty."""
    side: SidePtr
    slot: uint32_t = find_instrument(engine, instrument_id)
    if slot == 0:
        raise ValueError(f"instrument_id={instrument_id} is not defined")
    side = side_at(engine, slot + which)
    return key_of(side.side, side.best_key) if side.best_level != 0 else None


@cython.cfunc
def side_levels(engine: Engine, side: SidePtr, levels_max: uint32_t) -> list:
    """Return the levels of a side for Python."""
    count: uint32_t = side.level_count
    out: DepthLevelPtr = cython.cast(DepthLevelPtr, malloc((count + 1) * cython.sizeof(DepthLevel)))
    if out == cython.NULL:
        raise MemoryError
    count = fill_depth(engine, side, levels_max, out)
    levels = [
        (out[number].price_ticks, out[number].qty_lots, out[number].order_count)
        for number in range(count)
    ]
    free(out)
    return levels


@cython.cfunc
def engine_memory(engine: Engine) -> object:
    """Return the size of everything that was taken from the kernel."""
    total: uint64_t = (
        engine.order_pool.capacity * cython.sizeof(Order)
        + engine.level_pool.capacity * cython.sizeof(Level)
        + engine.block_pool.capacity * cython.sizeof(Block)
        + engine.session_pool.capacity * cython.sizeof(Session)
        + engine.side_pool.capacity * cython.sizeof(BookSide)
        + table_bytes(engine.by_client.mask)
        + (engine.by_order_id.mask + 1) * cython.sizeof(uint32_t)
        + table_bytes(engine.by_order_id.strays.mask)
        + table_bytes(engine.by_session_id.mask)
        + table_bytes(engine.by_instrument_id.mask)
        + engine.by_client.refuse.size_bytes
        + engine.by_order_id.refuse.size_bytes
    )
    if engine.by_client.old != cython.NULL:
        total += table_bytes(engine.by_client.old_mask)
    if engine.by_order_id.old_slots != cython.NULL:
        total += (engine.by_order_id.old_mask + 1) * cython.sizeof(uint32_t)
    return total


# --- For restoring.py -----------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def move_to_place(engine: Engine, level_slot: uint32_t) -> cython.void:
    """Move the last order of a queue before those of higher priority: the queue is sorted by it."""
    level: LevelPtr = level_at(engine, level_slot)
    slot: uint32_t = level.tail
    order: OrderPtr = order_at(engine, slot)
    before: uint32_t = order.prev
    after: uint32_t = 0
    while before != 0 and order_at(engine, before).place > order.place:
        after = before
        before = order_at(engine, before).prev
    if after == 0:
        return
    level.tail = order.prev
    order_at(engine, order.prev).next = 0
    order.prev = before
    order.next = after
    order_at(engine, after).prev = slot
    if before != 0:
        order_at(engine, before).next = slot
    else:
        level.head = slot


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def put_back(
    engine: Engine, side_slot: uint32_t, session_slot: uint32_t, record: OrderRecordPtr
) -> uint32_t:
    """Put an order of a snapshot into its queue by its priority; 0, or why that is not possible."""
    side: SidePtr = side_at(engine, side_slot)
    key: int64_t = key_of(side.side, record.price_ticks)
    level: uint32_t
    is_new: cython.bint
    if not order_ready(engine, side):
        return OUT_OF_MEMORY
    level = find_level(engine, side, key)
    is_new = level == 0
    if is_new:
        level = add_level(engine, side_slot, key)
    elif level_at(engine, level).qty_lots > ALL_ONES - record.leaves_lots:
        return QUANTITY_OVERFLOW
    append_order(
        engine,
        level,
        is_new,
        session_slot,
        client_tag(engine, session_at(engine, session_slot), record.client_order_id),
        record.client_order_id,
        record.order_id,
        record.leaves_lots,
        record.qty_lots,
        (record.priority << 8) | record.order_type,
    )
    move_to_place(engine, level)
    engine.state.live_order_count += 1
    engine.state.state_digest += order_term(
        record.order_id,
        record.priority,
        record.leaves_lots,
        place_word(record.instrument_id, record.side, record.price_ticks),
    )
    return 0
