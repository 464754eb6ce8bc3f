"""The bytes on the wire are those of docs/protocol.md.

Frames computed by hand, and the codec's slow twin.
"""

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bourse.core.records import Command, Event
from bourse.domain import CommandKind, EventKind, OrderType, Reason, Side
from bourse.errors import ProtocolError
from bourse.protocol import codec, messages

# Each computed by hand from the table: length, version, type, payload; little-endian throughout.
REQUESTS = {
    "limit buy, id 1, 5 @ 100, time 2": (
        "24000000 01 01 0100000000000000 01 0500000000000000 01 6400000000000000 0200000000000000",
        messages.NewOrder(1, Side.BUY, 5, OrderType.LIMIT, 100, 2),
    ),
    "market sell, id 258, 1, time -1": (
        "1c000000 01 01 0201000000000000 02 0100000000000000 02 ffffffffffffffff",
        messages.NewOrder(258, Side.SELL, 1, OrderType.MARKET, 0, -1),
    ),
    "IOC sell at a negative price": (
        "24000000 01 01 ffffffffffffffff 02 ffffffffffffffff 03 feffffffffffffff 0000000000000000",
        messages.NewOrder(2**64 - 1, Side.SELL, 2**64 - 1, OrderType.IOC, -2, 0),
    ),
    "post-only buy at the top of the range": (
        "24000000 01 01 0700000000000000 01 0a00000000000000 04 ffffffffffffff7f 0000000000000080",
        messages.NewOrder(7, Side.BUY, 10, OrderType.POST_ONLY, 2**63 - 1, -(2**63)),
    ),
    "FOK buy at the bottom of the range": (
        "24000000 01 01 0000000000000000 01 0000000000000000 05 0000000000000080 0000000000000000",
        messages.NewOrder(0, Side.BUY, 0, OrderType.FOK, -(2**63), 0),
    ),
    "cancel 9": ("0a000000 01 02 0900000000000000", messages.Cancel(9)),
}
EXECUTIONS = {
    "accepted, id 1, qty 5, seq 3": (
        "1b000000 01 10 01 0100000000000000 0500000000000000 0300000000000000",
        messages.Accepted(1, 5, 3),
    ),
    "trade, taker 2, maker 1, 5 @ -100, seq 4": (
        "2b000000 01 10 02 0200000000000000 0100000000000000 9cffffffffffffff 0500000000000000"
        "0400000000000000",
        messages.Trade(2, 1, -100, 5, 4),
    ),
    "done, filled, seq 5": (
        "1c000000 01 10 03 0100000000000000 0000000000000000 01 0500000000000000",
        messages.Done(1, 0, 1, 5),
    ),
    "done, rejected with its quantity": (
        "1c000000 01 10 03 ffffffffffffffff feffffffffffffff 05 0001000000000000",
        messages.Done(2**64 - 1, 2**64 - 2, 5, 256),
    ),
}
SIZES = {
    "limit buy, id 1, 5 @ 100, time 2": 40,
    "market sell, id 258, 1, time -1": 32,
    "cancel 9": 14,
    "accepted, id 1, qty 5, seq 3": 31,
    "trade, taker 2, maker 1, 5 @ -100, seq 4": 47,
    "done, filled, seq 5": 32,
}
ALL = REQUESTS | EXECUTIONS


def event(kind: EventKind, **fields: int) -> bytes:
    values = dict.fromkeys(Event._fields, 0) | {"kind": kind} | fields
    return Event(**values).pack()


@pytest.mark.parametrize("name", ALL)
def test_plain_values_pack_to_the_hand_computed_frame(name):
    frame, message = ALL[name]

    assert bytes.fromhex(frame) == message.pack()
    assert message == messages.unpack(bytes.fromhex(frame))
    assert len(message.pack()) == SIZES.get(name, len(message.pack()))


@pytest.mark.parametrize("name", REQUESTS)
def test_the_codec_reads_the_hand_computed_frame(name):
    frame, message = REQUESTS[name]

    taken, command = codec.decode(bytes.fromhex(frame) + b"more")

    assert len(bytes.fromhex(frame)) == taken
    found = Command.unpack(command)
    assert message.id == found.client_order_id
    if isinstance(message, messages.Cancel):
        assert Command(kind=CommandKind.CANCEL, client_order_id=message.id) == found
    else:
        assert found == Command(
            kind=CommandKind.NEW_ORDER,
            side=message.side,
            order_type=message.kind,
            client_order_id=message.id,
            price_ticks=message.price,
            qty_lots=message.qty,
            client_time_ns=message.timestamp_ns,
        )


