"""Torn tails are cut, damage is refused: the rule of bourse/journal/format.py at every byte."""

from __future__ import annotations

import hashlib
import os
import random
import shutil

import pytest

from bourse.errors import CorruptError
from bourse.journal import format as layout
from bourse.journal import segment, storage
from bourse.journal.crc32c import crc32c
from bourse.journal.segment import Ending
from bourse.journal.writer import JournalWriter
from tests.journal.logs import OTHER_STORE, STORE, command, new_log, read_log

PREALLOCATED = 16384


@pytest.fixture
def log(tmp_path):
    """Five batches of three records, each synced before the next; the last without a mark after."""
    made = new_log(tmp_path / "wal-00000001.log", PREALLOCATED)
    for _ in range(5):
        made.batch(3)
    yield made
    made.close()


def hash_of(path):
    return hashlib.sha256(path.read_bytes()).digest()


def damaged(log, edit):
    """Return a copy of the log's file with its bytes changed by `edit(bytearray)`."""
    copy = log.path.with_name("copy.log")
    content = bytearray(log.path.read_bytes())
    result = edit(content)
    copy.write_bytes(content if result is None else result)
    return copy


def poke(content, offset, patch):
    content[offset : offset + len(patch)] = patch


def test_whole_log_ends_cleanly(log):
    tail, sequences = read_log(log.path)

    assert sequences == list(range(1, 16))
    assert tail.ending is Ending.CLEAN
    assert (tail.offset_bytes, tail.next_wal_seq) == (log.end, 16)
    assert tail.chain_crc == log.writer.chain_crc


def test_records_iterator_yields_every_record_with_its_place(log):
    found = list(segment.records(log.path))

    assert [(r.wal_seq, r.offset_bytes) for r in found] == [r[:2] for r in log.records]
    assert [r.command for r in found] == [command(n) for n in range(1, 16)]


@pytest.mark.parametrize("shape", ["truncated", "zeroed"])
def test_torn_at_every_byte_keeps_the_whole_records_and_appends_survive(log, shape, no_sync):
    """W1 and L2: every cut inside the last batch; then append, and read all of it again."""
    start, size = log.batches[-1]
    clean = log.path.read_bytes()
    copy = log.path.with_name("wal-00000001.log.copy")

    for cut in range(start, start + size):
        keep = clean[:cut]
        copy.write_bytes(keep if shape == "truncated" else keep.ljust(PREALLOCATED, b"\0"))
        whole = [r for r in log.records if r[1] + r[2] <= cut]
        expected = [r[0] for r in whole]
        tail, sequences = read_log(copy)
        assert sequences == expected, cut
        assert (tail.ending is Ending.CLEAN) == (cut == start), cut

        if tail.torn_bytes:
            saved = storage.cut_tail(copy, tail.offset_bytes, tail.torn_bytes, PREALLOCATED)
            end = tail.offset_bytes + tail.torn_bytes
            assert saved.read_bytes() == copy_tail(keep, tail.offset_bytes, end)
            assert not any(copy.read_bytes()[tail.offset_bytes :])
            saved.unlink()
        writer = JournalWriter(STORE, 1, tail.offset_bytes, tail.chain_crc, tail.next_wal_seq)
        fd = storage.open_segment(copy)
        for _ in range(2):
            writer.begin()
            writer.add(command(777))
            where, block, _ = writer.end()
            storage.write_all(fd, block, where)
            writer.note_written()
            writer.note_synced()
        os.close(fd)
        again, sequences = read_log(copy)
        assert again.ending is Ending.CLEAN, cut
        assert sequences == [*expected, tail.next_wal_seq, tail.next_wal_seq + 1], cut


def copy_tail(content, start, end):
    return content[start:end].ljust(end - start, b"\0")


def test_flip_of_any_bit_before_the_last_batch_is_refused_with_its_place(log):
    """W2: every byte of a record, its batch's header and its neighbours; the file is untouched."""
    batch_start, batch_size = log.batches[2]
    places = {}
    for sequence, offset, size in log.records[6:9]:
        for byte in range(offset, offset + size):
            places[byte] = (offset, sequence)
    for byte in range(batch_start, batch_start + layout.BATCH_HEADER_SIZE):
        places[byte] = (batch_start, log.records[6][0])
    assert len(places) == batch_size

    for byte, (offset, sequence) in places.items():
        flip = 1 << (byte % 8)
        copy = damaged(log, lambda c, b=byte, f=flip: c.__setitem__(b, c[b] ^ f))
        before = hash_of(copy)
        with pytest.raises(CorruptError) as error:
            read_log(copy)
        assert error.value.path == copy
        assert error.value.offset_bytes == offset, byte
        assert error.value.sequence == sequence, byte
        assert hash_of(copy) == before


def test_flip_of_every_byte_of_the_segment_header_is_refused(log):
    for byte in [*range(80), *range(80, 4096, 61), 4092, 4093, 4094, 4095]:
        copy = damaged(log, lambda c, b=byte: c.__setitem__(b, c[b] ^ 0x10))
        with pytest.raises(CorruptError) as error:
            read_log(copy)
        assert (error.value.path, error.value.offset_bytes) == (copy, 0)


