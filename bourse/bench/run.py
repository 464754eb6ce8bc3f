"""What every client workload shares: the daemon or a connection to one, the loop, the checks."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import msgspec

from bourse.admin import messages
from bourse.admin.checks import Check, replay_check
from bourse.admin.client import call
from bourse.bench import results
from bourse.bench.client import AGAIN, BAD_FRAME, CLOSED, EVENTS_PER_PAIR, FINISHED, Client
from bourse.bench.faults import fault_number
from bourse.bench.private_daemon import PrivateDaemon
from bourse.bench.results import Digests, Percentiles, Result
from bourse.config import default_admin_path, format_address, parse_address, parse_choice
from bourse.domain import Durability, PollMode
from bourse.errors import BourseError, ProtocolError, UnavailableError, UsageError
from bourse.protocol.messages import Cancel

SILENCE_SECONDS_MAX = 30.0
"""A run without any event for so long has failed."""

DEFAULT_SEED = 23

PRICE_TICKS = 100
"""All client workloads sell and buy here."""

LEFT_MAX = 4
"""Round trips that fail take back so many of their last orders: one pair at a time is open."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The flags that all client workloads take."""

    samples: int
    durability: Durability | None = None
    """None: fsync for a private daemon, what the daemon says with `connect`."""
    poll: PollMode | None = None
    """None: adaptive for a private daemon, what the daemon says with `connect`."""
    connect: str | None = None
    admin: Path | None = None
    """Admin socket of the daemon at `connect`; None tries the default one."""
    client_busy: bool | None = None
    """Whether the client polls; None is busy where the daemon is."""
    data: Path | None = None
    """Where a private daemon's temporary data directory is made."""
    seed: int = DEFAULT_SEED
    fault: int = 0
    """Of one event on its way to the checks, on purpose; faults.py."""


def options_of(
    *,
    durability: str | None = None,
    poll: str | None = None,
    client_poll: str | None = None,
    fault: str | None = None,
    **others: Any,
) -> Options:
    """Read the flags of workloads.CLIENT.

    Raises:
        UsageError: one of them is wrong.
    """
    if client_poll not in (None, "block", "busy"):
        raise UsageError(f"--client-poll {client_poll} is not allowed; it must be block or busy")
    return Options(
        durability=Durability(parse_choice("durability", durability)) if durability else None,
        poll=PollMode(parse_choice("poll", poll)) if poll else None,
        client_busy=None if client_poll is None else client_poll == "busy",
        fault=fault_number(fault),
        **others,
    )


class Target:
    """The daemon that is measured: its address, its admin socket if known, what is said of it."""

    def __init__(
        self, address: tuple[str, int], admin: Path | None, daemon: PrivateDaemon | None
    ) -> None:
        self.address = address
        self.admin = admin
        self.daemon = daemon
        self.data_dir = daemon.data_dir if daemon else None
        self.policy = "unknown"
        self.poll = "unknown"
        if admin:
            status = self.status()
            self.policy, self.poll = status.durability, status.poll
            self.data_dir = self.data_dir or Path(status.data_dir)

    @property
    def is_private(self) -> bool:
        """Whether nobody else can be trading on it."""
        return self.daemon is not None

    def status(self) -> messages.Status:
        """Ask the daemon for its status."""
        assert self.admin is not None
        status = call(self.admin, "status")
        assert isinstance(status, messages.Status)
        return status

    def stages(self) -> dict[str, Percentiles]:
        """Ask the daemon for its stages' durations since its start."""
        assert self.admin is not None
        latency = call(self.admin, "latency")
        assert isinstance(latency, messages.Latency)
        return {
            stage.stage: Percentiles(
                p50=stage.total.p50,
                p90=stage.total.p90,
                p99=stage.total.p99,
                p99_9=stage.total.p99_9,
                max=stage.total.max,
            )
            for stage in latency.stages
        }


@contextlib.contextmanager
def target(options: Options) -> Iterator[Target]:
    """Start a private daemon, or find the one that `--connect` names."""
    if options.connect is None:
        durability = options.durability if options.durability is not None else Durability.FSYNC
        poll = options.poll if options.poll is not None else PollMode.ADAPTIVE
        with PrivateDaemon(durability, poll, options.data) as daemon:
            address = parse_address(daemon.banner.listen)
            yield Target(address, Path(daemon.banner.admin), daemon)
        return
    address = parse_address(options.connect, "--connect")
    found = Target(address, _admin_of(address, options.admin), None)
    for flag, wanted, real in (
        ("--durability", options.durability, found.policy),
        ("--poll", options.poll, found.poll),
    ):
        if wanted is not None and real not in ("unknown", wanted.label):
            raise UsageError(
                f"{flag} {wanted.label} does not fit the daemon at {options.connect}, "
                f"which runs with {real}; leave the flag away or start another daemon"
            )
    if found.policy == "unknown" and options.durability is not None:
        found.policy = options.durability.label
    if found.poll == "unknown" and options.poll is not None:
        found.poll = options.poll.label
    _refuse_what_rests(found, options.connect)
    yield found


