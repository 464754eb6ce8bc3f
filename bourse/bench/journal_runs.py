"""Benchmarks of the journal: `commit` and `journal`, append to durable, with their checks.

The daemon's own journal thread writes the daemon's own log, in a temporary data directory; only the
matcher's part is played (journal_loops.py). Afterwards the log is read back record by record.
"""

from __future__ import annotations

import contextlib
import shutil
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from bourse.admin.checks import Check
from bourse.bench import results
from bourse.bench.disk import SyncTimer
from bourse.bench.journal_loops import JournalFeeder
from bourse.bench.private_daemon import scratch_parent
from bourse.bench.results import Result, percentiles
from bourse.config import DaemonConfig
from bourse.core.histogram import Histogram
from bourse.core.ring import RingMemory
from bourse.daemon.journal_thread import JournalThread
from bourse.daemon.matching_thread import JOURNAL_SLOT_BYTES
from bourse.daemon.shared import SharedMemory
from bourse.daemon.store import open_store
from bourse.domain import Durability, PollMode
from bourse.errors import JournalError, UsageError
from bourse.journal import segment, storage

RING_SLOTS = 1 << 16
COMMIT_MAX = 1 << 14
"""Records of one commit: more than a write buffer of 1 MiB holds would be two batches."""

ONE_BY_ONE_MAX = 5_000
"""Records that are committed one by one, for the speedup; half a second of a slow disk."""

SERIES_SECONDS_MAX = 2.0
"""Nor longer than so: a disk that others write to takes milliseconds for each."""

POLL = PollMode.BUSY
"""Of the journal thread."""

SEGMENT_BYTES_LEAST = 64 << 10
"""The smallest that the configuration allows."""

ROUNDS = 5
"""Rounds of `journal` against dd; the fastest of each counts."""


class Journal:
    """A log with its thread, and what feeds it; `records` counts what must be in the log."""

    def __init__(self, directory: Path, size_bytes: int) -> None:
        config = DaemonConfig(
            data=str(directory), wal_segment_bytes=max(size_bytes, SEGMENT_BYTES_LEAST)
        )
        self._store = open_store(config)
        assert self._store.writer is not None
        self._memory = SharedMemory(-1)
        self._ring = RingMemory(RING_SLOTS, JOURNAL_SLOT_BYTES)
        self.sync_ns = Histogram()
        self.feeder = JournalFeeder(self._ring, self._memory, self._store.writer.next_wal_seq)
        journal = JournalThread(
            self._store.writer,
            self._ring,
            self._memory,
            self.sync_ns,
            self._store.segment_fd,
            self._store.segment_bytes,
            Durability.FSYNC,
            POLL,
            10,
        )
        self._thread = threading.Thread(target=journal.run, name="journal")
        self.records = 0

    def append(self, count: int, together: bool = True) -> int:
        """Append records; nanoseconds until the last one is durable."""
        self.records += count
        try:
            return self.feeder.append(count, together)
        except OSError as error:
            raise JournalError(
                f"the disk failed under the benchmark: {error.strerror}; nothing is measured"
            ) from error

    def start(self) -> None:
        """Start the journal thread."""
        self._thread.start()

    def stop(self) -> None:
        """Have the thread end, and close the log."""
        self.feeder.finish()
        self._thread.join()
        self._store.close()


@contextlib.contextmanager
def scratch(data: Path | None) -> Iterator[Path]:
    """Make a directory on a disk, under `data` when it is given; removed afterwards."""
    parent = scratch_parent(Durability.FSYNC, data)
    directory = Path(tempfile.mkdtemp(prefix="bourse-bench-", dir=parent))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextlib.contextmanager
def running_journal(directory: Path, size_bytes: int) -> Iterator[Journal]:
    """Run a journal on a new log."""
    journal = Journal(directory, size_bytes)
    journal.start()
    try:
        yield journal
    finally:
        journal.stop()


def log_check(directory: Path, records: int) -> Check:
    """Read a log back: every record once, in order, each with its own content."""
    found = 0
    detail = ""
    try:
        for path in storage.list_segments(directory):
            for record in segment.records(path):
                found += 1
                client_order_id = int.from_bytes(record.command[16:24], "little")
                if record.wal_seq != found or client_order_id != found:
                    detail = f"; record {found} has number {record.wal_seq}"
                    break
    except JournalError as error:
        detail = f"; {error}"
    return Check("log_complete", found == records and not detail, f"{found} of {records}{detail}")


