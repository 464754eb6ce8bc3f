"""A real daemon process for tests, clients that speak to it, and what its log says was owed.

    Daemon      one data directory and the process that serves it: start, kill, restart, admin calls
    Client      one connection: queue or send requests, receive executions, every byte is kept
    pump()      writes and reads for many clients at once, from one thread, with a deadline
    LogView     the log replayed: its commands, its events, and the frames owed to each session

Nothing here waits without a deadline, and no process is signalled that was not started here.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from bourse.admin.client import BlockingClient
from bourse.admin.client import call as admin_call
from bourse.core.records import Command, Event, unpack_events
from bourse.domain import CommandKind, EventKind, OrderType, Reason, Side
from bourse.journal import segment
from bourse.journal.filesystem import is_memory_filesystem
from bourse.journal.replay import ReplayResult, replay
from bourse.protocol.messages import Accepted, Cancel, Done, Execution, FrameReader, NewOrder, Trade

ROUNDS = int(os.environ.get("ROUNDS", "1"))
"""Long tests repeat their loops so many times; `make torture` raises it."""

START_SECONDS_MAX = 30.0
STOP_SECONDS_MAX = 30.0
ANSWER_SECONDS_MAX = 20.0

FLAGS = ("durability", "poll", "listen", "admin", "data", "log_file")
TROUBLE = ("critical", "error", "Traceback", "bug:", "gap in")
"""Words in a daemon's log that no test should see unless it asked for them."""


def scratch_directory() -> Path:
    """Make a directory on a disk, with a short path; the caller removes it."""
    places = [Path(tempfile.gettempdir()), Path("/var/tmp"), Path.home()]
    usable = [place for place in places if os.access(place, os.W_OK)]
    on_disk = [place for place in usable if not is_memory_filesystem(place)]
    return Path(tempfile.mkdtemp(prefix="bourse-it-", dir=(on_disk or usable)[0]))


class StartError(AssertionError):
    """The daemon ended instead of becoming ready."""

    def __init__(self, code: int, stderr: str) -> None:
        super().__init__(f"exit code {code}: {stderr}")
        self.code = code
        self.stderr = stderr


