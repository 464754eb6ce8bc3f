"""The console in a browser: who gets it, what he sees, and how it ends.

Plain HTTP and websocket requests first; then a headless Chromium, skipped where there is none.
"""

import asyncio
import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from bourse import cli, tui
from bourse.admin.launch import DaemonProcess

SECONDS_MAX = 20.0


class Served:
    """A running `bourse tui --web`."""

    def __init__(self, admin: Path, *flags: str) -> None:
        words = ["-m", "bourse", "tui", "--web", "--admin", str(admin), *flags]
        self.process = subprocess.Popen(
            [sys.executable, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={name: text for name, text in os.environ.items() if name != "NO_COLOR"},
        )
        assert self.process.stdout is not None
        found = re.search(r"http://127\.0\.0\.1:(\d+)/([\w-]+)/", self.process.stdout.readline())
        assert found
        self.address = found[0]
        self.port = int(found[1])
        self.outside = f"http://127.0.0.1:{self.port}"

    def consoles(self) -> list[int]:
        """Return the processes that it runs."""
        pid = self.process.pid
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def close(self) -> int:
        self.process.send_signal(signal.SIGINT)
        try:
            return self.process.wait(10)
        finally:
            self.process.kill()
            self.process.communicate()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    running = Served(tmp_path / "nobody.sock", "--read-only", "--screen", "book")
    try:
        yield running
    finally:
        running.close()


@contextlib.asynccontextmanager
async def looking(served: Served) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    """Look at a console as a browser does."""
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{served.address}ws?width=80&height=24") as websocket,
    ):
        yield websocket


async def read_until(websocket: aiohttp.ClientWebSocketResponse, word: str) -> str:
    """Return what the console draws, up to a word."""
    got = ""
    async with asyncio.timeout(SECONDS_MAX):
        async for message in websocket:
            if message.type is aiohttp.WSMsgType.BINARY:
                got += message.data.decode()
            if word in got:
                break
    assert word in got
    return got


