"""Crowds: a thousand connections, connections that come and go, and no descriptor left."""

import random
import resource
from collections.abc import Callable

from bourse.journal import storage
from tests.integration.harness import Client, Daemon, buy, pump, sell, wait_until


def test_hundreds_of_connections_each_get_their_own_answers(
    new_daemon: Callable[..., Daemon],
) -> None:
    daemon = new_daemon(poll="adaptive", durability="memory").start()
    clients = [daemon.connect() for _ in range(400)]
    for number, client in enumerate(clients):
        for order in range(10):
            side = sell if (number + order) % 2 else buy
            client.queue(side(order, 1, 100 + number % 3).pack())

    pump(clients, lambda: all(len(client.parse()) >= 10 for client in clients))
    status = daemon.settled()

    assert status.connections == 400
    assert status.orders == 4_000
    pump(clients, lambda: len({e.seq for c in clients for e in c.parse()}) == status.event_seq)
    assert daemon.call("sessions").total == 400
    assert daemon.stop() == 0


def test_connections_that_come_and_go_are_never_told_of_each_others_orders(
    new_daemon: Callable[..., Daemon],
) -> None:
    """Descriptors are reused at once: an answer that comes late must not reach the next one."""
    daemon = new_daemon(poll="adaptive", cancel_on_disconnect=True).start()
    rng = random.Random(1)
    for number in range(300):
        client = daemon.connect()
        base = number * 1000
        client.send(*[buy(base + n, 1, -number) for n in range(rng.randrange(1, 20))])
        if rng.random() < 0.5:
            client.abort()
            daemon.clients.remove(client)
            continue
        if rng.random() < 0.5:
            client.finish_sending()
            client.read_to_end()
        else:
            client.receive(1)
        assert all(base <= execution.id < base + 1000 for execution in client.parse())
        client.close()
        daemon.clients.remove(client)
    wait_until(lambda: daemon.call("status").connections == 0)
    assert daemon.settled().live_orders == 0
    assert daemon.stop() == 0


def test_a_low_limit_of_open_files_is_raised_as_far_as_it_goes(
    new_daemon: Callable[..., Daemon],
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 256), hard))
    try:
        daemon = new_daemon(durability="memory").start()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    assert resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE) == (hard, hard)
    assert daemon.stop() == 0


def test_a_crowd_of_clients_leaves_descriptors_for_the_operator(
    new_daemon: Callable[..., Daemon],
) -> None:
    daemon = new_daemon()
    real = daemon.command_line
    daemon.command_line = lambda: [  # type: ignore[method-assign]
        *("sh", "-c", 'ulimit -n 64; exec "$@"', "sh"),
        *real(),
    ]
    daemon.start()
    crowd = [daemon.connect() for _ in range(100)]
    crowd[0].ask(buy(1), answers=1)

    assert daemon.call("snapshot").live_orders == 1
    assert daemon.call("status").connections == 32
    assert daemon.log_lines("raise ulimit", "32 are served")
    assert daemon.stop() == 0


def test_when_descriptors_run_out_the_surplus_is_refused_and_the_rest_trades(
    new_daemon: Callable[..., Daemon],
) -> None:
    daemon = new_daemon(durability="memory").start()
    first = daemon.connect()
    first.ask(buy(1), answers=1)
    resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (40, 40))
    crowd: list[Client] = [daemon.connect() for _ in range(60)]

    # What is served and what is refused is decided soon, and the first is not concerned.
    for number in range(2, 50):
        first.ask(buy(number), answers=1)
    for client in crowd:
        client.close()
    first.ask(buy(50), answers=1)

    # Once descriptors are free again, everybody is welcome.
    wait_until(lambda: answers(daemon))
    assert daemon.is_running
    assert daemon.stop() == 0


def test_a_log_goes_on_where_no_descriptor_is_free_for_its_next_segment(
    new_daemon: Callable[..., Daemon],
) -> None:
    daemon = new_daemon(wal_segment_bytes=1 << 16).start()
    client = daemon.connect()
    client.ask(buy(1), answers=1)
    _, hard = resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (3, hard))  # none but those that it has
    for start in range(2, 3002, 500):
        client.ask(*[buy(n) for n in range(start, start + 500)], answers=500)
    assert daemon.is_running
    resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (hard, hard))

    # The next is made within a second or two, and the log goes on in it.
    before = len(storage.list_segments(daemon.data_dir))
    wait_until(lambda: bool(list((daemon.data_dir / "wal").glob("*.new"))))
    for start in range(3002, 5002, 500):
        client.ask(*[buy(n) for n in range(start, start + 500)], answers=500)
    assert len(storage.list_segments(daemon.data_dir)) > before
    status = daemon.settled()
    daemon.kill()
    assert daemon.start().settled().state_digest == status.state_digest
    assert daemon.stop() == 0


def answers(daemon: Daemon) -> bool:
    client = daemon.connect()
    client.queue(buy(1).pack())
    pump([client], lambda: bool(client.ended) or len(client.received) >= 31, 5.0)
    served = len(client.received) >= 31
    client.close()
    return served
