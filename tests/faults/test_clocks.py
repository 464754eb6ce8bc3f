"""The wall clock jumps: order, priority and time-outs do not care (rows P3 and P4)."""

import random
import time
from collections.abc import Callable

import pytest

from bourse.protocol.messages import Trade
from tests.faults.shim import FaultShim
from tests.faults.story import Story, compare_clients
from tests.integration.harness import Daemon, LogView, Orders, buy, pump, sell, wait_until

HOUR_NS = 3600 * 10**9
YEAR_NS = 365 * 24 * HOUR_NS


def received_ns(daemon: Daemon) -> list[int]:
    return [command.received_ns for command in LogView.of(daemon.data_dir).commands]


def test_the_log_is_in_order_whatever_the_wall_clock_does(
    new_daemon: Callable[..., Daemon], shim: FaultShim
) -> None:
    """Jumps while trading and between two runs; times in the log are max(last, now)."""
    daemon = new_daemon(poll="adaptive")
    daemon.environment = shim.environment(daemon.data_dir)
    rng = random.Random(31)
    seen = 0
    for offset_ns in (HOUR_NS, -HOUR_NS, -YEAR_NS):
        shim["wall_offset_ns"] = offset_ns
        daemon.start()
        client = daemon.connect()
        session = daemon.session_of(client)
        source = Orders(rng)
        for jump_ns in (0, -HOUR_NS, HOUR_NS, -YEAR_NS):
            shim["wall_offset_ns"] = offset_ns + jump_ns
            known = len(client.received)
            client.send_bytes(source.batch(20))
            pump([client], lambda c=client, known=known: len(c.received) > known)
        client.finish_sending()
        client.read_to_end()
        assert daemon.stop() == 0
        log = LogView.of(daemon.data_dir)
        assert compare_clients(log, {session: (client, source)}) == 0
        times = received_ns(daemon)
        assert times == sorted(times)
        assert len(times) >= seen + 80
        seen = len(times)
    real_ns = time.time_ns()
    # The farthest the clock ever was: an hour ahead of an hour ahead; from there on time stands.
    assert real_ns + HOUR_NS < times[-1] < real_ns + 3 * HOUR_NS


def test_priority_at_a_price_is_that_of_arrival_when_the_clock_goes_back(
    new_daemon: Callable[..., Daemon], shim: FaultShim
) -> None:
    daemon = new_daemon()
    daemon.environment = shim.environment(daemon.data_dir)
    daemon.start()
    client = daemon.connect()
    for number, offset_ns in enumerate((0, -HOUR_NS, HOUR_NS, -YEAR_NS, 5), 1):
        shim["wall_offset_ns"] = offset_ns
        client.ask(sell(number), answers=1)

    daemon.connect().send(buy(100, 5))

    def trades() -> list[int]:
        return [one.maker for one in client.parse() if isinstance(one, Trade)]

    pump([client], lambda: len(trades()) == 5)
    assert trades() == [1, 2, 3, 4, 5]


def test_a_replay_needs_no_clock(new_daemon: Callable[..., Daemon], shim: FaultShim) -> None:
    """The digests of a run whose clock jumped are those of a replay whose clock did not."""
    story = Story(new_daemon(), seed=32)
    story.daemon.environment = shim.environment(story.daemon.data_dir)
    shim["wall_offset_ns"] = -YEAR_NS
    passes = 0

    def jump() -> None:
        nonlocal passes
        passes += 1
        shim["wall_offset_ns"] += random.Random(passes).choice((-HOUR_NS, HOUR_NS))
        if passes == 40:
            story.daemon.send_signal(15)

    assert story.live(during=jump) == 0

    story.end()


@pytest.mark.parametrize("jump_ns", [YEAR_NS, -YEAR_NS])
def test_time_outs_do_not_follow_the_wall_clock(
    new_daemon: Callable[..., Daemon], shim: FaultShim, jump_ns: int
) -> None:
    """Nobody is dropped by a jump; who is to be dropped is, after as long as was configured."""
    daemon = new_daemon(poll="adaptive", frame_seconds=1.0, slow_reader_seconds=1.0)
    daemon.environment = shim.environment(daemon.data_dir)
    daemon.start()
    crowd = [daemon.connect() for _ in range(20)]
    for number, client in enumerate(crowd):
        client.ask(buy(1, 1, -number), answers=1)
    half, late = daemon.connect(), daemon.connect()
    frame = buy(7).pack()

    started = time.monotonic()
    half.send_bytes(frame[:10])
    late.send_bytes(frame[:10])
    shim["wall_offset_ns"] = jump_ns
    time.sleep(0.3)
    half.send_bytes(frame[10:])
    assert len(half.receive(1)) == 1, "within its time: not dropped by the jump"
    late.read_to_end(5.0)
    waited = time.monotonic() - started

    assert 0.9 < waited < 4.0
    late.close()
    for client in crowd:
        client.ask(buy(2, 1, -100), answers=1)
    wait_until(lambda: len(daemon.call("sessions").sessions) == 21)
    for client in (*crowd, half):
        client.abort()
    assert daemon.stop() == 0
