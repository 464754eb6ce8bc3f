"""Snapshots on command and by themselves: a mark in the log, a copy, a file beside the trading.

1. lend memory for the image, touched beforehand, so that the matcher only copies
2. SNAPSHOT_MARK through the command ring; the matcher copies its live records and goes on
3. when the mark is durable: sort, checksum, write, sync and rename, in a thread of its own
4. read it back; then remove what the kept snapshots make superfluous (journal/retention.py)

By itself: after `snapshot_every_records`, every `snapshot_every_minutes`, at the end.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from bourse.admin import messages
from bourse.admin.messages import ErrorCode
from bourse.core.records import EngineState
from bourse.daemon.clock import mono_ns
from bourse.domain import Durability
from bourse.errors import AdminError, BourseError, JournalError
from bourse.journal import snapshot as files
from bourse.journal import storage
from bourse.journal.retention import Retention

if TYPE_CHECKING:
    from bourse.daemon.pipeline import Pipeline

ORDER_SLACK = 4096
"""Orders that may arrive between asking how many there are and the mark."""
ATTEMPTS = 5
"""Each doubles the memory.

A book that outgrows that many is growing faster than memory is touched.
"""
SEGMENTS_LISTED_MAX = 64
LISTED_MAX = 20
LOOK_SECONDS = 0.5
"""How often it is looked whether a snapshot is due."""
RETRY_NS = 60_000_000_000
"""How long after one that failed the next is taken by itself."""


class Snapshots:
    """Takes snapshots, one at a time, and knows those that there are."""

    def __init__(self, pipeline: Pipeline, log: logging.Logger) -> None:
        self._pipeline = pipeline
        self._log = log
        self._lock = asyncio.Lock()
        self._data_dir = Path(pipeline.config.data)
        self._retention = Retention(
            self._data_dir,
            pipeline.store.store_id,
            pipeline.config.snapshots_kept,
            pipeline.config.wal_retention,
        )
        self._last_seq = pipeline.store.snapshot_seq
        self._last_ns = mono_ns()
        self._failed_ns = 0
        self.listed: list[messages.SnapshotInfo] = []
        """The newest ones, newest first."""
        self._prunings = 0
        self._segments_known = (-1, -1)
        self._segments: list[messages.SegmentInfo] = []
        if pipeline.config.durability is not Durability.MEMORY:
            self._list()

    async def take(self) -> messages.SnapshotResult:
        """Take a snapshot now and return once it is on disk.

        Raises:
            AdminError: there is no log, one is being taken, or the disk refused.
        """
        if self._pipeline.config.durability is Durability.MEMORY:
            raise AdminError(
                ErrorCode.REFUSED,
                "policy memory keeps no log, so there is nothing that a snapshot could belong to",
            )
        if self._lock.locked():
            raise AdminError(ErrorCode.BUSY, "a snapshot is being taken; try again when it is done")
        async with self._lock:
            return await self._take()

    async def run(self) -> None:
        """Take those that are due, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if self._is_due(mono_ns()):
                await self._take_by_itself()

    def _is_due(self, now_ns: int) -> bool:
        config = self._pipeline.config
        # A snapshot's own mark is no news.
        new = self._pipeline.gateway.wal_seq - self._last_seq
        if new <= 0 or (self._failed_ns and now_ns - self._failed_ns < RETRY_NS):
            return False
        minutes = config.snapshot_every_minutes
        return 0 < config.snapshot_every_records <= new or (
            minutes > 0 and now_ns - self._last_ns >= minutes * 60_000_000_000
        )

    async def _take_by_itself(self) -> None:
        """Take one; what goes wrong is in the log, and trading goes on."""
        self._failed_ns = 0
        try:
            await self.take()
        except AdminError as error:
            if error.code != ErrorCode.BUSY:
                self._log.error("no snapshot was taken: %s", error)
            self._failed_ns = mono_ns()
        except Exception as error:
            # A bug, or somebody at work in the directory. The next one is tried all the same:
            # without snapshots the log only grows.
            self._log.error("bug: no snapshot was taken", exc_info=error)
            self._failed_ns = mono_ns()

    async def take_last(self) -> None:
        """Take one as the daemon stops, if it is configured and there is anything new."""
        config = self._pipeline.config
        if (
            config.snapshot_at_shutdown
            and config.durability is not Durability.MEMORY
            and self._pipeline.gateway.wal_seq > self._last_seq
        ):
            await self._take_by_itself()

    async def finish(self) -> None:
        """Wait for a snapshot that is being taken."""
        async with self._lock:
            pass

    async def _take(self) -> messages.SnapshotResult:
        loop = asyncio.get_running_loop()
        started_ns = mono_ns()
        memory = self._pipeline.memory
        wal_seq = (await self._copy()).wal_seq
        # Policy async lets the mark pass when it is written; a snapshot must never be newer than
        # the log.
        while self._pipeline.gateway.counters["durable_seq"] < wal_seq:
            await asyncio.sleep(0.002)
        parts = await loop.run_in_executor(None, memory.take_image)
        image = files.Snapshot(self._pipeline.store.store_id, *parts)
        try:
            path = await loop.run_in_executor(None, files.write, self._data_dir, image)
        except JournalError as error:
            self._log.error("no snapshot at record %d: %s", wal_seq, error)
            raise AdminError(ErrorCode.REFUSED, str(error)) from error
        self._last_seq = wal_seq
        self._last_ns = mono_ns()
        await self._prune()
        self._list()
        seconds = (mono_ns() - started_ns) / 1e9
        size = path.stat().st_size
        self._log.info(
            "snapshot at record %d: %d orders, %d bytes, %.3f s, matcher paused %d us",
            wal_seq,
            image.live_order_count,
            size,
            seconds,
            memory.pause_ns // 1000,
        )
        return messages.SnapshotResult(
            path=str(path),
            wal_seq=wal_seq,
            live_orders=image.live_order_count,
            bytes=size,
            state_digest=f"0x{image.digests[0]:016x}",
            pause_ns=memory.pause_ns,
            seconds=seconds,
        )

    async def _prune(self) -> None:
        """Remove what the kept snapshots make superfluous; a failure here harms nobody."""
        loop = asyncio.get_running_loop()
        current_index = self._pipeline.memory.segment[0]
        try:
            pruned = await loop.run_in_executor(None, self._retention.prune, current_index)
        except BourseError as error:
            self._log.error("what is superfluous was not all removed: %s", error)
            return
        self._prunings += 1
        for path, why in pruned.unusable:
            self._log.error("%s is not usable: %s; restore it from a copy or remove it", path, why)
        if pruned.snapshots_removed or pruned.segments_gone:
            did = (
                "archived" if self._pipeline.config.wal_retention.label == "archive" else "removed"
            )
            self._log.info(
                "removed %d older snapshots; %s %d segments",
                len(pruned.snapshots_removed),
                did,
                len(pruned.segments_gone),
            )

    async def _copy(self) -> EngineState:
        """Have the matcher copy its state into lent memory; returns its counters."""
        loop = asyncio.get_running_loop()
        memory = self._pipeline.memory
        slack = ORDER_SLACK
        for _ in range(ATTEMPTS):
            state, *_ = await self._pipeline.desk.read_depth(1)
            now = EngineState.unpack(state)
            orders, sessions = now.live_order_count, now.session_count
            try:
                await loop.run_in_executor(
                    None,
                    memory.lend_image,
                    orders + orders // 4 + slack,
                    sessions + sessions // 4 + slack,
                    now.instrument_count + 64,
                )
            except MemoryError:
                raise AdminError(
                    ErrorCode.REFUSED,
                    f"there is no memory for a copy of {orders:,} orders; free some and try again",
                ) from None
            await self._pipeline.desk.copy_image()
            if memory.image_is_whole:
                return EngineState.unpack(memory.image_state)
            slack *= 2
        memory.drop_image()
        raise AdminError(
            ErrorCode.BUSY, "the book grew faster than memory could be lent; try again"
        )

    def segments(self, current_index: int) -> list[messages.SegmentInfo]:
        """Return the newest segments, newest first; listed anew when one was added or removed.

        Args:
            current_index: number of the segment that is written.
        """
        known = (current_index, self._prunings)
        if known != self._segments_known:
            self._segments_known = known
            found = []
            for path in reversed(storage.list_segments(self._data_dir)):
                with contextlib.suppress(OSError):  # archived under our eyes
                    size_bytes = path.stat().st_size
                    index = storage.segment_index_of(path) or 0
                    first_seq = storage.first_seq_of(path) or 0
                    found.append(messages.SegmentInfo(index, first_seq, size_bytes))
                if len(found) == SEGMENTS_LISTED_MAX:
                    break
            self._segments = found
        return self._segments

    def _list(self) -> None:
        """List what there is, for those who look: what cannot be looked at harms nobody."""
        self.listed = []
        try:
            paths = storage.list_snapshots(self._data_dir)
        except JournalError as error:
            self._log.error("%s", error)
            return
        for path in paths[:LISTED_MAX]:
            with contextlib.suppress(OSError):  # removed under our eyes, or no file at all
                status = path.stat()
                self.listed.append(
                    messages.SnapshotInfo(
                        path=str(path),
                        wal_seq=storage.snapshot_seq_of(path) or 0,
                        bytes=status.st_size,
                        created_ns=status.st_mtime_ns,
                    )
                )
