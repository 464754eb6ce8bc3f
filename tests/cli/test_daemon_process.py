"""The bourse command against real daemons: start, stop, refusals, orders, benchmarks."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bourse.bench.results import Environment

ROOT = Path(__file__).resolve().parents[2]
Run = subprocess.CompletedProcess[str]


class Place:
    """A data directory and an admin socket, and the bourse command on them."""

    def __init__(self, path: Path) -> None:
        self.data = path / "d"
        self.admin = path / "a.sock"
        self.run, self.state = path / "run", path / "state"
        self.run.mkdir(mode=0o700)
        homes = {"XDG_RUNTIME_DIR": str(self.run), "XDG_STATE_HOME": str(self.state)}
        self.environment = {**os.environ, **homes}

    def bourse(self, *words: str, **options: Any) -> Run:
        command = [sys.executable, "-m", "bourse", *words]
        options = {"cwd": ROOT, "env": self.environment, "check": False, **options}
        return subprocess.run(command, capture_output=True, text=True, timeout=60, **options)

    def start(self, *flags: str) -> Run:
        place = ("--data", str(self.data), "--admin", str(self.admin))
        return self.bourse(
            "daemon", "start", *place, "--listen", "127.0.0.1:0", "--detach", "--json", *flags
        )

    def on(self, *words: str) -> Run:
        """Run a command of the daemon's clients."""
        return self.bourse(*words, "--admin", str(self.admin))


@pytest.fixture
def place(short_tmp_path: Path) -> Iterator[Place]:
    found = Place(short_tmp_path)
    yield found
    if found.admin.exists():
        found.on("daemon", "stop")


@pytest.fixture
def banner(place: Place) -> dict[str, Any]:
    result = place.start()
    assert result.returncode == 0, result.stderr
    return dict(json.loads(result.stdout))


def is_sentence(result: Run) -> bool:
    """One line on stderr, nothing on stdout, no traceback."""
    return (
        result.stdout == "" and result.stderr.count("\n") == 1 and "Traceback" not in result.stderr
    )


def test_detach_returns_when_it_is_ready_and_stop_when_it_is_gone(
    place: Place, banner: dict[str, Any]
) -> None:
    assert Path(f"/proc/{banner['pid']}").exists()
    assert banner["durability"] == "fsync"
    status = json.loads(place.on("daemon", "status", "--json").stdout)["status"]
    assert status["pid"] == banner["pid"]
    assert (place.data / "daemon.log").exists()

    stopped = place.on("daemon", "stop", "--json")

    assert stopped.returncode == 0, stopped.stderr
    assert json.loads(stopped.stdout)["pid"] == banner["pid"]
    state = Path(f"/proc/{banner['pid']}/stat")
    assert not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z"
    assert place.on("daemon", "status").returncode == 3


def test_a_name_that_is_another_exchanges_halts_nothing(
    place: Place, banner: dict[str, Any]
) -> None:
    assert banner["instance"] == "d"

    wrong = place.on("halt", "--yes", "default")

    assert wrong.returncode == 1
    assert "this instance is called 'd'; nothing was done" in wrong.stderr
    assert "HALTED" not in place.on("book").stdout
    assert place.on("halt", "--yes", "d").returncode == 0
    assert f"bourse resume --admin {place.admin}" in place.on("daemon", "status").stdout


def test_orders_by_hand_survive_a_kill(place: Place, banner: dict[str, Any]) -> None:
    assert "5 rest" in place.on("sell", "5", "101").stdout
    assert "bought 3 of 3" in place.on("buy", "3", "102").stdout
    assert place.on("buy", "1", "-7").returncode == 0
    refused = place.on("buy", "0", "5")
    assert refused.returncode == 1
    assert "at least 1" in refused.stdout
    unknown = place.on("cancel", "99")
    assert unknown.returncode == 1
    before = json.loads(place.on("book", "--json").stdout)
    os.kill(banner["pid"], signal.SIGKILL)

    again = json.loads(place.start().stdout)

    after = json.loads(place.on("book", "--json").stdout)
    assert again["recovered_wal_seq"] > 0
    for key in ("bids", "asks", "state_digest", "event_digest", "event_seq"):
        assert after[key] == before[key], key


def test_snapshot_and_replay_beside_the_daemon_agree_with_it(
    place: Place, banner: dict[str, Any]
) -> None:
    place.on("sell", "5", "101")
    snapshot = json.loads(place.on("snapshot", "--json").stdout)
    place.on("buy", "2", "101")
    status = json.loads(place.on("daemon", "status", "--json").stdout)["status"]

    result = place.bourse("replay", "--wal", str(place.data), "--json")

    found = json.loads(result.stdout)
    assert found["digests"] == {"state": status["state_digest"], "events": status["event_digest"]}
    assert (found["resting_orders"], found["best_bid"], found["best_ask"]) == (1, None, 101)
    assert found["live"] is True
    assert found["torn_tail"] is False
    assert found["last_wal_seq"] == status["wal_seq"] > snapshot["wal_seq"]
    keys = {"records", "last_wal_seq", "resting_orders", "best_bid", "best_ask", "digests"}
    assert keys | {"seconds", "records_per_s", "torn_tail", "live"} <= found.keys()
    text = place.bourse(
        "replay", "--wal", str(place.data / "wal" / "wal-00000001-00000000000000000001.log")
    )
    assert status["event_digest"] in text.stdout


