"""Clients of the admin socket: one connection, a feed that reconnects for ever, and a blocking one.

    Client          asyncio, one connection: request() and frames(); ends when the connection ends
    Feed            asyncio, keeps a Client alive: yields Frame and Connection values for ever
    BlockingClient  plain socket, for commands: call() and frames()
    call()          one request on its own connection, for commands

Every result and every frame's data is the msgspec type that bourse.admin.messages names for it.
What goes wrong is a BourseError whose text says what happened and what to do: UnavailableError when
nobody answers, AdminError when the daemon refuses, ProtocolError when it is no daemon that answers.

The module imports neither Textual nor Rich: the commands and the console share it.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from bourse.admin.messages import (
    LINE_BYTES_MAX,
    PROTOCOL_VERSION,
    RESULTS,
    TOPIC_DATA,
    Frame,
    Hello,
    HelloParams,
    Reply,
    Struct,
    SubscribeParams,
    TopicParams,
)
from bourse.config import admin_flag, check_admin_path
from bourse.errors import AdminError, BourseError, ProtocolError, UnavailableError, UsageError

REQUEST_TIMEOUT_SECONDS = 5.0
SLOW_TIMEOUT_SECONDS = 120.0
"""For requests that take their time: a snapshot of a large book, a shutdown, a mass cancel."""
SLOW_METHODS = frozenset({"snapshot", "shutdown", "commit"})

BACKOFF_SECONDS_MIN = 0.25
BACKOFF_SECONDS_MAX = 1.0
SILENCE_SECONDS_MAX = 10.0
"""A feed that hears nothing for so long drops the connection and makes a new one."""

_decode_reply = msgspec.json.Decoder(Reply).decode
_encode = msgspec.json.Encoder().encode


class _RawFrame(msgspec.Struct):
    """A frame whose data is decoded once its topic is known."""

    topic: str
    number: int = 0
    skipped: int = 0
    data: msgspec.Raw = msgspec.Raw(b"null")


_decode_frame = msgspec.json.Decoder(_RawFrame).decode
_decode_topic: dict[str, Callable[[msgspec.Raw], Any]] = {
    topic: msgspec.json.Decoder(kind).decode for topic, kind in TOPIC_DATA.items()
}
_decode_result: dict[str, Callable[[msgspec.Raw], Any]] = {
    method: msgspec.json.Decoder(kind).decode for method, kind in RESULTS.items()
}


# --- what both kinds of client share: bytes to values, errors to sentences


def _line(method: str, params: Struct | None, request_id: int | None) -> bytes:
    """Encode one request; without an id it is a notification."""
    raw = msgspec.Raw(_encode(params)) if params is not None else msgspec.Raw(b"{}")
    body = {"jsonrpc": "2.0", "method": method, "params": raw}
    if request_id is not None:
        body["id"] = request_id  # type: ignore[assignment]
    line = _encode(body)
    if len(line) >= LINE_BYTES_MAX:
        raise UsageError(f"The request {method} is longer than {LINE_BYTES_MAX} bytes.")
    return line + b"\n"


def _reply(line: bytes, admin_path: Path) -> Reply:
    """Decode one line of the daemon."""
    try:
        return _decode_reply(line)
    except msgspec.DecodeError as error:
        raise _not_ours(admin_path, str(error)) from None


def _frame(reply: Reply, admin_path: Path) -> Frame | None:
    """Decode a frame; None for a notification or a topic that this version does not know."""
    if reply.method != "frame":
        return None
    try:
        raw = _decode_frame(reply.params)
        decode = _decode_topic.get(raw.topic)
        if decode is None:
            return None
        return Frame(raw.topic, raw.number, raw.skipped, decode(raw.data))
    except msgspec.DecodeError as error:
        raise _not_ours(admin_path, str(error)) from None


def _result(reply: Reply, method: str, admin_path: Path) -> Any:
    """Return the typed result of an answer, or raise what the daemon refused with."""
    if reply.error is not None:
        raise AdminError(reply.error.code, reply.error.message)
    try:
        return _decode_result[method](reply.result)
    except msgspec.DecodeError as error:
        raise _not_ours(admin_path, f"{method}: {error}") from None


def _check_hello(hello: Hello, admin_path: Path) -> Hello:
    """Refuse a daemon whose protocol is not ours."""
    if hello.protocol_version != PROTOCOL_VERSION:
        raise ProtocolError(
            f"The daemon at {admin_path} speaks admin protocol {hello.protocol_version}, this "
            f"program {PROTOCOL_VERSION}; use the bourse version that the daemon was started with."
        )
    return hello


def _hello_params(name: str, read_only: bool = False) -> HelloParams:
    return HelloParams([PROTOCOL_VERSION], name, read_only)


def _check_method(method: str) -> None:
    if method not in RESULTS:
        raise UsageError(f"There is no admin method {method!r}; known: {', '.join(RESULTS)}.")


def _check_path(admin_path: str | Path) -> Path:
    """Refuse a path that no Unix socket can have."""
    check_admin_path(str(admin_path))
    return Path(admin_path)


def _timeout_of(method: str, timeout: float | None) -> float:
    if timeout is not None:
        return timeout
    return SLOW_TIMEOUT_SECONDS if method in SLOW_METHODS else REQUEST_TIMEOUT_SECONDS


def _not_ours(admin_path: Path, found: str) -> ProtocolError:
    return ProtocolError(
        f"What answers at {admin_path} does not speak the admin protocol ({found}); "
        "check --admin, and that daemon and program are of one version."
    )


def _too_long(admin_path: Path) -> ProtocolError:
    return ProtocolError(
        f"What answers at {admin_path} sent a line of more than {LINE_BYTES_MAX} bytes; "
        "check --admin, and that daemon and program are of one version."
    )


def _gone(admin_path: Path) -> UnavailableError:
    return UnavailableError(
        f"The daemon at {admin_path} closed the connection; "
        f"see whether it still runs with: bourse daemon status{admin_flag(admin_path)}"
    )


def _silent(admin_path: Path, what: str, seconds: float) -> UnavailableError:
    return UnavailableError(
        f"The daemon at {admin_path} did not answer {what} within {seconds:g} s; "
        "it is stopped or overloaded. See its log, or start it again."
    )


def _unavailable(admin_path: Path, error: OSError) -> UnavailableError:
    """Say why nobody answers at the socket's path."""
    if isinstance(error, FileNotFoundError):
        return UnavailableError(
            f"No daemon answers at {admin_path}: there is no such socket. "
            f"Start one with: bourse daemon start{admin_flag(admin_path)} "
            "(or name another socket with --admin)"
        )
    if isinstance(error, ConnectionRefusedError):
        return UnavailableError(
            f"No daemon answers at {admin_path}: the socket is there, but nobody listens on it. "
            f"Start one with: bourse daemon start{admin_flag(admin_path)}"
        )
    if isinstance(error, PermissionError):
        return UnavailableError(
            f"The admin socket {admin_path} is not yours to open; "
            "become the user that started the daemon."
        )
    if isinstance(error, (ConnectionError, TimeoutError)):
        return _gone(admin_path)
    return UnavailableError(
        f"The admin socket {admin_path} cannot be opened: {error.strerror or error}."
    )


