"""The engine as a library, one order after the other: answers, fills, mistakes, snapshots."""

import copy
import random
import sys
from collections.abc import Callable

import numpy
import pytest

from bourse import Engine, Fill, Outcome, Side
from bourse.core.records import DepthLevel
from bourse.domain import Reason
from bourse.errors import RefusedError

U64_MAX = 2**64 - 1
I64_MAX = 2**63 - 1
I64_MIN = -(2**63)


@pytest.fixture
def engine() -> Engine:
    return Engine()


def resting(engine: Engine, count: int, *, price_ticks: int = 100) -> list[int]:
    """Rest one-lot asks; their order ids."""
    return [engine.limit("sell", 1, price_ticks).order_id for _ in range(count)]


# --- Answers --------------------------------------------------------------------------------------


def test_three_lines_trade() -> None:
    engine = Engine()
    engine.limit("sell", 5, 101)
    outcome = engine.limit("buy", 7, 102)

    (fill,) = outcome.fills
    assert (fill.qty_lots, fill.price_ticks, fill.maker_order_id) == (5, 101, 1)
    assert (fill.maker_side, fill.maker_leaves_lots, fill.instrument_id) == (Side.SELL, 0, 1)
    assert (fill.maker_session_id, fill.maker_client_order_id, fill.sequence) == (2, 1, 3)
    assert (outcome.order_id, outcome.client_order_id, outcome.is_accepted) == (2, 2, True)
    assert (outcome.filled_lots, outcome.leaves_lots, outcome.ended_lots) == (5, 2, 0)
    assert (outcome.reason, outcome.end_reason) == (Reason.NONE, Reason.NONE)
    assert (engine.best_bid(), engine.best_ask()) == (102, None)


def test_a_filled_order_says_so(engine: Engine) -> None:
    resting(engine, 3)

    outcome = engine.limit(Side.BUY, 2, 100)

    assert [fill.maker_order_id for fill in outcome.fills] == [1, 2]
    assert (outcome.end_reason, outcome.leaves_lots) == (Reason.FILLED, 0)


@pytest.mark.parametrize(
    ("send", "end_reason", "reason"),
    [
        (lambda engine: engine.ioc("buy", 3, 100), Reason.EXPIRED, Reason.NONE),
        (lambda engine: engine.market("buy", 3), Reason.NO_LIQUIDITY, Reason.NONE),
        (lambda engine: engine.fok("buy", 3, 100), Reason.NONE, Reason.FOK_CANNOT_FILL),
        (lambda engine: engine.post_only("buy", 3, 100), Reason.NONE, Reason.POST_ONLY_WOULD_CROSS),
        (lambda engine: engine.limit("buy", 0, 100), Reason.NONE, Reason.ZERO_QUANTITY),
        (
            lambda engine: engine.limit("buy", 1, 1, client_order_id=1),
            Reason.NONE,
            Reason.DUPLICATE_ORDER_ID,
        ),
        (
            lambda engine: engine.limit("buy", 1, 1, session_id=9),
            Reason.NONE,
            Reason.UNKNOWN_SESSION,
        ),
        (
            lambda engine: engine.limit("buy", 1, 1, instrument_id=9),
            Reason.NONE,
            Reason.UNKNOWN_INSTRUMENT,
        ),
        (lambda engine: engine.cancel(77), Reason.NONE, Reason.UNKNOWN_ORDER),
        (lambda engine: engine.replace(77, 1, 1), Reason.NONE, Reason.UNKNOWN_ORDER),
        (lambda engine: engine.cancel_any(77), Reason.NONE, Reason.UNKNOWN_ORDER),
    ],
)
def test_why_an_order_ended_or_was_refused(
    engine: Engine, send: Callable[[Engine], Outcome], end_reason: Reason, reason: Reason
) -> None:
    resting(engine, 2)

    outcome = send(engine)

    assert (outcome.end_reason, outcome.reason) == (end_reason, reason)
    assert outcome.is_accepted == (reason == Reason.NONE)
    assert outcome.leaves_lots == 0
    if outcome.is_accepted:
        assert (outcome.filled_lots, outcome.ended_lots) == (2, 1)
    else:
        assert (outcome.order_id, outcome.fills) == (0, ())
        assert engine.live_order_count == 2


