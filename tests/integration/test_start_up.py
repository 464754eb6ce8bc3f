"""Starts that must be refused: one clear sentence that says what to do, and an exit code; nothing
changed, nobody disturbed.
"""

import hashlib
import os
import random
import socket
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bourse.journal.filesystem import is_memory_filesystem
from tests.integration.harness import Daemon, LogView, Orders, StartError, buy, pump


def refusal(daemon: Daemon, code: int, *words: str) -> str:
    """Start it; check that it says one sentence with these words, and ends with this code."""
    with pytest.raises(StartError) as caught:
        daemon.start()
    lines = caught.value.stderr.strip().splitlines()
    assert len(lines) == 1, lines
    assert caught.value.code == code, lines
    for word in words:
        assert word in lines[0], lines
    daemon.log_path.unlink()
    return lines[0]


def hashes(directory: Path) -> dict[str, str]:
    """Every file below a directory, and what is in it."""
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def traded(daemon: Daemon, orders: int = 300, seed: int = 1) -> Daemon:
    """The daemon after some trading, stopped; its log is clean."""
    daemon.start()
    client = daemon.connect()
    client.send_bytes(Orders(random.Random(seed)).batch(orders))
    daemon.settled()
    assert daemon.stop() == 0
    return daemon


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_data_directory_that_cannot_be_written_is_refused(
    new_daemon: Callable[..., Daemon],
) -> None:
    daemon = new_daemon()
    daemon.data_dir.mkdir(mode=0o500)

    refusal(daemon, 2, str(daemon.data_dir), "--data")


def test_a_data_directory_that_cannot_be_made_is_refused(
    new_daemon: Callable[..., Daemon],
) -> None:
    # Not even root makes a directory in /proc.
    refusal(new_daemon(data="/proc/bourse"), 2, "/proc/bourse", "--data")


def test_a_data_directory_that_is_a_file_is_refused(new_daemon: Callable[..., Daemon]) -> None:
    daemon = new_daemon()
    daemon.data_dir.write_text("precious")

    refusal(daemon, 2, str(daemon.data_dir), "--data")

    assert daemon.data_dir.read_text() == "precious"


