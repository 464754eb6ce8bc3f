"""Values of every admin message, deterministic, for the client's and the console's tests."""

from bourse.admin.messages import STAGES as STAGES
from bourse.admin.messages import (
    Depth,
    Latency,
    Level,
    Log,
    LogLine,
    Percentiles,
    SegmentInfo,
    SessionInfo,
    Sessions,
    SnapshotInfo,
    StageLatency,
    Status,
    Trade,
    Trades,
    Wal,
)

STARTED_NS = 1_790_000_000_000_000_000
DIGEST = "9f3c51d07be2a17e"
EVENTS_DIGEST = "07c2d41f6a90b3e8"


def status(tick: int = 0, wal_seq: int = 18_216_046, symbol: str = "ACME") -> Status:
    """The daemon `tick` fifths of a second after the first look."""
    return Status(
        instance="default",
        build="0.1.0",
        pid=4711,
        symbol=symbol,
        listen="127.0.0.1:9000",
        admin="/run/user/1000/bourse/default.sock",
        data_dir="/var/lib/bourse/default",
        durability="fsync",
        poll="adaptive",
        store_id="5f0e9a5c3d1b4e62",
        started_ns=STARTED_NS,
        mono_ns=1_000_000_000 + tick * 200_000_000,
        recovered_wal_seq=18_190_000,
        wal_seq=wal_seq + tick * 330,
        event_seq=31_000_000 + tick * 700,
        released_seq=wal_seq + tick * 330 - 3,
        durable_seq=wal_seq + tick * 330 - 3,
        written_seq=wal_seq + tick * 330 - 1,
        connections=4,
        connections_total=19,
        protocol_errors=0,
        slow_reader_cuts=0,
        live_orders=2_481,
        orders=9_100_000 + tick * 260,
        trades=3_100_000 + tick * 90,
        rejects=118,
        commands=26_046 + tick * 330,
        command_ring_used=3,
        command_ring_size=65_536,
        event_ring_used=12,
        event_ring_size=131_072,
        state_digest=DIGEST,
        event_digest=EVENTS_DIGEST,
        best_bid_ticks=9_999,
        best_ask_ticks=10_001,
    )


def levels(best_ticks: int, step: int, count: int = 40) -> list[Level]:
    """A side of the book with quantities that look like one."""
    return [
        Level(
            best_ticks + step * index,
            10 + (index * 7_919 + 3_571) % 9_973,
            1 + (index * 31 + 7) % 33,
        )
        for index in range(count)
    ]


def depth(tick: int = 0, count: int = 40) -> Depth:
    bids, asks = levels(9_999, -1, count), levels(10_001, 1, count)
    if bids:
        bids[0] = Level(9_999, 4_100 + tick % 7 * 130, 12)
    return Depth(
        symbol="ACME",
        wal_seq=18_216_046 + tick * 330,
        event_seq=31_000_000 + tick * 700,
        bids=bids,
        asks=asks,
        bid_levels=len(bids) and 87,
        ask_levels=len(asks) and 91,
        live_orders=2_481,
        state_digest=DIGEST,
        event_digest=EVENTS_DIGEST,
        mono_ns=1_000_000_000 + tick * 200_000_000,
        last_price_ticks=10_001,
        last_qty_lots=40,
    )


# p50 of each stage in ns; the others are multiples, the buckets a bell on a log2 axis around it.
_STAGE_P50 = {
    "decoded": 1_300,
    "dequeued": 3_900,
    "matched": 420,
    "durable": 830_000,
    "encoded": 5_200,
    "written": 6_700,
    "total": 851_000,
}


