"""Memory of a ring (ring.pxd), and a small Python face for tests.

A RingMemory must outlive both threads that use its ring; the pipeline owns it.
"""

import cython
from cython.cimports.bourse.core.ring import (
    Ring,
    ring_publish,
    ring_ready,
    ring_release,
    ring_room,
    ring_slot,
)
from cython.cimports.libc.stdint import uint8_t, uint64_t
from cython.cimports.libc.stdlib import free
from cython.cimports.libc.string import memcpy, memset
from cython.cimports.posix.stdlib import posix_memalign

_ALIGN = cython.declare(cython.size_t, 128)


@cython.final
@cython.cclass
class RingMemory:
    """A ring of `count` slots of `slot_bytes` bytes; every page is touched before it is used.

    The methods below are the two sides as Python sees them: `offer` belongs to the producer,
    `poll` to the consumer. Compiled code uses the functions of ring.pxd instead.
    """

    def __init__(self, count: cython.longlong, slot_bytes: cython.longlong) -> None:
        """Make an empty ring.

        Args:
            count: slots, a power of two from 2.
            slot_bytes: size of a slot, a multiple of 8.

        Raises:
            ValueError: an argument is out of range.
            MemoryError: there is no memory for it.
        """
        if self.ring != cython.NULL:
            raise RuntimeError("a ring is made once")
        if count < 2 or count & (count - 1):
            raise ValueError(f"count={count}, expected a power of two from 2")
        if slot_bytes < 8 or slot_bytes % 8:
            raise ValueError(f"slot_bytes={slot_bytes}, expected a multiple of 8")
        ring_memory: cython.p_void = cython.NULL
        slot_memory: cython.p_void = cython.NULL
        size: cython.size_t = cython.cast(cython.size_t, count * slot_bytes)
        if posix_memalign(cython.address(ring_memory), _ALIGN, cython.sizeof(Ring)) != 0:
            raise MemoryError
        if posix_memalign(cython.address(slot_memory), _ALIGN, size) != 0:
            free(ring_memory)
            raise MemoryError
        memset(ring_memory, 0, cython.sizeof(Ring))
        memset(slot_memory, 0, size)
        self.ring = cython.cast(cython.pointer[Ring], ring_memory)
        self.ring.slots = cython.cast(cython.pointer[uint8_t], slot_memory)
        self.ring.count = count
        self.ring.mask = count - 1
        self.ring.slot_bytes = slot_bytes

    def __dealloc__(self):
        if self.ring != cython.NULL:
            free(self.ring.slots)
            free(self.ring)

    def offer(self, data: bytes) -> bool:
        """Producer: put one slot's bytes; False when the ring is full.

        Raises:
            ValueError: `data` is not exactly one slot long.
        """
        if len(data) != self.ring.slot_bytes:
            raise ValueError(f"{len(data)} bytes, expected {self.ring.slot_bytes}")
        next_position: uint64_t = self.ring.tail
        if ring_room(self.ring, next_position, 1) == 0:
            return False
        source: cython.p_char = data
        memcpy(ring_slot(self.ring, next_position), source, self.ring.slot_bytes)
        ring_publish(self.ring, next_position + 1)
        return True

    def poll(self) -> bytes | None:
        """Consumer: take one slot's bytes; None when the ring is empty."""
        head: uint64_t = self.ring.head
        if ring_ready(self.ring, head) == 0:
            return None
        source: cython.p_char = cython.cast(cython.p_char, ring_slot(self.ring, head))
        data: bytes = source[: self.ring.slot_bytes]
        ring_release(self.ring, head + 1)
        return data

    @property
    def used(self) -> int:
        """Slots published and not yet released, as far as this thread can tell."""
        return self.ring.tail - self.ring.head

    @property
    def count(self) -> int:
        """Slots in all."""
        return self.ring.count
