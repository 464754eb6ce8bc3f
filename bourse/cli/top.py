"""bourse top: the console's numbers as text, once or again and again."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bourse.cli.options import AdminOption, JsonOption, admin_path, command_app
from bourse.cli.output import clear_screen, duration, percentile_rows, say, say_json

if TYPE_CHECKING:
    from pathlib import Path

    from bourse.admin.store import Store

app = command_app()

FIRST_SECONDS = 5.0
"""A daemon that has not answered by then is said to be none."""
RATE_SECONDS = 1.1
"""Rates need two readings of a counter."""
SESSIONS_SHOWN = 8
LOG_SHOWN = 5
FRAMES_HZ = 4.0


@app.command()
def top(
    once: Annotated[
        bool, typer.Option("--once", help="Print it once and end; so too where no terminal is.")
    ] = False,
    as_json: JsonOption = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Print it again and again, also into a pipe.")
    ] = False,
    every: Annotated[
        float,
        typer.Option("--every", metavar="SECONDS", min=0.2, help="With --watch: how often."),
    ] = 1.0,
    admin: AdminOption = None,
) -> int:
    """Show a running exchange as text: book, rates, stages, log, sessions.

    On a terminal it is redrawn each second until Ctrl-C, in a pipe it is
    printed once. With --json each look is one object on one line. A daemon
    that goes away is waited for; the first line says how old the numbers are.

    \b
    Examples:
      bourse top --once
      bourse top --once --json | jq .rates
      bourse top --watch --every 5 >> exchange.log

    \b
    Exit codes:
      0  shown, or Ctrl-C
      2  wrong usage
      3  no daemon answers
    """
    from bourse.errors import UsageError

    if once and watch:
        raise UsageError("--once and --watch exclude each other")
    redraws = sys.stdout.isatty() and not as_json and not once
    again = watch or redraws
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_show(admin_path(admin), every if again else 0.0, as_json, redraws))
    return 0


async def _show(path: Path, every_s: float, as_json: bool, redraws: bool) -> None:
    """Follow a daemon and print it: once where `every_s` is 0.

    Raises:
        UnavailableError: nobody answers within FIRST_SECONDS.
    """
    from bourse.admin.client import Feed
    from bourse.admin.messages import TOPICS, SubscribeParams
    from bourse.admin.store import Store
    from bourse.errors import UnavailableError

    store = Store()
    feed = Feed(path, [SubscribeParams(topic, FRAMES_HZ) for topic in TOPICS], name="bourse top")

    async def follow() -> None:
        async with contextlib.aclosing(feed.events()) as happenings:
            async for event in happenings:
                store.apply(event)

    following = asyncio.create_task(follow())
    try:
        deadline = time.monotonic() + FIRST_SECONDS
        while not _is_complete(store):
            if store.connection.sentence or time.monotonic() > deadline:
                raise UnavailableError(
                    store.connection.sentence or f"The daemon at {path} sends no numbers."
                )
            if following.done():
                await following
            await asyncio.sleep(0.02)
        await asyncio.sleep(RATE_SECONDS)
        while True:
            if as_json:
                say_json(as_object(store))
            else:
                if redraws:
                    clear_screen()
                say("\n".join(as_lines(store)))
            if not every_s:
                return
            await asyncio.sleep(every_s)
            if not redraws and not as_json:
                say()
    finally:
        following.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await following


def _is_complete(store: Store) -> bool:
    return all(getattr(store, topic) for topic in ("status", "depth", "latency", "wal", "sessions"))


def as_object(store: Store) -> dict[str, Any]:
    """Return everything that is known, as JSON can have it."""
    import msgspec

    badge, age_s = store.badge()
    assert store.sessions is not None
    return {
        "badge": badge.value,
        "age_seconds": age_s,
        "time_ns": time.time_ns(),
        "rates": {
            name: round(store.rate(name), 1)
            for name in (
                "commands",
                "orders",
                "trades",
                "rejects",
                "wal.syncs",
                "wal.written_bytes",
            )
        },
        "status": store.status,
        "depth": store.depth,
        "latency": store.latency,
        "wal": store.wal,
        "sessions": [
            {
                **msgspec.structs.asdict(session),
                **dict(
                    zip(
                        ("in_per_s", "out_per_s"),
                        (round(rate, 1) for rate in store.session_rates(session)),
                        strict=True,
                    )
                ),
            }
            for session in store.sessions.sessions
        ],
        "markers": store.all_markers(),
        "log": [
            {"time_ns": entry.time_ns, "level": entry.level, "text": entry.text}
            for entry in list(store.log)[-LOG_SHOWN:]
        ],
    }


def as_lines(store: Store) -> list[str]:
    """Return the look as text."""
    from bourse.admin.store import Badge
    from bourse.tui.format import clean, clock, count, size, span

    status, depth, wal, sessions = store.status, store.depth, store.wal, store.sessions
    latency = store.latency
    assert status is not None
    assert depth is not None
    assert wal is not None
    assert sessions is not None
    assert latency is not None
    badge, age_s = store.badge()
    trust = badge.value if badge is Badge.LIVE else f"{badge.value} {span(age_s)}"
    uptime_s = max(0, time.time_ns() - status.started_ns) / 1e9
    bid, ask = (side[0] if side else None for side in (depth.bids, depth.asks))
    if status.halted:
        trust += "  HALTED"
    lines = [
        f"{trust}  {clean(status.instance)} {clean(status.symbol)} {clean(status.durability)}"
        f" {clean(status.poll)}, pid {status.pid}, up {span(uptime_s)}, "
        f"bourse {clean(status.build)}",
        f"  commands {store.rate('commands'):,.0f}/s  trades {store.rate('trades'):,.0f}/s  "
        f"rejects {store.rate('rejects'):,.0f}/s  syncs {store.rate('wal.syncs'):,.0f}/s  "
        f"written {size(int(store.rate('wal.written_bytes')))}/s",
        f"  wal_seq {count(wal.accepted_seq)}  durable {count(wal.durable_seq)} "
        f"(+{count(max(0, wal.accepted_seq - wal.durable_seq))})  "
        f"snapshot {count(wal.snapshots[0].wal_seq) if wal.snapshots else '-'}  "
        f"digest {clean(wal.state_digest)}",
        "  bid "
        + (f"{count(bid.price_ticks)} x {count(bid.qty_lots)}" if bid else "-")
        + "  ask "
        + (f"{count(ask.price_ticks)} x {count(ask.qty_lots)}" if ask else "-")
        + f"  live orders {count(depth.live_orders)}  "
        f"levels {count(depth.bid_levels)} bid, {count(depth.ask_levels)} ask",
        "",
        f"  the last {latency.window_seconds:g} s",
        *percentile_rows([(clean(stage.stage), stage.window) for stage in latency.stages]),
        "",
    ]
    if wal.sync.count:
        lines[-1:] = [
            f"  sync ever: p50 {duration(wal.sync.p50)}, p99 {duration(wal.sync.p99)}, "
            f"max {duration(wal.sync.max)}",
            "",
        ]
    if wal.failed:
        lines.append(f"  THE DISK FAILED: {clean(wal.failed)}")
    lines.append(
        f"  {'session':>9}  {'peer':<22}{'state':<9}{'in/s':>8}{'out/s':>9}"
        f"{'orders':>9}{'rejects':>9}{'queued':>12}"
    )
    busiest = sorted(sessions.sessions, key=store.session_rates, reverse=True)
    for session in busiest[:SESSIONS_SHOWN]:
        in_per_s, out_per_s = store.session_rates(session)
        lines.append(
            f"  {session.session_id:>9}  {clean(session.peer):<22}{clean(session.state):<9}"
            f"{in_per_s:>8,.0f}{out_per_s:>9,.0f}{session.open_orders:>9,}{session.rejects:>9,}"
            f"{size(session.queued_bytes):>12}"
        )
    if sessions.total > SESSIONS_SHOWN:
        lines.append(f"  ... {count(sessions.total - SESSIONS_SHOWN)} more sessions")
    if not sessions.total:
        lines.append("  nobody is connected")
    lines.append("")
    for entry in list(store.log)[-LOG_SHOWN:]:
        again = f" (x{entry.count})" if entry.count > 1 else ""
        lines.append(f"  {clock(entry.time_ns)}Z {clean(entry.level)}: {clean(entry.text)}{again}")
    return lines
