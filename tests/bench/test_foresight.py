"""Looking ahead changes nothing but time, whatever the commands are."""

from __future__ import annotations

import random

import pytest

from bourse.bench import churn, engine_runs
from bourse.core.engine import Engine
from bourse.core.records import Command
from bourse.domain import CommandKind

ORDERS = 20_000
"""More than an index may have that is too small to look ahead in."""


def filled(levels: int, seed: int = 1) -> tuple[Engine, churn.Churn]:
    engine = engine_runs.new_engine(churn.CHURN_SESSIONS)
    plan = churn.Churn(seed, ORDERS, levels)
    plan.fill(engine)
    return engine, plan


@pytest.mark.parametrize("levels", [2, 2_000])
@pytest.mark.parametrize("cancels", [0, 2, 5])
def test_the_digests_are_the_same(levels: int, cancels: int) -> None:
    ahead, plan = filled(levels)
    blind, _ = filled(levels)
    commands = plan.make(10_000, cancels)

    assert churn.run(ahead, commands, True) > 0
    churn.run(blind, commands, False)

    assert ahead.state_bytes() == blind.state_bytes()
    assert engine_runs.state(ahead).reject_count == 0
    assert ahead.live_order_count == ORDERS
    ahead.check()


def test_a_book_keeps_its_levels() -> None:
    engine, plan = filled(2_000)
    churn.run(engine, plan.make(10_000, 2))

    bids, asks = engine.depth_levels()
    assert len(bids) + len(asks) == pytest.approx(2_000, rel=0.02)


def test_nonsense_is_looked_ahead_at_too() -> None:
    source = random.Random(3)
    ahead, _ = filled(100)
    blind, _ = filled(100)
    edges = [0, 1, 2, 17, 18, 2**31, 2**32 - 1]
    wide = [0, 1, ORDERS, 2**63, 2**64 - 1]
    kinds = [kind for kind in CommandKind if kind < CommandKind.DEPTH]
    commands = b"".join(
        Command(
            kind=source.choice(kinds),
            side=source.choice([0, 1, 2, 3, 255]),
            order_type=source.choice([0, 1, 2, 3, 4, 5, 200]),
            flags=source.choice([0, 0, 1]),
            instrument_id=source.choice(edges),
            session_id=source.choice(edges),
            client_order_id=source.choice([*wide, source.randint(1, ORDERS)]),
            order_id=source.choice(wide),
            price_ticks=source.choice([-(2**63), 2**63 - 1, 0, churn.MID_TICKS]),
            qty_lots=source.choice([0, 1, 5, 2**64 - 1]),
        ).pack()
        for _ in range(5_000)
    )

    churn.run(ahead, commands, True)
    churn.run(blind, commands, False)

    assert ahead.state_bytes() == blind.state_bytes()
    assert engine_runs.state(ahead).reject_count > 1_000
    ahead.check()
