"""Protocol version 1, compiled: bytes to commands, events to bytes.

Hostile input is the normal case: every function checks before it reads, takes nothing beyond the
bytes that it was given and never raises. The table of bytes is in format.py; messages.py is the
slow twin.
"""

import cython
from cython.cimports.bourse.core.records import Command, Event
from cython.cimports.libc.stdint import uint8_t, uint32_t, uint64_t
from cython.cimports.libc.string import memcpy, memset

from bourse.core.records import COMMAND_SIZE
from bourse.domain import CommandKind, OrderType, Reason
from bourse.protocol import format as wire

_VERSION = cython.declare(cython.int, wire.VERSION)
_NEW_ORDER = cython.declare(cython.int, wire.TYPE_NEW_ORDER)
_CANCEL = cython.declare(cython.int, wire.TYPE_CANCEL)
_EXECUTION = cython.declare(cython.int, wire.TYPE_EXECUTION)
_MARKET = cython.declare(cython.int, OrderType.MARKET)
_KIND_NEW_ORDER = cython.declare(cython.int, CommandKind.NEW_ORDER)
_KIND_CANCEL = cython.declare(cython.int, CommandKind.CANCEL)
_NO_LIQUIDITY = cython.declare(cython.int, Reason.NO_LIQUIDITY)
_FIRST_REJECT = cython.declare(cython.int, Reason.ZERO_QUANTITY)
_WIRE_CANCELLED = cython.declare(cython.int, wire.REASON_CANCELLED)
_WIRE_REJECTED = cython.declare(cython.int, wire.REASON_REJECTED)

_ERRORS = {
    DECODE_BAD_LENGTH: "the frame's length does not fit its type",
    DECODE_BAD_VERSION: f"the frame's version is not {wire.VERSION}",
    DECODE_BAD_TYPE: "the frame's type is unknown",
    DECODE_BAD_SIDE: "the order's side is neither 1 (buy) nor 2 (sell)",
    DECODE_BAD_KIND: "the order's kind is not one of 1 to 5",
}


