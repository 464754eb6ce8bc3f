"""The way out: event ring, release gate, frames, one write a session a turn.

    event ring ──► head: wal_seq released? ──► encode into the sessions' `out` ──► send
                   no: leave it there; the journal rings when it is

An event goes to the owner of the order that it is about; a trade to the taker's and to the maker's
session, once each, and once only when they are the same. What version 1 says of an order's
identity: the receiver's own order carries the id that the receiver gave it, the other side's its
public number. Sequences are checked as they pass: a gap is a bug, and it is said.
"""

from __future__ import annotations

import cython
from cython.cimports.bourse.core.atomics import load_relaxed, load_seq_cst
from cython.cimports.bourse.core.killpoint import AFTER_ACK, MID_FAN_OUT, passing
from cython.cimports.bourse.core.records import Event
from cython.cimports.bourse.core.ring import (
    Ring,
    RingMemory,
    ring_ready,
    ring_ready_now,
    ring_release,
    ring_slot,
)
from cython.cimports.bourse.daemon.session import Session, SessionTable
from cython.cimports.bourse.daemon.shared import SharedMemory, mono_ns
from cython.cimports.bourse.daemon.stages import StageRecorder
from cython.cimports.bourse.daemon.tape import TapeTrade, TradeTape
from cython.cimports.bourse.protocol.codec import encode_accepted, encode_done, encode_trade
from cython.cimports.libc.stdint import int64_t, uint8_t, uint64_t

from bourse.core.records import EVENT_SIZE
from bourse.domain import OPERATOR_SESSION_ID, CommandKind, Durability, EventKind, Reason

TURN_EVENTS = 8192
"""Events of one turn at most: about half a megabyte, then sockets are looked at again."""
OPERATOR_FILLS_MAX = 100
"""Fills of one operator's order that its answer lists; all of them are added up."""

_TURN_EVENTS = cython.declare(cython.ulonglong, TURN_EVENTS)
_OPERATOR_FILLS_MAX = cython.declare(cython.ulonglong, OPERATOR_FILLS_MAX)
_EVENT_SIZE = cython.declare(cython.int, EVENT_SIZE)
_EVERYTHING = cython.declare(cython.ulonglong, 2**64 - 1)
_MEMORY = cython.declare(cython.int, Durability.MEMORY)
_FSYNC = cython.declare(cython.int, Durability.FSYNC)
_OPERATOR = cython.declare(cython.uint, OPERATOR_SESSION_ID)
_HEAD = cython.declare(cython.int, EventKind.HEAD)
_ACCEPTED = cython.declare(cython.int, EventKind.ACCEPTED)
_TRADE = cython.declare(cython.int, EventKind.TRADE)
_REPLACED = cython.declare(cython.int, EventKind.REPLACED)
_DEPTH_REPLY = cython.declare(cython.int, EventKind.DEPTH_REPLY)
_SNAPSHOT_READY = cython.declare(cython.int, EventKind.SNAPSHOT_READY)
_STOPPED = cython.declare(cython.int, EventKind.STOPPED)
_FENCE = cython.declare(cython.int, EventKind.FENCE)
_IMPACT = cython.declare(cython.int, EventKind.IMPACT)
_NEW_ORDER = cython.declare(cython.int, CommandKind.NEW_ORDER)
_CANCEL = cython.declare(cython.int, CommandKind.CANCEL)
_MASS_CANCEL = cython.declare(cython.int, CommandKind.MASS_CANCEL)
_HALT = cython.declare(cython.int, CommandKind.HALT)
_RESUME = cython.declare(cython.int, CommandKind.RESUME)
_SESSION_END = cython.declare(cython.int, CommandKind.SESSION_END)
_FIRST_REJECT = cython.declare(cython.int, Reason.ZERO_QUANTITY)