def test_cancel_and_replace(engine: Engine) -> None:
    engine.limit("sell", 5, 101, client_order_id=50)
    engine.limit("sell", 5, 102, client_order_id=51)
    engine.ioc("buy", 2, 101)

    kept = engine.replace(50, 4, 101)
    assert (kept.order_id, kept.client_order_id, kept.leaves_lots) == (1, 50, 2)

    engine.limit("buy", 1, 99)
    crossed = engine.replace(51, 7, 99)
    assert (crossed.filled_lots, crossed.leaves_lots, crossed.end_reason) == (1, 6, Reason.NONE)

    ended = engine.replace(50, 1, 101)
    assert (ended.end_reason, ended.ended_lots) == (Reason.REPLACED_TO_FILLED, 2)

    cancelled = engine.cancel(51)
    assert (cancelled.order_id, cancelled.end_reason, cancelled.ended_lots) == (
        2,
        Reason.CANCELLED,
        6,
    )


def test_the_operator_cancels_any_order(engine: Engine) -> None:
    order_id = engine.limit("sell", 5, 101, client_order_id=50).order_id

    outcome = engine.cancel_any(order_id)

    assert (outcome.end_reason, outcome.client_order_id) == (Reason.OPERATOR_CANCELLED, 50)


def test_a_sweep_of_thousands_returns_every_fill(engine: Engine) -> None:
    """More events than the engine has room for at once."""
    ids = resting(engine, 5000)

    outcome = engine.market("buy", 5001)

    assert [fill.maker_order_id for fill in outcome.fills] == ids
    assert (outcome.filled_lots, outcome.ended_lots) == (5000, 1)
    assert outcome.end_reason == Reason.NO_LIQUIDITY
    engine.check()


@pytest.mark.parametrize("count", range(120, 135))
def test_every_size_of_a_sweep_around_the_room_for_events(engine: Engine, count: int) -> None:
    resting(engine, count)

    outcome = engine.limit("buy", count + 1, 100)

    assert (len(outcome.fills), outcome.filled_lots, outcome.leaves_lots) == (count, count, 1)


def test_fills_compare_by_all_they_say(engine: Engine) -> None:
    resting(engine, 2)
    twin = Engine()
    resting(twin, 2)

    fills = engine.market("buy", 2).fills

    assert fills == twin.market("buy", 2).fills
    assert fills[0] != fills[1]
    assert len({*fills, *fills}) == 2
    assert fills[0] != 7
    assert repr(fills[0]) == "Fill(qty_lots=1, price_ticks=100, maker_order_id=1)"


def test_a_fill_outlives_its_engine() -> None:
    engine = Engine()
    resting(engine, 1)
    (fill,) = engine.market("buy", 1).fills
    del engine

    assert isinstance(fill, Fill)
    assert fill.price_ticks == 100


def test_outcomes_are_shown_shortly(engine: Engine) -> None:
    resting(engine, 1)

    assert repr(engine.limit("buy", 2, 100)) == "Outcome(order 2: 1 filled, 1 open)"
    assert repr(engine.cancel(2)) == "Outcome(order 2: 0 filled, 1 ended: CANCELLED)"
    assert repr(engine.cancel(2)) == "Outcome(refused: UNKNOWN_ORDER)"
    assert repr(engine).startswith("<bourse.Engine: 0 live orders, state digest 0x0000")


# --- Numbers at their ends ------------------------------------------------------------------------


@pytest.mark.parametrize("price_ticks", [-(2**63), -1, 0, 2**31, 2**32, I64_MAX])
@pytest.mark.parametrize("qty_lots", [1, 2**31, 2**32, 2**63 - 1, 2**63, U64_MAX])
def test_prices_and_quantities_are_exact(engine: Engine, price_ticks: int, qty_lots: int) -> None:
    outcome = engine.limit("sell", qty_lots, price_ticks, client_order_id=U64_MAX)

    assert outcome.leaves_lots == qty_lots
    assert engine.best_ask() == price_ticks
    assert engine.depth_at("sell", price_ticks) == DepthLevel(price_ticks, qty_lots, 1)
    (fill,) = engine.market("buy", qty_lots).fills
    assert (fill.price_ticks, fill.qty_lots) == (price_ticks, qty_lots)
    assert fill.maker_client_order_id == U64_MAX


class Index:
    """An integer that is no int."""

    def __index__(self) -> int:
        return 3


@pytest.mark.parametrize("three", [3, numpy.int8(3), numpy.uint64(3), Index(), Side(2) + 1])
def test_whatever_is_an_integer_is_taken(engine: Engine, three: int) -> None:
    outcome = engine.limit("sell", three, three, client_order_id=three)

    assert (outcome.leaves_lots, outcome.client_order_id) == (3, 3)
    assert engine.best_ask() == 3


