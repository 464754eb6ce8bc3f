"""The clients of the admin socket, against an admin server that can be told to misbehave."""

import asyncio
import contextlib
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from bourse.admin.client import (
    BACKOFF_SECONDS_MAX,
    BACKOFF_SECONDS_MIN,
    BlockingClient,
    Client,
    Connection,
    ConnectionState,
    Feed,
    backoff_seconds,
    call,
)
from bourse.admin.messages import (
    Depth,
    DepthParams,
    ErrorBody,
    ErrorCode,
    Frame,
    Status,
    SubscribeParams,
)
from bourse.errors import AdminError, ProtocolError, UnavailableError, UsageError
from tests.admin import samples
from tests.admin.fake_daemon import FakeDaemon


@pytest.fixture
def admin_path(tmp_path: Path) -> Path:
    return tmp_path / "bourse.sock"


@contextlib.asynccontextmanager
async def connected(path: Path) -> AsyncIterator[Client]:
    client = await Client.connect(path, "test", 2.0)
    try:
        yield client
    finally:
        await client.close()


def test_hello_comes_first_and_results_are_typed(admin_path: Path) -> None:
    async def scenario() -> None:
        async with FakeDaemon(admin_path) as daemon:
            daemon.results["status"] = samples.status()
            async with connected(admin_path) as client:
                answer = await client.request("status")

                assert client.hello is not None
                assert client.hello.pid == 4711
                assert answer == samples.status()
                assert isinstance(answer, Status)
                assert [request["method"] for request in daemon.requests] == ["hello", "status"]
                assert daemon.requests[0]["params"] == {
                    "protocol_versions": [1],
                    "client": "test",
                    "read_only": False,
                }

    asyncio.run(scenario())


def test_overlapping_requests_get_their_own_answers(admin_path: Path) -> None:
    async def scenario() -> None:
        async with FakeDaemon(admin_path) as daemon:
            daemon.results.update(status=samples.status(), depth=samples.depth())
            async with connected(admin_path) as client:
                depth, status = await asyncio.gather(
                    client.request("depth", DepthParams(3)), client.request("status")
                )

                assert isinstance(depth, Depth)
                assert isinstance(status, Status)

    asyncio.run(scenario())


def test_credit_returns_only_after_the_frame_was_handed_over(admin_path: Path) -> None:
    async def scenario() -> None:
        async with FakeDaemon(admin_path) as daemon:
            daemon.topics["status"] = samples.status()
            async with connected(admin_path) as client:
                await client.subscribe(SubscribeParams("status", 5))
                daemon.send("status")
                async with contextlib.aclosing(client.frames(2.0)) as frames:
                    frame = await anext(frames)
                    await client.request("subscribe", SubscribeParams("wal"))  # a round trip
                    assert frame.data == samples.status()
                    assert daemon.credits["status"] == 0

                    daemon.topics["wal"] = samples.wal()
                    daemon.send("wal")
                    await anext(frames)
                    await client.request("subscribe", SubscribeParams("depth"))

                    assert daemon.credits["status"] == 1

    asyncio.run(scenario())


def test_a_refusal_is_an_admin_error_with_the_daemons_words(admin_path: Path) -> None:
    async def scenario() -> None:
        async with FakeDaemon(admin_path) as daemon:
            daemon.results["snapshot"] = ErrorBody(ErrorCode.BUSY, "One is being written.")
            async with connected(admin_path) as client:
                with pytest.raises(AdminError, match=r"One is being written\.") as caught:
                    await client.request("snapshot")

                assert caught.value.code == ErrorCode.BUSY

    asyncio.run(scenario())


def test_waiting_requests_fail_when_the_daemon_goes(admin_path: Path) -> None:
    async def scenario() -> None:
        daemon = FakeDaemon(admin_path)
        await daemon.start()
        async with connected(admin_path) as client:
            daemon.manners = "mute"
            waiting = asyncio.create_task(client.request("status"))
            await daemon.asked("status")
            await daemon.stop()

            with pytest.raises(UnavailableError, match="closed the connection"):
                await waiting
            with pytest.raises(UnavailableError, match="closed the connection"):
                await client.request("status")

    asyncio.run(scenario())


