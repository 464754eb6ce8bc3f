"""Every stage of the exchange and how they are wired, in the order of the data's way.

    sockets ─► gateway ─► command ring ─► matcher ─► event ring ─► gateway ─► sockets
                                             │
                                             └─► journal ring ─► journal thread ─► disk

Three threads: the event loop's (gateway, admin), the matcher's and the journal's. The last two are
compiled and never hold the GIL. A fourth, which mostly sleeps, makes the log's segments ahead.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from typing import TYPE_CHECKING, cast

from bourse.core.histogram import Histogram
from bourse.core.records import Command
from bourse.core.ring import RingMemory
from bourse.daemon.gateway import Gateway
from bourse.daemon.journal_thread import JournalThread
from bourse.daemon.matching_thread import JOURNAL_SLOT_BYTES, MatchingThread
from bourse.daemon.placement import interrupted_cpu
from bourse.daemon.segment_thread import SegmentThread
from bourse.daemon.shared import SharedMemory
from bourse.daemon.space import SpaceWatch
from bourse.domain import (
    INSTRUMENT_ID,
    OPERATOR_SESSION_ID,
    CommandFlag,
    CommandKind,
    Durability,
)

if TYPE_CHECKING:
    from bourse.config import DaemonConfig
    from bourse.daemon.desk import Desk
    from bourse.daemon.store import Store

RECORD_BYTES = 64


class Pipeline:
    """The stages of one daemon; owns their memory for as long as the threads run."""

    def __init__(
        self,
        config: DaemonConfig,
        store: Store,
        loop: asyncio.AbstractEventLoop,
        log: logging.Logger,
    ) -> None:
        self.config = config
        self.store = store
        self.sync_ns = Histogram()
        self.space = SpaceWatch(
            config.data_dir,
            config.low_space_bytes if config.durability is not Durability.MEMORY else 0,
            log,
        )
        self._log = log
        journaled = config.durability is not Durability.MEMORY

        # 1. What the stages say to each other: rings, and the cells beside them.
        self._eventfd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.memory = SharedMemory(self._eventfd)
        self.commands = RingMemory(config.command_ring_count, RECORD_BYTES)
        self.events = RingMemory(config.event_ring_count, RECORD_BYTES)
        self.records = RingMemory(config.journal_ring_count if journaled else 2, JOURNAL_SLOT_BYTES)

        # 2. Command ring to event ring.
        self._matching = MatchingThread(
            store.engine,
            self.commands,
            self.events,
            self.records,
            self.memory,
            config.poll,
            journaled,
        )
        self._threads = [threading.Thread(target=self._matching.run, name="matcher", daemon=True)]

        # 3. Journal ring to disk.
        self._journal: JournalThread | None = None
        if journaled:
            assert store.writer is not None
            assert store.segment_path is not None
            self._journal = JournalThread(
                store.writer,
                self.records,
                self.memory,
                self.sync_ns,
                store.segment_fd,
                store.segment_bytes,
                config.durability,
                config.poll,
                config.async_interval_ms,
                store.segment_first_seq,
            )
            store.segment_fd = -1  # the journal thread's from here on
            self._segments = SegmentThread(
                self.memory, store.segment_path.parent, config.wal_segment_bytes
            )
            self._threads += [
                threading.Thread(target=self._run_journal, name="journal", daemon=True),
                threading.Thread(target=self._segments.run, name="segments", daemon=True),
            ]

        # 4. Sockets to command ring, event ring to sockets.
        self.gateway = Gateway(
            loop,
            log,
            self.commands,
            self.events,
            self.memory,
            self._eventfd,
            config,
            store.engine.wal_seq,
            store.engine.event_seq,
            max(store.engine.last_session_id, OPERATOR_SESSION_ID) + 1,
            store.last_received_ns,
        )

    @property
    def desk(self) -> Desk:
        """The admin side's way through the pipeline."""
        return cast("Desk", self.gateway.desk)

    @property
    def failed_errno(self) -> int:
        """Errno of the disk error that stopped the journal, or 0."""
        return self.memory.failed_errno

    def _run_journal(self) -> None:
        """Body of the journal thread, on the CPU that its disk interrupts."""
        assert self._journal is not None
        cpu = interrupted_cpu(self.config.data_dir) if self.config.journal_near_disk else None
        if cpu is not None:
            os.sched_setaffinity(0, {cpu})  # of this thread alone
            self._log.info("the journal thread keeps to CPU %d, which its disk interrupts", cpu)
        self._journal.run()

    async def start(self) -> None:
        """Start the threads.

        Log what a new or restarted store needs; return when that is released.
        """
        first = self._first_commands()
        for thread in self._threads:
            thread.start()
        self.gateway.start()
        for command in first:
            self.gateway.submit(command.pack())
        target = self.store.recovered_wal_seq + len(first)
        while self.gateway.wal_seq < target:
            await asyncio.sleep(0.001)

    def _first_commands(self) -> list[Command]:
        """Return what must be in the log before the first client.

        Definitions, and the end of dead sessions.
        """
        commands = []
        store = self.store
        if store.is_new:
            symbol = store.symbol.encode("ascii").ljust(16, b"\0")
            commands.append(
                Command(
                    kind=CommandKind.INSTRUMENT_DEFINE,
                    session_id=OPERATOR_SESSION_ID,
                    instrument_id=INSTRUMENT_ID,
                    client_order_id=int.from_bytes(symbol[:8], "little"),
                    order_id=int.from_bytes(symbol[8:], "little"),
                )
            )
        commands.extend(
            Command(
                kind=CommandKind.SESSION_END,
                session_id=session_id,
                flags=CommandFlag.CANCEL_ORDERS if self.config.cancel_on_disconnect else 0,
            )
            for session_id in store.engine.sessions()
            if session_id != OPERATOR_SESSION_ID
        )
        return commands

    async def join(self) -> None:
        """Wait until the threads have ended; they do after the gateway's stop()."""
        while any(thread.is_alive() for thread in self._threads):
            await asyncio.sleep(0.001)
        self.gateway.close()
        if self._journal is not None:
            self._journal.close_files()
        os.close(self._eventfd)
