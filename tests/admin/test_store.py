"""The store: latest values, rates, histories, staleness."""

import msgspec
import pytest

from bourse.admin.client import Connection, ConnectionState
from bourse.admin.markers import MarkerKind
from bourse.admin.messages import Frame, Hello, Log, LogLine, Percentiles, Trades
from bourse.admin.store import (
    DIGESTS_MAX,
    HISTORY_SAMPLES_MAX,
    TRADES_MAX,
    Badge,
    History,
    Meter,
    Store,
)
from tests.admin import samples

SECOND_NS = 1_000_000_000


class Clock:
    def __init__(self) -> None:
        self.now = 50.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(clock: Clock) -> Store:
    return Store(clock)


def take(store: Store, topic: str, tick: int = 0) -> None:
    store.apply(Frame(topic, tick + 1, 0, samples.TOPIC_SAMPLES[topic](tick)))


def test_a_meter_needs_two_readings() -> None:
    meter = Meter()
    assert meter.per_second == 0.0

    meter.add(SECOND_NS, 10)
    assert meter.per_second == 0.0

    meter.add(3 * SECOND_NS, 30)
    assert meter.per_second == 10.0


def test_a_meter_forgets_what_is_older_than_its_window() -> None:
    meter = Meter()
    for second, value in enumerate([0, 1_000, 1_010, 1_020, 1_030]):
        meter.add(second * SECOND_NS, value)

    assert meter.per_second == 10.0


