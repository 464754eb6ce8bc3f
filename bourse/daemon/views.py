"""What the admin protocol shows and does: typed answers about gateway, journal and book.

Everything here runs on the gateway's loop. What needs the book goes through the command ring as a
read (desk.Desk); counters and histograms have one writer and are read as they are.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from bourse import __version__
from bourse.admin import messages
from bourse.admin.messages import ErrorCode
from bourse.core.records import ENGINE_STATE, EVENT, Command
from bourse.daemon.clock import mono_ns
from bourse.domain import (
    INSTRUMENT_ID,
    OPERATOR_SESSION_ID,
    CommandFlag,
    CommandKind,
    EventKind,
    OrderType,
    Reason,
    Side,
)
from bourse.errors import AdminError

if TYPE_CHECKING:
    from bourse.daemon.admin_server import Builder, Handler, Subscription
    from bourse.daemon.dangers import Dangers
    from bourse.daemon.desk import DepthReply
    from bourse.daemon.logs import RecentLines
    from bourse.daemon.pipeline import Pipeline
    from bourse.daemon.snapshots import Snapshots

SESSIONS_MAX = 1000
FILLS_MAX = 100
TRADES_MAX = 1000
LOG_LINES_MAX = 1000
WINDOW_SECONDS = 10.0
_U64_MAX = 2**64 - 1
_I64_MAX = 2**63 - 1


def digest_text(digest: int) -> str:
    """Write a digest as people and JSON see it."""
    return f"0x{digest:016x}"


class Views:
    """Handlers of the admin methods and builders of the topics."""

    def __init__(
        self,
        pipeline: Pipeline,
        snapshots: Snapshots,
        listen: str,
        started_ns: int,
        shutdown: Callable[[str], None],
        log: RecentLines,
        dangers: Dangers,
    ) -> None:
        self._pipeline = pipeline
        self._gateway = pipeline.gateway
        self._desk = pipeline.desk
        self._snapshots = snapshots
        self._listen = listen
        self._started_ns = started_ns
        self._shutdown = shutdown
        self._log = log
        self._dangers = dangers
        # Each operator order consumes at least one wal_seq, so ids above the start's are never
        # reused.
        self._operator_ids = itertools.count(pipeline.store.engine.wal_seq + 1)

    @property
    def handlers(self) -> dict[str, Handler]:
        """Methods by name."""
        return {
            "status": lambda _: self.status(),
            "depth": lambda params: self.depth(params.levels),
            "latency": lambda _: self.latency(),
            "wal": lambda _: self.wal(),
            "sessions": lambda _: self.sessions(),
            "trades": lambda params: self.trades(params.after_sequence, params.limit),
            "log": lambda params: self.log(params.after_number, params.limit),
            "snapshot": lambda _: self.snapshot(),
            "order": self.order,
            "cancel": self.cancel,
            "shutdown": lambda _: self.shutdown(),
            "prepare": self._dangers.prepare,
            "commit": self._dangers.commit,
        }

    @property
    def builders(self) -> dict[str, Builder]:
        """Topics by name."""
        return {
            "status": lambda _: self.status(),
            "depth": lambda subscription: self.depth(subscription.levels),
            "latency": lambda _: self.latency(),
            "wal": lambda _: self.wal(),
            "sessions": lambda _: self.sessions(),
            "trades": self._next_trades,
            "log": self._next_log,
        }

    async def status(self) -> messages.Status:
        """The daemon in one look."""
        config = self._pipeline.config
        store = self._pipeline.store
        counters = self._gateway.counters
        state, bids, asks, _, _, is_halted = await self._read_depth(1)
        fields = ENGINE_STATE.unpack(state)
        return messages.Status(
            instance=config.instance,
            build=__version__,
            pid=os.getpid(),
            symbol=store.symbol,
            listen=self._listen,
            admin=config.admin,
            data_dir=config.data,
            durability=config.durability.label,
            poll=config.poll.label,
            store_id=store.store_id.hex(),
            started_ns=self._started_ns,
            mono_ns=mono_ns(),
            recovered_wal_seq=store.recovered_wal_seq,
            wal_seq=fields[0],
            event_seq=fields[1],
            released_seq=counters["released_seq"],
            durable_seq=counters["durable_seq"],
            written_seq=counters["written_seq"],
            connections=counters["connections"],
            connections_total=counters["connections_total"],
            protocol_errors=counters["protocol_errors"],
            slow_reader_cuts=counters["slow_reader_cuts"],
            live_orders=fields[6],
            orders=fields[7],
            trades=fields[8],
            rejects=fields[11],
            commands=counters["commands"],
            command_ring_used=counters["command_ring_used"],
            command_ring_size=counters["command_ring_size"],
            event_ring_used=counters["event_ring_used"],
            event_ring_size=counters["event_ring_size"],
            state_digest=digest_text(fields[4]),
            event_digest=digest_text(fields[5]),
            best_bid_ticks=bids[0][0] if bids else None,
            best_ask_ticks=asks[0][0] if asks else None,
            low_space=self._gateway.low_space,
            disk_free_bytes=self._pipeline.space.free_bytes,
            halted=is_halted,
        )

    async def depth(self, levels: int) -> messages.Depth:
        """The book's best levels."""
        levels = min(max(levels, 1), messages.DEPTH_LEVELS_MAX)
        state, bids, asks, bid_levels, ask_levels, is_halted = await self._read_depth(levels)
        fields = ENGINE_STATE.unpack(state)
        last = self._gateway.tape.last
        return messages.Depth(
            symbol=self._pipeline.store.symbol,
            wal_seq=fields[0],
            event_seq=fields[1],
            bids=[messages.Level(*level) for level in bids],
            asks=[messages.Level(*level) for level in asks],
            bid_levels=bid_levels,
            ask_levels=ask_levels,
            live_orders=fields[6],
            state_digest=digest_text(fields[4]),
            event_digest=digest_text(fields[5]),
            mono_ns=mono_ns(),
            last_price_ticks=last[0] if last else None,
            last_qty_lots=last[1] if last else None,
            halted=is_halted,
        )

    async def latency(self) -> messages.Latency:
        """Every stage's percentiles; the loop gets a turn between two stages."""
        stages = []
        for name, histogram in zip(messages.STAGES, self._gateway.stage_histograms(), strict=True):
            stages.append(
                messages.StageLatency(
                    stage=name,
                    total=messages.Percentiles(*histogram.percentiles(False)),
                    window=messages.Percentiles(*histogram.percentiles(True)),
                    buckets=histogram.octaves(),
                )
            )
            await asyncio.sleep(0)
        return messages.Latency(
            window_seconds=WINDOW_SECONDS, stages=stages, sampled_one_in=1, mono_ns=mono_ns()
        )

    async def wal(self) -> messages.Wal:
        """The write-ahead log."""
        store = self._pipeline.store
        counters = self._gateway.counters
        state, *_ = await self._read_depth(1)
        fields = ENGINE_STATE.unpack(state)
        index, first_seq, _ = self._pipeline.memory.segment
        error = self._pipeline.failed_errno
        return messages.Wal(
            durability=self._pipeline.config.durability.label,
            store_id=store.store_id.hex(),
            accepted_seq=fields[0],
            written_seq=counters["written_seq"],
            durable_seq=counters["durable_seq"],
            released_seq=counters["released_seq"],
            segment_path=str(store.path_of(index, first_seq)) if index else "",
            segment_index=index,
            segment_used_bytes=counters["segment_used_bytes"],
            segment_size_bytes=counters["segment_size_bytes"],
            written_bytes=counters["written_bytes"],
            batches=counters["batches"],
            syncs=counters["syncs"],
            last_batch_records=counters["last_batch_records"],
            sync=messages.Percentiles(*self._pipeline.sync_ns.percentiles(False)),
            sync_window=messages.Percentiles(*self._pipeline.sync_ns.percentiles(True)),
            snapshots=self._snapshots.listed,
            recovered_wal_seq=store.recovered_wal_seq,
            spare=os.strerror(spare) if (spare := self._pipeline.memory.spare_errno) else "",
            torn_bytes=store.torn_bytes,
            state_digest=digest_text(fields[4]),
            failed=os.strerror(error) if error else "",
            mono_ns=mono_ns(),
            segments=self._snapshots.segments(index) if index else [],
        )

    async def sessions(self) -> messages.Sessions:
        """All connections."""
        infos = self._gateway.session_infos(SESSIONS_MAX)
        return messages.Sessions(
            sessions=[messages.SessionInfo(*info) for info in infos],
            total=self._gateway.counters["connections"],
            mono_ns=mono_ns(),
        )

    async def trades(self, after_sequence: int, limit: int) -> messages.Trades:
        """Trades after a sequence."""
        trades, last, missed = self._gateway.tape.after(
            min(max(after_sequence, 0), _U64_MAX), min(max(limit, 1), TRADES_MAX)
        )
        return messages.Trades(
            trades=[messages.Trade(*trade) for trade in trades], last_sequence=last, missed=missed
        )

    async def _next_trades(self, subscription: Subscription) -> messages.Trades:
        """Trades since the last frame, at most as many as a screen can use."""
        trades = await self.trades(subscription.after_sequence, 200)
        subscription.after_sequence = max(subscription.after_sequence, trades.last_sequence)
        return trades

    async def log(self, after_number: int, limit: int) -> messages.Log:
        """The log's lines after a number."""
        lines, last, missed = self._log.after(after_number, min(max(limit, 1), LOG_LINES_MAX))
        return messages.Log(
            lines=[messages.LogLine(*line) for line in lines], last_number=last, missed=missed
        )

    async def _next_log(self, subscription: Subscription) -> messages.Log:
        """Lines since the last frame."""
        log = await self.log(subscription.after_number, 200)
        subscription.after_number = log.last_number
        return log

    async def snapshot(self) -> messages.SnapshotResult:
        """Take a snapshot and wait until it is on disk."""
        self._check_running()
        return await self._snapshots.take()

    async def shutdown(self) -> messages.Empty:
        """Begin the daemon's stop; the answer leaves first."""
        asyncio.get_running_loop().call_soon(self._shutdown, "admin request")
        return messages.Empty()

    async def order(self, params: messages.OrderParams) -> messages.OrderResult:
        """Send an order of the operator's session and wait for its outcome."""
        side = {"buy": Side.BUY, "sell": Side.SELL}.get(params.side)
        if side is None:
            raise AdminError(
                ErrorCode.INVALID_PARAMS, f"side is {params.side!r}, expected buy or sell"
            )
        try:
            order_type = OrderType[params.type.upper()]
        except KeyError:
            raise AdminError(
                ErrorCode.INVALID_PARAMS,
                f"type is {params.type!r}, expected {', '.join(t.name.lower() for t in OrderType)}",
            ) from None
        if not 0 <= params.qty_lots <= _U64_MAX:
            raise AdminError(
                ErrorCode.INVALID_PARAMS, f"qty_lots is {params.qty_lots}, expected 0 to 2**64 - 1"
            )
        price_ticks = params.price_ticks
        if order_type is OrderType.MARKET:
            price_ticks = 0
        elif price_ticks is None:
            raise AdminError(
                ErrorCode.INVALID_PARAMS, f"a {params.type} order needs a price (price_ticks)"
            )
        if not -_I64_MAX - 1 <= price_ticks <= _I64_MAX:
            raise AdminError(
                ErrorCode.INVALID_PARAMS,
                f"price_ticks is {price_ticks}, expected -2**63 to 2**63 - 1",
            )
        command = Command(
            kind=CommandKind.NEW_ORDER,
            side=side,
            order_type=order_type,
            instrument_id=INSTRUMENT_ID,
            session_id=OPERATOR_SESSION_ID,
            client_order_id=next(self._operator_ids),
            price_ticks=price_ticks,
            qty_lots=params.qty_lots,
        )
        return await self._operate(command)

    async def cancel(self, params: messages.CancelParams) -> messages.OrderResult:
        """Cancel any live order by its exchange number."""
        if not 0 <= params.order_id <= _U64_MAX:
            raise AdminError(
                ErrorCode.INVALID_PARAMS, f"order_id is {params.order_id}, expected 0 to 2**64 - 1"
            )
        command = Command(
            kind=CommandKind.CANCEL,
            flags=CommandFlag.BY_ORDER_ID,
            instrument_id=INSTRUMENT_ID,
            session_id=OPERATOR_SESSION_ID,
            order_id=params.order_id,
        )
        return await self._operate(command)

    def _check_running(self) -> None:
        """Refuse what needs the matcher once it has been told to end.

        Raises:
            AdminError: it has.
        """
        if self._gateway.stopping:
            raise AdminError(
                ErrorCode.SHUTTING_DOWN, "the daemon is shutting down; ask again when it is back"
            )

    async def _read_depth(self, levels: int) -> DepthReply:
        self._check_running()
        return await self._desk.read_depth(levels)

    async def _operate(self, command: Command) -> messages.OrderResult:
        self._check_running()
        done = await self._desk.operate(command)
        return order_result(command, done.events, done.filled_lots)


