"""Halts, kicks and mass cancels of a real daemon: two steps, in the log, through kill -9."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bourse.admin.messages import CommitParams, Committed, Prepared, PrepareParams
from bourse.domain import CommandKind, Reason
from bourse.errors import AdminError, UnavailableError
from bourse.protocol.messages import Accepted, Cancel, Done
from tests.integration.harness import (
    Client,
    Daemon,
    LogView,
    buy,
    frames_owed,
    one_daemon,
    packed,
    pump,
    sell,
    wait_until,
)


@pytest.fixture(scope="module")
def shared() -> Iterator[Daemon]:
    with one_daemon(durability="async") as daemon:
        yield daemon


@pytest.fixture
def daemon(shared: Daemon) -> Iterator[Daemon]:
    yield shared
    assert shared.is_running, shared.log()
    if shared.call("status").halted:
        act(shared, "resume")
    if shared.call("status").live_orders:
        act(shared, "cancel_all")
    for client in shared.clients:
        client.close()
    shared.clients.clear()
    assert not shared.trouble()


def prepare(daemon: Daemon, action: str, session_id: int = 0) -> Prepared:
    found = daemon.call("prepare", PrepareParams(action, session_id))
    assert isinstance(found, Prepared)
    return found


def act(daemon: Daemon, action: str, session_id: int = 0) -> Committed:
    prepared = prepare(daemon, action, session_id)
    done = daemon.call("commit", CommitParams(prepared.token, "default"))
    assert isinstance(done, Committed)
    return done


def refused(call: Callable[[], Any]) -> str:
    with pytest.raises(AdminError) as caught:
        call()
    sentence = str(caught.value)
    assert " " in sentence
    assert "Traceback" not in sentence
    return sentence


def answers(client: Client, *requests: Any, count: int = 1) -> list[Any]:
    return client.ask(*requests, answers=count)


def test_a_halt_refuses_new_orders_and_lets_cancels_through(daemon: Daemon) -> None:
    client = daemon.connect()
    answers(client, buy(1, 5, 100))

    done = act(daemon, "halt")
    rejected = answers(client, sell(2, 5, 100))
    status, depth = daemon.call("status"), daemon.call("depth")
    cancelled = answers(client, Cancel(1))
    act(daemon, "resume")
    accepted = answers(client, buy(3, 5, 100))

    assert done.sentence.endswith("is halted: cancels only.")
    assert isinstance(rejected[0], Done)
    assert (rejected[0].reason, rejected[0].leaves_qty) == (5, 5)
    assert status.halted
    assert depth.halted
    assert depth.bids[0].qty_lots == 5
    assert cancelled[0].reason == 2
    assert isinstance(accepted[0], Accepted)
    assert not daemon.call("status").halted


def test_what_would_do_nothing_is_refused_before_it_is_asked_for(daemon: Daemon) -> None:
    assert "not halted" in refused(lambda: prepare(daemon, "resume"))
    assert "No live order" in refused(lambda: prepare(daemon, "cancel_all"))
    assert "no live order" in refused(lambda: prepare(daemon, "cancel_all", 4711))
    assert "No client" in refused(lambda: prepare(daemon, "kick", 4711))
    assert "no session's number" in refused(lambda: prepare(daemon, "kick"))
    assert "no session's number" in refused(lambda: prepare(daemon, "cancel_all", 1 << 32))
    assert "there are halt" in refused(lambda: prepare(daemon, "explode"))
    act(daemon, "halt")
    assert "already" in refused(lambda: prepare(daemon, "halt"))


def test_a_token_is_good_once_and_with_the_right_name_only(daemon: Daemon) -> None:
    token = prepare(daemon, "halt").token

    assert "called 'default'" in refused(
        lambda: daemon.call("commit", CommitParams(token, "defualt"))
    )
    assert "was used" in refused(lambda: daemon.call("commit", CommitParams(token, "default")))
    assert "was used" in refused(lambda: daemon.call("commit", CommitParams("guess", "default")))
    assert not daemon.call("status").halted
    token = prepare(daemon, "halt").token
    daemon.call("commit", CommitParams(token, "default"))
    assert "was used" in refused(lambda: daemon.call("commit", CommitParams(token, "default")))


def test_two_tokens_for_the_same_halt_do_it_once(daemon: Daemon) -> None:
    first, second = prepare(daemon, "halt"), prepare(daemon, "halt")

    daemon.call("commit", CommitParams(first.token, "default"))

    assert refused(lambda: daemon.call("commit", CommitParams(second.token, "default"))) == (
        Reason.ALREADY_HALTED.sentence
    )


def test_a_read_only_connection_can_change_nothing(daemon: Daemon) -> None:
    from tests.integration.test_admin import Line

    token = prepare(daemon, "halt").token
    with Line(daemon) as line:
        line.ask("hello", protocol_versions=[1], client="a watcher", read_only=True)
        for method, params in (
            ("prepare", {"action": "halt"}),
            ("commit", {"token": token, "typed": "default"}),
            ("order", {"side": "buy", "qty_lots": 1, "price_ticks": 1}),
            ("cancel", {"order_id": 1}),
            ("snapshot", {}),
            ("shutdown", {}),
        ):
            answer = line.ask(method, **params)
            assert "read-only" in answer["error"]["message"]
        assert not line.ask("status")["result"]["halted"]
    # It did not use the token up.
    daemon.call("commit", CommitParams(token, "default"))


def test_a_kicked_session_gets_its_answers_and_its_orders_stay(daemon: Daemon) -> None:
    client, other = daemon.connect(), daemon.connect()
    answers(client, buy(1, 5, 100), buy(2, 6, 99), count=2)
    session_id = daemon.session_of(client)
    prepared = prepare(daemon, "kick", session_id)

    done = daemon.call("commit", CommitParams(prepared.token, "default"))
    pump([client], lambda: bool(client.ended))

    assert (prepared.orders, prepared.qty_lots, prepared.sessions) == (2, 11, 1)
    assert prepared.impact[1] == "Its 2 live orders (11 lots) stay in the book."
    assert done.sentence == f"Session {session_id} is ended."
    assert client.ended == "eof"
    assert daemon.call("status").live_orders == 2
    assert isinstance(answers(other, buy(1, 1, 1))[0], Accepted)
    # Its orders are the operator's to cancel, though it is gone.
    assert act(daemon, "cancel_all", session_id).orders == 2


def test_orders_of_a_connection_that_lingers_can_trade_and_be_cancelled(daemon: Daemon) -> None:
    """Our side of it is closed, its own is not: nothing can be written to it any more."""
    client, other = daemon.connect(), daemon.connect()
    answers(client, buy(1, 5, 100), buy(2, 6, 99), count=2)
    client.send_bytes(b"not a frame of any version")
    pump([client], lambda: bool(client.ended))

    traded = answers(other, sell(1, 5, 100), count=3)
    act(daemon, "cancel_all")

    assert len(traded) == 3
    assert len(client.parse()) == 2
    assert daemon.call("status").live_orders == 0


def test_cancel_all_of_one_session_tells_it_and_leaves_the_others(daemon: Daemon) -> None:
    client, other = daemon.connect(), daemon.connect()
    answers(client, *(buy(number, 1, 100) for number in range(1, 1_301)), count=1_300)
    answers(other, buy(1, 7, 90))
    prepared = prepare(daemon, "cancel_all", daemon.session_of(client))

    done = daemon.call("commit", CommitParams(prepared.token, "default"))
    ended = client.receive(1_300)

    assert (prepared.orders, prepared.qty_lots, prepared.is_least) == (1_300, 1_300, False)
    assert (done.orders, done.sentence) == (1_300, "1,300 orders are cancelled.")
    assert [one.id for one in ended] == list(range(1, 1_301))
    assert {one.reason for one in ended} == {2}
    assert daemon.call("depth").bids[0].qty_lots == 7
    assert daemon.log_lines("operator: cancel all orders of session", "begun by", "pid")
    assert daemon.log_lines("1,300 orders are cancelled. (record")


def test_cancel_all_of_everybody_counts_what_it_hits(daemon: Daemon) -> None:
    clients = [daemon.connect() for _ in range(3)]
    for client in clients:
        answers(client, buy(1, 5, 100), sell(2, 6, 200), count=2)

    prepared = prepare(daemon, "cancel_all")
    done = daemon.call("commit", CommitParams(prepared.token, "default"))

    assert (prepared.orders, prepared.qty_lots, prepared.sessions) == (6, 33, 3)
    assert prepared.impact[0] == "6 live orders of 3 sessions are cancelled, 33 lots."
    assert done.orders == 6
    assert daemon.call("status").live_orders == 0


def test_the_commands_do_it(daemon: Daemon) -> None:
    def bourse(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "bourse", *arguments, "--admin", str(daemon.admin_path)]
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            stdin=subprocess.DEVNULL,
        )

    dry = bourse("halt", "--dry-run")
    asked = bourse("halt")
    wrong = bourse("halt", "--yes", "other")
    done = bourse("halt", "--yes", "default")
    status = bourse("daemon", "status")
    resumed = bourse("resume", "--yes", "default", "--json")

    assert (dry.returncode, asked.returncode, wrong.returncode) == (0, 2, 1)
    assert "New orders and replaces" in dry.stdout
    assert "nobody to ask" in asked.stderr
    assert "'other'" in wrong.stderr
    assert done.returncode == 0
    assert "is halted: cancels only. Record" in done.stdout
    assert "HALTED" in status.stdout
    assert json.loads(resumed.stdout)["action"] == "resume"


def test_a_kill_between_prepare_and_commit_leaves_nothing(
    new_daemon: Callable[..., Daemon],
) -> None:
    daemon = new_daemon(durability="fsync").start()
    token = prepare(daemon, "halt").token
    daemon.kill()
    daemon.start()

    assert not daemon.call("status").halted
    assert "was used, or the daemon began anew" in refused(
        lambda: daemon.call("commit", CommitParams(token, "default"))
    )
    kinds = {command.kind for command in LogView.of(daemon.data_dir).commands}
    assert not kinds & {CommandKind.HALT, CommandKind.MASS_CANCEL}


def test_a_kill_in_the_middle_of_a_mass_cancel_leaves_what_the_log_has(
    new_daemon: Callable[..., Daemon],
) -> None:
    count = 20_000
    # Rings that are smaller than what one batch makes of events.
    daemon = new_daemon(durability="fsync", event_ring_count=256, journal_ring_count=64).start()
    client = daemon.connect()
    for first in range(1, count, 2_000):
        client.ask(*(buy(first + more, 1, 100) for more in range(2_000)), answers=2_000)
    token = prepare(daemon, "cancel_all").token

    def commit() -> None:
        with contextlib.suppress(UnavailableError):
            daemon.call("commit", CommitParams(token, "default"))

    committing = threading.Thread(target=commit)
    committing.start()
    told = len(client.receive(1)) + len(client.pending())
    daemon.kill()
    committing.join()
    told += len(client.pending())
    view = LogView.of(daemon.data_dir)
    daemon.start()
    status = daemon.call("status")

    ended = sum(event.reason == Reason.OPERATOR_CANCELLED for event in view.events)
    assert 0 < told <= ended
    assert status.live_orders == count - ended
    assert int(status.state_digest, 16) == view.result.state_digest
    assert packed(frames_owed(view.events)[2]).startswith(bytes(client.received))
    if ended < count:
        assert act(daemon, "cancel_all").orders == count - ended
    assert daemon.call("status").live_orders == 0


@pytest.mark.parametrize("with_snapshot", [False, True])
def test_what_was_committed_is_there_after_a_kill_and_in_every_replay(
    new_daemon: Callable[..., Daemon], with_snapshot: bool
) -> None:
    daemon = new_daemon(durability="fsync").start()
    clients = [daemon.connect() for _ in range(2)]
    for client in clients:
        answers(client, *(buy(number, 2, 100) for number in range(1, 701)), count=700)
    sessions = [daemon.session_of(client) for client in clients]
    act(daemon, "halt")
    act(daemon, "cancel_all", sessions[0])
    act(daemon, "kick", sessions[1])
    if with_snapshot:
        daemon.call("snapshot")
    pump(clients, lambda: len(clients[0].parse()) == 1_400 and bool(clients[1].ended))
    status = daemon.settled()
    daemon.kill()

    view = LogView.of(daemon.data_dir)
    daemon.start()
    after = daemon.call("status")

    assert status.halted
    assert after.halted
    assert after.live_orders == status.live_orders == 700
    assert after.state_digest == status.state_digest
    assert after.event_digest == status.event_digest
    assert view.result.state_digest == int(status.state_digest, 16)
    owed = frames_owed(view.events)
    for client, session_id in zip(clients, sessions, strict=True):
        assert bytes(client.received) == packed(owed[session_id])
    kinds = [command.kind for command in view.commands]
    assert kinds.count(CommandKind.HALT) == 1
    # Two batches, and more that found nothing left.
    assert kinds.count(CommandKind.MASS_CANCEL) >= 3
    client = daemon.connect()
    assert answers(client, buy(1, 1, 100))[0].reason == 5
    act(daemon, "resume")
    assert isinstance(answers(client, buy(2, 1, 100))[0], Accepted)
    wait_until(lambda: daemon.call("status").live_orders == 701)
