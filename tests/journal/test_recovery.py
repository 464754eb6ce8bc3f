"""Recovery: what was durable is there, what was torn is cut, what is damaged is refused."""

from __future__ import annotations

import os
import random
import shutil

import pytest

from bourse.core.engine import Engine
from bourse.errors import BourseError, CorruptError, JournalError
from bourse.journal import format as layout
from bourse.journal import segment, snapshot, storage
from bourse.journal.recovery import recover
from bourse.journal.replay import replay
from tests.journal.logs import random_commands
from tests.journal.stores import Store, summary, tree


def test_new_directory_begins_with_record_one(tmp_path):
    data_dir = tmp_path / "a" / "b"

    recovered = recover(data_dir, preallocate_bytes=65536, store_id=bytes(range(16)))

    assert recovered.is_new
    assert recovered.next_wal_seq == 1
    assert recovered.segment_path == data_dir / "wal" / "wal-00000001-00000000000000000001.log"
    assert recovered.segment_path.stat().st_size == 65536
    # Real blocks, no hole: the first syncs must not change metadata.
    assert recovered.segment_path.stat().st_blocks * 512 >= 65536
    again = recover(data_dir)
    assert not again.is_new
    assert again.store_id == bytes(range(16))
    assert again.report == "checked 0 records, replayed 0; the last is 0"
    assert recover(tmp_path / "c").store_id != recover(tmp_path / "d").store_id


def test_dry_run_writes_nothing(tmp_path):
    recovered = recover(tmp_path / "new", dry_run=True)
    assert recovered.is_new
    assert not (tmp_path / "new").exists()

    store = Store(tmp_path / "torn")
    store.run(random_commands(1, 40))
    store.close(mark=False)
    with store.path.open("r+b") as file:
        file.seek(store.writer.offset_bytes - 9)
        file.write(b"\x99")
    before = tree(store.data_dir)

    recovered = recover(store.data_dir, dry_run=True)

    assert recovered.torn_bytes > 0
    assert "would be cut" in recovered.report
    assert not recovered.was_written
    assert tree(store.data_dir) == before


@pytest.mark.parametrize("shape", ["truncated", "zeroed"])
def test_torn_at_every_byte_of_the_last_batch(tmp_path, shape, no_sync):
    """W1, L2, O1: the state is that of a prefix; appending and crashing again loses nothing."""
    commands = random_commands(21, 60)
    store = Store(tmp_path / "made", 16384)
    store.run(commands[:50], batch_max=9)
    start = store.writer.offset_bytes
    store.batch(commands[50:52])
    end = store.writer.offset_bytes
    store.close(mark=False)
    clean = store.path.read_bytes()
    states = {}
    for count in (50, 51, 52):
        engine = Engine()
        engine.run(b"".join(commands[:count]))
        states[count] = summary(engine)

    for cut in range(start, end):
        data_dir = tmp_path / f"{cut}"
        (data_dir / "wal").mkdir(parents=True)
        path = storage.segment_path(data_dir, 1)
        keep = clean[:cut]
        path.write_bytes(keep if shape == "truncated" else keep.ljust(len(clean), b"\0"))
        crashed = Store(data_dir, 16384)
        kept = crashed.recovered.last_wal_seq
        whole = 50 + (cut >= start + 64 + 88) + (cut >= end)
        assert kept == whole, cut
        assert summary(crashed.engine) == states[kept], cut
        if crashed.recovered.torn_path:
            offset = crashed.recovered.offset_bytes
            torn = keep[offset : offset + crashed.recovered.torn_bytes]
            assert crashed.recovered.torn_path.read_bytes() == torn
            assert not any(keep[offset + len(torn) :])
        crashed.batch(commands[kept : kept + 1])
        crashed.batch(commands[kept + 1 : kept + 2], sync=False)
        crashed.close(mark=False)
        result = replay(data_dir)
        assert result.last_wal_seq == kept + 2
        assert not result.torn_tail
        assert summary(result.engine) == summary(crashed.engine)
        shutil.rmtree(data_dir)


