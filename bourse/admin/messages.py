"""The admin protocol: newline-delimited JSON-RPC 2.0 over a Unix socket, as typed values.

One JSON object a line, UTF-8, at most LINE_BYTES_MAX bytes. The client speaks first: `hello` with
the versions that it knows; nothing else is answered before. Then:

    → {"jsonrpc":"2.0","id":1,"method":"hello",
       "params":{"protocol_versions":[1],"client":"bourse tui"}}
    ← {"jsonrpc":"2.0","id":1,"result":{"protocol_version":1, ...}}
    → {"jsonrpc":"2.0","id":2,"method":"subscribe","params":{"topic":"depth","max_hz":5}}
    ← {"jsonrpc":"2.0","id":2,"result":{}}
    ← {"jsonrpc":"2.0","method":"frame",
       "params":{"topic":"depth","number":1,"skipped":0,"data":{...}}}
    → {"jsonrpc":"2.0","method":"credit","params":{"topic":"depth"}}

(two lines here where one is too wide for the page)

Credit: one frame a topic is outstanding. `subscribe` grants the first credit; the daemon builds the
next frame, from the latest values, when the client has returned the credit and 1/max_hz has passed.
A client that does not return credit costs nothing and gets nothing.

Methods, their parameters and results:

    hello        HelloParams        → Hello          subscribe    SubscribeParams → Empty
    status       Empty              → Status         unsubscribe  TopicParams     → Empty
    depth        DepthParams        → Depth          credit       TopicParams     (notification)
    latency      Empty              → Latency        snapshot     Empty           → SnapshotResult
    wal          Empty              → Wal            order        OrderParams     → OrderResult
    sessions     Empty              → Sessions       cancel       CancelParams    → OrderResult
    trades       TradesParams       → Trades         shutdown     Empty           → Empty
    log          LogParams          → Log
    prepare      PrepareParams      → Prepared       commit       CommitParams    → Committed

What ends or cancels something that belongs to others takes two steps. `prepare` changes nothing:
it says what would be hit and gives a token, good for one `commit` within `ttl_seconds`, which must
come with the instance's name as a person typed it. A token is used up by its first commit, right or
wrong, and forgotten by a daemon that ends. A connection whose hello said `read_only` gets an error
REFUSED for order, cancel, snapshot, shutdown, prepare and commit.

Topics and the type of a frame's data: status Status, depth Depth, latency Latency, wal Wal,
sessions Sessions, trades Trades, log Log. Times `_ns` are nanoseconds; `mono_ns` is the daemon's
monotonic clock. Unknown fields are ignored, missing ones take their default: so versions stay
compatible.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import msgspec

PROTOCOL_VERSION = 1
LINE_BYTES_MAX = 1 << 20
"""A longer line ends the connection; the largest real one (256 levels a side) is under 40 kB."""

DEPTH_LEVELS_MAX = 256
TOPICS = ("status", "depth", "latency", "wal", "sessions", "trades", "log")
STAGES = ("decoded", "dequeued", "matched", "durable", "encoded", "written", "total")
"""Each stage is the time since the one before it (decoded: since received); total is all of it."""


class ErrorCode(IntEnum):
    """JSON-RPC error codes; below -32000 the standard's own."""

    PARSE = -32700
    INVALID_REQUEST = -32600
    METHOD_NOT_FOUND = -32601
    INVALID_PARAMS = -32602
    INTERNAL = -32603
    HELLO_FIRST = 1
    VERSION = 2
    BUSY = 3
    REFUSED = 4
    SHUTTING_DOWN = 5


class Struct(msgspec.Struct, frozen=True, omit_defaults=False):
    """Base of every message."""


class Request(msgspec.Struct, frozen=True):
    """One line from a client; no `id` makes it a notification."""

    method: str
    params: msgspec.Raw = msgspec.Raw(b"{}")
    id: int | str | None = None
    jsonrpc: str = "2.0"


