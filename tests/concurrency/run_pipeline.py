"""Run the real matcher and journal threads in this process, with pipeline_hammer as the gateway.

    python -P run_pipeline.py '{"durability": 2, "poll": 1, "directory": "...", ...}'

Prints as JSON what was counted, and how it compares with an engine that had the commands alone.
With "shim", the path of alloc_count.so (which is preloaded), also its counts for each thread.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pipeline_hammer

from bourse.core.engine import Engine
from bourse.core.histogram import Histogram
from bourse.core.records import Command, EngineState
from bourse.core.ring import RingMemory
from bourse.daemon.journal_thread import JournalThread
from bourse.daemon.matching_thread import JOURNAL_SLOT_BYTES, MatchingThread
from bourse.daemon.shared import SharedMemory
from bourse.domain import CommandKind, Durability
from bourse.journal import recovery, storage

MATCHER = 1
JOURNAL = 2
CONTROL = 3
CALLS = ("malloc", "calloc", "realloc", "free", "aligned", "mapping")


def opening() -> bytes:
    """An instrument and four sessions."""
    symbol = int.from_bytes(b"TEST", "little")
    commands = [Command(CommandKind.INSTRUMENT_DEFINE, instrument_id=1, client_order_id=symbol)]
    commands += [
        Command(CommandKind.SESSION_OPEN, session_id=session_id)
        for session_id in pipeline_hammer.SESSION_IDS
    ]
    return b"".join(command.pack() for command in commands)


class Shim:
    """alloc_count.c as this process sees it; without a path nothing is counted."""

    def __init__(self, path: str | None) -> None:
        self.library = ctypes.CDLL(path) if path else None
        if self.library is not None:
            self.library.alloc_calls.restype = ctypes.c_uint64

    def watch(self, who: int) -> None:
        """Count this thread's calls from now on."""
        if self.library is not None:
            self.library.alloc_watch(who)

    def counts(self, who: int) -> dict[str, int]:
        """Calls of a thread so far, by kind."""
        if self.library is None:
            return {}
        return {name: self.library.alloc_calls(who, at) for at, name in enumerate(CALLS)}

    def control(self) -> dict[str, int]:
        """What is counted for a thread that makes a call of each kind."""

        def body() -> None:
            self.watch(CONTROL)
            before = self.counts(CONTROL)
            assert self.library is not None
            self.library.alloc_control()
            after = self.counts(CONTROL)
            seen.update({name: after[name] - before[name] for name in CALLS})

        seen: dict[str, int] = {}
        if self.library is not None:
            thread = threading.Thread(target=body)
            thread.start()
            thread.join()
        return seen


class Pipeline:
    """bourse/daemon/pipeline.py without a gateway: the same stages, wired the same way."""

    def __init__(self, order: dict[str, Any]) -> None:
        durability = order["durability"]
        journaled = durability != Durability.MEMORY
        self.shim = Shim(order.get("shim"))
        eventfd = os.eventfd(0, os.EFD_CLOEXEC)
        self.memory = SharedMemory(eventfd)
        commands = RingMemory(order["command_slots"], 64)
        events = RingMemory(order["event_slots"], 64)
        records = RingMemory(order["journal_slots"], JOURNAL_SLOT_BYTES)
        self.engine = Engine()
        matching = MatchingThread(
            self.engine, commands, events, records, self.memory, order["poll"], journaled
        )
        self.threads = [threading.Thread(target=self._body, args=(MATCHER, matching))]
        if journaled:
            self.directory = Path(order["directory"])
            storage.make_directory(self.directory)
            recovered = recovery.recover(self.directory, preallocate_bytes=1 << 20)
            segment_fd = storage.open_segment(recovered.segment_path)
            journal = JournalThread(
                recovered.writer(),
                records,
                self.memory,
                Histogram(),
                segment_fd,
                os.fstat(segment_fd).st_size,
                durability,
                order["poll"],
                5,
            )
            self.threads.append(threading.Thread(target=self._body, args=(JOURNAL, journal)))
        self.gateway = pipeline_hammer.StandIn(
            commands, events, self.memory, eventfd, durability, order["poll"], order["kept_bytes"]
        )
        self.gateway.mistake = order["mistake"]

    def _body(self, who: int, stage: MatchingThread | JournalThread) -> None:
        self.shim.watch(who)
        stage.run()


