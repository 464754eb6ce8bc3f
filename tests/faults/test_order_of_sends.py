"""No byte of an event leaves before the sync of its command has returned (row C2).

The shim notes with each send where the durable part of the segment ended as the send began; each
frame in it belongs to a command whose record must end within that part.
"""

import random
from collections.abc import Callable

from bourse.domain import EventKind
from bourse.journal import format as layout
from bourse.journal import segment, storage
from tests.faults.shim import FaultShim
from tests.integration.harness import Client, Daemon, LogView, Orders, buy, pump


def test_each_frame_is_sent_after_the_sync_of_its_command(
    new_daemon: Callable[..., Daemon], shim: FaultShim
) -> None:
    daemon = new_daemon(poll="adaptive")
    daemon.environment = shim.environment(daemon.data_dir)
    daemon.start()
    rng = random.Random(41)
    clients: list[Client] = []
    for number in range(3):
        # Answered before the next one connects: their descriptors appear in this order.
        client = daemon.connect()
        client.ask(buy(10_000, 1, -100 - number), answers=1)
        clients.append(client)
    sources = [Orders(rng) for _ in clients]
    # Longer than a turn of the gateway: an event that does not wait is seen.
    shim.delay("fdatasync", 3_000)
    for number in range(60):
        for client, source in zip(clients, sources, strict=True):
            client.queue(source.batch(rng.randrange(1, 6)))
        clients[0].queue(buy(20_000 + number, 1, -200).pack())
        known = len(clients[0].received)
        pump(clients, lambda known=known: len(clients[0].received) > known)
    for client in clients:
        client.finish_sending()
        client.read_to_end()
    assert daemon.stop() == 0

    log = LogView.of(daemon.data_dir)
    ends = {
        record.wal_seq: record.offset_bytes + layout.COMMAND_RECORD_SIZE
        for path in storage.list_segments(daemon.data_dir)
        for record in segment.records(path)
    }
    command_of_event: dict[int, int] = {}
    for event in log.events:
        if event.kind == EventKind.HEAD:
            wal_seq = event.sequence
        else:
            command_of_event[event.sequence] = wal_seq
    by_fd: dict[int, Client] = {}
    sent_bytes: dict[int, int] = {}
    checked = 0
    waited_for: set[int] = set()
    for call in shim.log():
        if call.kind != "send" or call.bytes <= 0:
            continue
        if call.fd not in by_fd:
            by_fd[call.fd] = clients[len(by_fd)]
        start = sent_bytes.get(call.fd, 0)
        sent_bytes[call.fd] = end = start + call.bytes
        for frame_end, execution in frame_ends(by_fd[call.fd]):
            if start < frame_end <= end:
                assert ends[command_of_event[execution]] <= call.durable_end
                checked += 1
                waited_for.add(call.durable_end)
    assert checked == sum(len(client.parse()) for client in clients)
    assert checked > 300
    assert len(waited_for) > 20, "many syncs were waited for"


def frame_ends(client: Client) -> list[tuple[int, int]]:
    """Where each frame ends in the bytes that a client received, and its event's sequence."""
    ends = []
    at = 0
    for execution in client.parse():
        at += len(execution.pack())
        ends.append((at, execution.seq))
    return ends