def commit(count: int, samples: int, data: Path | None) -> Result:
    """Time a batch of records and one fdatasync against a single record, and against one by one.

    `ns_per_op` is nanoseconds a batch (the median); `speedup` is that of one fdatasync for all
    records over one for each.

    Args:
        count: records of a batch.
        samples: pairs of a batch and a single commit, in turn.
        data: where the temporary directory is made.

    Raises:
        UsageError: a number is out of range.
        JournalError: the disk failed.
    """
    if not 1 <= count <= COMMIT_MAX:
        raise UsageError(f"--n {count} is not allowed; it must be 1 to {COMMIT_MAX}")
    if not 1 <= samples <= 100_000:
        raise UsageError(f"--samples {samples} is not allowed; it must be 1 to 100000")
    load_average = results.load_average()
    one_by_one = max(1, min(samples, ONE_BY_ONE_MAX // count))
    with scratch(data) as directory:
        log = directory / "data"
        started = time.perf_counter()
        batches: list[int] = []
        singles: list[int] = []
        series: list[int] = []
        with SyncTimer(directory) as disk, running_journal(log, 64 << 20) as journal:
            journal.append(count)
            journal.append(1)
            for number in range(samples):
                # In turns, and each first as often: disks of virtual machines have moods.
                for batch in (number % 2 == 0, number % 2 == 1):
                    (batches if batch else singles).append(journal.append(count if batch else 1))
                if number < one_by_one and sum(series) < SERIES_SECONDS_MAX * 1e9:
                    series.append(journal.append(count, together=False))
                disk.time(1)
            records = journal.records
        seconds = time.perf_counter() - started
        ratio = statistics.median(
            batch / single for batch, single in zip(batches, singles, strict=True)
        )
        batch_ns = statistics.median(batches)
        result = Result(
            workload=f"commit-{count}",
            boundary="journal",
            policy=Durability.FSYNC.label,
            poll=POLL.label,
            samples=samples,
            seconds=round(seconds, 6),
            latency_ns=results.latencies(batches),
            rate_per_s=round(count * 1e9 / batch_ns),
            ns_per_op=round(batch_ns, 1),
            fdatasync_ns=percentiles(disk.durations_ns),
            speedup=round(statistics.median(series) / batch_ns, 1),
            checks=[log_check(log, records)],
            parameters={
                "operation": "a batch",
                "records_in_batch": count,
                "single_ns": round(statistics.median(singles)),
                "batch_to_single": round(ratio, 3),
                "one_by_one_ns": round(statistics.median(series)),
            },
        )
        result.environment = results.environment(directory, load_average)
        result.warnings = results.machine_warnings(result.environment)
    return result


def journal(samples: int, data: Path | None) -> Result:
    """Stream records to the disk as fast as it takes them, beside dd with as many bytes.

    Raises:
        UsageError: the number is out of range.
        JournalError: the disk failed.
    """
    if not 1 <= samples <= 50_000_000:
        raise UsageError(f"--samples {samples} is not allowed; it must be 1 to 50000000")
    load_average = results.load_average()
    size_bytes = samples * 90 + (4 << 20)
    checks: list[Check] = []
    spent_ns: list[int] = []
    dd_ns: list[int] = []
    batches: list[float] = []
    written_bytes = 0
    with scratch(data) as directory:
        for number in range(ROUNDS):
            log = directory / f"data-{number}"
            with running_journal(log, size_bytes) as feed:
                spent_ns.append(feed.append(samples))
                written_bytes, batch_count = feed.feeder.written
                batches.append(samples / batch_count)
            checks.append(log_check(log, samples))
            shutil.rmtree(log)
            dd_ns.append(_dd(directory, written_bytes))
        best_ns = min(spent_ns)
        result = Result(
            workload="journal",
            boundary="journal",
            policy=Durability.FSYNC.label,
            poll=POLL.label,
            samples=samples,
            seconds=round(best_ns / 1e9, 6),
            rate_per_s=round(samples * 1e9 / best_ns),
            ns_per_op=round(best_ns / samples, 1),
            checks=checks,
            parameters={
                "operation": "a record",
                "bytes": written_bytes,
                "bytes_per_s": round(written_bytes * 1e9 / best_ns),
                "dd_bytes_per_s": round(written_bytes * 1e9 / min(dd_ns)),
                "time_to_dd": round(best_ns / min(dd_ns), 3),
                "records_a_batch": round(statistics.mean(batches)),
                "repetitions_seconds": [round(ns / 1e9, 3) for ns in spent_ns],
                "dd_seconds": [round(ns / 1e9, 3) for ns in dd_ns],
            },
        )
        result.environment = results.environment(directory, load_average)
        result.warnings = results.machine_warnings(result.environment)
    return result


def _dd(directory: Path, size_bytes: int) -> int:
    """Let dd write as many bytes, 1 MiB at a time, each durable; nanoseconds by its own clock."""
    path = directory / "dd"
    mebibytes = max(1, round(size_bytes / (1 << 20)))
    with path.open("wb") as file:
        for _ in range(mebibytes + 1):
            file.write(bytes(1 << 20))
    storage.sync_directory(directory)
    source = directory / "dd-source"
    source.write_bytes(b"\x5a" * (mebibytes << 20))
    command = ["dd", f"if={source}", f"of={path}", "bs=1M", "oflag=dsync", "conv=notrunc"]
    language = {"LC_ALL": "C", "PATH": "/usr/bin:/bin"}
    found = subprocess.run(command, capture_output=True, text=True, check=True, env=language)
    path.unlink()
    source.unlink()
    # "... bytes (176 MB, 168 MiB) copied, 0.34 s, 518 MB/s"
    copied, _, rest = found.stderr.strip().splitlines()[-1].partition(" bytes ")
    seconds = float(rest.partition("copied, ")[2].partition(" s,")[0])
    return round(seconds * 1e9 * size_bytes / int(copied))
