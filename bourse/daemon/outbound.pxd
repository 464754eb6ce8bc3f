# C face of outbound.py: what the gateway's turns call.

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from bourse.core.records cimport Event
from bourse.core.ring cimport RingMemory
from bourse.daemon.session cimport Session, SessionTable
from bourse.daemon.shared cimport SharedMemory
from bourse.daemon.stages cimport StageRecorder
from bourse.daemon.tape cimport TradeTape


cdef class Outbound:
    cdef object log
    cdef object listener            # desk.Desk: hears the events that no client sees
    cdef RingMemory events
    cdef SharedMemory memory
    cdef SessionTable sessions
    cdef StageRecorder stages
    cdef TradeTape tape
    cdef int durability
    cdef bint cancels                   # a session's orders are cancelled when it ends
    cdef uint64_t max_bytes
    cdef uint64_t event_head
    cdef readonly uint64_t wal_seq      # last command that has passed the gate
    cdef readonly uint64_t event_seq    # last event that has
    cdef readonly uint64_t cuts         # sessions cut off for not reading
    cdef list dirty                     # sessions with something in `out`
    # The command whose events are passing.
    cdef Session taker                  # None: its connection is gone
    cdef uint32_t taker_session_id
    cdef uint64_t taker_client_order_id
    cdef uint64_t taker_order_id
    cdef uint64_t taker_side
    cdef int64_t taker_received_ns
    cdef list operator_events           # what its answer needs when it is the operator's, else None
    cdef uint64_t operator_fills
    cdef uint64_t operator_filled_lots
    cdef bint operator_counts           # a mass cancel: its ends are counted, not kept

    cdef uint64_t turn(self) except? 0xFFFFFFFF
    cdef bint has_work(self) noexcept
    cdef forget(self, Session session)
    cdef cut(self, Session session, str why)
    cdef uint64_t released(self) noexcept
    cdef begin_command(self, const Event *head, int64_t durable_ns)
    cdef route(self, const Event *event)
    cdef route_trade(self, const Event *event, Session maker)
    cdef note_operator(self, const Event *event)
    cdef bookkeeping(self, const Event *event)
    cdef uint8_t *frame(self, Session session)
    cdef mark(self, Session session)
    cdef flush(self)
