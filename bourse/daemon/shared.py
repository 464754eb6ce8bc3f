"""Memory that the daemon's threads share beside the rings (shared.pxd); the pipeline owns it."""

import cython
from cython.cimports.bourse.core.parking import doorbell_init
from cython.cimports.bourse.core.records import (
    DepthLevel,
    EngineState,
    InstrumentRecord,
    OrderRecord,
)
from cython.cimports.bourse.daemon.shared import DEPTH_BUFFERS, DepthBuffer, Shared, disk_errno
from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cython.cimports.libc.stdint import uint32_t
from cython.cimports.libc.stdlib import free, malloc
from cython.cimports.libc.string import memcpy, memset
from cython.cimports.posix.stdlib import posix_memalign

DEPTH_BUFFER_COUNT = DEPTH_BUFFERS
"""Depth reads that may be under way at once."""


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _touched(size_bytes: cython.size_t) -> cython.p_void:
    """Return memory with every page present, or NULL."""
    memory: cython.p_void = malloc(size_bytes)
    if memory != cython.NULL:
        memset(memory, 1, size_bytes)
    return memory


@cython.cfunc
def _copied(source: cython.p_void, size_bytes: cython.size_t) -> bytes:
    """Return bytes; copied without the GIL, because a million orders take a while."""
    copied: bytes = PyBytes_FromStringAndSize(cython.NULL, size_bytes)
    target: cython.p_char = PyBytes_AS_STRING(copied)
    with cython.nogil:
        memcpy(target, source, size_bytes)
    return copied


@cython.cfunc
def _levels(levels: cython.pointer[DepthLevel], count: uint32_t) -> list:
    """Return levels as (price_ticks, qty_lots, order_count)."""
    return [
        (levels[index].price_ticks, levels[index].qty_lots, levels[index].order_count)
        for index in range(count)
    ]


@cython.final
@cython.cclass
class SharedMemory:
    """The cells of shared.pxd, the depth reply buffers and the loan of a snapshot's memory."""

    def __init__(self, gateway_eventfd: cython.int) -> None:
        """Make the cells, all zero.

        Args:
            gateway_eventfd: what the gateway's bell writes to.

        Raises:
            MemoryError: there is no memory for it.
        """
        if self.shared != cython.NULL:
            raise RuntimeError("the shared memory is made once")
        memory: cython.p_void = cython.NULL
        buffers: cython.p_void = cython.NULL
        if posix_memalign(cython.address(memory), 128, cython.sizeof(Shared)) != 0:
            raise MemoryError
        memset(memory, 0, cython.sizeof(Shared))
        self.shared = cython.cast(cython.pointer[Shared], memory)
        if posix_memalign(cython.address(buffers), 128, DEPTH_BUFFERS * cython.sizeof(DepthBuffer)):
            raise MemoryError
        memset(buffers, 0, DEPTH_BUFFERS * cython.sizeof(DepthBuffer))
        self.depth_buffers = cython.cast(cython.pointer[DepthBuffer], buffers)
        memset(cython.address(self.image), 0, cython.sizeof(self.image))
        doorbell_init(cython.address(self.shared.gateway_bell), gateway_eventfd)
        doorbell_init(cython.address(self.shared.matcher_bell), -1)
        doorbell_init(cython.address(self.shared.journal_bell), -1)
        doorbell_init(cython.address(self.shared.segment_bell), -1)

    def __dealloc__(self):
        free(self.image.orders)
        free(self.image.sessions)
        free(self.image.instruments)
        free(self.shared)
        free(self.depth_buffers)

    def depth_reply(
        self, buffer_index: cython.int
    ) -> tuple[bytes, list[tuple[int, int, int]], list[tuple[int, int, int]], int, int, bool]:
        """Read a depth buffer after its reply: desk.DepthReply."""
        if not 0 <= buffer_index < DEPTH_BUFFERS:
            raise ValueError(f"buffer_index={buffer_index}, expected 0..{DEPTH_BUFFERS - 1}")
        buffer: cython.pointer[DepthBuffer] = cython.address(self.depth_buffers[buffer_index])
        return (
            cython.cast(cython.p_char, cython.address(buffer.state))[: cython.sizeof(EngineState)],
            _levels(buffer.bids, buffer.bid_count),
            _levels(buffer.asks, buffer.ask_count),
            buffer.bid_levels,
            buffer.ask_levels,
            buffer.is_halted != 0,
        )

    def lend_image(
        self,
        order_capacity: cython.ulonglong,
        session_capacity: cython.ulonglong,
        instrument_capacity: cython.ulonglong,
    ) -> None:
        """Get memory for a snapshot's image and touch it, between two snapshots.

        Raises:
            MemoryError: there is none; nothing is lent.
        """
        self.drop_image()
        failed: cython.bint = False
        with cython.nogil:
            self.image.orders = cython.cast(
                cython.pointer[OrderRecord],
                _touched(order_capacity * cython.sizeof(OrderRecord)),
            )
            self.image.sessions = cython.cast(
                cython.pointer[uint32_t], _touched(session_capacity * cython.sizeof(uint32_t))
            )
            self.image.instruments = cython.cast(
                cython.pointer[InstrumentRecord],
                _touched(instrument_capacity * cython.sizeof(InstrumentRecord)),
            )
            failed = (
                self.image.orders == cython.NULL
                or self.image.sessions == cython.NULL
                or self.image.instruments == cython.NULL
            )
        if failed:
            self.drop_image()
            raise MemoryError
        self.image.order_capacity = order_capacity
        self.image.session_capacity = session_capacity
        self.image.instrument_capacity = instrument_capacity

    def drop_image(self) -> None:
        """Give the image's memory back."""
        free(self.image.orders)
        free(self.image.sessions)
        free(self.image.instruments)
        memset(cython.address(self.image), 0, cython.sizeof(self.image))

    @property
    def image_is_whole(self) -> bool:
        """False when the lent memory was too small."""
        return (
            self.image.order_count <= self.image.order_capacity
            and self.image.session_count <= self.image.session_capacity
            and self.image.instrument_count <= self.image.instrument_capacity
        )

    @property
    def image_state(self) -> bytes:
        """EngineState's bytes as of the mark."""
        return cython.cast(cython.p_char, cython.address(self.image.state))[
            : cython.sizeof(EngineState)
        ]

    @property
    def pause_ns(self) -> int:
        """How long the matcher copied the last image."""
        return self.last_pause_ns

    def take_image(self) -> tuple[bytes, bytes, bytes, bytes]:
        """Return (state, instruments, sessions, orders) and give the lent memory back.

        May be called from a thread: it copies without the GIL.
        """
        parts: tuple = (
            self.image_state,
            _copied(
                self.image.instruments,
                self.image.instrument_count * cython.sizeof(InstrumentRecord),
            ),
            _copied(self.image.sessions, self.image.session_count * cython.sizeof(uint32_t)),
            _copied(self.image.orders, self.image.order_count * cython.sizeof(OrderRecord)),
        )
        self.last_pause_ns = self.image.pause_ns
        self.drop_image()
        return parts

    @property
    def failed_errno(self) -> int:
        """Errno of the disk error that stopped the journal, or 0."""
        return disk_errno(self.shared)

    @property
    def segment(self) -> tuple[int, int, int]:
        """Index, first wal_seq and descriptor of the segment that is written."""
        shared: cython.pointer[Shared] = self.shared
        return shared.segment_index, shared.segment_first_seq, shared.segment_fd

    @property
    def spare_errno(self) -> int:
        """Errno while the next segment cannot be filled for want of space, or 0."""
        return self.shared.spare_errno