def _percentiles(p50: int, count: int) -> Percentiles:
    return Percentiles(count, p50, p50 * 15 // 10, p50 * 26 // 10, p50 * 57 // 10, p50 * 11)


def _buckets(p50: int, tick: int) -> list[int]:
    middle = p50.bit_length() - 1
    shape = {-2: 3, -1: 160, 0: 900 + tick % 5 * 20, 1: 300, 2: 90, 3: 21, 4: 4, 5: 1}
    return [shape.get(index - middle, 0) for index in range(36)]


def latency(tick: int = 0) -> Latency:
    return Latency(
        window_seconds=10.0,
        stages=[
            StageLatency(
                stage,
                _percentiles(p50, 1_000_000 + tick),
                _percentiles(p50 + p50 * (tick * 37 % 11) // 40, 1_500),
                _buckets(p50, tick),
            )
            for stage, p50 in _STAGE_P50.items()
        ],
        sampled_one_in=1,
        mono_ns=1_000_000_000 + tick * 200_000_000,
    )


def wal(tick: int = 0) -> Wal:
    return Wal(
        durability="fsync",
        store_id="5f0e9a5c3d1b4e62",
        accepted_seq=18_216_046 + tick * 330,
        written_seq=18_216_045 + tick * 330,
        durable_seq=18_216_043 + tick * 330,
        released_seq=18_216_043 + tick * 330,
        segment_path="/var/lib/bourse/default/wal/wal-00000009-00000000000017640511.log",
        segment_index=9,
        segment_used_bytes=41_200_000 + tick * 36_000,
        segment_size_bytes=64 << 20,
        written_bytes=41_200_000 + tick * 36_000,
        batches=81_200 + tick * 40,
        syncs=81_200 + tick * 40,
        last_batch_records=12,
        sync=_percentiles(830_000, 81_200),
        sync_window=_percentiles(790_000, 2_010),
        snapshots=[
            SnapshotInfo(
                "/var/lib/bourse/default/snapshots/snapshot-00000000000018190000.snap",
                18_190_000,
                159_232,
                STARTED_NS + 60_000_000_000,
            )
        ],
        recovered_wal_seq=18_190_000,
        torn_bytes=0,
        state_digest=DIGEST,
        failed="",
        mono_ns=1_000_000_000 + tick * 200_000_000,
        segments=[
            SegmentInfo(9, 17_640_511, 64 << 20),
            SegmentInfo(8, 12_405_200, 64 << 20),
            SegmentInfo(7, 7_180_034, 64 << 20),
        ],
    )


def sessions(tick: int = 0) -> Sessions:
    rows = [
        ("10.0.0.7:50112", "open", 812, 1_604),
        ("10.0.0.9:41870", "open", 402, 690),
        ("10.0.0.9:41872", "paused", 0, 0),
        ("127.0.0.1:33018", "open", 31, 88),
    ]
    return Sessions(
        sessions=[
            SessionInfo(
                session_id=number + 2,
                peer=peer,
                state=state,
                connected_ns=STARTED_NS + number * 1_000_000_000,
                commands=10_000 + commands * tick // 5,
                events=22_000 + events * tick // 5,
                rejects=number * 3,
                open_orders=number * 211,
                bytes_in=400_000,
                bytes_out=900_000,
                queued_bytes=65_536 if state == "paused" else 0,
                last_active_ns=STARTED_NS,
            )
            for number, (peer, state, commands, events) in enumerate(rows)
        ],
        total=4,
        mono_ns=1_000_000_000 + tick * 200_000_000,
    )


def trades(tick: int = 0, count: int = 60) -> Trades:
    last = 3_100_000 + tick * 90
    return Trades(
        trades=[
            Trade(
                sequence=last - count + 1 + index,
                price_ticks=10_000 + (index * 7 % 5) - 2,
                qty_lots=1 + index * 37 % 950,
                taker_side=1 + index * 5 % 7 % 2,
                taker_order_id=500 + index,
                maker_order_id=100 + index,
                received_ns=STARTED_NS + index * 310_000_000,
            )
            for index in range(count)
        ],
        last_sequence=last,
        missed=0,
    )


_LINES = (
    (
        "info",
        "ready: ACME on 127.0.0.1:9000, policy fsync, poll adaptive, record 18190000, pid 4711",
    ),
    ("info", "admin: bourse tui connected, uid 1000, pid 4801"),
    ("warning", "session 4 paused: its reader is slow, 65536 bytes queued"),
    ("info", "snapshot @18190000: 2481 orders, 159232 bytes, matcher paused 0.041 ms"),
    ("error", "session 7 ended: frame of 70000 bytes, 65536 are allowed"),
)


def log(tick: int = 0) -> Log:
    return Log(
        lines=[
            LogLine(number, STARTED_NS + number * 7_000_000_000, *line)
            for number, line in enumerate(_LINES, 1)
        ],
        last_number=len(_LINES),
    )


TOPIC_SAMPLES = {
    "status": status,
    "depth": depth,
    "latency": latency,
    "wal": wal,
    "sessions": sessions,
    "trades": trades,
    "log": log,
}