def order_result(command: Command, events: list[bytes], filled_lots: int) -> messages.OrderResult:
    """Say what became of an operator's command.

    Args:
        command: the order or cancel.
        events: its events of 64 bytes, HEAD first; of the trades only the first ones.
        filled_lots: what all its trades add up to.
    """
    if not events:
        raise AdminError(ErrorCode.INTERNAL, "the command's events were lost")
    head, *rest = [dict(zip(_EVENT_FIELDS, EVENT.unpack(event), strict=True)) for event in events]
    fills = [
        messages.Fill(
            price_ticks=event["price_ticks"],
            qty_lots=event["qty_lots"],
            maker_order_id=event["order_id"],
            sequence=event["sequence"],
        )
        for event in rest
        if event["kind"] == EventKind.TRADE
    ]
    order_id = head["order_id"] or command.order_id
    own_end = [
        event
        for event in rest
        if event["kind"] == EventKind.DONE and event["order_id"] in (order_id, 0)
    ]
    reason = Reason(head["reason"])
    resting = False
    leaves_lots = command.qty_lots - filled_lots
    if own_end:
        reason = Reason(own_end[-1]["reason"])
        leaves_lots = own_end[-1]["qty_lots"]
    elif reason is Reason.NONE and command.kind == CommandKind.NEW_ORDER:
        resting = True
    return messages.OrderResult(
        wal_seq=head["sequence"],
        order_id=order_id,
        reason=reason,
        reason_name=reason.name.lower(),
        sentence=reason.sentence,
        filled_lots=filled_lots,
        leaves_lots=leaves_lots,
        resting=resting,
        fills=fills[:FILLS_MAX],
    )


_EVENT_FIELDS = (
    "kind",
    "reason",
    "side",
    "command_kind",
    "session_id",
    "sequence",
    "client_order_id",
    "order_id",
    "price_ticks",
    "qty_lots",
    "leaves_lots",
    "instrument_id",
    "spare",
)