def test_damage_is_refused_with_its_place_and_nothing_is_touched(tmp_path):
    """W2 through recovery: a flip in each kind of byte of a record and its batch's header."""
    store = Store(tmp_path, 16384)
    for number in range(6):
        store.batch(random_commands(7, 60)[number * 10 : number * 10 + 10])
    store.close()
    clean = store.path.read_bytes()
    found = list(segment.records(store.path))
    record = found[25]
    header = found[20].offset_bytes - layout.BATCH_HEADER_SIZE
    places = [(byte, record) for byte in range(record.offset_bytes, record.offset_bytes + 88)]
    places += [(byte, found[20]) for byte in range(header, header + 64)]

    for byte, expected in places:
        content = bytearray(clean)
        content[byte] ^= 1 << random.Random(byte).randrange(8)
        store.path.write_bytes(content)
        before = tree(tmp_path)
        with pytest.raises(CorruptError) as error:
            recover(tmp_path)
        assert error.value.path == store.path
        assert error.value.sequence == expected.wal_seq
        assert str(error.value.offset_bytes) in str(error.value)
        assert "restore the file from a copy" in str(error.value)
        assert tree(tmp_path) == before


def test_crash_at_each_step_of_the_cut_leaves_the_same_log(tmp_path, monkeypatch):
    """C5: stop after every call that writes, then recover again."""
    store = Store(tmp_path / "made", 16384)
    store.run(random_commands(8, 40))
    store.close(mark=False)
    with store.path.open("r+b") as file:
        file.seek(store.writer.offset_bytes - 50)
        file.write(b"\x77")
    expected = recover(store.data_dir, dry_run=True)
    calls = ["pwrite", "fsync", "ftruncate", "fdatasync", "close"]
    step = 0
    finished = False
    while not finished:
        data_dir = tmp_path / f"step-{step}"
        shutil.copytree(store.data_dir, data_dir)
        count = [0]
        with monkeypatch.context() as patch:

            def stopping(real, count=count, limit=step):
                def call(*args):
                    if count[0] == limit:
                        raise KeyboardInterrupt
                    count[0] += 1
                    return real(*args)

                return call

            for name in calls:
                patch.setattr(os, name, stopping(getattr(os, name)))
            try:
                recover(data_dir, preallocate_bytes=16384)
                finished = True
            except KeyboardInterrupt:
                pass
        again = recover(data_dir, preallocate_bytes=16384)
        assert summary(again.engine) == summary(expected.engine), step
        assert again.offset_bytes == expected.offset_bytes
        assert recover(data_dir).torn_bytes == 0
        torn = [path for path in (data_dir / "wal").iterdir() if path.suffix == ".torn"]
        assert len(torn) == 1
        step += 1
    assert step > 8


def test_snapshot_and_tail_equal_the_full_replay_queue_order_included(tmp_path):
    """S6: and the next thousand commands give the same events."""
    commands = random_commands(31, 6000)
    store = Store(tmp_path)
    store.run(commands[:3000])
    store.snapshot()
    store.run(commands[3000:5000])
    store.close()

    recovered = recover(tmp_path)
    full = replay(tmp_path).engine

    assert recovered.snapshot_seq == 3001
    assert recovered.records_replayed == 2000
    assert recovered.records_checked == 5001
    assert not recovered.snapshots_skipped
    assert "restored" in recovered.report
    assert summary(recovered.engine) == summary(full) == summary(store.engine)
    recovered.engine.check()
    for command in commands[5000:]:
        assert recovered.engine.apply(command) == full.apply(command)
    assert summary(recovered.engine) == summary(full)


