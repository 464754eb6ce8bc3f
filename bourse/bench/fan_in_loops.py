"""The client of `fan-in`, compiled: many connections in one thread, every event verified.

Half of the connections sell 1@100, the others buy 1@100, each one order at a time: the next one
goes out when the last was accepted. Who meets whom is for the exchange to say, but not what a
connection hears. Its orders rest on one level or trade at once, so they are filled in the order in
which they were sent, and a connection hears of its n-th order

    Accepted(n, qty 1)
    Trade(price 100, qty 1)     its own id n is the taker's when the number is that of its Accepted
                                plus one: events of one command are consecutive; else the maker's
    Done(n, leaves 0, filled)   two numbers after the Trade of a taker, one after that of a maker

and nothing else. Ids do not overlap, for servers where they belong to all connections: the first of
connection k is k times the orders of each, plus 1; n counts from there. Each trade is heard twice,
by its taker and by its maker. Compiled only.
"""

import cython
from cython.cimports.bourse.bench.frames import (
    AcceptedFrame,
    DoneFrame,
    ExecutionHead,
    NewOrderFrame,
    TradeFrame,
    execution_bytes,
)
from cython.cimports.bourse.bench.polling import (
    EPOLL_CTL_ADD,
    EPOLLIN,
    close,
    epoll_create1,
    epoll_ctl,
    epoll_event,
    epoll_wait,
)
from cython.cimports.bourse.bench.sockets import (
    MSG_DONTWAIT,
    MSG_NOSIGNAL,
    monotonic_ns,
    recv,
    send,
)
from cython.cimports.libc.errno import EAGAIN, EINTR, errno
from cython.cimports.libc.stdint import int64_t, uint64_t
from cython.cimports.libc.stdlib import calloc, free, malloc
from cython.cimports.libc.string import memmove, memset

# As of client.py, whose drive() calls run().
_FINISHED = cython.declare(cython.int, 0)
_AGAIN = cython.declare(cython.int, 1)
_CLOSED = cython.declare(cython.int, 2)
_FAILED = cython.declare(cython.int, 3)
_BAD_FRAME = cython.declare(cython.int, 4)

# As of faults.py.
_DROPPED = cython.declare(cython.int, 1)
_DOUBLED = cython.declare(cython.int, 2)

_PRICE_TICKS = cython.declare(int64_t, 100)
_BUFFER_BYTES = cython.declare(cython.size_t, 1 << 14)
_READY_MAX = cython.declare(cython.int, 64)
_WAIT_MS = cython.declare(cython.int, 1000)

# One connection: what was sent, what was heard, and what came and was not looked at.
Line = cython.struct(
    fd=cython.int,
    base=uint64_t,  # its orders' ids follow this one
    sent=uint64_t,
    accepted=uint64_t,
    traded=uint64_t,
    done=uint64_t,
    sent_ns=int64_t,
    last_sequence=uint64_t,
    accepted_sequence=uint64_t,  # of the last Accepted; 0 when something followed it
    done_sequence=uint64_t,  # what the next Done must have
    head=cython.size_t,
    tail=cython.size_t,
    buffer=cython.p_char,
)
LinePtr = cython.typedef(cython.pointer[Line])