def main() -> None:
    order = json.loads(sys.argv[1])
    pipeline = Pipeline(order)
    gateway = pipeline.gateway
    live_max = order["live_max"]
    # As many live orders as there can ever be, at twice as many prices, and then some turnover:
    # what the steady state needs is there afterwards.
    filling, next_id = pipeline_hammer.make_commands(
        7, 4 * live_max, live_max, 2 * order["price_spread"], live_max, False
    )
    turnover, next_id = pipeline_hammer.make_commands(
        8, order["warm_up"], live_max, order["price_spread"], next_id, True
    )
    steady, next_id = pipeline_hammer.make_commands(
        order["seed"], order["count"], live_max, order["price_spread"], next_id, True
    )
    warm_up = opening() + filling + turnover
    ending = Command(CommandKind.SNAPSHOT_MARK).pack()
    fence = Command(CommandKind.FENCE).pack()
    stop = Command(CommandKind.STOP).pack()
    for thread in pipeline.threads:
        thread.start()
    gateway.run(warm_up + fence)
    before = [pipeline.shim.counts(who) for who in (MATCHER, JOURNAL)]
    warm = EngineState.unpack(pipeline.engine.state_bytes())
    cancelled = gateway.cancelled
    started = time.perf_counter()
    gateway.run(steady + fence)
    seconds = time.perf_counter() - started
    after = [pipeline.shim.counts(who) for who in (MATCHER, JOURNAL)]
    done = EngineState.unpack(pipeline.engine.state_bytes())
    cancelled = gateway.cancelled - cancelled
    pipeline.memory.lend_image(4 * live_max + 1024, 64, 8)
    gateway.run(ending + stop)
    for thread in pipeline.threads:
        thread.join()

    # The same commands, one after another, in one thread.
    alone = Engine()
    expected = hashlib.sha256()
    for data in (warm_up, steady, ending):
        if order["kept_bytes"]:
            for at in range(0, len(data), 64):
                expected.update(alone.apply(data[at : at + 64]))
        else:
            alone.run(data)
    engine = pipeline.engine
    engine.check()
    report: dict[str, Any] = {
        "seconds": seconds,
        "errors": gateway.errors,
        "stopped": gateway.stopped,
        "same_digests": (engine.state_digest, engine.event_digest, engine.wal_seq)
        == (alone.state_digest, alone.event_digest, alone.wal_seq),
        "same_events": not order["kept_bytes"]
        or hashlib.sha256(gateway.kept_events).digest() == expected.digest(),
        "wal_seq": gateway.wal_seq,
        "events": engine.event_seq,
        "steady": {
            "commands": done.wal_seq - warm.wal_seq,
            "accepted": done.order_count - warm.order_count,
            "trades": done.trade_count - warm.trade_count,
            "refused": done.reject_count - warm.reject_count,
            "cancelled": cancelled,
            "live": done.live_order_count,
        },
        "sleeps": gateway.sleeps,
        "full_rings": gateway.full_rings,
        "shut_gates": gateway.shut_gates,
        "depth_replies": gateway.depth_replies,
        "snapshots": gateway.snapshots,
        "control": pipeline.shim.control(),
        "matcher_warm_up": before[0],
    }
    for name, old, new in zip(("matcher", "journal"), before, after, strict=True):
        report[name] = {call: new[call] - old[call] for call in new}
    if len(pipeline.threads) > 1:
        found = recovery.recover(pipeline.directory, dry_run=True)
        report["same_log"] = (found.last_wal_seq, found.engine.state_digest) == (
            engine.wal_seq,
            engine.state_digest,
        )
    print(json.dumps(report))


if __name__ == "__main__":
    main()
