"""The admin socket: JSON-RPC over a Unix socket, on the gateway's loop and never on its hot path.

The protocol and its types are bourse/admin/messages.py. This module owns the socket file and the
connections; what the answers are made of is views.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import stat
import struct
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import msgspec

from bourse import __version__
from bourse.admin import messages
from bourse.admin.messages import ErrorCode
from bourse.config import admin_flag
from bourse.daemon.clock import mono_ns
from bourse.errors import AdminError, OwnershipError, UsageError

CONNECTIONS_MAX = 64
"""Consoles and scripts at once; each costs a task and at most a line of memory."""

_UCRED = struct.Struct("iII")
_request_decoder = msgspec.json.Decoder(messages.Request)
_encoder = msgspec.json.Encoder()

caller: ContextVar[str] = ContextVar("caller", default="a client")
"""Who asks, as the log has it; each connection has its own task, and so its own value."""

Handler = Callable[[Any], Awaitable[Any]]
Builder = Callable[["Subscription"], Awaitable[Any]]


def bind_admin_socket(path: Path) -> socket.socket:
    """Create the socket file with mode 0600 and return the bound, listening socket.

    A dead daemon's socket is replaced. A live one's, a symbolic link, another kind of file or
    another user's socket is refused.

    Raises:
        OwnershipError: a daemon answers there.
        UsageError: something else is in the way.
    """
    try:
        found = path.lstat()
    except FileNotFoundError:
        pass
    else:
        if not stat.S_ISSOCK(found.st_mode):
            raise UsageError(
                f"{path} is in the way of the admin socket; move it or name another with --admin"
            )
        if found.st_uid != os.geteuid():
            raise UsageError(f"{path} belongs to another user; name another socket with --admin")
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(1.0)
            try:
                probe.connect(str(path))
            except (ConnectionRefusedError, FileNotFoundError):
                pass
            except OSError as error:
                raise UsageError(
                    f"{path} cannot be probed ({error.strerror}); name another with --admin"
                ) from error
            else:
                raise OwnershipError(
                    f"a daemon answers at {path}; "
                    f"stop it with: bourse daemon stop{admin_flag(path)}"
                )
        path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    umask = os.umask(0o177)
    try:
        listener.bind(str(path))
        listener.listen(16)
    except OSError as error:
        listener.close()
        raise UsageError(f"cannot create the admin socket {path}: {error.strerror}") from error
    finally:
        os.umask(umask)
    listener.setblocking(False)
    return listener


def _peer(writer: asyncio.StreamWriter) -> tuple[int, int]:
    """Return the peer's process and user."""
    pid, uid, _ = _UCRED.unpack(
        writer.get_extra_info("socket").getsockopt(
            socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size
        )
    )
    return pid, uid


class Subscription:
    """One topic of one connection: its credit, its rate, its task."""

    def __init__(self, params: messages.SubscribeParams) -> None:
        self.topic = params.topic
        self.period_s = 1.0 / min(max(params.max_hz, 0.1), 20.0)
        self.levels = min(max(params.levels, 1), messages.DEPTH_LEVELS_MAX)
        self.credit = asyncio.Event()
        self.credit.set()
        self.task: asyncio.Task[None] | None = None
        self.after_sequence = 0
        """Topic trades: the last trade that was sent."""
        self.after_number = 0
        """Topic log: the last line that was sent."""


