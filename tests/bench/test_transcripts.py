"""Sessions of the predecessor's client, byte by byte: our daemon answers so, our client speaks so.

The transcripts were written down from the protocol's table (docs/protocol.md), not recorded from
this product.
"""

import socket
import threading
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import pytest

from bourse.bench.client import FINISHED, Client
from bourse.bench.private_daemon import PrivateDaemon
from bourse.bench.run import connect, drive, event_checks
from bourse.config import parse_address
from bourse.domain import Durability, PollMode

TRANSCRIPTS = Path(__file__).with_name("transcripts")
NAMES = ("rtt", "burst")


def steps(name: str) -> list[tuple[str, bytes]]:
    """Return what each side says before the other one speaks again."""
    frames = []
    for line in (TRANSCRIPTS / f"{name}.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            direction, data = line[0], bytes.fromhex(line[1:])
            assert int.from_bytes(data[:4], "little") == len(data) - 4, line
            frames.append((direction, data))
    return [
        (direction, b"".join(data for _, data in group))
        for direction, group in groupby(frames, key=lambda frame: frame[0])
    ]


def receive(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count and (piece := connection.recv(count - len(data))):
        data += piece
    return data


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("policy", [Durability.MEMORY, Durability.FSYNC])
def test_our_daemon_answers_the_predecessors_client(name: str, policy: Durability) -> None:
    with (
        PrivateDaemon(policy, PollMode.ADAPTIVE) as daemon,
        socket.create_connection(parse_address(daemon.banner.listen), 10) as connection,
    ):
        for direction, data in steps(name):
            if direction == ">":
                connection.sendall(data)
            else:
                assert receive(connection, len(data)).hex() == data.hex()


@pytest.fixture
def predecessor(request: pytest.FixtureRequest) -> Iterator[tuple[tuple[str, int], list[bytes]]]:
    """Play the server's side of a transcript; what the client said is the second value."""
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(10)

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.settimeout(10)
                for direction, data in steps(request.param):
                    if direction == ">":
                        heard.append(receive(connection, len(data)))
                    else:
                        connection.sendall(data)
                connection.recv(1)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname(), heard
        thread.join()


@pytest.mark.parametrize(
    ("predecessor", "name"), [(name, name) for name in NAMES], indirect=["predecessor"]
)
def test_our_client_speaks_as_the_predecessors(
    predecessor: tuple[tuple[str, int], list[bytes]], name: str
) -> None:
    address, heard = predecessor
    said = [data for direction, data in steps(name) if direction == ">"]
    pairs = sum(map(len, said)) // 80
    with connect(address) as connection:
        client = Client(connection.fileno(), 2 * pairs)
        if name == "rtt":
            drive(lambda: client.round_trips(pairs, False), client)
        else:
            assert client.send_all() == FINISHED
            drive(lambda: client.drain(False), client)

    assert heard == said
    checks = event_checks(client.counts(), pairs, is_private=True)
    assert [check.name for check in checks if not check.ok] == []