class ErrorBody(Struct, frozen=True):
    """Why a request failed."""

    code: int
    message: str


class Frame(Struct, frozen=True):
    """One frame of a subscription."""

    topic: str
    number: int
    """Counts the frames of this subscription from 1."""
    skipped: int
    """Frames that were due but not built since the last one, for want of credit."""
    data: Any


class Empty(Struct, frozen=True):
    """No parameters, or nothing to say."""


class HelloParams(Struct, frozen=True):
    """What the client can speak."""

    protocol_versions: list[int]
    client: str = ""
    read_only: bool = False
    """Refuse what changes something, from this connection."""


class Hello(Struct, frozen=True):
    """Who answers."""

    protocol_version: int
    build: str
    instance: str
    pid: int
    mono_ns: int
    read_only: bool = False


class TopicParams(Struct, frozen=True):
    """Names a topic."""

    topic: str


class SubscribeParams(Struct, frozen=True):
    """Ask for frames of a topic."""

    topic: str
    max_hz: float = 5.0
    """0.1 to 20 frames a second."""
    levels: int = 20
    """Topic depth: levels a side, 1 to DEPTH_LEVELS_MAX."""


class DepthParams(Struct, frozen=True):
    """Ask for the book's best levels."""

    levels: int = 20


class TradesParams(Struct, frozen=True):
    """Ask for trades with a sequence above `after_sequence`, newest last, at most `limit`."""

    after_sequence: int = 0
    limit: int = 100


class LogParams(Struct, frozen=True):
    """Ask for log lines with a number above `after_number`, newest last, at most `limit`."""

    after_number: int = 0
    limit: int = 200


class OrderParams(Struct, frozen=True):
    """An order of the operator's session."""

    side: str
    """buy or sell."""
    qty_lots: int
    price_ticks: int | None = None
    """None only for a market order."""
    type: str = "limit"
    """limit, market, ioc, post_only or fok."""


class CancelParams(Struct, frozen=True):
    """Cancel any live order by its exchange number."""

    order_id: int


class Status(Struct, frozen=True):
    """The daemon in one look."""

    instance: str
    build: str
    pid: int
    symbol: str
    listen: str
    admin: str
    data_dir: str
    durability: str
    poll: str
    store_id: str
    started_ns: int
    """Wall clock of the start, nanoseconds since 1970."""
    mono_ns: int
    recovered_wal_seq: int
    wal_seq: int
    """Last command that passed the release gate's reader (a read goes through the matcher)."""
    event_seq: int
    released_seq: int
    durable_seq: int
    written_seq: int
    connections: int
    connections_total: int
    protocol_errors: int
    slow_reader_cuts: int
    live_orders: int
    orders: int
    trades: int
    rejects: int
    commands: int
    """Commands taken by the gateway since the start."""
    command_ring_used: int
    command_ring_size: int
    event_ring_used: int
    event_ring_size: int
    state_digest: str
    event_digest: str
    best_bid_ticks: int | None = None
    best_ask_ticks: int | None = None
    low_space: bool = False
    """New orders are refused because the log's disk is nearly full."""
    disk_free_bytes: int = 0
    halted: bool = False
    """The instrument takes cancels only."""


class Level(Struct, frozen=True, array_like=True):
    """One price level; on the wire an array of three numbers."""

    price_ticks: int
    qty_lots: int
    order_count: int


class Depth(Struct, frozen=True):
    """The best levels of both sides at one moment between two commands."""

    symbol: str
    wal_seq: int
    event_seq: int
    bids: list[Level]
    """Best (highest) first."""
    asks: list[Level]
    """Best (lowest) first."""
    bid_levels: int
    """Levels that exist on the side, shown or not."""
    ask_levels: int
    live_orders: int
    state_digest: str
    event_digest: str
    mono_ns: int = 0
    last_price_ticks: int | None = None
    last_qty_lots: int | None = None
    halted: bool = False
    """The instrument takes cancels only."""


