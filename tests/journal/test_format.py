"""The format's golden files, the page that explains it, and what a dump says."""

from __future__ import annotations

from pathlib import Path

import pytest

from bourse.core.engine import Engine
from bourse.core.records import Command
from bourse.journal import format as layout
from bourse.journal import segment, snapshot
from bourse.journal.dump import dump
from bourse.journal.writer import JournalWriter
from tests.journal.logs import random_commands, read_log
from tests.journal.stores import image_of

GOLDEN = Path(__file__).parent / "golden"
PAGE = Path(__file__).parents[2] / "docs" / "wal-format.md"
STORE = bytes(range(0xA0, 0xB0))
CHAIN = 0x12345678


def example() -> bytes:
    """Return the file that docs/wal-format.md explains."""
    writer = JournalWriter(STORE, 2, layout.SEGMENT_HEADER_SIZE, CHAIN, 999)
    writer.begin()
    writer.add(Command(kind=5, session_id=7, received_ns=1_767_225_600_000_000_000).pack())
    order = Command(
        kind=1,
        side=1,
        order_type=1,
        instrument_id=1,
        session_id=7,
        client_order_id=1,
        price_ticks=-5,
        qty_lots=300,
        received_ns=1_767_225_600_000_123_456,
        client_time_ns=42,
    )
    writer.add(order.pack(), 0x1111111111111111, 0x2222222222222222, 1234)
    _, first, _ = writer.end()
    writer.note_written()
    writer.note_synced()
    writer.begin()
    _, mark, _ = writer.end()
    content = layout.SegmentHeader(STORE, 2, 999, CHAIN).pack() + first + mark
    return content.ljust(8192, b"\0")


def page_with(lines: list[str]) -> str:
    """Return docs/wal-format.md with its dump replaced."""
    before, _, rest = PAGE.read_text().partition("```text\n")
    _, _, after = rest.partition("```\n")
    return before + "```text\n" + "\n".join(lines) + "\n```\n" + after


def test_page_explains_the_bytes_that_the_writer_writes():
    assert PAGE.read_text() == page_with(list(dump(example())))


def test_golden_log_of_version_1_is_read_and_written_the_same():
    golden = GOLDEN / "wal-v1.log"

    tail, sequences = read_log(golden)

    assert golden.read_bytes() == example()
    assert sequences == [999, 1000]
    assert tail.ending is segment.Ending.CLEAN
    assert tail.offset_bytes == 4424
    assert [record.digests for record in segment.records(golden)] == [
        None,
        (0x1111111111111111, 0x2222222222222222, 1234),
    ]


def test_golden_snapshot_of_version_1_is_read_and_written_the_same():
    golden = GOLDEN / "snapshot-v1.snap"
    engine = Engine()
    engine.run(b"".join(random_commands(71, 60)))

    loaded = snapshot.load(golden)

    assert b"".join(snapshot.encode(loaded)) == golden.read_bytes()
    assert loaded == image_of(engine, STORE)
    restored = Engine()
    restored.restore(loaded.state, loaded.instruments, loaded.sessions, loaded.orders)
    assert restored.state_digest == engine.state_digest


@pytest.mark.parametrize(
    ("offset", "patch", "said"),
    [
        (4100, b"\x00", "batch header (its CRC does not match)"),
        (4170, b"\xff", "record: SESSION_OPEN (its CRC does not match)"),
        (4160, b"\xff\xff\xff\xff", "no item"),
    ],
)
def test_dump_stops_at_what_is_not_valid_and_says_so(offset, patch, said):
    content = bytearray(example())
    content[offset : offset + len(patch)] = patch

    lines = list(dump(bytes(content)))

    assert any(said in line for line in lines)
    assert "to the end of the file" not in lines[-1]
