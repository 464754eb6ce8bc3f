"""Apply: feeds the commands of the log to an engine, in place and without the GIL.

    walk() ─► Applier.run(bytes) ─► Scanner.advance() ─► Engine.execute(command in place) ─► window
                                                                                               │
                              thrown away, or handed to `on_events` when it is half full ◄─────┘

A record that carries digests is compared with the engine's before it is executed, so a replay
checks itself every 1000 records; the digests of snapshots are compared where they were taken. Used
by recovery and replay. Compiled.
"""

from collections.abc import Callable

import cython
from cython.cimports.bourse.core.engine import Engine
from cython.cimports.bourse.core.records import Event, EventWindow
from cython.cimports.bourse.journal.reader import (
    STEP_BATCH,
    STEP_RECORD,
    STEP_WRONG,
    Scanner,
    Step,
)
from cython.cimports.cpython.bytes import PyBytes_FromStringAndSize
from cython.cimports.libc.stdint import int64_t, uint8_t, uint64_t
from cython.cimports.libc.stdlib import free, malloc

EVENTS_MAX = 1024
"""Slots of the window, a power of two: 64 KiB stay in a core's cache; resume() does the rest."""

_EVENTS_MAX = cython.declare(uint64_t, EVENTS_MAX)
_FIRST_READ_KIND = cython.declare(uint8_t, 128)

_FAULT_KIND = cython.declare(cython.int, 14)
_FAULT_DIGEST = cython.declare(cython.int, 15)
_FAULT_SNAPSHOT = cython.declare(cython.int, 16)


class ReachedError(Exception):
    """The last record that was asked for has been executed; nothing is wrong."""


