"""Retention: nothing goes before as many snapshots as are kept were read back whole."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from bourse.domain import WalRetention
from bourse.errors import JournalError
from bourse.journal import storage
from bourse.journal.recovery import recover
from bourse.journal.replay import replay
from bourse.journal.retention import Retention, missing_segments
from tests.journal.logs import random_commands
from tests.journal.stores import Store, summary, tree


@pytest.fixture
def store(tmp_path):
    """Five segments, a snapshot at the end of each but the last, which is written."""
    made = Store(tmp_path, 16384)
    stream = random_commands(61, 250)
    for index in range(5):
        if index:
            made.rotate()
        made.run(stream[index * 50 : index * 50 + 50])
        if index < 4:
            made.snapshot()
    made.close()
    return made


def pruner(store, kept, policy):
    return Retention(store.data_dir, store.recovered.store_id, kept, policy)


@pytest.mark.parametrize("policy", list(WalRetention))
@pytest.mark.parametrize("kept", [1, 2, 4])
def test_what_the_kept_snapshots_cover_goes_by_policy(store, policy, kept):
    before = tree(store.data_dir)
    segments = storage.list_segments(store.data_dir)
    snapshots = storage.list_snapshots(store.data_dir)

    pruned = pruner(store, kept, policy).prune(5)

    assert storage.list_snapshots(store.data_dir) == snapshots[:kept]
    assert pruned.snapshots_removed == snapshots[kept:]
    # Snapshot n (from 1) covers segments 1 to n; the oldest kept one is number 5 - kept. The
    # segment that its mark is the last record of stays.
    gone = 4 - kept if policy is not WalRetention.KEEP else 0
    assert pruned.segments_gone == segments[:gone]
    assert storage.list_segments(store.data_dir) == segments[gone:]
    archive = store.data_dir / "archive"
    archived = sorted(path.name for path in archive.iterdir()) if archive.exists() else []
    if policy is WalRetention.ARCHIVE:
        assert archived == [path.name for path in segments[:gone]]
        for path in segments[:gone]:
            assert (archive / path.name).read_bytes() == before[f"wal/{path.name}"]
    else:
        assert archived == []
    assert summary(recover(store.data_dir).engine) == summary(store.engine)
    assert summary(replay(store.data_dir).engine) == summary(store.engine)


def test_a_damaged_snapshot_counts_for_nothing(store):
    snapshots = storage.list_snapshots(store.data_dir)
    data = bytearray(snapshots[0].read_bytes())
    data[len(data) // 2] ^= 1
    snapshots[0].write_bytes(data)

    pruned = pruner(store, 2, WalRetention.DELETE).prune(5)

    assert [path for path, _ in pruned.unusable] == [snapshots[0]]
    # The two kept ones are those that are whole; the damaged one is left for a person.
    assert storage.list_snapshots(store.data_dir) == snapshots[:3]
    assert len(pruned.segments_gone) == 1
    recovered = recover(store.data_dir)
    assert recovered.snapshot_path == snapshots[1]
    assert summary(recovered.engine) == summary(store.engine)


def test_a_power_loss_may_take_the_segment_after_the_mark(store):
    """C4, S1: its header was written, and perhaps not yet durable, when the one before could go."""
    segments = storage.list_segments(store.data_dir)
    snapshots = storage.list_snapshots(store.data_dir)
    pruner(store, 1, WalRetention.DELETE).prune(5)
    segments[4].write_bytes(bytes(segments[4].stat().st_size))

    recovered = recover(store.data_dir)

    assert recovered.snapshot_path == snapshots[0]
    assert recovered.last_wal_seq == storage.snapshot_seq_of(snapshots[0])


def test_a_segment_whose_header_is_not_written_yet_hinders_nothing(store):
    """Its number is known to be current a moment before its header is there."""
    segments = storage.list_segments(store.data_dir)
    whole = segments[4].read_bytes()
    segments[4].write_bytes(bytes(len(whole)))

    pruned = pruner(store, 1, WalRetention.DELETE).prune(5)

    assert pruned.segments_gone == segments[:3]


def test_too_few_whole_snapshots_keep_everything(store):
    before = tree(store.data_dir)

    pruned = pruner(store, 5, WalRetention.DELETE).prune(5)

    assert (pruned.snapshots_removed, pruned.segments_gone) == ([], [])
    assert tree(store.data_dir) == before


def test_the_segment_that_is_written_and_later_ones_stay(store):
    segments = storage.list_segments(store.data_dir)

    pruned = pruner(store, 1, WalRetention.DELETE).prune(3)

    assert pruned.segments_gone == segments[:2]


def test_any_failing_call_leaves_a_log_without_a_gap(store, monkeypatch, tmp_path):
    """D2, S1: unlink, rename and sync fail in turn; the next call finishes the work."""
    for limit in range(60):
        left = [limit]
        with monkeypatch.context() as patch:

            def failing(real, left=left):
                def call(*args, **options):
                    left[0] -= 1
                    if left[0] == -1:
                        raise OSError(5, "Input/output error")
                    return real(*args, **options)

                return call

            for name in ("unlink", "rename", "fsync"):
                patch.setattr(os, name, failing(getattr(os, name)))
            try:
                pruner(store, 1, WalRetention.ARCHIVE).prune(5)
                finished = True
            except JournalError:
                finished = False
        assert summary(recover(store.data_dir, dry_run=True).engine) == summary(store.engine)
        if finished:
            break
    assert len(storage.list_segments(store.data_dir)) == 2
    assert len(list((tmp_path / "archive").iterdir())) == 3


def on_another_file_system(monkeypatch):
    """Have renames from one directory to another refused, as between two file systems."""
    real = os.rename

    def rename(source, target, **options):
        if Path(source).parent != Path(target).parent:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        real(source, target, **options)

    monkeypatch.setattr(os, "rename", rename)


def test_an_archive_on_another_file_system_gets_copies(store, monkeypatch):
    before = tree(store.data_dir)
    segments = storage.list_segments(store.data_dir)
    on_another_file_system(monkeypatch)

    pruned = pruner(store, 2, WalRetention.ARCHIVE).prune(5)

    assert pruned.segments_gone == segments[:2]
    for path in segments[:2]:
        archived = store.data_dir / "archive" / path.name
        assert archived.read_bytes() == before[f"wal/{path.name}"]
        assert not path.exists()


def test_a_copy_that_a_crash_left_in_the_archive_is_taken_over(store):
    archive = store.data_dir / "archive"
    archive.mkdir()
    first = storage.list_segments(store.data_dir)[0]
    shutil.copy(first, archive)
    (archive / f"{first.name}.new").write_bytes(b"half of an earlier one")

    assert first in pruner(store, 2, WalRetention.ARCHIVE).prune(5).segments_gone
    assert not first.exists()


def test_another_file_in_the_archive_is_left_alone(store):
    archive = store.data_dir / "archive"
    archive.mkdir()
    first = storage.list_segments(store.data_dir)[0]
    (archive / first.name).write_bytes(b"somebody else's")

    with pytest.raises(JournalError, match="another file; move that away"):
        pruner(store, 2, WalRetention.ARCHIVE).prune(5)

    assert first.exists()
    assert (archive / first.name).read_bytes() == b"somebody else's"


def test_a_file_in_place_of_the_archive_is_named(store):
    (store.data_dir / "archive").write_bytes(b"")

    with pytest.raises(JournalError, match=r"archive is not a directory; move it away\.$"):
        pruner(store, 2, WalRetention.ARCHIVE).prune(5)


def test_a_segment_that_is_missing_is_named(store):
    segments = storage.list_segments(store.data_dir)
    assert missing_segments(store.data_dir, 5) == ""

    segments[0].unlink()  # the snapshots stand for it
    assert missing_segments(store.data_dir, 5) == ""
    segments[2].rename(segments[2].with_suffix(".away"))
    assert missing_segments(store.data_dir, 5) == "segment 3"
    segments[2].with_suffix(".away").rename(segments[2])
    segments[4].unlink()
    assert missing_segments(store.data_dir, 5) == "segment 5"
    assert missing_segments(store.data_dir, 4) == ""
    for path in storage.list_snapshots(store.data_dir):
        path.unlink()
    assert missing_segments(store.data_dir, 4) == "the segments before 2"