def test_flip_in_the_last_batch_is_torn_without_a_mark_and_corrupt_with_one(log):
    """W3: the same bytes, told apart only by what follows."""
    start, size = log.batches[-1]
    without_mark = log.path.read_bytes()
    log.batch(0)
    with_mark = log.path.read_bytes()
    copy = log.path.with_name("copy.log")

    for byte in range(start, start + size):
        for content, expected in ((without_mark, "torn"), (with_mark, "corrupt")):
            changed = bytearray(content)
            changed[byte] ^= 0x04
            copy.write_bytes(changed)
            try:
                tail, sequences = read_log(copy)
            except CorruptError:
                found = "corrupt"
            else:
                found = tail.ending.value
                assert sequences == list(range(1, tail.next_wal_seq))
                assert tail.next_wal_seq >= 13
            assert found == expected, byte


def test_flip_in_a_batch_that_a_later_one_does_not_prove_is_torn(log):
    """Two batches in flight: the second one's header does not cover the first."""
    log.batch(2, sync=False)
    first, _ = log.batches[-1]
    log.batch(2, sync=False)
    copy = damaged(log, lambda c: c.__setitem__(first + 70, c[first + 70] ^ 1))

    tail, sequences = read_log(copy)

    assert tail.ending is Ending.TORN
    assert sequences == list(range(1, 16))
    assert tail.torn_bytes == log.end - tail.offset_bytes


def test_flip_in_the_last_mark_is_torn(log):
    log.batch(0)
    start, size = log.batches[-1]
    for byte in range(start, start + size):
        tail, sequences = read_log(damaged(log, lambda c, b=byte: c.__setitem__(b, c[b] ^ 2)))
        assert tail.ending is Ending.TORN
        assert sequences == list(range(1, 16))


def test_proof_is_found_behind_a_gap_of_any_size(tmp_path):
    """W3, L3: 80 MiB (sparse on disk) between the damage and the header that proves it."""
    made = new_log(tmp_path / "wal-00000001.log", 8192)
    made.batch(3)
    bad = made.records[1][1]
    gap = 80 << 20
    writer = made.writer
    far = JournalWriter(STORE, 1, writer.offset_bytes + gap, writer.chain_crc, 4)
    far.begin()
    where, block, _ = far.end()
    # The header as a writer would have made it there: its mark covers the damage.
    storage.write_all(made.fd, block, where)
    storage.write_all(made.fd, b"\xff", bad + 30)
    made.close()

    with pytest.raises(CorruptError) as error:
        read_log(made.path)

    assert (error.value.offset_bytes, error.value.sequence) == (bad, 2)
    assert str(where) in str(error.value)


def test_header_copied_to_another_place_proves_nothing(log):
    """A stale or misdirected header has its own offset, segment and store in its CRC."""
    log.batch(0)
    start, size = log.batches[-1]
    header = log.path.read_bytes()[start : start + size]
    target = log.records[13][1]

    def edit(content):
        content[target] ^= 1
        content[start : start + size] = bytes(size)
        poke(content, start + 256, header)

    tail, _ = read_log(damaged(log, edit))

    assert tail.ending is Ending.TORN


@pytest.mark.parametrize("length", [1, 7, 8, 16, 23, 92, 96, 4096, 4097, 2**31, 2**32 - 1])
@pytest.mark.parametrize("place", ["middle", "last"])
@pytest.mark.parametrize("fix_crc", [False, True])
def test_absurd_lengths(log, length, place, fix_crc):
    """W4: by place, whatever the CRC says; no read past the buffer, no allocation by the length."""
    index = 7 if place == "middle" else 14
    sequence, offset, _ = log.records[index]
    chain = int.from_bytes(
        log.path.read_bytes()[log.records[index - 1][1] + 4 : log.records[index - 1][1] + 8],
        "little",
    )

    def edit(content):
        poke(content, offset, length.to_bytes(4, "little"))
        if fix_crc and 8 <= length <= 4096:
            crc = crc32c(bytes(content[offset : offset + 4]), chain)
            crc = crc32c(bytes(content[offset + 8 : offset + length]), crc)
            poke(content, offset + 4, crc.to_bytes(4, "little"))

    copy = damaged(log, edit)
    # With a good CRC and a possible length it was written, not torn: refused at any place.
    intact = fix_crc and length in (96, 4096)
    if place == "middle" or intact:
        with pytest.raises(CorruptError) as error:
            read_log(copy)
        assert (error.value.offset_bytes, error.value.sequence) == (offset, sequence)
    else:
        tail, sequences = read_log(copy)
        assert tail.ending is Ending.TORN
        assert sequences[-1] == sequence - 1