@pytest.mark.parametrize(("mono_ns", "value"), [(SECOND_NS // 2, 20), (3 * SECOND_NS, 5)])
def test_a_meter_starts_anew_when_clock_or_counter_goes_back(mono_ns: int, value: int) -> None:
    meter = Meter()
    meter.add(SECOND_NS, 10)
    meter.add(2 * SECOND_NS, 20)

    meter.add(mono_ns, value)

    assert meter.per_second == 0.0


def test_the_same_moment_read_twice_counts_once() -> None:
    meter = Meter()
    meter.add(SECOND_NS, 10)
    meter.add(SECOND_NS, 10)
    meter.add(2 * SECOND_NS, 15)

    assert meter.per_second == 5.0


def test_history_keeps_one_sample_a_second_and_is_bounded() -> None:
    history = History()
    for tick in range(5 * (HISTORY_SAMPLES_MAX + 10)):
        if history.due(SECOND_NS + tick * 200_000_000):
            history.add(tick)

    assert len(history.samples) == HISTORY_SAMPLES_MAX
    assert history.tail(3) == [5 * (HISTORY_SAMPLES_MAX + 10) - back for back in (15, 10, 5)]


def test_a_history_of_nothing_is_no_news_until_something_has_left_it() -> None:
    history = History()

    assert not history.add(0, is_nothing=True)
    assert history.add(5)
    assert all(history.add(0, is_nothing=True) for _ in range(HISTORY_SAMPLES_MAX - 1))
    assert not history.add(0, is_nothing=True)


def test_history_goes_on_when_another_daemons_clock_is_lower() -> None:
    history = History()
    assert history.due(900 * SECOND_NS)
    assert not history.due(900 * SECOND_NS + 5)

    assert history.due(2 * SECOND_NS)


def test_rates_come_from_counters_and_the_daemons_clock(store: Store) -> None:
    for tick in range(20):
        take(store, "status", tick)

    assert store.rate("commands") == pytest.approx(330 * 5)
    assert store.rate("trades") == pytest.approx(90 * 5)
    assert store.rate("unheard") == 0.0


def test_session_rates_are_per_session(store: Store) -> None:
    for tick in range(11):
        take(store, "sessions", tick)

    assert store.sessions is not None
    rates = [store.session_rates(session)[0] for session in store.sessions.sessions]
    assert rates == pytest.approx([812, 402, 0, 31], abs=3)


def test_equal_values_make_nothing_dirty(store: Store) -> None:
    take(store, "depth")
    assert store.take_dirty() == {"depth"}

    later = msgspec.structs.replace(samples.depth(), mono_ns=99 * SECOND_NS)
    store.apply(Frame("depth", 2, 0, later))

    assert store.take_dirty() == set()
    assert store.depth == later


def test_changed_ns_moves_only_with_a_change(store: Store) -> None:
    take(store, "wal")
    first = store.changed_ns
    take(store, "wal")
    assert store.changed_ns == first

    take(store, "wal", 1)
    assert store.changed_ns > first


def test_another_process_of_the_daemon_starts_the_rates_anew(store: Store) -> None:
    for tick in range(10):
        take(store, "status", tick)
    take(store, "depth", 9)

    reborn = msgspec.structs.replace(samples.status(30), pid=4712)
    store.apply(Frame("status", 1, 0, reborn))

    assert store.rate("commands") == 0.0
    assert not store.digests


def test_trades_overlap_without_doubling(store: Store) -> None:
    store.apply(Frame("trades", 1, 0, samples.trades(0, 60)))
    store.apply(Frame("trades", 2, 0, samples.trades(0, 60)))
    assert len(store.trades) == 60

    more = samples.trades(0, 3)
    shifted = [msgspec.structs.replace(trade, sequence=trade.sequence + 2) for trade in more.trades]
    store.apply(Frame("trades", 3, 0, Trades(shifted, shifted[-1].sequence)))

    assert len(store.trades) == 62
    sequences = [trade.sequence for trade in store.trades]
    assert sequences == sorted(set(sequences))
    assert next(iter(store.last_trades(1))).sequence == shifted[-1].sequence


def test_a_new_subscription_that_reaches_back_to_what_is_known_missed_nothing(store: Store) -> None:
    trades = samples.trades()
    store.apply(Frame("trades", 1, 0, trades))
    known = len(store.trades)

    # The first frame after a change of rate: what is kept, and all before it as missed.
    store.apply(Frame("trades", 1, 0, msgspec.structs.replace(trades, missed=721)))

    assert store.trades_missed == 0
    assert len(store.trades) == known


def test_missed_trades_are_counted_and_the_tape_is_bounded(store: Store) -> None:
    store.apply(Frame("trades", 1, 0, samples.trades(0, 60)))
    gap = samples.trades(50, TRADES_MAX)
    store.apply(Frame("trades", 2, 0, msgspec.structs.replace(gap, missed=17)))

    assert store.trades_missed == 17
    assert len(store.trades) == TRADES_MAX


def test_a_log_that_starts_over_starts_the_tape_over(store: Store) -> None:
    store.apply(Frame("trades", 1, 0, samples.trades(0, 60)))
    fresh = [msgspec.structs.replace(samples.trades(0, 1).trades[0], sequence=7)]

    store.apply(Frame("trades", 2, 0, Trades(fresh, 7)))

    assert [trade.sequence for trade in store.trades] == [7]


def test_live_digests_are_remembered_by_wal_seq(store: Store) -> None:
    for tick in range(3):
        take(store, "depth", tick)
    seen = samples.depth(1)
    assert store.digests[seen.wal_seq] == (samples.DIGEST, samples.EVENTS_DIGEST)

    for number in range(DIGESTS_MAX + 5):
        depth = msgspec.structs.replace(samples.depth(0, 1), wal_seq=number)
        store.apply(Frame("depth", 1, 0, depth))
    assert len(store.digests) == DIGESTS_MAX


def test_the_badge_tells_how_far_to_trust(store: Store, clock: Clock) -> None:
    assert store.badge() == (Badge.CONNECTING, 0)

    store.apply(Connection(ConnectionState.CONNECTED))
    take(store, "status")
    assert store.badge() == (Badge.LIVE, 0)
    assert store.is_live

    clock.now += 3.5
    assert store.badge() == (Badge.STALE, 3)
    assert not store.is_live

    store.apply(Connection(ConnectionState.LOST, "gone"))
    clock.now += 4
    assert store.badge() == (Badge.RECONNECTING, 7)

    store.apply(Connection(ConnectionState.CONNECTED))
    take(store, "status", 1)
    assert store.badge() == (Badge.LIVE, 0)


def test_a_copy_stays_as_it_was(store: Store) -> None:
    for topic in samples.TOPIC_SAMPLES:
        take(store, topic)
    held = store.copy()

    for tick in range(1, 40):
        for topic in samples.TOPIC_SAMPLES:
            take(store, topic, tick)

    assert held.depth == samples.depth(0)
    assert len(held.trades) == 60
    assert len(held.latency_history.samples) == 1
    assert held.rate("commands") == 0.0


def test_frames_of_an_unknown_topic_only_count(store: Store) -> None:
    store.apply(Frame("weather", 1, 4, {}))

    assert store.frames == 1
    assert store.skipped == 4
    assert store.take_dirty() == set()


def test_a_read_seen_in_the_ring_is_no_news(store: Store) -> None:
    take(store, "status")
    store.take_dirty()

    seen = msgspec.structs.replace(samples.status(), mono_ns=2, command_ring_used=9)
    store.apply(Frame("status", 2, 0, seen))

    assert "status" not in store.take_dirty()
    assert store.status == seen


def test_log_lines_are_taken_once_and_equal_neighbours_are_counted(store: Store) -> None:
    def frame(numbers: range, last: int, missed: int = 0, text: str = "x") -> Frame:
        lines = [LogLine(number, number, "info", f"{text}{number}") for number in numbers]
        return Frame("log", 1, 0, Log(lines, last, missed))

    store.apply(frame(range(1, 4), 3))
    store.apply(frame(range(2, 5), 4))  # a new subscription reaches back
    assert [entry.text for entry in store.log] == ["x1", "x2", "x3", "x4"]

    store.apply(frame(range(9, 10), 9, missed=4))
    assert store.log_missed == 4

    for _ in range(50):
        store.note("error", "the same")
    assert (store.log[-1].text, store.log[-1].count) == ("the same", 50)
    assert store.log[-1].source == "console"


def test_another_process_of_the_daemon_adds_to_the_log(store: Store) -> None:
    def connected(pid: int) -> Connection:
        return Connection(ConnectionState.CONNECTED, hello=Hello(1, "0", "default", pid, 0))

    store.apply(connected(1))
    store.apply(Frame("log", 1, 0, Log([LogLine(1, 5, "info", "old")], 1)))
    store.apply(connected(2))
    store.apply(Frame("log", 1, 0, Log([LogLine(1, 9, "info", "new")], 1)))

    assert [entry.text for entry in store.log] == ["old", "new"]


def test_markers_say_where_along_the_log_things_happened(store: Store) -> None:
    store.apply(Connection(ConnectionState.CONNECTED))
    for tick in range(10):
        take(store, "status", tick)
    take(store, "wal", 0)
    calm = [marker.kind for marker in store.all_markers()]
    assert calm == [MarkerKind.RESTART, MarkerKind.SNAPSHOT]

    slow = msgspec.structs.replace(
        samples.wal(1), sync_window=Percentiles(count=200, p50=1, p90=1, p99=10**9, max=10**9)
    )
    for _ in range(3):  # it lasts: one marker
        store.apply(Frame("wal", 1, 0, slow))
    rejecting = samples.status(10)
    for tick in range(10, 30):
        rejecting = msgspec.structs.replace(samples.status(tick), rejects=118 + (tick - 9) * 300)
        store.apply(Frame("status", 1, 0, rejecting))
    store.apply(Connection(ConnectionState.LOST, "gone"))
    store.apply(Connection(ConnectionState.LOST, "gone", attempt=2))

    found = [marker.kind for marker in store.all_markers()]
    assert found.count(MarkerKind.SLOW_SYNC) == 1
    assert found.count(MarkerKind.REJECTS) == 1
    assert found.count(MarkerKind.LOST) == 1
    assert store.all_markers()[-1].wal_seq == rejecting.wal_seq


def test_a_gap_in_the_tape_is_remembered_where_it_is(store: Store) -> None:
    take(store, "trades", 0)
    later = samples.trades(100)
    store.apply(Frame("trades", 2, 0, msgspec.structs.replace(later, missed=7)))

    assert store.trade_gaps == {later.trades[0].sequence: 7}