def _refuse_what_rests(found: Target, connect_to: str) -> None:
    """Refuse a book in which an order of the workload would meet somebody else's.

    Raises:
        UsageError: a buy rests at the workloads' price or above, or a sell there or below.
    """
    if found.admin is None:
        return
    depth = call(found.admin, "depth", messages.DepthParams(levels=1))
    assert isinstance(depth, messages.Depth)
    bids = [level.price_ticks for level in depth.bids if level.price_ticks >= PRICE_TICKS]
    asks = [level.price_ticks for level in depth.asks if level.price_ticks <= PRICE_TICKS]
    for name, met in (("buy", bids), ("sell", asks)):
        if met:
            raise UsageError(
                f"the book at {connect_to} is not empty where this trades: "
                f"a {name} rests at {met[0]}, and its orders at {PRICE_TICKS} "
                "would trade with it; cancel it, or leave --connect away for a private daemon"
            )


def _admin_of(address: tuple[str, int], named: Path | None) -> Path | None:
    """Return the admin socket of the daemon at an address, None when it is not known."""
    if named is not None:
        return named
    path = default_admin_path("default")
    try:
        status = call(path, "status")
    except BourseError:
        return None
    assert isinstance(status, messages.Status)
    host, port = parse_address(status.listen)
    return path if port == address[1] and _same_host(host, address[0]) else None


def _same_host(listening: str, wanted: str) -> bool:
    """Return whether a name that is connected to leads to where a daemon listens."""
    if listening in ("0.0.0.0", "::", wanted):
        return True
    try:
        found = socket.getaddrinfo(wanted, None, type=socket.SOCK_STREAM)
    except OSError:
        return False
    return listening in {entry[4][0] for entry in found}


def connect(address: tuple[str, int]) -> socket.socket:
    """Connect as the compiled client wants it: blocking, no delay, a second's receive timeout.

    Raises:
        UnavailableError: nothing answers there.
    """
    try:
        connection = socket.create_connection(address, timeout=10)
    except OSError as error:
        raise UnavailableError(
            f"nothing answers at {format_address(*address)} ({error.strerror or error}); "
            "start a daemon with `bourse daemon start`, or leave --connect away"
        ) from None
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    second = struct.pack("@ll", 1, 0)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, second)
    return connection


class Counting(Protocol):
    """A client whose loop drive() calls."""

    def counts(self) -> dict[str, int]:
        """Return what was counted, `events` and `error_number` among it."""
        ...


def drive(step: Callable[[], int], client: Counting) -> None:
    """Call one of the client's loops until it is finished; signals are handled in between.

    Raises:
        UnavailableError: no event came for SILENCE_SECONDS_MAX, or the connection broke.
        ProtocolError: the daemon hung up, or sent what version 1 does not know.
    """
    events = -1
    deadline = time.monotonic() + SILENCE_SECONDS_MAX
    while True:
        status = step()
        if status == FINISHED:
            return
        counts = client.counts()
        after = f"after {counts['events']:,} events"
        if status == CLOSED:
            raise ProtocolError(f"the daemon closed the connection {after}; its log says why")
        if status == BAD_FRAME:
            raise ProtocolError(f"the daemon sent a frame that version 1 does not know, {after}")
        if status != AGAIN:
            raise UnavailableError(f"{os.strerror(counts['error_number'])} {after}")
        if counts["events"] != events:
            events = counts["events"]
            deadline = time.monotonic() + SILENCE_SECONDS_MAX
        elif time.monotonic() > deadline:
            raise UnavailableError(
                f"no event for {SILENCE_SECONDS_MAX:.0f} seconds, {after}: the server hangs, or "
                f"somebody else's order at {PRICE_TICKS} took the other side of one of this run's"
            )


