"""Halts and mass cancels: what the tables of tests/scenarios cannot say."""

from __future__ import annotations

import random

import pytest

from bourse.core.engine import Engine
from bourse.core.records import (
    INSTRUMENT_RECORD,
    Command,
    EngineState,
    unpack_events,
    unpack_order_records,
)
from bourse.domain import CommandKind, EventKind, OrderType, Reason, Side
from tests.matching.pair import Pair, packed


def order(session_id: int, client_order_id: int, price: int = 100, instrument: int = 1) -> Command:
    return Command(
        kind=CommandKind.NEW_ORDER,
        side=Side.BUY,
        order_type=OrderType.LIMIT,
        instrument_id=instrument,
        session_id=session_id,
        client_order_id=client_order_id,
        price_ticks=price,
        qty_lots=3,
    )


def halt(instrument: int = 1, kind: CommandKind = CommandKind.HALT) -> Command:
    return Command(kind=kind, session_id=1, instrument_id=instrument)


def mass_cancel(most: int, session_id: int = 0, until: int = 0) -> Command:
    return Command(
        kind=CommandKind.MASS_CANCEL,
        session_id=1,
        client_order_id=session_id,
        order_id=until,
        qty_lots=most,
    )


def two_books() -> Pair:
    pair = Pair()
    pair.define(1)
    pair.define(2, b"OTHER")
    pair.open(2, 3)
    return pair


def test_one_instrument_is_halted_the_other_trades() -> None:
    pair = two_books()

    pair.send(halt(2))

    assert pair.send(order(2, 1, instrument=2))[0].reason == Reason.HALTED
    assert pair.send(order(2, 1, instrument=1))[0].reason == Reason.NONE


def test_a_halt_is_part_of_the_state_and_of_its_digest() -> None:
    pair = two_books()
    pair.send(order(2, 1))
    before = pair.engine.state_digest

    pair.send(halt(1))
    halted = pair.engine.state_digest
    pair.restore()
    refused = pair.send(order(2, 2))[0]
    pair.send(halt(1, CommandKind.RESUME))

    assert halted != before
    assert refused.reason == Reason.HALTED
    assert pair.engine.state_digest == before


def test_two_instruments_halted_differ_from_one() -> None:
    digests = set()
    for halted in ([], [1], [2], [1, 2]):
        pair = two_books()
        for instrument in halted:
            pair.send(halt(instrument))
        digests.add(pair.engine.state_digest)

    assert len(digests) == 4


@pytest.mark.parametrize("is_halted", [0, 2])
def test_a_snapshot_whose_halt_was_changed_is_refused(is_halted: int) -> None:
    pair = two_books()
    pair.send(halt(1))
    engine = pair.engine
    instruments = engine.instruments()
    changed = INSTRUMENT_RECORD.pack(1, is_halted, b"DEMO") + instruments[32:]

    with pytest.raises(ValueError):
        Engine().restore(engine.state_bytes(), changed, packed(engine.sessions()), engine.orders())


def test_a_refused_halt_leaves_no_trace() -> None:
    pair = two_books()
    before = EngineState.unpack(pair.engine.state_bytes())

    for command in (halt(1)._replace(session_id=2), halt(1)._replace(flags=1), halt(7)):
        assert pair.send(command)[0].reason in (Reason.BAD_COMMAND, Reason.UNKNOWN_INSTRUMENT)

    after = EngineState.unpack(pair.engine.state_bytes())
    assert after == before._replace(wal_seq=before.wal_seq + 3, reject_count=3)


def test_orders_that_come_later_are_not_meant() -> None:
    pair = two_books()
    for number in range(5):
        pair.send(order(2, number))
    head = pair.send(mass_cancel(2))[0]
    pair.send(order(2, 9))
    pair.send(order(3, 9))

    assert head.order_id == 5
    ended = [len(pair.send(mass_cancel(2, until=head.order_id))) - 1 for _ in range(2)]
    last = pair.send(mass_cancel(2, until=head.order_id))[0]

    assert ended == [2, 1]
    assert last.reason == Reason.NOTHING_TO_CANCEL
    assert [found.order_id for found in pair.model.records()] == [6, 7]


def test_an_order_that_was_replaced_keeps_its_number_and_is_meant() -> None:
    pair = two_books()
    pair.send(order(2, 1))
    pair.send(
        Command(
            kind=CommandKind.REPLACE,
            session_id=2,
            client_order_id=1,
            price_ticks=105,
            qty_lots=9,
        )
    )

    ended = pair.send(mass_cancel(9, until=1))

    assert [event.order_id for event in ended[1:]] == [1]


def test_the_order_of_a_mass_cancel_is_the_same_after_a_restore() -> None:
    """Slots of sessions are given out anew: a session that ended leaves its slot to a later one."""
    pair = Pair()
    pair.define(1)
    pair.open(2, 3, 4)
    for session_id in (2, 3):
        pair.send(Command(kind=CommandKind.SESSION_END, session_id=session_id))
    pair.open(5, 6)
    for number, session_id in enumerate((6, 4, 5, 6, 4, 5)):
        pair.send(order(session_id, number))

    pair.restore()
    ended = []
    while (events := pair.send(mass_cancel(1)))[0].reason == Reason.NONE:
        ended.append(events[1].session_id)

    assert ended == [4, 4, 5, 5, 6, 6]


def test_a_hundred_thousand_orders_end_in_batches() -> None:
    engine = Engine()
    engine.apply(Command(kind=CommandKind.INSTRUMENT_DEFINE, instrument_id=1).pack())
    for session_id in range(2, 12):
        engine.apply(Command(kind=CommandKind.SESSION_OPEN, session_id=session_id).pack())
    source = random.Random(4)
    engine.run(
        b"".join(
            order(source.randint(2, 11), number, source.randint(1, 1_000)).pack()
            for number in range(100_000)
        )
    )
    engine.apply(halt().pack())
    ended: list[int] = []

    until, batches = 0, 0
    while True:
        events = unpack_events(engine.apply(mass_cancel(500, until=until).pack(), 64))
        assert len(events) <= 501
        if events[0].reason:
            break
        until = events[0].order_id
        batches += 1
        ended += [event.order_id for event in events[1:]]

    assert events[0].reason == Reason.NOTHING_TO_CANCEL
    assert sorted(ended) == list(range(1, 100_001))
    assert all(event.kind == EventKind.HEAD for event in events)
    assert 200 <= batches <= 210
    assert unpack_order_records(engine.orders()) == []
    engine.check()
