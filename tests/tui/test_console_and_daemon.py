"""The console against an admin socket: first a server that obeys the test, then a real daemon."""

import asyncio
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from bourse import cli
from bourse.admin.client import Feed, call
from bourse.admin.launch import DaemonProcess
from bourse.admin.messages import (
    ErrorBody,
    ErrorCode,
    OrderParams,
    SnapshotResult,
)
from bourse.admin.store import Badge
from bourse.tui import render, replay
from bourse.tui.app import Console, subscriptions
from bourse.tui.picture import text_of
from bourse.tui.replay import Verdict
from tests.admin import samples
from tests.admin.fake_daemon import FakeDaemon
from tests.tui.test_pilot import toasts


async def until(pilot, condition: Callable[[], object], seconds: float = 10.0) -> None:
    """Let the app go on until something is so."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        await pilot.pause(0.02)


def told_daemon(path: Path) -> FakeDaemon:
    daemon = FakeDaemon(path)
    daemon.auto = True
    daemon.topics = {topic: sample(0) for topic, sample in samples.TOPIC_SAMPLES.items()}
    return daemon


def console(path: Path) -> Console:
    return Console(Feed(path, subscriptions(5), name="test"), rate_hz=20)


def test_the_console_waits_for_a_daemon_and_follows_its_restarts(tmp_path: Path) -> None:
    path = tmp_path / "s.sock"

    async def scenario() -> None:
        daemon = told_daemon(path)
        app = console(path)
        async with app.run_test(size=(80, 24)) as pilot:
            await until(pilot, lambda: app.store.badge()[0] is Badge.RECONNECTING)
            app.paint()
            await pilot.pause()
            assert "no such socket" in text_of(app).replace("\n", " ")

            await daemon.start()
            await until(pilot, lambda: app.store.is_live)
            app.paint()
            await pilot.pause()
            assert "LIVE" in text_of(app)
            assert "BOOK ACME" in text_of(app)

            await daemon.stop()
            await until(pilot, lambda: app.store.badge()[0] is Badge.RECONNECTING)
            app.paint()
            await pilot.pause()
            assert "BOOK ACME ~" in text_of(app)

            await daemon.start()
            await until(pilot, lambda: app.store.is_live)
            assert toasts(app)[-1] == "Connected again."
        await daemon.stop()

    asyncio.run(scenario())


def test_snapshot_and_its_refusal_are_told(tmp_path: Path) -> None:
    path = tmp_path / "s.sock"

    async def scenario() -> None:
        daemon = told_daemon(path)
        async with daemon:
            app = console(path)
            async with app.run_test(size=(120, 36)) as pilot:
                await until(pilot, lambda: app.store.is_live and app.store.status)
                daemon.results["snapshot"] = SnapshotResult(
                    "/d/snapshot-7.snap", 7, 3, 2_048, "0xff", 41_000, 0.01
                )
                await pilot.press("s", "s")
                await until(pilot, lambda: toasts(app))
                assert toasts(app) == ["Snapshot @7: 3 orders, 2.0 KiB, matcher paused 41.0µs."]

                daemon.results["snapshot"] = ErrorBody(ErrorCode.BUSY, "One is being written.")
                await pilot.press("s", "s")
                await until(pilot, lambda: len(toasts(app)) == 2)
                assert toasts(app)[1] == "No snapshot was written: One is being written."
                assert not app.state.snapshot_running

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("seq", "digest", "verdict", "words"),
    [
        (18_216_046, samples.DIGEST, Verdict.EQUAL, "✓ equal"),
        (18_216_046, "0xbad", Verdict.DIFFERENT, "REPLAY DIFFERS"),
        (18_216_000, "0xbad", Verdict.CHECKPOINTS, "✓ equal"),
    ],
)
def test_replay_compares_with_the_live_digests(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    seq: int,
    digest: str,
    verdict: Verdict,
    words: str,
) -> None:
    path = tmp_path / "s.sock"
    asked: list[str] = []
    may_end = asyncio.Event()

    async def found(command: list[str], advance: object) -> replay.ReplayReport:
        asked.extend(command)
        await may_end.wait()
        return replay.ReplayReport(seq, seq, replay.Digests(digest, samples.EVENTS_DIGEST))

    monkeypatch.setattr(replay, "run", found)

    async def scenario() -> None:
        async with told_daemon(path):
            app = console(path)
            async with app.run_test(size=(120, 36)) as pilot:
                await until(pilot, lambda: app.store.is_live and app.store.depth)
                await until(pilot, lambda: app.store.status and app.store.wal)
                await pilot.press("r", "y")
                assert app.state.replay_started is not None
                app.paint()
                await pilot.pause()
                assert "« REPLAY" in text_of(app)
                may_end.set()
                await until(pilot, lambda: app.state.replay)
                app.paint()
                await pilot.pause()
                assert app.state.replay.verdict is verdict
                assert words in text_of(app)
                assert samples.status().data_dir in asked

    asyncio.run(scenario())


def test_policy_memory_has_no_log_to_replay(tmp_path: Path) -> None:
    path = tmp_path / "s.sock"

    async def scenario() -> None:
        daemon = told_daemon(path)
        daemon.topics["status"] = msgspec.structs.replace(samples.status(), durability="memory")
        async with daemon:
            app = console(path)
            async with app.run_test(size=(120, 36)) as pilot:
                await until(pilot, lambda: app.store.status)
                await pilot.press("r", "y")
                assert toasts(app) == ["Replay: policy memory writes no log to replay."]

    asyncio.run(scenario())


# --- a real daemon


@pytest.fixture
def short_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("d")


def start_daemon(home: Path) -> DaemonProcess:
    arguments = ["--data", str(home / "data"), "--admin", str(home / "a.sock")]
    arguments += ["--listen", "127.0.0.1:0", "--poll", "block", "--durability", "fsync"]
    return DaemonProcess(arguments, home / "daemon.err")


def test_a_real_daemon_is_watched_snapshotted_replayed_killed_and_watched_again(
    short_path: Path,
) -> None:
    admin = short_path / "a.sock"
    written: list[str] = []

    async def scenario() -> None:
        daemon = await asyncio.to_thread(start_daemon, short_path)
        try:
            for price in range(101, 111):
                call(admin, "order", OrderParams("sell", 10 + price, price))
                call(admin, "order", OrderParams("buy", 20 + price, price - 20))
            filled = call(admin, "order", OrderParams("buy", 150, 102))
            assert filled.filled_lots == 150

            app = console(admin)
            async with app.run_test(size=(120, 36)) as pilot:
                await until(pilot, lambda: app.store.is_live and app.store.depth)
                await until(pilot, lambda: app.store.wal and app.store.trades)
                await until(pilot, lambda: any("ready: " in one.text for one in app.store.log))
                (segment,) = app.store.wal.segments
                assert segment.first_wal_seq == 1
                assert segment.size_bytes == app.store.wal.segment_size_bytes
                app.paint()
                await pilot.pause()
                text = text_of(app)
                assert "LIVE" in text
                assert "A1" in text
                assert "B1" in text
                assert "▲ B" in text
                assert "total" in text

                await pilot.press("s", "s")
                await until(pilot, lambda: app.state.snapshot, 20.0)
                written.append(app.state.snapshot.path)

                await until(pilot, lambda: app.store.depth.wal_seq >= app.state.snapshot.wal_seq)
                await pilot.press("r", "y")
                await until(pilot, lambda: app.state.replay, 20.0)
                assert app.state.replay.verdict is Verdict.EQUAL, app.state.replay.sentence
                assert any("equal the live ones" in toast for toast in toasts(app))
                digest = app.store.depth.state_digest

                os.kill(daemon.process.pid, signal.SIGSTOP)  # half dead: connected, silent
                await until(pilot, lambda: app.store.badge()[0] is Badge.STALE)
                await pilot.press("down")  # keys answer all the same
                app.paint()
                await pilot.pause()
                assert "STALE 3 s" in text_of(app)
                assert "P99 decoded" in text_of(app)
                os.kill(daemon.process.pid, signal.SIGCONT)
                await until(pilot, lambda: app.store.is_live)

                os.kill(daemon.process.pid, signal.SIGKILL)
                await until(pilot, lambda: app.store.badge()[0] is Badge.RECONNECTING)
                daemon.stop()
                daemon = await asyncio.to_thread(start_daemon, short_path)
                await until(pilot, lambda: app.store.is_live)
                await until(pilot, lambda: app.store.status.pid == daemon.process.pid)
                await until(pilot, lambda: app.store.depth.state_digest == digest)
                await pilot.resize_terminal(80, 24)
                app.paint()
                await pilot.pause()
                assert "LIVE" in text_of(app)

            picture = await render.render(admin, (80, 24), 0.2, screen="wal", text=True)
            assert "SNAPSHOTS 1" in picture
            assert len(picture.splitlines()) == 24
        finally:
            daemon.stop()

    asyncio.run(scenario())
    assert Path(written[0]).stat().st_size > 0


def test_rendering_without_a_daemon_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(render, "FIRST_FRAMES_SECONDS", 0.3)
    nobody = ["tui", "--admin", str(tmp_path / "none.sock")]

    assert cli.run([*nobody, "--out", "-", "--render", "80x24"]) == 3
    assert "no such socket" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--render", "wide", "--out", "-"], "COLUMNSxROWS"),
        (["--render", "80x²", "--out", "-"], "COLUMNSxROWS"),
        (["--render", "80x24"], "go together"),
        (["--out", "x.svg"], "go together"),
        (["--render", "80x24", "--out", "x.png"], "FILE.svg"),
        (["--screen", "nowhere"], "expected one of overview"),
        (["--theme", "pink"], "expected one of dark"),
        (["--rate-hz", "7"], "rate_hz is 7"),
        (["--config", "/nowhere.toml"], "no such file"),
    ],
)
def test_wrong_flags_are_answered_with_a_sentence(
    flags: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["tui", "--admin", "/tmp/x.sock", *flags]) == 2
    assert words in capsys.readouterr().err
