"""Logs made for tests: a writer, a file, and what a reader says about it."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field
from pathlib import Path

from bourse.core.records import Command
from bourse.journal import format as layout
from bourse.journal import segment, storage
from bourse.journal.writer import JournalWriter

STORE = bytes(range(100, 116))
OTHER_STORE = bytes(range(50, 66))


def command(number: int) -> bytes:
    """Return a command's bytes that depend on a number."""
    return Command(
        kind=1,
        side=1 + number % 2,
        order_type=1,
        instrument_id=1,
        session_id=2,
        client_order_id=number,
        price_ticks=100 + number % 7,
        qty_lots=1 + number % 5,
        received_ns=number,
        client_time_ns=-number,  # ends in a byte that is not zero
    ).pack()


@dataclass
class LogFile:
    """A segment file that grows by whole batches, and where everything in it is."""

    path: Path
    writer: JournalWriter
    fd: int
    batches: list[tuple[int, int]] = field(default_factory=list)
    """Offset and size of each batch, header included."""
    records: list[tuple[int, int, int]] = field(default_factory=list)
    """(wal_seq, offset, size) of each record."""

    def batch(self, count: int, sync: bool = True, commands: list[bytes] | None = None) -> None:
        writer = self.writer
        assert writer.begin()
        offset = writer.offset_bytes + layout.BATCH_HEADER_SIZE
        for index in range(count):
            sequence = writer.next_wal_seq
            size = layout.COMMAND_RECORD_SIZE
            if sequence % layout.CHECKPOINT_INTERVAL == 0:
                size = layout.CHECKPOINT_RECORD_SIZE
            assert writer.add(commands[index] if commands else command(sequence))
            self.records.append((sequence, offset, size))
            offset += size
        where, block, _ = writer.end()
        storage.write_all(self.fd, block, where)
        self.batches.append((where, len(block)))
        writer.note_written()
        if sync:
            writer.note_synced()

    @property
    def end(self) -> int:
        return self.writer.offset_bytes

    def close(self) -> None:
        os.close(self.fd)


def new_log(
    path: Path,
    preallocate: int = 32768,
    index: int = 1,
    first: int = 1,
    chain: int | None = None,
    store: bytes = STORE,
) -> LogFile:
    """Create a segment and a writer at its start."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if chain is None:
        chain = layout.initial_chain_crc(store)
    header = layout.SegmentHeader(store, index, first, chain)
    segment.create_segment(path, header, preallocate)
    writer = JournalWriter(store, index, layout.SEGMENT_HEADER_SIZE, chain, first)
    return LogFile(path, writer, storage.open_segment(path))


def read_log(path: Path) -> tuple[segment.Tail, list[int]]:
    """Walk one segment: its tail and the wal_seqs in it."""
    opened = segment.Segment(path)
    try:
        scanner = opened.scanner()
        found: list[tuple] = []
        tail = segment.walk(opened, scanner, lambda d, e: scanner.collect(d, e, found))
        return tail, [fields[0] for fields in found]
    finally:
        opened.close()


def operator_command(number: int, session: int) -> Command:
    """Return a halt, a resume or a mass cancel."""
    kind = (9, 9, 4, 8, 9)[number % 5]
    if kind == 4:
        named = session if number % 2 else 0
        return Command(kind, session_id=1, client_order_id=named, qty_lots=1 + number % 3)
    return Command(kind, session_id=1, instrument_id=1)


def random_commands(seed: int, count: int, sessions: int = 3) -> list[bytes]:
    """Return a seeded stream that defines, opens, trades, cancels and ends sessions."""
    generator = random.Random(seed)
    symbol = int.from_bytes(b"TEST".ljust(16, b"\0"), "little")
    low, high = symbol & (2**64 - 1), symbol >> 64
    stream = [Command(kind=7, instrument_id=1, client_order_id=low, order_id=high)]
    opened = list(range(1, sessions + 1))
    stream += [Command(kind=5, session_id=session) for session in opened]
    next_session = sessions + 1
    next_id = 1
    while len(stream) < count:
        roll = generator.random()
        session = generator.choice(opened)
        if roll < 0.62:
            stream.append(
                Command(
                    kind=1,
                    side=generator.choice([1, 2]),
                    order_type=generator.choices([1, 2, 3, 4, 5], [70, 5, 10, 10, 5])[0],
                    instrument_id=1,
                    session_id=session,
                    client_order_id=next_id,
                    price_ticks=1000 + generator.randrange(-8, 9),
                    qty_lots=generator.choice([0, 1, 2, 5, 10, 100]),
                    received_ns=len(stream),
                )
            )
            next_id += 1
        elif roll < 0.97:
            stream.append(
                Command(
                    kind=2,
                    session_id=session,
                    client_order_id=max(1, next_id - generator.randrange(1, 60)),
                )
            )
        elif roll < 0.98:
            stream.append(Command(kind=6, session_id=session, flags=2))
            stream.append(Command(kind=5, session_id=next_session))
            opened[opened.index(session)] = next_session
            next_session += 1
        else:
            kind = generator.choice([10, 77])
            # The golden files are made of shorter streams.
            if kind == 77 and len(stream) > 60:
                stream.append(operator_command(len(stream), session))
            else:
                stream.append(Command(kind=kind))
    # The last byte of each command is not zero: a zeroed tail never happens to be right.
    return [one._replace(client_time_ns=-1).pack() for one in stream[:count]]
