"""A server at --connect that speaks protocol version 1 only: measured, and the rest is said."""

import importlib.util
import json
import time
from pathlib import Path
from types import ModuleType

import pytest

from bourse.admin.client import call
from bourse.admin.messages import OrderParams
from bourse.bench import run as bench_run
from bourse.bench import suite
from bourse.bench.private_daemon import PrivateDaemon
from bourse.cli import run as bourse
from bourse.domain import Durability, PollMode
from bourse.errors import UsageError


def load_server() -> ModuleType:
    path = Path(__file__).with_name("matching_server.py")
    spec = importlib.util.spec_from_file_location("matching_server", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


matching_server = load_server().matching_server


@pytest.mark.parametrize(
    ("name", "flags"),
    [
        ("rtt", ["--samples", "20"]),
        ("burst", ["--samples", "40"]),
        ("load", ["--rate", "1000", "--seconds", "0.05"]),
    ],
)
def test_what_it_cannot_do_is_skipped_and_said(
    name: str, flags: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with matching_server() as server:
        host, port = server.address
        connect = ["--connect", f"{host}:{port}"]
        assert bourse(["bench", name, *flags, *connect, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
    with matching_server() as server:
        host, port = server.address
        connect = ["--connect", f"{host}:{port}"]
        assert bourse(["bench", name, *flags, *connect]) == 0
        text = capsys.readouterr().out

    assert found["policy"] == found["poll"] == "unknown"
    assert all(check["ok"] for check in found["checks"])
    assert {"events_exact", "bought_equals_sold"} <= {check["name"] for check in found["checks"]}
    assert "digests" not in found
    assert "stages_ns" not in found
    said = " ".join(found["skipped"])
    for words in ("empty book", "replay", "policy", "digests"):
        assert words in said
    assert ("stages" in said) == (name != "burst")
    assert "  skipped: " in text


def test_all_takes_each_workload_of_a_daemon_once_and_names_the_others() -> None:
    runs, left = suite.choose_at("127.0.0.1:9", [])

    assert [run.workload.name for run in runs] == ["rtt", "burst", "load", "fan-in"]
    assert "walk-1000" in left
    assert "snapshot-stall-100000" in left
    for run in runs:
        command = suite.command_of(run, False)
        assert command[command.index("--connect") + 1] == "127.0.0.1:9"
        assert "--durability" not in command
        assert "--poll" not in command
    with pytest.raises(UsageError, match="none of walk-1000, walk-1 measures"):
        suite.choose_at("127.0.0.1:9", ["walk"])


def test_all_says_what_it_skips(capsys: pytest.CaptureFixture[str]) -> None:
    with matching_server() as server:
        host, port = server.address
        code = bourse(["bench", "all", "ring", "rtt", "--connect", f"{host}:{port}", "--json"])

    said = capsys.readouterr()
    found = json.loads(said.out)
    assert code == 0, found
    assert [one["workload"] for one in found["results"]] == ["rtt"]
    assert found["skipped"] == ["ring"]
    assert "skipped, since no server at --connect does them: ring" in said.err


@pytest.mark.parametrize(
    ("side", "price_ticks", "is_refused"),
    [("buy", 100, True), ("sell", 99, True), ("buy", 99, False), ("sell", 101, False)],
)
def test_a_book_that_its_orders_would_meet_is_refused(
    side: str, price_ticks: int, is_refused: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    with PrivateDaemon(Durability.MEMORY, PollMode.BLOCK, None) as daemon:
        admin = daemon.banner.admin
        call(admin, "order", OrderParams(side, 1, price_ticks))
        where = ["--connect", daemon.banner.listen, "--admin", admin]
        code = bourse(["bench", "rtt", "--samples", "5", *where])
        said = capsys.readouterr().err
        status = call(admin, "status")

    assert code == (2 if is_refused else 0), said
    if is_refused:
        assert f"a {side} rests at {price_ticks}" in said
    assert status.live_orders == 1
    assert (status.trades == 0) == is_refused


def test_a_round_trip_that_fails_takes_back_what_it_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench_run, "SILENCE_SECONDS_MAX", 0.1)
    monkeypatch.setattr(bench_run, "_admin_of", lambda address, named: None)
    with PrivateDaemon(Durability.MEMORY, PollMode.BLOCK, None) as daemon:
        call(daemon.banner.admin, "order", OrderParams("buy", 1, 100))
        code = bourse(["bench", "rtt", "--samples", "5", "--connect", daemon.banner.listen])
        said = capsys.readouterr().err
        deadline = time.monotonic() + 5
        while call(daemon.banner.admin, "status").live_orders and time.monotonic() < deadline:
            time.sleep(0.02)
        left = call(daemon.banner.admin, "status").live_orders

    assert code == 3
    assert "somebody else's order at 100" in said
    assert left == 0
