"""Many connections at once: every order timed, every event checked, both ways of a trade heard."""

import socket

import pytest

from bourse.bench import fan_in
from bourse.bench.client import AGAIN
from bourse.bench.fan_in_loops import FanIn
from bourse.bench.results import Percentiles
from bourse.errors import UsageError


def test_every_order_is_timed_and_every_event_checked() -> None:
    found = fan_in.measure(connections=6, samples=1_000, durability="memory")

    assert found.exit_code == 0, found.checks
    assert found.workload == "fan-in-6"
    assert found.samples == 996  # as many on each
    assert isinstance(found.latency_ns, Percentiles)
    assert isinstance(found.latency_ns.p50, int)
    assert found.latency_ns.p50 > 0
    assert {"trades_heard_by_both", "numbers_complete"} <= {check.name for check in found.checks}


COUNTS = {
    "events": 6,
    "trades": 1,
    "trades_made": 1,
    "filled": 2,
    "rejects": 0,
    "bought_lots": 1,
    "sold_lots": 1,
    "surprises": 0,
    "first_surprise": 0,
    "disorders": 0,
    "wrong_prices": 0,
    "wrong_leaves": 0,
    "first_sequence": 1,
    "last_sequence": 5,
    "once_sum": 15,
    "taken_sum": 3,
    "made_sum": 3,
}


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({}, None),
        ({"events": 5}, "events_expected"),
        ({"surprises": 1}, "events_exact"),
        ({"disorders": 1}, "sequence_increasing"),
        ({"rejects": 1}, "no_reject"),
        ({"filled": 1}, "orders_filled"),
        ({"sold_lots": 2}, "bought_equals_sold"),
        ({"wrong_prices": 1}, "prices_right"),
        ({"wrong_leaves": 1}, "leaves_zero"),
        ({"made_sum": 4}, "trades_heard_by_both"),
        ({"trades_made": 0}, "trades_heard_by_both"),
        ({"last_sequence": 6}, "numbers_complete"),
        ({"once_sum": 16}, "numbers_complete"),
    ],
)
def test_each_check_judges_its_own_count(change: dict[str, int], name: str | None) -> None:
    checks = fan_in.heard_checks({**COUNTS, **change}, 2, is_private=True)

    assert [check.name for check in checks if not check.ok] == ([name] if name else [])


@pytest.mark.parametrize(("connections", "samples"), [(0, 10), (3, 10), (1_002, 2_000), (8, 7)])
def test_wrong_flags_are_refused(connections: int, samples: int) -> None:
    with pytest.raises(UsageError, match="is not allowed"):
        fan_in.measure(connections=connections, samples=samples)


def test_ids_do_not_overlap_where_they_belong_to_all_connections() -> None:
    ours, theirs = zip(*(socket.socketpair() for _ in range(4)), strict=True)
    try:
        assert FanIn([line.fileno() for line in ours], 10).run() == AGAIN
        first = [line.recv(40) for line in theirs]
    finally:
        for line in (*ours, *theirs):
            line.close()

    assert [int.from_bytes(order[6:14], "little") for order in first] == [1, 11, 21, 31]
    assert [order[14] for order in first] == [2, 1, 2, 1]


def test_an_odd_number_of_connections_is_refused() -> None:
    with pytest.raises(ValueError, match="an even number"):
        FanIn([0, 1, 2], 1)
