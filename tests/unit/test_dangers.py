"""Tokens of dangerous actions, and a stop in the middle of a mass cancel."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from typing import Any

import pytest

from bourse.admin.messages import CommitParams, PrepareParams
from bourse.core.records import EVENT
from bourse.daemon.dangers import BATCHES_AHEAD, TOKENS_MAX, TTL_SECONDS, Dangers
from bourse.daemon.desk import Impact, Operated
from bourse.domain import CommandKind, EventKind, Reason
from bourse.errors import AdminError


def operated(reason: Reason, wal_seq: int = 1, order_id: int = 0, count: int = 0) -> Operated:
    head = EVENT.pack(EventKind.HEAD, reason, 0, 0, 1, wal_seq, 0, order_id, 0, 0, 0, 0, 0)
    return Operated([head], count, 0)


class Fake:
    """Gateway and desk in one; answers mass cancels from a list."""

    def __init__(self) -> None:
        self.stopping = False
        self.counters = {"connections": 3}
        self.now_ns = 10**15
        self.sent: list[Any] = []
        self.answers: list[Operated] = []
        self.most_under_way = 0
        self._under_way = 0

    async def read_impact(self, session_id: int) -> Impact:
        return Impact(70_000, 2**64 - 1, 1, True, False, True)

    def is_open(self, session_id: int) -> bool:
        return True

    def operate(self, command: Any) -> asyncio.Future[Operated]:
        self.sent.append(command)
        self._under_way += 1
        self.most_under_way = max(self.most_under_way, self._under_way)
        return asyncio.ensure_future(self._answer())

    async def _answer(self) -> Operated:
        await asyncio.sleep(0)
        self._under_way -= 1
        answer = self.answers.pop(0) if self.answers else operated(Reason.NOTHING_TO_CANCEL)
        if answer.counted == 77:
            self.stopping = True
        return answer


def dangers(fake: Fake) -> Dangers:
    pipeline = SimpleNamespace(
        gateway=fake,
        desk=fake,
        config=SimpleNamespace(instance="default", cancel_on_disconnect=True),
        store=SimpleNamespace(symbol="DEMO"),
    )
    return Dangers(pipeline, logging.getLogger("test"), lambda: fake.now_ns)  # type: ignore[arg-type]


def commit(found: Dangers, token: str) -> Any:
    return asyncio.run(found.commit(CommitParams(token, "default")))


def token_of(found: Dangers, action: str = "cancel_all", session_id: int = 0) -> str:
    return asyncio.run(found.prepare(PrepareParams(action, session_id))).token


def test_a_token_ends_with_its_time() -> None:
    fake = Fake()
    found = dangers(fake)
    fake.answers = [operated(Reason.NONE), operated(Reason.NONE)]
    early, late = token_of(found, "halt"), token_of(found, "halt")

    fake.now_ns += int(TTL_SECONDS * 1e9) - 1
    commit(found, early)
    fake.now_ns += 1

    with pytest.raises(AdminError, match="30 seconds only"):
        commit(found, late)
    assert len(fake.sent) == 1


def test_the_oldest_token_makes_room() -> None:
    found = dangers(Fake())
    tokens = [token_of(found) for _ in range(TOKENS_MAX + 1)]

    assert len(set(tokens)) == TOKENS_MAX + 1
    with pytest.raises(AdminError, match="was used"):
        commit(found, tokens[0])
    with pytest.raises(AdminError, match=Reason.NOTHING_TO_CANCEL.sentence):
        commit(found, tokens[1])


def test_what_was_not_counted_to_the_end_is_said_so() -> None:
    found = dangers(Fake())

    everybody = asyncio.run(found.prepare(PrepareParams("cancel_all"))).impact[0]
    one = asyncio.run(found.prepare(PrepareParams("kick", 7))).impact[1]

    assert everybody.startswith("70,000 live orders of 1 session are cancelled, more than ")
    assert one.startswith("Its more than 70,000 live orders (more than ")
    assert one.endswith("are cancelled with it.")


def test_a_mass_cancel_goes_on_until_nothing_is_left() -> None:
    fake = Fake()
    found = dangers(fake)
    fake.answers = [operated(Reason.NONE, 10 + n, 99, 500) for n in range(9)]

    done = commit(found, token_of(found, session_id=7))

    assert (done.orders, done.wal_seq) == (4_500, 18)
    assert {command.kind for command in fake.sent} == {CommandKind.MASS_CANCEL}
    assert {command.client_order_id for command in fake.sent} == {7}
    # Only what was there at first is meant.
    assert [command.order_id for command in fake.sent] == [0] + [99] * (len(fake.sent) - 1)
    assert fake.most_under_way == BATCHES_AHEAD


def test_a_stop_in_the_middle_says_how_far_it_came() -> None:
    fake = Fake()
    found = dangers(fake)
    fake.answers = [operated(Reason.NONE, 10, 99, 500), operated(Reason.NONE, 11, 99, 77)]
    fake.answers += [operated(Reason.NONE, 12, 99, 1) for _ in range(20)]

    with pytest.raises(AdminError, match=r"580 orders were cancelled .* the others stay"):
        commit(found, token_of(found))