def test_the_codec_writes_the_hand_computed_frames():
    accepted = event(EventKind.ACCEPTED, qty_lots=5, sequence=3)
    trade = event(EventKind.TRADE, price_ticks=-100, qty_lots=5, sequence=4)
    done = event(EventKind.DONE, reason=Reason.FILLED, sequence=5)

    frames = list(EXECUTIONS.values())
    assert bytes.fromhex(frames[0][0]) == codec.encode(accepted, own_id=1)
    assert bytes.fromhex(frames[1][0]) == codec.encode(trade, taker_id=2, own_id=1)
    assert bytes.fromhex(frames[2][0]) == codec.encode(done, own_id=1)


@pytest.mark.parametrize("reason", [reason for reason in Reason if reason is not Reason.NONE])
def test_every_reason_has_a_byte_in_version_1(reason):
    frame = codec.encode(event(EventKind.DONE, reason=reason, qty_lots=7, sequence=9), own_id=3)

    said = messages.unpack(frame)

    if reason.is_reject:
        assert said == messages.Done(3, 7, 5, 9)
    elif reason in (
        Reason.OPERATOR_CANCELLED,
        Reason.SESSION_ENDED,
        Reason.REPLACED_TO_FILLED,
    ):
        assert said == messages.Done(3, 7, 2, 9)
    else:
        assert said == messages.Done(3, 7, int(reason), 9)


@pytest.mark.parametrize(
    ("frame", "complaint"),
    [
        ("00000000", "length"),
        ("00000000 01", "length"),
        ("ffffffff", "length"),
        ("ffffffff 01 01", "length"),
        ("00000080 01 01", "length"),
        ("01000000 01", "length"),
        ("25000000 01 01", "length"),
        ("23000000", "length"),
        ("24000000 02", "version"),
        ("24000000 00", "version"),
        ("24000000 01 03", "type"),
        ("24000000 01 10", "type"),
        ("24000000 01 00", "type"),
        ("0a000000 01 01", "length"),
        ("24000000 01 02", "length"),
        ("24000000 01 01 0000000000000000 00", "side"),
        ("24000000 01 01 0000000000000000 03", "side"),
        ("24000000 01 01 0000000000000000 01 0000000000000000 00", "kind"),
        ("24000000 01 01 0000000000000000 01 0000000000000000 06", "kind"),
        ("24000000 01 01 0000000000000000 01 0000000000000000 02", "length"),
        ("1c000000 01 01 0000000000000000 01 0000000000000000 01", "length"),
    ],
)
def test_a_bad_frame_is_refused_at_the_byte_that_shows_it(frame, complaint):
    data = bytes.fromhex(frame)

    code, command = codec.decode(data)
    before, _ = codec.decode(data[:-1]) if len(data) > 4 else (0, b"")

    assert code < 0
    assert command == b""
    assert complaint in codec.error_text(code)
    assert before <= 0


@given(data=st.binary(max_size=60))
def test_random_bytes_never_give_a_frame_that_the_slow_twin_refuses(data):
    taken, command = codec.decode(data)

    assert taken <= len(data)
    if taken > 0:
        message = messages.unpack(data[:taken])
        assert not isinstance(message, messages.Accepted | messages.Trade | messages.Done)
        assert message.id == Command.unpack(command).client_order_id


@given(
    order_id=st.integers(0, 2**64 - 1),
    side=st.sampled_from(Side),
    qty=st.integers(0, 2**64 - 1),
    kind=st.sampled_from(OrderType),
    price=st.integers(-(2**63), 2**63 - 1),
    timestamp_ns=st.integers(-(2**63), 2**63 - 1),
)
def test_orders_survive_the_round_trip_and_every_cut(
    order_id, side, qty, kind, price, timestamp_ns
):
    price = 0 if kind is OrderType.MARKET else price
    frame = messages.NewOrder(order_id, side, qty, kind, price, timestamp_ns).pack()

    assert all(codec.decode(frame[:cut])[0] == 0 for cut in range(len(frame)))
    taken, command = codec.decode(frame)
    assert taken == len(frame)
    assert Command.unpack(command)[7:] == (order_id, 0, price, qty, 0, timestamp_ns)


def test_a_stream_cut_anywhere_gives_the_same_messages():
    stream = b"".join(message.pack() for _, message in ALL.values())
    expected = [message for _, message in ALL.values()]

    for cut in range(len(stream)):
        reader = messages.FrameReader()
        assert expected == reader.receive_data(stream[:cut]) + reader.receive_data(stream[cut:])


def test_the_reader_refuses_a_hostile_length():
    with pytest.raises(ProtocolError, match="length is 4294967295"):
        messages.FrameReader().receive_data(b"\xff\xff\xff\xff")


def test_the_example_in_the_docstring_works() -> None:
    assert doctest.testmod(messages) == (0, 2)
