"""The engine's face, digests, restore, and what only shows with many orders, levels and ids."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from bourse.core.engine import Engine
from bourse.core.records import Command, EngineState, unpack_events, unpack_order_records
from bourse.domain import CommandFlag, CommandKind, EventKind, OrderType, Reason, Side
from tests.matching.pair import Pair, packed

U64_MAX = 2**64 - 1


def limit(client_order_id: int, side: Side, qty: int, price: int, session_id: int = 2) -> Command:
    """A Limit order on instrument 1."""
    return Command(
        kind=CommandKind.NEW_ORDER,
        side=side,
        order_type=OrderType.LIMIT,
        instrument_id=1,
        session_id=session_id,
        client_order_id=client_order_id,
        price_ticks=price,
        qty_lots=qty,
    )


def cancel(client_order_id: int, session_id: int = 2) -> Command:
    return Command(kind=CommandKind.CANCEL, session_id=session_id, client_order_id=client_order_id)


def replace(client_order_id: int, total: int, price: int, session_id: int = 2) -> Command:
    return Command(
        kind=CommandKind.REPLACE,
        session_id=session_id,
        client_order_id=client_order_id,
        price_ticks=price,
        qty_lots=total,
    )


def ready_pair(orders_max: int = 2**30) -> Pair:
    pair = Pair(orders_max)
    pair.define()
    pair.open(2, 3)
    return pair


def ready_engine() -> Engine:
    return ready_pair().engine


def run(engine: Engine, commands: list[Command]) -> None:
    engine.run(b"".join(command.pack() for command in commands))


def operator(kind: CommandKind, **fields: int) -> Command:
    return Command(kind=kind, session_id=1, **fields)


# --- Digests ---


def test_vectors_of_the_specification_hold() -> None:
    page = (Path(__file__).parents[2] / "docs" / "matching.md").read_text()
    expected = [
        (int(events, 16), int(state, 16))
        for events, state in re.findall(r"\| `(0x\w{16})` \| `(0x\w{16})` \|", page)
    ]
    buy = limit(3, Side.BUY, 7, 101)
    commands = [
        Command(kind=5, session_id=2),
        limit(1, Side.SELL, 5, 101),
        limit(2, Side.SELL, 5, 100),
        buy,
        buy._replace(client_order_id=4, order_type=OrderType.POST_ONLY, qty_lots=1),
        limit(4, Side.BUY, U64_MAX, -(2**63)),
        buy._replace(client_order_id=5, order_type=OrderType.MARKET, qty_lots=4),
        cancel(4),
        limit(6, Side.BUY, 5, 100),
        limit(7, Side.SELL, 5, 102),
        replace(6, 4, 100),
        replace(6, 9, 102),
        replace(6, 5, 102),
        limit(8, Side.BUY, 5, 100),
        operator(CommandKind.HALT, instrument_id=1),
        limit(9, Side.BUY, 5, 100),
        operator(CommandKind.MASS_CANCEL, qty_lots=9),
        operator(CommandKind.RESUME, instrument_id=1),
    ]
    pair = Pair()
    pair.define()

    found = []
    for command in commands:
        pair.send(command)
        found.append((pair.engine.event_digest, pair.engine.state_digest))

    assert len(expected) == len(commands)
    assert found == expected


def test_every_reason_is_in_the_specification() -> None:
    page = (Path(__file__).parents[2] / "docs" / "matching.md").read_text()

    for reason in Reason:
        assert f"| {reason.value} | {reason.name} | {reason.sentence} |" in page


def test_state_digest_forgets_how_the_book_came_about_but_not_its_queue() -> None:
    first, second = ready_engine(), ready_engine()
    empty = first.state_digest
    run(first, [limit(1, Side.BUY, 5, 100), limit(2, Side.BUY, 5, 100)])
    run(second, [limit(2, Side.BUY, 5, 100), limit(1, Side.BUY, 5, 100)])

    # Client order ids are not in it, so these are the same two orders.
    assert first.state_digest == second.state_digest != empty
    run(first, [cancel(1), cancel(2)])
    assert first.state_digest == empty == 0


def test_event_digest_depends_on_the_order_of_events() -> None:
    first, second = ready_engine(), ready_engine()
    one, two = limit(1, Side.BUY, 5, 100), limit(2, Side.BUY, 6, 100)

    run(first, [one, two])
    run(second, [two, one])

    assert first.event_digest != second.event_digest


# --- The Python face ---


def test_apply_refuses_what_is_not_a_logged_command_and_executes_nothing() -> None:
    engine = ready_engine()
    before = engine.state_bytes()

    with pytest.raises(ValueError, match="63 bytes, expected 64"):
        engine.apply(bytes(63))
    with pytest.raises(ValueError, match="128 is not logged"):
        engine.apply(Command(kind=CommandKind.DEPTH).pack())
    with pytest.raises(ValueError, match="events_max=0"):
        engine.apply(limit(1, Side.BUY, 1, 1).pack(), 0)
    with pytest.raises(ValueError, match="not whole commands"):
        engine.run(bytes(65))
    with pytest.raises(ValueError, match="128 is not logged"):
        engine.run(limit(1, Side.BUY, 1, 1).pack() + Command(kind=CommandKind.DEPTH).pack())

    assert engine.state_bytes() == before


def test_run_apply_and_apply_all_do_the_same() -> None:
    commands = [
        limit(n, Side.BUY if n % 3 else Side.SELL, n % 7 + 1, n * 7 % 5) for n in range(1, 500)
    ]
    one, all_at_once, silent = ready_engine(), ready_engine(), ready_engine()

    events = b"".join(one.apply(command.pack()) for command in commands)

    assert all_at_once.apply_all(b"".join(command.pack() for command in commands)) == events
    run(silent, commands)
    assert one.state_bytes() == all_at_once.state_bytes() == silent.state_bytes()


def test_unknown_instrument_has_no_depth() -> None:
    engine = ready_engine()

    with pytest.raises(ValueError, match="instrument_id=9"):
        engine.depth_levels(instrument_id=9)
    with pytest.raises(ValueError, match="instrument_id=9"):
        engine.best_bid(9)


def test_depth_is_cut_at_the_number_of_levels_asked_for() -> None:
    engine = ready_engine()
    run(engine, [limit(n, Side.BUY, n, n) for n in range(1, 300)])
    run(engine, [limit(1000 + n, Side.SELL, 1, 1000 + n) for n in range(5)])

    bids, asks = engine.depth_levels(3)

    assert bids == [(299, 299, 1), (298, 298, 1), (297, 297, 1)]
    assert asks == [(1000, 1, 1), (1001, 1, 1), (1002, 1, 1)]


def test_orders_max_out_of_range_is_refused() -> None:
    with pytest.raises(ValueError, match="orders_max=0"):
        Engine(orders_max=0)
    with pytest.raises(ValueError, match="orders_max"):
        Engine(orders_max=2**30 + 1)


def test_the_last_order_that_fits_is_taken_and_the_next_refused() -> None:
    pair = ready_pair(orders_max=3)
    for number in range(3):
        pair.send(limit(number, Side.BUY, 1, 100 + number))

    events = pair.send(limit(3, Side.BUY, 1, 100))

    assert [event.reason for event in events] == [Reason.OUT_OF_MEMORY] * 2
    # Orders that cannot rest need no room.
    pair.send(limit(4, Side.SELL, 1, 102)._replace(order_type=OrderType.IOC))
    events = pair.send(limit(3, Side.BUY, 1, 100))
    assert events[0].reason == Reason.NONE


# --- Restore ---


def exported() -> tuple[bytes, bytes, bytes, bytes]:
    """Two instruments, an ended session with a live order, three levels."""
    pair = ready_pair()
    pair.define(7, b"OTHER")
    pair.send(limit(1, Side.BUY, 5, 100))
    pair.send(limit(2, Side.BUY, 5, 100))
    pair.send(limit(1, Side.BUY, 5, 99, session_id=3))
    pair.send(limit(3, Side.SELL, 5, 101)._replace(instrument_id=7))
    pair.send(limit(9, Side.SELL, 2, 100))
    pair.send(Command(kind=CommandKind.SESSION_END, session_id=3))
    pair.open(5)
    engine = pair.engine
    return engine.state_bytes(), engine.instruments(), packed(engine.sessions()), engine.orders()


def test_restored_engine_exports_the_same_whatever_the_order_of_the_parts() -> None:
    state, instruments, sessions, orders = exported()
    records = unpack_order_records(orders)
    backwards = b"".join(record.pack() for record in reversed(records))
    engine = Engine()

    engine.restore(state, instruments, sessions[4:] + sessions[:4], backwards)

    engine.check()
    assert engine.orders() == orders
    assert engine.state_bytes() == state
    assert engine.instruments() == instruments
    assert packed(engine.sessions()) == sessions


def changed(orders: bytes, **fields: int) -> bytes:
    """The first order record with other fields."""
    return unpack_order_records(orders)[0]._replace(**fields).pack() + orders[64:]


@pytest.mark.parametrize(
    "fields",
    [
        {"leaves_lots": 0},
        {"leaves_lots": 6},
        {"leaves_lots": 2},
        {"price_ticks": 98},
        {"side": 3},
        {"order_type": 2},
        {"session_id": 0},
        {"instrument_id": 8},
        {"instrument_id": 7},
        {"order_id": 0},
        {"order_id": 2},
        {"order_id": 99},
        {"priority": 0},
        {"priority": 99},
        {"session_id": 99},
        {"client_order_id": 2},
    ],
)
def test_restore_refuses_an_order_that_does_not_fit(fields: dict[str, int]) -> None:
    state, instruments, sessions, orders = exported()

    with pytest.raises(ValueError):
        Engine().restore(state, instruments, sessions, changed(orders, **fields))


def test_restore_refuses_parts_that_do_not_fit_each_other() -> None:
    state, instruments, sessions, orders = exported()
    wrong_digest = EngineState.unpack(state)._replace(state_digest=1).pack()

    for parts in (
        (wrong_digest, instruments, sessions, orders),
        (state, instruments, sessions, orders[64:]),
        (state, instruments[32:], sessions, orders),
        (state, instruments + instruments, sessions, orders),
        (state, instruments, sessions[:-4], orders),
        (state, instruments, sessions + sessions, orders),
        (state[:-1], instruments, sessions, orders),
        (state, instruments, sessions, orders + b"x"),
    ):
        with pytest.raises(ValueError):
            Engine().restore(*parts)


def test_restore_into_an_engine_that_is_not_new_is_refused() -> None:
    with pytest.raises(ValueError, match="not new"):
        ready_engine().restore(*exported())


def test_crossed_book_is_not_restored() -> None:
    pair = ready_pair()
    pair.send(limit(1, Side.BUY, 5, 100))
    pair.send(limit(2, Side.SELL, 5, 101))
    engine = pair.engine
    crossing = unpack_order_records(engine.orders())[1]._replace(price_ticks=100)
    orders = engine.orders()[:64] + crossing.pack()
    model_order = pair.model.orders[1]
    model_order.price = 100
    state = EngineState.unpack(engine.state_bytes())
    state = state._replace(state_digest=pair.model.state_digest())

    with pytest.raises(ValueError, match="crossed"):
        Engine().restore(state.pack(), engine.instruments(), packed(engine.sessions()), orders)


# --- Many ---


def test_five_thousand_fills_at_one_price_in_one_sweep() -> None:
    engine = ready_engine()
    run(engine, [limit(n, Side.SELL, 2, 100) for n in range(5_000)])

    events = unpack_events(engine.apply(limit(5_000, Side.BUY, 10_001, 100).pack(), 7))

    trades = [event for event in events if event.kind == EventKind.TRADE]
    assert [trade.client_order_id for trade in trades] == list(range(5_000))
    assert [event.sequence for event in events[1:]] == list(range(5_001, 15_002))
    engine.check()
    assert engine.depth_levels() == ([(100, 1, 1)], [])


@pytest.mark.parametrize("side", Side)
@pytest.mark.parametrize("order", ["up", "down", "shuffled"])
def test_levels_come_and_go_in_any_order(side: Side, order: str) -> None:
    source = random.Random(5)
    prices = list(range(-2_000, 2_000))
    if order == "down":
        prices.reverse()
    elif order == "shuffled":
        source.shuffle(prices)
    engine = ready_engine()
    run(engine, [limit(price + 2_000, side, 1, price) for price in prices])
    engine.check()
    left = set(prices)

    for price in source.sample(prices, len(prices)):
        run(engine, [cancel(price + 2_000)])
        left.remove(price)
        if len(left) % 97 == 0 or len(left) < 10:
            engine.check()
            levels = engine.depth_levels()[side - 1]
            best_first = sorted(left, reverse=side == Side.BUY)
            assert [level[0] for level in levels] == best_first

    assert engine.live_order_count == 0


def test_blocks_of_levels_stay_few_when_most_levels_are_gone() -> None:
    engine = ready_engine()
    run(engine, [limit(price, Side.BUY, 1, price) for price in range(20_000)])

    run(engine, [cancel(price) for price in range(20_000) if price % 50])

    engine.check()
    assert len(engine.depth_levels()[0]) == 400
    # 400 levels fill four blocks; merging leaves each at least a quarter full on average.
    assert engine.block_count <= 16


def test_sweep_through_many_blocks_of_levels() -> None:
    engine = ready_engine()
    run(engine, [limit(price, Side.SELL, 1, price) for price in range(1_000)])

    run(engine, [limit(5_000, Side.BUY, 999, 10_000)])

    engine.check()
    assert engine.depth_levels() == ([], [(999, 1, 1)])


@pytest.mark.parametrize(
    "ids",
    [
        range(1, 100_001),
        range(0, 100_000 << 20, 1 << 20),
        range(U64_MAX - 100_000, U64_MAX),
        [(n * 0x9E3779B97F4A7C15) & U64_MAX for n in range(100_000)],
        [n << 44 for n in range(100_000)],
    ],
    ids=["consecutive", "stride of 2^20", "top of the range", "scattered", "high bits only"],
)
def test_indexes_grow_and_shrink_with_any_ids(ids: list[int]) -> None:
    source = random.Random(9)
    engine = ready_engine()
    ids = list(ids)
    run(engine, [limit(i, Side.BUY, 1, n % 7) for n, i in enumerate(ids)])
    engine.check()
    assert engine.live_order_count == 100_000

    source.shuffle(ids)
    run(engine, [cancel(i) for i in ids[:60_000]])
    engine.check()
    run(engine, [cancel(i) for i in ids[:60_000]])
    run(engine, [limit(i, Side.BUY, 1, 3) for i in ids])
    engine.check()

    assert engine.live_order_count == 100_000
    # 60,000 cancels of what is gone, 40,000 ids still in use.
    assert EngineState.unpack(engine.state_bytes()).reject_count == 100_000


def test_orders_whose_ids_share_a_home_are_all_found() -> None:
    engine = ready_engine()
    kept = []
    for number in range(12):
        kept.append(EngineState.unpack(engine.state_bytes()).next_order_id)
        run(engine, [limit(1_000_000 + number, Side.BUY, 1, 50)])
        # Fleeting orders move the next id on by a whole table.
        pair = [limit(1, Side.SELL, 1, 100), cancel(1)]
        run(engine, pair * (2**15 - 1))
    assert {order_id % 2**15 for order_id in kept} == {kept[0] % 2**15}
    engine.check()

    for order_id in (kept[5], kept[0], kept[11], *kept[1:5], *kept[6:11]):
        engine.apply(
            Command(
                kind=CommandKind.CANCEL,
                flags=CommandFlag.BY_ORDER_ID,
                session_id=1,
                order_id=order_id,
            ).pack()
        )
        engine.check()

    assert engine.live_order_count == 0


def test_end_of_a_session_with_many_orders_is_delivered_piece_by_piece() -> None:
    engine = ready_engine()
    commands = []
    for number in range(30_000):
        commands.append(limit(number, Side.BUY, 1, number % 1_000))
        commands.append(limit(number, Side.BUY, 1, number % 1_000, session_id=3))
    run(engine, commands)
    end = Command(
        kind=CommandKind.SESSION_END, session_id=2, flags=CommandFlag.CANCEL_ORDERS
    ).pack()

    events = unpack_events(engine.apply(end, 50))

    engine.check()
    assert [event.client_order_id for event in events[1:]] == list(range(30_000))
    assert {event.reason for event in events[1:]} == {Reason.SESSION_ENDED}
    assert engine.live_order_count == 30_000
    assert engine.sessions() == [1, 3]


def test_many_instruments_and_sessions() -> None:
    engine = Engine()
    define = [
        Command(kind=CommandKind.INSTRUMENT_DEFINE, instrument_id=n * 7) for n in range(1, 3001)
    ]
    sessions = [Command(kind=CommandKind.SESSION_OPEN, session_id=n) for n in range(2, 3002)]
    run(engine, define + sessions)

    run(
        engine,
        [
            limit(n, Side(n % 2 + 1), 1, n, session_id=n + 1)._replace(instrument_id=n * 7)
            for n in range(1, 3001)
        ],
    )

    engine.check()
    assert engine.live_order_count == 3_000
    assert engine.best_ask(7) == 1
    run(engine, [Command(kind=6, session_id=n, flags=2) for n in range(2, 3002, 2)])
    engine.check()
    assert engine.live_order_count == 1_500