def test_replay_of_nothing_is_one_sentence(place: Place) -> None:
    result = place.bourse("replay", "--wal", str(place.data))

    assert result.returncode == 2
    assert is_sentence(result)


def test_a_second_daemon_on_the_directory_is_refused(place: Place, banner: dict[str, Any]) -> None:
    other = str(place.admin.with_name("b.sock"))
    for detach in (["--detach"], []):
        result = place.bourse(
            *("daemon", "start", "--data", str(place.data), "--listen", "127.0.0.1:0"),
            *("--admin", other, *detach),
        )

        assert result.returncode == 4
        assert is_sentence(result), result
        assert str(place.data) in result.stderr


def test_a_taken_port_is_refused(place: Place) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        result = place.start("--listen", address)

    assert result.returncode == 4
    assert is_sentence(result), result
    assert address in result.stderr
    assert "--listen" in result.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_that_is_not_writable_is_refused(place: Place, short_tmp_path: Path) -> None:
    locked = short_tmp_path / "locked"
    locked.mkdir(mode=0o500)
    result = place.start("--data", str(locked / "d"))

    assert result.returncode == 2
    assert is_sentence(result), result


@pytest.mark.parametrize("detach", [[], ["--detach"]])
def test_a_file_in_place_of_the_directory_is_refused(place: Place, detach: list[str]) -> None:
    place.data.write_text("not a directory")
    result = place.bourse(
        *("daemon", "start", "--data", str(place.data), "--listen", "127.0.0.1:0"),
        *("--admin", str(place.admin), *detach),
    )

    assert result.returncode == 2, result
    assert is_sentence(result), result
    assert str(place.data) in result.stderr


def test_a_corrupt_log_is_refused_and_named(place: Place, banner: dict[str, Any]) -> None:
    place.bourse("bench", "burst", "--connect", banner["listen"], "--samples", "1000")
    place.on("daemon", "stop")
    log = place.data / "wal" / "wal-00000001-00000000000000000001.log"
    with log.open("r+b") as file:
        file.seek(4096 + 64 + 40)  # inside the first record, long before the tail
        file.write(b"\xff\xff\xff")

    for words in (
        ["daemon", "start", "--data", str(place.data), "--listen", "127.0.0.1:0"],
        ["replay", "--wal", str(place.data)],
    ):
        result = place.bourse(*words)

        assert result.returncode == 65, result
        assert is_sentence(result), result
        assert str(log) in result.stderr


def test_foreground_prints_a_banner_and_ends_on_sigterm_with_0(place: Place, spawn: Any) -> None:
    command = [sys.executable, "-m", "bourse", "daemon", "start", "--data", str(place.data)]
    command += ["--listen", "127.0.0.1:0", "--admin", str(place.admin), "--poll", "block"]
    process = spawn(command)
    text = ""
    while "pid" not in text:
        line = process.stdout.readline()
        assert line, process.stderr.read()
        text += line
    process.send_signal(signal.SIGTERM)
    _, log = process.communicate(timeout=30)

    assert process.returncode == 0, log
    for word in ("127.0.0.1:", str(place.admin), str(place.data), "fsync", "block", "recovered"):
        assert word in text
    assert str(process.pid) in text
    assert "Traceback" not in log


