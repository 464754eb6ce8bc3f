"""The gateway: bytes from sockets to the command ring, the event ring through the release gate to
bytes.

    socket ──► Session.buffer_updated ──► decode ──► command ring ──► matcher
    socket ◄── one send a session a turn ◄── encode ◄── release gate ◄── event ring

Runs on the event loop's thread, and owns the producer side of the command ring and the consumer
side of
the event ring. It never waits on a ring: when the command ring is full it stops reading and keeps
the
undecoded bytes; when the release gate is shut it leaves the events where they are.

A turn is one look at the event ring. `busy` takes a turn each pass of the loop, for ever;
`adaptive` goes on
for SPIN_NS after the last activity and then sleeps in epoll until a socket or the bell's eventfd
wakes it;
`block` sleeps at once.

All connections share one read buffer: decoding is finished before the next read, and what is left
of a
frame (at most 39 bytes) waits in its session. An idle connection costs no buffer.
"""

from __future__ import annotations

import asyncio
from collections import deque

import cython
from cython.cimports.bourse.core.atomics import load_seq_cst, yield_cpu
from cython.cimports.bourse.core.histogram import Histogram
from cython.cimports.bourse.core.parking import doorbell_arm, doorbell_disarm, doorbell_ring
from cython.cimports.bourse.core.records import Command, Event
from cython.cimports.bourse.core.ring import (
    Ring,
    RingMemory,
    ring_publish,
    ring_ready,
    ring_ready_now,
    ring_release,
    ring_room,
    ring_slot,
)
from cython.cimports.bourse.daemon.shared import (
    DEPTH_BUFFERS,
    DepthBuffer,
    Shared,
    SharedMemory,
    mono_ns,
    short_slice,
    socket_send,
    wall_ns,
)
from cython.cimports.bourse.protocol.codec import (
    decode_request,
    encode_accepted,
    encode_done,
    encode_trade,
)
from cython.cimports.libc.stdint import int64_t, uint8_t, uint32_t, uint64_t
from cython.cimports.libc.stdlib import calloc, free, realloc
from cython.cimports.libc.string import memcpy, memset
from cython.cimports.posix.unistd import read

from bourse.core.records import COMMAND_SIZE
from bourse.domain import (
    INSTRUMENT_ID,
    OPERATOR_SESSION_ID,
    CommandFlag,
    CommandKind,
    Durability,
    EventKind,
    PollMode,
    Reason,
)
from bourse.protocol.codec import error_text

READ_BYTES = 256 << 10
"""One socket read: what uvloop itself reads at most at once."""
HEADROOM_BYTES = 64
"""Before the read buffer.

Where the left-over of a frame is put, so that frames are whole in memory.
"""
PUBLISH_COMMANDS = 64
"""Decoded commands become visible to the matcher in groups, so that it works while the rest is
decoded.
"""
TURN_EVENTS = 8192
"""Events encoded in one turn at most: about half a megabyte, then sockets are looked at again."""
SPIN_NS = 100_000
"""`adaptive`: how long turns go on after the last activity; two wake-ups of an idle virtual CPU."""
SAMPLES = 256
"""Commands of one turn whose stages are recorded.

All up to SAMPLE_ALL, then one in SAMPLE_ONE_IN.
"""
SAMPLE_ALL = 64
SAMPLE_ONE_IN = 16
RUNS = 65536
"""Socket reads in flight whose time is remembered."""
TAPE_TRADES = 1024
"""Trades kept for the console."""
OUT_KEEP_BYTES = 256 << 10
"""A session's encode buffer above this is given back once it is empty."""
TICK_SECONDS = 0.5
"""How often deadlines are looked at."""
TICKS_A_WINDOW = 10
"""Each stage's histogram is rotated once in so many ticks: its window is 5 to 10 seconds."""

_READ_BYTES = cython.declare(cython.int, READ_BYTES)
_PUBLISH_COMMANDS = cython.declare(cython.int, PUBLISH_COMMANDS)
_TURN_EVENTS = cython.declare(cython.int, TURN_EVENTS)
_SPIN_NS = cython.declare(cython.longlong, SPIN_NS)
_SAMPLES = cython.declare(cython.int, SAMPLES)
_SAMPLE_ALL = cython.declare(cython.int, SAMPLE_ALL)
_SAMPLE_ONE_IN = cython.declare(cython.int, SAMPLE_ONE_IN)
_RUNS = cython.declare(cython.int, RUNS)
_RUN_MASK = cython.declare(cython.ulonglong, RUNS - 1)
_TAPE = cython.declare(cython.int, TAPE_TRADES)
_TAPE_MASK = cython.declare(cython.ulonglong, TAPE_TRADES - 1)
_OUT_KEEP_BYTES = cython.declare(cython.int, OUT_KEEP_BYTES)
_CACHE = cython.declare(cython.int, 4096)
_CACHE_MASK = cython.declare(cython.int, 4095)
_FRAME_MAX = cython.declare(cython.int, 47)
_EVERYTHING = cython.declare(cython.ulonglong, 2**64 - 1)

_MEMORY = cython.declare(cython.int, Durability.MEMORY)
_FSYNC = cython.declare(cython.int, Durability.FSYNC)
_BUSY = cython.declare(cython.int, PollMode.BUSY)
_ADAPTIVE = cython.declare(cython.int, PollMode.ADAPTIVE)
_INSTRUMENT = cython.declare(cython.int, INSTRUMENT_ID)
_OPERATOR = cython.declare(cython.int, OPERATOR_SESSION_ID)
_HEAD = cython.declare(cython.int, EventKind.HEAD)
_ACCEPTED = cython.declare(cython.int, EventKind.ACCEPTED)
_TRADE = cython.declare(cython.int, EventKind.TRADE)
_DONE = cython.declare(cython.int, EventKind.DONE)
_DEPTH_REPLY = cython.declare(cython.int, EventKind.DEPTH_REPLY)
_SNAPSHOT_READY = cython.declare(cython.int, EventKind.SNAPSHOT_READY)
_STOPPED = cython.declare(cython.int, EventKind.STOPPED)
_FENCE = cython.declare(cython.int, EventKind.FENCE)
_SESSION_END = cython.declare(cython.int, CommandKind.SESSION_END)
_FIRST_REJECT = cython.declare(cython.int, Reason.ZERO_QUANTITY)

