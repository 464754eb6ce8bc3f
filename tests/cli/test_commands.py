"""The bourse command against a fake admin server: what it asks, prints and returns."""

import asyncio
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest

from bourse.admin import messages
from bourse.cli import COMMANDS, run
from bourse.core.killpoint import POINTS
from bourse.journal import recovery, storage

ROOT = Path(__file__).resolve().parents[2]
WATCH = [sys.executable, "-m", "bourse", "watch"]


def load(name: str) -> ModuleType:
    """Load a helper of the admin tests: tests are no package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "tests/admin" / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


samples = load("samples")
FakeDaemon = load("fake_daemon").FakeDaemon


@pytest.fixture
def admin_path(short_tmp_path: Path) -> Path:
    return short_tmp_path / "a.sock"


@pytest.fixture
def fake(admin_path: Path) -> Iterator[Any]:
    """A fake daemon on an event loop in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    daemon = FakeDaemon(admin_path)
    daemon.results = {
        "status": samples.status(),
        "latency": samples.latency(),
        "depth": samples.depth(),
        "trades": samples.trades(),
    }
    asyncio.run_coroutine_threadsafe(daemon.start(), loop).result()
    yield daemon

    async def end() -> None:
        await daemon.stop()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0.01)

    asyncio.run_coroutine_threadsafe(end(), loop).result()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def bourse(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bourse", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, cwd=ROOT, **options
    )


def order_result(**changes: Any) -> messages.OrderResult:
    values: dict[str, Any] = {
        "wal_seq": 9,
        "order_id": 17,
        "reason": 0,
        "reason_name": "NONE",
        "sentence": "Accepted.",
        "filled_lots": 2,
        "leaves_lots": 3,
        "resting": True,
        "fills": [messages.Fill(100, 2, 4, 44)],
    }
    return messages.OrderResult(**{**values, **changes})