def test_no_answer_in_time_says_so(admin_path: Path) -> None:
    async def scenario() -> None:
        async with FakeDaemon(admin_path, "mute"):
            with pytest.raises(UnavailableError, match=r"did not answer hello within 0\.05 s"):
                await Client.connect(admin_path, timeout=0.05)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("manners", "sentence"),
    [
        ("rude", "does not speak the admin protocol"),
        ("long", "a line of more than 1048576 bytes"),
        ("old", "speaks admin protocol 99"),
    ],
)
def test_what_is_no_daemon_of_ours_is_told(admin_path: Path, manners: str, sentence: str) -> None:
    async def scenario() -> None:
        async with FakeDaemon(admin_path, manners):
            with pytest.raises(ProtocolError, match=sentence):
                await Client.connect(admin_path, timeout=5.0)

    asyncio.run(scenario())


def test_the_feed_survives_the_daemons_restart(admin_path: Path) -> None:
    async def scenario() -> list[str]:
        seen: list[str] = []
        feed = Feed(admin_path, [SubscribeParams("status", 20)])
        daemon = FakeDaemon(admin_path)
        daemon.topics["status"] = samples.status()
        daemon.auto = True
        async with asyncio.timeout(10), contextlib.aclosing(feed.events()) as events:
            async for event in events:
                name = event.state.name if isinstance(event, Connection) else "FRAME"
                if not seen or seen[-1] != name:
                    seen.append(name)
                if seen == ["CONNECTING", "LOST"]:
                    assert isinstance(event, Connection)
                    assert "there is no such socket" in event.sentence
                    await daemon.start()
                if seen == ["CONNECTING", "LOST", "CONNECTED", "FRAME"]:
                    await daemon.stop()
                if seen[-2:] == ["FRAME", "LOST"]:
                    assert isinstance(event, Connection)
                    await daemon.start()
                if seen[-3:] == ["LOST", "CONNECTED", "FRAME"] and len(seen) == 7:
                    break
        await daemon.stop()
        return seen

    assert asyncio.run(scenario()) == [
        "CONNECTING",
        "LOST",
        "CONNECTED",
        "FRAME",
        "LOST",
        "CONNECTED",
        "FRAME",
    ]


def test_a_silent_connection_is_dropped_and_made_anew(admin_path: Path) -> None:
    async def scenario() -> Connection:
        async with FakeDaemon(admin_path):  # has no frame to send
            feed = Feed(admin_path, [SubscribeParams("status")], silence_seconds_max=0.05)
            async with contextlib.aclosing(feed.events()) as events:
                async for event in events:
                    if isinstance(event, Connection) and event.state is ConnectionState.LOST:
                        return event
        raise AssertionError

    lost = asyncio.run(scenario())
    assert "did not answer with a frame within 0.05 s" in lost.sentence
    assert lost.attempt == 1


def test_only_data_resets_the_wait(admin_path: Path) -> None:
    async def scenario() -> list[int]:
        attempts: list[int] = []
        async with FakeDaemon(admin_path, "hang_up"):
            feed = Feed(admin_path, [SubscribeParams("status")])
            async with contextlib.aclosing(feed.events()) as events:
                async for event in events:
                    if isinstance(event, Connection) and event.state is ConnectionState.LOST:
                        attempts.append(event.attempt)
                        if len(attempts) == 2:
                            return attempts
        raise AssertionError

    assert asyncio.run(scenario()) == [1, 2]


def test_the_feed_changes_rates_on_the_live_connection(admin_path: Path) -> None:
    async def scenario() -> None:
        async with FakeDaemon(admin_path) as daemon:
            daemon.topics["depth"] = samples.depth()
            daemon.auto = True
            feed = Feed(admin_path, [SubscribeParams("depth", 5, levels=40)])
            async with contextlib.aclosing(feed.events()) as events:
                async for event in events:
                    if isinstance(event, Frame):
                        break
                await feed.ask([SubscribeParams("depth", 10, levels=40)])

            wish = [r["params"] for r in daemon.requests if r["method"] == "subscribe"][-1]
            assert wish == {"topic": "depth", "max_hz": 10, "levels": 40}

    asyncio.run(scenario())


