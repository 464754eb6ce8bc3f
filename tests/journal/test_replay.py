"""Replay: the same commands give the same books and the same event stream."""

from __future__ import annotations

import os

import pytest

from bourse.core.engine import Engine
from bourse.core.records import Command
from bourse.domain import Reason
from bourse.errors import CorruptError, JournalError, UsageError
from bourse.journal import format as layout
from bourse.journal import snapshot, storage
from bourse.journal.apply import EVENTS_MAX
from bourse.journal.recovery import recover
from bourse.journal.replay import replay
from bourse.journal.storage import DataLock
from bourse.journal.writer import JournalWriter
from tests.journal.logs import new_log, random_commands
from tests.journal.stores import Store, image_of, summary, tree


def test_ten_thousand_random_commands_live_and_replayed_are_equal(tmp_path):
    """Books, queues, digests and the whole event stream, byte by byte."""
    store = Store(tmp_path)
    store.run(random_commands(11, 10_000))
    store.close()
    before = tree(tmp_path)
    parts = []
    seen = []

    result = replay(
        tmp_path, progress=lambda done, total: seen.append((done, total)), on_events=parts.append
    )

    assert b"".join(parts) == store.events
    assert summary(result.engine) == summary(store.engine)
    result.engine.check()
    assert result.records == result.last_wal_seq == 10_000
    assert (result.state_digest, result.event_digest) == (
        store.engine.state_digest,
        store.engine.event_digest,
    )
    assert result.events == store.engine.event_seq > 5000
    assert result.resting_orders == store.engine.live_order_count > 10
    assert (result.best_bid, result.best_ask) == (store.engine.best_bid(), store.engine.best_ask())
    assert not result.torn_tail
    assert not result.live
    assert result.bytes_read == store.writer.offset_bytes
    assert seen[-1][0] == seen[-1][1]
    assert tree(tmp_path) == before
    # The same by the segment's path, and without looking at the events.
    again = replay(store.path)
    assert (again.records, again.event_digest) == (result.records, result.event_digest)
    assert summary(again.engine) == summary(result.engine)


def test_a_halt_is_there_after_replay_snapshot_and_recovery(tmp_path):
    store = Store(tmp_path)
    store.run(random_commands(12, 50))
    order = Command(1, 1, 1, 0, 1, 2, 0, 4711, 0, 1, 1)
    halt = Command(8, session_id=1, instrument_id=1)
    store.batch([order.pack(), halt.pack()])
    store.snapshot()
    store.close()
    replayed = replay(tmp_path).engine
    recovered = recover(tmp_path, preallocate_bytes=65536)

    for engine in (replayed, recovered.engine):
        assert summary(engine) == summary(store.engine)
        head = engine.apply(order._replace(client_order_id=4712).pack())[:64]
        assert head[1] == Reason.HALTED
    assert recovered.snapshot_seq == 53


def test_events_of_one_command_that_overflow_the_window_all_come(tmp_path):
    store = Store(tmp_path, 1 << 20)
    symbol = int.from_bytes(b"TEST", "little")
    orders = 2 * EVENTS_MAX + 100
    commands = [
        Command(kind=7, instrument_id=1, client_order_id=symbol),
        Command(kind=5, session_id=2),
    ]
    commands += [Command(1, 2, 1, 0, 1, 2, 0, number, 0, 100, 1) for number in range(1, orders + 1)]
    commands.append(Command(1, 1, 1, 0, 1, 2, 0, orders + 1, 0, 100, orders))
    store.batch([one.pack() for one in commands])
    store.close()
    parts = []

    result = replay(tmp_path, on_events=parts.append)

    assert b"".join(parts) == store.events
    assert result.resting_orders == 0
    assert replay(tmp_path).event_digest == result.event_digest


def test_torn_tail_is_said_and_not_cut(tmp_path):
    store = Store(tmp_path)
    store.run(random_commands(1, 50))
    store.close(mark=False)
    content = store.path.read_bytes()[: store.writer.offset_bytes - 3]
    store.path.write_bytes(content)

    result = replay(tmp_path)

    assert result.torn_tail
    assert result.last_wal_seq == 49
    assert result.end_found
    assert store.path.read_bytes() == content


