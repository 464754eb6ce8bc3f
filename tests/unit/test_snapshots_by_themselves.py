"""Snapshots that the daemon takes by itself go on after one that failed, whatever the reason."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from types import SimpleNamespace

import pytest

from bourse.admin.messages import ErrorCode
from bourse.daemon import snapshots
from bourse.domain import Durability, WalRetention
from bourse.errors import AdminError


def made(tmp_path: Path) -> snapshots.Snapshots:
    """Snapshots of a daemon that has executed five commands; one is due after each."""
    config = SimpleNamespace(
        data=str(tmp_path),
        durability=Durability.FSYNC,
        snapshots_kept=1,
        wal_retention=WalRetention.KEEP,
        snapshot_every_records=1,
        snapshot_every_minutes=0,
    )
    pipeline = SimpleNamespace(
        config=config,
        store=SimpleNamespace(store_id=bytes(16), snapshot_seq=0),
        gateway=SimpleNamespace(wal_seq=5),
    )
    return snapshots.Snapshots(pipeline, logging.getLogger("test"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (AdminError(ErrorCode.REFUSED, "the disk is full"), "the disk is full"),
        (FileNotFoundError("removed under our eyes"), "bug: no snapshot was taken"),
        (ValueError("a part is wrong"), "bug: no snapshot was taken"),
    ],
)
def test_the_next_one_is_tried_after_any_failure(
    error: Exception,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    subject = made(tmp_path)
    tried: list[None] = []

    async def take() -> None:
        tried.append(None)
        raise error

    monkeypatch.setattr(subject, "take", take)
    monkeypatch.setattr(snapshots, "LOOK_SECONDS", 0.001)
    monkeypatch.setattr(snapshots, "RETRY_NS", 1)

    async def look() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(subject.run(), 0.3)

    asyncio.run(look())

    assert len(tried) > 1
    assert words in caplog.text


def test_a_snapshot_that_goes_while_it_is_listed_is_not_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "snapshots" / f"snapshot-{7:020}.snap"
    monkeypatch.setattr(snapshots.storage, "list_snapshots", lambda _: [gone])

    assert made(tmp_path).listed == []