@cython.final
@cython.cclass
class FanIn:
    """Many connections' workload and everything that was counted on them.

    The sockets belong to the caller, who keeps them open as long as this lives.
    """

    lines: LinePtr
    line_count: cython.longlong
    orders_each: uint64_t
    order: NewOrderFrame
    epoll_fd: cython.int
    error_number: cython.int
    latencies: cython.pointer[int64_t]
    latency_count: cython.longlong
    fault: cython.int
    fault_at: cython.longlong
    started_ns: int64_t
    finished_ns: int64_t
    events: cython.longlong
    accepted: cython.longlong
    trades_taken: cython.longlong
    trades_made: cython.longlong
    filled: cython.longlong
    rejects: cython.longlong
    bought_lots: uint64_t
    sold_lots: uint64_t
    surprises: cython.longlong
    first_surprise: cython.longlong
    disorders: cython.longlong
    wrong_prices: cython.longlong
    wrong_leaves: cython.longlong
    first_sequence: uint64_t
    last_sequence: uint64_t
    # Sums of sequence numbers: each event once, and the trades as their makers heard them.
    once_sum: uint64_t
    taken_sum: uint64_t
    made_sum: uint64_t

    def __init__(self, fds: list, orders_each: cython.longlong, fault: cython.int = 0):
        """Take connected sockets, an even number: they sell and buy in turn.

        `fault` (faults.py) spoils one Trade in the middle.
        """
        number: cython.longlong
        event = cython.declare(epoll_event)
        if self.lines != cython.NULL:
            raise RuntimeError("made once")
        if not fds or len(fds) % 2 or orders_each < 1:
            raise ValueError(f"{len(fds)} connections of {orders_each} orders: an even number")
        self.line_count = len(fds)
        self.orders_each = orders_each
        self.fault = fault
        self.fault_at = self.line_count * orders_each // 2
        self.epoll_fd = -1
        self.lines = cython.cast(LinePtr, calloc(self.line_count, cython.sizeof(Line)))
        self.latencies = cython.cast(
            cython.pointer[int64_t],
            malloc(self.line_count * orders_each * cython.sizeof(int64_t)),
        )
        if self.lines == cython.NULL or self.latencies == cython.NULL:
            raise MemoryError
        self.epoll_fd = epoll_create1(0)
        if self.epoll_fd < 0:
            raise OSError(errno, "epoll_create1")
        for number in range(self.line_count):
            self.lines[number].fd = fds[number]
            self.lines[number].base = number * orders_each
            self.lines[number].buffer = cython.cast(cython.p_char, malloc(_BUFFER_BYTES))
            if self.lines[number].buffer == cython.NULL:
                raise MemoryError
            event.events = EPOLLIN
            event.data.u64 = number
            if epoll_ctl(
                self.epoll_fd, EPOLL_CTL_ADD, self.lines[number].fd, cython.address(event)
            ):
                raise OSError(errno, "epoll_ctl")
        memset(cython.address(self.order), 0, cython.sizeof(NewOrderFrame))
        self.order.length = 36
        self.order.version = 1
        self.order.type = 1
        self.order.qty_lots = 1
        self.order.order_type = 1
        self.order.price_ticks = _PRICE_TICKS

    def __dealloc__(self):
        number: cython.longlong
        if self.lines != cython.NULL:
            for number in range(self.line_count):
                free(self.lines[number].buffer)
            if self.epoll_fd >= 0:
                close(self.epoll_fd)
        free(self.lines)
        free(self.latencies)

    def run(self) -> int:
        """Trade until every order of every connection is filled; return a status of client.py.

        Call again after AGAIN.
        """
        status: cython.int
        with cython.nogil:
            status = self._run()
        return status

    def latencies_ns(self) -> bytes:
        """Return how long each Accepted took from its order's send: native 64-bit integers."""
        return cython.cast(cython.p_char, self.latencies)[
            : self.latency_count * cython.sizeof(int64_t)
        ]

    def counts(self) -> dict:
        """Return everything that was counted."""
        return {
            "events": self.events,
            "accepted": self.accepted,
            "trades": self.trades_taken,
            "trades_made": self.trades_made,
            "filled": self.filled,
            "rejects": self.rejects,
            "bought_lots": self.bought_lots,
            "sold_lots": self.sold_lots,
            "surprises": self.surprises,
            "first_surprise": self.first_surprise,
            "disorders": self.disorders,
            "wrong_prices": self.wrong_prices,
            "wrong_leaves": self.wrong_leaves,
            "first_sequence": self.first_sequence,
            "last_sequence": self.last_sequence,
            "once_sum": self.once_sum,
            "taken_sum": self.taken_sum,
            "made_sum": self.made_sum,
            "started_ns": self.started_ns,
            "finished_ns": self.finished_ns,
            "error_number": self.error_number,
        }

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _run(self) -> cython.int:
        ready = cython.declare(epoll_event[64])
        number: cython.longlong
        count: cython.int
        status: cython.int
        goal: cython.longlong = self.line_count * cython.cast(cython.longlong, self.orders_each)
        until_ns: int64_t = monotonic_ns() + 1_000_000_000
        if self.started_ns == 0:
            self.started_ns = monotonic_ns()
            for number in range(self.line_count):
                status = self._send(cython.address(self.lines[number]))
                if status != _FINISHED:
                    return status
        while self.filled + self.rejects < goal:
            count = epoll_wait(self.epoll_fd, ready, _READY_MAX, _WAIT_MS)
            if count < 0 and errno != EINTR:
                self.error_number = errno
                return _FAILED
            if count <= 0:
                return _AGAIN
            for number in range(count):
                status = self._hear(cython.address(self.lines[ready[number].data.u64]))
                if status != _FINISHED:
                    return status
            if monotonic_ns() > until_ns:
                return _AGAIN
        if self.finished_ns == 0:
            self.finished_ns = monotonic_ns()
        return _FINISHED

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _is_seller(self, line: LinePtr) -> cython.bint:
        return (line - self.lines) % 2 == 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _send(self, line: LinePtr) -> cython.int:
        """Send the next order; 40 bytes go into an empty socket buffer whole."""
        count: cython.Py_ssize_t
        line.sent += 1
        self.order.order_id = line.base + line.sent
        self.order.side = 2 if self._is_seller(line) else 1
        self.order.timestamp_ns = line.sent
        line.sent_ns = monotonic_ns()
        while True:
            count = send(line.fd, cython.address(self.order), 40, MSG_NOSIGNAL)
            if count == 40:
                return _FINISHED
            if count >= 0 or (errno != EINTR and errno != EAGAIN):
                self.error_number = errno
                return _FAILED

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _hear(self, line: LinePtr) -> cython.int:
        """Read what a connection has, and verify it."""
        size: cython.int
        count: cython.Py_ssize_t = recv(
            line.fd, line.buffer + line.tail, _BUFFER_BYTES - line.tail, MSG_DONTWAIT
        )
        now_ns: int64_t = monotonic_ns()
        if count == 0:
            return _CLOSED
        if count < 0:
            if errno == EAGAIN or errno == EINTR:
                return _FINISHED
            self.error_number = errno
            return _FAILED
        line.tail += count
        while True:
            size = execution_bytes(line.buffer + line.head, line.tail - line.head)
            if size < 0:
                return _BAD_FRAME
            if size == 0:
                break
            self._on_event(line, line.buffer + line.head, now_ns)
            line.head += size
        memmove(line.buffer, line.buffer + line.head, line.tail - line.head)
        line.tail -= line.head
        line.head = 0
        # Accepted, or refused: there is room for the next one.
        if line.accepted == line.sent and line.sent < self.orders_each:
            return self._send(line)
        return _FINISHED

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _on_event(self, line: LinePtr, at: cython.p_char, now_ns: int64_t) -> cython.void:
        execution: cython.int = cython.cast(cython.pointer[ExecutionHead], at).execution
        trade: cython.pointer[TradeFrame]
        fault: cython.int
        if execution == 1:
            self._on_accepted(line, cython.cast(cython.pointer[AcceptedFrame], at), now_ns)
        elif execution == 3:
            self._on_done(line, cython.cast(cython.pointer[DoneFrame], at))
        else:
            trade = cython.cast(cython.pointer[TradeFrame], at)
            fault = 0
            if self.fault != 0 and self.trades_taken + self.trades_made + 1 == self.fault_at:
                fault, self.fault = self.fault, 0
            if fault == _DROPPED:
                return
            if fault == _DOUBLED:
                self._on_trade(line, trade)
            elif fault != 0:
                trade.qty_lots += 1
            self._on_trade(line, trade)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _on_accepted(
        self, line: LinePtr, frame: cython.pointer[AcceptedFrame], now_ns: int64_t
    ) -> cython.void:
        self._on_sequence(line, frame.sequence)
        self.once_sum += frame.sequence
        self.accepted += 1
        line.accepted += 1
        line.accepted_sequence = frame.sequence
        if (
            frame.order_id != line.base + line.accepted
            or line.accepted != line.sent
            or frame.qty_lots != 1
        ):
            self._on_surprise()
        if self.latency_count < self.line_count * cython.cast(cython.longlong, self.orders_each):
            self.latencies[self.latency_count] = now_ns - line.sent_ns
            self.latency_count += 1

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _on_trade(self, line: LinePtr, frame: cython.pointer[TradeFrame]) -> cython.void:
        takes: cython.bint = frame.sequence == line.accepted_sequence + 1
        own_id: uint64_t = frame.taker_id if takes else frame.maker_id
        self._on_sequence(line, frame.sequence)
        line.accepted_sequence = 0
        line.traded += 1
        line.done_sequence = frame.sequence + (2 if takes else 1)
        if takes:
            self.trades_taken += 1
            self.once_sum += frame.sequence
            self.taken_sum += frame.sequence
        else:
            self.trades_made += 1
            self.made_sum += frame.sequence
        if self._is_seller(line):
            self.sold_lots += frame.qty_lots
        else:
            self.bought_lots += frame.qty_lots
        if frame.price_ticks != _PRICE_TICKS:
            self.wrong_prices += 1
        if own_id != line.base + line.traded or line.traded != line.done + 1 or frame.qty_lots != 1:
            self._on_surprise()

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _on_done(self, line: LinePtr, frame: cython.pointer[DoneFrame]) -> cython.void:
        self._on_sequence(line, frame.sequence)
        self.once_sum += frame.sequence
        line.done += 1
        if frame.reason == 1:
            self.filled += 1
        else:
            self.rejects += 1
            line.accepted = line.sent
        if frame.leaves_lots != 0:
            self.wrong_leaves += 1
        if (
            frame.order_id != line.base + line.done
            or line.done != line.traded
            or frame.sequence != line.done_sequence
            or frame.reason != 1
        ):
            self._on_surprise()

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _on_sequence(self, line: LinePtr, sequence: uint64_t) -> cython.void:
        if sequence <= line.last_sequence:
            self.disorders += 1
        line.last_sequence = sequence
        if self.events == 0 or sequence < self.first_sequence:
            self.first_sequence = sequence
        if sequence > self.last_sequence:
            self.last_sequence = sequence
        self.events += 1

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _on_surprise(self) -> cython.void:
        self.surprises += 1
        if self.first_surprise == 0:
            self.first_surprise = self.events
