"""A protocol-version-1 server in a few lines: it matches 1@100 and no more.

Frames are packed by hand here, on purpose without the package's codecs. `spoil` lets a test change
the events of an order before they are sent.
"""

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator

Spoil = Callable[[int, list[bytes]], list[bytes]]


def accepted(order_id: int, qty: int, sequence: int) -> bytes:
    return struct.pack("<IBBBQQQ", 27, 1, 0x10, 1, order_id, qty, sequence)


def trade(taker: int, maker: int, price: int, qty: int, sequence: int) -> bytes:
    return struct.pack("<IBBBQQqQQ", 43, 1, 0x10, 2, taker, maker, price, qty, sequence)


def done(order_id: int, leaves: int, reason: int, sequence: int) -> bytes:
    return struct.pack("<IBBBQQBQ", 28, 1, 0x10, 3, order_id, leaves, reason, sequence)


class MatchingServer:
    """One connection at a time; a sell rests, a buy takes the oldest one."""

    def __init__(self, spoil: Spoil | None = None, piece_bytes: int = 0) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = self.listener.getsockname()
        self.spoil = spoil or (lambda number, frames: frames)
        self.piece_bytes = piece_bytes
        self.sequence = 0
        self.resting: list[int] = []
        self.thread = threading.Thread(target=self._serve)
        self.thread.start()

    def next_sequence(self) -> int:
        self.sequence += 1
        return self.sequence

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                with connection, contextlib.suppress(ConnectionError):
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    self._serve_one(connection)

    def _serve_one(self, connection: socket.socket) -> None:
        pending = b""
        number = 0
        while data := connection.recv(1 << 16):
            pending += data
            out = []
            whole = len(pending) - len(pending) % 40
            for frame in struct.iter_unpack("<IBBQBQBqq", pending[:whole]):
                length, version, kind, order_id, side, qty, order_type, price, _ = frame
                assert (length, version, kind, qty, order_type, price) == (36, 1, 1, 1, 1, 100)
                number += 1
                out += self.spoil(number, self._execute(order_id, side))
            pending = pending[whole:]
            answer = b"".join(out)
            step = self.piece_bytes or max(1, len(answer))
            for start in range(0, len(answer), step):
                connection.sendall(answer[start : start + step])

    def _execute(self, order_id: int, side: int) -> list[bytes]:
        frames = [accepted(order_id, 1, self.next_sequence())]
        if side == 2:
            self.resting.append(order_id)
        elif self.resting:
            maker = self.resting.pop(0)
            frames.append(trade(order_id, maker, 100, 1, self.next_sequence()))
            frames.append(done(maker, 0, 1, self.next_sequence()))
            frames.append(done(order_id, 0, 1, self.next_sequence()))
        return frames

    def close(self) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join()


@contextlib.contextmanager
def matching_server(spoil: Spoil | None = None, piece_bytes: int = 0) -> Iterator[MatchingServer]:
    server = MatchingServer(spoil, piece_bytes)
    try:
        yield server
    finally:
        server.close()
