"""Segments: how one follows another, and what a crash or a hand may do to them."""

from __future__ import annotations

import os
import random
import shutil
import struct

import pytest

from bourse.errors import BourseError, CorruptError, JournalError
from bourse.journal import format as layout
from bourse.journal import segment, storage
from bourse.journal.recovery import recover
from bourse.journal.replay import replay
from bourse.journal.writer import JournalWriter
from tests.journal.logs import STORE, command, random_commands
from tests.journal.stores import Store, summary, tree

SEGMENT = 16384


def made(data_dir, count=3, each=40):
    """A directory with `count` segments of `each` records, the last one ending without a mark."""
    store = Store(data_dir, SEGMENT)
    stream = random_commands(31, count * each)
    for index in range(count):
        if index:
            store.rotate()
        store.run(stream[index * each : (index + 1) * each], batch_max=20)
    store.close(mark=False)
    return store


def test_the_first_batch_of_a_segment_carries_its_header():
    writer = JournalWriter(STORE, 1, 4096, layout.initial_chain_crc(STORE), 1)
    writer.begin()
    writer.add(command(1))
    _, block, _ = writer.end()
    writer.note_written()
    assert writer.plan(3)
    assert not writer.plan(4), "one is planned"
    assert writer.begin()
    assert writer.add(command(2))
    assert not writer.add(command(3)), "record 3 belongs to the next segment"
    _, block, last = writer.end()
    assert last == 2
    writer.note_written()
    assert writer.is_due
    assert not writer.begin(), "this segment is not durable yet"
    writer.note_synced()
    chain = struct.unpack_from("<I", block, layout.BATCH_HEADER_SIZE + 4)[0]

    assert writer.begin()
    assert writer.add(command(3))
    offset, block, last = writer.end()

    assert (offset, last, writer.segment_index, writer.rotation_seq) == (0, 3, 2, 0)
    header = layout.unpack_segment_header(block)
    assert header == layout.SegmentHeader(STORE, 2, 3, chain)
    assert block[:4096] == header.pack()
    batch = layout.BATCH_HEADER.unpack_from(block, 4096)
    # offset, first record, count, size, mark: record 2 and nothing of this file, chain
    assert batch[2:9] == (4096, 3, 1, 88, 2, 0, chain)
    writer.note_written()
    writer.note_synced()
    writer.begin()
    offset, block, _ = writer.end()
    assert offset == 4096 + 64 + 88
    assert layout.BATCH_HEADER.unpack_from(block)[6:8] == (3, offset)


def test_a_log_of_many_segments_is_one_log(tmp_path):
    store = made(tmp_path, 4)
    paths = storage.list_segments(tmp_path)
    assert [path.name for path in paths] == [
        f"wal-{index:08d}-{first:020d}.log" for index, first in [(1, 1), (2, 41), (3, 81), (4, 121)]
    ]

    whole = recover(tmp_path, dry_run=True)

    assert whole.segment_path == paths[-1]
    assert (whole.segment_count, whole.records_checked, whole.next_wal_seq) == (4, 160, 161)
    assert summary(whole.engine) == summary(store.engine)
    assert summary(replay(tmp_path).engine) == summary(store.engine)
    assert [one.wal_seq for one in segment.log_records(tmp_path)] == list(range(1, 161))
    again = Store(tmp_path, SEGMENT)
    again.run(random_commands(32, 30))
    again.rotate()
    again.run(random_commands(33, 30))
    again.close()
    assert summary(recover(tmp_path).engine) == summary(again.engine)


def test_early_names_without_the_first_record_are_read(tmp_path):
    store = made(tmp_path, 2)
    for path in storage.list_segments(tmp_path):
        path.rename(path.with_name(path.name[:12] + ".log"))
    assert [p.name for p in storage.list_segments(tmp_path)] == [
        "wal-00000001.log",
        "wal-00000002.log",
    ]
    assert summary(recover(tmp_path).engine) == summary(store.engine)


