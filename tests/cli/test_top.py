"""bourse top: text and JSON from the admin client and store, against a scripted server."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from bourse import cli
from bourse.cli import top
from tests.admin import samples
from tests.admin.fake_daemon import FakeDaemon


def run(path: Path, *flags: str, halted: bool = False) -> int:
    """Run the command while a daemon with the samples answers."""

    async def scenario() -> int:
        daemon = FakeDaemon(path)
        daemon.auto = True
        daemon.topics = {topic: sample(0) for topic, sample in samples.TOPIC_SAMPLES.items()}
        evil = [
            msgspec.structs.replace(one, peer="\x1b[2J[red]x\n")
            for one in samples.sessions().sessions
        ]
        daemon.topics["sessions"] = msgspec.structs.replace(samples.sessions(), sessions=evil)
        daemon.topics["status"] = msgspec.structs.replace(samples.status(), halted=halted)
        async with daemon:
            return await asyncio.to_thread(cli.run, ["top", "--admin", str(path), *flags])

    return asyncio.run(scenario())


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(top, "RATE_SECONDS", 0.05)


def test_once_prints_the_exchange_as_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path / "a.sock", "--once") == 0

    text = capsys.readouterr().out
    assert text.startswith("LIVE  default ACME fsync adaptive, pid 4711")
    assert "wal_seq 18,216,046  durable 18,216,043 (+3)" in text
    assert "bid 9,999 x 4,100  ask 10,001 x 3,581" in text
    assert "total" in text
    assert "·[2J[red]x·" in text
    assert "\x1b" not in text
    assert "error: session 7 ended" in text


def test_a_halt_is_the_first_thing_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path / "a.sock", "--once", halted=True) == 0

    assert capsys.readouterr().out.startswith("LIVE  HALTED  default ACME")


def test_json_is_one_object_a_look(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path / "a.sock", "--once", "--json") == 0

    (line,) = capsys.readouterr().out.splitlines()
    found = json.loads(line)
    assert found["badge"] == "LIVE"
    assert found["status"]["wal_seq"] == samples.status().wal_seq
    assert found["wal"]["durable_seq"] == samples.wal().durable_seq
    assert len(found["sessions"]) == 4
    assert {"commands", "trades", "wal.syncs"} <= found["rates"].keys()


def test_a_pipe_gets_it_once_unless_asked_to_watch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(tmp_path / "a.sock") == 0
    assert capsys.readouterr().out.count("LIVE") == 1

    looks: list[dict[str, object]] = []

    def take(value: dict[str, object]) -> None:
        looks.append(value)
        if len(looks) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(top, "say_json", take)
    assert run(tmp_path / "b.sock", "--watch", "--json", "--every", "0.2") == 0
    assert len(looks) == 3


def test_without_a_daemon_it_ends_with_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["top", "--once", "--admin", str(tmp_path / "none.sock")]) == 3
    assert "no such socket" in capsys.readouterr().err


def test_once_and_watch_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["top", "--once", "--watch"]) == 2


def test_neither_the_command_line_nor_top_loads_textual(tmp_path: Path) -> None:
    program = (
        "import sys, bourse.cli\n"
        "assert 'textual' not in sys.modules\n"
        f"bourse.cli.run(['top', '--once', '--admin', {str(tmp_path / 'none.sock')!r}])\n"
        "import bourse.tui.format, bourse.admin.store\n"
        "print('textual' in sys.modules)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )

    assert ended.stdout == "False\n"