# --- Mistakes -------------------------------------------------------------------------------------

GOOD = {"side": "buy", "qty_lots": 1, "price_ticks": 1}
METHODS = ("limit", "ioc", "fok", "post_only", "market")
NO_INTEGERS: list[tuple[object, str]] = [
    (True, "bool"),
    (1.0, "float"),
    (float("nan"), "float"),
    ("1", "str"),
    (b"1", "bytes"),
    ([1], "list"),
    (1j, "complex"),
    (numpy.float64(1), "float64"),
    (numpy.array([1, 2]), "ndarray"),
]


def mistake(engine: Engine, method: str, **arguments: object) -> BaseException:
    """Call a method with a wrong argument; nothing may have changed."""
    before = engine.snapshot()
    with pytest.raises((TypeError, ValueError)) as found:
        getattr(engine, method)(**arguments)
    assert engine.snapshot() == before
    engine.check()
    return found.value


def good_for(method: str) -> dict[str, object]:
    return {
        name: value for name, value in GOOD.items() if (method, name) != ("market", "price_ticks")
    }


@pytest.mark.parametrize(("wrong", "type_name"), NO_INTEGERS, ids=lambda value: repr(value)[:20])
def test_what_is_no_integer_is_named(engine: Engine, wrong: object, type_name: str) -> None:
    for method in METHODS:
        good = good_for(method)
        for name in [*good, "client_order_id", "session_id", "instrument_id"]:
            if name == "side":
                continue
            error = mistake(engine, method, **{**good, name: wrong})
            assert isinstance(error, TypeError)
            assert type_name in str(error)
            assert str(error).startswith(name)
    calls = [
        ("cancel", "client_order_id", {}),
        ("cancel", "session_id", {"client_order_id": 1}),
        ("cancel_any", "order_id", {}),
        ("replace", "client_order_id", {"qty_lots": 1, "price_ticks": 1}),
        ("replace", "qty_lots", {"client_order_id": 1, "price_ticks": 1}),
        ("replace", "price_ticks", {"qty_lots": 1, "client_order_id": 1}),
        ("best_bid", "instrument_id", {}),
        ("best_ask", "instrument_id", {}),
        ("depth", "levels_max", {}),
        ("depth", "instrument_id", {}),
        ("depth_at", "price_ticks", {"side": "buy"}),
        ("open_session", "session_id", {}),
        ("end_session", "session_id", {}),
        ("define_instrument", "instrument_id", {"symbol": "A"}),
    ]
    for method, name, others in calls:
        error = mistake(engine, method, **{**others, name: wrong})
        assert isinstance(error, TypeError), (method, name)


@pytest.mark.parametrize(
    ("name", "wrong", "expected"),
    [
        ("qty_lots", -1, f"qty_lots=-1, expected 0..{U64_MAX}"),
        ("qty_lots", 2**64, f"qty_lots={2**64}, expected 0..{U64_MAX}"),
        ("qty_lots", 10**5000, f"qty_lots=16610 bits, expected 0..{U64_MAX}"),
        ("qty_lots", -(2**64), f"qty_lots={-(2**64)}, expected 0..{U64_MAX}"),
        ("price_ticks", 2**63, f"price_ticks={2**63}, expected {I64_MIN}..{I64_MAX}"),
        (
            "price_ticks",
            -(2**63) - 1,
            f"price_ticks={-(2**63) - 1}, expected {I64_MIN}..{I64_MAX}",
        ),
        ("client_order_id", -1, f"client_order_id=-1, expected 0..{U64_MAX}"),
        ("client_order_id", 2**64, f"client_order_id={2**64}, expected 0..{U64_MAX}"),
        ("session_id", 2**32, f"session_id={2**32}, expected 0..{2**32 - 1}"),
        ("instrument_id", -5, f"instrument_id=-5, expected 0..{2**32 - 1}"),
        ("side", 0, "side=0, expected 1..2"),
        ("side", 3, "side=3, expected 1..2"),
        ("side", "BID", "side='BID', expected 'buy' or 'sell'"),
        ("side", "x" * 1000, f"side='{'x' * 20}', expected 'buy' or 'sell'"),
        ("side", True, "side is a bool, expected an int"),
        ("side", None, "side is a NoneType, expected an int"),
    ],
    ids=lambda value: type(value).__name__,  # one of the numbers has 5,001 digits
)
def test_what_is_out_of_range_is_named(
    engine: Engine, name: str, wrong: object, expected: str
) -> None:
    engine.limit("buy", 1, 1)

    assert str(mistake(engine, "limit", **{**GOOD, name: wrong})) == expected