def test_a_port_that_is_taken_is_refused(new_daemon: Callable[..., Daemon]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        daemon = new_daemon(listen=f"127.0.0.1:{port}")

        refusal(daemon, 4, f"127.0.0.1:{port}", "--listen")

    assert not daemon.data_dir.exists()


def test_a_second_daemon_on_a_data_directory_is_refused_and_the_first_trades_on(
    new_daemon: Callable[..., Daemon],
) -> None:
    first = new_daemon().start()
    client = first.connect()
    client.ask(buy(1), answers=1)
    for _ in range(3):
        second = new_daemon(data=str(first.data_dir))

        refusal(second, 4, str(first.data_dir), f"pid {first.pid}", "--data")

    client.ask(buy(2), answers=1)
    assert first.stop() == 0
    assert LogView.of(first.data_dir).result.resting_orders == 2


def test_removing_the_lock_file_of_a_live_daemon_lets_no_second_one_in(
    new_daemon: Callable[..., Daemon],
) -> None:
    first = new_daemon().start()
    client = first.connect()
    client.ask(buy(1), answers=1)
    (first.data_dir / "lock").unlink()
    second = new_daemon(data=str(first.data_dir))

    refusal(second, 4, str(first.data_dir), "--data")

    client.ask(buy(2), answers=1)
    assert first.stop() == 0
    assert LogView.of(first.data_dir).result.resting_orders == 2
    assert second.start().stop() == 0


def test_of_two_daemons_that_start_at_once_one_serves(new_daemon: Callable[..., Daemon]) -> None:
    first = new_daemon()
    second = new_daemon(data=str(first.data_dir))
    first.spawn()
    second.spawn()

    lines = [first._read_line(), second._read_line()]

    winner, loser = (first, second) if lines[0] else (second, first)
    assert sum(line is not None for line in lines) == 1
    assert loser.wait() == 4
    assert winner.stop() == 0
    assert not LogView.of(first.data_dir).result.torn_tail


@pytest.mark.parametrize("what", ["file", "directory", "symlink", "dangling symlink"])
def test_an_admin_path_that_is_in_use_is_refused_and_left_alone(
    new_daemon: Callable[..., Daemon], what: str
) -> None:
    daemon = new_daemon()
    path, target = daemon.admin_path, daemon.base / "target"
    if what == "file":
        path.write_text("precious")
    elif what == "directory":
        path.mkdir()
    else:
        path.symlink_to(target)
        if what == "symlink":
            target.write_text("precious")
    before = path.lstat().st_ino

    refusal(daemon, 2, str(path), "--admin")

    assert path.lstat().st_ino == before
    assert not target.is_socket()


def test_an_admin_path_of_a_live_daemon_is_refused_and_the_daemon_answers_on(
    new_daemon: Callable[..., Daemon],
) -> None:
    first = new_daemon().start()
    second = new_daemon(admin=str(first.admin_path))

    refusal(second, 4, str(first.admin_path))

    assert first.call("status").pid == first.pid


def test_a_dead_daemons_socket_is_replaced(new_daemon: Callable[..., Daemon]) -> None:
    daemon = new_daemon().start()
    daemon.kill()
    assert stat.S_ISSOCK(daemon.admin_path.lstat().st_mode)

    daemon.start()

    assert daemon.call("status").pid == daemon.pid


def segment_of(daemon: Daemon) -> Path:
    return daemon.data_dir / "wal" / "wal-00000001-00000000000000000001.log"


@pytest.mark.parametrize("place", [20, 4095, 4096, 4104, 4200, 10_000])
def test_a_flipped_bit_in_the_log_is_refused_and_the_file_left_alone(
    new_daemon: Callable[..., Daemon], place: int
) -> None:
    daemon = traded(new_daemon())
    data = bytearray(segment_of(daemon).read_bytes())
    data[place] ^= 0x10
    segment_of(daemon).write_bytes(data)
    before = hashes(daemon.data_dir / "wal")

    line = refusal(daemon, 65, "corrupt", str(segment_of(daemon)), "restore")

    assert "byte" in line
    assert hashes(daemon.data_dir / "wal") == before


def test_a_log_whose_end_is_cut_off_before_the_last_mark_still_starts_with_what_is_there(
    new_daemon: Callable[..., Daemon],
) -> None:
    """Nothing after the cut proves that there was more: that is what a torn tail is."""
    daemon = traded(new_daemon())
    data = segment_of(daemon).read_bytes()
    whole = LogView.of(daemon.data_dir)
    segment_of(daemon).write_bytes(data[: 4096 + 5_000])

    daemon.start()

    log = LogView.of(daemon.data_dir)
    assert 0 < log.result.last_wal_seq < whole.result.last_wal_seq
    heads = whole.event_bytes.startswith(log.event_bytes[: 64 * 20])
    assert heads
    assert daemon.log_lines("torn tail")


@pytest.mark.skipif(not is_memory_filesystem(Path("/dev/shm")), reason="/dev/shm is no tmpfs here")
@pytest.mark.parametrize("durability", ["fsync", "async"])
def test_a_data_directory_in_memory_is_called_out(
    new_daemon: Callable[..., Daemon], durability: str
) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as place:
        daemon = new_daemon(data=Path(place) / "data", durability=durability).start()

        (line,) = daemon.log_lines("WARNING", "tmpfs", durability, "no power loss", "--data")
        assert line.endswith(next(text for text in daemon.banner["report"] if "WARNING" in text))
        daemon.kill()


def test_policy_memory_refuses_a_directory_with_a_log(new_daemon: Callable[..., Daemon]) -> None:
    daemon = traded(new_daemon())
    before = hashes(daemon.data_dir / "wal")
    daemon.options["durability"] = "memory"

    refusal(daemon, 2, str(daemon.data_dir), "memory", "--data", "--durability")

    assert hashes(daemon.data_dir / "wal") == before


def test_the_symbol_of_the_log_is_what_is_traded(new_daemon: Callable[..., Daemon]) -> None:
    daemon = traded(new_daemon(symbol="ACME"), 1)
    daemon.options["symbol"] = "OTHER"
    daemon.start()

    assert daemon.banner["symbol"] == "ACME"
    assert any("ACME" in line and "OTHER" in line for line in daemon.banner["report"])
    assert daemon.call("status").symbol == daemon.call("depth").symbol == "ACME"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"durability": "maybe"}, ("durability", "maybe", "memory, async, fsync")),
        ({"poll": "sometimes"}, ("poll", "sometimes", "block, adaptive, busy")),
        ({"listen": "nowhere"}, ("listen", "nowhere", "HOST:PORT")),
        ({"listen": "127.0.0.1:99999"}, ("listen", "99999")),
        ({"listen": "192.0.2.1:0"}, ("192.0.2.1", "--listen")),
        ({"admin": "/tmp/" + "x" * 120}, ("--admin",)),
        ({"command_ring_count": 100}, ("command_ring_count", "100", "power of two")),
        ({"event_ring_count": 32}, ("event_ring_count", "32")),
        ({"frame_seconds": 0}, ("frame_seconds",)),
        ({"frame_second": 1}, ("frame_second", "frame_seconds")),
        ({"connections_max": "many"}, ("connections_max", "whole number")),
        ({"outbound_max_bytes": 8192}, ("outbound_max_bytes", "outbound_high_water_bytes")),
    ],
)
def test_a_bad_value_is_refused_before_anything_is_made(
    new_daemon: Callable[..., Daemon], options: dict[str, Any], words: tuple[str, ...]
) -> None:
    daemon = new_daemon(**options)

    refusal(daemon, 2, *words)

    assert not daemon.data_dir.exists()


def test_an_unknown_flag_is_refused(new_daemon: Callable[..., Daemon]) -> None:
    daemon = new_daemon()
    command = [*daemon.command_line(), "--durabilty", "fsync"]
    daemon.command_line = lambda: command  # type: ignore[method-assign]
    with pytest.raises(StartError) as caught:
        daemon.start()

    assert caught.value.code == 2
    assert "--durabilty" in caught.value.stderr
    daemon.log_path.unlink()


def test_a_refused_start_leaves_no_socket_and_no_lock(new_daemon: Callable[..., Daemon]) -> None:
    daemon = traded(new_daemon())
    good = segment_of(daemon).read_bytes()
    bad = bytearray(good)
    bad[4_200] ^= 1
    segment_of(daemon).write_bytes(bad)
    refusal(daemon, 65, "corrupt")
    assert not daemon.admin_path.exists()

    segment_of(daemon).write_bytes(good)
    daemon.start()

    client = daemon.connect()
    client.send_bytes(buy(1, 1, -9).pack())
    pump([client], lambda: bool(client.parse()))