DepthReply = tuple[bytes, list[tuple[int, int, int]], list[tuple[int, int, int]], int, int]

Run = cython.struct(
    first=uint64_t, count=uint64_t, received_ns=int64_t, decoded_ns=int64_t, wall_ns=int64_t
)
Sample = cython.struct(
    received_ns=int64_t,
    decoded_ns=int64_t,
    dequeued_ns=int64_t,
    matched_ns=int64_t,
    durable_ns=int64_t,
)
TapeTrade = cython.struct(
    sequence=uint64_t,
    price_ticks=int64_t,
    qty_lots=uint64_t,
    taker_side=uint64_t,
    taker_order_id=uint64_t,
    maker_order_id=uint64_t,
    received_ns=int64_t,
)


@cython.final
@cython.cclass
class Session:
    """One connection: an asyncio buffered protocol that hands its bytes to the gateway.

    Obligations: `gateway.by_id` holds it from connection_made to connection_lost; `out` is flushed
    in the
    turn that filled it.
    """

    gateway: Gateway
    transport: object
    session_id: uint32_t
    fd: cython.int
    peer: str
    closing: cython.bint
    """No more is read or decoded; the connection is closed once its end has passed the ring."""
    ended: cython.bint
    """SESSION_END is on its way."""
    end_passed: cython.bint
    """SESSION_END has passed the gate."""
    input_ended: cython.bint
    """The peer will send no more."""
    dirty: cython.bint
    read_paused: cython.bint
    write_paused: cython.bint
    queued: cython.bint
    """The transport holds bytes that the socket did not take: later ones must queue behind them."""
    stalled: bytes
    """Received but not decoded, because the command ring was full."""
    residual: uint8_t[64]
    residual_bytes: cython.int
    residual_ns: int64_t
    """Monotonic time since when half a frame waits; 0 when none does."""
    out: cython.pointer[uint8_t]
    out_bytes: cython.size_t
    out_capacity: cython.size_t
    commands: uint64_t
    events: uint64_t
    rejects: uint64_t
    open_orders: int64_t
    bytes_in: uint64_t
    bytes_out: uint64_t
    connected_ns: int64_t
    active_ns: int64_t
    drained_bytes: uint64_t
    """bytes_out less what is queued, at the last tick: has the peer taken anything since?"""
    stuck_ns: int64_t
    """Monotonic time since when bytes are queued and the peer takes none; 0 when it does."""

    def __init__(self, gateway: Gateway):
        self.gateway = gateway
        self.transport = None
        self.stalled = b""
        self.peer = ""

    def __dealloc__(self):
        free(self.out)

    def connection_made(self, transport: object) -> None:
        """Event loop: the connection is there."""
        self.transport = transport
        self.gateway._admit(self)

    def get_buffer(self, size_hint: object) -> object:
        """Event loop: where to read to."""
        return self.gateway.read_view

    def buffer_updated(self, count: cython.int) -> None:
        """Event loop: `count` bytes were read."""
        self.gateway._receive(self, count)

    def eof_received(self) -> bool:
        """Event loop: the peer will send no more; what it is owed is still written."""
        self.gateway._end_of_input(self)
        return True

    def connection_lost(self, error: object) -> None:
        """Event loop: the connection is gone."""
        self.gateway._lost(self)

    def pause_writing(self) -> None:
        """Event loop.

        More than the high-water mark is queued; stop reading until the peer has taken some.
        """
        self.write_paused = True
        self.gateway._pause_reading(self)

    def resume_writing(self) -> None:
        """Event loop: the peer has taken enough."""
        self.write_paused = False
        self.gateway._resume_reading(self)

    @cython.cfunc
    @cython.exceptval(check=False)
    def _room(self) -> cython.pointer[uint8_t]:
        """Return where the next frame goes; NULL when memory is out."""
        grown: cython.pointer[uint8_t]
        capacity: cython.size_t
        if self.out_bytes + _FRAME_MAX > self.out_capacity:
            capacity = self.out_capacity * 2 if self.out_capacity else 4096
            grown = cython.cast(cython.pointer[uint8_t], realloc(self.out, capacity))
            if grown == cython.NULL:
                return cython.NULL
            self.out = grown
            self.out_capacity = capacity
        return self.out + self.out_bytes

    @property
    def info(self) -> tuple:
        """What the admin protocol says of a session, in the order of messages.SessionInfo's
        fields.
        """
        state = "closing" if self.closing else "paused" if self.read_paused else "open"
        queued: int = 0
        if self.queued and self.transport is not None:
            queued = self.transport.get_write_buffer_size()
        return (
            self.session_id,
            self.peer,
            state,
            self.connected_ns,
            self.commands,
            self.events,
            self.rejects,
            self.open_orders,
            self.bytes_in,
            self.bytes_out,
            queued,
            self.active_ns,
        )