def test_the_sentence_of_a_refusal_is_for_people(engine: Engine) -> None:
    assert engine.cancel(3).reason.sentence == "No live order has this id."


@pytest.mark.parametrize("levels_max", [-1, 2**32])
def test_depth_refuses_impossible_counts(engine: Engine, levels_max: int) -> None:
    assert "levels_max" in str(mistake(engine, "depth", levels_max=levels_max))


def test_books_that_do_not_exist_are_named(engine: Engine) -> None:
    for method, arguments in (
        ("best_bid", {}),
        ("best_ask", {}),
        ("depth", {}),
        ("depth_at", {"side": "buy", "price_ticks": 1}),
    ):
        error = mistake(engine, method, instrument_id=9, **arguments)
        assert str(error) == "instrument_id=9 is not defined"


@pytest.mark.parametrize(
    "arguments",
    [
        {"symbols": "DEMO"},
        {"symbols": b"DEMO"},
        {"symbols": [1]},
        {"symbols": [""]},
        {"symbols": ["A B"]},
        {"symbols": ["é"]},
        {"symbols": ["x" * 17]},
        {"sessions": -1},
        {"sessions": True},
        {"sessions": 1.0},
        {"orders_max": 0},
        {"orders_max": 2**31},
        {"orders_max": True},
    ],
)
def test_an_engine_is_not_made_of_mistakes(arguments: dict[str, object]) -> None:
    with pytest.raises((TypeError, ValueError)):
        Engine(**arguments)  # type: ignore[arg-type]


def test_objects_are_made_in_one_way() -> None:
    engine = Engine()
    resting(engine, 1)
    outcome = engine.market("buy", 1)

    for made in (Fill, Outcome):
        with pytest.raises(TypeError, match="is made by an Engine"):
            made()
    for value in (engine, outcome, outcome.fills[0]):
        with pytest.raises(TypeError, match="cannot pickle"):
            copy.copy(value)
    with pytest.raises(RuntimeError, match="an engine is made once"):
        engine.__init__()  # type: ignore[misc]
    assert engine.state.trade_count == 1


def test_an_engine_that_was_never_made_knows_nobody() -> None:
    engine = Engine.__new__(Engine)

    assert engine.limit("buy", 1, 1).reason == Reason.UNKNOWN_SESSION
    assert engine.state.wal_seq == 1
    engine.check()


# --- Sessions, instruments, books -----------------------------------------------------------------


def test_many_instruments_and_sessions() -> None:
    engine = Engine(symbols=["A", "B"], sessions=2)
    alice, bob = 2, 3

    engine.limit("sell", 1, 10, instrument_id=2, session_id=alice)
    assert engine.market("buy", 1, instrument_id=1, session_id=bob).fills == ()
    (fill,) = engine.market("buy", 1, instrument_id=2, session_id=bob).fills
    assert (fill.maker_session_id, fill.instrument_id) == (alice, 2)

    assert engine.define_instrument("C") == 3
    assert engine.define_instrument("D", 70) == 70
    assert engine.define_instrument("E") == 71
    assert engine.open_session() == 4
    assert engine.open_session(9) == 9
    assert engine.open_session() == 10
    with pytest.raises(RefusedError) as refused:
        engine.define_instrument("D", 70)
    assert refused.value.reason == Reason.DUPLICATE_INSTRUMENT
    with pytest.raises(RefusedError, match="opened before"):
        engine.open_session(9)


def test_the_end_of_a_session_cancels_its_orders(engine: Engine) -> None:
    other = engine.open_session()
    ids = resting(engine, 300)
    kept = engine.limit("sell", 1, 100, session_id=other)

    assert engine.end_session(2) == tuple(ids)
    assert [order.order_id for order in engine.orders()] == [kept.order_id]
    assert engine.end_session(other, cancel_orders=False) == ()
    assert engine.live_order_count == 1
    assert engine.limit("buy", 1, 1).reason == Reason.UNKNOWN_SESSION
    for session_id in (1, 2, 99):
        with pytest.raises(RefusedError):
            engine.end_session(session_id)
    with pytest.raises(TypeError, match="cancel_orders is a int"):
        engine.end_session(1, cancel_orders=1)  # type: ignore[arg-type]


def test_an_engine_without_anything() -> None:
    engine = Engine(symbols=(), sessions=0)

    assert engine.state.wal_seq == 0
    assert engine.open_session() == 2
    assert engine.define_instrument("A") == 1