# --- asyncio


class Client:
    """One connection to a daemon. Made by `connect()`, ends with `close()` or when the daemon goes.

    Requests may overlap; answers are matched by id. Frames that arrive are kept, the latest of each
    topic, until `frames()` hands them over.
    """

    def __init__(
        self, admin_path: Path, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.admin_path = admin_path
        self.hello: Hello | None = None
        self.bytes_in = 0
        """Bytes received so far: what watching costs."""
        self._reader = reader
        self._writer = writer
        self._next_id = 1
        self._waiting: dict[int, tuple[str, asyncio.Future[Any]]] = {}
        self._frames: dict[str, Frame] = {}
        self._owed: dict[bool, list[str]] = {False: [], True: []}
        """Topics whose credit goes back: False in the loop's next round, True in the next beat."""
        self._news = asyncio.Event()
        self._failure: BourseError | None = None
        self._receiving = asyncio.create_task(self._receive(), name="bourse admin client")

    @classmethod
    async def connect(
        cls,
        admin_path: str | Path,
        name: str = "bourse",
        timeout: float = REQUEST_TIMEOUT_SECONDS,
        read_only: bool = False,
    ) -> Self:
        """Connect and say hello.

        Args:
            admin_path: the daemon's admin socket.
            name: what to call this client in the daemon's log.
            timeout: seconds for both steps together, each.
            read_only: have the daemon refuse what changes something.

        Raises:
            UnavailableError: nobody answers.
            ProtocolError: what answers is no daemon of this protocol version.
        """
        path = _check_path(admin_path)
        try:
            reader, writer = await asyncio.wait_for(
                asyncio.open_unix_connection(str(path), limit=LINE_BYTES_MAX), timeout
            )
        except TimeoutError:
            raise _silent(path, "a connection", timeout) from None
        except OSError as error:
            raise _unavailable(path, error) from None
        client = cls(path, reader, writer)
        try:
            hello = await client.request("hello", _hello_params(name, read_only), timeout)
            client.hello = _check_hello(hello, path)
        except BaseException:
            await client.close()
            raise
        return client

    async def request(
        self, method: str, params: Struct | None = None, timeout: float | None = None
    ) -> Any:
        """Ask and wait for the answer.

        Returns:
            The type that `messages.RESULTS[method]` names.

        Raises:
            AdminError: the daemon refused.
            UnavailableError: the connection ended, or no answer within `timeout` seconds.
        """
        _check_method(method)
        if self._failure is not None:
            raise self._failure
        request_id = self._next_id
        self._next_id += 1
        line = _line(method, params, request_id)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[request_id] = (method, answer)
        seconds = _timeout_of(method, timeout)
        try:
            async with asyncio.timeout(seconds):
                self._writer.write(line)
                await self._writer.drain()
                return await answer
        except TimeoutError:
            raise _silent(self.admin_path, method, seconds) from None
        except OSError as error:
            raise _unavailable(self.admin_path, error) from None
        finally:
            del self._waiting[request_id]

    async def subscribe(self, subscription: SubscribeParams) -> None:
        """Ask for frames of a topic; they come out of `frames()`."""
        await self.request("subscribe", subscription)

    async def unsubscribe(self, topic: str) -> None:
        """Ask for no more frames of a topic."""
        await self.request("unsubscribe", TopicParams(topic))
        self._frames.pop(topic, None)

    def credit(self, topic: str, delay_s: float = 0.0) -> None:
        """Let the daemon build the topic's next frame; `frames()` does it by itself.

        Credits of one moment go in one write, delayed ones when the first of them is due: what
        costs is to wake the daemon, not the bytes.
        """
        is_late = delay_s > 0
        owed = self._owed[is_late]
        if not owed:
            asyncio.get_running_loop().call_later(delay_s, self._pay, is_late)
        owed.append(topic)

    def _pay(self, is_late: bool) -> None:
        """Give the credits back that wait for this moment."""
        owed, self._owed[is_late] = self._owed[is_late], []
        if self._failure is None and not self._writer.is_closing():
            self._writer.write(b"".join(_line("credit", TopicParams(one), None) for one in owed))

    async def frames(
        self,
        silence_seconds_max: float | None = None,
        credit_delay: Callable[[Frame], float] | None = None,
    ) -> AsyncGenerator[Frame, None]:
        """Yield frames as they come; a frame's credit goes back once the caller is done with it.

        Args:
            silence_seconds_max: hear nothing for so long, and it ends.
            credit_delay: asked when the caller is done with a frame: how many seconds to wait
                before its credit goes back. So who finds nothing new in it pays less.

        Raises:
            UnavailableError: the connection ended, or nothing came for `silence_seconds_max`.
        """
        while True:
            while self._frames:
                topic = next(iter(self._frames))
                frame = self._frames.pop(topic)
                yield frame
                self.credit(topic, credit_delay(frame) if credit_delay else 0.0)
            if self._failure is not None:
                raise self._failure
            self._news.clear()
            try:
                async with asyncio.timeout(silence_seconds_max):
                    await self._news.wait()
            except TimeoutError:
                raise _silent(self.admin_path, "with a frame", silence_seconds_max or 0) from None

    async def close(self) -> None:
        """End the connection; requests still waiting fail with UnavailableError."""
        self._receiving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._receiving
        self._fail(_gone(self.admin_path))
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    async def _receive(self) -> None:
        """Sort what the daemon sends into answers and frames until it ends."""
        try:
            while line := await self._reader.readline():
                self.bytes_in += len(line)
                reply = _reply(line, self.admin_path)
                if reply.method:
                    frame = _frame(reply, self.admin_path)
                    if frame is not None:
                        self._frames[frame.topic] = frame
                        self._news.set()
                else:
                    self._answer(reply)
            self._fail(_gone(self.admin_path))
        except ValueError:  # readline: no newline within the limit
            self._fail(_too_long(self.admin_path))
        except OSError as error:
            self._fail(_unavailable(self.admin_path, error))
        except BourseError as error:
            self._fail(error)

    def _answer(self, reply: Reply) -> None:
        """Give an answer to whoever asked; one that nobody waits for any more is dropped."""
        waiting = self._waiting.get(reply.id) if isinstance(reply.id, int) else None
        if waiting is None:
            if reply.error is not None and reply.id is None:  # it could not read our request
                self._fail(AdminError(reply.error.code, reply.error.message))
            return
        method, answer = waiting
        if answer.done():
            return
        try:
            answer.set_result(_result(reply, method, self.admin_path))
        except BourseError as error:
            answer.set_exception(error)

    def _fail(self, failure: BourseError) -> None:
        """End everything that waits."""
        if self._failure is None:
            self._failure = failure
        for _, answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(self._failure)
        self._news.set()


class ConnectionState(Enum):
    """Where a feed stands."""

    CONNECTING = "connecting"
    """Nothing was reached yet."""
    CONNECTED = "connected"
    LOST = "lost"
    """It was connected or tried; it tries again after a moment."""


class Connection(Struct, frozen=True):
    """A feed's state changed."""

    state: ConnectionState
    sentence: str = ""
    """LOST: what happened and what to do."""
    hello: Hello | None = None
    """CONNECTED: who answered."""
    attempt: int = 0
    """Tries since data last came."""


class Feed:
    """A subscription that outlives the daemon: yields frames and connection changes for ever.

    Between two tries it waits 0.25 to 1 s with jitter; only data resets the wait, so that a daemon
    which accepts and dies is not hammered. `request()` uses the connection of the moment.
    """

    def __init__(
        self,
        admin_path: str | Path,
        subscriptions: Sequence[SubscribeParams],
        name: str = "bourse",
        silence_seconds_max: float = SILENCE_SECONDS_MAX,
        jitter: Callable[[], float] = random.random,
        read_only: bool = False,
    ) -> None:
        self.admin_path = _check_path(admin_path)
        self._subscriptions = {wish.topic: wish for wish in subscriptions}
        self._name = name
        self._silence_seconds_max = silence_seconds_max
        self._jitter = jitter
        self._read_only = read_only
        self._client: Client | None = None
        self._bytes_in_before = 0

    @property
    def bytes_in(self) -> int:
        """Bytes received over all connections."""
        return self._bytes_in_before + (self._client.bytes_in if self._client else 0)

    async def events(
        self, credit_delay: Callable[[Frame], float] | None = None
    ) -> AsyncGenerator[Frame | Connection, None]:
        """Yield what happens; close it (contextlib.aclosing) to end the connection.

        Args:
            credit_delay: see `Client.frames`.

        Raises:
            Nothing of its own: what goes wrong is a Connection in state LOST, and it tries again.
        """
        attempt = 0
        yield Connection(ConnectionState.CONNECTING)
        while True:
            try:
                client = await Client.connect(
                    self.admin_path, self._name, read_only=self._read_only
                )
                self._client = client
                for wish in list(self._subscriptions.values()):
                    await client.subscribe(wish)
                yield Connection(ConnectionState.CONNECTED, hello=client.hello)
                incoming = client.frames(self._silence_seconds_max, credit_delay)
                async with contextlib.aclosing(incoming) as frames:
                    async for frame in frames:
                        attempt = 0
                        yield frame
            except BourseError as error:
                sentence = str(error)
            finally:
                if self._client is not None:
                    closing, self._client = self._client, None
                    self._bytes_in_before += closing.bytes_in
                    await closing.close()
            attempt += 1
            yield Connection(ConnectionState.LOST, sentence, attempt=attempt)
            await asyncio.sleep(backoff_seconds(attempt, self._jitter()))

    async def request(
        self, method: str, params: Struct | None = None, timeout: float | None = None
    ) -> Any:
        """Ask the daemon over the feed's connection; see `Client.request`.

        Raises:
            UnavailableError: there is no connection at the moment.
        """
        if self._client is None or self._client.hello is None:
            raise UnavailableError(
                f"No daemon answers at {self.admin_path}; "
                "the request was not sent. Try again once it is back."
            )
        return await self._client.request(method, params, timeout)

    async def ask(self, wishes: Iterable[SubscribeParams]) -> None:
        """Change topics' rates and levels, now and for every later connection.

        Being lost is no error: the next connection asks for it.
        """
        for wish in wishes:
            if self._subscriptions.get(wish.topic) == wish:
                continue
            self._subscriptions[wish.topic] = wish
            if self._client is not None and self._client.hello is not None:
                with contextlib.suppress(BourseError):
                    await self._client.unsubscribe(wish.topic)
                    await self._client.subscribe(wish)


def backoff_seconds(attempt: int, jitter: float) -> float:
    """Return how long to wait before the next try.

    Args:
        attempt: tries since data last came, from 1; the wait doubles with each up to its maximum.
        jitter: 0.0 to 1.0; the wait is between three quarters and all of the doubled one, so that
            many consoles do not return at once.
    """
    full = min(BACKOFF_SECONDS_MAX, BACKOFF_SECONDS_MIN * (1 << min(attempt, 8)))
    return max(BACKOFF_SECONDS_MIN, full * (0.75 + 0.25 * jitter))


# --- plain sockets


class BlockingClient:
    """One connection for a command: a context manager with `call()` and `frames()`.

    with BlockingClient(admin_path) as client:
        status = client.call("status")
    """

    def __init__(
        self,
        admin_path: str | Path,
        name: str = "bourse",
        timeout: float = REQUEST_TIMEOUT_SECONDS,
    ) -> None:
        self.admin_path = _check_path(admin_path)
        self._next_id = 1
        self._buffer = bytearray()
        self._kept: list[Frame] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.settimeout(timeout)
            try:
                self._socket.connect(str(self.admin_path))
            except TimeoutError:
                raise _silent(self.admin_path, "a connection", timeout) from None
            except OSError as error:
                raise _unavailable(self.admin_path, error) from None
            hello = self.call("hello", _hello_params(name), timeout)
            self.hello: Hello = _check_hello(hello, self.admin_path)
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the connection."""
        self._socket.close()

    def call(self, method: str, params: Struct | None = None, timeout: float | None = None) -> Any:
        """Ask and wait for the answer; the type is the one that `messages.RESULTS[method]` names.

        Raises:
            AdminError: the daemon refused.
            UnavailableError: the connection ended, or no answer within `timeout` seconds.
        """
        _check_method(method)
        request_id = self._next_id
        self._next_id += 1
        seconds = _timeout_of(method, timeout)
        deadline = time.monotonic() + seconds
        self._send(_line(method, params, request_id))
        while True:
            reply = _reply(self._receive_line(method, seconds, deadline), self.admin_path)
            if reply.method:
                frame = _frame(reply, self.admin_path)
                if frame is not None:
                    self._kept.append(frame)
            elif reply.id in (request_id, None):
                return _result(reply, method, self.admin_path)

    def frames(
        self, *subscriptions: SubscribeParams, silence_seconds_max: float = SILENCE_SECONDS_MAX
    ) -> Iterator[Frame]:
        """Subscribe and yield frames; a frame's credit goes back once the caller is done with it.

        Raises:
            UnavailableError: the connection ended, or nothing came for `silence_seconds_max`.
        """
        for wish in subscriptions:
            self.call("subscribe", wish)
        while True:
            deadline = time.monotonic() + silence_seconds_max
            while not self._kept:
                line = self._receive_line("with a frame", silence_seconds_max, deadline)
                frame = _frame(_reply(line, self.admin_path), self.admin_path)
                if frame is not None:
                    self._kept.append(frame)
            frame = self._kept.pop(0)
            yield frame
            self._send(_line("credit", TopicParams(frame.topic), None))

    def _send(self, line: bytes) -> None:
        try:
            self._socket.sendall(line)
        except OSError as error:
            raise _unavailable(self.admin_path, error) from None

    def _receive_line(self, what: str, seconds: float, deadline: float) -> bytes:
        """Return the next line, without its newline."""
        while (end := self._buffer.find(b"\n")) < 0:
            if len(self._buffer) > LINE_BYTES_MAX:
                raise _too_long(self.admin_path)
            left = deadline - time.monotonic()
            if left <= 0:
                raise _silent(self.admin_path, what, seconds)
            self._socket.settimeout(left)
            try:
                chunk = self._socket.recv(65_536)
            except TimeoutError:
                raise _silent(self.admin_path, what, seconds) from None
            except OSError as error:
                raise _unavailable(self.admin_path, error) from None
            if not chunk:
                raise _gone(self.admin_path)
            self._buffer += chunk
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return line


def call(
    admin_path: str | Path,
    method: str,
    params: Struct | None = None,
    timeout: float | None = None,
    name: str = "bourse",
) -> Any:
    """Ask one question on its own connection.

    Args:
        admin_path: the daemon's admin socket.
        method: a key of `messages.RESULTS`; the result has the type named there.
        params: the type that `messages.PARAMS` names, or None where it is Empty.
        timeout: seconds for the answer; None means 5, or 120 for requests that write files.
        name: what to call this client in the daemon's log.

    Raises:
        UnavailableError: no daemon answers (its text says what to do).
        AdminError: the daemon refused; its text is the daemon's.
        ProtocolError: what answers is no daemon of this protocol version.
    """
    with BlockingClient(admin_path, name) as client:
        return client.call(method, params, timeout)
