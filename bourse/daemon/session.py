"""One connection: an asyncio buffered protocol with its state, counters and output.

A session decides nothing: the gateway, its `owner`, decodes what comes in and fills `out`. Output
is written straight to the socket; only what the socket does not take goes through the transport's
queue, and later bytes then queue behind it.
"""

from __future__ import annotations

from typing import Any

import cython
from cython.cimports.bourse.daemon.shared import mono_ns, socket_send
from cython.cimports.libc.stdint import uint8_t, uint32_t, uint64_t
from cython.cimports.libc.stdlib import calloc, free, realloc

from bourse.protocol.format import EVENT_BYTES_MAX

OUT_FIRST_BYTES = 4096
OUT_KEEP_BYTES = 256 << 10
"""A larger encode buffer is given back once it is empty: half of what one turn can encode."""
CACHE_SLOTS = 4096
"""A power of two.

Sessions whose ids differ by it share a slot and are found through the dictionary.
"""

_FRAME_MAX = cython.declare(cython.size_t, EVENT_BYTES_MAX)
_OUT_FIRST_BYTES = cython.declare(cython.size_t, OUT_FIRST_BYTES)
_OUT_KEEP_BYTES = cython.declare(cython.size_t, OUT_KEEP_BYTES)
_CACHE_MASK = cython.declare(cython.uint, CACHE_SLOTS - 1)


