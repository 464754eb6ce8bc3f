"""What a daemon starts from.

The engine as recovered, the log opened for appending, the lock on both.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from bourse.core.engine import Engine
from bourse.core.records import INSTRUMENT_RECORD
from bourse.daemon.clock import mono_ns
from bourse.domain import INSTRUMENT_ID, Durability
from bourse.errors import UsageError
from bourse.journal import format as layout
from bourse.journal import recovery, storage
from bourse.journal.filesystem import MEMORY_FILESYSTEMS, filesystem_of

if TYPE_CHECKING:
    from bourse.config import DaemonConfig
    from bourse.journal.writer import JournalWriter


@dataclass
class Store:
    """An engine and, unless the policy is `memory`, its log; `close()` gives the directory back."""

    engine: Engine
    store_id: bytes = bytes(layout.STORE_ID_SIZE)
    """Zeros when there is no log."""
    lock: storage.DataLock | None = None
    writer: JournalWriter | None = None
    data_dir: Path = field(default_factory=Path)
    segment_fd: int = -1
    segment_bytes: int = 0
    segment_path: Path | None = None
    segment_index: int = 0
    segment_first_seq: int = 1
    torn_bytes: int = 0
    report: list[str] = field(default_factory=list)
    """What recovery did, in sentences."""
    snapshot_seq: int = 0
    """The record after which the snapshot was taken that recovery began with; 0: none."""
    recovered_wal_seq: int = 0
    """The last command of earlier runs."""
    last_received_ns: int = 0
    """Wall clock of that command: time in the log never goes back."""
    symbol: str = ""
    """The instrument's: the log's, once it has one."""

    @property
    def is_new(self) -> bool:
        """No command was ever executed."""
        return self.recovered_wal_seq == 0

    def path_of(self, segment_index: int, first_wal_seq: int) -> Path:
        """Return where a segment of the log is."""
        if segment_index == self.segment_index and self.segment_path is not None:
            return self.segment_path
        return storage.segment_path(self.data_dir, segment_index, first_wal_seq)

    def close(self) -> None:
        """Close the log and let go of the directory."""
        if self.segment_fd >= 0:
            os.close(self.segment_fd)
            self.segment_fd = -1
        if self.lock is not None:
            self.lock.release()


def open_store(config: DaemonConfig) -> Store:
    """Take the data directory, recover what it holds and open its log.

    Raises:
        OwnershipError: another daemon owns it.
        UsageError: it cannot be used, or the policy does not fit what it holds.
        JournalError: the log or the snapshots cannot be used; nothing was changed.
    """
    data_dir = config.data_dir
    if config.durability is Durability.MEMORY:
        if storage.has_log(data_dir):
            raise UsageError(
                f"{data_dir} holds a log, and policy memory would not write it; "
                "use another directory (--data) or another policy (--durability)"
            )
        return Store(Engine(), symbol=config.symbol)
    storage.make_directory(data_dir)
    lock = storage.DataLock(data_dir)
    lock.acquire()
    try:
        started_ns = mono_ns()
        recovered = recovery.recover(data_dir, preallocate_bytes=config.wal_segment_bytes)
        seconds = (mono_ns() - started_ns) / 1e9
        segment_fd = storage.open_segment(recovered.segment_path)
    except BaseException:
        lock.release()
        raise
    report = recovered.report.splitlines()
    if not recovered.is_new:
        report.append(f"recovered in {seconds:.3f} s")
    report += _policy_warnings(config)
    symbol = _logged_symbol(recovered.engine) or config.symbol
    if symbol != config.symbol:
        report.append(f"the log's instrument is {symbol}; symbol = {config.symbol!r} is not used")
    return Store(
        engine=recovered.engine,
        store_id=recovered.store_id,
        lock=lock,
        writer=recovered.writer(),
        data_dir=data_dir,
        segment_fd=segment_fd,
        segment_bytes=os.fstat(segment_fd).st_size,
        segment_path=recovered.segment_path,
        segment_index=recovered.segment_index,
        segment_first_seq=storage.first_seq_of(recovered.segment_path) or 1,
        torn_bytes=recovered.torn_bytes,
        report=report,
        snapshot_seq=recovered.snapshot_seq,
        recovered_wal_seq=recovered.last_wal_seq,
        last_received_ns=recovered.last_received_ns,
        symbol=symbol,
    )


def _policy_warnings(config: DaemonConfig) -> list[str]:
    """Say it loudly when the directory cannot keep what the policy promises."""
    kind = filesystem_of(config.data_dir)
    if kind not in MEMORY_FILESYSTEMS:
        return []
    return [
        f"WARNING: {config.data_dir} is on {kind}, which is memory: policy "
        f"{config.durability.label} survives kill -9 there, but no power loss and no reboot; "
        "choose a directory on a disk with --data"
    ]


def _logged_symbol(engine: Engine) -> str:
    """Return the symbol that the log gave the instrument; empty before it did."""
    for instrument_id, _, symbol in INSTRUMENT_RECORD.iter_unpack(engine.instruments()):
        if instrument_id == INSTRUMENT_ID:
            return bytes(symbol).rstrip(b"\0").decode("ascii")
    return ""