def test_a_daemon_whose_banner_nobody_reads_runs_on(place: Place) -> None:
    command = [sys.executable, "-m", "bourse", "daemon", "start", "--data", str(place.data)]
    command += ["--listen", "127.0.0.1:0", "--admin", str(place.admin), "--poll", "block"]
    reading, writing = os.pipe()
    os.close(reading)
    process = subprocess.Popen(command, stdout=writing, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    os.close(writing)
    assert process.stderr is not None
    with process:
        try:
            while "nobody took the banner" not in (line := process.stderr.readline()):
                assert line

            assert place.on("book").returncode == 0
            assert place.on("daemon", "stop").returncode == 0
            assert process.wait(30) == 0
        finally:
            process.kill()


def test_a_daemon_without_memory_for_its_rings_says_so(place: Place) -> None:
    file = place.state.parent / "bourse.toml"
    file.write_text("event_ring_count = 16777216\n")
    flags = ["--data", str(place.data), "--admin", str(place.admin), "--listen", "127.0.0.1:0"]
    command = [sys.executable, "-m", "bourse", "daemon", "start", *flags, "--config", str(file)]

    result = subprocess.run(
        ["sh", "-c", 'ulimit -v 921600; exec "$@"', "sh", *command],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        cwd=ROOT,
    )

    assert result.returncode == 1
    assert is_sentence(result), result
    assert "memory" in result.stderr


def test_defaults_are_under_the_users_directories(place: Place) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        free = probe.getsockname()[1]
    result = place.bourse("daemon", "start", "--listen", f"127.0.0.1:{free}", "--detach", "--json")

    assert result.returncode == 0, result.stderr
    banner = json.loads(result.stdout)
    assert banner["data"] == str(place.state / "bourse" / "default")
    assert banner["admin"] == str(place.run / "bourse" / "default.sock")
    assert place.bourse("daemon", "status").returncode == 0
    assert place.bourse("daemon", "stop").returncode == 0


def test_what_detach_says_about_stopping_works_as_it_stands(place: Place) -> None:
    result = place.bourse(
        *("daemon", "start", "--data", str(place.data), "--admin", str(place.admin)),
        *("--listen", "127.0.0.1:0", "--detach"),
    )

    assert result.returncode == 0, result.stderr
    assert f"log        {place.data / 'daemon.log'}" in result.stdout
    stop = result.stdout.splitlines()[-1].partition("stop it with: bourse ")[2].split()
    assert stop == ["daemon", "stop", "--admin", str(place.admin)]
    assert place.bourse(*stop).returncode == 0


def test_the_manuals_client_is_answered(place: Place, banner: dict[str, Any]) -> None:
    manual = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
    client = manual.split("```python")[1].split("```")[0]
    assert '("127.0.0.1", 9000)' in client
    port = banner["listen"].rpartition(":")[2]

    result = subprocess.run(
        [sys.executable, "-c", client.replace("9000", port)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert result.stdout == "1 1 5 1\n", result.stderr
    assert "5" in place.on("book").stdout


def test_a_configuration_file_is_used(place: Place, short_tmp_path: Path) -> None:
    file = short_tmp_path / "bourse.toml"
    file.write_text('symbol = "ACME"\ndurability = "async"\ndata = "from-file"\n')
    place.data = short_tmp_path / "from-file"
    result = place.bourse(
        *("daemon", "start", "--config", str(file), "--admin", str(place.admin)),
        *("--listen", "127.0.0.1:0", "--detach", "--json"),
    )

    assert result.returncode == 0, result.stderr
    banner = json.loads(result.stdout)
    assert (banner["symbol"], banner["durability"]) == ("ACME", "async")
    assert banner["data"] == str(place.data)


@pytest.mark.parametrize("policy", ["memory", "async", "fsync"])
@pytest.mark.parametrize("name", ["rtt", "burst"])
def test_a_benchmark_prints_one_object_with_green_checks(
    place: Place, name: str, policy: str
) -> None:
    result = place.bourse(
        *("bench", name, "--durability", policy, "--samples", "50", "--json"),
        *("--data", str(place.admin.parent)),
    )

    assert result.returncode == 0, result.stdout + result.stderr
    found = json.loads(result.stdout)
    assert (found["schema"], found["workload"], found["policy"]) == (1, name, policy)
    assert found["boundary"] == "client"
    assert found["seed"] == 23
    assert found["samples"] == 50
    assert all(check["ok"] for check in found["checks"])
    names = {check["name"] for check in found["checks"]}
    assert names >= {"sequence_gapless", "events_expected", "bought_equals_sold", "book_empty"}
    assert ("replay_equal" in names) == (policy != "memory")
    assert ("latency_ns" in found) == ("stages_ns" in found) == (name == "rtt")
    assert ("fdatasync_ns" in found) == (name == "rtt" and policy == "fsync")
    if name == "rtt":
        assert 0 < found["latency_ns"]["p50"] <= found["latency_ns"]["p99"]
        assert found["stages_ns"].keys() >= {"matched", "durable", "total"}
    assert found["environment"].keys() == set(Environment.__struct_fields__)
    assert found["environment"]["calibration_ns"] > 0
    assert not list(place.admin.parent.glob("bourse-bench-*"))


def test_a_running_daemon_is_measured_with_connect(place: Place, banner: dict[str, Any]) -> None:
    connect = ("--connect", banner["listen"], "--samples", "100", "--json")
    named = place.bourse("bench", "rtt", *connect, "--admin", str(place.admin))
    unnamed = place.bourse("bench", "burst", *connect)
    misfit = (*connect, "--admin", str(place.admin), "--poll", "busy")
    wrong = place.bourse("bench", "rtt", *misfit)

    assert named.returncode == 0, named.stdout + named.stderr
    assert json.loads(named.stdout)["policy"] == "fsync"
    assert unnamed.returncode == 0, unnamed.stdout + unnamed.stderr
    assert json.loads(unnamed.stdout)["policy"] == "unknown"
    assert wrong.returncode == 2
    # With --json the sentence is an object too.
    error = json.loads(wrong.stdout)["error"]
    assert error["exit_code"] == 2
    assert wrong.stderr.strip() == f"bourse: {error['sentence']}"


def test_ctrl_c_during_a_benchmark_leaves_nothing_behind(place: Place, spawn: Any) -> None:
    command = [sys.executable, "-m", "bourse", "bench", "rtt", "--samples", "1000000"]
    command += ["--durability", "memory", "--data", str(place.admin.parent)]
    process = spawn(command)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and not list(place.admin.parent.glob("*/log")):
        time.sleep(0.05)
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    _, complaint = process.communicate(timeout=30)

    assert process.returncode == 130
    assert "Traceback" not in complaint
    assert not list(place.admin.parent.glob("bourse-bench-*"))
