"""Protocol version 1 as plain Python values: for clients, tests and tools; the codec's slow twin.

>>> frame = NewOrder(id=7, side=Side.BUY, qty=5, kind=OrderType.LIMIT, price=100).pack()
>>> len(frame)
40
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from bourse.domain import OrderType, Side
from bourse.errors import ProtocolError
from bourse.protocol import format as wire

_FRAME = struct.Struct("<IBB")
_U64_MAX = 2**64 - 1


@dataclass(frozen=True, slots=True)
class NewOrder:
    """A new order; `price` is ignored for MARKET."""

    id: int
    side: int
    qty: int
    kind: int = OrderType.LIMIT
    price: int = 0
    timestamp_ns: int = 0

    def pack(self) -> bytes:
        """Return the frame."""
        body = struct.pack("<QBQB", self.id, self.side, self.qty, self.kind)
        if self.kind != OrderType.MARKET:
            body += struct.pack("<q", self.price)
        body += struct.pack("<q", self.timestamp_ns)
        return _FRAME.pack(len(body) + 2, wire.VERSION, wire.TYPE_NEW_ORDER) + body


@dataclass(frozen=True, slots=True)
class Cancel:
    """Cancel the session's own live order `id`."""

    id: int

    def pack(self) -> bytes:
        """Return the frame."""
        return _FRAME.pack(10, wire.VERSION, wire.TYPE_CANCEL) + struct.pack("<Q", self.id)


@dataclass(frozen=True, slots=True)
class Accepted:
    """The order was taken."""

    id: int
    qty: int
    seq: int

    def pack(self) -> bytes:
        """Return the frame."""
        return _FRAME.pack(27, wire.VERSION, wire.TYPE_EXECUTION) + struct.pack(
            "<BQQQ", wire.EXEC_ACCEPTED, self.id, self.qty, self.seq
        )


@dataclass(frozen=True, slots=True)
class Trade:
    """A fill, at the maker's price.

    The receiver's own order has the receiver's id, the other its public number.
    """

    taker: int
    maker: int
    price: int
    qty: int
    seq: int

    def pack(self) -> bytes:
        """Return the frame."""
        return _FRAME.pack(43, wire.VERSION, wire.TYPE_EXECUTION) + struct.pack(
            "<BQQqQQ", wire.EXEC_TRADE, self.taker, self.maker, self.price, self.qty, self.seq
        )


@dataclass(frozen=True, slots=True)
class Done:
    """The order ended with `leaves_qty` open."""

    id: int
    leaves_qty: int
    reason: int
    seq: int

    def pack(self) -> bytes:
        """Return the frame."""
        return _FRAME.pack(28, wire.VERSION, wire.TYPE_EXECUTION) + struct.pack(
            "<BQQBQ", wire.EXEC_DONE, self.id, self.leaves_qty, self.reason, self.seq
        )


Request = NewOrder | Cancel
Execution = Accepted | Trade | Done


class FrameReader:
    """Cut a byte stream into frames and unpack them; feed it what arrives, in any pieces.

    Raises ProtocolError at the first frame that the protocol does not allow; the reader is useless
    after it.
    """

    def __init__(self) -> None:
        self._data = bytearray()

    def receive_data(self, data: bytes) -> list[Request | Execution]:
        """Take bytes and return the messages that are whole now."""
        self._data += data
        messages: list[Request | Execution] = []
        while len(self._data) >= wire.LENGTH_BYTES:
            length = int.from_bytes(self._data[:4], "little")
            if not 10 <= length <= wire.EVENT_BYTES_MAX - 4:
                raise ProtocolError(f"a frame's length is {length}, expected 10 to 43")
            if len(self._data) < 4 + length:
                break
            messages.append(unpack(bytes(self._data[: 4 + length])))
            del self._data[: 4 + length]
        return messages


def unpack(frame: bytes) -> Request | Execution:
    """Read one whole frame.

    Raises:
        ProtocolError: the frame is not one of version 1.
    """
    try:
        length, version, kind = _FRAME.unpack_from(frame)
        if version != wire.VERSION:
            raise ProtocolError(f"a frame's version is {version}, expected {wire.VERSION}")
        if length + 4 != len(frame):
            raise ProtocolError(f"a frame's length is {length}, but {len(frame) - 4} bytes follow")
        if kind == wire.TYPE_CANCEL:
            return Cancel(*struct.unpack("<Q", frame[6:]))
        if kind == wire.TYPE_NEW_ORDER:
            order_id, side, qty, order_type = struct.unpack_from("<QBQB", frame, 6)
            Side(side)
            if OrderType(order_type) is OrderType.MARKET:
                (timestamp_ns,) = struct.unpack("<q", frame[24:])
                return NewOrder(order_id, side, qty, order_type, 0, timestamp_ns)
            price, timestamp_ns = struct.unpack("<qq", frame[24:])
            return NewOrder(order_id, side, qty, order_type, price, timestamp_ns)
        if kind == wire.TYPE_EXECUTION:
            if frame[6] == wire.EXEC_ACCEPTED:
                return Accepted(*struct.unpack("<QQQ", frame[7:]))
            if frame[6] == wire.EXEC_TRADE:
                return Trade(*struct.unpack("<QQqQQ", frame[7:]))
            if frame[6] == wire.EXEC_DONE:
                done = Done(*struct.unpack("<QQBQ", frame[7:]))
                if not wire.REASON_FILLED <= done.reason <= wire.REASON_REJECTED:
                    raise ProtocolError(f"a Done's reason is {done.reason}, expected 1 to 5")
                return done
    except (struct.error, ValueError, IndexError) as error:
        raise ProtocolError(f"a frame cannot be read: {error}: {frame.hex()}") from error
    raise ProtocolError(f"a frame's type is {kind:#04x}, which version 1 does not know")