def error_text(code: cython.int) -> str:
    """Say what a negative result of decode_request() means."""
    return _ERRORS[code]


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _load_u32(data: cython.pointer[cython.const[uint8_t]]) -> uint32_t:
    value: uint32_t
    memcpy(cython.address(value), data, 4)
    return value


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def decode_request(
    data: cython.pointer[cython.const[uint8_t]],
    size_bytes: uint64_t,
    command: cython.pointer[Command],
) -> cython.int:
    """Read one request from the start of `data`.

    Each byte is judged as soon as it is there, so that a hostile frame is refused before it is
    whole: nothing waits for four gigabytes.

    Args:
        data: bytes as received.
        size_bytes: how many there are.
        command: filled when a frame was taken: kind, side, order_type, client_order_id,
            price_ticks, qty_lots, client_time_ns; every other field is 0.

    Returns:
        The frame's size in bytes, 0 when more bytes are needed, or a negative DECODE_... code.

    Never raises: O(1), allocates nothing.
    """
    length: uint32_t
    order_type: cython.int
    if size_bytes < 4:
        return DECODE_INCOMPLETE
    length = _load_u32(data)
    if length != 36 and length != 28 and length != 10:
        return DECODE_BAD_LENGTH
    if size_bytes >= 5 and data[4] != _VERSION:
        return DECODE_BAD_VERSION
    if size_bytes >= 6:
        if data[5] == _NEW_ORDER:
            if length == 10:
                return DECODE_BAD_LENGTH
        elif data[5] == _CANCEL:
            if length != 10:
                return DECODE_BAD_LENGTH
        else:
            return DECODE_BAD_TYPE
        if data[5] == _NEW_ORDER:
            if size_bytes >= 15 and data[14] != 1 and data[14] != 2:
                return DECODE_BAD_SIDE
            if size_bytes >= 24:
                order_type = data[23]
                if order_type < 1 or order_type > 5:
                    return DECODE_BAD_KIND
                if (order_type == _MARKET) != (length == 28):
                    return DECODE_BAD_LENGTH
    if size_bytes < length + 4:
        return DECODE_INCOMPLETE
    memset(command, 0, cython.sizeof(Command))
    memcpy(cython.address(command.client_order_id), data + 6, 8)
    if length == 10:
        command.kind = _KIND_CANCEL
        return 14
    command.kind = _KIND_NEW_ORDER
    command.side = data[14]
    command.order_type = data[23]
    memcpy(cython.address(command.qty_lots), data + 15, 8)
    if length == 28:
        memcpy(cython.address(command.client_time_ns), data + 24, 8)
        return 32
    memcpy(cython.address(command.price_ticks), data + 24, 8)
    memcpy(cython.address(command.client_time_ns), data + 32, 8)
    return 40


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _put_head(out: cython.pointer[uint8_t], length: uint32_t, execution: cython.int) -> cython.void:
    memcpy(out, cython.address(length), 4)
    out[4] = _VERSION
    out[5] = _EXECUTION
    out[6] = execution


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def encode_accepted(
    out: cython.pointer[uint8_t],
    client_order_id: uint64_t,
    event: cython.pointer[cython.const[Event]],
) -> cython.int:
    """Write an Accepted frame; `out` has room for 31 bytes. Returns 31. Never raises."""
    _put_head(out, 27, 1)
    memcpy(out + 7, cython.address(client_order_id), 8)
    memcpy(out + 15, cython.address(event.qty_lots), 8)
    memcpy(out + 23, cython.address(event.sequence), 8)
    return 31


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def encode_trade(
    out: cython.pointer[uint8_t],
    taker_id: uint64_t,
    maker_id: uint64_t,
    event: cython.pointer[cython.const[Event]],
) -> cython.int:
    """Write a Trade frame; `out` has room for 47 bytes. Returns 47. Never raises.

    Args:
        out: where.
        taker_id: the taker as this receiver knows it: its own id, or the exchange's order number.
        maker_id: the maker, likewise.
        event: the trade.
    """
    _put_head(out, 43, 2)
    memcpy(out + 7, cython.address(taker_id), 8)
    memcpy(out + 15, cython.address(maker_id), 8)
    memcpy(out + 23, cython.address(event.price_ticks), 8)
    memcpy(out + 31, cython.address(event.qty_lots), 8)
    memcpy(out + 39, cython.address(event.sequence), 8)
    return 47


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def encode_done(
    out: cython.pointer[uint8_t],
    client_order_id: uint64_t,
    event: cython.pointer[cython.const[Event]],
) -> cython.int:
    """Write a Done frame; `out` has room for 32 bytes. Returns 32. Never raises.

    Reasons that version 1 has no byte for are said as the nearest that it has: any refusal is
    Rejected, a cancel by the operator or with the session is Cancelled.
    """
    reason: uint8_t = event.reason
    if reason >= _FIRST_REJECT:
        reason = _WIRE_REJECTED
    elif reason > _NO_LIQUIDITY:
        reason = _WIRE_CANCELLED
    _put_head(out, 28, 3)
    memcpy(out + 7, cython.address(client_order_id), 8)
    memcpy(out + 15, cython.address(event.qty_lots), 8)
    out[23] = reason
    memcpy(out + 24, cython.address(event.sequence), 8)
    return 32


def decode(data: bytes) -> tuple[int, bytes]:
    """Python's view of decode_request().

    Its result and the command's 64 bytes (empty without a frame).
    """
    command: Command
    source: cython.p_char = data
    taken: cython.int = decode_request(
        cython.cast(cython.pointer[cython.const[uint8_t]], source),
        len(data),
        cython.address(command),
    )
    if taken <= 0:
        return taken, b""
    return taken, cython.cast(cython.p_char, cython.address(command))[:COMMAND_SIZE]


def encode(event: bytes, taker_id: uint64_t = 0, own_id: uint64_t = 0) -> bytes:
    """Python's view of the encoders: one 64-byte event as a frame.

    Args:
        event: an Accepted, Trade or Done event.
        taker_id: Trade: the taker's id in the frame.
        own_id: the order's id in the frame; Trade: the maker's.
    """
    out: uint8_t[47]
    source: cython.p_char = event
    record: cython.pointer[cython.const[Event]] = cython.cast(
        cython.pointer[cython.const[Event]], source
    )
    size: cython.int
    if len(event) != cython.sizeof(Event):
        raise ValueError(f"{len(event)} bytes, expected one event of {cython.sizeof(Event)}")
    if record.kind == 1:
        size = encode_accepted(out, own_id, record)
    elif record.kind == 2:
        size = encode_trade(out, taker_id, own_id, record)
    elif record.kind == 3:
        size = encode_done(out, own_id, record)
    else:
        raise ValueError(f"event kind {record.kind} has no frame in version 1")
    return cython.cast(cython.p_char, out)[:size]
