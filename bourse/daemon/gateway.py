"""The gateway: sockets in, command ring out, and the turns in which events go the other way.

    socket ──► on_bytes ──► decode ──► command ring ──► matcher
    socket ◄── Outbound.turn ◄── release gate ◄── event ring

Runs on the event loop's thread and never waits on a ring: when the command ring is full it stops
reading and keeps the undecoded bytes; when the release gate is shut it leaves the events where they
are.

A turn is one look at the event ring. `busy` takes a turn each pass of the loop, for ever;
`adaptive` goes on for SPIN_NS after the last activity and then sleeps in epoll until a socket or
the bell's eventfd wakes it; `block` sleeps at once.

All connections share one read buffer: decoding is finished before the next read, and what is left
of a frame (at most 39 bytes) waits in its session. An idle connection costs no buffer.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

import cython
from cython.cimports.bourse.core.atomics import yield_cpu
from cython.cimports.bourse.core.killpoint import FRAME_READ, IN_RING, passing
from cython.cimports.bourse.core.parking import doorbell_arm, doorbell_disarm, doorbell_ring
from cython.cimports.bourse.core.records import Command
from cython.cimports.bourse.core.ring import Ring, RingMemory, ring_publish, ring_room, ring_slot
from cython.cimports.bourse.core.scheduling import short_slice
from cython.cimports.bourse.daemon.outbound import Outbound
from cython.cimports.bourse.daemon.session import Session, SessionTable
from cython.cimports.bourse.daemon.shared import (
    Shared,
    SharedMemory,
    disk_errno,
    mono_ns,
    socket_unsent,
    wall_ns,
)
from cython.cimports.bourse.daemon.stages import StageRecorder
from cython.cimports.bourse.daemon.tape import TradeTape
from cython.cimports.bourse.protocol.codec import decode_request
from cython.cimports.libc.stdint import int64_t, uint8_t, uint32_t, uint64_t
from cython.cimports.libc.string import memcpy, memset
from cython.cimports.posix.unistd import read

from bourse.config import format_address
from bourse.core.records import COMMAND_SIZE
from bourse.daemon.desk import Desk
from bourse.domain import INSTRUMENT_ID, CommandFlag, CommandKind, PollMode
from bourse.protocol.codec import error_text
from bourse.protocol.format import CANCEL_BYTES

READ_BYTES = 256 << 10
"""One socket read: what uvloop itself reads at most at once."""
HEADROOM_BYTES = 64
"""Before the read buffer: the left-over of a frame is put there, so that frames are whole."""
PUBLISH_COMMANDS = 64
"""Decoded commands are shown to the matcher in groups: it works while the rest is decoded."""
SPIN_NS = 100_000
"""`adaptive`: how long turns go on after the last activity; two wake-ups of an idle virtual CPU."""
LINGER_NS = 1_000_000_000
"""How long a connection that we have closed may go on sending, once the peer has all it is owed."""
TICK_SECONDS = 0.5
"""How often deadlines are looked at."""

_PUBLISH_COMMANDS = cython.declare(cython.ulonglong, PUBLISH_COMMANDS)
_LINGER_NS = cython.declare(cython.longlong, LINGER_NS)
_SPIN_NS = cython.declare(cython.longlong, SPIN_NS)
_COMMAND_SIZE = cython.declare(cython.int, COMMAND_SIZE)
_FRAME_LEAST = cython.declare(cython.ulonglong, CANCEL_BYTES)
_BUSY = cython.declare(cython.int, PollMode.BUSY)
_ADAPTIVE = cython.declare(cython.int, PollMode.ADAPTIVE)
_INSTRUMENT = cython.declare(cython.uint, INSTRUMENT_ID)
_NEW_ORDER = cython.declare(cython.int, CommandKind.NEW_ORDER)
_SPACE_IS_LOW = cython.declare(cython.uchar, CommandFlag.SPACE_IS_LOW)


@cython.final
@cython.cclass
class Gateway:
    """Producer of the command ring, owner of the sessions, on the event loop's thread.

    `on_failure(errno)` is set by the supervisor before start() and called once, when the disk
    failed.
    """

    loop: object
    log: object
    commands: RingMemory
    memory: SharedMemory
    sessions: SessionTable
    outbound: Outbound
    stages: StageRecorder
    tape = cython.declare(TradeTape, visibility="readonly")
    desk = cython.declare(object, visibility="readonly")
    on_failure = cython.declare(object, visibility="public")
    poll_mode: cython.int
    cancel_on_disconnect: cython.bint
    high_water_bytes: object
    slow_reader_ns: int64_t
    frame_ns: int64_t
    connections_max: cython.int
    # Commands.
    command_next: uint64_t
    backlog: object  # deque of commands that found the ring full; everything else waits behind it
    stalled: list  # sessions whose bytes found the ring full
    next_session_id: uint32_t
    last_wall_ns: int64_t
    # Input.
    read_memory: bytearray
    read_view: object
    read_data: cython.pointer[uint8_t]
    # Waiting.
    eventfd: cython.int
    armed: cython.bint  # a turn is coming
    sleeping: cython.bint  # the bell will wake us
    idle_since_ns: int64_t  # monotonic; 0 when the last turn did something
    low_space = cython.declare(cython.bint, visibility="public")  # refuse new orders
    stopping = cython.declare(cython.bint, visibility="readonly")
    # Counters for people.
    command_count: uint64_t
    connections_total: uint64_t
    protocol_errors: uint64_t

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
        last_wall_ns: cython.longlong = 0,
    ) -> None:
        """Wire the gateway; `wal_seq`, `event_seq` and `last_wall_ns` are those of earlier runs."""
        if commands is None or events is None or memory is None:
            raise TypeError("two rings and the shared memory are needed")
        self.loop = loop
        self.log = log
        self.commands = commands
        self.memory = memory
        self.eventfd = eventfd
        self.poll_mode = config.poll
        self.cancel_on_disconnect = config.cancel_on_disconnect
        self.high_water_bytes = config.outbound_high_water_bytes
        self.slow_reader_ns = int(config.slow_reader_seconds * 1e9)
        self.frame_ns = int(config.frame_seconds * 1e9)
        self.connections_max = config.connections_max
        self.command_next = commands.ring.tail
        self.backlog = deque()
        self.stalled = []
        self.next_session_id = next_session_id
        self.last_wall_ns = last_wall_ns
        self.read_memory = bytearray(HEADROOM_BYTES + READ_BYTES)
        self.read_view = memoryview(self.read_memory)[HEADROOM_BYTES:]
        self.read_data = cython.cast(
            cython.pointer[uint8_t], cython.cast(cython.p_char, self.read_memory)
        )
        self.read_data += HEADROOM_BYTES
        self.sessions = SessionTable()
        self.stages = StageRecorder()
        self.tape = TradeTape()
        self.desk = Desk(memory, self.submit)
        self.outbound = Outbound(
            log,
            self.desk,
            events,
            memory,
            self.sessions,
            self.stages,
            self.tape,
            config.durability,
            config.cancel_on_disconnect,
            config.outbound_max_bytes,
            wal_seq,
            event_seq,
        )

    # What the supervisor calls.

    def start(self) -> None:
        """Begin to take turns; the matcher and the journal run already."""
        short_slice()
        self.loop.add_reader(self.eventfd, self._on_bell)
        self.loop.call_later(TICK_SECONDS, self._on_tick)
        self._arm()

    def new_protocol(self) -> asyncio.BaseProtocol:
        """Return the protocol of a connection that was just accepted: a Session."""
        return Session(self, self.read_view)

    def submit(self, command: bytes) -> None:
        """Send one command (64 bytes) after all that was sent; its time of receipt is set here."""
        record: Command
        if len(command) != _COMMAND_SIZE:
            raise ValueError(f"{len(command)} bytes, expected {COMMAND_SIZE}")
        memcpy(cython.address(record), cython.cast(cython.p_char, command), _COMMAND_SIZE)
        record.received_ns = self._now()
        if self.low_space and record.kind == _NEW_ORDER:
            record.flags = _SPACE_IS_LOW
        self._push(cython.address(record))

    def end_sessions(self) -> None:
        """Read no more, and end every session in the log."""
        session: Session
        self.stopping = True
        for session in self.sessions.all():
            self._finish(session)

    def stop(self) -> None:
        """End every session, then the matcher: see desk.stopped."""
        record: Command
        self.end_sessions()
        memset(cython.address(record), 0, cython.sizeof(Command))
        record.kind = CommandKind.STOP
        self._push(cython.address(record))

    def close(self) -> None:
        """Let go of the bell: no turn is taken any more."""
        self.loop.remove_reader(self.eventfd)

    def reap(self) -> int:
        """Drop connections that have closed their side or linger too long.

        Returns how many are left.
        """
        session: Session
        now_ns: int64_t = mono_ns()
        for session in self.sessions.all():
            if session.lingering_ns:
                self._reap(session, now_ns)
        return len(self.sessions)

    def is_open(self, session_id: int) -> bool:
        """Say whether a client is connected as this session, and not being closed."""
        session: Session = self.sessions.by_id.get(session_id)
        return session is not None and not session.closing

    def kick(self, session_id: int) -> bool:
        """End a session: it is read no more, answered, and closed; False when it is not open."""
        if not self.is_open(session_id):
            return False
        self._finish(self.sessions.by_id[session_id])
        return True

    def abort_all(self) -> None:
        """Drop every connection at once."""
        session: Session
        for session in self.sessions.all():
            if session.transport is not None:
                session.transport.abort()

    def session_infos(self, limit: int) -> list[tuple[Any, ...]]:
        """Return the fields of messages.SessionInfo for the first `limit` sessions by id."""
        return [session.info for session in self.sessions.all()[:limit]]

    def stage_histograms(self) -> list[Any]:
        """Return the stages' histograms in the order of messages.STAGES."""
        return self.stages.histograms

    @property
    def wal_seq(self) -> int:
        """The last command whose events were released."""
        return self.outbound.wal_seq

    @property
    def event_seq(self) -> int:
        """The last event that was released."""
        return self.outbound.event_seq

    @property
    def counters(self) -> dict[str, int]:
        """Counters for the admin protocol, by their names there."""
        shared: cython.pointer[Shared] = self.memory.shared
        return {
            "connections": len(self.sessions),
            "connections_total": self.connections_total,
            "protocol_errors": self.protocol_errors,
            "slow_reader_cuts": self.outbound.cuts,
            "commands": self.command_count,
            "released_seq": self.outbound.wal_seq,
            "written_seq": shared.written_seq,
            "durable_seq": shared.durable_seq,
            "batches": shared.batches,
            "syncs": shared.syncs,
            "last_batch_records": shared.last_batch_records,
            "written_bytes": shared.written_bytes,
            "segment_used_bytes": shared.segment_used_bytes,
            "segment_size_bytes": shared.segment_size_bytes,
            "command_ring_used": self.commands.used,
            "command_ring_size": self.commands.count,
            "event_ring_used": self.outbound.events.used,
            "event_ring_size": self.outbound.events.count,
        }

    # What sessions call.

    def on_made(self, session: Session) -> None:
        """A connection is there: give it an id, and log that it exists."""
        record: Command
        self.connections_total += 1
        if self.stopping or len(self.sessions) >= self.connections_max:
            session.closing = True
            session.end_sent = True
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
        session.peer = format_address(address[0], address[1]) if address else "?"
        session.fd = session.transport.get_extra_info("socket").fileno()
        session.transport.set_write_buffer_limits(high=self.high_water_bytes)
        session.connected_ns = self._now()
        session.active_ns = session.connected_ns
        self.sessions.add(session)
        memset(cython.address(record), 0, cython.sizeof(Command))
        record.kind = CommandKind.SESSION_OPEN
        record.session_id = session.session_id
        record.received_ns = session.connected_ns
        self._push(cython.address(record))

    def on_bytes(self, session: Session, count: cython.int) -> None:
        """`count` bytes are in the read buffer."""
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

    def on_end_of_input(self, session: Session) -> None:
        """The peer will send no more."""
        session.input_ended = True
        if session.residual_bytes and not session.closing:
            self._refuse(session, "it ended inside a frame")
        elif not session.stalled:
            self._finish(session)
        # Else its last commands wait for room in the ring; _resume_session() comes back here.

    def on_lost(self, session: Session) -> None:
        """The connection is gone: its orders stay or go by the configuration."""
        session.closing = True
        session.stalled = b""
        session.residual_ns = 0
        session.drop_output()
        self.outbound.forget(session)
        if self.sessions.remove(session):
            self._send_end(session)

    # Bytes to commands.

    @cython.cfunc
    def _now(self) -> int64_t:
        """Wall clock in nanoseconds, never going back."""
        now_ns: int64_t = wall_ns()
        if now_ns < self.last_wall_ns:
            now_ns = self.last_wall_ns
        self.last_wall_ns = now_ns
        return now_ns

    @cython.cfunc
    def _push(self, command: cython.pointer[Command]):
        """Send one command; behind the backlog when the ring is full."""
        ring: cython.pointer[Ring] = self.commands.ring
        if self.backlog or ring_room(ring, self.command_next, 1) == 0:
            self.backlog.append(cython.cast(cython.p_char, command)[:_COMMAND_SIZE])
        else:
            memcpy(ring_slot(ring, self.command_next), command, _COMMAND_SIZE)
            self._publish(self.command_next + 1)
        self._arm()

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _publish(self, next_position: uint64_t) -> cython.void:
        self.command_next = next_position
        ring_publish(self.commands.ring, next_position)
        doorbell_ring(cython.address(self.memory.shared.matcher_bell))
        passing(IN_RING)

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
        if not self.backlog:
            room = ring_room(ring, next_position, size // _FRAME_LEAST + 1)
        while room:
            command = cython.cast(cython.pointer[Command], ring_slot(ring, next_position))
            taken = decode_request(data + used, size - used, command)
            if taken <= 0:
                break
            command.instrument_id = _INSTRUMENT
            command.session_id = session.session_id
            # Not the session's: what was stalled comes after what others sent meanwhile.
            command.received_ns = self.last_wall_ns
            if self.low_space and command.kind == _NEW_ORDER:
                command.flags = _SPACE_IS_LOW
            passing(FRAME_READ)
            used += taken
            next_position += 1
            room -= 1
            if (next_position - first) % _PUBLISH_COMMANDS == 0:
                self._publish(next_position)
        if next_position != first:
            # Stamped before the matcher can see the last of them: waking it belongs to `dequeued`.
            self.stages.note_read(first, next_position - first, received_ns, self.last_wall_ns)
            if next_position != self.command_next:
                self._publish(next_position)
            session.commands += next_position - first
            self.command_count += next_position - first
            self._arm()
        session.residual_ns = 0
        if taken < 0:
            self._refuse(session, error_text(taken))
        elif used == size:
            pass
        elif room:
            # Less than a frame.
            memcpy(cython.address(session.residual[0]), data + used, size - used)
            session.residual_bytes = size - used
            session.residual_ns = mono_ns()
        else:
            session.stalled = cython.cast(cython.p_char, data + used)[: size - used]
            session.stalled_ns = received_ns
            session.pause_reading()
            self.stalled.append(session)
            self._arm()

    @cython.cfunc
    def _refuse(self, session: Session, why: str):
        """End a session that broke the protocol; what it sent before is answered first."""
        self.protocol_errors += 1
        self.log.warning("session %d (%s) closed: %s", session.session_id, session.peer, why)
        self._finish(session)

    @cython.cfunc
    def _finish(self, session: Session):
        """Take no more from this session; it is closed when all that it sent has been answered."""
        session.closing = True
        session.stalled = b""
        session.residual_bytes = 0
        session.residual_ns = 0
        session.pause_reading()
        self._send_end(session)

    @cython.cfunc
    def _send_end(self, session: Session):
        record: Command
        if session.end_sent:
            return
        session.end_sent = True
        memset(cython.address(record), 0, cython.sizeof(Command))
        record.kind = CommandKind.SESSION_END
        record.session_id = session.session_id
        record.received_ns = self._now()
        if self.cancel_on_disconnect:
            record.flags = CommandFlag.CANCEL_ORDERS
        self._push(cython.address(record))

    @cython.cfunc
    def _reap(self, session: Session, now_ns: int64_t):
        """Drop a connection that is closed on our side, once the peer has what it is owed."""
        if self._check_progress(session, now_ns) == 0:
            if now_ns - session.lingering_ns > _LINGER_NS:
                session.transport.abort()

    @cython.cfunc
    def _check_progress(self, session: Session, now_ns: int64_t) -> uint64_t:
        """Cut off a peer that takes nothing; returns the bytes that it has not taken yet.

        What counts is what its kernel acknowledges: the transport's queue alone moves in steps of
        megabytes.
        """
        waiting: uint64_t = session.queued_bytes + cython.cast(uint64_t, socket_unsent(session.fd))
        drained: uint64_t = session.bytes_out - waiting
        if waiting == 0 or drained != session.drained_bytes:
            session.drained_bytes = drained
            session.stuck_ns = 0
        elif session.stuck_ns == 0:
            session.stuck_ns = now_ns
        elif now_ns - session.stuck_ns > self.slow_reader_ns:
            self.outbound.cut(
                session,
                f"it took none of {waiting} bytes for {(now_ns - session.stuck_ns) / 1e9:.0f} s",
            )
        return waiting

    @cython.cfunc
    def _resume_stalled(self) -> cython.bint:
        """Send what waited for room in the command ring, in its order; True when any was sent."""
        ring: cython.pointer[Ring] = self.commands.ring
        quarter: uint64_t = ring.count // 4
        data: bytes
        session: Session
        waiting: list
        worked: cython.bint = False
        while self.backlog and ring_room(ring, self.command_next, 1):
            data = self.backlog.popleft()
            memcpy(
                ring_slot(ring, self.command_next), cython.cast(cython.p_char, data), _COMMAND_SIZE
            )
            self._publish(self.command_next + 1)
            worked = True
        # A quarter of the ring: for a few commands at a time the rest would be copied each time.
        if (
            self.stalled
            and not self.backlog
            and ring_room(ring, self.command_next, quarter) >= quarter
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
            session.stalled_ns,
        )
        if session.closing or session.stalled:
            return
        if session.input_ended:
            self.on_end_of_input(session)
        else:
            session.resume_reading()

    # Turns.

    @cython.cfunc
    def _arm(self):
        """Take a turn soon."""
        if self.sleeping:
            self.sleeping = False
            doorbell_disarm(cython.address(self.memory.shared.gateway_bell))
        self.idle_since_ns = 0
        if not self.armed:
            self.armed = True
            self.loop.call_soon(self._on_turn)

    def _on_bell(self) -> None:
        """Event loop: the matcher or the journal woke us."""
        count: uint64_t
        read(self.eventfd, cython.address(count), 8)
        self._arm()

    def _on_turn(self) -> None:
        """Event loop: take one turn, and decide how to wait for the next."""
        now_ns: int64_t
        worked: cython.bint
        if disk_errno(self.memory.shared):
            self.armed = False
            self.on_failure(disk_errno(self.memory.shared))
            return
        worked = self.outbound.turn() > 0
        if self.backlog or self.stalled:
            worked = self._resume_stalled() or worked
        if worked:
            self.idle_since_ns = 0
        elif self.poll_mode == _BUSY:
            yield_cpu()
        else:
            if self.poll_mode == _ADAPTIVE:
                now_ns = mono_ns()
                if self.idle_since_ns == 0:
                    self.idle_since_ns = now_ns
                if now_ns - self.idle_since_ns < _SPIN_NS:
                    self.loop.call_soon(self._on_turn)
                    return
            # What waits for room in the command ring needs no wake-up of its own: a ring that is
            # full has events to come.
            doorbell_arm(cython.address(self.memory.shared.gateway_bell))
            if not self.outbound.has_work() and not disk_errno(self.memory.shared):
                self.armed = False
                self.sleeping = True
                return
            doorbell_disarm(cython.address(self.memory.shared.gateway_bell))
        self.loop.call_soon(self._on_turn)

    def _on_tick(self) -> None:
        """Event loop, each half second: deadlines, and the latency window."""
        session: Session
        now_ns: int64_t = mono_ns()
        for session in list(self.sessions.by_id.values()):
            if session.residual_ns and session.read_paused:
                # We do not read from it: its end may have come long ago.
                session.residual_ns = now_ns
            if session.residual_ns and now_ns - session.residual_ns > self.frame_ns:
                self._refuse(
                    session,
                    f"half a frame waited {(now_ns - session.residual_ns) / 1e9:.1f} s for its end",
                )
                continue
            if session.lingering_ns:
                self._reap(session, now_ns)
            elif session.queued:
                self._check_progress(session, now_ns)
        self.stages.on_tick()
        if not self.stopping:
            self.loop.call_later(TICK_SECONDS, self._on_tick)
