"""The admin side's way through the pipeline: reads, the operator's orders, snapshot marks.

Each request becomes a command behind all that clients have sent; its answer comes back with the
events, through the release gate, and resolves a future. Plain Python: some requests a second.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from bourse.core.records import Command
from bourse.daemon.shared import DEPTH_BUFFER_COUNT, SharedMemory
from bourse.domain import INSTRUMENT_ID, OPERATOR_SESSION_ID, CommandKind

DepthReply = tuple[bytes, list[tuple[int, int, int]], list[tuple[int, int, int]], int, int, bool]
"""EngineState's bytes.

Bids and asks as (price_ticks, qty_lots, order_count); levels in all of both; halted or not.
"""


class Operated(NamedTuple):
    """What an operator's command came to."""

    events: list[bytes]
    """Of 64 bytes, HEAD first, of the trades only the first ones; of a mass cancel only its HEAD.

    None of a bare fence.
    """
    counted: int
    """All fills; all orders that a mass cancel ended."""
    filled_lots: int


class Impact(NamedTuple):
    """What a mass cancel would hit, at one moment between two commands."""

    orders: int
    qty_lots: int
    """Open quantity; stops at 2**64 - 1."""
    sessions: int
    """Sessions that have live orders."""
    is_least: bool
    """There is more than was counted (of a session's orders, of everybody's quantity)."""
    is_halted: bool
    """The instrument is."""
    is_known: bool
    """The session that was asked for is open, or has live orders."""


class Desk:
    """Requests in flight; on the gateway's thread. `on_...` are called by Outbound."""

    def __init__(self, memory: SharedMemory, submit: Callable[[bytes], None]) -> None:
        self._memory = memory
        self._submit = submit
        self._loop = asyncio.get_running_loop()
        self._free_buffers = list(range(DEPTH_BUFFER_COUNT))
        self._depth_waiting: deque[tuple[asyncio.Future[DepthReply], int]] = deque()
        self._depth_asked: dict[int, asyncio.Future[DepthReply]] = {}
        self._operated: deque[asyncio.Future[Operated]] = deque()
        self._impact_asked: deque[asyncio.Future[Impact]] = deque()
        self._image: asyncio.Future[None] | None = None
        self.stopped: asyncio.Future[None] = self._loop.create_future()
        """Done when the matcher has executed everything and ended."""

    def read_depth(self, levels: int) -> asyncio.Future[DepthReply]:
        """Ask the matcher for the book's best levels."""
        waiter: asyncio.Future[DepthReply] = self._loop.create_future()
        self._depth_waiting.append((waiter, levels))
        self._ask_depth()
        return waiter

    def operate(self, command: Command) -> asyncio.Future[Operated]:
        """Send a command of the operator's session."""
        self._submit(command.pack())
        # An order that rests has no last event; the fence says that there is no more to come.
        return self.fence()

    def fence(self) -> asyncio.Future[Operated]:
        """Wait until all that was sent has come out."""
        waiter: asyncio.Future[Operated] = self._loop.create_future()
        self._operated.append(waiter)
        self._submit(Command(kind=CommandKind.FENCE).pack())
        return waiter

    def read_impact(self, session_id: int) -> asyncio.Future[Impact]:
        """Ask the matcher what a mass cancel would hit: of a session, 0: of everybody."""
        waiter: asyncio.Future[Impact] = self._loop.create_future()
        self._impact_asked.append(waiter)
        self._submit(
            Command(
                kind=CommandKind.IMPACT, instrument_id=INSTRUMENT_ID, client_order_id=session_id
            ).pack()
        )
        return waiter

    def copy_image(self) -> asyncio.Future[None]:
        """Send a snapshot's mark; done when the image in the lent memory is complete."""
        assert self._image is None, "one snapshot at a time"
        self._image = self._loop.create_future()
        self._submit(Command(kind=CommandKind.SNAPSHOT_MARK, session_id=OPERATOR_SESSION_ID).pack())
        return self._image

    def on_depth_reply(self, buffer_index: int) -> None:
        """A depth buffer is filled."""
        waiter = self._depth_asked.pop(buffer_index)
        if not waiter.done():
            waiter.set_result(self._memory.depth_reply(buffer_index))
        self._free_buffers.append(buffer_index)
        self._ask_depth()

    def on_fence(self, events: list[bytes], counted: int, filled_lots: int) -> None:
        """The operator's oldest command is through."""
        waiter = self._operated.popleft()
        if not waiter.done():
            waiter.set_result(Operated(events, counted, filled_lots))

    def on_impact(self, *fields: Any) -> None:
        """The oldest question is answered."""
        waiter = self._impact_asked.popleft()
        if not waiter.done():
            waiter.set_result(Impact(*fields))

    def on_snapshot_ready(self) -> None:
        """The image is complete, and its mark released."""
        waiter, self._image = self._image, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def on_stopped(self) -> None:
        """The matcher has ended."""
        if not self.stopped.done():
            self.stopped.set_result(None)

    def _ask_depth(self) -> None:
        while self._depth_waiting and self._free_buffers:
            waiter, levels = self._depth_waiting.popleft()
            buffer_index = self._free_buffers.pop()
            self._depth_asked[buffer_index] = waiter
            self._submit(
                Command(
                    kind=CommandKind.DEPTH,
                    instrument_id=INSTRUMENT_ID,
                    order_id=buffer_index,
                    qty_lots=levels,
                ).pack()
            )
