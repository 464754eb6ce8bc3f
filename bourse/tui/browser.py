"""`bourse tui --web`: the same console in a browser of this machine.

    browser ──http, websocket──► Web (this process) ──pipes──► one bourse.tui.served a browser

It listens on the loopback address only, and every path begins with a random token, so that no other
user of the machine and no web page can reach it: anything else is answered with 403. The page loads
nothing from elsewhere. textual-serve (extra `web`) brings the terminal in JavaScript and the pipes.
"""

from __future__ import annotations

import asyncio
import secrets
import shlex
import signal
import socket
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web
from textual_serve.server import Server

from bourse.errors import UsageError
from bourse.tui.settings import Settings

HOST = "127.0.0.1"
TOKEN_BYTES = 24
CONSOLES_MAX = 8
"""Each is a process of some fifty MiB."""
END_SECONDS_MAX = 1.0
"""For a browser's goodbye, and again for a console's end."""
FORBIDDEN = "This console is for who started it: open the whole address that it printed.\n"
PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>bourse</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="static/css/xterm.css">
<style>
@font-face {
  font-family: "Roboto Mono";
  src: url("static/fonts/RobotoMono-VariableFont_wght.ttf");
}
html, body { margin: 0; height: 100%; background: #121212; overflow: hidden; }
#terminal { width: 100vw; height: 100vh; }
#ended { display: none; position: fixed; inset: 0; padding: 40vh 0; text-align: center;
  background: #121212e0; color: #d0d0d0; font: 16px "Roboto Mono", monospace; }
.-closed #ended { display: block; }
#ended a { color: inherit; }
</style>
<script src="static/js/textual.js"></script>
<script src="page.js"></script>
</head>
<body>
<div id="terminal" class="textual-terminal" data-font-size="FONT_SIZE"
  data-session-websocket-url="WEBSOCKET"></div>
<div id="ended">The console ended; the daemon did not. <a href="">Open it again</a></div>
</body>
</html>
"""
SCRIPT = """// Keys go to the console without a click; textual.js made it as the page was loaded.
addEventListener("load", () => document.querySelector(".xterm-helper-textarea")?.focus());
"""


class Web(Server):
    """Serve consoles to browsers that know the token.

    Obligations: whoever runs it calls `close()` before the loop ends.
    """

    def __init__(self, command: str, port: int, token: str) -> None:
        super().__init__(command, host=HOST, port=port, title="bourse")
        self._token = token
        self._consoles: dict[asyncio.Task[Any], web.Request] = {}

    @property
    def address(self) -> str:
        """What to open."""
        return f"http://{HOST}:{self.port}/{self._token}/"

    async def application(self) -> web.Application:
        """Return the routes, all of them below the token."""
        app = web.Application(middlewares=[self._guard])
        below = f"/{self._token}"
        app.add_routes(
            [
                web.get(f"{below}/", self.page),
                web.get(f"{below}/page.js", self.script),
                web.get(f"{below}/ws", self.handle_websocket),
                web.static(f"{below}/static", self.statics_path),
            ]
        )
        app.on_shutdown.append(self._end_consoles)
        return app

    @web.middleware
    async def _guard(
        self,
        request: web.Request,
        handler: Callable[[web.Request], Awaitable[web.StreamResponse]],
    ) -> web.StreamResponse:
        """Refuse who does not know the token, and names that lead here by somebody else's will."""
        given = request.path.removeprefix("/").partition("/")[0].encode(errors="replace")
        known = secrets.compare_digest(given, self._token.encode())
        if not known or request.host not in (f"{HOST}:{self.port}", f"localhost:{self.port}"):
            raise web.HTTPForbidden(text=FORBIDDEN)
        response = await handler(request)
        if not response.prepared:
            response.headers.update(
                {
                    "Cache-Control": "no-store",
                    "Referrer-Policy": "no-referrer",
                    "X-Content-Type-Options": "nosniff",
                    "Content-Security-Policy": "default-src 'none'; script-src 'self'; "
                    "style-src 'self' 'unsafe-inline'; font-src 'self'; img-src 'self' data:; "
                    f"connect-src 'self' ws://{request.host}; base-uri 'none'; "
                    "form-action 'none'; frame-ancestors 'none'",
                }
            )
        return response

    async def page(self, request: web.Request) -> web.Response:
        """Return the page with the terminal."""
        size = request.query.get("fontsize", "16")
        text = PAGE.replace("FONT_SIZE", size if size.isdecimal() else "16")
        text = text.replace("WEBSOCKET", f"ws://{request.host}/{self._token}/ws")
        return web.Response(text=text, content_type="text/html")

    async def script(self, request: web.Request) -> web.Response:
        """Return the page's own few words of JavaScript."""
        return web.Response(text=SCRIPT, content_type="text/javascript")

    async def handle_websocket(self, request: web.Request) -> web.WebSocketResponse:
        """Run a console for one browser, as long as it looks."""
        if len(self._consoles) >= CONSOLES_MAX:
            raise web.HTTPServiceUnavailable(text=f"{CONSOLES_MAX} consoles are open already.\n")
        task = asyncio.current_task()
        assert task is not None
        self._consoles[task] = request
        try:
            return await super().handle_websocket(request)
        finally:
            del self._consoles[task]

    async def _end_consoles(self, app: web.Application) -> None:
        for task in self._consoles:
            task.cancel()
        if self._consoles:
            await asyncio.wait(self._consoles, timeout=END_SECONDS_MAX)
        for request in self._consoles.values():
            if request.transport is not None:
                request.transport.abort()  # it would wait ten seconds for a browser that hangs
        if self._consoles:
            await asyncio.wait(self._consoles, timeout=END_SECONDS_MAX)


def command_of(admin_path: Path, settings: Settings, screen: str) -> str:
    """Return what a shell runs for each browser."""
    text = msgspec.json.encode(settings).decode()
    words = [sys.executable, "-m", "bourse.tui.served", str(admin_path), screen, text]
    return f"exec {shlex.join(words)}"


def serve(
    admin_path: Path, settings: Settings, screen: str, port: int, say: Callable[[str], None]
) -> int:
    """Serve until Ctrl-C or SIGTERM; return 0.

    Args:
        admin_path: the daemon's admin socket.
        settings: the operator's, read-only or not.
        screen: the screen to begin with.
        port: to listen on; 0 takes a free one.
        say: is told the address, once it answers.

    Raises:
        UsageError: the port is taken.
    """
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
    except OSError as error:
        listener.close()
        raise UsageError(f"--port {port} cannot be had: {error.strerror}") from None
    token = secrets.token_urlsafe(TOKEN_BYTES)
    server = Web(command_of(admin_path, settings, screen), listener.getsockname()[1], token)

    async def until_told() -> None:
        told = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, told.set)
        runner = web.AppRunner(
            await server.application(), access_log=None, shutdown_timeout=END_SECONDS_MAX
        )
        await runner.setup()
        try:
            await web.SockSite(runner, listener).start()
            say(server.address)
            await told.wait()
        finally:
            await runner.cleanup()

    asyncio.run(until_told())
    return 0