class Percentiles(Struct, frozen=True):
    """Durations of one stage in nanoseconds."""

    count: int = 0
    p50: int = 0
    p90: int = 0
    p99: int = 0
    p99_9: int = 0
    max: int = 0


class StageLatency(Struct, frozen=True):
    """One stage: since the start, and over the last window."""

    stage: str
    total: Percentiles
    window: Percentiles
    buckets: list[int]
    """Window counts: buckets[k] counts durations of 2**k to 2**(k+1)-1 ns, k = 0..35."""


class Latency(Struct, frozen=True):
    """Every stage, in the order of STAGES."""

    window_seconds: float
    stages: list[StageLatency]
    sampled_one_in: int = 1
    mono_ns: int = 0


class SnapshotInfo(Struct, frozen=True):
    """One snapshot file."""

    path: str
    wal_seq: int
    bytes: int
    created_ns: int


class SegmentInfo(Struct, frozen=True, array_like=True):
    """One segment file of the log; on the wire an array."""

    index: int
    first_wal_seq: int
    """Its first record's; 0 where the name does not tell."""
    size_bytes: int


class Wal(Struct, frozen=True):
    """The write-ahead log: what is safe on disk."""

    durability: str
    store_id: str
    accepted_seq: int
    written_seq: int
    durable_seq: int
    released_seq: int
    segment_path: str
    segment_index: int
    segment_used_bytes: int
    segment_size_bytes: int
    written_bytes: int
    batches: int
    syncs: int
    last_batch_records: int
    sync: Percentiles
    sync_window: Percentiles
    snapshots: list[SnapshotInfo]
    """Newest first."""
    recovered_wal_seq: int = 0
    spare: str = ""
    """Empty, or why the next segment cannot be filled yet: the disk is full."""
    torn_bytes: int = 0
    """Bytes cut off the log's tail at the last start."""
    state_digest: str = ""
    failed: str = ""
    """Empty, or the disk error that stops the daemon."""
    mono_ns: int = 0
    segments: list[SegmentInfo] = []
    """The newest ones, newest first; the first is the one that is written."""


class SessionInfo(Struct, frozen=True):
    """One connection."""

    session_id: int
    peer: str
    state: str
    """open, paused (its reader is slow, or the ring is full) or closing."""
    connected_ns: int
    commands: int
    events: int
    rejects: int
    open_orders: int
    bytes_in: int
    bytes_out: int
    queued_bytes: int
    last_active_ns: int


class Sessions(Struct, frozen=True):
    """All connections, by session id; at most 1,000 are listed."""

    sessions: list[SessionInfo]
    total: int
    mono_ns: int = 0


class Trade(Struct, frozen=True, array_like=True):
    """One trade; on the wire an array."""

    sequence: int
    price_ticks: int
    qty_lots: int
    taker_side: int
    """domain.Side."""
    taker_order_id: int
    maker_order_id: int
    received_ns: int
    """Wall clock of the taker's command."""


class Trades(Struct, frozen=True):
    """Trades newest last; `missed` counts those after `after_sequence` that are no longer kept."""

    trades: list[Trade]
    last_sequence: int
    missed: int = 0


class LogLine(Struct, frozen=True, array_like=True):
    """One line of the daemon's log; on the wire an array."""

    number: int
    """Counts the lines of this process from 1."""
    time_ns: int
    """Wall clock, nanoseconds since 1970."""
    level: str
    """info, warning, error or critical."""
    text: str


class Log(Struct, frozen=True):
    """Lines newest last; `missed` counts those after `after_number` that are not among them."""

    lines: list[LogLine]
    last_number: int
    missed: int = 0


class SnapshotResult(Struct, frozen=True):
    """A snapshot that is on disk."""

    path: str
    wal_seq: int
    live_orders: int
    bytes: int
    state_digest: str
    pause_ns: int
    """How long the matcher copied."""
    seconds: float