def test_a_frame_without_news_may_give_its_credit_back_later(admin_path: Path) -> None:
    async def scenario() -> None:
        async with FakeDaemon(admin_path) as daemon:
            daemon.topics["depth"] = samples.depth()
            daemon.auto = True
            client = await Client.connect(admin_path)
            await client.subscribe(SubscribeParams("depth", 20))
            loop = asyncio.get_running_loop()
            came: list[float] = []
            async with contextlib.aclosing(client.frames(5.0, lambda frame: 0.3)) as frames:
                async for _ in frames:
                    came.append(loop.time())
                    if len(came) == 3:
                        break
            assert came[2] - came[0] >= 0.6
            await client.close()

    asyncio.run(scenario())


def test_a_request_without_a_connection_is_refused_at_once(admin_path: Path) -> None:
    async def scenario() -> None:
        with pytest.raises(UnavailableError, match="was not sent"):
            await Feed(admin_path, []).request("snapshot")

    asyncio.run(scenario())


def test_backoff_stays_between_a_quarter_and_one_second() -> None:
    waits = [
        backoff_seconds(attempt, jitter) for attempt in range(1, 50) for jitter in (0.0, 0.5, 1.0)
    ]

    assert min(waits) >= BACKOFF_SECONDS_MIN
    assert max(waits) <= BACKOFF_SECONDS_MAX
    assert backoff_seconds(40, 0.0) != backoff_seconds(40, 1.0)


# --- blocking


class ThreadedDaemon:
    """The same admin server on its own loop in a thread, for blocking clients."""

    def __init__(self, path: Path, manners: str = "") -> None:
        self.daemon = FakeDaemon(path, manners)
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)

    def __enter__(self) -> FakeDaemon:
        self.thread.start()
        asyncio.run_coroutine_threadsafe(self.daemon.start(), self.loop).result(5)
        return self.daemon

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self.loop).result(5)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(5)
        self.loop.close()

    async def _end(self) -> None:
        await self.daemon.stop()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.wait(others, timeout=1) if others else None


@pytest.fixture
def threaded(admin_path: Path) -> Iterator[FakeDaemon]:
    with ThreadedDaemon(admin_path) as daemon:
        yield daemon


def test_call_answers_one_question(threaded: FakeDaemon, admin_path: Path) -> None:
    threaded.results["depth"] = samples.depth(count=3)

    answer = call(admin_path, "depth", DepthParams(3))

    assert answer == samples.depth(count=3)
    assert threaded.requests[-1]["params"] == {"levels": 3}


def test_call_raises_what_the_daemon_refuses(threaded: FakeDaemon, admin_path: Path) -> None:
    threaded.results["cancel"] = ErrorBody(ErrorCode.INVALID_PARAMS, "order_id is missing.")

    with pytest.raises(AdminError, match="order_id is missing"):
        call(admin_path, "cancel")


def test_blocking_frames_return_credit_after_use(threaded: FakeDaemon, admin_path: Path) -> None:
    threaded.auto = True
    threaded.topics["wal"] = samples.wal()
    with BlockingClient(admin_path) as client:
        frames = client.frames(SubscribeParams("wal", 20))

        numbers = [next(frames).number for _ in range(3)]

        assert numbers == [1, 2, 3]


def test_nobody_there_says_what_to_do(admin_path: Path) -> None:
    with pytest.raises(UnavailableError, match=r"no such socket.*bourse daemon start") as caught:
        call(admin_path, "status")

    assert caught.value.exit_code == 3


def test_a_socket_left_behind_says_what_to_do(admin_path: Path) -> None:
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(admin_path))
    left.close()

    with pytest.raises(UnavailableError, match=r"nobody listens on it\. Start one with"):
        call(admin_path, "status")


def test_blocking_timeout_says_so(admin_path: Path) -> None:
    with (
        ThreadedDaemon(admin_path, "mute"),
        pytest.raises(UnavailableError, match=r"did not answer hello within 0\.1 s"),
    ):
        BlockingClient(admin_path, timeout=0.1)


def test_a_path_no_socket_can_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="may have 107"):
        call(tmp_path / ("x" * 120), "status")


def test_an_unknown_method_is_refused_before_it_is_sent(threaded: FakeDaemon) -> None:
    with pytest.raises(UsageError, match="no admin method 'levitate'"):
        call(threaded.path, "levitate")


@pytest.mark.parametrize("module", ["bourse.admin.client", "bourse.admin.store", "bourse.cli"])
def test_commands_import_no_console_library(module: str) -> None:
    probe = f"import sys, {module}; print([m for m in sys.modules if m.startswith('textual')])"

    found = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, check=True, timeout=60
    )

    assert found.stdout.strip() == "[]"