@cython.final
@cython.cclass
class Outbound:
    """Consumer of the event ring, on the gateway's thread."""

    def __init__(
        self,
        log: object,
        listener: object,
        events: RingMemory,
        memory: SharedMemory,
        sessions: SessionTable,
        stages: StageRecorder,
        tape: TradeTape,
        durability: cython.int,
        cancels: cython.bint,
        max_bytes: cython.ulonglong,
        wal_seq: cython.ulonglong,
        event_seq: cython.ulonglong,
    ) -> None:
        """Begin after `wal_seq` and `event_seq`, the last ones of earlier runs.

        `cancels`: a session's orders are cancelled when it ends. `max_bytes`: a session with more
        than this waiting to be sent is cut off.
        """
        self.log = log
        self.listener = listener
        self.events = events
        self.memory = memory
        self.sessions = sessions
        self.stages = stages
        self.tape = tape
        self.durability = durability
        self.cancels = cancels
        self.max_bytes = max_bytes
        self.wal_seq = wal_seq
        self.event_seq = event_seq
        self.event_head = events.ring.head
        self.dirty = []

    @cython.cfunc
    @cython.exceptval(0xFFFFFFFF, check=True)
    def turn(self) -> uint64_t:
        """Let through what is released, and send it; returns how many events passed."""
        ring: cython.pointer[Ring] = self.events.ring
        event: cython.pointer[Event]
        start: uint64_t = self.event_head
        ready: uint64_t = ring_ready(ring, start)
        released: uint64_t
        end: uint64_t
        durable_ns: int64_t
        if ready == 0:
            return 0
        # The gate first, then its time: a later sync's time may be told for an earlier one's
        # commands, never less.
        released = self.released()
        durable_ns = load_relaxed(cython.address(self.memory.shared.durable_ns))
        end = start + min(ready, _TURN_EVENTS)
        self.stages.begin_turn()
        while self.event_head < end:
            event = cython.cast(cython.pointer[Event], ring_slot(ring, self.event_head))
            if event.kind == _HEAD:
                if event.sequence > released:
                    break
                self.begin_command(event, durable_ns)
            elif event.kind < _HEAD:
                self.route(event)
            else:
                self.bookkeeping(event)
            self.event_head += 1
        if self.event_head != start:
            ring_release(ring, self.event_head)
            self.flush()
        return self.event_head - start

    @cython.cfunc
    @cython.exceptval(check=False)
    def has_work(self) -> cython.bint:
        """Look again before sleeping, in the order that parking.pxd needs."""
        event: cython.pointer[Event]
        if ring_ready_now(self.events.ring, self.event_head) == 0:
            return False
        event = cython.cast(cython.pointer[Event], ring_slot(self.events.ring, self.event_head))
        return event.kind != _HEAD or event.sequence <= self.released()

    @cython.cfunc
    def forget(self, session: Session):
        """Stop encoding for a session whose connection is gone."""
        if self.taker is session:
            self.taker = None

    @cython.cfunc
    def cut(self, session: Session, why: str):
        """Drop a connection that does not take what it is owed."""
        self.cuts += 1
        self.log.warning("session %d (%s) cut off: %s", session.session_id, session.peer, why)
        session.closing = True
        if session.transport is not None:
            session.transport.abort()

    @cython.cfunc
    @cython.exceptval(check=False)
    def released(self) -> uint64_t:
        """Return the last wal_seq whose events may leave."""
        if self.durability == _FSYNC:
            return load_seq_cst(cython.address(self.memory.shared.durable_seq))
        if self.durability == _MEMORY:
            return _EVERYTHING
        return load_seq_cst(cython.address(self.memory.shared.written_seq))

    @cython.cfunc
    def begin_command(self, head: cython.pointer[cython.const[Event]], durable_ns: int64_t):
        """Take a command's first event: whose it is, and what its order is called."""
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
        self.taker = self.sessions.find(head.session_id)
        self.taker_received_ns = self.stages.pass_command(head, durable_ns)
        self.operator_events = None
        if head.command_kind == _SESSION_END:
            if self.taker is not None:
                # All that it sent is answered; what follows is the end of its orders, if those go
                # with it.
                self.taker.end_passed = True
                self.taker.owed_orders = self.taker.open_orders if self.cancels else 0
                self.mark(self.taker)
        elif head.session_id == _OPERATOR and (
            head.command_kind == _NEW_ORDER
            or head.command_kind == _CANCEL
            or head.command_kind == _MASS_CANCEL
            or head.command_kind == _HALT
            or head.command_kind == _RESUME
        ):
            self.operator_counts = head.command_kind == _MASS_CANCEL
            self.operator_events = [cython.cast(cython.p_char, head)[:_EVENT_SIZE]]
            self.operator_fills = 0
            self.operator_filled_lots = 0

    @cython.cfunc
    def route(self, event: cython.pointer[cython.const[Event]]):
        """Encode one numbered event for those whom it concerns."""
        session: Session
        out: cython.pointer[uint8_t]
        if event.sequence != self.event_seq + 1:
            self.log.critical(
                "gap in the events: %d follows %d; this is a bug", event.sequence, self.event_seq
            )
        self.event_seq = event.sequence
        if self.operator_events is not None:
            self.note_operator(event)
        if event.session_id == self.taker_session_id:
            session = self.taker
        else:
            session = self.sessions.find(event.session_id)
        if event.kind == _TRADE:
            self.route_trade(event, session)
            return
        # Version 1 has no message for a replaced order, and its clients cannot ask for one.
        if session is None or event.kind == _REPLACED:
            return
        out = self.frame(session)
        if out == cython.NULL:
            return
        if event.kind == _ACCEPTED:
            session.open_orders += 1
            session.out_bytes += encode_accepted(out, event.client_order_id, event)
            return
        if event.reason >= _FIRST_REJECT:
            session.rejects += 1
        else:
            session.open_orders -= 1
            if session.owed_orders:
                session.owed_orders -= 1
        session.out_bytes += encode_done(out, event.client_order_id, event)

    @cython.cfunc
    def note_operator(self, event: cython.pointer[cython.const[Event]]):
        """Keep what the answer to the operator's command is made of: its own end, and its fills."""
        if self.operator_counts:
            self.operator_fills += 1
            return
        if event.kind == _TRADE:
            self.operator_fills += 1
            self.operator_filled_lots += event.qty_lots
            if self.operator_fills > _OPERATOR_FILLS_MAX:
                return
        elif event.order_id != self.taker_order_id:
            # A maker that was used up.
            return
        self.operator_events.append(cython.cast(cython.p_char, event)[:_EVENT_SIZE])

    @cython.cfunc
    def route_trade(self, event: cython.pointer[cython.const[Event]], maker: Session | None):
        """Encode a trade for both sides and put it on the tape; `maker` is None when it is gone."""
        out: cython.pointer[uint8_t]
        trade: cython.pointer[TapeTrade] = self.tape.append()
        is_own: cython.bint = event.session_id == self.taker_session_id
        trade.sequence = event.sequence
        trade.price_ticks = event.price_ticks
        trade.qty_lots = event.qty_lots
        trade.taker_side = self.taker_side
        trade.taker_order_id = self.taker_order_id
        trade.maker_order_id = event.order_id
        trade.received_ns = self.taker_received_ns
        if self.taker is not None:
            out = self.frame(self.taker)
            if out != cython.NULL:
                self.taker.out_bytes += encode_trade(
                    out,
                    self.taker_client_order_id,
                    event.client_order_id if is_own else event.order_id,
                    event,
                )
        if maker is not None and not is_own:
            out = self.frame(maker)
            if out != cython.NULL:
                maker.out_bytes += encode_trade(
                    out, self.taker_order_id, event.client_order_id, event
                )

    @cython.cfunc
    def frame(self, session: Session) -> cython.pointer[uint8_t]:
        """Return room for one frame to this session; NULL when it is closed or memory is out."""
        out: cython.pointer[uint8_t]
        if session.transport is None:
            return cython.NULL
        out = session.room()
        if out == cython.NULL:
            self.cut(session, "there is no memory for what it is owed")
            return cython.NULL
        session.events += 1
        self.mark(session)
        return out

    @cython.cfunc
    def mark(self, session: Session):
        """Have flush() visit this session."""
        if not session.dirty:
            session.dirty = True
            self.dirty.append(session)

    @cython.cfunc
    def bookkeeping(self, event: cython.pointer[cython.const[Event]]):
        """Hand on an event that no client sees."""
        if event.kind == _DEPTH_REPLY:
            self.stages.pass_read()
            self.listener.on_depth_reply(event.order_id)
        elif event.kind == _FENCE:
            self.stages.pass_read()
            self.listener.on_fence(
                self.operator_events or [], self.operator_fills, self.operator_filled_lots
            )
            self.operator_events = None
        elif event.kind == _IMPACT:
            self.stages.pass_read()
            self.listener.on_impact(
                event.client_order_id,
                event.qty_lots,
                event.leaves_lots,
                event.reason != 0,
                event.side != 0,
                event.spare == 0,
            )
        elif event.kind == _SNAPSHOT_READY:
            self.listener.on_snapshot_ready()
        elif event.kind == _STOPPED:
            self.stages.pass_read()
            self.listener.on_stopped()

    @cython.cfunc
    def flush(self):
        """Send what the turn encoded, one write a session, then record the turn's stages."""
        session: Session
        encoded_ns: int64_t = mono_ns()
        waiting: uint64_t
        left: cython.Py_ssize_t = len(self.dirty)
        if self.dirty:
            for session in self.dirty:
                session.dirty = False
                waiting = session.send()
                if waiting > self.max_bytes:
                    self.cut(session, f"{waiting} bytes wait for it (outbound_max_bytes)")
                left -= 1
                if left:
                    passing(MID_FAN_OUT)
            self.dirty.clear()
            passing(AFTER_ACK)
        self.stages.end_turn(encoded_ns)
