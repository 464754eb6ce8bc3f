"""Files of a data directory: ownership, atomic creation, sentences for errors."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from bourse.errors import JournalError, OwnershipError, UsageError
from bourse.journal import storage
from bourse.journal.storage import DataLock, is_owned

HOLD = """
import sys
from pathlib import Path
from bourse.journal.storage import DataLock
with DataLock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that owns `tmp_path`."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_second_owner_is_refused_with_a_sentence_and_the_first_is_undisturbed(tmp_path, holder):
    content = (tmp_path / "lock").read_bytes()

    with pytest.raises(OwnershipError) as error:
        DataLock(tmp_path).acquire()

    assert str(tmp_path) in str(error.value)
    assert f"pid {holder.pid}" in str(error.value)
    assert (tmp_path / "lock").read_bytes() == content
    assert is_owned(tmp_path)


def test_lock_goes_with_the_process_however_it_ends(tmp_path, holder):
    holder.kill()
    holder.wait()

    with DataLock(tmp_path) as lock:
        assert lock.is_held()
        assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"
    assert not is_owned(tmp_path)


@pytest.mark.parametrize("text", ["", "1\n", "not a pid", "999999999"])
def test_what_the_file_says_decides_nothing(tmp_path, text):
    (tmp_path / "lock").write_text(text)

    with DataLock(tmp_path) as lock:
        assert lock.is_held()


def test_unlinked_lock_is_noticed_and_lets_nobody_in(tmp_path):
    with DataLock(tmp_path) as lock:
        lock.path.unlink()
        assert not lock.is_held()
        for _ in range(2):
            with pytest.raises(OwnershipError, match="lock file was removed"):
                DataLock(tmp_path).acquire()
    with DataLock(tmp_path) as second:
        assert second.is_held()


def test_lock_taken_on_a_replaced_file_is_taken_again(tmp_path, monkeypatch):
    """Between open and flock another process unlinks and recreates the file."""
    real = DataLock._lock
    calls = []

    def racing(self, fd):
        if not calls:
            self.path.unlink()
            self.path.write_text("")
        calls.append(fd)
        real(self, fd)

    monkeypatch.setattr(DataLock, "_lock", racing)

    with DataLock(tmp_path) as lock:
        assert lock.is_held()
    assert len(calls) == 2


def test_lock_is_not_inherited_by_a_child(tmp_path):
    lock = DataLock(tmp_path)
    lock.acquire()
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    lock.release()
    try:
        with DataLock(tmp_path) as again:
            assert again.is_held()
    finally:
        child.communicate(b"\n")


def test_symlink_as_lock_is_not_followed(tmp_path):
    target = tmp_path / "target"
    target.write_text("precious")
    data_dir = tmp_path / "data"
    data_dir.mkdir()
    (data_dir / "lock").symlink_to(target)

    with pytest.raises(UsageError):
        DataLock(data_dir).acquire()
    assert target.read_text() == "precious"


def test_directory_that_cannot_be_made_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(UsageError, match="choose another"):
            DataLock(path).acquire()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_directory_without_permission_is_one_sentence(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(UsageError, match="permissions"):
        DataLock(tmp_path).acquire()
    tmp_path.chmod(0o700)


def test_parents_are_made_private_and_synced(tmp_path, monkeypatch):
    synced = []
    real = storage.sync_directory
    monkeypatch.setattr(storage, "sync_directory", lambda path: (synced.append(path), real(path)))

    storage.make_directory(tmp_path / "a" / "b")

    assert synced == [tmp_path, tmp_path / "a"]
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700


def test_file_is_whole_under_its_name_or_not_there(tmp_path, monkeypatch):
    path = tmp_path / "file"
    storage.create_file(path, [b"abc", b"de"], 4096)
    assert path.read_bytes() == b"abcde".ljust(4096, b"\0")

    def refuse(fd):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(JournalError, match="Input/output error"):
        storage.create_file(path, [b"other"])
    assert path.read_bytes() == b"abcde".ljust(4096, b"\0")
    assert os.listdir(tmp_path) == ["file"]  # noqa: PTH208


def test_short_writes_are_completed(tmp_path, monkeypatch):
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, offset: real(fd, bytes(data[:3]), offset))
    storage.create_file(tmp_path / "file", [b"0123456789"], 16)
    assert (tmp_path / "file").read_bytes() == b"0123456789".ljust(16, b"\0")


def test_same_torn_bytes_are_kept_once_and_others_beside_them(tmp_path):
    path = tmp_path / "wal-00000001.log"
    for content, expected in (
        (b"A" * 16 + b"torn", "wal-00000001.log.16.torn"),
        (b"A" * 16 + b"torn", "wal-00000001.log.16.torn"),
        (b"A" * 16 + b"rent", "wal-00000001.log.16-2.torn"),
    ):
        path.write_bytes(content)
        saved = storage.cut_tail(path, 16, 4, 64)
        assert saved.name == expected
        assert saved.read_bytes() == content[16:]
        assert path.read_bytes() == b"A" * 16 + bytes(48)


def test_a_log_is_seen(tmp_path):
    assert not storage.has_log(tmp_path)
    (tmp_path / "wal").mkdir()
    (tmp_path / "wal" / "wal-00000001.log.16.torn").write_text("")
    assert not storage.has_log(tmp_path)
    (tmp_path / "wal" / "wal-00000001.log").write_text("")
    assert storage.has_log(tmp_path)


def test_a_pipe_as_lock_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "lock")

    assert not is_owned(tmp_path)
    with pytest.raises(UsageError, match="lock is not a regular file"):
        DataLock(tmp_path).acquire()


def test_a_path_that_is_too_long_is_refused_in_a_sentence(tmp_path):
    with pytest.raises(UsageError, match="File name too long; choose another with --data"):
        storage.make_directory(tmp_path / ("x" * 300))
