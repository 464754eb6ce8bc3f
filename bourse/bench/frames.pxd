# Frames of protocol version 1 as packed C structs, for the benchmark's client.
#
# On purpose not the daemon's own declarations: the client would not notice a shared mistake.

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t


cdef packed struct NewOrderFrame:   # 40 bytes
    uint32_t length                 # 36
    uint8_t version                 # 1
    uint8_t type                    # 0x01
    uint64_t order_id
    uint8_t side                    # 1 buy, 2 sell
    uint64_t qty_lots
    uint8_t order_type              # 1 limit
    int64_t price_ticks
    int64_t timestamp_ns            # opaque


cdef packed struct ExecutionHead:   # 7 bytes
    uint32_t length                 # what follows this field
    uint8_t version                 # 1
    uint8_t type                    # 0x10
    uint8_t execution               # 1 accepted, 2 trade, 3 done


cdef packed struct AcceptedFrame:   # 31 bytes
    ExecutionHead head
    uint64_t order_id
    uint64_t qty_lots
    uint64_t sequence


cdef packed struct TradeFrame:      # 47 bytes
    ExecutionHead head
    uint64_t taker_id
    uint64_t maker_id
    int64_t price_ticks
    uint64_t qty_lots
    uint64_t sequence


cdef packed struct DoneFrame:       # 32 bytes
    ExecutionHead head
    uint64_t order_id
    uint64_t leaves_lots
    uint8_t reason                  # 1 filled
    uint64_t sequence


cdef inline int execution_bytes(const char *at, size_t left) noexcept nogil:
    """Return how long the frame is that begins here: 0 when it is not whole, -1 for an unknown one."""
    cdef const ExecutionHead *head = <const ExecutionHead *>at
    cdef size_t size
    if left < sizeof(ExecutionHead):
        return 0
    if head.execution == 1:
        size = sizeof(AcceptedFrame)
    elif head.execution == 2:
        size = sizeof(TradeFrame)
    else:
        size = sizeof(DoneFrame)
    if (
        head.version != 1
        or head.type != 0x10
        or head.execution == 0
        or head.execution > 3
        or head.length + 4 != size
    ):
        return -1
    return <int>size if left >= size else 0
