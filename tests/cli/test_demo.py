"""bourse demo: headless, on a terminal, interrupted, killed; it never leaves a process behind."""

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
DEMO = [sys.executable, "-m", "bourse", "demo"]


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


terminal = load("terminal").terminal


@pytest.fixture
def environment(short_tmp_path: Path) -> dict[str, str]:
    """A runtime directory of its own, so that no other daemon's socket is met."""
    runtime = short_tmp_path / "run"
    runtime.mkdir(mode=0o700)
    return {**os.environ, "XDG_RUNTIME_DIR": str(runtime), "TERM": "xterm-256color"}


def processes_on(data: Path) -> list[int]:
    """Ids of processes that have the data directory on their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if os.fsencode(data) in words:
            found.append(int(path.parent.name))
    return found


def wait_until_gone(data: Path) -> None:
    deadline = time.monotonic() + 30
    while processes_on(data) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert processes_on(data) == []


def wait_for_daemon(data: Path) -> None:
    """Wait until the daemon of a demo owns the directory."""
    deadline = time.monotonic() + 30
    while not (data / "lock").exists():
        assert time.monotonic() < deadline, "no daemon started"
        time.sleep(0.05)


def headless(
    data: Path, environment: dict[str, str], *flags: str
) -> subprocess.CompletedProcess[str]:
    command = [*DEMO, "--data", str(data), "--headless", "--seconds", "2", *flags]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=100, check=False, cwd=ROOT, env=environment
    )


def rejected_share(summary: dict[str, Any]) -> float:
    (answered,) = (c for c in summary["checks"] if c["name"] == "every_order_answered")
    sent, _, rejected = (int(word) for word in re.findall(r"\d+", answered["detail"]))
    return rejected / sent


def test_a_headless_demo_trades_and_recovers_on_the_second_run(
    short_tmp_path: Path, environment: dict[str, str]
) -> None:
    data = short_tmp_path / "d"

    first = headless(data, environment, "--json")
    second = headless(data, environment, "--json", "--seed", "7")

    assert first.returncode == 0, first.stdout + first.stderr
    assert second.returncode == 0, second.stdout + second.stderr
    one, two = json.loads(first.stdout), json.loads(second.stdout)
    assert one["trades"] > 0
    assert {check["name"] for check in one["checks"]} >= {"sequences_gapless", "replay_equal"}
    assert all(check["ok"] for check in one["checks"] + two["checks"])
    assert two["recovered_wal_seq"] == one["wal_seq"]
    assert two["events"] > one["events"]
    # The first run's orders are out of the makers' way.
    assert rejected_share(two) < 0.05, two["checks"]
    assert "sequences_gapless" in {check["name"] for check in two["checks"]}
    assert processes_on(data) == []


def test_without_a_terminal_it_runs_headless_and_says_so(
    short_tmp_path: Path, environment: dict[str, str]
) -> None:
    data = short_tmp_path / "d"
    command = [*DEMO, "--data", str(data), "--seconds", "1"]
    result = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        cwd=ROOT,
        env=environment,
    )

    assert result.returncode == 0, result.stdout + result.stderr
    assert "no terminal here" in result.stderr
    for word in ("orders", "trades", "event digest", "wal_seq", "durable", "p99", "replay_equal"):
        assert word in result.stdout


def test_two_demos_do_not_share_a_directory(
    short_tmp_path: Path, environment: dict[str, str], spawn: Any
) -> None:
    data = short_tmp_path / "d"
    command = [*DEMO, "--data", str(data), "--headless", "--seconds", "20"]
    first = spawn(command, env=environment)
    wait_for_daemon(data)
    second = headless(data, environment)
    first.send_signal(signal.SIGINT)
    output, _ = first.communicate(timeout=60)

    assert second.returncode == 4
    assert second.stderr.count("\n") == 1
    assert first.returncode == 0, output
    wait_until_gone(data)


def test_a_demo_whose_exchange_was_stopped_says_so(
    short_tmp_path: Path, environment: dict[str, str], spawn: Any
) -> None:
    data = short_tmp_path / "d"
    process = spawn([*DEMO, "--data", str(data), "--headless", "--seconds", "60"], env=environment)
    wait_for_daemon(data)
    stop = [sys.executable, "-m", "bourse", "daemon", "stop"]
    deadline = time.monotonic() + 30
    while subprocess.run(
        stop, env=environment, cwd=ROOT, capture_output=True, check=False
    ).returncode:
        assert time.monotonic() < deadline
        time.sleep(0.2)

    _, complaint = process.communicate(timeout=60)

    assert process.returncode == 3, complaint
    assert "the exchange ended before the demo did (exit code 0)" in complaint
    assert complaint.count("\n") == 1
    wait_until_gone(data)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGHUP])
def test_a_killed_demo_takes_its_processes_along(
    short_tmp_path: Path, environment: dict[str, str], number: signal.Signals, spawn: Any
) -> None:
    data = short_tmp_path / "d"
    command = [*DEMO, "--data", str(data), "--headless", "--seconds", "30"]
    process = spawn(command, env=environment)
    wait_for_daemon(data)
    time.sleep(0.5)

    process.send_signal(number)

    process.communicate(timeout=60)
    wait_until_gone(data)


@pytest.mark.parametrize("keys", [b"q", b"\x03"])
def test_the_console_opens_and_leaves_nothing_behind(
    short_tmp_path: Path, environment: dict[str, str], keys: bytes
) -> None:
    data = short_tmp_path / "d"
    with terminal([*DEMO, "--data", str(data)], ROOT, environment) as child:
        child.read_until(b"BOURSE", 60)
        time.sleep(1.0)
        child.press(keys)
        code = child.wait()

    screen = child.screen.decode(errors="replace")
    assert code == 0, screen[-4000:]
    assert "replay_equal" in screen
    assert "Traceback" not in screen
    wait_until_gone(data)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_console_that_is_killed_takes_the_exchange_along(
    short_tmp_path: Path, environment: dict[str, str], number: signal.Signals
) -> None:
    data = short_tmp_path / "d"
    with terminal([*DEMO, "--data", str(data)], ROOT, environment) as child:
        child.read_until(b"BOURSE", 60)
        child.process.send_signal(number)
        child.wait()

    assert "Traceback" not in child.screen.decode(errors="replace")
    wait_until_gone(data)
