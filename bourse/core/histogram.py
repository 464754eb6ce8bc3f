"""Latency histogram with HdrHistogram's buckets: 1 ns to 60 s, three significant digits.

One thread records (without the GIL, about 2 ns); others read relaxed, which can miss the last few
values and never breaks. A rotation moves the current counts into the window's past, so that
`window` covers between one and two rotation periods and `total` everything.

Index of a value v: bucket = max(0, bit_length(v) - 11); (bucket << 10) + (v >> bucket). That is the
index that HdrHistogram uses with sub_bucket_count 2048, so its percentiles are the same.
"""

from __future__ import annotations

import cython
from cython.cimports.bourse.core.histogram import clz64
from cython.cimports.libc.stdint import uint64_t
from cython.cimports.libc.stdlib import calloc, free
from cython.cimports.libc.string import memcpy, memset

COUNTS = 27648
"""27 half-octaves of 1,024 counts reach 60 s."""
VALUE_NS_MAX = 60_000_000_000

_COUNTS = cython.declare(cython.int, COUNTS)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _value_at(index: cython.int) -> uint64_t:
    """Highest value that falls into a slot, as HdrHistogram reports it."""
    bucket: cython.int = (index >> 10) - 1
    sub: uint64_t = (index & 1023) + 1024
    one: uint64_t = 1
    if bucket < 0:
        return index
    return ((sub + 1) << bucket) - one


@cython.final
@cython.cclass
class Histogram:
    """Counts of durations; see the module's docstring for who may do what."""

    def __cinit__(self):
        self.current = cython.cast(
            cython.pointer[uint64_t], calloc(3 * COUNTS, cython.sizeof(uint64_t))
        )
        if self.current == cython.NULL:
            raise MemoryError
        self.previous = self.current + _COUNTS
        self.closed = self.previous + _COUNTS
        # Touch every page now: the first recordings must not fault.
        memset(self.current, 0, 3 * COUNTS * cython.sizeof(uint64_t))

    def __dealloc__(self):
        free(self.current)

    def add(self, value_ns: cython.longlong, count: cython.longlong = 1) -> None:
        """Record `value_ns` `count` times (for tests and slow paths)."""
        self.record(value_ns, count)

    @cython.ccall
    @cython.nogil
    @cython.exceptval(check=False)
    def rotate(self) -> cython.void:
        """Close the window's older half; call it once a period, on the recording thread."""
        index: cython.int
        for index in range(_COUNTS):
            self.closed[index] += self.previous[index]
        memcpy(self.previous, self.current, _COUNTS * cython.sizeof(uint64_t))
        memset(self.current, 0, _COUNTS * cython.sizeof(uint64_t))
        if self.max_previous > self.max_closed:
            self.max_closed = self.max_previous
        self.max_previous = self.max_current
        self.max_current = 0

    def percentiles(self, window: cython.bint = False) -> tuple[int, int, int, int, int, int]:
        """Return count, p50, p90, p99, p99.9 and max (ns) of the window or of everything."""
        total: uint64_t = 0
        seen: uint64_t = 0
        count: uint64_t
        index: cython.int
        for index in range(_COUNTS):
            total += self.current[index] + self.previous[index]
            if not window:
                total += self.closed[index]
        most: uint64_t = max(self.max_current, self.max_previous)
        if not window:
            most = max(most, self.max_closed)
        if total == 0:
            return (0, 0, 0, 0, 0, 0)
        # The rank of a percentile, rounded half up and at least 1, as HdrHistogram does.
        ranks: uint64_t[4]
        values: uint64_t[4]
        share: cython.double[4] = [50.0, 90.0, 99.0, 99.9]
        at: cython.int = 0
        for index in range(4):
            ranks[index] = cython.cast(uint64_t, share[index] / 100.0 * total + 0.5)
            if ranks[index] == 0:
                ranks[index] = 1
            values[index] = most
        for index in range(_COUNTS):
            count = self.current[index] + self.previous[index]
            if not window:
                count += self.closed[index]
            if count == 0:
                continue
            seen += count
            while at < 4 and seen >= ranks[at]:
                values[at] = min(_value_at(index), most)
                at += 1
            if at == 4:
                break
        return (total, values[0], values[1], values[2], values[3], most)

    def octaves(self) -> list[int]:
        """Return the window's counts by power of two.

        Item k counts 2**k to 2**(k+1)-1 ns, k = 0..35.
        """
        result: list = [0] * 36
        index: cython.int
        count: uint64_t
        octave: cython.int
        for index in range(_COUNTS):
            count = self.current[index] + self.previous[index]
            if count:
                octave = 63 - clz64(_value_at(index) | 1)
                if octave > 35:
                    octave = 35
                result[octave] += count
        return result

    def counts(self, window: cython.bint = False) -> list[tuple[int, int]]:
        """Return (highest value of the slot in ns, count) for every slot that is not empty."""
        result: list = []
        index: cython.int
        count: uint64_t
        for index in range(_COUNTS):
            count = self.current[index] + self.previous[index]
            if not window:
                count += self.closed[index]
            if count:
                result.append((_value_at(index), count))
        return result
