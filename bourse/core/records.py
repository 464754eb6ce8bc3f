"""The layout of records.pxd for Python readers: struct formats, sizes, pack and unpack.

Used by tests, tools and recovery reports; the hot path never comes here.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

COMMAND = struct.Struct("<BBBBIIIQQqQqq")
EVENT = struct.Struct("<BBBBIQQQqQQII")
DEPTH_LEVEL = struct.Struct("<qQII")
ORDER_RECORD = struct.Struct("<QQQQQqIIBBB5x")
ENGINE_STATE = struct.Struct("<12Q4I16x")
INSTRUMENT_RECORD = struct.Struct("<II16s8x")

COMMAND_SIZE = 64
EVENT_SIZE = 64
DEPTH_LEVEL_SIZE = 24
ORDER_RECORD_SIZE = 64
ENGINE_STATE_SIZE = 128
INSTRUMENT_RECORD_SIZE = 32

assert COMMAND.size == COMMAND_SIZE
assert EVENT.size == EVENT_SIZE
assert DEPTH_LEVEL.size == DEPTH_LEVEL_SIZE
assert ORDER_RECORD.size == ORDER_RECORD_SIZE
assert ENGINE_STATE.size == ENGINE_STATE_SIZE
assert INSTRUMENT_RECORD.size == INSTRUMENT_RECORD_SIZE


class Command(NamedTuple):
    """One command; fields and units as in records.pxd."""

    kind: int
    side: int = 0
    order_type: int = 0
    flags: int = 0
    instrument_id: int = 0
    session_id: int = 0
    spare: int = 0
    client_order_id: int = 0
    order_id: int = 0
    price_ticks: int = 0
    qty_lots: int = 0
    received_ns: int = 0
    client_time_ns: int = 0

    def pack(self) -> bytes:
        """Return the 64 bytes."""
        return COMMAND.pack(*self)

    @classmethod
    def unpack(cls, data: bytes, offset: int = 0) -> Command:
        """Read one from `data` at `offset` (bytes)."""
        return cls(*COMMAND.unpack_from(data, offset))


class Event(NamedTuple):
    """One event; fields and units as in records.pxd."""

    kind: int
    reason: int
    side: int
    command_kind: int
    session_id: int
    sequence: int
    client_order_id: int
    order_id: int
    price_ticks: int
    qty_lots: int
    leaves_lots: int
    instrument_id: int
    spare: int

    def pack(self) -> bytes:
        """Return the 64 bytes."""
        return EVENT.pack(*self)


class DepthLevel(NamedTuple):
    """One price level."""

    price_ticks: int
    qty_lots: int
    order_count: int
    spare: int = 0


class OrderRecord(NamedTuple):
    """One live order, as in snapshots."""

    order_id: int
    client_order_id: int
    priority: int
    leaves_lots: int
    qty_lots: int
    price_ticks: int
    session_id: int
    instrument_id: int
    side: int
    order_type: int
    flags: int

    def pack(self) -> bytes:
        """Return the 64 bytes."""
        return ORDER_RECORD.pack(*self)


class InstrumentRecord(NamedTuple):
    """One instrument, as in snapshots."""

    instrument_id: int
    is_halted: int
    """1: cancels only."""
    symbol: bytes
    """ASCII, filled up to 16 bytes with zeros."""

    def pack(self) -> bytes:
        """Return the 32 bytes."""
        return INSTRUMENT_RECORD.pack(*self)


class EngineState(NamedTuple):
    """Every counter of an engine; meanings as in records.pxd."""

    wal_seq: int
    event_seq: int
    next_order_id: int
    next_priority: int
    state_digest: int
    event_digest: int
    live_order_count: int
    order_count: int
    trade_count: int
    bought_lots: int
    sold_lots: int
    reject_count: int
    last_session_id: int
    session_count: int
    instrument_count: int
    spare: int

    @classmethod
    def unpack(cls, data: bytes) -> EngineState:
        """Read it from its 128 bytes."""
        return cls(*ENGINE_STATE.unpack(data))

    def pack(self) -> bytes:
        """Return the 128 bytes."""
        return ENGINE_STATE.pack(*self)


def digest_text(digest: int) -> str:
    """Write a digest as people and JSON see it."""
    return f"0x{digest:016x}"


def unpack_events(data: bytes | bytearray | memoryview) -> list[Event]:
    """Read consecutive 64-byte events."""
    return [Event(*fields) for fields in EVENT.iter_unpack(data)]


def unpack_order_records(data: bytes | bytearray | memoryview) -> list[OrderRecord]:
    """Read consecutive 64-byte order records."""
    return [OrderRecord(*fields) for fields in ORDER_RECORD.iter_unpack(data)]