def test_an_engine_of_few_orders_refuses_more() -> None:
    engine = Engine(orders_max=1)
    engine.limit("buy", 1, 1)

    assert engine.limit("buy", 1, 2).reason == Reason.OUT_OF_MEMORY


def test_each_level_is_found_by_its_price() -> None:
    """Many levels, in several blocks, looked at one by one and in between."""
    engine = Engine()
    draw = random.Random(5)
    sides = {"buy": -2, "sell": 2}
    for _ in range(3000):
        side = draw.choice(["buy", "sell"])
        engine.limit(side, draw.randint(1, 9), sides[side] * draw.randint(1, 900))
    for order in draw.sample(engine.orders(), 1500):
        engine.cancel(order.client_order_id)

    bids, asks = engine.depth(levels_max=1_000_000)
    assert len(bids) > 300
    assert (engine.best_bid(), engine.best_ask()) == (bids[0].price_ticks, asks[0].price_ticks)
    for name, levels in (("buy", bids), ("sell", asks)):
        expected = {level.price_ticks: level for level in levels}
        for price_ticks in range(-1805, 1806):
            level = engine.depth_at(name, price_ticks)
            assert level == expected.get(price_ticks, DepthLevel(price_ticks, 0, 0))
    assert engine.depth(3) == (bids[:3], asks[:3])
    assert engine.depth(0) == ([], [])


# --- Snapshots ------------------------------------------------------------------------------------


def play(engine: Engine, steps: int, seed: int) -> None:
    """Send random orders of sessions 2 and 3 in instruments 1 and 2."""
    draw = random.Random(seed)
    for _ in range(steps):
        method = draw.choice(["limit", "limit", "limit", "ioc", "post_only", "cancel", "replace"])
        session_id = draw.choice([2, 3])
        if method == "cancel":
            engine.cancel(draw.randint(1, 400), session_id=session_id)
        elif method == "replace":
            engine.replace(
                draw.randint(1, 400),
                draw.randint(1, 9),
                draw.randint(90, 110),
                session_id=session_id,
            )
        else:
            getattr(engine, method)(
                draw.choice(["buy", "sell"]),
                draw.randint(1, 9),
                draw.randint(90, 110),
                client_order_id=draw.randint(1, 400),
                session_id=session_id,
                instrument_id=draw.choice([1, 2]),
            )


def test_a_restored_engine_goes_on_as_the_first_would() -> None:
    engine = Engine(symbols=["A", "B"], sessions=2)
    play(engine, 2000, seed=1)

    twin = Engine.restore(engine.snapshot())

    assert twin.state == engine.state
    assert twin.snapshot() == engine.snapshot()
    twin.check()
    play(engine, 2000, seed=2)
    play(twin, 2000, seed=2)
    assert twin.event_digest == engine.event_digest
    assert twin.state == engine.state
    assert twin.orders() == engine.orders()
    assert (twin.define_instrument("C"), twin.open_session()) == (3, 4)


def test_damaged_snapshots_are_refused() -> None:
    engine = Engine()
    engine.limit("buy", 5, 100)
    good = engine.snapshot()

    for wrong in (b"", good[:-1], good + b"x", bytes(len(good))):
        with pytest.raises(ValueError, match="not a snapshot"):
            Engine.restore(wrong)
    for at in range(0, len(good), 7):
        damaged = bytearray(good)
        damaged[at] ^= 4
        with pytest.raises(ValueError, match="not a snapshot"):
            Engine.restore(bytes(damaged))
    with pytest.raises(TypeError):
        Engine.restore("snapshot")  # type: ignore[arg-type]


def test_no_memory_is_lost_by_calls() -> None:
    """References are counted by hand where fills are made."""
    engine = Engine()
    resting(engine, 1000)
    before = sys.getrefcount(()), sys.getrefcount(Side.BUY), sys.getrefcount(Reason.NONE)
    blocks = sys.getallocatedblocks()
    mistakes = 0
    for _ in range(1000):
        outcome = engine.market(Side.BUY, 1)
        assert outcome.reason == Reason.NONE
        engine.cancel(1)
        try:
            engine.limit(Side.BUY, -1, 1)
        except ValueError:
            mistakes += 1
    del outcome
    after = sys.getrefcount(()), sys.getrefcount(Side.BUY), sys.getrefcount(Reason.NONE)

    assert all(abs(then - now) < 100 for then, now in zip(before, after, strict=True))
    assert sys.getallocatedblocks() - blocks < 100
    assert mistakes == 1000