@cython.final
@cython.cclass
class Session:
    """One connection, from connection_made to connection_lost.

    Invariants:
        * SESSION_OPEN is sent before, and SESSION_END after, every command of the session.
        * `out` is empty between two turns.
        * reading is paused while `closing`, `write_paused` or `stalled` holds.
    """

    def __init__(self, owner: object, read_view: object) -> None:
        """Wait for connection_made.

        Args:
            owner: the gateway.
            read_view: memory that the next read may fill; used up in buffer_updated.
        """
        self.owner = owner
        self.read_view = read_view
        self.transport = None
        self.stalled = b""
        self.peer = ""

    def __dealloc__(self):
        free(self.out)

    # What the event loop calls.

    def connection_made(self, transport: object) -> None:
        """Take the transport."""
        self.transport = transport
        self.owner.on_made(self)

    def get_buffer(self, size_hint: object) -> object:
        """Say where to read to."""
        return self.read_view

    def buffer_updated(self, count: cython.int) -> None:
        """Take `count` bytes that were read."""
        self.owner.on_bytes(self, count)

    def eof_received(self) -> bool:
        """Stay open for what the peer, who will send no more, is still owed."""
        if self.lingering_ns:
            return False
        self.owner.on_end_of_input(self)
        return True

    def connection_lost(self, error: object) -> None:
        """Let go of the transport."""
        self.owner.on_lost(self)
        self.transport = None

    def pause_writing(self) -> None:
        """Stop reading: the peer has not taken what is queued."""
        self.write_paused = True
        if not self.lingering_ns:
            self.pause_reading()

    def resume_writing(self) -> None:
        """Read again: the peer has taken enough."""
        self.write_paused = False
        self.resume_reading()

    # What the gateway calls.

    @cython.ccall
    def pause_reading(self):
        """Read no more until resume_reading()."""
        if not self.read_paused and self.transport is not None:
            self.read_paused = True
            if not self.transport.is_closing():
                self.transport.pause_reading()

    @cython.ccall
    def resume_reading(self):
        """Read again, unless there is another reason not to."""
        if (
            self.read_paused
            and not self.closing
            and not self.write_paused
            and not self.stalled
            and self.transport is not None
            and not self.transport.is_closing()
        ):
            self.read_paused = False
            self.transport.resume_reading()

    @cython.cfunc
    @cython.exceptval(check=False)
    def room(self) -> cython.pointer[uint8_t]:
        """Return where the next frame goes; NULL when memory is out."""
        grown: cython.pointer[uint8_t]
        capacity: cython.size_t
        if self.out_bytes + _FRAME_MAX > self.out_capacity:
            capacity = self.out_capacity * 2 if self.out_capacity else _OUT_FIRST_BYTES
            grown = cython.cast(cython.pointer[uint8_t], realloc(self.out, capacity))
            if grown == cython.NULL:
                return cython.NULL
            self.out = grown
            self.out_capacity = capacity
        return self.out + self.out_bytes

    @cython.cfunc
    @cython.exceptval(0xFFFFFFFF, check=True)
    def send(self) -> uint64_t:
        """Write what the turn has encoded, in one call.

        Returns:
            Bytes that wait in the transport's queue now; 0 when the socket took everything.
        """
        sent: cython.Py_ssize_t = 0
        waiting: uint64_t = 0
        if self.transport is None or self.lingering_ns:
            # After our side was closed: its orders may trade on, and it is not told any more.
            self.drop_output()
            return 0
        if self.out_bytes:
            self.bytes_out += self.out_bytes
            if self.queued and self.transport.get_write_buffer_size() == 0:
                self.queued = False
            if not self.queued:
                sent = socket_send(self.fd, self.out, self.out_bytes)
                if sent < 0:
                    # The socket is full, or broken: then the transport meets the error and says so.
                    sent = 0
            if cython.cast(cython.size_t, sent) < self.out_bytes:
                self.queued = True
                self.transport.write(
                    cython.cast(cython.p_char, self.out + sent)[: self.out_bytes - sent]
                )
                waiting = self.transport.get_write_buffer_size()
            self.drop_output()
        if self.end_passed and self.owed_orders == 0 and self.lingering_ns == 0:
            self.close_output()
        return waiting

    @cython.cfunc
    def close_output(self):
        """Close our side after the last bytes; the connection ends when the peer closes its own.

        Until then what the peer sends is read and thrown away: closing a socket that holds unread
        bytes resets the connection, and the peer's last answers would be lost with it.
        """
        self.lingering_ns = mono_ns()
        if self.input_ended:
            # Closes once the queue is empty.
            self.transport.close()
            return
        self.transport.write_eof()
        if self.read_paused:
            self.read_paused = False
            self.transport.resume_reading()

    @cython.cfunc
    @cython.exceptval(check=False)
    def drop_output(self) -> cython.void:
        """Empty `out`."""
        self.out_bytes = 0
        if self.out_capacity > _OUT_KEEP_BYTES:
            free(self.out)
            self.out = cython.NULL
            self.out_capacity = 0

    @property
    def queued_bytes(self) -> int:
        """Bytes that wait for the peer to take them."""
        if self.transport is None or not self.queued:
            return 0
        return self.transport.get_write_buffer_size()

    @property
    def info(self) -> tuple[Any, ...]:
        """The fields of messages.SessionInfo."""
        state = "closing" if self.closing else "paused" if self.read_paused else "open"
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
            self.queued_bytes,
            self.active_ns,
        )


@cython.final
@cython.cclass
class SessionTable:
    """The connected sessions by id.

    `find` costs a dictionary only when two ids share a cache slot.
    """

    def __cinit__(self):
        self.by_id = {}
        self.cache = cython.cast(
            cython.pointer[cython.p_void], calloc(CACHE_SLOTS, cython.sizeof(cython.p_void))
        )
        if self.cache == cython.NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.cache)

    def __len__(self) -> int:
        return len(self.by_id)

    def all(self) -> list[Session]:
        """Return the sessions by ascending id."""
        return [self.by_id[session_id] for session_id in sorted(self.by_id)]

    @cython.cfunc
    def find(self, session_id: uint32_t) -> Session:
        """Return the session with this id, or None when its connection is gone."""
        slot: cython.uint = session_id & _CACHE_MASK
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
    def add(self, session: Session):
        """Make a session findable."""
        self.by_id[session.session_id] = session

    @cython.cfunc
    def remove(self, session: Session) -> cython.bint:
        """Forget a session; False when it was not there."""
        slot: cython.uint = session.session_id & _CACHE_MASK
        if self.cache[slot] == cython.cast(cython.p_void, session):
            self.cache[slot] = cython.NULL
        return self.by_id.pop(session.session_id, None) is not None