def test_any_crash_while_a_segment_is_begun_keeps_what_was_durable(tmp_path, no_sync):
    """Header and first batch are one write: any mixture of their sectors may have survived."""
    origin = tmp_path / "origin"
    store = Store(origin, SEGMENT)
    store.run(random_commands(34, 40), batch_max=10)
    path = store.rotate()
    before = path.read_bytes()
    store.batch(random_commands(35, 30), sync=False)
    store.close(mark=False)
    after = path.read_bytes()
    kept = recover(origin, dry_run=True)
    assert kept.next_wal_seq == 71
    generator = random.Random(36)
    last = 4096 + 64 + 30 * 88
    outcomes = set()
    for round_number in range(60):
        data_dir = tmp_path / str(round_number)
        shutil.copytree(origin, data_dir)
        content = bytearray(after)
        if round_number < 20:
            at = generator.randrange(0, last) if round_number else 0
            content[at:] = before[at:]
        else:
            for sector in range(last // 512 + 1):
                if generator.random() < 0.3:
                    content[sector * 512 : sector * 512 + 512] = bytes(512)
        (data_dir / "wal" / path.name).write_bytes(content)

        first = recover(data_dir, preallocate_bytes=SEGMENT)

        assert 41 <= first.next_wal_seq <= 71
        header_is_whole = bytes(content[:4096]) == after[:4096]
        outcomes.add((header_is_whole, first.next_wal_seq > 41))
        assert (first.unbegun is None) == header_is_whole
        assert first.segment_index == (2 if header_is_whole else 1)
        # What was there and is no log any more is kept beside it.
        torn = [p for p in (data_dir / "wal").iterdir() if p.suffix == ".torn"]
        assert bool(torn) == bool(first.torn_bytes or (first.unbegun and first.unbegun.torn_bytes))
        # The log goes on, and into a next segment.
        again = Store(data_dir, SEGMENT)
        again.run(random_commands(37, 20))
        again.rotate()
        again.run(random_commands(38, 20))
        again.close()
        last_one = recover(data_dir)
        assert last_one.next_wal_seq == first.next_wal_seq + 40
        assert summary(last_one.engine) == summary(again.engine)
        shutil.rmtree(data_dir)
    assert outcomes == {(True, True), (True, False), (False, False)}


def test_a_prepared_segment_that_was_not_begun_is_removed(tmp_path):
    store = Store(tmp_path, SEGMENT)
    store.run(random_commands(39, 40))
    path = store.name_next(ahead=100)
    store.run(random_commands(40, 10))
    store.close()
    spare = storage.spare_path(tmp_path, 3)
    spare.write_bytes(bytes(100))
    before = tree(tmp_path)

    assert recover(tmp_path, dry_run=True).next_wal_seq == 51
    assert replay(tmp_path).last_wal_seq == 50
    assert tree(tmp_path) == before
    recovered = recover(tmp_path)

    assert recovered.next_wal_seq == 51
    assert not path.exists()
    assert not spare.exists()
    assert "torn" not in recovered.report
    assert summary(recovered.engine) == summary(store.engine)


@pytest.mark.parametrize("with_mark", [True, False])
def test_a_header_that_was_durable_is_damage(tmp_path, no_sync, with_mark):
    """W3 for the header of the last segment: a batch header with a mark in this file proves it."""
    store = made(tmp_path, 2)
    if with_mark:
        store = Store(tmp_path, SEGMENT)
        store.close()
    path = storage.list_segments(tmp_path)[-1]
    good = path.read_bytes()
    proven = len({at for at in range(4096, len(good) - 64, 8) if good[at : at + 4] == b"BTCH"}) > 1
    assert proven
    for byte in [*range(0, 64, 5), 300, 4092, 4095]:
        bad = bytearray(good)
        bad[byte] ^= 4
        path.write_bytes(bad)
        before = tree(tmp_path)
        with pytest.raises(CorruptError) as error:
            recover(tmp_path)
        assert error.value.path == path
        assert tree(tmp_path) == before
    path.write_bytes(good)
    recover(tmp_path)


def test_segments_that_do_not_belong_together_are_refused(tmp_path, no_sync):
    """W5, each case in one sentence that names the file, with everything left as it was."""
    origin = tmp_path / "origin"
    made(origin, 4)
    paths = [path.name for path in storage.list_segments(origin)]
    other = tmp_path / "other"
    made(other, 4)

    def swap(wal):
        (wal / paths[1]).rename(wal / "x")
        (wal / paths[2]).rename(wal / paths[1])
        (wal / "x").rename(wal / paths[2])

    def twice(wal, name):
        shutil.copy(wal / paths[1], wal / name)

    cases = {
        "segment 2 is missing between": lambda wal: (wal / paths[1]).unlink(),
        "segment 3 is missing between": lambda wal: (wal / paths[2]).unlink(),
        "the log has a gap": lambda wal: (wal / paths[0]).unlink(),
        "named segment 5 and its header says 2": lambda wal: twice(
            wal, "wal-00000005-00000000000000000161.log"
        ),
        "begins with record 42, by its header with 41": lambda wal: twice(
            wal, "wal-00000002-00000000000000000042.log"
        ),
        "are both segment 2": lambda wal: twice(wal, "wal-00000002.log"),
        "named segment 2 and its header says 3": swap,
        "another data directory": lambda wal: shutil.copy(other / "wal" / paths[3], wal),
        "does not continue the segment before": lambda wal: cut_records(wal / paths[1]),
        "a later segment proves": lambda wal: flip_last_record(wal / paths[2]),
        "the file ends inside its header": lambda wal: os.truncate(wal / paths[3], 100),
    }
    for number, (sentence, harm) in enumerate(cases.items()):
        data_dir = tmp_path / str(number)
        shutil.copytree(origin, data_dir)
        harm(data_dir / "wal")
        before = tree(data_dir)
        for act in (recover, replay):
            with pytest.raises(JournalError, match=sentence) as error:
                act(data_dir)
            assert "wal-0" in str(error.value), sentence
        assert tree(data_dir) == before, sentence


def cut_records(path):
    """Zero the last batch, as if it had never been written."""
    data = bytearray(path.read_bytes())
    at = max(at for at in range(4096, len(data) - 64, 8) if data[at : at + 4] == b"BTCH")
    data[at:] = bytes(len(data) - at)
    path.write_bytes(data)


def flip_last_record(path):
    data = bytearray(path.read_bytes())
    end = max(at for at in range(len(data)) if data[at])
    data[end] ^= 1
    path.write_bytes(data)


def test_an_empty_last_segment_is_fine(tmp_path):
    store = Store(tmp_path, SEGMENT)
    store.run(random_commands(41, 40))
    store.rotate()
    store.batch([])
    store.close(mark=False)

    recovered = recover(tmp_path)

    assert recovered.segment_index == 2
    assert recovered.next_wal_seq == 41
    again = Store(tmp_path, SEGMENT)
    again.run(random_commands(42, 10))
    again.close()
    assert recover(tmp_path).next_wal_seq == 51


def test_what_the_snapshot_covers_is_not_read_and_may_be_gone(tmp_path):
    store = Store(tmp_path, SEGMENT)
    stream = random_commands(43, 200)
    store.run(stream[:50])
    store.rotate()
    store.run(stream[50:100])
    store.snapshot()  # record 101
    store.rotate()
    store.run(stream[100:150])
    store.rotate()
    store.run(stream[150:])
    store.close()
    paths = storage.list_segments(tmp_path)
    assert len(paths) == 4

    whole = recover(tmp_path)
    assert summary(whole.engine) == summary(store.engine)
    assert (whole.records_checked, whole.records_replayed) == (100, 100)
    flip_last_record(paths[0])
    assert summary(recover(tmp_path).engine) == summary(store.engine)
    paths[0].unlink()
    paths[1].unlink()
    part = recover(tmp_path)
    assert summary(part.engine) == summary(store.engine)
    assert part.first_wal_seq == 102
    assert replay(tmp_path).records == 100
    paths[2].unlink()
    with pytest.raises(JournalError, match="gap"):
        recover(tmp_path)


@pytest.mark.parametrize("until", [0, 1, 40, 41, 119, 120])
def test_replay_until_a_record(tmp_path, until):
    made(tmp_path, 3)
    alone = Store(tmp_path / "alone", SEGMENT)
    alone.run(random_commands(31, 120)[:until])
    alone.close()

    result = replay(tmp_path, until=until)

    assert (result.last_wal_seq, result.records) == (until, until)
    assert summary(result.engine) == summary(alone.engine)


def test_replay_until_needs_the_record(tmp_path):
    made(tmp_path, 2)
    with pytest.raises(BourseError, match="ends with record 80, before record 81"):
        replay(tmp_path, until=81)


def test_a_snapshot_newer_than_the_log_is_refused_unless_accepted(tmp_path):
    """S3: the log was lost or comes from an older copy; sequences never go back."""
    store = Store(tmp_path, SEGMENT)
    stream = random_commands(44, 200)
    store.run(stream[:60])
    old = tree(tmp_path / "wal")
    store.rotate()
    store.run(stream[60:100])
    store.snapshot()  # record 101
    store.close()
    for path in storage.list_segments(tmp_path):
        path.unlink()
    for name, content in old.items():
        (tmp_path / "wal" / name).write_bytes(content)
    before = tree(tmp_path)
    with pytest.raises(JournalError, match="--accept-snapshot-only") as error:
        recover(tmp_path)
    assert "record 60" in str(error.value)
    assert "record 101" in str(error.value)
    dry = recover(tmp_path, dry_run=True, accept_snapshot_only=True)
    assert dry.next_wal_seq == 102
    assert tree(tmp_path) == before

    recovered = recover(tmp_path, accept_snapshot_only=True, preallocate_bytes=SEGMENT)

    assert recovered.next_wal_seq == 102
    assert "accepted as asked" in recovered.report
    assert [path.name for path in (tmp_path / "archive").iterdir()] == list(old)
    again = Store(tmp_path, SEGMENT)  # without the flag from now on
    assert summary(again.engine) == summary(store.engine)
    again.run(stream[100:])
    again.close()
    assert recover(tmp_path).next_wal_seq == 202

    # No log at all.
    shutil.rmtree(tmp_path / "wal")
    with pytest.raises(JournalError, match="--accept-snapshot-only"):
        recover(tmp_path)
    recovered = recover(tmp_path, accept_snapshot_only=True, preallocate_bytes=SEGMENT)
    assert recovered.next_wal_seq == 102
    assert recover(tmp_path).next_wal_seq == 102


def test_crash_at_each_step_of_accepting_a_snapshot_leaves_a_way_on(tmp_path, monkeypatch):
    origin = tmp_path / "origin"
    store = Store(origin, SEGMENT)
    store.run(random_commands(45, 40))
    store.rotate()
    store.run(random_commands(46, 40))
    kept = storage.list_segments(origin)[1].read_bytes()
    store.snapshot()
    store.close()
    storage.list_segments(origin)[1].write_bytes(kept)
    calls = ["pwrite", "fsync", "rename", "mkdir", "close"]
    step, finished = 0, False
    while not finished:
        data_dir = tmp_path / f"step-{step}"
        shutil.copytree(origin, data_dir)
        left = [step]
        with monkeypatch.context() as patch:

            def stopping(real, left=left):
                def call(*args, **options):
                    if left[0] == 0:
                        raise KeyboardInterrupt
                    left[0] -= 1
                    return real(*args, **options)

                return call

            for name in calls:
                patch.setattr(os, name, stopping(getattr(os, name)))
            try:
                recover(data_dir, preallocate_bytes=SEGMENT, accept_snapshot_only=True)
                finished = True
            except KeyboardInterrupt:
                pass
        again = recover(data_dir, preallocate_bytes=SEGMENT, accept_snapshot_only=True)
        assert again.next_wal_seq == 82
        assert summary(again.engine) == summary(store.engine)
        assert recover(data_dir).next_wal_seq == 82
        step += 1
    assert step > 5


def test_a_log_has_more_segments_than_may_be_open(tmp_path, monkeypatch):
    made(tmp_path, count=9)
    whole = replay(tmp_path)
    opened = set()
    most = 0
    real_open, real_close = os.open, os.close

    def counting_open(path, *arguments, **options):
        nonlocal most
        fd = real_open(path, *arguments, **options)
        if str(path).endswith(".log"):
            opened.add(fd)
            most = max(most, len(opened))
        return fd

    def counting_close(fd):
        opened.discard(fd)
        real_close(fd)

    monkeypatch.setattr(segment, "OPEN_MAX", 3)
    monkeypatch.setattr(os, "open", counting_open)
    monkeypatch.setattr(os, "close", counting_close)
    assert replay(tmp_path).state_digest == whole.state_digest
    assert recover(tmp_path, dry_run=True).last_wal_seq == 360
    assert 3 < most <= 5  # the last one, and the one that is read
    assert not opened


def test_a_segment_that_is_replaced_while_the_log_is_read_is_not_taken_for_it(
    tmp_path, monkeypatch
):
    made(tmp_path, count=4)
    monkeypatch.setattr(segment, "OPEN_MAX", 1)
    paths = storage.list_segments(tmp_path)
    with segment.open_log(paths) as log:
        other = tmp_path / "other"
        shutil.copy(paths[1], other)
        other.replace(paths[1])
        with pytest.raises(JournalError, match="was replaced"):
            segment.walk_log(log, lambda scanner: scanner.run)


@pytest.mark.parametrize(
    ("what", "sentence"),
    [("directory", "is a directory"), ("pipe", "is a pipe"), ("link", "is a symbolic link")],
)
@pytest.mark.parametrize("which", [0, 1, 2])
def test_what_is_no_file_is_named_in_place_of_a_segment(tmp_path, what, sentence, which):
    data_dir = tmp_path / "data"
    made(data_dir)
    path = storage.list_segments(data_dir)[which]
    path.rename(tmp_path / "kept")
    if what == "directory":
        path.mkdir()
    elif what == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(tmp_path / "kept")

    for read in (recover, replay):
        with pytest.raises(JournalError, match=f"{path.name} {sentence}"):
            read(data_dir)


def test_what_is_in_the_way_of_the_next_segment_is_said_at_the_start(tmp_path):
    made(tmp_path)
    (tmp_path / "wal" / "wal-00000004.new").mkdir()

    with pytest.raises(JournalError, match=r"cannot remove the unfinished file .*00000004\.new"):
        recover(tmp_path)
