"""Planted mistakes: each must be noticed within a bounded number of seeds."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any
from unittest import mock

import msgspec

from bourse.daemon import pipeline
from bourse.daemon.gateway import Gateway
from bourse.domain import Durability
from bourse.journal import recovery, retention, segment, storage
from bourse.journal.apply import Applier

if TYPE_CHECKING:
    from tests.simulation.life import Life


def _acknowledge_before_sync(life: Life) -> list[Any]:
    """The gateway's gate opens when a record is written, under policy fsync too."""

    def gateway(*arguments: Any) -> Gateway:
        given = list(arguments)
        if given[6].durability is Durability.FSYNC:
            given[6] = copy.copy(given[6])
            msgspec.structs.force_setattr(given[6], "durability", Durability.ASYNC)
        return Gateway(*given)

    return [mock.patch.object(pipeline, "Gateway", gateway)]


def _lying_sync(life: Life) -> list[Any]:
    """A sync does nothing and says that it did."""
    life.disk.is_lying = True
    return []


def _skip_directory_sync(life: Life) -> list[Any]:
    """Names are never made durable."""
    return [mock.patch.object(storage, "sync_directory", lambda path: None)]


def _corrupt_is_torn(life: Life) -> list[Any]:
    """Nobody looks whether something later proves that what is bad was durable."""
    return [mock.patch.object(segment, "_find_proof", lambda *_: 0)]


def _torn_is_corrupt(life: Life) -> list[Any]:
    """Every bad item is called damage."""
    return [mock.patch.object(segment, "_find_proof", lambda *_: 4096)]


def _forget_one_record(life: Life) -> list[Any]:
    """The first record after a snapshot is not executed."""

    def applier(engine: Any, skip_through: int) -> Applier:
        return Applier(engine, skip_through + (skip_through > 0))

    return [mock.patch.object(recovery, "Applier", applier)]


def _apply_tail_twice(life: Life) -> list[Any]:
    """The records after the snapshot are executed, and then again."""
    real = segment.walk_log

    def twice(*arguments: Any) -> Any:
        real(*arguments)
        return real(*arguments)

    return [mock.patch.object(segment, "walk_log", twice)]


def _believe_the_cache(life: Life) -> list[Any]:
    """Recovery takes for durable what the page cache shows."""
    return [mock.patch.object(recovery, "_confirm_durable", lambda *_: None)]


def _names_left_in_the_cache(life: Life) -> list[Any]:
    """A start trusts the names that it finds (so it was until the simulation found it)."""
    return [mock.patch.object(storage, "confirm_names", lambda path: None)]


def _prune_too_early(life: Life) -> list[Any]:
    """Every segment before the one that is written goes, whatever the snapshots cover."""

    def superfluous(self: Any, covered_seq: int, current_index: int) -> list[Any]:
        return [
            path
            for path in storage.list_segments(life.root)
            if (storage.segment_index_of(path) or 0) < current_index
        ]

    return [mock.patch.object(retention.Retention, "_superfluous", superfluous)]


_PLANTED: dict[str, Callable[[Life], list[Any]]] = {
    "acknowledge-before-sync": _acknowledge_before_sync,
    "lying-sync": _lying_sync,
    "skip-directory-sync": _skip_directory_sync,
    "corrupt-is-torn": _corrupt_is_torn,
    "torn-is-corrupt": _torn_is_corrupt,
    "forget-one-record": _forget_one_record,
    "apply-tail-twice": _apply_tail_twice,
    "believe-the-cache": _believe_the_cache,
    "names-left-in-the-cache": _names_left_in_the_cache,
    "prune-too-early": _prune_too_early,
}

MUTATIONS = tuple(_PLANTED)


@contextlib.contextmanager
def planted(mutation: str, life: Life) -> Iterator[None]:
    """Make a mistake for the time of one run."""
    with contextlib.ExitStack() as stack:
        for patch in _PLANTED[mutation](life) if mutation else []:
            stack.enter_context(patch)
        yield
