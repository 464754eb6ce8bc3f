"""The last trades, for the console.

A ring of TAPE_TRADES that the gateway fills as trades are released.
"""

from __future__ import annotations

import cython
from cython.cimports.bourse.daemon.tape import TapeTrade
from cython.cimports.libc.stdint import uint64_t
from cython.cimports.libc.stdlib import calloc, free

TAPE_TRADES = 1024
"""A screen shows some dozens; a script that polls each second sees every trade up to this rate."""

_TAPE_TRADES = cython.declare(cython.ulonglong, TAPE_TRADES)
_MASK = cython.declare(cython.ulonglong, TAPE_TRADES - 1)


@cython.final
@cython.cclass
class TradeTape:
    """Trades since the start, the last TAPE_TRADES of them kept. One thread."""

    def __cinit__(self):
        self.trades = cython.cast(
            cython.pointer[TapeTrade], calloc(TAPE_TRADES, cython.sizeof(TapeTrade))
        )
        if self.trades == cython.NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.trades)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def append(self) -> cython.pointer[TapeTrade]:
        """Return where the next trade's fields go; the oldest one is forgotten."""
        self.count += 1
        return cython.address(self.trades[(self.count - 1) & _MASK])

    @property
    def last(self) -> tuple[int, int] | None:
        """(price_ticks, qty_lots) of the last trade since the start, or None."""
        if self.count == 0:
            return None
        trade: cython.pointer[TapeTrade] = cython.address(self.trades[(self.count - 1) & _MASK])
        return trade.price_ticks, trade.qty_lots

    def after(
        self, sequence: cython.ulonglong, limit: cython.longlong
    ) -> tuple[list[tuple[int, ...]], int, int]:
        """Return trades after `sequence`.

        Args:
            sequence: event_seq; trades above it are wanted.
            limit: how many at most, the newest.

        Returns:
            The trades, newest last, as messages.Trade's fields; the last trade's sequence (0:
            none); how many after `sequence` are not among them.
        """
        result: list = []
        missed: uint64_t = 0
        first: uint64_t = self.count - _TAPE_TRADES if self.count > _TAPE_TRADES else 0
        position: uint64_t = self.count
        trade: cython.pointer[TapeTrade]
        while position > first:
            trade = cython.address(self.trades[(position - 1) & _MASK])
            if trade.sequence <= sequence:
                break
            if len(result) < limit:
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
            else:
                missed += 1
            position -= 1
        if position == first:
            # Everything kept is newer: what was forgotten may have been wanted too.
            missed += first
        result.reverse()
        last: int = self.trades[(self.count - 1) & _MASK].sequence if self.count else 0
        return result, last, missed
