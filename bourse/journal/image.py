"""Order images: sorts the orders of a snapshot by priority, without the GIL.

The engine exports live orders in whatever order it keeps them; a file holds them by priority, which
is unique and the order of each queue, so that a reader appends them to their levels as they come
and two daemons with equal books write equal files.

Compiled; called by the thread that writes a snapshot.
"""

import cython
from cython.cimports.bourse.core.records import OrderRecord
from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cython.cimports.libc.stdint import uint64_t
from cython.cimports.libc.stdlib import free, malloc, qsort
from cython.cimports.libc.string import memcpy

Key = cython.struct(priority=uint64_t, position=uint64_t)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _compare(left: cython.p_const_void, right: cython.p_const_void) -> cython.int:
    a: uint64_t = cython.cast(cython.pointer[cython.const[Key]], left).priority
    b: uint64_t = cython.cast(cython.pointer[cython.const[Key]], right).priority
    if a < b:
        return -1
    return 1 if a > b else 0


def sort_by_priority(orders: bytes) -> bytes:
    """Return packed order records sorted by their priority.

    Raises:
        ValueError: the size is not a multiple of a record's.
        MemoryError: no memory for the keys.
    """
    count: uint64_t = len(orders) // cython.sizeof(OrderRecord)
    if len(orders) % cython.sizeof(OrderRecord):
        raise ValueError(f"{len(orders)} bytes are no whole number of order records")
    if count == 0:
        return b""
    position: uint64_t
    keys: cython.pointer[Key]
    source: cython.pointer[cython.const[OrderRecord]]
    target: cython.pointer[OrderRecord]
    result: bytes = PyBytes_FromStringAndSize(cython.NULL, len(orders))
    source = cython.cast(cython.pointer[cython.const[OrderRecord]], PyBytes_AS_STRING(orders))
    target = cython.cast(cython.pointer[OrderRecord], PyBytes_AS_STRING(result))
    keys = cython.cast(cython.pointer[Key], malloc(count * cython.sizeof(Key)))
    if keys == cython.NULL:
        raise MemoryError(f"no memory to sort {count} orders")
    with cython.nogil:
        for position in range(count):
            keys[position].priority = source[position].priority
            keys[position].position = position
        qsort(keys, count, cython.sizeof(Key), _compare)
        for position in range(count):
            memcpy(target + position, source + keys[position].position, cython.sizeof(OrderRecord))
    free(keys)
    return result


def is_sorted_by_priority(orders: bytes) -> bool:
    """Say whether the priorities of packed order records rise strictly."""
    count: uint64_t = len(orders) // cython.sizeof(OrderRecord)
    position: uint64_t
    rises: cython.bint = True
    source: cython.pointer[cython.const[OrderRecord]]
    source = cython.cast(cython.pointer[cython.const[OrderRecord]], PyBytes_AS_STRING(orders))
    with cython.nogil:
        for position in range(1, count):
            if source[position].priority <= source[position - 1].priority:
                rises = False
                break
    return rises