class AdminServer:
    """Serve the admin protocol; `handlers` and `builders` come from views.Views."""

    def __init__(
        self,
        listener: socket.socket,
        path: Path,
        instance: str,
        handlers: dict[str, Handler],
        builders: dict[str, Builder],
        log: logging.Logger,
    ) -> None:
        self._listener = listener
        self._path = path
        self._inode = path.lstat().st_ino
        self._instance = instance
        self._handlers = handlers
        self._builders = builders
        self._log = log
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Answer from now on."""
        self._server = await asyncio.start_unix_server(
            self._accept, sock=self._listener, limit=messages.LINE_BYTES_MAX
        )

    async def stop(self) -> None:
        """Close every connection and remove the socket file, if it is still ours."""
        if self._server is not None:
            self._server.close()
        for task in list(self._connections):
            task.cancel()
        if self._connections:
            await asyncio.wait(self._connections, timeout=1.0)
        self.unlink()

    def unlink(self) -> None:
        """Remove the socket file, if it is still ours."""
        with contextlib.suppress(OSError):
            if self._path.lstat().st_ino == self._inode:
                self._path.unlink()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        refusal = self._refusal(writer)
        if refusal:
            self._log.warning("admin connection refused: %s", refusal)
            writer.close()
            return
        self._connections.add(task)
        connection = Connection(self, reader, writer)
        try:
            await connection.serve()
        except (ConnectionError, asyncio.CancelledError):
            pass
        except Exception:
            # A bug, but a console's: it costs this connection, not the exchange.
            self._log.exception("an admin connection ends: it failed")
        finally:
            connection.close()
            self._connections.discard(task)

    def _refusal(self, writer: asyncio.StreamWriter) -> str:
        """Say why a connection may not be served; empty if it may."""
        _, uid = _peer(writer)
        if uid not in (0, os.geteuid()):
            return f"user {uid} is not this daemon's user"
        if len(self._connections) >= CONNECTIONS_MAX:
            return f"{CONNECTIONS_MAX} are open"
        return ""

    async def answer(self, method: str, params: msgspec.Raw) -> Any:
        """Run one method; raises AdminError with a code for the peer."""
        handler = self._handlers.get(method)
        if handler is None:
            raise AdminError(ErrorCode.METHOD_NOT_FOUND, f"no method {method!r}")
        return await handler(decode_params(method, params))

    def hello(self, params: messages.HelloParams) -> messages.Hello:
        """Agree on a version.

        Raises:
            AdminError: no common version.
        """
        if messages.PROTOCOL_VERSION not in params.protocol_versions:
            raise AdminError(
                ErrorCode.VERSION,
                f"this daemon (bourse {__version__}) speaks admin protocol "
                f"{messages.PROTOCOL_VERSION}, the client {params.protocol_versions}; "
                "use the bourse command of the same release",
            )
        return messages.Hello(
            protocol_version=messages.PROTOCOL_VERSION,
            build=__version__,
            instance=self._instance,
            pid=os.getpid(),
            mono_ns=mono_ns(),
        )

    async def build(self, subscription: Subscription) -> Any:
        """Make the data of a topic's next frame."""
        return await self._builders[subscription.topic](subscription)

    @property
    def log(self) -> logging.Logger:
        """Where connections report."""
        return self._log