def wait_for(condition: Callable[[], Any], seconds: float = 5.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def runs(pid: int) -> bool:
    """Say whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_only_the_whole_address_opens_it(served: Served) -> None:
    wrong = served.address[:-2] + ("A" if served.address[-2] != "A" else "B") + "/"

    async def scenario() -> None:
        async with aiohttp.ClientSession() as session:
            for address in (
                f"{served.outside}/",
                f"{served.outside}/ws",
                f"{served.outside}/static/js/textual.js",
                f"{served.outside}/%ff",
                wrong,
                f"{wrong}ws",
            ):
                async with session.get(address) as answer:
                    assert answer.status == 403, address
            with pytest.raises(aiohttp.WSServerHandshakeError, match="403"):
                await session.ws_connect(f"{wrong}ws")
            # A name of somebody else's that leads to this machine.
            async with session.get(served.address, headers={"Host": "evil.example"}) as answer:
                assert answer.status == 403

            async with session.get(served.address) as answer:
                assert answer.status == 200
                page = await answer.text()
                policy = answer.headers["Content-Security-Policy"]
                assert answer.headers["Referrer-Policy"] == "no-referrer"
            for path in ("page.js", "static/js/textual.js", "static/css/xterm.css"):
                async with session.get(served.address + path) as answer:
                    assert answer.status == 200
        # It loads from nowhere else, and may not.
        assert set(re.findall(r"[a-z]+://[^/\"']+", page)) == {f"ws://127.0.0.1:{served.port}"}
        assert policy.startswith("default-src 'none'")
        assert not served.consoles()

    asyncio.run(scenario())


def test_it_listens_to_this_machine_alone(served: Served) -> None:
    table = Path("/proc/net/tcp").read_text().splitlines()[1:]
    listening = {line.split()[1] for line in table if line.split()[3] == "0A"}

    assert [one for one in listening if one.endswith(f":{served.port:04X}")] == [
        f"0100007F:{served.port:04X}"
    ]


def test_a_browser_sees_the_console_presses_keys_and_leaves(served: Served) -> None:
    async def scenario() -> None:
        async with looking(served) as websocket:
            first = await read_until(websocket, "Quit")
            assert "READ-ONLY" in first
            assert "BOOK" in first
            await websocket.send_json(["stdin", "7"])
            await read_until(websocket, "LOG")
            await websocket.send_json(["resize", {"width": 50, "height": 10}])
            await read_until(websocket, "60×16 needed, have 50×10")
            (console,) = served.consoles()
            await websocket.send_json(["stdin", "q"])
            async with asyncio.timeout(SECONDS_MAX):
                async for _ in websocket:  # ends with the console
                    pass
        wait_for(lambda: not runs(console))
        assert served.process.poll() is None

    asyncio.run(scenario())


def test_ctrl_c_ends_it_and_every_console(served: Served) -> None:
    async def scenario() -> None:
        async with looking(served) as one, looking(served) as other:
            await read_until(one, "Quit")
            await read_until(other, "Quit")
            consoles = served.consoles()
            assert len(consoles) == 2
            began_s = time.monotonic()
            served.process.send_signal(signal.SIGINT)
            assert await asyncio.to_thread(served.process.wait, 10) == 0
            assert time.monotonic() - began_s < 5  # though neither browser says goodbye
            for console in consoles:
                assert not runs(console)

    asyncio.run(scenario())
    assert served.process.stderr is not None
    assert served.process.stderr.read() == ""


def test_a_console_does_not_outlive_its_server(served: Served) -> None:
    async def scenario() -> None:
        async with looking(served) as websocket:
            await read_until(websocket, "Quit")
            (console,) = served.consoles()
            served.process.kill()
            await asyncio.to_thread(wait_for, lambda: not runs(console))

    asyncio.run(scenario())


def test_a_port_that_is_taken_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        nobody = ["tui", "--admin", str(tmp_path / "none.sock")]

        assert cli.run([*nobody, "--web", "--port", port]) == 2
        assert f"--port {port} cannot be had" in capsys.readouterr().err

        assert cli.run([*nobody, "--web", "--render", "80x24", "--out", "-"]) == 2
        assert "two different things" in capsys.readouterr().err


def test_without_the_extra_it_says_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "bourse.tui.browser", raising=False)
    monkeypatch.delattr(tui, "browser", raising=False)
    monkeypatch.setitem(sys.modules, "textual_serve.server", None)

    assert cli.run(["tui", "--admin", str(tmp_path / "none.sock"), "--web"]) == 2
    assert "bourse-exchange[web]" in capsys.readouterr().err


# --- a browser

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "google-chrome"))), None
)


class Browser:
    """A page of a headless Chromium, driven through its debugging protocol."""

    def __init__(self, websocket: aiohttp.ClientWebSocketResponse) -> None:
        self._websocket = websocket
        self._number = 0
        self.events: list[dict[str, Any]] = []

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        await self._websocket.send_json(
            {"id": self._number, "method": method, "params": parameters}
        )
        while True:
            message = await self._websocket.receive_json(timeout=SECONDS_MAX)
            if message.get("id") == self._number:
                assert "error" not in message, message
                result: dict[str, Any] = message["result"]
                return result
            self.events.append(message)

    async def value(self, expression: str) -> Any:
        found = await self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        return found["result"].get("value")

    async def until(self, expression: str) -> Any:
        async with asyncio.timeout(SECONDS_MAX):
            while not (found := await self.value(expression)):
                await asyncio.sleep(0.05)
        return found


@contextlib.asynccontextmanager
async def opened(address: str, home: Path) -> AsyncIterator[Browser]:
    """Open an address in a new Chromium."""
    assert CHROMIUM is not None
    process = await asyncio.create_subprocess_exec(
        *(CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
        *("--remote-debugging-port=0", f"--user-data-dir={home}", "--window-size=1200,760"),
        *("--no-first-run", "--disable-background-networking", "about:blank"),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(SECONDS_MAX):
            while not (home / "DevToolsActivePort").exists():
                await asyncio.sleep(0.05)
        port = (home / "DevToolsActivePort").read_text().split()[0]
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/json/list") as answer:
                pages = [one for one in await answer.json() if one["type"] == "page"]
            async with session.ws_connect(
                pages[0]["webSocketDebuggerUrl"], max_msg_size=0
            ) as websocket:
                browser = Browser(websocket)
                await browser.call("Page.enable")
                await browser.call("Network.enable")
                await browser.call("Page.addScriptToEvaluateOnNewDocument", source=SPY)
                await browser.call("Page.navigate", url=address)
                yield browser
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


SPY = """
window.drawn = "";
const Real = WebSocket;
window.WebSocket = class extends Real {
  constructor(...words) {
    super(...words);
    this.addEventListener("message", event => {
      if (typeof event.data !== "string") drawn += new TextDecoder().decode(event.data);
    });
  }
};
"""
"""What the terminal is given to draw; it draws on a canvas, where there is no text to read."""


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium: the console was not seen in a browser")
def test_chromium_shows_a_daemons_console(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    home = tmp_path_factory.mktemp("d")
    arguments = ["--data", str(home / "data"), "--admin", str(home / "a.sock")]
    arguments += ["--listen", "127.0.0.1:0", "--poll", "block", "--durability", "memory"]

    async def scenario(served: Served) -> None:
        async with opened(served.address, tmp_path / "browser") as browser:
            await browser.until("drawn.includes('LIVE') && drawn.includes('Quit')")
            assert await browser.value("!!document.querySelector('.xterm-screen canvas')")
            # Keys arrive without a click, and the page is not one colour.
            await browser.value("drawn = ''")
            await browser.call("Input.insertText", text="7")
            await browser.until("drawn.includes('ready: ')")
            await browser.until("document.activeElement.className == 'xterm-helper-textarea'")
            picture = await browser.call("Page.captureScreenshot", format="png")
            assert len(picture["data"]) > 10_000
            hosts = {
                event["params"]["request"]["url"].split("/")[2]
                for event in browser.events
                if event["method"] == "Network.requestWillBeSent"
                and event["params"]["request"]["url"].startswith("http")
            }
            assert hosts == {f"127.0.0.1:{served.port}"}

            await browser.call("Input.insertText", text="q")
            await browser.until("document.body.classList.contains('-closed')")
            ended = await browser.value("document.getElementById('ended').innerText")
            assert "the daemon did not" in ended

    with DaemonProcess(arguments, home / "daemon.err") as daemon:
        served = Served(home / "a.sock")
        try:
            asyncio.run(scenario(served))
        finally:
            assert served.close() == 0
        assert daemon.is_running