class Daemon:
    """One data directory and, between start() and its end, the process that serves it.

    Options are keys of the configuration; those that are flags are given as flags, so that both
    ways in are used.
    """

    def __init__(self, base: Path, *, data: Path | None = None, **options: Any) -> None:
        self.base = base
        self.data_dir = data or base / "data"
        self.admin_path = base / "admin.sock"
        self.log_path = base / "stderr.log"
        self.options: dict[str, Any] = {
            "instance": "default",
            "durability": "fsync",
            "poll": "block",
            "listen": "127.0.0.1:0",
            "admin": str(self.admin_path),
            "data": str(self.data_dir),
            # Smaller than the defaults, which take a tenth of a second to touch at each start.
            "wal_segment_bytes": 1 << 20,
            # The machine's disk is not what is tested.
            "low_space_bytes": 0,
            "command_ring_count": 1 << 12,
            "event_ring_count": 1 << 14,
            "journal_ring_count": 1 << 12,
            **options,
        }
        self.environment: dict[str, str] = {}
        self.process: subprocess.Popen[bytes] | None = None
        self.banner: dict[str, Any] = {}
        self.clients: list[Client] = []
        self._log_start = 0

    # --- the process

    def command_line(self) -> list[str]:
        """Write the configuration file; return what starts the daemon."""
        config = self.base / "bourse.toml"
        lines = [f"{k} = {json.dumps(v)}\n" for k, v in self.options.items() if k not in FLAGS]
        config.write_text("".join(lines))
        command = [sys.executable, "-P", "-m", "bourse", "daemon", "start", "--json"]
        command += ["--config", str(config)]
        for key in FLAGS:
            if key in self.options:
                command += [f"--{key.replace('_', '-')}", str(self.options[key])]
        return command

    def spawn(self) -> Self:
        """Start the process; do not wait for it."""
        assert self.process is None or self.process.poll() is not None, "it runs already"
        self._log_start = self.log_path.stat().st_size if self.log_path.exists() else 0
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                self.command_line(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, **self.environment},
                start_new_session=True,
            )
        return self

    def start(self) -> Self:
        """Start the process and wait until it serves.

        Raises:
            StartError: it ended before; with its exit code and what it said.
        """
        self.spawn()
        line = self._read_line()
        if line is None:
            raise StartError(self.wait(), self.log())
        self.banner = json.loads(line)
        return self

    def _read_line(self) -> bytes | None:
        assert self.process is not None and self.process.stdout is not None
        deadline = time.monotonic() + START_SECONDS_MAX
        line = b""
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while not line.endswith(b"\n"):
                left = deadline - time.monotonic()
                assert left > 0 and selector.select(left), f"not ready in time: {self.log()}"
                data = os.read(self.process.stdout.fileno(), 4096)
                if not data:
                    return None
                line += data
        return line

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def send_signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def wait(self, seconds: float = STOP_SECONDS_MAX) -> int:
        """Wait for its end; return the exit code."""
        assert self.process is not None
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {seconds} s: {self.log()}") from None
        if self.process.stdout is not None:
            self.process.stdout.close()
        return code

    def kill(self) -> None:
        """SIGKILL it, and forget the clients' connections."""
        if self.is_running:
            self.send_signal(signal.SIGKILL)
        if self.process is not None:
            self.wait()

    def stop(self, number: int = signal.SIGTERM, seconds: float = STOP_SECONDS_MAX) -> int:
        """Ask it to stop; return its exit code."""
        self.send_signal(number)
        return self.wait(seconds)

    def close(self) -> None:
        """End the process if it runs, and every connection."""
        for client in self.clients:
            client.close()
        self.kill()

    def remove(self) -> None:
        """End it and remove all that it has left."""
        self.close()
        shutil.rmtree(self.base, ignore_errors=True)

    # --- what it says

    def log(self, all_starts: bool = False) -> str:
        """What it has said on stderr since its last start."""
        text = self.log_path.read_bytes()[0 if all_starts else self._log_start :]
        return text.decode()

    def log_lines(self, *words: str) -> list[str]:
        """The lines of this start's log that hold all of `words`."""
        return [line for line in self.log().splitlines() if all(word in line for word in words)]

    def lines_about(self, client: Client, *words: str) -> list[str]:
        """The log's lines about this connection (a port is used again by a later one)."""
        peer = "({}:{})".format(*client.local)
        lines = self.log_path.read_bytes()[client.log_mark :].decode().splitlines()
        return [line for line in lines if peer in line and all(word in line for word in words)]

    def trouble(self) -> list[str]:
        """Lines of the log, over all starts, that tell of a fault in the daemon itself."""
        lines = self.log(all_starts=True).splitlines()
        return [line for line in lines if any(f" {word}" in f" {line}" for word in TROUBLE)]

    # --- its two faces

    @property
    def address(self) -> tuple[str, int]:
        host, _, port = self.banner["listen"].rpartition(":")
        return host, int(port)

    def connect(self, **options: Any) -> Client:
        mark = self.log_path.stat().st_size
        client = Client(self.address, **options)
        client.log_mark = mark
        self.clients.append(client)
        return client

    def call(self, method: str, params: Any = None, timeout: float | None = 20.0) -> Any:
        return admin_call(self.admin_path, method, params, timeout)

    def admin(self) -> BlockingClient:
        return BlockingClient(self.admin_path, "a test")

    def session_of(self, client: Client) -> int:
        """The session id of a connection, found by its port."""
        peer = "{}:{}".format(*client.local)
        deadline = time.monotonic() + ANSWER_SECONDS_MAX
        while time.monotonic() < deadline:
            for session in self.call("sessions").sessions:
                if session.peer == peer:
                    return int(session.session_id)
            time.sleep(0.01)
        raise AssertionError(f"no session of {peer}")

    def settled(self) -> Any:
        """The status once nothing is under way any more: rings empty, all of it durable."""
        previous = None
        deadline = time.monotonic() + ANSWER_SECONDS_MAX
        while time.monotonic() < deadline:
            status = self.call("status")
            mark = (status.wal_seq, status.commands, status.event_ring_used, status.connections)
            if mark == previous and status.released_seq == status.wal_seq:
                return status
            previous = mark
            time.sleep(0.02)
        raise AssertionError("the daemon does not settle")

    def orders_in_book(self) -> Any:
        return self.call("depth")


