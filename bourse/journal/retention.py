"""Retention: which snapshots are kept, and what becomes of the log before the oldest of them.

    snapshots   the newest `kept` usable ones stay; older ones are removed
    segments    those before the one with the oldest kept snapshot's mark are superfluous:
                kept, moved to archive/, or removed, the oldest first

Nothing goes before as many snapshots as are to be kept have been read back from the disk and found
whole. A crash at any point leaves a log without a gap and the snapshots that it needs. Called by
the daemon, in a thread of its own, after each snapshot.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from bourse.domain import WalRetention
from bourse.errors import JournalError
from bourse.journal import segment, snapshot, storage


@dataclass(slots=True)
class Pruned:
    """What one call did."""

    snapshots_removed: list[Path] = field(default_factory=list)
    segments_gone: list[Path] = field(default_factory=list)
    """Archived or removed, by the names they had."""
    unusable: list[tuple[Path, str]] = field(default_factory=list)
    """Snapshots that are damaged, and why; a person should look at them."""


def missing_segments(data_dir: Path, current_index: int) -> str:
    """Say which segments the next recovery will miss; empty when the log has no gap.

    Only names are looked at. Those that a snapshot stands for may be gone, from the oldest on.

    Args:
        data_dir: the directory; files may come and go meanwhile, so that a gap that is seen once
            is none yet.
        current_index: the last segment that must be there.
    """
    there = {storage.segment_index_of(path): path for path in storage.list_segments(data_dir)}
    first = min((index for index in there if index is not None), default=current_index)
    for index in range(first, current_index + 1):
        if index not in there:
            return f"segment {index}"
    first_seq = storage.first_seq_of(there[first]) or 1 if there else 1
    covered_seq = max(
        (storage.snapshot_seq_of(path) or 0 for path in storage.list_snapshots(data_dir)), default=0
    )
    return f"the segments before {first}" if first_seq > covered_seq + 1 else ""


class Retention:
    """Prunes one data directory; remembers which snapshots it has read back."""

    def __init__(
        self, data_dir: Path, store_id: bytes, snapshots_kept: int, policy: WalRetention
    ) -> None:
        """Keep at least one snapshot; `store_id` is the log's."""
        self._data_dir = data_dir
        self._store_id = store_id
        self._kept = snapshots_kept
        self._policy = policy
        self._verified: set[tuple[Path, int, int]] = set()

    def prune(self, current_index: int) -> Pruned:
        """Remove what nobody needs.

        Args:
            current_index: the segment that is written; neither it nor a later one is touched.

        Raises:
            JournalError: a file cannot be moved or removed; what was done until then is harmless.
        """
        pruned = Pruned()
        good: list[Path] = []
        for path in storage.list_snapshots(self._data_dir):
            if len(good) == self._kept:
                storage.remove_durably(path)
                pruned.snapshots_removed.append(path)
            elif self._is_good(path, pruned):
                good.append(path)
        if len(good) == self._kept and self._policy is not WalRetention.KEEP:
            covered_seq = storage.snapshot_seq_of(good[-1]) or 0
            for path in self._superfluous(covered_seq, current_index):
                self._give_up(path)
                pruned.segments_gone.append(path)
        return pruned

    def _is_good(self, path: Path, pruned: Pruned) -> bool:
        """Read a snapshot back, once as long as its file is the same."""
        try:
            status = path.stat()
            key = (path, status.st_size, status.st_mtime_ns)
            if key not in self._verified:
                snapshot.verify(path, self._store_id)
                self._verified.add(key)
        except (OSError, JournalError, snapshot.SnapshotError) as error:
            pruned.unusable.append((path, str(error)))
            return False
        return True

    def _superfluous(self, covered_seq: int, current_index: int) -> list[Path]:
        """Return the segments before the one that `covered_seq` itself belongs to.

        That one stays, though its records are covered: its successor's header is written with the
        next record, and a record is known to be durable only up to `covered_seq`.
        """
        found: list[Path] = []
        before: Path | None = None
        for path in storage.list_segments(self._data_dir):
            index = storage.segment_index_of(path) or 0
            if index > current_index or (storage.first_seq_of(path) or 0) > covered_seq:
                break
            one = segment.Segment(path)
            one.close()
            if one.header.store_id != self._store_id or one.header.first_wal_seq > covered_seq:
                break
            if before is not None:
                found.append(before)
            before = path
        return found

    def _give_up(self, path: Path) -> None:
        if self._policy is WalRetention.DELETE:
            storage.remove_durably(path)
            return
        archive = self._data_dir / storage.ARCHIVE_DIRECTORY
        storage.make_inner_directory(archive)
        storage.move_durably(path, archive / path.name)