@cython.final
@cython.cclass
class Applier:
    """Executes what a scanner finds.

    Obligation: after WRONG the engine is part of the way and of no use.
    """

    engine: Engine
    scanner: Scanner
    skip_through: uint64_t
    until: uint64_t
    executed: uint64_t
    read_bytes: uint64_t
    last_received_ns = cython.declare(int64_t, visibility="readonly")
    """Of the last record that was checked, executed or not."""
    window: EventWindow
    on_events: object
    expected: list
    expected_seq: uint64_t
    expected_digests: uint64_t[3]

    def __init__(
        self,
        engine: Engine,
        skip_through: cython.ulonglong = 0,
        on_events: object = None,
        expected: object = (),
        until: object = None,
    ) -> None:
        """Prepare to execute.

        Args:
            engine: in the state after record `skip_through`.
            skip_through: records up to this number are checked and not executed.
            on_events: called with the bytes of events, in order, 64 bytes each; None discards them.
            expected: (wal_seq, (state digest, event digest, event_seq)) after that record.
            until: the last record to execute; `run` raises ReachedError after it. None: all.
        """
        if engine is None:
            raise TypeError("an Applier needs an engine")
        self.engine = engine
        self.skip_through = skip_through
        self.until = 0xFFFFFFFFFFFFFFFF if until is None else until
        self.executed = 0
        self.read_bytes = 0
        self.on_events = on_events
        self.expected = sorted((item for item in expected if item[0] > skip_through), reverse=True)
        self._next_expected()
        if self.window.base == cython.NULL:
            self.window.base = cython.cast(
                cython.pointer[Event], malloc(EVENTS_MAX * cython.sizeof(Event))
            )
        if self.window.base == cython.NULL:
            raise MemoryError("no memory for events")
        self.window.mask = EVENTS_MAX - 1
        self.window.next = 0
        self.window.limit = EVENTS_MAX

    def __dealloc__(self) -> None:
        """Give the window back."""
        free(self.window.base)

    @property
    def executed_count(self) -> int:
        """Records executed, without those skipped."""
        return self.executed

    @property
    def bytes_read(self) -> int:
        """Bytes gone through: headers, batches and records."""
        return self.read_bytes

    def run_with(self, scanner: Scanner) -> Callable[[memoryview, bool], int]:
        """Take records from this scanner from now on; returns `run`."""
        if scanner is None:
            raise TypeError("an Applier needs a scanner")
        self.scanner = scanner
        self.read_bytes += scanner.offset_bytes
        return self.run

    @cython.cfunc
    def _next_expected(self) -> cython.void:
        """Make the next expected digests those that are compared."""
        self.expected_seq = 0
        if self.expected:
            wal_seq, digests = self.expected.pop()
            self.expected_seq = wal_seq
            self.expected_digests[0] = digests[0]
            self.expected_digests[1] = digests[1]
            self.expected_digests[2] = digests[2]

    @cython.cfunc
    def _hand_over(self) -> cython.void:
        """Give the window's events to the callback, and the window its room back."""
        if self.on_events is not None and self.window.next > 0:
            self.on_events(
                PyBytes_FromStringAndSize(
                    cython.cast(cython.p_char, self.window.base),
                    self.window.next * cython.sizeof(Event),
                )
            )
        self.window.next = 0

    def run(self, data: cython.const[cython.uchar][::1], at_end: bool) -> int:
        """Execute records until something else than a record or a batch header comes.

        Args:
            data: bytes of the file from the scanner's offset on.
            at_end: the file ends after them.

        Returns:
            The step that stopped it, as in reader.py. WRONG also for a command that is never
            logged and for digests that differ; the scanner's fault says which.

        Raises:
            ReachedError: record `until` was the last one executed.
        """
        start: cython.pointer[cython.const[uint8_t]] = cython.NULL
        length_bytes: uint64_t = data.shape[0]
        base: uint64_t = self.scanner.offset_bytes
        offset: uint64_t = base
        is_last: cython.bint = at_end
        discard: cython.bint = self.on_events is None
        finished: cython.bint
        fault: cython.int = 0
        step: Step = STEP_RECORD
        scanner: Scanner = self.scanner
        engine: Engine = self.engine
        if length_bytes > 0:
            start = cython.address(data[0])
        with cython.nogil:
            while step in (STEP_RECORD, STEP_BATCH):
                offset = scanner.offset_bytes
                step = scanner.advance(
                    start + (offset - base), length_bytes - (offset - base), is_last
                )
                if step != STEP_RECORD:
                    continue
                self.last_received_ns = scanner.command.received_ns
                if scanner.wal_seq <= self.skip_through:
                    continue
                if scanner.command.kind >= _FIRST_READ_KIND:
                    fault = _FAULT_KIND
                elif scanner.digests != cython.NULL and (
                    scanner.digests.state_digest != engine.books.state.state_digest
                    or scanner.digests.event_digest != engine.books.state.event_digest
                    or scanner.digests.event_seq != engine.books.state.event_seq
                ):
                    fault = _FAULT_DIGEST
                else:
                    if discard:
                        self.window.next = 0
                    elif self.window.next > _EVENTS_MAX // 2:
                        with cython.gil:
                            self._hand_over()
                    finished = engine.execute(scanner.command, cython.address(self.window))
                    while not finished:
                        if discard:
                            self.window.next = 0
                        else:
                            with cython.gil:
                                self._hand_over()
                        finished = engine.resume(cython.address(self.window))
                    self.executed += 1
                    if scanner.wal_seq == self.expected_seq:
                        if (
                            self.expected_digests[0] != engine.books.state.state_digest
                            or self.expected_digests[1] != engine.books.state.event_digest
                            or self.expected_digests[2] != engine.books.state.event_seq
                        ):
                            fault = _FAULT_SNAPSHOT
                        with cython.gil:
                            self._next_expected()
                    if scanner.wal_seq == self.until and fault == 0:
                        break
                if fault != 0:
                    # Stand at the record that is wrong, for the message.
                    scanner.offset_bytes = offset
                    scanner.next_wal_seq = scanner.wal_seq
                    scanner.fault = fault
                    step = STEP_WRONG
        self._hand_over()
        self.read_bytes += scanner.offset_bytes - base
        if fault == 0 and step == STEP_RECORD:
            raise ReachedError
        return step