class Client:
    """One connection. Never blocks by itself: bytes move inside pump()."""

    def __init__(self, address: tuple[str, int], *, receive_buffer: int | None = None) -> None:
        self.socket = socket.socket()
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(ANSWER_SECONDS_MAX)
        self.socket.connect(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.local: tuple[str, int] = self.socket.getsockname()
        self.socket.setblocking(False)
        self.outgoing = bytearray()
        self.received = bytearray()
        """Every byte that ever came."""
        self.sent_bytes = 0
        self.log_mark = 0
        """Where the daemon's log ended before this connection."""
        self.ended = ""
        """Why no more can come: "eof", "reset", or empty."""
        self.reads = True
        self.executions: list[Execution] = []
        """Every execution that ever came, as far as `received` was parsed."""
        self._reader = FrameReader()
        self._parsed_bytes = 0
        self._taken = 0

    # --- moving bytes

    def queue(self, data: bytes) -> None:
        self.outgoing += data

    def write_some(self) -> None:
        try:
            count = self.socket.send(self.outgoing[: 1 << 18])
        except BlockingIOError:
            return
        except OSError:
            # Its side is closed; what it has sent may still be read.
            self.outgoing.clear()
            return
        self.sent_bytes += count
        del self.outgoing[:count]

    def read_some(self) -> None:
        try:
            data = self.socket.recv(1 << 18)
        except BlockingIOError:
            return
        except OSError:
            self.ended = "reset"
            return
        if data:
            self.received += data
        else:
            self.ended = "eof"

    # --- conversations

    def send(self, *requests: NewOrder | Cancel) -> None:
        """Send requests, reading meanwhile so that neither side is stuck."""
        self.send_bytes(b"".join(request.pack() for request in requests))

    def send_bytes(self, data: bytes) -> None:
        self.queue(data)
        pump([self], lambda: not self.outgoing or bool(self.ended))

    def receive(self, count: int, seconds: float = ANSWER_SECONDS_MAX) -> list[Execution]:
        """Return the next `count` executions."""
        pump([self], lambda: len(self.parse()) - self._taken >= count or bool(self.ended), seconds)
        return self.take(count)

    def take(self, count: int) -> list[Execution]:
        taken = self.executions[self._taken : self._taken + count]
        assert len(taken) == count, f"{len(taken)} of {count} executions: {taken[-3:]} {self.ended}"
        self._taken += count
        return taken

    def ask(self, *requests: NewOrder | Cancel, answers: int) -> list[Execution]:
        self.send(*requests)
        return self.receive(answers)

    def pending(self) -> list[Execution]:
        """Executions that came and were not taken; take them."""
        self.read_some()
        found = self.parse()[self._taken :]
        self._taken += len(found)
        return found

    def read_to_end(self, seconds: float = ANSWER_SECONDS_MAX) -> list[Execution]:
        """Read until the other side closes; return what was not taken before."""
        pump([self], lambda: bool(self.ended), seconds)
        found = self.parse()[self._taken :]
        self._taken += len(found)
        return found

    def parse(self) -> list[Execution]:
        """Parse what came since the last time; return all executions so far."""
        if self._parsed_bytes < len(self.received):
            data = bytes(self.received[self._parsed_bytes :])
            self._parsed_bytes += len(data)
            self.executions += self._reader.receive_data(data)  # type: ignore[arg-type]
        return self.executions

    def finish_sending(self) -> None:
        self.socket.shutdown(socket.SHUT_WR)

    def abort(self) -> None:
        """Close with a reset: the peer learns of it at once."""
        with contextlib.suppress(OSError):
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0" + b"\0\0\0\0")
        self.close()

    def close(self) -> None:
        self.socket.close()
        self.ended = self.ended or "closed"


def pump(
    clients: Iterable[Client],
    done: Callable[[], bool],
    seconds: float = ANSWER_SECONDS_MAX,
    on_pass: Callable[[], None] | None = None,
) -> None:
    """Write what is queued and read what comes, until `done()`.

    Raises:
        AssertionError: it is not done within `seconds`.
    """
    deadline = time.monotonic() + seconds
    clients = list(clients)
    while True:
        if on_pass is not None:
            on_pass()
        if done():
            return
        waiting = [client for client in clients if not client.ended]
        left = deadline - time.monotonic()
        assert left > 0, [
            (len(client.received), len(client.outgoing), client.ended) for client in clients
        ]
        with selectors.DefaultSelector() as selector:
            for client in waiting:
                wanted = (selectors.EVENT_READ if client.reads else 0) | (
                    selectors.EVENT_WRITE if client.outgoing else 0
                )
                if wanted:
                    selector.register(client.socket, wanted, client)
            if not selector.get_map():
                time.sleep(min(left, 0.005))
                continue
            for key, events in selector.select(min(left, 0.05)):
                if events & selectors.EVENT_WRITE:
                    key.data.write_some()
                if events & selectors.EVENT_READ:
                    key.data.read_some()


def wait_until(condition: Callable[[], Any], seconds: float = ANSWER_SECONDS_MAX) -> Any:
    """Ask again and again until the answer is true; return it."""
    deadline = time.monotonic() + seconds
    while not (answer := condition()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)
    return answer


# --- what the log says


@dataclass
class LogView:
    """A log, replayed by the product's own replay; every check of the tests starts here.

    Given an earlier view of the same log, `commands` and `events` are only what came since, and
    the earlier events must be there unchanged.
    """

    result: ReplayResult
    event_bytes: bytes
    commands: list[Command]
    events: list[Event]

    @classmethod
    def of(cls, data_dir: Path, since: LogView | None = None) -> LogView:
        chunks: list[bytes] = []
        result = replay(data_dir, on_events=chunks.append)
        event_bytes = b"".join(chunks)
        known_bytes, known_records, known_events = 0, 0, 0
        if since is not None:
            known_bytes = len(since.event_bytes)
            known_records, known_events = since.result.last_wal_seq, since.result.events
            assert event_bytes.startswith(since.event_bytes), "the past has changed"
        records = itertools.islice(segment.log_records(data_dir), known_records, None)
        commands = [Command.unpack(record.command) for record in records]
        events = unpack_events(memoryview(event_bytes)[known_bytes:])
        view = cls(result, event_bytes, commands, events)
        view.check(known_records, known_events)
        return view

    def check(self, known_records: int = 0, known_events: int = 0) -> None:
        """No gap and no repeat, in the records or in the events; the book keeps its own rules."""
        self.result.engine.check()
        heads = [event.sequence for event in self.events if event.kind == EventKind.HEAD]
        numbered = [event.sequence for event in self.events if event.kind < EventKind.HEAD]
        assert heads == list(range(known_records + 1, self.result.last_wal_seq + 1))
        assert numbered == list(range(known_events + 1, self.result.events + 1))
        assert len(self.commands) == len(heads)

    def requests(self) -> dict[int, list[tuple[Any, ...]]]:
        """Orders and cancels by session, as a client would have packed them."""
        found: dict[int, list[tuple[Any, ...]]] = {}
        for command in self.commands:
            if command.kind in (CommandKind.NEW_ORDER, CommandKind.CANCEL):
                found.setdefault(command.session_id, []).append(request_key(command))
        return found

    def frames(self) -> dict[int, list[Execution]]:
        """The executions owed to each session, in order."""
        return frames_owed(self.events)


def request_key(request: NewOrder | Cancel | Command) -> tuple[Any, ...]:
    """What a request says, in a form in which sent and logged ones compare."""
    if isinstance(request, Cancel):
        return ("cancel", request.id)
    if isinstance(request, NewOrder):
        price = 0 if request.kind == OrderType.MARKET else request.price
        return ("new", request.id, request.side, request.qty, request.kind, price)
    if request.kind == CommandKind.CANCEL:
        return ("cancel", request.client_order_id)
    return (
        "new",
        request.client_order_id,
        request.side,
        request.qty_lots,
        request.order_type,
        request.price_ticks,
    )


WIRE_REASONS = {
    Reason.FILLED: 1,
    Reason.CANCELLED: 2,
    Reason.EXPIRED: 3,
    Reason.NO_LIQUIDITY: 4,
    Reason.OPERATOR_CANCELLED: 2,
    Reason.SESSION_ENDED: 2,
    Reason.REPLACED_TO_FILLED: 2,
}


def frames_owed(events: Iterable[Event]) -> dict[int, list[Execution]]:
    """Route events as docs/protocol.md says, in the plainest way; the gateway's slow twin."""
    owed: dict[int, list[Execution]] = {}
    taker_session = taker_id = taker_number = 0
    for event in events:
        if event.kind == EventKind.HEAD:
            taker_session = event.session_id
            taker_id = event.client_order_id
            taker_number = event.order_id
        elif event.kind == EventKind.ACCEPTED:
            accepted = Accepted(event.client_order_id, event.qty_lots, event.sequence)
            owed.setdefault(event.session_id, []).append(accepted)
        elif event.kind == EventKind.DONE:
            reason = WIRE_REASONS.get(Reason(event.reason), 5)
            done = Done(event.client_order_id, event.qty_lots, reason, event.sequence)
            owed.setdefault(event.session_id, []).append(done)
        else:
            what = (event.price_ticks, event.qty_lots, event.sequence)
            if event.session_id == taker_session:
                trade = Trade(taker_id, event.client_order_id, *what)
                owed.setdefault(taker_session, []).append(trade)
            else:
                owed.setdefault(taker_session, []).append(Trade(taker_id, event.order_id, *what))
                trade = Trade(taker_number, event.client_order_id, *what)
                owed.setdefault(event.session_id, []).append(trade)
    return owed


def packed(executions: Iterable[Execution]) -> bytes:
    return b"".join(execution.pack() for execution in executions)


# --- requests


class Orders:
    """Seeded random requests of one client: mostly sensible, with the edges among them."""

    def __init__(self, random: Any) -> None:
        self.random = random
        self.next_id = 1
        self.sent: list[NewOrder | Cancel] = []

    def next(self) -> NewOrder | Cancel:
        request = self._next()
        self.sent.append(request)
        return request

    def batch(self, count: int) -> bytes:
        return b"".join(self.next().pack() for _ in range(count))

    def _next(self) -> NewOrder | Cancel:
        random = self.random
        roll = random.random()
        if roll < 0.25 and self.next_id > 1:
            return Cancel(random.randrange(max(1, self.next_id - 40), self.next_id + 1))
        if roll < 0.27 and self.next_id > 1:
            order_id = random.randrange(max(1, self.next_id - 20), self.next_id)
        else:
            order_id = self.next_id
            self.next_id += 1
        kind = random.choices(list(OrderType), (60, 8, 14, 10, 8))[0]
        qty = random.randrange(1, 20)
        price = 100 + random.randrange(-6, 7)
        if roll > 0.99:
            qty = random.choice([0, 1, 2**32, 2**63, 2**64 - 1])
            price = random.choice([0, -1, 2**31, -(2**63), 2**63 - 1])
            kind = random.choice([OrderType.IOC, OrderType.FOK])
        return NewOrder(order_id, random.choice(list(Side)), qty, kind, price, self.next_id)


def sell(order_id: int, qty: int = 1, price: int = 100, kind: int = OrderType.LIMIT) -> NewOrder:
    return NewOrder(order_id, Side.SELL, qty, kind, price)


def buy(order_id: int, qty: int = 1, price: int = 100, kind: int = OrderType.LIMIT) -> NewOrder:
    return NewOrder(order_id, Side.BUY, qty, kind, price)


@contextlib.contextmanager
def one_daemon(**options: Any) -> Iterator[Daemon]:
    """Start a daemon in a directory of its own, and remove all of it afterwards."""
    base = scratch_directory()
    daemon = Daemon(base, **options)
    try:
        yield daemon.start()
    finally:
        daemon.close()
        shutil.rmtree(base, ignore_errors=True)
