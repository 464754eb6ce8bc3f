"""The demo's traders against the engine itself: a believable market, and honest counting."""

from bourse.core.engine import Engine
from bourse.core.records import Command, unpack_events
from bourse.demo.traders import LEVELS, START_TICKS, TRADERS, Heard, Market, Message, Trader
from bourse.domain import INSTRUMENT_ID, CommandKind, EventKind, OrderType, Reason
from bourse.protocol.messages import Accepted, Cancel, Done, NewOrder, Trade

FIRST_SESSION = 2


class Exchange:
    """An engine that the traders speak to directly, one session each."""

    def __init__(self) -> None:
        self.engine = Engine()
        symbol = b"DEMO".ljust(16, b"\0")
        self.apply(
            CommandKind.INSTRUMENT_DEFINE,
            0,
            instrument_id=INSTRUMENT_ID,
            client_order_id=int.from_bytes(symbol[:8], "little"),
            order_id=int.from_bytes(symbol[8:], "little"),
        )
        for number in range(TRADERS):
            self.apply(CommandKind.SESSION_OPEN, FIRST_SESSION + number)

    def apply(self, kind: CommandKind, session_id: int, **fields: int) -> list:  # type: ignore[type-arg]
        command = Command(kind=kind, session_id=session_id, **fields)
        return unpack_events(self.engine.apply(command.pack()))

    def take(self, market: Market, trader: Trader, message: Message) -> None:
        """Execute a message and tell every trader what it would hear."""
        session_id = FIRST_SESSION + trader.number
        if isinstance(message, NewOrder):
            head, *events = self.apply(
                CommandKind.NEW_ORDER,
                session_id,
                side=message.side,
                order_type=message.kind,
                instrument_id=INSTRUMENT_ID,
                client_order_id=message.id,
                price_ticks=0 if message.kind == OrderType.MARKET else message.price,
                qty_lots=message.qty,
            )
        else:
            assert isinstance(message, Cancel)
            head, *events = self.apply(CommandKind.CANCEL, session_id, client_order_id=message.id)
        for event in events:
            owner = market.traders[event.session_id - FIRST_SESSION]
            if event.kind == EventKind.ACCEPTED:
                owner.hear(Accepted(event.client_order_id, event.qty_lots, event.sequence))
            elif event.kind == EventKind.DONE:
                reason = 5 if Reason(event.reason).is_reject else 1
                owner.hear(Done(event.client_order_id, event.leaves_lots, reason, event.sequence))
            else:
                trade = Trade(
                    head.client_order_id,
                    event.client_order_id,
                    event.price_ticks,
                    event.qty_lots,
                    event.sequence,
                )
                owner.hear(trade)
                if owner is not trader:
                    trader.hear(trade)


def trade(seed: int, steps: int) -> tuple[Market, Exchange]:
    market, exchange = Market(seed), Exchange()
    for trader, message in market.open():
        exchange.take(market, trader, message)
    for _ in range(steps):
        for trader, message in market.step(16):
            exchange.take(market, trader, message)
    return market, exchange


def test_both_sides_have_at_least_twenty_levels_and_trades_happen() -> None:
    market, exchange = trade(seed=23, steps=1_000)

    bids, asks = exchange.engine.depth_levels(100)[:2]
    assert len(bids) >= 20
    assert len(asks) >= 20
    assert sum(trader.trades for trader in market.traders) > 500
    exchange.engine.check()


def test_the_traders_know_which_of_their_orders_are_live() -> None:
    market, exchange = trade(seed=5, steps=500)

    live = sum(len(trader.live) for trader in market.traders)
    assert live == len(exchange.engine.orders()) // 64
    for trader in market.traders:
        assert trader.orders_sent == trader.accepted + trader.rejected
        assert trader.disorders == 0


def test_most_orders_are_accepted() -> None:
    market, _ = trade(seed=9, steps=500)

    sent = sum(trader.orders_sent for trader in market.traders)
    assert sum(trader.rejected for trader in market.traders) < sent / 10


def test_the_mid_stays_near_home() -> None:
    market = Market(3)
    for _ in range(20_000):
        market.step(0)
        assert abs(market.mid - START_TICKS) < 20 * LEVELS


def test_the_same_seed_sends_the_same_orders() -> None:
    one, two = Market(4), Market(4)

    assert one.open() == two.open()
    assert [one.step(20) for _ in range(20)] == [two.step(20) for _ in range(20)]


def test_ids_are_in_spaces_of_their_own() -> None:
    market = Market(4)

    ids = [message.id for _, message in market.open()]
    assert len(set(ids)) == len(ids)
    assert min(ids) > 1 << 40


def test_heard_counts_each_event_once_in_any_order() -> None:
    heard = Heard(5)
    for sequence in (6, 5, 6, 9, 7, 4, 9, 5):
        heard.hear(sequence)

    assert (heard.count, heard.last) == (4, 9)


def test_heard_forgets_what_is_far_behind() -> None:
    heard = Heard(1)
    for sequence in range(2, 200_000):  # the first never comes
        heard.hear(sequence)

    assert heard.count == 199_998
    assert len(heard._later) <= Heard.WINDOW
