"""An event loop and connections without a machine below: what the gateway needs, in simulated time.

The product's coroutines, futures and tasks are asyncio's own. Nothing runs unless `run_once` or
`run_job` is called; whoever calls them decides the order.
"""

from __future__ import annotations

import asyncio
import heapq
import select
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any


class Loop(asyncio.AbstractEventLoop):
    """The part of an event loop that the daemon uses."""

    def __init__(self, now_ns: Callable[[], int], on_bug: Callable[[str], None]) -> None:
        self._now_ns = now_ns
        self._on_bug = on_bug
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._order = 0
        self._readers: dict[int, tuple[Callable[..., Any], tuple[Any, ...]]] = {}
        self._tasks: list[asyncio.Task[Any]] = []
        self.is_dead = False
        """Its process has ended: what is found about it afterwards counts for nothing."""
        self.jobs: deque[tuple[asyncio.Future[Any], Callable[..., Any], tuple[Any, ...]]] = deque()
        """What waits for a thread of its own."""

    # What the daemon calls.

    def time(self) -> float:
        return self._now_ns() / 1e9

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon

    def call_later(
        self, delay: float, callback: Any, *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Any, *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._order += 1
        heapq.heappush(self._timers, (when, self._order, handle))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Asyncio tells when a timer is cancelled; it is passed over when its time comes."""

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Coroutine[Any, Any, Any], **_: Any) -> asyncio.Task[Any]:
        task = asyncio.Task(coro, loop=self)
        self._tasks.append(task)
        return task

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> asyncio.Future[Any]:
        future = self.create_future()
        self.jobs.append((future, func, args))
        return future

    def add_reader(self, fd: Any, callback: Any, *args: Any) -> None:
        self._readers[fd] = (callback, args)

    def remove_reader(self, fd: Any) -> bool:
        return self._readers.pop(fd, None) is not None

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if error is not None and not self.is_dead:
            self._on_bug(f"{context.get('message')}: {error!r}")

    # What the simulation calls.

    @property
    def next_ns(self) -> int | None:
        """When the next timer is due."""
        while self._timers and self._timers[0][2].cancelled():
            heapq.heappop(self._timers)
        return int(self._timers[0][0] * 1e9) if self._timers else None

    def die(self) -> None:
        """Leave everything as it is, for ever."""
        self.is_dead = True
        for task in self._tasks:
            if not task.done():
                # Now, not when the collector comes by.
                task.get_coro().close()  # type: ignore[union-attr]
                task._log_destroy_pending = False  # type: ignore[attr-defined]

    def has_work(self) -> bool:
        """Say whether `run_once` would do anything now."""
        if self._ready:
            return True
        due = self.next_ns
        return (due is not None and due <= self._now_ns()) or self._is_rung()

    def _is_rung(self) -> bool:
        return bool(self._readers) and bool(select.select(list(self._readers), [], [], 0)[0])

    def run_once(self) -> None:
        """One pass: readers, timers, then what was ready when it began."""
        if self._is_rung():
            for callback, args in list(self._readers.values()):
                self.call_soon(callback, *args)
        while (due := self.next_ns) is not None and due <= self._now_ns():
            self._ready.append(heapq.heappop(self._timers)[2])
        for _ in range(len(self._ready)):
            handle = self._ready.popleft()
            if not handle.cancelled():
                handle._run()

    def run_job(self) -> None:
        """Do the oldest job that waits for a thread, from its beginning to its end."""
        future, func, args = self.jobs.popleft()
        try:
            result = func(*args)
        except Exception as error:
            if not future.cancelled():
                future.set_exception(error)
        else:
            if not future.cancelled():
                future.set_result(result)


class NoSocket:
    """Stands for a connection's socket: a descriptor on which every send fails.

    The session hands what a socket does not take to its transport, so all of it goes there.
    """

    def fileno(self) -> int:
        return -1


class Transport(asyncio.Transport):
    """One connection as the session sees it."""

    def __init__(self, loop: Loop, on_sent: Callable[[bytes], None]) -> None:
        super().__init__()
        self._loop = loop
        self._on_sent = on_sent
        self.protocol: Any = None
        self.is_paused = False
        self.is_over = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return NoSocket() if name == "socket" else default

    def set_write_buffer_limits(self, high: Any = None, low: Any = None) -> None:
        """The peer takes everything at once."""

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: Any) -> None:
        self._on_sent(bytes(data))

    def write_eof(self) -> None:
        """Nothing of ours waits for it."""

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def is_closing(self) -> bool:
        return self.is_over

    def abort(self) -> None:
        if not self.is_over:
            self.is_over = True
            self._loop.call_soon(self.protocol.connection_lost, None)

    close = abort
