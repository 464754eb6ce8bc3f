"""Dump: a segment's bytes, field by field, with what each means.

For people who look into a log, and for docs/wal-format.md, whose dump a test makes again. It reads
bytes and believes nothing: what does not check out is shown and said.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

from bourse.core.records import Command
from bourse.domain import CommandKind
from bourse.journal import format as layout
from bourse.journal.crc32c import crc32c

_SEGMENT_FIELDS = [
    (8, "magic"),
    (4, "format version"),
    (4, "size of this block"),
    (16, "store id"),
    (8, "segment index"),
    (8, "first wal_seq"),
    (4, "chain CRC carried over"),
]
_BATCH_FIELDS = [
    (4, "magic"),
    (4, "CRC of this header"),
    (8, "offset of this header"),
    (8, "first wal_seq"),
    (4, "record count"),
    (4, "size of the records"),
    (8, "durable mark: wal_seq"),
    (8, "durable mark: offset"),
    (4, "chain CRC before the first record"),
    (12, "zeros"),
]
_RECORD_FIELDS = [
    (4, "length"),
    (4, "chain CRC"),
    (8, "wal_seq"),
    (2, "record version"),
    (2, "type"),
    (4, "zero"),
]
_COMMAND_FIELDS = [
    (1, "kind"),
    (1, "side"),
    (1, "order type"),
    (1, "flags"),
    (4, "instrument_id"),
    (4, "session_id"),
    (4, "zero"),
    (8, "client_order_id"),
    (8, "order_id"),
    (8, "price_ticks"),
    (8, "qty_lots"),
    (8, "received_ns"),
    (8, "client_time_ns"),
]
_DIGEST_FIELDS = [
    (8, "state digest before the command"),
    (8, "event digest before the command"),
    (8, "event_seq before the command"),
]
_TEXT = {"magic"}
_HEX = {"store id"}
_SIGNED = {"price_ticks", "received_ns", "client_time_ns"}


def dump(data: bytes) -> Iterator[str]:
    """Yield lines that explain a segment file's bytes, up to the first item that is not valid."""
    yield "segment header"
    offset = yield from _fields(data, 0, _SEGMENT_FIELDS)
    zeros = layout.SEGMENT_HEADER_SIZE - 4 - offset
    yield f"{offset:08x}  {'... zeros':<48}  {zeros} bytes"
    yield from _fields(data, layout.SEGMENT_HEADER_SIZE - 4, [(4, "CRC of bytes 0..4091")])
    header = layout.unpack_segment_header(data)
    seed = layout.batch_header_seed(header.store_id, header.segment_index)
    chain = header.chain_crc
    offset = layout.SEGMENT_HEADER_SIZE
    while word := int.from_bytes(data[offset : offset + 4], "little"):
        yield ""
        if word == layout.BATCH_MAGIC:
            good = crc32c(data[offset + 8 : offset + 64], seed) == _crc(data, offset)
            yield f"batch header{'' if good else ' (its CRC does not match)'}"
            yield from _fields(data, offset, _BATCH_FIELDS)
            offset += layout.BATCH_HEADER_SIZE
        elif layout.RECORD_HEADER_SIZE <= word <= min(layout.RECORD_SIZE_MAX, len(data) - offset):
            chain = crc32c(data[offset : offset + 4], chain)
            chain = crc32c(data[offset + 8 : offset + word], chain)
            good = chain == _crc(data, offset)
            yield f"record: {_say(data, offset)}{'' if good else ' (its CRC does not match)'}"
            place = yield from _fields(data, offset, _RECORD_FIELDS)
            place = yield from _fields(data, place, _COMMAND_FIELDS)
            if word == layout.CHECKPOINT_RECORD_SIZE:
                yield from _fields(data, place, _DIGEST_FIELDS)
            offset += word
        else:
            yield f"{offset:08x}  {data[offset : offset + 16].hex(' '):<48}  no item"
            return
        if not good:
            return
    yield ""
    yield f"{offset:08x}  {'... zeros':<48}  to the end of the file"


def _crc(data: bytes, offset: int) -> int:
    return int.from_bytes(data[offset + 4 : offset + 8], "little")


def _say(data: bytes, offset: int) -> str:
    """Name the command of a record."""
    kind = Command.unpack(data, offset + layout.RECORD_HEADER_SIZE).kind
    return CommandKind(kind).name if kind in set(CommandKind) else f"kind {kind}"


def _fields(data: bytes, offset: int, fields: list[tuple[int, str]]) -> Generator[str, None, int]:
    """Yield a line a field; returns the offset after them."""
    for size, name in fields:
        raw = data[offset : offset + size]
        if name.startswith("zero"):
            value = ""
        elif name in _TEXT:
            value = f' "{raw.decode("ascii", "replace")}"'
        elif name in _HEX or "CRC" in name or "digest" in name:
            number = int.from_bytes(raw, "little")
            value = "" if name in _HEX else f" 0x{number:0{2 * size}x}"
        else:
            value = f" {int.from_bytes(raw, 'little', signed=name in _SIGNED)}"
        yield f"{offset:08x}  {raw.hex(' '):<48}  {name}{value}"
        offset += size
    return offset
