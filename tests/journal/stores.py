"""Data directories made for tests: an engine and its log, driven as the daemon drives them."""

from __future__ import annotations

import os
import random
import struct
from pathlib import Path

from bourse.core.engine import Engine
from bourse.core.records import EVENT, Command
from bourse.journal import snapshot, storage
from bourse.journal.recovery import Recovered, recover

HEAD = 16
PREALLOCATED = 65536


class Store:
    """One data directory, recovered and going on: command, record, event, in the daemon's order."""

    def __init__(self, data_dir: Path, preallocate: int = PREALLOCATED) -> None:
        self.data_dir = data_dir
        self.recovered: Recovered = recover(data_dir, preallocate_bytes=preallocate)
        self.engine: Engine = self.recovered.engine
        self.writer = self.recovered.writer()
        self.fd = storage.open_segment(self.recovered.segment_path)
        self.events = bytearray()
        self.segment_bytes = preallocate
        self.next_path: Path | None = None

    @property
    def path(self) -> Path:
        """The segment that the last recovery went on in."""
        return self.recovered.segment_path

    def name_next(self, ahead: int = 0) -> Path:
        """Plan the next segment and put its file there, filled with zeros, as the daemon does."""
        first = self.writer.next_wal_seq + ahead
        assert self.writer.plan(first)
        path = storage.segment_path(self.data_dir, self.writer.segment_index + 1, first)
        storage.create_file(path, [], self.segment_bytes)
        self.next_path = path
        return path

    def batch(self, commands: list[bytes], sync: bool = True) -> None:
        """Log and execute commands as one batch; a batch of none is a mark."""
        assert self.writer.begin()
        parts = []
        for command in commands:
            engine = self.engine
            digests = (engine.state_digest, engine.event_digest, engine.event_seq)
            assert self.writer.add(command, *digests)
            parts.append(engine.apply(command))
        for part in parts:
            self.events += part
        where, block, _ = self.writer.end()
        if where == 0:
            os.close(self.fd)
            assert self.next_path is not None
            self.fd = storage.open_segment(self.next_path)
        storage.write_all(self.fd, block, where)
        self.writer.note_written()
        if sync:
            self.writer.note_synced()

    def run(self, commands: list[bytes], seed: int = 1, batch_max: int = 300) -> None:
        """Log and execute commands in batches of random sizes."""
        generator = random.Random(seed)
        position = 0
        while position < len(commands):
            count = generator.choice([1, 2, 7, generator.randrange(1, batch_max)])
            if self.writer.rotation_seq and not self.writer.is_due:
                count = min(count, self.writer.rotation_seq - self.writer.next_wal_seq)
            self.batch(commands[position : position + count])
            position += count

    def rotate(self) -> Path:
        """Have the next batch begin a segment; returns its path."""
        return self.name_next()

    def image(self) -> snapshot.Snapshot:
        """Return the engine's state as a snapshot."""
        return image_of(self.engine, self.recovered.store_id)

    def snapshot(self) -> Path:
        """Log a marker and write the state after it."""
        self.batch([Command(kind=10, session_id=1).pack()])
        return snapshot.write(self.data_dir, self.image())

    def close(self, mark: bool = True) -> None:
        if mark:
            self.batch([])
        os.close(self.fd)


def image_of(engine: Engine, store_id: bytes) -> snapshot.Snapshot:
    """Return an engine's state as a snapshot."""
    sessions = engine.sessions()
    return snapshot.Snapshot(
        store_id,
        engine.state_bytes(),
        engine.instruments(),
        struct.pack(f"<{len(sessions)}I", *sessions),
        engine.orders(),
    )


def summary(engine: Engine) -> tuple:
    """Return everything that two equal engines have in common, queue order included."""
    image = image_of(engine, bytes(16))
    return image.state, image.instruments, image.sessions, image.orders


def numbered(events: bytes) -> bytes:
    """Return the events without the heads."""
    return b"".join(events[at : at + 64] for at in range(0, len(events), 64) if events[at] < HEAD)


def tree(directory: Path) -> dict[str, bytes]:
    """Return every file under a directory with its bytes."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


assert EVENT.size == 64