@contextlib.contextmanager
def taken_back(connection: socket.socket, client: Client) -> Iterator[None]:
    """Cancel what a run that fails has left in the book of its daemon, then hang up."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            _take_back(connection, client.counts()["accepted"])
        raise


def _take_back(connection: socket.socket, accepted: int) -> None:
    ids = range(max(1, accepted - LEFT_MAX + 1), accepted + 2)  # the last may be on its way
    connection.settimeout(1.0)
    connection.sendall(b"".join(Cancel(order_id).pack() for order_id in ids))
    connection.shutdown(socket.SHUT_WR)
    while connection.recv(1 << 16):  # closed with answers unread, the cancels might be lost
        pass


def drain_while_sending(
    client: Client, connection: socket.socket, send: Callable[[], int], busy: bool
) -> bool:
    """Have a thread of its own send every order, and read and verify until the last buy is filled.

    Args:
        client: whose drain() reads.
        connection: the client's.
        send: one of the client's loops, for the thread.
        busy: whether the reader polls.

    Returns:
        Whether everything was sent.

    Raises:
        UnavailableError, ProtocolError: as drive() says.
    """
    sent: list[int] = []
    writer = threading.Thread(target=lambda: sent.append(send()), name="writer")
    writer.start()
    try:
        drive(lambda: client.drain(busy), client)
    except BaseException:
        connection.shutdown(2)  # the writer may be waiting for a reader that is gone
        raise
    finally:
        writer.join()
    return sent == [FINISHED]


def client_busy(options: Options, found: Target) -> bool:
    """Return whether the client polls."""
    if options.client_busy is not None:
        return options.client_busy
    return found.poll == PollMode.BUSY.label


def surprise_of(counts: dict[str, int]) -> str:
    """Say where the first event came that must not have come there; nothing when none did."""
    return f"the first at event {counts['first_surprise']:,}" if counts["surprises"] else ""


def event_checks(counts: dict[str, int], pairs: int, is_private: bool) -> list[Check]:
    """Judge what the client counted.

    Args:
        counts: Client.counts().
        pairs: how many pairs were traded, warm-up included.
        is_private: nobody else trades there, so its numbers are consecutive.
    """
    expected = pairs * EVENTS_PER_PAIR
    gapless = counts["gaps"] == 0 if is_private else counts["disorders"] == 0
    first, last = counts["first_sequence"], counts["last_sequence"]
    filled = counts["buys_filled"], counts["sells_filled"]
    return [
        Check(
            "sequence_gapless" if is_private else "sequence_increasing",
            gapless,
            f"{first} to {last}, {counts['gaps']} gaps",
        ),
        Check("events_expected", counts["events"] == expected, f"{counts['events']} of {expected}"),
        Check("events_exact", counts["surprises"] == 0, surprise_of(counts)),
        Check("no_reject", counts["rejects"] == 0, f"{counts['rejects']}"),
        Check("orders_filled", filled == (pairs, pairs), f"{filled[0]} buys, {filled[1]} sells"),
        Check(
            "bought_equals_sold",
            counts["bought_lots"] == counts["sold_lots"] == pairs,
            f"{counts['bought_lots']} and {counts['sold_lots']} lots",
        ),
        Check("prices_right", counts["wrong_prices"] == 0, f"{counts['wrong_prices']} wrong"),
        Check("leaves_zero", counts["wrong_leaves"] == 0, f"{counts['wrong_leaves']} wrong"),
    ]


def status_checks(status: messages.Status, pairs: int) -> list[Check]:
    """Judge what a private daemon says afterwards."""
    empty = status.live_orders == 0 and status.best_bid_ticks is None
    checks = [
        Check(
            "book_empty",
            empty and status.best_ask_ticks is None,
            f"{status.live_orders} live orders",
        ),
        Check("trades_expected", status.trades == pairs, f"{status.trades} of {pairs}"),
        Check("protocol_clean", status.protocol_errors == 0, f"{status.protocol_errors} errors"),
    ]
    if status.durability == Durability.FSYNC.label:
        checks.append(
            Check(
                "durable_before_released",
                status.durable_seq >= status.released_seq,
                f"durable {status.durable_seq}, released {status.released_seq}",
            )
        )
    return checks


def stopped_checks(daemon: PrivateDaemon, policy: str, digests: Digests) -> list[Check]:
    """Stop a private daemon and judge how it ended and what its log replays to."""
    code = daemon.stop()
    words = "" if code == 0 else daemon.last_words()
    checks = [Check("daemon_stopped_cleanly", code == 0, words)]
    if policy != Durability.MEMORY.label:
        checks.append(replay_check(daemon.data_dir, digests.state, digests.events))
    return checks


def skipped_at(found: Target, with_stages: bool) -> list[str]:
    """Say what cannot be seen of this daemon; nothing where it is private.

    A server that speaks protocol version 1 and nothing else is known by what it answers only.
    """
    if found.is_private:
        return []
    skipped = ["no gap in the sequence, an empty book, a replay of the log: others may trade there"]
    if found.admin is None:
        skipped.append("policy, poll mode, digests: no admin socket is known, --admin names one")
        if with_stages:
            skipped.append("stages and the disk's own fdatasync: they need the admin socket")
    return skipped


def finish(
    result: Result,
    found: Target,
    counts: dict[str, int],
    pairs: int,
    load_average_before: float,
    with_stages: bool,
    heard: list[Check] | None = None,
) -> Result:
    """Complete a result: checks, digests, stages, environment; stops a private daemon.

    `heard` are the checks of the events; None: those of Client.
    """
    result.parameters |= {"events": counts["events"], "fills": counts["trades"]}
    result.checks = event_checks(counts, pairs, found.is_private) if heard is None else heard
    if found.admin is not None:
        status = found.status()
        result.digests = Digests(status.state_digest, status.event_digest)
        if with_stages:
            result.stages_ns = found.stages()
        if found.is_private:
            result.checks += status_checks(status, pairs)
    result.skipped = skipped_at(found, with_stages) or msgspec.UNSET
    result.environment = results.environment(found.data_dir, load_average_before)
    result.warnings = results.machine_warnings(result.environment)
    if found.daemon is not None and isinstance(result.digests, Digests):
        result.checks += stopped_checks(found.daemon, found.policy, result.digests)
    return result