@cython.final
@cython.cclass
class Gateway:
    """Both ends of the pipeline on the event loop's thread; see the module's docstring.

    Python side: `listen()` gives the protocol factory; `submit()`, `read_depth()`, `copy_image()`
    are what the
    admin server calls; `on_failure`, `on_stopped` and `log` are set by the supervisor.
    """

    loop: object
    log: object
    commands: RingMemory
    events: RingMemory
    memory: SharedMemory
    poll_mode: cython.int
    durability: cython.int
    cancel_on_disconnect: cython.bint
    high_water_bytes: object
    max_bytes: cython.size_t
    slow_reader_ns: int64_t
    frame_ns: int64_t
    connections_max: cython.int
    # Callbacks of the supervisor.
    on_failure = cython.declare(object, visibility="public")
    on_stopped = cython.declare(object, visibility="public")
    # Positions and sequences, owned by this thread.
    command_next: uint64_t
    event_head: uint64_t
    passed_position: uint64_t
    wal_seq = cython.declare(uint64_t, visibility="readonly")
    event_seq = cython.declare(uint64_t, visibility="readonly")
    last_received_ns: int64_t
    next_session_id: uint32_t
    # The command whose events are being encoded.
    taker: Session
    taker_session_id: uint32_t
    taker_client_order_id: uint64_t
    taker_order_id: uint64_t
    taker_side: uint64_t
    taker_received_ns: int64_t
    # Sessions.
    by_id: dict
    cache: cython.pointer[cython.p_void]
    dirty: list
    stalled: list
    backlog: object
    # Input.
    read_memory: bytearray
    read_view: object
    read_data: cython.pointer[uint8_t]
    # Output to the admin side.
    waiters: dict
    next_token: uint64_t
    free_buffers: list
    depth_queue: object
    operator_queue: object
    operator_events: list
    image_waiter: object
    # Waiting.
    armed: cython.bint
    sleeping: cython.bint
    stopping = cython.declare(cython.bint, visibility="readonly")
    active_ns: int64_t
    eventfd: cython.int
    # Measuring.
    runs: cython.pointer[Run]
    run_head: uint64_t
    run_tail: uint64_t
    samples: cython.pointer[Sample]
    sample_count: cython.int
    heads_in_turn: uint64_t
    stages: list
    stage_decoded: Histogram
    stage_dequeued: Histogram
    stage_matched: Histogram
    stage_durable: Histogram
    stage_encoded: Histogram
    stage_written: Histogram
    stage_total: Histogram
    tape: cython.pointer[TapeTrade]
    tape_count: uint64_t
    command_count: uint64_t
    connections_total: uint64_t
    tick: cython.int
    protocol_errors: uint64_t
    slow_reader_cuts: uint64_t

    def __cinit__(self):
        self.cache = cython.cast(
            cython.pointer[cython.p_void], calloc(_CACHE, cython.sizeof(cython.p_void))
        )
        self.runs = cython.cast(cython.pointer[Run], calloc(_RUNS, cython.sizeof(Run)))
        self.samples = cython.cast(cython.pointer[Sample], calloc(_SAMPLES, cython.sizeof(Sample)))
        self.tape = cython.cast(cython.pointer[TapeTrade], calloc(_TAPE, cython.sizeof(TapeTrade)))
        if (
            self.cache == cython.NULL
            or self.runs == cython.NULL
            or self.samples == cython.NULL
            or self.tape == cython.NULL
        ):
            raise MemoryError
        memset(self.runs, 0, _RUNS * cython.sizeof(Run))

    def __dealloc__(self):
        free(self.cache)
        free(self.runs)
        free(self.samples)
        free(self.tape)

    def __init__(
        self,
        loop: object,
        log: object,
        commands: RingMemory,
        events: RingMemory,
        memory: SharedMemory,
        eventfd: cython.int,
        config: object,
        wal_seq: cython.ulonglong,
        event_seq: cython.ulonglong,
        next_session_id: cython.uint,
    ):
        if commands is None or events is None or memory is None:
            raise TypeError("two rings and the shared memory are needed")
        self.loop = loop
        self.log = log
        self.commands = commands
        self.events = events
        self.memory = memory
        self.eventfd = eventfd
        self.poll_mode = config.poll
        self.durability = config.durability
        self.cancel_on_disconnect = config.cancel_on_disconnect
        self.high_water_bytes = config.outbound_high_water_bytes
        self.max_bytes = config.outbound_max_bytes
        self.slow_reader_ns = int(config.slow_reader_seconds * 1e9)
        self.frame_ns = int(config.frame_seconds * 1e9)
        self.connections_max = config.connections_max
        self.command_next = commands.ring.tail
        self.event_head = events.ring.head
        self.passed_position = self.command_next
        self.wal_seq = wal_seq
        self.event_seq = event_seq
        self.next_session_id = next_session_id
        self.by_id = {}
        self.dirty = []
        self.stalled = []
        self.backlog = deque()
        self.read_memory = bytearray(HEADROOM_BYTES + READ_BYTES)
        self.read_view = memoryview(self.read_memory)[HEADROOM_BYTES:]
        self.read_data = cython.cast(
            cython.pointer[uint8_t], cython.cast(cython.p_char, self.read_memory)
        )
        self.read_data += HEADROOM_BYTES
        self.waiters = {}
        self.next_token = 1
        self.free_buffers = list(range(DEPTH_BUFFERS))
        self.depth_queue = deque()
        self.operator_queue = deque()
        self.operator_events = None
        self.image_waiter = None
        self.stage_decoded = Histogram()
        self.stage_dequeued = Histogram()
        self.stage_matched = Histogram()
        self.stage_durable = Histogram()
        self.stage_encoded = Histogram()
        self.stage_written = Histogram()
        self.stage_total = Histogram()
        self.stages = [
            self.stage_decoded,
            self.stage_dequeued,
            self.stage_matched,
            self.stage_durable,
            self.stage_encoded,
            self.stage_written,
            self.stage_total,
        ]

    # ---------------------------------------------------------------- Python's side

    def start(self) -> None:
        """Begin to take turns; the matcher and the journal run already."""
        short_slice()
        self.loop.add_reader(self.eventfd, self._on_bell)
        self.loop.call_later(TICK_SECONDS, self._on_tick)
        self._arm()

    def new_protocol(self) -> asyncio.BaseProtocol:
        """Return the session, an asyncio buffered protocol, of a connection that was just
        accepted.
        """
        return Session(self)

    def submit(self, command: bytes) -> None:
        """Send one command (64 bytes) after all that was sent before.

        Its time of receipt is set here.
        """
        record: Command
        if len(command) != COMMAND_SIZE:
            raise ValueError(f"{len(command)} bytes, expected {COMMAND_SIZE}")
        memcpy(cython.address(record), cython.cast(cython.p_char, command), COMMAND_SIZE)
        record.received_ns = self._now()
        self._push(cython.address(record))

    def submit_operator(self, command: bytes) -> asyncio.Future[list[bytes]]:
        """Send an order or cancel of the operator.

        The future gives its events (64 bytes each, HEAD first).
        """
        waiter = self.loop.create_future()
        record: Command
        self.submit(command)
        self.operator_queue.append(waiter)
        memset(cython.address(record), 0, cython.sizeof(Command))
        record.kind = CommandKind.FENCE
        self._push(cython.address(record))
        return waiter

    def read_depth(self, levels: cython.uint) -> asyncio.Future[DepthReply]:
        """Ask the matcher for the book's best levels.

        Returns:
            A future of (EngineState's 128 bytes, bids, asks, bid_levels, ask_levels); a level is
            (price_ticks, qty_lots, order_count).
        """
        waiter = self.loop.create_future()
        self.depth_queue.append((waiter, levels))
        self._send_depth_reads()
        return waiter

    def copy_image(self) -> asyncio.Future[None]:
        """Send a snapshot's mark.

        The future is done when the image in the shared memory is complete.
        """
        record: Command
        if self.image_waiter is not None:
            raise RuntimeError("one snapshot at a time")
        self.image_waiter = self.loop.create_future()
        memset(cython.address(record), 0, cython.sizeof(Command))
        record.kind = CommandKind.SNAPSHOT_MARK
        record.session_id = OPERATOR_SESSION_ID
        record.received_ns = self._now()
        self._push(cython.address(record))
        return self.image_waiter

    def stop(self) -> None:
        """Stop reading, end every session in the log, and stop the matcher once all of that is
        through.
        """
        record: Command
        self.stopping = True
        for session in list(self.by_id.values()):
            self._pause_reading(session)
            self._finish(session)
        memset(cython.address(record), 0, cython.sizeof(Command))
        record.kind = CommandKind.STOP
        self._push(cython.address(record))

    def queued_bytes(self) -> int:
        """Return the bytes that clients have not taken yet."""
        total: int = 0
        for session in self.by_id.values():
            if session.transport is not None:
                total += session.transport.get_write_buffer_size()
        return total

    def abort_all(self) -> None:
        """Drop every connection at once."""
        for session in list(self.by_id.values()):
            if session.transport is not None:
                session.transport.abort()

    def session_infos(self, limit: int) -> list:
        """Return `Session.info` of the first `limit` sessions by id."""
        return [self.by_id[session_id].info for session_id in sorted(self.by_id)[:limit]]

    def trades_after(
        self, sequence: cython.ulonglong, limit: cython.longlong
    ) -> tuple[list, int, int]:
        """Return (trades newest last, last sequence, how many after `sequence` are no longer
        kept or asked for).
        """
        result: list = []
        first: uint64_t = (
            self.tape_count - _TAPE if self.tape_count > cython.cast(uint64_t, _TAPE) else 0
        )
        position: uint64_t = self.tape_count
        trade: cython.pointer[TapeTrade]
        missed: uint64_t = 0
        while position > first and len(result) < limit:
            trade = cython.address(self.tape[(position - 1) & _TAPE_MASK])
            if trade.sequence <= sequence:
                break
            result.append(
                (
                    trade.sequence,
                    trade.price_ticks,
                    trade.qty_lots,
                    trade.taker_side,
                    trade.taker_order_id,
                    trade.maker_order_id,
                    trade.received_ns,
                )
            )
            position -= 1
        result.reverse()
        if position > first:
            while position > first and self.tape[(position - 1) & _TAPE_MASK].sequence > sequence:
                position -= 1
                missed += 1
        elif first > 0:
            missed = first
        last: int = self.tape[(self.tape_count - 1) & _TAPE_MASK].sequence if self.tape_count else 0
        return result, last, missed

    @property
    def last_trade(self) -> tuple | None:
        """(price_ticks, qty_lots) of the last trade since the start, or None."""
        if self.tape_count == 0:
            return None
        trade: cython.pointer[TapeTrade] = cython.address(
            self.tape[(self.tape_count - 1) & _TAPE_MASK]
        )
        return trade.price_ticks, trade.qty_lots

    @property
    def counters(self) -> dict[str, int]:
        """Counters for the admin protocol, by their names there."""
        shared: cython.pointer[Shared] = self.memory.shared
        return {
            "connections": len(self.by_id),
            "connections_total": self.connections_total,
            "protocol_errors": self.protocol_errors,
            "slow_reader_cuts": self.slow_reader_cuts,
            "commands": self.command_count,
            "wal_seq": self.wal_seq,
            "event_seq": self.event_seq,
            "accepted_seq": shared.matched_seq,
            "written_seq": shared.written_seq,
            "durable_seq": shared.durable_seq,
            "released_seq": self.wal_seq,
            "batches": shared.batches,
            "syncs": shared.syncs,
            "last_batch_records": shared.last_batch_records,
            "written_bytes": shared.written_bytes,
            "segment_used_bytes": shared.segment_used_bytes,
            "segment_size_bytes": shared.segment_size_bytes,
            "command_ring_used": self.commands.used,
            "command_ring_size": self.commands.count,
            "event_ring_used": self.events.used,
            "event_ring_size": self.events.count,
        }

    def stage_histograms(self) -> list:
        """Return the stages' histograms in the order of messages.STAGES."""
        return self.stages

    # ---------------------------------------------------------------- bytes in

    @cython.cfunc
    def _now(self) -> int64_t:
        """Wall clock in nanoseconds, never going back."""
        now_ns: int64_t = wall_ns()
        if now_ns < self.last_received_ns:
            now_ns = self.last_received_ns
        self.last_received_ns = now_ns
        return now_ns

    @cython.cfunc
    def _admit(self, session: Session):
        record: Command
        self.connections_total += 1
        if self.stopping or len(self.by_id) >= self.connections_max:
            session.closing = True
            session.ended = True
            self.log.warning(
                "refused a connection: %s",
                "shutting down"
                if self.stopping
                else f"{self.connections_max} are open (connections_max)",
            )
            session.transport.abort()
            return
        session.session_id = self.next_session_id
        self.next_session_id += 1
        address = session.transport.get_extra_info("peername")
        session.peer = f"{address[0]}:{address[1]}" if address else "?"
        session.fd = session.transport.get_extra_info("socket").fileno()
        session.transport.set_write_buffer_limits(high=self.high_water_bytes)
        session.connected_ns = self._now()
        session.active_ns = session.connected_ns
        self.by_id[session.session_id] = session
        memset(cython.address(record), 0, cython.sizeof(Command))
        record.kind = CommandKind.SESSION_OPEN
        record.session_id = session.session_id
        record.received_ns = session.connected_ns
        self._push(cython.address(record))

    @cython.cfunc
    def _push(self, command: cython.pointer[Command]):
        """Send one command; behind the backlog when the ring is full."""
        ring: cython.pointer[Ring] = self.commands.ring
        if self.backlog or ring_room(ring, self.command_next, 1) == 0:
            self.backlog.append(cython.cast(cython.p_char, command)[:64])
        else:
            memcpy(ring_slot(ring, self.command_next), command, 64)
            self.command_next += 1
            self._publish_commands()
        self._arm()

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _publish_commands(self) -> cython.void:
        ring_publish(self.commands.ring, self.command_next)
        doorbell_ring(cython.address(self.memory.shared.matcher_bell))

    @cython.cfunc
    def _receive(self, session: Session, count: cython.int):
        received_ns: int64_t = mono_ns()
        data: cython.pointer[uint8_t] = self.read_data
        size: uint64_t = count
        session.bytes_in += count
        if session.closing:
            return
        session.active_ns = self._now()
        if session.residual_bytes:
            data -= session.residual_bytes
            size += session.residual_bytes
            memcpy(data, cython.address(session.residual[0]), session.residual_bytes)
            session.residual_bytes = 0
        self._decode(session, data, size, received_ns)

    @cython.cfunc
    def _decode(
        self,
        session: Session,
        data: cython.pointer[uint8_t],
        size: uint64_t,
        received_ns: int64_t,
    ):
        """Turn bytes into commands as far as the ring has room; keep what is left."""
        ring: cython.pointer[Ring] = self.commands.ring
        first: uint64_t = self.command_next
        next_position: uint64_t = first
        room: uint64_t = 0
        used: uint64_t = 0
        taken: cython.int = 0
        command: cython.pointer[Command]
        run: cython.pointer[Run]
        left: uint64_t
        if not self.backlog:
            room = ring_room(ring, next_position, size // 14 + 1)
        while room:
            command = cython.cast(cython.pointer[Command], ring_slot(ring, next_position))
            taken = decode_request(data + used, size - used, command)
            if taken <= 0:
                break
            command.instrument_id = _INSTRUMENT
            command.session_id = session.session_id
            command.received_ns = session.active_ns
            used += taken
            next_position += 1
            room -= 1
            if (next_position - first) % _PUBLISH_COMMANDS == 0:
                self.command_next = next_position
                self._publish_commands()
        if next_position != first:
            if next_position != self.command_next:
                self.command_next = next_position
                self._publish_commands()
            session.commands += next_position - first
            self.command_count += next_position - first
            if self.run_tail - self.run_head < cython.cast(uint64_t, _RUNS):
                run = cython.address(self.runs[self.run_tail & _RUN_MASK])
                run.first = first
                run.count = next_position - first
                run.received_ns = received_ns
                run.decoded_ns = mono_ns()
                run.wall_ns = session.active_ns
                self.run_tail += 1
            self._arm()
        if taken < 0:
            self.protocol_errors += 1
            self.log.warning(
                "session %d (%s) closed: %s", session.session_id, session.peer, error_text(taken)
            )
            self._pause_reading(session)
            self._finish(session)
            return
        left = size - used
        session.residual_ns = 0
        if left == 0:
            return
        if room:
            # Less than a frame.
            memcpy(cython.address(session.residual[0]), data + used, left)
            session.residual_bytes = left
            session.residual_ns = received_ns
            return
        session.stalled = cython.cast(cython.p_char, data + used)[:left]
        self.stalled.append(session)
        self._pause_reading(session)
        self._arm()

    @cython.cfunc
    def _pause_reading(self, session: Session):
        if not session.read_paused and session.transport is not None:
            session.read_paused = True
            if not session.transport.is_closing():
                session.transport.pause_reading()

    @cython.cfunc
    def _resume_reading(self, session: Session):
        """Read again, unless there is another reason not to."""
        if (
            session.read_paused
            and not session.closing
            and not session.write_paused
            and not session.stalled
            and not self.stopping
            and not session.transport.is_closing()
        ):
            session.read_paused = False
            session.transport.resume_reading()

    @cython.cfunc
    def _end_of_input(self, session: Session):
        if session.residual_bytes and not session.closing:
            self.protocol_errors += 1
            self.log.warning(
                "session %d (%s) closed: it ended inside a frame", session.session_id, session.peer
            )
        if session.stalled:
            # Its last commands wait for room in the ring; _resume_session() finishes it.
            session.input_ended = True
            return
        self._finish(session)

    @cython.cfunc
    def _finish(self, session: Session):
        """Take no more from this session.

        Close it when everything that it sent has been answered.
        """
        session.closing = True
        session.stalled = b""
        session.residual_bytes = 0
        session.residual_ns = 0
        self._send_end(session)

    @cython.cfunc
    def _send_end(self, session: Session):
        record: Command
        if session.ended:
            return
        session.ended = True
        memset(cython.address(record), 0, cython.sizeof(Command))
        record.kind = CommandKind.SESSION_END
        record.session_id = session.session_id
        record.received_ns = self._now()
        if self.cancel_on_disconnect:
            record.flags = CommandFlag.CANCEL_ORDERS
        self._push(cython.address(record))

    @cython.cfunc
    def _lost(self, session: Session):
        """The connection is gone: its orders stay or go by the configuration."""
        slot: cython.int = session.session_id & _CACHE_MASK
        session.closing = True
        session.stalled = b""
        session.out_bytes = 0
        if self.by_id.pop(session.session_id, None) is not None:
            self._send_end(session)
        if self.cache[slot] == cython.cast(cython.p_void, session):
            self.cache[slot] = cython.NULL
        if self.taker is session:
            self.taker = None
        session.transport = None

    # ---------------------------------------------------------------- turns

    @cython.cfunc
    def _arm(self):
        """Take a turn soon."""
        if self.sleeping:
            self.sleeping = False
            doorbell_disarm(cython.address(self.memory.shared.gateway_bell))
        self.active_ns = 0
        if not self.armed:
            self.armed = True
            self.loop.call_soon(self._on_turn)

    def _on_bell(self) -> None:
        """Event loop: the matcher or the journal woke us."""
        count: uint64_t
        read(self.eventfd, cython.address(count), 8)
        self._arm()

    def _on_turn(self) -> None:
        """Event loop: look at the event ring once, and decide how to wait for the next time."""
        now_ns: int64_t
        if self.memory.shared.failed_errno:
            self.armed = False
            self.on_failure(self.memory.shared.failed_errno)
            return
        if self._turn():
            self.active_ns = 0
            self.loop.call_soon(self._on_turn)
            return
        if self.poll_mode == _BUSY:
            yield_cpu()
            self.loop.call_soon(self._on_turn)
            return
        if self.poll_mode == _ADAPTIVE:
            now_ns = mono_ns()
            if self.active_ns == 0:
                self.active_ns = now_ns
            if now_ns - self.active_ns < _SPIN_NS:
                self.loop.call_soon(self._on_turn)
                return
        doorbell_arm(cython.address(self.memory.shared.gateway_bell))
        if self._has_work():
            doorbell_disarm(cython.address(self.memory.shared.gateway_bell))
            self.loop.call_soon(self._on_turn)
            return
        self.armed = False
        self.sleeping = True

    @cython.cfunc
    @cython.exceptval(check=False)
    def _has_work(self) -> cython.bint:
        """Look again, in the order that the parking protocol needs (parking.pxd)."""
        event: cython.pointer[Event]
        if load_seq_cst(cython.address(self.memory.shared.failed_errno)):
            return True
        if ring_ready_now(self.events.ring, self.event_head) == 0:
            # What waits for room in the command ring comes with the next event: a full ring has one
            # to come.
            return False
        event = cython.cast(cython.pointer[Event], ring_slot(self.events.ring, self.event_head))
        return event.kind != _HEAD or event.sequence <= self._released()

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _released(self) -> uint64_t:
        """Return the last wal_seq whose events may leave."""
        if self.durability == _FSYNC:
            return load_seq_cst(cython.address(self.memory.shared.durable_seq))
        if self.durability == _MEMORY:
            return _EVERYTHING
        return load_seq_cst(cython.address(self.memory.shared.written_seq))

    @cython.cfunc
    def _turn(self) -> cython.bint:
        """Encode what the gate lets through, send it, take what waited for room.

        True when anything was done.
        """
        ring: cython.pointer[Ring] = self.events.ring
        event: cython.pointer[Event]
        ready: uint64_t = ring_ready(ring, self.event_head)
        released: uint64_t
        durable_ns: int64_t
        start: uint64_t = self.event_head
        end: uint64_t
        worked: cython.bint = False
        if ready:
            released = self._released()
            durable_ns = self.memory.shared.durable_ns
            if ready > cython.cast(uint64_t, _TURN_EVENTS):
                ready = _TURN_EVENTS
            end = start + ready
            self.sample_count = 0
            self.heads_in_turn = 0
            while self.event_head < end:
                event = cython.cast(cython.pointer[Event], ring_slot(ring, self.event_head))
                if event.kind == _HEAD:
                    if event.sequence > released:
                        break
                    self._begin_command(event, durable_ns)
                else:
                    self._route(event)
                self.event_head += 1
            if self.event_head != start:
                worked = True
                ring_release(ring, self.event_head)
                self._flush()
        if self.backlog or self.stalled:
            worked = self._resume_stalled() or worked
        return worked

    @cython.cfunc
    def _begin_command(self, head: cython.pointer[Event], durable_ns: int64_t):
        """A command's first event: who asked, and how long it took so far."""
        run: cython.pointer[Run]
        sample: cython.pointer[Sample]
        position: uint64_t = self.passed_position
        self.passed_position += 1
        if head.sequence != self.wal_seq + 1:
            self.log.critical(
                "gap in the commands: record %d follows %d; this is a bug",
                head.sequence,
                self.wal_seq,
            )
        self.wal_seq = head.sequence
        self.taker_session_id = head.session_id
        self.taker_client_order_id = head.client_order_id
        self.taker_order_id = head.order_id
        self.taker_side = head.side
        self.taker_received_ns = self.last_received_ns
        self.taker = self._find(head.session_id)
        self.operator_events = None
        while self.run_head != self.run_tail:
            run = cython.address(self.runs[self.run_head & _RUN_MASK])
            if position < run.first + run.count:
                break
            self.run_head += 1
        self.heads_in_turn += 1
        if self.run_head != self.run_tail:
            run = cython.address(self.runs[self.run_head & _RUN_MASK])
            if position >= run.first:
                self.taker_received_ns = run.wall_ns
            if (
                position >= run.first
                and head.leaves_lots
                and self.sample_count < _SAMPLES
                and (
                    self.heads_in_turn <= cython.cast(uint64_t, _SAMPLE_ALL)
                    or self.heads_in_turn % _SAMPLE_ONE_IN == 0
                )
            ):
                sample = cython.address(self.samples[self.sample_count])
                sample.received_ns = run.received_ns
                sample.decoded_ns = run.decoded_ns
                sample.matched_ns = head.leaves_lots
                sample.dequeued_ns = sample.matched_ns - head.spare
                sample.durable_ns = durable_ns
                self.sample_count += 1
        if head.command_kind == _SESSION_END:
            if self.taker is not None:
                # All that it sent is answered: _send() closes the connection after its last bytes.
                self.taker.end_passed = True
                self._mark_dirty(self.taker)
        elif head.session_id == cython.cast(uint32_t, _OPERATOR) and self.operator_queue:
            if head.command_kind == 1 or head.command_kind == 2:
                self.operator_events = [cython.cast(cython.p_char, head)[:64]]

    @cython.cfunc
    def _find(self, session_id: uint32_t) -> Session:
        """Return the session with this id, or None when its connection is gone."""
        slot: cython.int = session_id & _CACHE_MASK
        session: Session
        if self.cache[slot] != cython.NULL:
            session = cython.cast(Session, self.cache[slot])
            if session.session_id == session_id:
                return session
        session = self.by_id.get(session_id)
        if session is not None:
            self.cache[slot] = cython.cast(cython.p_void, session)
        return session

    @cython.cfunc
    @cython.inline
    def _mark_dirty(self, session: Session):
        if not session.dirty:
            session.dirty = True
            self.dirty.append(session)

    @cython.cfunc
    def _route(self, event: cython.pointer[Event]):
        """Encode one event for those whom it concerns."""
        session: Session
        trade: cython.pointer[TapeTrade]
        out: cython.pointer[uint8_t]
        if event.kind >= _HEAD:
            self._bookkeeping(event)
            return
        if event.sequence != self.event_seq + 1:
            self.log.critical(
                "gap in the events: %d follows %d; this is a bug", event.sequence, self.event_seq
            )
        self.event_seq = event.sequence
        if self.operator_events is not None and len(self.operator_events) < 1000:
            self.operator_events.append(cython.cast(cython.p_char, event)[:64])
        if event.session_id == self.taker_session_id:
            session = self.taker
        else:
            session = self._find(event.session_id)
        if event.kind == _TRADE:
            trade = cython.address(self.tape[self.tape_count & _TAPE_MASK])
            trade.sequence = event.sequence
            trade.price_ticks = event.price_ticks
            trade.qty_lots = event.qty_lots
            trade.taker_side = self.taker_side
            trade.taker_order_id = self.taker_order_id
            trade.maker_order_id = event.order_id
            trade.received_ns = self.taker_received_ns
            self.tape_count += 1
            if event.session_id == self.taker_session_id:
                if session is not None:
                    out = self._frame(session)
                    if out != cython.NULL:
                        session.out_bytes += encode_trade(
                            out, self.taker_client_order_id, event.client_order_id, event
                        )
                return
            if self.taker is not None:
                out = self._frame(self.taker)
                if out != cython.NULL:
                    self.taker.out_bytes += encode_trade(
                        out, self.taker_client_order_id, event.order_id, event
                    )
            if session is not None:
                out = self._frame(session)
                if out != cython.NULL:
                    session.out_bytes += encode_trade(
                        out, self.taker_order_id, event.client_order_id, event
                    )
            return
        if session is None:
            return
        out = self._frame(session)
        if out == cython.NULL:
            return
        if event.kind == _ACCEPTED:
            session.open_orders += 1
            session.out_bytes += encode_accepted(out, event.client_order_id, event)
        else:
            if event.reason >= _FIRST_REJECT:
                session.rejects += 1
            else:
                session.open_orders -= 1
            session.out_bytes += encode_done(out, event.client_order_id, event)

    @cython.cfunc
    @cython.inline
    def _frame(self, session: Session) -> cython.pointer[uint8_t]:
        """Return room for a frame to this session, NULL when it is closed or memory is out."""
        out: cython.pointer[uint8_t]
        if session.transport is None:
            return cython.NULL
        out = session._room()
        if out == cython.NULL:
            self.log.error(
                "session %d (%s) cut off: out of memory", session.session_id, session.peer
            )
            session.transport.abort()
            return cython.NULL
        session.events += 1
        self._mark_dirty(session)
        return out

    @cython.cfunc
    def _bookkeeping(self, event: cython.pointer[Event]):
        """Events that no client sees."""
        buffer: cython.pointer[DepthBuffer]
        index: cython.int
        if event.kind == _DEPTH_REPLY:
            self.passed_position += 1
            buffer = cython.address(self.memory.depth_buffers[event.order_id])
            waiter = self.waiters.pop(event.order_id)
            if not waiter.done():
                waiter.set_result(
                    (
                        cython.cast(cython.p_char, cython.address(buffer.state))[:128],
                        [
                            (
                                buffer.bids[index].price_ticks,
                                buffer.bids[index].qty_lots,
                                buffer.bids[index].order_count,
                            )
                            for index in range(buffer.bid_count)
                        ],
                        [
                            (
                                buffer.asks[index].price_ticks,
                                buffer.asks[index].qty_lots,
                                buffer.asks[index].order_count,
                            )
                            for index in range(buffer.ask_count)
                        ],
                        buffer.bid_levels,
                        buffer.ask_levels,
                    )
                )
            self.free_buffers.append(event.order_id)
            self._send_depth_reads()
        elif event.kind == _FENCE:
            self.passed_position += 1
            waiter = self.operator_queue.popleft()
            if not waiter.done():
                waiter.set_result(self.operator_events or [])
            self.operator_events = None
        elif event.kind == _SNAPSHOT_READY:
            waiter = self.image_waiter
            self.image_waiter = None
            if waiter is not None and not waiter.done():
                waiter.set_result(None)
        elif event.kind == _STOPPED:
            self.passed_position += 1
            self.on_stopped()

    @cython.cfunc
    def _send_depth_reads(self):
        record: Command
        while self.depth_queue and self.free_buffers:
            waiter, levels = self.depth_queue.popleft()
            index = self.free_buffers.pop()
            self.waiters[index] = waiter
            memset(cython.address(record), 0, cython.sizeof(Command))
            record.kind = CommandKind.DEPTH
            record.instrument_id = _INSTRUMENT
            record.order_id = index
            record.qty_lots = levels
            self._push(cython.address(record))

    @cython.cfunc
    def _flush(self):
        """Send what the turn encoded: one write a session; then record the turn's stages."""
        session: Session
        encoded_ns: int64_t = mono_ns()
        written_ns: int64_t
        index: cython.int
        sample: cython.pointer[Sample]
        ready_ns: int64_t
        if self.dirty:
            for session in self.dirty:
                session.dirty = False
                self._send(session)
            self.dirty.clear()
        if self.sample_count == 0:
            return
        written_ns = mono_ns()
        for index in range(self.sample_count):
            sample = cython.address(self.samples[index])
            ready_ns = sample.matched_ns
            if self.durability != _MEMORY and sample.durable_ns > ready_ns:
                ready_ns = sample.durable_ns
            self.stage_decoded.record(sample.decoded_ns - sample.received_ns, 1)
            self.stage_dequeued.record(sample.dequeued_ns - sample.decoded_ns, 1)
            self.stage_matched.record(sample.matched_ns - sample.dequeued_ns, 1)
            self.stage_durable.record(ready_ns - sample.matched_ns, 1)
            self.stage_encoded.record(encoded_ns - ready_ns, 1)
            self.stage_written.record(written_ns - encoded_ns, 1)
            self.stage_total.record(written_ns - sample.received_ns, 1)

    @cython.cfunc
    def _send(self, session: Session):
        """Write a session's encoded bytes.

        Straight to the socket, the rest through the transport's queue.
        """
        sent: cython.Py_ssize_t = 0
        queued: cython.size_t
        if session.transport is None:
            session.out_bytes = 0
            return
        if session.out_bytes:
            session.bytes_out += session.out_bytes
            if session.queued and session.transport.get_write_buffer_size() == 0:
                session.queued = False
            if not session.queued:
                sent = socket_send(session.fd, session.out, session.out_bytes)
                if sent < 0:
                    # EAGAIN: the socket is full. Anything else: the transport will meet it and say
                    # so.
                    sent = 0
            if cython.cast(cython.size_t, sent) < session.out_bytes:
                session.queued = True
                session.transport.write(
                    cython.cast(cython.p_char, session.out + sent)[: session.out_bytes - sent]
                )
                queued = session.transport.get_write_buffer_size()
                if queued > self.max_bytes:
                    self._cut(session, f"{queued} bytes wait for it (outbound_max_bytes)")
            session.out_bytes = 0
            if session.out_capacity > cython.cast(cython.size_t, _OUT_KEEP_BYTES):
                free(session.out)
                session.out = cython.NULL
                session.out_capacity = 0
        if session.end_passed:
            session.transport.close()

    @cython.cfunc
    def _cut(self, session: Session, why: str):
        self.slow_reader_cuts += 1
        self.log.warning("session %d (%s) cut off: %s", session.session_id, session.peer, why)
        session.closing = True
        if session.transport is not None:
            session.transport.abort()

    @cython.cfunc
    def _resume_stalled(self) -> cython.bint:
        """Send what waited for room in the command ring, in its order."""
        ring: cython.pointer[Ring] = self.commands.ring
        session: Session
        worked: cython.bint = False
        while self.backlog and ring_room(ring, self.command_next, 1):
            data: bytes = self.backlog.popleft()
            memcpy(ring_slot(ring, self.command_next), cython.cast(cython.p_char, data), 64)
            self.command_next += 1
            worked = True
        if worked:
            self._publish_commands()
        # A quarter of the ring: a few commands at a time would cost a copy of the rest each.
        if (
            self.stalled
            and not self.backlog
            and ring_room(ring, self.command_next, ring.count // 4) >= ring.count // 4
        ):
            waiting = self.stalled
            self.stalled = []
            worked = True
            for session in waiting:
                self._resume_session(session)
        return worked

    @cython.cfunc
    def _resume_session(self, session: Session):
        data: bytes = session.stalled
        session.stalled = b""
        if session.closing or session.transport is None:
            return
        self._decode(
            session,
            cython.cast(cython.pointer[uint8_t], cython.cast(cython.p_char, data)),
            len(data),
            mono_ns(),
        )
        if session.stalled or session.closing:
            return
        if session.input_ended:
            self._finish(session)
        else:
            self._resume_reading(session)

    def _on_tick(self) -> None:
        """Event loop: deadlines, and the latency window."""
        session: Session
        now_ns: int64_t = mono_ns()
        drained: uint64_t
        queued: uint64_t
        for session in list(self.by_id.values()):
            if session.residual_ns and now_ns - session.residual_ns > self.frame_ns:
                self.protocol_errors += 1
                self.log.warning(
                    "session %d (%s) closed: half a frame waited %.1f s for its end",
                    session.session_id,
                    session.peer,
                    (now_ns - session.residual_ns) / 1e9,
                )
                self._pause_reading(session)
                self._finish(session)
                continue
            if not session.queued or session.transport is None:
                session.stuck_ns = 0
                continue
            queued = session.transport.get_write_buffer_size()
            drained = session.bytes_out - queued
            if queued == 0 or drained != session.drained_bytes:
                session.drained_bytes = drained
                session.stuck_ns = 0
            elif session.stuck_ns == 0:
                session.stuck_ns = now_ns
            elif now_ns - session.stuck_ns > self.slow_reader_ns:
                self._cut(
                    session,
                    f"it took none of {queued} bytes for {(now_ns - session.stuck_ns) / 1e9:.0f} s",
                )
        # One histogram a tick: all at once would be half a millisecond without a turn.
        self.tick = (self.tick + 1) % TICKS_A_WINDOW
        if self.tick < len(self.stages):
            self.stages[self.tick].rotate()
        if not self.stopping:
            self.loop.call_later(TICK_SECONDS, self._on_tick)
