"""Snapshots: written whole or not at all, and only believed when every byte is right."""

from __future__ import annotations

import os

import pytest

from bourse.core.engine import Engine
from bourse.core.records import unpack_order_records
from bourse.errors import JournalError
from bourse.journal import snapshot, storage
from bourse.journal.image import sort_by_priority
from tests.journal.logs import STORE, random_commands
from tests.journal.stores import image_of, summary


def made(seed=5, count=800):
    engine = Engine()
    engine.run(b"".join(random_commands(seed, count)))
    return engine


def test_round_trip_gives_an_equal_engine(tmp_path):
    engine = made()

    path = snapshot.write(tmp_path, image_of(engine, STORE))
    loaded = snapshot.load(path)
    restored = Engine()
    restored.restore(loaded.state, loaded.instruments, loaded.sessions, loaded.orders)

    assert path == tmp_path / "snapshots" / "snapshot-00000000000000000800.snap"
    assert loaded.store_id == STORE
    assert loaded.wal_seq == 800
    assert loaded.digests == (engine.state_digest, engine.event_digest, engine.event_seq)
    assert loaded.live_order_count == engine.live_order_count > 0
    assert summary(restored) == summary(engine)
    restored.check()


def test_empty_engine_round_trips(tmp_path):
    engine = Engine()
    loaded = snapshot.load(snapshot.write(tmp_path, image_of(engine, STORE)))
    restored = Engine()
    restored.restore(loaded.state, loaded.instruments, loaded.sessions, loaded.orders)
    assert summary(restored) == summary(engine)


def test_orders_are_sorted_by_priority(tmp_path):
    image = image_of(made(), STORE)
    orders = [image.orders[at : at + 64] for at in range(0, len(image.orders), 64)]
    shuffled = b"".join(orders[::2] + orders[1::2][::-1])
    assert shuffled != image.orders

    path = snapshot.write(
        tmp_path,
        snapshot.Snapshot(STORE, image.state, image.instruments, image.sessions, shuffled),
    )

    loaded = snapshot.load(path).orders
    priorities = [one.priority for one in unpack_order_records(loaded)]
    assert priorities == sorted(priorities)
    assert sort_by_priority(b"") == b""
    with pytest.raises(ValueError, match="whole number"):
        sort_by_priority(b"123")


def test_two_daemons_with_equal_books_write_equal_files(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first = snapshot.write(tmp_path / "a", image_of(made(), STORE))
    second = snapshot.write(tmp_path / "b", image_of(made(), STORE))
    assert first.read_bytes() == second.read_bytes()


def test_every_flipped_bit_of_the_file_is_found(tmp_path):
    content = snapshot.write(tmp_path, image_of(made(6, 60), STORE)).read_bytes()
    snapshot.decode(content)

    for byte in range(len(content)):
        changed = bytearray(content)
        changed[byte] ^= 1 << (byte % 8)
        with pytest.raises(snapshot.SnapshotError):
            snapshot.decode(bytes(changed))


@pytest.mark.parametrize("fault", ["state", "count", "instruments"])
def test_parts_that_do_not_belong_together_are_not_written(tmp_path, fault):
    image = image_of(made(), STORE)
    parts = [STORE, image.state, image.instruments, image.sessions, image.orders]
    if fault == "state":
        parts[1] = parts[1][:-1]
    elif fault == "count":
        parts[4] = parts[4][64:]
    else:
        parts[2] = b""

    with pytest.raises(ValueError, match=r"size|orders|instruments"):
        snapshot.write(tmp_path, snapshot.Snapshot(*parts))
    assert storage.list_snapshots(tmp_path) == []


def test_a_disk_that_refuses_the_directory_is_a_disk_that_refuses(tmp_path, monkeypatch):
    def refuse(path):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(storage, "sync_directory", refuse)

    with pytest.raises(JournalError, match=r"cannot make .*snapshots: .*Input/output error"):
        snapshot.write(tmp_path, image_of(made(), STORE))


def test_failing_disk_leaves_the_older_snapshot_and_no_rest(tmp_path, monkeypatch):
    """S1: fail the n-th write, sync or close, for every n."""
    snapshot.write(tmp_path, image_of(made(7, 100), STORE))
    before = storage.list_snapshots(tmp_path)
    newer = image_of(made(7, 200), STORE)
    for limit in range(100):
        count = [0]
        with monkeypatch.context() as patch:

            def failing(real, count=count, limit=limit):
                def call(*args):
                    count[0] += 1
                    if count[0] == limit + 1:
                        raise OSError(28, "No space left on device")
                    return real(*args)

                return call

            patch.setattr(os, "pwrite", failing(os.pwrite))
            patch.setattr(os, "fsync", failing(os.fsync))
            try:
                snapshot.write(tmp_path, newer)
                break
            except JournalError as error:
                assert "No space" in str(error)
        listed = storage.list_snapshots(tmp_path)
        for path in listed:
            snapshot.load(path)
        assert before[0] in listed
        assert [path for path in (tmp_path / "snapshots").iterdir() if path.suffix == ".new"] == []
    assert limit > 4
    assert len(storage.list_snapshots(tmp_path)) == 2


def test_newest_is_listed_first_and_other_names_are_ignored(tmp_path):
    for count in (30, 9, 120):
        snapshot.write(tmp_path, image_of(made(8, count), STORE))
    (tmp_path / "snapshots" / "snapshot-1.snap").write_text("")
    (tmp_path / "snapshots" / "snapshot-00000000000000000999.snap.new").write_text("")

    listed = storage.list_snapshots(tmp_path)

    assert [storage.snapshot_seq_of(path) for path in listed] == [120, 30, 9]


def test_snapshot_under_another_number_is_not_believed(tmp_path):
    path = snapshot.write(tmp_path, image_of(made(8, 30), STORE))
    renamed = path.rename(storage.snapshot_path(tmp_path, 31))
    with pytest.raises(snapshot.SnapshotError, match="its name says 31"):
        snapshot.load(renamed)


@pytest.mark.parametrize("is_empty", [True, False])
def test_a_huge_file_is_refused_without_reading_it(tmp_path, is_empty):
    path = snapshot.write(tmp_path, image_of(made(), STORE))
    if is_empty:
        path.write_bytes(b"")
    os.truncate(path, 1 << 40)  # a hole; no machine of ours could hold it

    with pytest.raises(snapshot.SnapshotError):
        snapshot.load(path)