def test_beside_a_daemon_it_takes_no_lock_and_says_live(tmp_path):
    with DataLock(tmp_path):
        store = Store(tmp_path)
        store.run(random_commands(2, 30))
        # The daemon is in the middle of a write.
        store.writer.begin()
        store.writer.add(random_commands(2, 31)[30])
        where, block, _ = store.writer.end()
        storage.write_all(store.fd, block[:100], where)

        for path in (tmp_path, store.path, tmp_path / "wal"):
            result = replay(path)
            assert result.live
            assert not result.torn_tail
            assert result.last_wal_seq == 30
    store.close(mark=False)
    assert not replay(tmp_path).live


def test_digests_of_a_checkpoint_are_compared(tmp_path):
    """A log whose bytes are good and whose digests are not those of its commands."""
    log = new_log(storage.segment_path(tmp_path, 1), 1 << 18)
    log.batch(999)
    log.batch(5)
    log.close()

    with pytest.raises(CorruptError, match="digests") as error:
        replay(tmp_path)

    assert error.value.sequence == 1000
    assert error.value.offset_bytes == {r[0]: r[1] for r in log.records}[1000]


def test_digests_of_snapshots_are_compared_where_they_were_taken(tmp_path):
    store = Store(tmp_path)
    commands = random_commands(3, 900)
    store.run(commands[:400])
    store.snapshot()
    store.run(commands[400:])
    store.close()
    assert replay(tmp_path).snapshots_compared == 1

    other = Engine()
    other.run(b"".join(random_commands(4, 401)))
    snapshot.write(tmp_path, image_of(other, store.recovered.store_id))

    with pytest.raises(CorruptError, match="snapshot") as error:
        replay(tmp_path)
    assert error.value.sequence == 401


def test_starts_from_the_oldest_snapshot_if_earlier_segments_are_gone(tmp_path):
    store = Store(tmp_path)
    commands = random_commands(5, 1200)
    store.run(commands[:500])
    store.snapshot()
    store.batch([])
    engine, writer = store.engine, store.writer
    # What rotation will do: a second segment that carries number and chain over.
    second = new_log(
        storage.segment_path(tmp_path, 2, 502),
        1 << 18,
        2,
        writer.next_wal_seq,
        writer.chain_crc,
        store.recovered.store_id,
    )
    second.writer = JournalWriter(
        store.recovered.store_id, 2, 4096, writer.chain_crc, writer.next_wal_seq
    )
    second.writer.begin()
    for command in commands[500:]:
        second.writer.add(command, engine.state_digest, engine.event_digest, engine.event_seq)
        engine.apply(command)
    where, block, _ = second.writer.end()
    storage.write_all(second.fd, block, where)
    second.close()
    store.close(mark=False)

    whole = replay(tmp_path)
    assert whole.records == 1201
    assert whole.segment_count == 2
    with pytest.raises(UsageError, match="cannot be replayed alone"):
        replay(second.path)
    store.path.unlink()
    part = replay(tmp_path)

    assert part.snapshot_path is not None
    assert part.records == 700
    assert summary(part.engine) == summary(whole.engine) == summary(engine)
    part.snapshot_path.unlink()
    with pytest.raises(JournalError, match="no valid snapshot"):
        replay(tmp_path)


def test_an_empty_log_is_replayed_to_an_empty_book(tmp_path):
    """What a crash between the first segment and the first record leaves."""
    recover(tmp_path, preallocate_bytes=4096)

    result = replay(tmp_path)

    assert (result.last_wal_seq, result.best_bid, result.best_ask) == (0, None, None)


def test_what_is_no_log_is_one_sentence(tmp_path):
    with pytest.raises(UsageError, match="does not exist"):
        replay(tmp_path / "nothing")
    with pytest.raises(UsageError, match="holds no log"):
        replay(tmp_path)
    text = tmp_path / "text"
    for content in (b"hello", b"x" * layout.SEGMENT_HEADER_SIZE):
        text.write_bytes(content)
        with pytest.raises(UsageError, match="is no log of bourse"):
            replay(text)
        named = tmp_path / "wal-00000001-00000000000000000001.log"
        named.write_bytes(content)
        with pytest.raises(CorruptError, match="inside its header|does not start with"):
            replay(named)
    text.write_bytes(layout.SEGMENT_MAGIC)
    with pytest.raises(CorruptError, match="ends inside its header"):
        replay(text)


def test_a_pipe_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(JournalError, match="is a pipe"):
        replay(tmp_path / "pipe")


def test_a_command_that_is_never_logged_is_refused(tmp_path):
    log = new_log(storage.segment_path(tmp_path, 1))
    log.batch(1, commands=[Command(kind=128).pack()])
    log.close()

    with pytest.raises(CorruptError, match="never logged"):
        replay(tmp_path)
