"""The predecessor's client, compiled: its round trip and its burst, every event verified.

Both workloads trade pairs: Sell 1@100, then Buy 1@100. Order ids count from 1, so the sell of pair
k has id 2k + 1 and its buy 2k + 2. A daemon that this client has for itself answers five events a
pair:

    place   frame                                              bytes
    0       Accepted(sell, qty 1)                                 31
    1       Accepted(buy, qty 1)                                  31
    2       Trade(taker buy, maker sell, price 100, qty 1)        47
    3       Done(sell, leaves 0, filled)                          32
    4       Done(buy, leaves 0, filled)                           32

so the n-th event is known in advance, to the last field, and each one is compared. The loops run
without the GIL on a socket's descriptor; they come back to Python about once a second, when
interrupted, and at the end, so that Ctrl-C works. Compiled only.
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
from cython.cimports.bourse.bench.sockets import (
    MSG_DONTWAIT,
    MSG_NOSIGNAL,
    monotonic_ns,
    recv,
    send,
    sleep_ns,
)
from cython.cimports.bourse.core.atomics import cpu_relax, yield_cpu
from cython.cimports.bourse.core.scheduling import short_slice
from cython.cimports.libc.errno import EAGAIN, EINTR, errno
from cython.cimports.libc.stdint import int64_t, uint8_t, uint64_t
from cython.cimports.libc.stdlib import free, malloc
from cython.cimports.libc.string import memmove

PRICE_TICKS = 100
EVENTS_PER_PAIR = 5
FRAME_BYTES = 40

# What a loop came back with.
FINISHED = 0
AGAIN = 1
"""Interrupted, or a second without an event: look for signals and the deadline, then go on."""
CLOSED = 2
FAILED = 3
"""A system call failed; see `error_number`."""
BAD_FRAME = 4

# What happens to one Trade on its way to the checks (faults.py).
_DROPPED = cython.declare(cython.int, 1)
_DOUBLED = cython.declare(cython.int, 2)

_FINISHED = cython.declare(cython.int, 0)
_AGAIN = cython.declare(cython.int, 1)
_CLOSED = cython.declare(cython.int, 2)
_FAILED = cython.declare(cython.int, 3)
_BAD_FRAME = cython.declare(cython.int, 4)

_PRICE_TICKS = cython.declare(int64_t, 100)
_BUFFER_BYTES = cython.declare(cython.size_t, 1 << 20)
# A spin that never yields starves the other spinners of a small machine.
_FRAME_BYTES = cython.declare(cython.size_t, FRAME_BYTES)
# Waits shorter than what waking up takes are spent yielding.
_SLEEP_NS_MIN = cython.declare(int64_t, 200_000)
_POLLS_PER_YIELD = cython.declare(cython.int, 1)
_POLLS_PER_RETURN = cython.declare(cython.longlong, 1 << 22)

# Stages of a round trip.
_SEND_SELL = cython.declare(cython.int, 0)
_AWAIT_SELL = cython.declare(cython.int, 1)
_SEND_BUY = cython.declare(cython.int, 2)
_AWAIT_BUY = cython.declare(cython.int, 3)


@cython.final
@cython.cclass
class Client:
    """One connection's workload and everything that was counted on it.

    The socket belongs to the caller, who keeps it open, in blocking mode, with a receive timeout of
    about a second (SO_RCVTIMEO), as long as the client lives.
    """

    fd: cython.int
    busy: cython.bint
    error_number: cython.int
    buffer: cython.p_char
    head: cython.size_t  # first byte that was not parsed
    tail: cython.size_t  # end of what was received
    latencies: cython.pointer[int64_t]
    latency_count: cython.longlong
    latency_capacity: cython.longlong
    warmup_pairs: cython.longlong
    pair: cython.longlong
    stage: cython.int
    sent_ns: int64_t
    orders: cython.pointer[NewOrderFrame]
    order_count: cython.longlong
    started_ns: int64_t
    finished_ns: int64_t
    buy_done_goal: cython.longlong
    interval_ns: cython.double  # between the moments when two orders are due; 0: not an open loop
    received_ns: int64_t  # when bytes were read last
    # Events, as counted.
    events: cython.longlong
    accepted: cython.longlong
    trades: cython.longlong
    sells_filled: cython.longlong
    buys_filled: cython.longlong
    rejects: cython.longlong
    bought_lots: uint64_t
    sold_lots: uint64_t
    first_sequence: uint64_t
    last_sequence: uint64_t
    gaps: cython.longlong
    disorders: cython.longlong  # sequence not above the one before
    surprises: cython.longlong  # not the event that this place must have
    wrong_prices: cython.longlong
    wrong_leaves: cython.longlong
    first_surprise: cython.longlong  # event number from 1; 0 for none
    fault: cython.int  # 0: none, or none any more
    fault_at: cython.longlong
    # The last frame, for the round trip.
    last_execution: cython.int
    last_id: uint64_t
    receives: cython.longlong

    def __init__(
        self,
        fd: cython.int,
        order_count: cython.longlong,
        warmup_pairs: cython.longlong = 0,
        fault: cython.int = 0,
    ):
        """Make room for `order_count` orders (an even number), two a pair, warm-up included.

        `fault` (faults.py) spoils the Trade of the pair in the middle.
        """
        position: cython.longlong
        if self.buffer != cython.NULL:
            raise RuntimeError("a client is made once")
        if order_count <= 0 or order_count % 2 or warmup_pairs * 2 > order_count:
            raise ValueError(f"order_count={order_count}, expected an even number above 0")
        self.fd = fd
        self.warmup_pairs = warmup_pairs
        self.fault = fault
        self.fault_at = order_count // 4 + 1
        self.order_count = order_count
        self.latency_capacity = order_count
        self.buffer = cython.cast(cython.p_char, malloc(_BUFFER_BYTES))
        self.latencies = cython.cast(
            cython.pointer[int64_t], malloc(self.latency_capacity * cython.sizeof(int64_t))
        )
        self.orders = cython.cast(
            cython.pointer[NewOrderFrame], malloc(order_count * cython.sizeof(NewOrderFrame))
        )
        if (
            self.buffer == cython.NULL
            or self.latencies == cython.NULL
            or self.orders == cython.NULL
        ):
            raise MemoryError
        for position in range(order_count):
            self.orders[position].length = 36
            self.orders[position].version = 1
            self.orders[position].type = 1
            self.orders[position].order_id = position + 1
            self.orders[position].side = 2 if position % 2 == 0 else 1
            self.orders[position].qty_lots = 1
            self.orders[position].order_type = 1
            self.orders[position].price_ticks = _PRICE_TICKS
            self.orders[position].timestamp_ns = position + 1

    def __dealloc__(self):
        free(self.buffer)
        free(self.latencies)
        free(self.orders)

    def round_trips(self, pairs: cython.longlong, busy: cython.bint) -> int:
        """Trade until `pairs` pairs are done in all, one message at a time; return a status.

        The clock runs from before the buy's send to after its Done was read. Warm-up pairs are
        traded, verified and not measured. Call again after AGAIN.
        """
        status: cython.int
        if 2 * pairs > self.order_count:
            raise ValueError(f"pairs={pairs}, expected at most {self.order_count // 2}")
        self.busy = busy
        with cython.nogil:
            if busy:
                # As the daemon's spinning threads do: they share the CPUs fairly then.
                short_slice()
            status = self._round_trips(pairs)
        return status

    def send_all(self) -> int:
        """Send every order in one buffer, one write; return a status. For a thread of its own."""
        status: cython.int
        with cython.nogil:
            status = self._send_all()
        return status

    def begin_open_loop(self, interval_ns: float) -> None:
        """Fix when each order is due: the first in 10 ms, then one every so many nanoseconds.

        drain() then keeps how long after that its answer had come: a Sell's Accepted, a Buy's Done.
        """
        self.interval_ns = interval_ns
        self.started_ns = monotonic_ns() + 10_000_000

    def send_paced(self) -> int:
        """Send every order when it is due; return a status. For a thread of its own.

        What has become due while the socket was full goes out at once, late: the clock of each
        order has been running since it was due.
        """
        status: cython.int
        with cython.nogil:
            short_slice()
            status = self._send_paced()
        return status

    def drain(self, busy: cython.bint) -> int:
        """Read and verify until the last buy is filled; return a status. Call again after AGAIN."""
        status: cython.int
        self.busy = busy
        self.buy_done_goal = self.order_count // 2
        with cython.nogil:
            status = self._drain()
        return status

    def latencies_ns(self) -> bytes:
        """Return the measured round trips in order: native 64-bit integers."""
        return cython.cast(cython.p_char, self.latencies)[
            : self.latency_count * cython.sizeof(int64_t)
        ]

    def counts(self) -> dict:
        """Return everything that was counted."""
        return {
            "events": self.events,
            "accepted": self.accepted,
            "trades": self.trades,
            "sells_filled": self.sells_filled,
            "buys_filled": self.buys_filled,
            "rejects": self.rejects,
            "bought_lots": self.bought_lots,
            "sold_lots": self.sold_lots,
            "first_sequence": self.first_sequence,
            "last_sequence": self.last_sequence,
            "gaps": self.gaps,
            "disorders": self.disorders,
            "surprises": self.surprises,
            "first_surprise": self.first_surprise,
            "wrong_prices": self.wrong_prices,
            "wrong_leaves": self.wrong_leaves,
            "receives": self.receives,
            "pairs": self.pair,
            "started_ns": self.started_ns,
            "finished_ns": self.finished_ns,
            "error_number": self.error_number,
        }

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _round_trips(self, pairs: cython.longlong) -> cython.int:
        status: cython.int
        until_ns: int64_t = monotonic_ns() + 1_000_000_000
        while self.pair < pairs:
            if self.stage == _SEND_SELL:
                status = self._send(2 * self.pair)
                if status != _FINISHED:
                    return status
                self.stage = _AWAIT_SELL
            if self.stage == _AWAIT_SELL:
                status = self._await(2 * self.pair + 1, 1)
                if status != _FINISHED:
                    return status
                self.stage = _SEND_BUY
            if self.stage == _SEND_BUY:
                self.sent_ns = monotonic_ns()
                if self.pair == self.warmup_pairs:
                    self.started_ns = self.sent_ns
                status = self._send(2 * self.pair + 1)
                if status != _FINISHED:
                    return status
                self.stage = _AWAIT_BUY
            status = self._await(2 * self.pair + 2, 3)
            if status != _FINISHED:
                return status
            self.finished_ns = monotonic_ns()
            if self.pair >= self.warmup_pairs:
                self.latencies[self.latency_count] = self.finished_ns - self.sent_ns
                self.latency_count += 1
            self.stage = _SEND_SELL
            self.pair += 1
            if self.finished_ns > until_ns and self.pair < pairs:
                return _AGAIN
        return _FINISHED

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _await(self, order_id: uint64_t, execution: cython.int) -> cython.int:
        """Read until this order's Accepted (1) or Done (3); Done ends both, it may be a reject."""
        status: cython.int
        while True:
            status = self._parse_one()
            if status == _BAD_FRAME:
                return status
            if status == _AGAIN:
                status = self._receive()
                if status != _FINISHED:
                    return status
                continue
            if self.last_id == order_id and (
                self.last_execution == execution or self.last_execution == 3
            ):
                return _FINISHED

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _send(self, position: cython.longlong) -> cython.int:
        """Send one order; 40 bytes into an empty socket buffer go whole or not at all."""
        count: cython.Py_ssize_t
        while True:
            count = send(self.fd, cython.address(self.orders[position]), 40, MSG_NOSIGNAL)
            if count == 40:
                return _FINISHED
            if count < 0 and (errno == EINTR or errno == EAGAIN):
                return _AGAIN
            self.error_number = errno
            return _FAILED

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _send_all(self) -> cython.int:
        length: cython.size_t = self.order_count * cython.sizeof(NewOrderFrame)
        data: cython.p_char = cython.cast(cython.p_char, self.orders)
        sent: cython.size_t = 0
        count: cython.Py_ssize_t
        self.started_ns = monotonic_ns()
        while sent < length:
            count = send(self.fd, data + sent, length - sent, MSG_NOSIGNAL)
            if count >= 0:
                sent += count
            elif errno != EINTR and errno != EAGAIN:
                self.error_number = errno
                return _FAILED
        return _FINISHED

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _send_paced(self) -> cython.int:
        data: cython.p_char = cython.cast(cython.p_char, self.orders)
        sent: cython.size_t = 0  # bytes
        due: cython.longlong = 0  # orders
        count: cython.Py_ssize_t
        now_ns: int64_t
        wait_ns: int64_t
        while due < self.order_count:
            now_ns = monotonic_ns()
            wait_ns = self.started_ns + cython.cast(int64_t, due * self.interval_ns) - now_ns
            if wait_ns > _SLEEP_NS_MIN:
                sleep_ns(wait_ns - _SLEEP_NS_MIN // 2)
                continue
            if wait_ns > 0:
                yield_cpu()
                continue
            due = 1 + cython.cast(cython.longlong, (now_ns - self.started_ns) / self.interval_ns)
            if due > self.order_count:
                due = self.order_count
            while sent < due * _FRAME_BYTES:
                count = send(self.fd, data + sent, due * _FRAME_BYTES - sent, MSG_NOSIGNAL)
                if count >= 0:
                    sent += count
                elif errno != EINTR and errno != EAGAIN:
                    self.error_number = errno
                    return _FAILED
        return _FINISHED

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _note_answer(self) -> cython.void:
        """Keep how long the answer took that was parsed last, if it is one."""
        if self.last_execution != (1 if self.last_id % 2 else 3):
            return
        if self.last_id == 0 or self.latency_count == self.latency_capacity:
            return
        self.latencies[self.latency_count] = (
            self.received_ns
            - self.started_ns
            - cython.cast(int64_t, (self.last_id - 1) * self.interval_ns)
        )
        self.latency_count += 1

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _drain(self) -> cython.int:
        status: cython.int
        until_ns: int64_t = monotonic_ns() + 1_000_000_000
        while self.buys_filled + self.rejects < self.buy_done_goal:
            status = self._parse_one()
            if status == _BAD_FRAME:
                return status
            if status == _AGAIN:
                if monotonic_ns() > until_ns:
                    return _AGAIN
                status = self._receive()
                if status != _FINISHED:
                    return status
                self.received_ns = monotonic_ns()
            elif self.interval_ns > 0:
                self._note_answer()
        if self.finished_ns == 0:
            self.finished_ns = monotonic_ns()
        return _FINISHED

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _receive(self) -> cython.int:
        """Read what is there, at least a byte; _AGAIN after a second or a signal without one."""
        count: cython.Py_ssize_t
        polls: cython.longlong = 0
        flags: cython.int = MSG_DONTWAIT if self.busy else 0
        if self.head == self.tail:
            self.head = 0
            self.tail = 0
        elif self.tail > _BUFFER_BYTES // 2:
            memmove(self.buffer, self.buffer + self.head, self.tail - self.head)
            self.tail -= self.head
            self.head = 0
        while True:
            count = recv(self.fd, self.buffer + self.tail, _BUFFER_BYTES - self.tail, flags)
            if count > 0:
                self.tail += count
                self.receives += 1
                return _FINISHED
            if count == 0:
                return _CLOSED
            if errno == EINTR:
                return _AGAIN
            if errno != EAGAIN:
                self.error_number = errno
                return _FAILED
            if not self.busy:
                return _AGAIN
            polls += 1
            if polls % _POLLS_PER_YIELD == 0:
                yield_cpu()
                if polls >= _POLLS_PER_RETURN:
                    return _AGAIN
            else:
                cpu_relax()

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _parse_one(self) -> cython.int:
        """Take one frame off the buffer and verify it; _AGAIN when none is whole."""
        at: cython.p_char = self.buffer + self.head
        size: cython.int = execution_bytes(at, self.tail - self.head)
        execution: uint8_t
        trade: cython.pointer[TradeFrame]
        if size == 0:
            return _AGAIN
        if size < 0:
            return _BAD_FRAME
        execution = cython.cast(cython.pointer[ExecutionHead], at).execution
        self.head += size
        self.last_execution = execution
        if execution == 1:
            self._on_accepted(cython.cast(cython.pointer[AcceptedFrame], at))
        elif execution == 2:
            trade = cython.cast(cython.pointer[TradeFrame], at)
            if self.fault != 0 and self.trades + 1 == self.fault_at:
                self._on_spoiled(trade)
            else:
                self._on_trade(trade)
        else:
            self._on_done(cython.cast(cython.pointer[DoneFrame], at))
        return _FINISHED

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _on_accepted(self, frame: cython.pointer[AcceptedFrame]) -> cython.void:
        place: cython.longlong = self.events % 5
        sell_id: uint64_t = 2 * (self.events // 5) + 1
        self._on_sequence(frame.sequence)
        self.last_id = frame.order_id
        self.accepted += 1
        if place > 1 or frame.order_id != sell_id + place or frame.qty_lots != 1:
            self._on_surprise()

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _on_trade(self, frame: cython.pointer[TradeFrame]) -> cython.void:
        place: cython.longlong = self.events % 5
        sell_id: uint64_t = 2 * (self.events // 5) + 1
        self._on_sequence(frame.sequence)
        self.last_id = 0  # both sides' ids are in a trade; nobody waits for one
        self.trades += 1
        # Sells have odd ids here, buys even ones.
        if frame.taker_id % 2 == 0:
            self.bought_lots += frame.qty_lots
        else:
            self.sold_lots += frame.qty_lots
        if frame.maker_id % 2 == 0:
            self.bought_lots += frame.qty_lots
        else:
            self.sold_lots += frame.qty_lots
        if frame.price_ticks != _PRICE_TICKS:
            self.wrong_prices += 1
        if (
            place != 2
            or frame.taker_id != sell_id + 1
            or frame.maker_id != sell_id
            or frame.qty_lots != 1
        ):
            self._on_surprise()

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _on_spoiled(self, frame: cython.pointer[TradeFrame]) -> cython.void:
        """Let the checks see another Trade than came. Nobody waits for one: no loop hangs."""
        fault: cython.int = self.fault
        self.fault = 0
        self.last_id = 0
        if fault == _DROPPED:
            return
        if fault == _DOUBLED:
            self._on_trade(frame)
        else:
            frame.qty_lots += 1
        self._on_trade(frame)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _on_done(self, frame: cython.pointer[DoneFrame]) -> cython.void:
        place: cython.longlong = self.events % 5
        sell_id: uint64_t = 2 * (self.events // 5) + 1
        self._on_sequence(frame.sequence)
        self.last_id = frame.order_id
        if frame.reason != 1:
            self.rejects += 1
        elif frame.order_id % 2 == 0:
            self.buys_filled += 1
        else:
            self.sells_filled += 1
        if frame.leaves_lots != 0:
            self.wrong_leaves += 1
        if place < 3 or frame.order_id != sell_id + place - 3 or frame.reason != 1:
            self._on_surprise()

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _on_sequence(self, sequence: uint64_t) -> cython.void:
        if self.events == 0:
            self.first_sequence = sequence
        else:
            if sequence != self.last_sequence + 1:
                self.gaps += 1
            if sequence <= self.last_sequence:
                self.disorders += 1
        self.last_sequence = sequence
        self.events += 1

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _on_surprise(self) -> cython.void:
        self.surprises += 1
        if self.first_surprise == 0:
            self.first_surprise = self.events
