"""An admin server for tests: says hello, answers from a table, sends frames for credit."""

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

import msgspec

from bourse.admin import messages
from bourse.admin.messages import Hello

AUTO_SECONDS = 0.05


class FakeDaemon:
    """Serve `results` by method and `topics` by topic; `script` keys change its manners.

    manners: "mute" never answers, "rude" answers with garbage, "long" with an endless line,
    "old" says hello in protocol version 99, "hang_up" closes after hello.
    """

    def __init__(self, path: Path, manners: str = "") -> None:
        self.path = path
        self.manners = manners
        self.results: dict[str, Any] = {}
        self.topics: dict[str, Any] = {}
        self.requests: list[dict[str, Any]] = []
        self.credits: dict[str, int] = {}
        self.writers: dict[asyncio.StreamWriter, set[str]] = {}
        self.numbers: dict[str, int] = {}
        self.auto = False
        """Send a new frame a moment after each credit, as the real one does."""
        self.connections = 0
        self._server: asyncio.Server | None = None
        self._asked: dict[str, asyncio.Event] = {}

    async def asked(self, method: str) -> None:
        """Wait until a request with this method has come."""
        await self._asked.setdefault(method, asyncio.Event()).wait()

    async def start(self) -> None:
        self.path.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(self._serve, str(self.path))

    async def stop(self) -> None:
        """Go away as a killed daemon does: connections end, the socket file stays."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
        for writer in list(self.writers):
            writer.close()
        await asyncio.sleep(0)

    async def __aenter__(self) -> "FakeDaemon":
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def send(self, topic: str) -> None:
        """Send one frame of the topic's current value to each subscriber that has credit."""
        for writer, topics in self.writers.items():
            if topic in topics and self.credits.get(topic, 0) > 0:
                self.credits[topic] -= 1
                self.numbers[topic] = self.numbers.get(topic, 0) + 1
                frame = messages.Frame(topic, self.numbers[topic], 0, self.topics[topic])
                self._write(writer, {"method": "frame", "params": frame})

    def _write(self, writer: asyncio.StreamWriter, message: dict[str, Any]) -> None:
        if not writer.is_closing():
            writer.write(msgspec.json.encode({"jsonrpc": "2.0", **message}) + b"\n")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.writers[writer] = set()
        try:
            while line := await reader.readline():
                self._take(json.loads(line), writer)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            del self.writers[writer]
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    def _take(self, request: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        self.requests.append(request)
        self._asked.setdefault(request["method"], asyncio.Event()).set()
        if self.manners == "mute":
            return
        if self.manners == "rude":
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            return
        if self.manners == "long":
            writer.write(b"x" * (messages.LINE_BYTES_MAX + 10))
            return
        method, params, request_id = request["method"], request["params"], request.get("id")
        if method == "credit":
            self.credits[params["topic"]] = self.credits.get(params["topic"], 0) + 1
            if self.auto:
                asyncio.get_running_loop().call_later(AUTO_SECONDS, self.send, params["topic"])
            return
        if method == "hello":
            version = 99 if self.manners == "old" else 1
            result: Any = Hello(version, "0.0-test", "default", 4711, 0)
        elif method == "subscribe":
            self.writers[writer].add(params["topic"])
            self.credits[params["topic"]] = 1
            result = messages.Empty()
        elif method == "unsubscribe":
            self.writers[writer].discard(params["topic"])
            result = messages.Empty()
        elif isinstance(self.results.get(method), messages.ErrorBody):
            self._write(writer, {"id": request_id, "error": self.results[method]})
            return
        else:
            result = self.results[method]
        self._write(writer, {"id": request_id, "result": result})
        if method == "hello" and self.manners == "hang_up":
            writer.close()
        if method == "subscribe" and self.auto:
            self.send(params["topic"])