def test_the_list_of_commands_is_that_of_the_tree(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0

    text = capfd.readouterr().out
    for name in COMMANDS:
        assert f" {name} " in text


@pytest.mark.parametrize(
    "path",
    [
        *("demo", "tui", "buy", "sell", "cancel", "book", "watch", "snapshot", "replay"),
        *("doctor", "halt", "resume", "kick", "cancel-all"),
        *("daemon start", "daemon stop", "daemon status", "bench rtt", "bench burst", "bench walk"),
    ],
)
def test_help_shows_an_example_and_the_exit_codes(
    path: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run([*path.split(), "--help"]) == 0

    text = capfd.readouterr().out
    assert "Usage: bourse" in text
    assert "Example" in text
    assert text.count(f"bourse {path}") > 1
    assert "Exit codes:" in text


@pytest.mark.parametrize(
    "path", [*COMMANDS, "daemon start", "bench rtt", "bench burst", "bench walk"]
)
def test_help_fits_80_columns_and_gives_flags_no_type(
    path: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run([*path.split(), "--help"]) == 0
    narrow = capfd.readouterr().out
    monkeypatch.setenv("COLUMNS", "200")
    assert run([*path.split(), "--help"]) == 0
    wide = capfd.readouterr().out

    assert "<bool>" not in narrow
    # Examples and exit codes are not cut into two lines.
    kept = [line.strip() for line in wide.split("Options ─")[0].splitlines() if line[:3] == "   "]
    assert [line for line in kept if line not in narrow] == []


@pytest.mark.parametrize(
    ("arguments", "near"),
    [
        (["bok"], "`book`"),
        (["daemon", "strat"], "'start'"),
        (["stop"], "`daemon stop`"),
        (["start"], "`daemon start`"),
        (["zzz"], ""),
    ],
)
def test_a_typo_is_answered_with_what_is_near(
    arguments: list[str], near: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2

    complaint = capfd.readouterr().err
    assert ("Did you mean" in complaint) == bool(near)
    assert near in complaint
    assert "?;" not in complaint


def test_help_of_the_installed_command_comes_fast() -> None:
    result = bourse("--help")

    assert result.returncode == 0
    assert "Usage: bourse" in result.stdout


def test_doctor_lists_the_kill_points(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "--kill-points"]) == 0

    listed = [line.split()[0] for line in capfd.readouterr().out.splitlines()]
    assert listed == list(POINTS)


def test_doctor_says_what_is_wrong_with_a_directory(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run(["doctor", "--data", str(tmp_path / "new"), "--json"])
    found = {entry["name"]: entry for entry in json.loads(capfd.readouterr().out)}
    assert found["compiled"]["advice"] == ""
    assert "not made yet" in found["data"]["value"]
    assert found["holds"]["value"] == "no log"

    code = run(["doctor", "--data", "/dev/shm"])

    text = capfd.readouterr().out
    assert code == 1
    assert "filesystem: it is memory" in text


def test_doctor_says_what_it_did_not_read_and_who_has_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with storage.DataLock(tmp_path):
        run(["recover", "--data", str(tmp_path), "--dry-run"])
        assert "holds nothing" in capfd.readouterr().err
        (tmp_path / "wal").mkdir()
        (tmp_path / "wal" / "wal-00000001-00000000000000000001.log").write_bytes(b"damaged")

        run(["doctor", "--data", str(tmp_path), "--json"])

        found = {entry["name"]: entry for entry in json.loads(capfd.readouterr().out)}
        assert found["in use"]["value"] == "by a daemon that runs"
        assert found["holds"]["value"].startswith("1 segment, 0 snapshots; not read: ")
        assert f"bourse recover --dry-run --data {tmp_path}" in found["holds"]["value"]
    assert run(["recover", "--data", str(tmp_path), "--dry-run"]) == 65


def test_a_dry_run_beside_a_daemon_says_so(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    recovery.recover(tmp_path, preallocate_bytes=1 << 16)
    command = ["recover", "--data", str(tmp_path), "--dry-run"]
    with storage.DataLock(tmp_path):
        assert run(command) == 0
        assert "a daemon has it in use" in capfd.readouterr().out
        assert run([*command, "--json"]) == 0
        assert json.loads(capfd.readouterr().out)["in_use"] is True
    assert run(command) == 0
    assert "in use" not in capfd.readouterr().out


def test_a_tree_that_is_not_compiled_is_one_sentence(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "bourse", tmp_path / "bourse", ignore=shutil.ignore_patterns("*.so"))
    paths = [str(tmp_path), *(path for path in sys.path if path and path != str(ROOT))]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    for arguments in (["daemon", "start"], ["doctor"]):
        done = subprocess.run(
            [sys.executable, "-P", "-m", "bourse", *arguments, "--data", str(tmp_path / "d")],
            **{"capture_output": True, "text": True, "timeout": 60, "check": False},
            cwd=tmp_path,
            env=environment,
        )

        assert done.returncode == 1
        assert done.stderr.count("\n") == 1, done.stderr
        assert "make setup" in done.stderr


@pytest.mark.parametrize("arguments", [[], ["buy"], ["daemon", "start"]])
def test_help_begins_with_its_usage_and_has_a_short_name(
    arguments: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    assert run([*arguments, "--help"]) == 0
    page = capfd.readouterr().out
    assert run([*arguments, "-h"]) == 0

    assert "Usage: bourse" in page.splitlines()[0]
    assert capfd.readouterr().out == page


def test_a_reader_of_help_that_goes_away_is_no_failure() -> None:
    command = f"{sys.executable} -m bourse --help | true; echo ${{PIPESTATUS[0]}}"

    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, timeout=60, check=True, cwd=ROOT
    )

    assert done.stdout.strip() in {"0", "141"}


def test_version_and_no_command(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capfd.readouterr().out.startswith("bourse 0.")
    assert run([]) == 2
    assert "Commands" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nothing"], ["nothing", "bourse --help"]),
        (["daemon", "start", "--nothing"], ["--nothing", "bourse daemon start --help"]),
        (["daemon", "start", "--durability", "sync"], ["'sync'", "memory, async, fsync"]),
        (["daemon", "start", "--poll", "hot"], ["'hot'", "block, adaptive, busy"]),
        (["daemon", "start", "--listen", "9000"], ["listen", "HOST:PORT"]),
        (["daemon", "start", "--listen", "x" * 80 + ":0"], ["no name of a host", "--listen"]),
        (["daemon", "start", "--config", "/nowhere.toml"], ["/nowhere.toml"]),
        (["daemon", "start", "--admin", "/" + "x" * 120], ["121 bytes", "--admin"]),
        (["replay"], ["--wal"]),
        (["buy", "x", "1"], ["QTY", "a whole number"]),
        (["buy", "1", "1.5"], ["PRICE", "a whole number"]),
        (["buy", "5"], ["needs a PRICE", "bourse buy 5 PRICE"]),
        (["buy", "5", "1", "--type", "market"], ["no PRICE"]),
        (["sell", "5", "1", "--type", "stop"], ["stop", "limit, market"]),
        (["sell", str(1 << 64), "1"], ["QTY"]),
        (["sell", "1", str(1 << 63)], ["PRICE"]),
        (["cancel", "0"], ["ORDER_ID"]),
        (["bench", "rtt", "--client-poll", "hot"], ["hot", "block or busy"]),
        (["bench", "rtt", "--samples", "0"], ["--samples 0"]),
        (["bench", "burst", "--samples", "3"], ["--samples 3", "even"]),
        (["bench", "rtt", "--data", "/nowhere"], ["/nowhere", "not a directory"]),
        (["demo", "--seconds", "5", "--rate", "0"], ["--rate"]),
    ],
)
def test_wrong_usage_is_one_sentence_and_2(
    arguments: list[str], words: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    code = run(arguments)

    output, complaint = capfd.readouterr()
    assert code == 2
    assert output == ""
    assert complaint.startswith("bourse: ")
    assert complaint.count("\n") == 1
    for word in words:
        assert word in complaint


@pytest.mark.parametrize(
    "arguments",
    [
        *(["daemon", "status"], ["daemon", "stop"], ["book"], ["watch"], ["snapshot"]),
        *(["buy", "1", "1"], ["cancel", "1"]),
    ],
)
def test_no_daemon_is_one_sentence_and_3(
    arguments: list[str], admin_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code = run([*arguments, "--admin", str(admin_path)])

    complaint = capfd.readouterr().err
    assert code == 3
    assert complaint.count("\n") == 1
    assert f"bourse daemon start --admin {admin_path}" in complaint


def test_nothing_at_connect_is_3(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "rtt", "--connect", "127.0.0.1:1"]) == 3
    assert "127.0.0.1:1" in capfd.readouterr().err


def test_status_shows_counters_and_stages(
    fake: Any, admin_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["daemon", "status", "--admin", str(admin_path)]) == 0

    text = capfd.readouterr().out
    for word in ("fsync, adaptive", "18,216,046", "matched", "p99.9"):
        assert word in text


def test_status_as_json_has_both_parts(
    fake: Any, admin_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["daemon", "status", "--json", "--admin", str(admin_path)]) == 0

    found = json.loads(capfd.readouterr().out)
    assert found["status"]["durability"] == "fsync"
    assert [stage["stage"] for stage in found["latency"]["stages"]] == list(messages.STAGES)


def test_book_draws_asks_above_bids(
    fake: Any, admin_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["book", "--levels", "5", "--admin", str(admin_path)]) == 0

    lines = capfd.readouterr().out.splitlines()
    sides = [line.split()[0] for line in lines if line.startswith(("  ask", "  bid"))]
    assert sides == sorted(sides)
    assert any("spread" in line for line in lines)
    assert fake.requests[-1]["params"]["levels"] == 5


def test_an_order_says_what_became_of_it(
    fake: Any, admin_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    fake.results["order"] = order_result()

    assert run(["buy", "5", "-100", "--admin", str(admin_path)]) == 0

    text = capfd.readouterr().out
    assert "bought 2 of 5" in text
    assert f"bourse cancel 17 --admin {admin_path}" in text
    assert fake.requests[-1]["params"] == {
        "side": "buy",
        "qty_lots": 5,
        "price_ticks": -100,
        "type": "limit",
    }


@pytest.mark.parametrize("word", ["post_only", "post-only", "postonly", "PostOnly", "POST_ONLY"])
def test_a_type_of_two_words_is_written_in_any_way(
    word: str, fake: Any, admin_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    fake.results["order"] = order_result()

    assert run(["buy", "5", "1", "--type", word, "--admin", str(admin_path)]) == 0
    assert fake.requests[-1]["params"]["type"] == "post_only"


def test_the_book_says_that_trading_is_halted(
    fake: Any, admin_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    fake.results["depth"] = msgspec.structs.replace(samples.depth(), halted=True)

    assert run(["book", "--admin", str(admin_path)]) == 0
    assert "HALTED" in capfd.readouterr().out.splitlines()[0]


def test_a_refused_order_is_1_with_its_reason(
    fake: Any, admin_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    fake.results["order"] = order_result(
        reason=32, reason_name="ZERO_QUANTITY", sentence="The quantity must be at least 1."
    )

    assert run(["sell", "0", "1", "--admin", str(admin_path)]) == 1
    assert "at least 1" in capfd.readouterr().out


def test_cancel_and_snapshot_as_json(
    fake: Any, admin_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    fake.results["cancel"] = order_result(reason=2, sentence="Cancelled.", resting=False)
    fake.results["snapshot"] = messages.SnapshotResult("/d/s.snap", 9, 3, 4096, "0x1", 1000, 0.01)

    assert run(["cancel", "17", "--json", "--admin", str(admin_path)]) == 0
    assert json.loads(capfd.readouterr().out)["order_id"] == 17
    assert run(["snapshot", "--json", "--admin", str(admin_path)]) == 0
    assert json.loads(capfd.readouterr().out)["wal_seq"] == 9
    assert run(["snapshot", "--admin", str(admin_path)]) == 0
    assert "wal_seq 9" in capfd.readouterr().out


def test_watch_shows_each_trade_once(
    fake: Any, admin_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def trade(sequence: int) -> messages.Trade:
        return messages.Trade(sequence, 100, 2, 1, 7, 4, 1_790_000_000_123_000_000)

    fake.results["trades"] = messages.Trades([trade(3)], 3)
    fake.topics["trades"] = messages.Trades([trade(3), trade(5), trade(6)], 6, missed=0)
    fake.auto = True

    assert run(["watch", "--count", "2", "--json", "--admin", str(admin_path)]) == 0

    lines = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [line["sequence"] for line in lines] == [5, 6]


def test_the_console_wants_a_terminal() -> None:
    result = bourse("tui", stdin=subprocess.DEVNULL)

    assert result.returncode == 2
    assert "terminal" in result.stderr


def test_a_reader_that_goes_away_ends_the_command_quietly(
    fake: Any, admin_path: Path, spawn: Any
) -> None:
    fake.topics["trades"] = messages.Trades(
        # More than a pipe holds, so that some of it meets nobody.
        [messages.Trade(k, 100, 2, 1, 7, 4, 0) for k in range(10, 5_000)],
        5_000,
    )
    fake.results["trades"] = messages.Trades([], 0)
    fake.auto = True
    process = spawn([*WATCH, "--admin", str(admin_path)])
    assert process.stdout and process.stderr
    process.stdout.readline()
    process.stdout.close()

    assert process.wait(30) == 141
    assert process.stderr.read() == ""


@pytest.mark.parametrize("redirection", [">&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_streams_change_no_exit_code(redirection: str, fake: Any, admin_path: Path) -> None:
    line = f'exec "{sys.executable}" -m bourse book --admin "{admin_path}" {redirection}'

    result = subprocess.run(
        line, shell=True, capture_output=True, text=True, timeout=30, check=False, cwd=ROOT
    )

    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_a_full_disk_behind_stdout_is_one_sentence_and_1(fake: Any, admin_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        result = subprocess.run(
            [sys.executable, "-m", "bourse", "book", "--admin", str(admin_path)],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=30,
            check=False,
            cwd=ROOT,
        )

    assert result.returncode == 1
    assert result.stderr == "bourse: the system refused: No space left on device\n"


def test_a_record_beyond_every_log_is_one_sentence(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", "--wal", "/", "--until", str(2**64)]) == 2

    assert "less than or equal to 18446744073709551615" in capfd.readouterr().err


def test_a_path_that_is_too_long_is_one_sentence_and_1(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", "--wal", "/" + "x" * 300]) == 1

    complaint = capfd.readouterr().err
    assert complaint.endswith("File name too long\n")
    assert complaint.count("\n") == 1


def test_a_locale_without_the_bars_gets_question_marks(fake: Any, admin_path: Path) -> None:
    result = bourse(
        *("book", "--admin", str(admin_path)), env={**os.environ, "PYTHONIOENCODING": "ascii"}
    )

    assert result.returncode == 0, result.stderr
    assert "?" in result.stdout


def test_ctrl_c_ends_watch_without_a_traceback(fake: Any, admin_path: Path, spawn: Any) -> None:
    process = spawn([*WATCH, "--admin", str(admin_path)])
    while not any(request["method"] == "subscribe" for request in fake.requests):
        assert process.poll() is None
        time.sleep(0.01)

    process.send_signal(signal.SIGINT)

    _, complaint = process.communicate(timeout=20)
    assert process.returncode == 0
    assert complaint == ""