class Fill(Struct, frozen=True, array_like=True):
    """One fill of an operator's order."""

    price_ticks: int
    qty_lots: int
    maker_order_id: int
    sequence: int


class OrderResult(Struct, frozen=True):
    """What became of an operator's order or cancel, once the policy has it."""

    wal_seq: int
    order_id: int
    reason: int
    """domain.Reason: NONE when the order rests, FILLED, CANCELLED, ... or a reject."""
    reason_name: str
    sentence: str
    filled_lots: int
    leaves_lots: int
    """Open quantity now, or the quantity that ended."""
    resting: bool
    fills: list[Fill]
    """The first 100."""


class PrepareParams(Struct, frozen=True):
    """Ask what a dangerous action would hit."""

    action: str
    """halt, resume, kick or cancel_all."""
    session_id: int = 0
    """kick: which one; cancel_all: whose orders, 0 for everybody's."""


class Prepared(Struct, frozen=True):
    """What would be hit, and the key to do it."""

    token: str
    action: str
    session_id: int
    instance: str
    """What must be typed."""
    symbol: str
    title: str
    """What it is, in a few words."""
    impact: list[str]
    """What it hits, in sentences."""
    orders: int
    """Live orders that it ends; halt and resume: that stay in the book."""
    qty_lots: int
    """Their open quantity; it stops at 2**64 - 1."""
    sessions: int
    """Whose they are."""
    is_least: bool
    """There is more than was counted: a session's orders, or everybody's quantity."""
    connections: int
    """Clients that are connected now."""
    ttl_seconds: float
    """For so long the token is good."""


class CommitParams(Struct, frozen=True):
    """Do what was prepared."""

    token: str
    typed: str
    """The instance's name, as it was typed."""


class Committed(Struct, frozen=True):
    """It is done, and as safe as the policy says."""

    action: str
    session_id: int
    wal_seq: int
    """The record that did it, the last one of several; kick: it is not later than this one."""
    orders: int
    """Orders that were cancelled by it."""
    sentence: str


CHANGES = frozenset({"order", "cancel", "snapshot", "shutdown", "prepare", "commit"})
"""Methods that a read-only connection may not use."""

PARAMS: dict[str, type[Struct]] = {
    "hello": HelloParams,
    "status": Empty,
    "depth": DepthParams,
    "latency": Empty,
    "wal": Empty,
    "sessions": Empty,
    "trades": TradesParams,
    "log": LogParams,
    "snapshot": Empty,
    "order": OrderParams,
    "cancel": CancelParams,
    "shutdown": Empty,
    "prepare": PrepareParams,
    "commit": CommitParams,
    "subscribe": SubscribeParams,
    "unsubscribe": TopicParams,
    "credit": TopicParams,
}
RESULTS: dict[str, type[Struct]] = {
    "hello": Hello,
    "status": Status,
    "depth": Depth,
    "latency": Latency,
    "wal": Wal,
    "sessions": Sessions,
    "trades": Trades,
    "log": Log,
    "snapshot": SnapshotResult,
    "order": OrderResult,
    "cancel": OrderResult,
    "shutdown": Empty,
    "prepare": Prepared,
    "commit": Committed,
    "subscribe": Empty,
    "unsubscribe": Empty,
}
TOPIC_DATA: dict[str, type[Struct]] = {
    "status": Status,
    "depth": Depth,
    "latency": Latency,
    "wal": Wal,
    "sessions": Sessions,
    "trades": Trades,
    "log": Log,
}


class Reply(msgspec.Struct, frozen=True):
    """One line from the daemon: an answer (`id` and `result` or `error`) or a frame (`method`)."""

    id: int | str | None = None
    result: msgspec.Raw = msgspec.Raw(b"")
    error: ErrorBody | None = None
    method: str = ""
    params: msgspec.Raw = msgspec.Raw(b"")
    jsonrpc: str = "2.0"
