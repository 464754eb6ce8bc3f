"""An engine that takes memory for its orders at the start: nothing but time and memory differs."""

from __future__ import annotations

import pytest

from bourse.bench import churn, engine_runs
from bourse.core.engine import Engine


@pytest.mark.parametrize("expected", [1, 255, 256, 5_000, 100_000])
def test_the_state_is_the_same_below_at_and_above_the_expected_number(expected: int) -> None:
    states = []
    for orders_expected in (0, expected):
        engine = engine_runs.new_engine(churn.CHURN_SESSIONS, orders_expected=orders_expected)
        plan = churn.Churn(1, 5_001, 50)
        plan.fill(engine)
        churn.run(engine, plan.make(10_000, 4))
        engine.check()
        states.append((engine.state_bytes(), engine.orders()))

    assert states[0] == states[1]


def test_the_expected_orders_need_no_more_memory_later() -> None:
    engine = engine_runs.new_engine(churn.CHURN_SESSIONS, orders_expected=300_000)
    plan = churn.Churn(1, 300_000, 50)
    churn.Churn(2, 1_000, 50).fill(engine)
    before = engine.memory_bytes
    assert before >= 300_000 * 64

    other = engine_runs.new_engine(churn.CHURN_SESSIONS, orders_expected=300_000)
    plan.fill(other)

    assert other.live_order_count == 300_000
    assert other.memory_bytes == before
    other.check()


@pytest.mark.parametrize(("most", "expected"), [(10, 11), (10, -1), (1 << 30, (1 << 30) + 1)])
def test_a_number_out_of_range_is_refused(most: int, expected: int) -> None:
    with pytest.raises(ValueError, match="orders_expected"):
        Engine(most, expected)


def test_what_is_expected_is_no_limit() -> None:
    engine = engine_runs.new_engine(churn.CHURN_SESSIONS, orders_expected=10)
    churn.Churn(1, 2_000, 50).fill(engine)

    assert engine.live_order_count == 2_000
    engine.check()
