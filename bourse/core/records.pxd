# The fixed-size records that travel between threads and into the log: the C layout.
#
# records.py holds the same layout for Python readers; a test compares the sizes and offsets.
# All integers are little-endian in files (Linux on x86-64 and AArch64 is little-endian in memory too).

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t


cdef struct Command:                # 64 bytes: one request, as it is logged
    uint8_t kind                    # domain.CommandKind
    uint8_t side                    # domain.Side: 1 buy, 2 sell; 0 where it does not apply
    uint8_t order_type              # domain.OrderType, 0 where it does not apply
    uint8_t flags                   # domain.CommandFlag bits
    uint32_t instrument_id
    uint32_t session_id             # who asks
    uint32_t spare                  # 0
    uint64_t client_order_id        # unique among the session's live orders
    uint64_t order_id               # target, for commands that name an order by its exchange number
    int64_t price_ticks
    uint64_t qty_lots
    int64_t received_ns             # wall clock of the socket read, nanoseconds since 1970
    int64_t client_time_ns          # what the client sent as its time, opaque


cdef struct Event:                  # 64 bytes: one fact that followed from a command
    uint8_t kind                    # domain.EventKind
    uint8_t reason                  # domain.Reason
    uint8_t side                    # side of the order that the event is about; Trade: the maker's side
    uint8_t command_kind            # Head: kind of the command; else 0
    uint32_t session_id             # owner of the order; Trade: the maker's owner
    uint64_t sequence               # event_seq; Head, DepthReply, SnapshotReady: wal_seq
    uint64_t client_order_id        # Trade: the maker's
    uint64_t order_id               # Trade: the maker's; Head: the order's, 0 when rejected or none
    int64_t price_ticks             # Trade: the maker's price
    uint64_t qty_lots               # Accepted, Replaced: order quantity; Trade: this fill; Done: open quantity that ended
    uint64_t leaves_lots            # Trade: the maker's open quantity after it; Replaced: the new open quantity; Head: see matching thread
    uint32_t instrument_id
    uint32_t spare


cdef struct EventWindow:            # where an engine may write events: base[next & mask] while next < limit
    Event *base
    uint64_t mask                   # count of slots - 1, a power of two minus one
    uint64_t next                   # position of the next event; the engine advances it
    uint64_t limit                  # first position that may not be written


cdef struct DepthLevel:             # 24 bytes: one price level
    int64_t price_ticks
    uint64_t qty_lots               # sum of open quantities
    uint32_t order_count
    uint32_t spare


cdef struct OrderRecord:            # 64 bytes: one live order, as in snapshots
    uint64_t order_id
    uint64_t client_order_id
    uint64_t priority               # lower is earlier in its level's queue; unique in the engine
    uint64_t leaves_lots            # open quantity
    uint64_t qty_lots               # total quantity; filled = qty - leaves
    int64_t price_ticks
    uint32_t session_id
    uint32_t instrument_id
    uint8_t side
    uint8_t order_type
    uint8_t flags
    uint8_t spare[5]


cdef struct EngineState:            # 128 bytes: every counter that a snapshot must carry beside the orders
    uint64_t wal_seq                # last command executed
    uint64_t event_seq              # last numbered event
    uint64_t next_order_id
    uint64_t next_priority
    uint64_t state_digest
    uint64_t event_digest
    uint64_t live_order_count
    uint64_t order_count            # orders ever accepted
    uint64_t trade_count
    uint64_t bought_lots            # modulo 2**64
    uint64_t sold_lots              # modulo 2**64
    uint64_t reject_count
    uint32_t last_session_id        # highest session id ever opened
    uint32_t session_count          # sessions known: open, or with live orders
    uint32_t instrument_count
    uint32_t spare
    uint64_t spare2[2]


cdef struct InstrumentRecord:       # 32 bytes: one instrument, as in snapshots
    uint32_t instrument_id
    uint32_t is_halted              # 1: cancels only
    uint8_t symbol[16]              # ASCII, zero bytes after it
    uint64_t spare2
