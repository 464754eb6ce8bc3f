"""A server at --connect that speaks protocol version 1 only: measured, and the rest is said."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

from bourse.bench import suite
from bourse.cli import run as bourse
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
