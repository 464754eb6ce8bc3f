"""The compiled writer against a slow plain-Python twin, byte by byte, and its states."""

import random
import struct

import crcmod.predefined
import pytest

from bourse.journal import format as layout
from bourse.journal.writer import FAILED, IDLE, OPEN, PENDING, JournalWriter

REFERENCE = crcmod.predefined.mkPredefinedCrcFun("crc-32c")
STORE = bytes(range(16))


class TwinWriter:
    """The specification of bourse/journal/format.py, read again and written slowly."""

    def __init__(self, store_id, segment_index, offset, chain, next_seq):
        self.seed = REFERENCE(store_id + struct.pack("<Q", segment_index))
        self.offset, self.chain, self.next_seq = offset, chain, next_seq
        self.durable = (next_seq - 1, offset)

    def batch(self, entries):
        first, before, body = self.next_seq, self.chain, b""
        for command, digests in entries:
            kind = 2 if self.next_seq % 1000 == 0 else 1
            tail = command + (struct.pack("<QQQ", *digests) if kind == 2 else b"")
            length = struct.pack("<I", 24 + len(tail))
            rest = struct.pack("<QHHI", self.next_seq, 1, kind, 0) + tail
            self.chain = REFERENCE(length + rest, self.chain)
            body += length + struct.pack("<I", self.chain) + rest
            self.next_seq += 1
        head = struct.pack(
            "<QQIIQQIIQ", self.offset, first, len(entries), len(body), *self.durable, before, 0, 0
        )
        crc = REFERENCE(head, self.seed)
        block = b"BTCH" + struct.pack("<I", crc) + head + body
        offset = self.offset
        self.offset += len(block)
        return offset, block, self.next_seq - 1

    def synced(self):
        self.durable = (self.next_seq - 1, self.offset)


@pytest.mark.parametrize("seed", range(5))
def test_bytes_equal_the_slow_twin(seed):
    generator = random.Random(seed)
    start = generator.choice([1, 990, 2**40 - 3])
    writer = JournalWriter(STORE, 3, 4096 + 8 * seed, 77, start)
    twin = TwinWriter(STORE, 3, 4096 + 8 * seed, 77, start)

    for _ in range(60):
        entries = [
            (generator.randbytes(64), tuple(generator.getrandbits(64) for _ in range(3)))
            for _ in range(generator.choice([0, 1, 2, 50]))
        ]
        assert writer.begin()
        for command, digests in entries:
            assert writer.add(command, *digests)
        assert writer.end() == twin.batch(entries)
        writer.note_written()
        if generator.random() < 0.5:
            writer.note_synced()
            twin.synced()
    assert writer.chain_crc == twin.chain


def test_full_buffer_refuses_and_the_batch_stays_good():
    writer = JournalWriter(STORE, 1, 4096, 0, 1, 4096)
    twin = TwinWriter(STORE, 1, 4096, 0, 1)
    writer.begin()
    count = 0

    while writer.add(bytes(64)):
        count += 1

    assert count == (4096 - 64) // 88
    assert writer.end() == twin.batch([(bytes(64), ())] * count)


def test_states_and_sequences_move_as_written_and_synced_say():
    writer = JournalWriter(STORE, 1, 4096, 0, 1)
    assert writer.stage == IDLE
    assert not writer.is_mark_wanted()
    assert writer.begin()
    assert writer.stage == OPEN
    writer.add(bytes(64))
    writer.end()
    assert writer.stage == PENDING
    assert not writer.begin()
    assert (writer.written_seq, writer.durable_seq) == (0, 0)
    writer.note_written()
    assert (writer.written_seq, writer.durable_seq) == (1, 0)
    assert not writer.is_mark_wanted()
    writer.note_synced()
    assert (writer.written_seq, writer.durable_seq) == (1, 1)
    assert (writer.written_bytes, writer.durable_bytes) == (4248, 4248)
    assert writer.is_mark_wanted()
    writer.begin()
    offset, block, last = writer.end()
    assert (offset, len(block), last) == (4248, 64, 1)
    fields = layout.BATCH_HEADER.unpack(block)
    assert fields[2:8] == (4248, 2, 0, 0, 1, 4248)
    writer.note_written()
    assert not writer.is_mark_wanted()


def test_failure_is_final():
    writer = JournalWriter(STORE, 1, 4096, 0, 1)
    writer.note_failed()
    assert writer.stage == FAILED
    assert not writer.begin()
    with pytest.raises(ValueError, match="no batch"):
        writer.end()


@pytest.mark.parametrize(
    "arguments",
    [
        (b"short", 1, 4096, 0, 1),
        (STORE, 0, 4096, 0, 1),
        (STORE, 1, 4095, 0, 1),
        (STORE, 1, 4100, 0, 1),
        (STORE, 1, 4096, 0, 0),
        (STORE, 1, 4096, 0, 1, 100),
    ],
)
def test_arguments_out_of_range_are_refused(arguments):
    with pytest.raises(ValueError, match=r"bytes|numbered"):
        JournalWriter(*arguments)