@pytest.mark.parametrize("field", ["version", "type"])
@pytest.mark.parametrize("index", [7, 14])
def test_unknown_version_or_type_with_a_good_crc_is_refused_at_any_place(log, field, index):
    """A newer release wrote it: cutting it off as torn would lose what it acknowledged."""
    sequence, offset, size = log.records[index]
    before = log.records[index - 1][1]
    place = offset + (16 if field == "version" else 18)

    def edit(content):
        chain = int.from_bytes(content[before + 4 : before + 8], "little")
        poke(content, place, (9).to_bytes(2, "little"))
        crc = crc32c(bytes(content[offset : offset + 4]), chain)
        crc = crc32c(bytes(content[offset + 8 : offset + size]), crc)
        poke(content, offset + 4, crc.to_bytes(4, "little"))

    with pytest.raises(CorruptError, match="newer release") as error:
        read_log(damaged(log, edit))
    assert (error.value.offset_bytes, error.value.sequence) == (offset, sequence)


def test_zeroed_sector_in_the_unsynced_batch_is_a_torn_tail(tmp_path):
    """W6: any 512-byte sector of what was not synced may be missing, the rest being there."""
    made = new_log(tmp_path / "wal-00000001.log", 16384)
    made.batch(5)
    made.batch(40, sync=False)
    made.batch(3, sync=False)
    made.close()
    start = made.batches[1][0]

    for sector in range(start // 512, made.end // 512 + 1):
        low = max(sector * 512, start)
        high = min((sector + 1) * 512, made.end)
        if low >= high:
            continue
        copy = damaged(made, lambda c, a=low, b=high: poke(c, a, bytes(b - a)))
        tail, sequences = read_log(copy)
        whole = [r[0] for r in made.records if r[1] + r[2] <= low]
        if low < start + 64:
            whole = [1, 2, 3, 4, 5]
        assert tail.ending is Ending.TORN, sector
        assert sequences[: len(whole)] == whole
        assert sequences == list(range(1, len(sequences) + 1))
        assert len(sequences) >= 5


def test_zeroed_sector_in_what_was_durable_is_refused(tmp_path):
    made = new_log(tmp_path / "wal-00000001.log", 16384)
    made.batch(50)
    made.batch(2)
    made.close()

    for sector in range(8, made.batches[1][0] // 512):
        copy = damaged(made, lambda c, s=sector: poke(c, s * 512, bytes(512)))
        with pytest.raises(CorruptError):
            read_log(copy)


def test_segment_of_another_store_is_refused(log, tmp_path):
    """W5: the header of another directory; and another directory's batches behind our header."""
    other = new_log(tmp_path / "wal-00000002.log", 8192, 2, 16, log.writer.chain_crc, OTHER_STORE)
    other.batch(1)
    other.close()

    with pytest.raises(Exception, match="another data directory"):
        segment.open_log([log.path, other.path])


def test_segments_continue_each_other_or_are_refused(log, tmp_path):
    log.batch(0)
    second = new_log(tmp_path / "wal-00000002.log", 8192, 2, 16, log.writer.chain_crc)
    second.batch(2)
    second.close()

    def walk(paths):
        with segment.open_log(paths) as opened:
            count = []
            tail = segment.walk_log(opened, lambda s: lambda d, e: s.collect(d, e, count))
            return tail, [fields[0] for fields in count]

    tail, sequences = walk([log.path, second.path])
    assert sequences == list(range(1, 18))
    assert tail.ending is Ending.CLEAN

    # A gap in the numbers, a swap, a duplicate under another name, an empty last one.
    third = new_log(tmp_path / "wal-00000003.log", 8192, 3, 18, second.writer.chain_crc)
    third.close()
    assert walk([log.path, second.path, third.path])[1] == list(range(1, 18))
    with pytest.raises(Exception, match="segment 2 is missing"):
        walk([log.path, third.path])
    twin = tmp_path / "wal-00000004.log"
    shutil.copy(third.path, twin)
    with pytest.raises(CorruptError, match="named segment 4"):
        walk([log.path, second.path, third.path, twin])
    # Damage in the last batch of an earlier segment: the later one proves it.
    flipped = bytearray(second.path.read_bytes())
    flipped[second.records[-1][1] + 40] ^= 1
    second.path.write_bytes(flipped)
    with pytest.raises(CorruptError, match="later segment"):
        walk([log.path, second.path, third.path])


def test_any_crash_after_the_last_durable_mark_keeps_every_durable_record(tmp_path, no_sync):
    """Property: sectors written after the last sync survive or not, in any mixture."""
    generator = random.Random(20)
    for round_number in range(150):
        made = new_log(tmp_path / f"{round_number}.log", 12288)
        durable = 0
        for _ in range(generator.randrange(1, 6)):
            made.batch(generator.randrange(0, 5))
            durable = made.writer.durable_seq
        synced_end = made.end
        for _ in range(generator.randrange(0, 4)):
            made.batch(generator.randrange(0, 12), sync=False)
        made.close()
        content = bytearray(made.path.read_bytes())
        if generator.random() < 0.5:
            del content[generator.randrange(synced_end, made.end + 1) :]
        for sector in range(synced_end // 512, made.end // 512 + 1):
            if generator.random() < 0.3:
                low, high = max(synced_end, sector * 512), min(len(content), sector * 512 + 512)
                if low < high:
                    content[low:high] = bytes(high - low)
        made.path.write_bytes(content)

        tail, sequences = read_log(made.path)

        assert sequences == list(range(1, tail.next_wal_seq))
        assert tail.next_wal_seq > durable
        made.path.unlink()
