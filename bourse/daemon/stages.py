"""Where a command's time goes: stamps from socket read to socket write, one histogram a stage.

    received ─► decoded ─► dequeued ─► matched ─► durable ─► encoded ─► written
    └ gateway, a read ┘    └ matcher, in the head ┘ └ journal ┘ └ gateway, a turn ┘

Stamps are shared by what is handled together, so that they cost nothing in a burst and are exact
for a lone command: received and decoded by a socket read, dequeued and matched by a group of the
matcher, durable by a sync, encoded and written by a turn. In a turn of more than SAMPLE_ALL
commands one in SAMPLE_ONE_IN is recorded. Everything here runs on the gateway's thread.

Commands pass in the order in which they were sent, so a count of those that passed finds the read
that each came with: no time travels in a command.
"""

from __future__ import annotations

import cython
from cython.cimports.bourse.core.histogram import Histogram
from cython.cimports.bourse.core.records import Event
from cython.cimports.bourse.daemon.shared import mono_ns
from cython.cimports.bourse.daemon.stages import Run, Sample
from cython.cimports.libc.stdint import int64_t, uint64_t
from cython.cimports.libc.stdlib import calloc, free
from cython.cimports.libc.string import memset

RUNS = 65536
"""Socket reads in flight whose time is remembered; commands of later ones are not measured."""
SAMPLES = 256
"""Commands of one turn that are recorded at most."""
SAMPLE_ALL = 64
SAMPLE_ONE_IN = 16
TICKS_A_WINDOW = 10
"""Each histogram is rotated once in so many ticks of half a second.

Its window is 5 to 10 seconds.
"""

_RUNS = cython.declare(cython.ulonglong, RUNS)
_RUN_MASK = cython.declare(cython.ulonglong, RUNS - 1)
_SAMPLES = cython.declare(cython.int, SAMPLES)
_SAMPLE_ALL = cython.declare(cython.ulonglong, SAMPLE_ALL)
_SAMPLE_ONE_IN = cython.declare(cython.ulonglong, SAMPLE_ONE_IN)


@cython.final
@cython.cclass
class StageRecorder:
    """The stamps of commands in flight, and a histogram for each of messages.STAGES."""

    def __cinit__(self):
        self.runs = cython.cast(cython.pointer[Run], calloc(RUNS, cython.sizeof(Run)))
        self.samples = cython.cast(cython.pointer[Sample], calloc(SAMPLES, cython.sizeof(Sample)))
        if self.runs == cython.NULL or self.samples == cython.NULL:
            raise MemoryError
        # Touch every page now: the first commands must not fault.
        memset(self.runs, 0, RUNS * cython.sizeof(Run))
        memset(self.samples, 0, SAMPLES * cython.sizeof(Sample))

    def __init__(self) -> None:
        """Start with nothing in flight, at position 0 of the command ring."""
        self.decoded = Histogram()
        self.dequeued = Histogram()
        self.matched = Histogram()
        self.durable = Histogram()
        self.encoded = Histogram()
        self.written = Histogram()
        self.total = Histogram()
        self.histograms = [
            self.decoded,
            self.dequeued,
            self.matched,
            self.durable,
            self.encoded,
            self.written,
            self.total,
        ]

    def __dealloc__(self):
        free(self.runs)
        free(self.samples)

    def on_tick(self) -> None:
        """Rotate one histogram: all at once would be half a millisecond without a turn."""
        self.tick = (self.tick + 1) % TICKS_A_WINDOW
        if self.tick < len(self.histograms):
            self.histograms[self.tick].rotate()

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def note_read(
        self, first: uint64_t, count: uint64_t, received_ns: int64_t, wall_ns: int64_t
    ) -> cython.void:
        """Remember the commands of one socket read, just decoded.

        Args:
            first: position of the first one in the command ring.
            count: how many there are.
            received_ns: monotonic time of the read.
            wall_ns: wall clock of the read, as it stands in the commands.
        """
        run: cython.pointer[Run]
        if self.run_tail - self.run_head == _RUNS:
            return
        run = cython.address(self.runs[self.run_tail & _RUN_MASK])
        run.first = first
        run.count = count
        run.received_ns = received_ns
        run.decoded_ns = mono_ns()
        run.wall_ns = wall_ns
        self.run_tail += 1

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def begin_turn(self) -> cython.void:
        """Forget the samples of the turn before."""
        self.sample_count = 0
        self.heads_in_turn = 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def pass_command(
        self, head: cython.pointer[cython.const[Event]], durable_ns: int64_t
    ) -> int64_t:
        """Take the stamps of a command whose head has passed the release gate.

        Args:
            head: with the matcher's stamps; leaves_lots is 0 when it has none.
            durable_ns: monotonic time at which the gate was seen open.

        Returns:
            Wall clock of the command's socket read, 0 when it is not known.
        """
        run: cython.pointer[Run]
        sample: cython.pointer[Sample]
        position: uint64_t = self.passed_position
        self.passed_position += 1
        self.heads_in_turn += 1
        while self.run_head != self.run_tail:
            run = cython.address(self.runs[self.run_head & _RUN_MASK])
            if position < run.first + run.count:
                break
            self.run_head += 1
        if self.run_head == self.run_tail or position < run.first:
            # The operator's, or a session's begin or end: it came with no read.
            return 0
        if (
            head.leaves_lots
            and self.sample_count < _SAMPLES
            and (self.heads_in_turn <= _SAMPLE_ALL or self.heads_in_turn % _SAMPLE_ONE_IN == 0)
        ):
            sample = cython.address(self.samples[self.sample_count])
            sample.received_ns = run.received_ns
            sample.decoded_ns = run.decoded_ns
            sample.matched_ns = head.leaves_lots
            sample.dequeued_ns = sample.matched_ns - head.spare
            sample.durable_ns = durable_ns
            self.sample_count += 1
        return run.wall_ns

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def pass_read(self) -> cython.void:
        """Count a command that has no head: a read, a fence, the stop."""
        self.passed_position += 1

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def end_turn(self, encoded_ns: int64_t) -> cython.void:
        """Record the turn's samples; everything is written now.

        Args:
            encoded_ns: monotonic time at which the last frame was encoded.
        """
        index: cython.int
        sample: cython.pointer[Sample]
        ready_ns: int64_t
        written_ns: int64_t
        if self.sample_count == 0:
            return
        written_ns = mono_ns()
        for index in range(self.sample_count):
            sample = cython.address(self.samples[index])
            ready_ns = sample.matched_ns
            if sample.durable_ns > ready_ns:
                ready_ns = sample.durable_ns
            self.decoded.record(sample.decoded_ns - sample.received_ns, 1)
            # The matcher may take a command while the rest of its read is still being decoded: 0
            # then.
            self.dequeued.record(sample.dequeued_ns - sample.decoded_ns, 1)
            self.matched.record(sample.matched_ns - sample.dequeued_ns, 1)
            self.durable.record(ready_ns - sample.matched_ns, 1)
            self.encoded.record(encoded_ns - ready_ns, 1)
            self.written.record(written_ns - encoded_ns, 1)
            self.total.record(written_ns - sample.received_ns, 1)