class Connection:
    """One admin client: reads lines, answers in order, runs its subscriptions."""

    def __init__(
        self, server: AdminServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._server = server
        self._reader = reader
        self._writer = writer
        self._pid, _ = _peer(writer)
        self._greeted = False
        self._read_only = False
        self._subscriptions: dict[str, Subscription] = {}

    async def serve(self) -> None:
        """Answer until the client goes, or breaks the protocol."""
        while True:
            try:
                line = await self._reader.readuntil(b"\n")
            except asyncio.IncompleteReadError:
                return
            except asyncio.LimitOverrunError:
                await self._error(
                    None, ErrorCode.PARSE, f"a line is longer than {messages.LINE_BYTES_MAX} bytes"
                )
                return
            if line.strip():
                await self._serve_line(line)

    async def _serve_line(self, line: bytes) -> None:
        try:
            request = _request_decoder.decode(line)
        except msgspec.ValidationError as error:
            await self._error(None, ErrorCode.INVALID_REQUEST, str(error))
            return
        except (msgspec.DecodeError, RecursionError) as error:
            await self._error(None, ErrorCode.PARSE, str(error))
            return
        try:
            result = await self._run(request)
        except AdminError as error:
            if request.id is not None:
                await self._error(request.id, error.code, str(error))
        except Exception:
            self._server.log.exception("admin method %s failed", request.method)
            if request.id is None:
                return
            await self._error(
                request.id,
                ErrorCode.INTERNAL,
                f"{request.method} failed; the daemon's log says why",
            )
        else:
            if request.id is not None:
                await self._write({"jsonrpc": "2.0", "id": request.id, "result": result})

    async def _run(self, request: messages.Request) -> Any:
        if request.method == "hello":
            params = decode_params("hello", request.params)
            reply = self._server.hello(params)
            self._greeted = True
            self._read_only = params.read_only
            caller.set(f"{params.client or 'a client'} (pid {self._pid})")
            return reply
        if not self._greeted:
            raise AdminError(ErrorCode.HELLO_FIRST, "say hello first")
        if request.method == "subscribe":
            return self._subscribe(decode_params("subscribe", request.params))
        if request.method == "unsubscribe":
            self._unsubscribe(decode_params("unsubscribe", request.params).topic)
            return messages.Empty()
        if request.method == "credit":
            subscription = self._subscriptions.get(decode_params("credit", request.params).topic)
            if subscription is not None:
                subscription.credit.set()
            return messages.Empty()
        if self._read_only and request.method in messages.CHANGES:
            raise AdminError(
                ErrorCode.REFUSED,
                f"{request.method} is refused: this connection said that it is read-only",
            )
        return await self._server.answer(request.method, request.params)

    def _subscribe(self, params: messages.SubscribeParams) -> messages.Empty:
        if params.topic not in messages.TOPICS:
            raise AdminError(
                ErrorCode.INVALID_PARAMS,
                f"no topic {params.topic!r}; there are {', '.join(messages.TOPICS)}",
            )
        self._unsubscribe(params.topic)
        subscription = Subscription(params)
        self._subscriptions[params.topic] = subscription
        subscription.task = asyncio.create_task(self._feed(subscription))
        return messages.Empty()

    def _unsubscribe(self, topic: str) -> None:
        subscription = self._subscriptions.pop(topic, None)
        if subscription is not None and subscription.task is not None:
            subscription.task.cancel()

    async def _feed(self, subscription: Subscription) -> None:
        """Send frames: one outstanding, the latest values, at most one a period."""
        loop = asyncio.get_running_loop()
        due_s = loop.time()
        number = 0
        while True:
            await subscription.credit.wait()
            late_s = loop.time() - due_s
            if late_s < 0:
                await asyncio.sleep(-late_s)
                late_s = 0.0
            subscription.credit.clear()
            number += 1
            try:
                data = await self._server.build(subscription)
                await self._write(
                    {
                        "jsonrpc": "2.0",
                        "method": "frame",
                        "params": messages.Frame(
                            topic=subscription.topic,
                            number=number,
                            skipped=int(late_s / subscription.period_s) if number > 1 else 0,
                            data=data,
                        ),
                    }
                )
            except ConnectionError:
                return
            except AdminError as error:
                if error.code != ErrorCode.SHUTTING_DOWN:
                    self._server.log.warning("topic %s ends: %s", subscription.topic, error)
                return
            except Exception:
                self._server.log.exception("topic %s ends: it failed", subscription.topic)
                return
            due_s = loop.time() + subscription.period_s

    async def _error(self, request_id: int | str | None, code: int, message: str) -> None:
        body = messages.ErrorBody(code=code, message=message)
        await self._write({"jsonrpc": "2.0", "id": request_id, "error": body})

    async def _write(self, message: dict[str, Any]) -> None:
        if self._writer.is_closing():
            # The loop learns of it before this connection's task does; a write would be a bug.
            raise ConnectionResetError("the client is gone")
        self._writer.write(_encoder.encode(message) + b"\n")
        await self._writer.drain()

    def close(self) -> None:
        """End the subscriptions and the connection."""
        for topic in list(self._subscriptions):
            self._unsubscribe(topic)
        self._writer.close()


def decode_params(method: str, raw: msgspec.Raw) -> Any:
    """Read a method's parameters as their type.

    Raises:
        AdminError: they do not fit.
    """
    kind = messages.PARAMS.get(method)
    if kind is None:
        raise AdminError(ErrorCode.METHOD_NOT_FOUND, f"no method {method!r}")
    try:
        return msgspec.json.decode(raw or b"{}", type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise AdminError(ErrorCode.INVALID_PARAMS, f"{method}: {error}") from error
