"""Orders that rest in a daemon's book: what recovery and snapshots are measured with.

They come over TCP like any client's: one-lot bids over LEVELS prices, never to be traded.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from bourse.admin import messages
from bourse.admin.client import call
from bourse.bench.run import connect
from bourse.domain import OrderType, Side
from bourse.errors import UnavailableError
from bourse.protocol.messages import NewOrder

LEVELS = 1000
BEST_TICKS = 1_000_000
CHUNK = 10_000
PATIENCE_SECONDS = 60.0
ID_OFFSET = 6
"""Where a NewOrder frame has its id: after length, version and type."""


def status(admin: Path) -> messages.Status:
    """Ask a daemon for its status."""
    found = call(admin, "status")
    assert isinstance(found, messages.Status)
    return found


class Drain:
    """A connection whose answers are read and thrown away by a thread of its own."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.connection: socket.socket = connect(address)
        self.bytes_read = 0
        self.longest_gap_ns = 0
        """The longest time between two reads that brought something; set to 0 to begin anew."""
        self._thread = threading.Thread(target=self._read, name="drain", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.connection.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self.connection.close()

    def _read(self) -> None:
        buffer = bytearray(1 << 20)
        last_ns = time.monotonic_ns()
        while True:
            try:
                count = self.connection.recv_into(buffer)
            except BlockingIOError:
                continue  # a second without a byte: the receive timeout
            except OSError:
                return
            if count == 0:
                return
            now_ns = time.monotonic_ns()
            self.longest_gap_ns = max(self.longest_gap_ns, now_ns - last_ns)
            last_ns = now_ns
            self.bytes_read += count


def rest_orders(drain: Drain, admin: Path, count: int) -> None:
    """Rest so many orders, ids from 1, and wait until they all live.

    Raises:
        UnavailableError: they do not within PATIENCE_SECONDS.
    """
    goal = status(admin).live_orders + count
    frames = [
        bytearray(NewOrder(0, Side.BUY, 1, OrderType.LIMIT, BEST_TICKS - number).pack())
        for number in range(LEVELS)
    ]
    for first in range(0, count, CHUNK):
        parts = []
        for number in range(first, min(first + CHUNK, count)):
            frame = frames[number % LEVELS]
            struct.pack_into("<Q", frame, ID_OFFSET, number + 1)
            parts.append(bytes(frame))
        drain.connection.sendall(b"".join(parts))
    wait_for(admin, "live_orders", goal)


def wait_for(admin: Path, field: str, goal: int) -> messages.Status:
    """Wait until a number of a daemon's status reaches a goal.

    Raises:
        UnavailableError: it does not within PATIENCE_SECONDS.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        found = status(admin)
        if getattr(found, field) >= goal:
            return found
        if time.monotonic() > deadline:
            raise UnavailableError(
                f"the daemon has {field} = {getattr(found, field):,} after "
                f"{PATIENCE_SECONDS:.0f} s, expected {goal:,}; its log says why"
            )
        time.sleep(0.01)
