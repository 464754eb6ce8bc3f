"""Deterministic scenes of the console: a store filled from samples, and a clock that stands."""

from functools import cache
from math import sin

import msgspec

from bourse.admin.client import Connection, ConnectionState
from bourse.admin.messages import Frame, Hello, Status
from bourse.admin.store import Store
from bourse.tui.app import Console
from tests.admin import samples

TICKS = 600
"""Two minutes of frames, five a second."""
CHANGED_NS = 1_790_000_125_000_000_000


class Clock:
    """A clock that goes only when told."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def filled_store(clock: Clock, ticks: int = TICKS) -> Store:
    """Return a store that watched the sample daemon for a while."""
    store = _filled(ticks).copy()
    store._clock = clock
    store._heard = clock.now
    return store


@cache
def _filled(ticks: int) -> Store:
    store = Store(Clock())
    store.apply(Connection(ConnectionState.CONNECTED, hello=Hello(1, "0.1.0", "default", 4711, 0)))
    for tick in range(ticks):
        store.apply(Frame("status", tick + 1, 0, wavy_status(tick)))
        if tick % 2 == 0 or tick > ticks - 3:
            store.apply(Frame("latency", tick + 1, 0, samples.latency(tick)))
    last = ticks - 1
    for topic in ("depth", "trades", "log"):
        store.apply(Frame(topic, 1, 0, samples.TOPIC_SAMPLES[topic](last)))
    for tick in range(max(0, last - 20), last + 1):
        store.apply(Frame("wal", tick + 1, 0, samples.wal(tick)))
        store.apply(Frame("sessions", tick + 1, 0, samples.sessions(tick)))
    store.changed_ns = CHANGED_NS
    return store


def wavy_status(tick: int) -> Status:
    """A status whose commands come in waves."""

    base = samples.status(tick)
    commands = 26_046 + sum(
        int(330 + 180 * sin(step / 40) + 60 * ((step * 7_919) % 13 - 6) / 6) for step in range(tick)
    )
    return msgspec.structs.replace(base, commands=commands)


def console(clock: Clock, store: Store, **more) -> Console:
    """Return a console without a feed, to be run with run_test()."""
    return Console(store=store, clock=clock, **more)