def test_damaged_snapshot_falls_back_to_the_older_one_then_to_the_whole_log(tmp_path):
    """S5: flips in every section, loudly."""
    store = Store(tmp_path)
    commands = random_commands(41, 900)
    store.run(commands[:300])
    first = store.snapshot()
    store.run(commands[300:600])
    second = store.snapshot()
    store.run(commands[600:])
    store.close()
    expected = summary(store.engine)
    clean = second.read_bytes()
    size = len(clean)
    assert recover(tmp_path).snapshot_path == second
    places = sorted({*range(0, 192, 3), *range(192, size, max(1, size // 150)), size - 8, size - 1})

    for byte in places:
        content = bytearray(clean)
        content[byte] ^= 0x20
        second.write_bytes(content)
        recovered = recover(tmp_path, dry_run=True)
        assert recovered.snapshot_path == first, byte
        assert recovered.snapshots_skipped[0][0] == second
        assert str(second) in recovered.report
        assert summary(recovered.engine) == expected
    for cut in (0, 10, 191, 200, size // 2, size - 1):
        second.write_bytes(clean[:cut])
        assert recover(tmp_path, dry_run=True).snapshot_path == first
    first.write_bytes(first.read_bytes()[:-1])
    recovered = recover(tmp_path)
    assert recovered.snapshot_path is None
    assert len(recovered.snapshots_skipped) == 2
    assert recovered.records_replayed == recovered.last_wal_seq == 902
    assert summary(recovered.engine) == expected


def test_snapshot_whose_orders_are_not_those_of_its_digest_is_not_used(tmp_path):
    """Every checksum is right and the content is not: the engine recomputes the digest."""
    store = Store(tmp_path)
    store.run(random_commands(42, 300))
    path = store.snapshot()
    store.close()
    loaded = snapshot.load(path)
    orders = bytearray(loaded.orders)
    orders[24] ^= 1  # open quantity of the first order
    changed = snapshot.Snapshot(
        loaded.store_id, loaded.state, loaded.instruments, loaded.sessions, bytes(orders)
    )
    snapshot.write(tmp_path, changed)

    recovered = recover(tmp_path)

    assert recovered.snapshot_path is None
    assert len(recovered.snapshots_skipped) == 1
    assert summary(recovered.engine) == summary(store.engine)


def test_snapshot_newer_than_the_log_is_refused(tmp_path):
    """S3: the log was lost or comes from a backup."""
    store = Store(tmp_path)
    store.run(random_commands(43, 100))
    store.close(mark=False)
    old = store.path.read_bytes()
    store = Store(tmp_path)
    store.run(random_commands(43, 200)[100:])
    store.snapshot()
    store.close()
    store.path.write_bytes(old)
    before = tree(tmp_path)

    with pytest.raises(JournalError, match="taken after record 201, but the log ends with"):
        recover(tmp_path)
    assert tree(tmp_path) == before
    store.path.unlink()
    with pytest.raises(JournalError, match="but no log"):
        recover(tmp_path)


def test_foreign_snapshot_is_skipped_loudly(tmp_path):
    other = Store(tmp_path / "other")
    other.run(random_commands(44, 100))
    path = other.snapshot()
    other.close()
    store = Store(tmp_path / "mine")
    store.run(random_commands(45, 300))
    store.close()
    (store.data_dir / "snapshots").mkdir()
    shutil.copy(path, store.data_dir / "snapshots" / path.name)

    recovered = recover(store.data_dir)

    assert recovered.snapshot_path is None
    assert "another data directory" in recovered.report


def test_gap_between_snapshot_and_log_is_refused(tmp_path):
    """S2: the first segment that is left starts after the snapshot's end."""
    store = Store(tmp_path)
    store.run(random_commands(46, 100))
    store.snapshot()
    store.close()
    header = layout.SegmentHeader(store.recovered.store_id, 2, 500, 1)
    segment.create_segment(storage.segment_path(tmp_path, 2, 500), header, 8192)
    store.path.unlink()

    with pytest.raises(JournalError, match="gap"):
        recover(tmp_path)


def test_end_that_reads_differently_after_the_sync_is_not_believed(tmp_path, monkeypatch):
    """A failed sync: the cache shows a record that the disk does not have."""
    store = Store(tmp_path)
    store.run(random_commands(47, 50))
    kept = store.writer.offset_bytes
    store.batch(random_commands(47, 60)[50:], sync=False)
    store.close(mark=False)
    real = storage.DataFile.forget_cached

    def forget(self, offset_bytes):
        with self.path.open("r+b") as file:
            file.seek(kept)
            file.write(bytes(store.writer.offset_bytes - kept))
        real(self, offset_bytes)

    monkeypatch.setattr(storage.DataFile, "forget_cached", forget)

    recovered = recover(tmp_path)

    assert recovered.last_wal_seq == 50
    assert recovered.torn_bytes == 0


def test_random_crashes_over_many_lives_keep_every_durable_command(tmp_path, no_sync):
    """A directory lives on through 40 crashes; each time the durable prefix is there, in order."""
    generator = random.Random(99)
    commands = random_commands(99, 3000)
    done = 0
    for life in range(40):
        store = Store(tmp_path, 32768)
        assert store.recovered.last_wal_seq >= done, life
        position = store.recovered.last_wal_seq
        for _ in range(generator.randrange(1, 5)):
            count = generator.randrange(0, 12)
            store.batch(commands[position : position + count])
            position += count
        done = position
        synced_end = store.writer.offset_bytes
        count = generator.randrange(1, 20)
        store.batch(commands[position : position + count], sync=False)
        end = store.writer.offset_bytes
        store.close(mark=False)
        content = bytearray(store.path.read_bytes())
        low = generator.randrange(synced_end, end + 1)
        high = generator.choice([low, end, min(end, (low // 512 + 1) * 512)])
        content[low:high] = bytes(high - low)
        store.path.write_bytes(content)

    recovered = recover(tmp_path)
    reference = Engine()
    reference.run(b"".join(commands[: recovered.last_wal_seq]))
    assert summary(recovered.engine) == summary(reference)


@pytest.mark.parametrize("kind", ["new", "torn"])
def test_every_failing_call_is_one_sentence_and_harmless(tmp_path, monkeypatch, kind):
    """D2: the n-th call fails, for every n, until a run sees no failure."""
    origin = tmp_path / "origin"
    if kind == "torn":
        store = Store(origin, 16384)
        store.run(random_commands(9, 40))
        store.close(mark=False)
        with store.path.open("r+b") as file:
            file.truncate(store.writer.offset_bytes - 50)
    expected = recover(origin, dry_run=True)
    names = ["open", "pwrite", "fsync", "fdatasync", "ftruncate", "rename", "preadv", "mkdir"]
    limit = 0
    failed = True
    while failed:
        data_dir = tmp_path / f"{limit}"
        if kind == "torn":
            shutil.copytree(origin, data_dir)
        count = [0]
        failed = False
        with monkeypatch.context() as patch:

            def failing(real, count=count, limit=limit):
                def call(*args, **options):
                    count[0] += 1
                    if count[0] == limit + 1:
                        raise OSError(5, "Input/output error")
                    return real(*args, **options)

                return call

            for name in names:
                patch.setattr(os, name, failing(getattr(os, name)))
            try:
                recover(data_dir, preallocate_bytes=16384)
            except BourseError as error:
                failed = True
                assert "Input/output error" in str(error), limit
        again = recover(data_dir, preallocate_bytes=16384)
        assert summary(again.engine) == summary(expected.engine), limit
        assert recover(data_dir).torn_bytes == 0
        limit += 1
    assert limit > 7


@pytest.mark.parametrize("is_made", [True, False])
def test_the_names_that_a_killed_start_left_in_the_cache_are_made_durable(
    tmp_path, monkeypatch, is_made
):
    synced = []
    data_dir = tmp_path / "data"
    storage.make_directory(data_dir / "wal")
    if is_made:
        # A start that ends after the first segment's rename, before the sync of its directory.
        with monkeypatch.context() as patch:
            patch.setattr(storage, "sync_directory", lambda path: None)
            recover(data_dir, preallocate_bytes=65536)
    monkeypatch.setattr(storage, "sync_directory", synced.append)

    recover(data_dir, preallocate_bytes=65536)

    assert {tmp_path, data_dir, data_dir / "wal"} <= set(synced)
