"""Actions that end or cancel what belongs to others, in two steps: prepare, then commit.

    prepare ─► what it would hit, a token      nothing has changed
    commit  ─► token and instance name right?  ─► commands of the operator's session, in the log

A token is good once, for TTL_SECONDS on the monotonic clock, in this process. A kill between the
two steps leaves nothing behind; after a commit was answered the log has it. Each step is a line in
the daemon's log. The commands themselves are docs/matching.md, section 7.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from bourse.admin import messages
from bourse.admin.messages import ErrorCode
from bourse.core.records import EVENT, Command
from bourse.daemon.admin_server import caller
from bourse.daemon.clock import mono_ns
from bourse.domain import INSTRUMENT_ID, OPERATOR_SESSION_ID, CommandKind, Reason
from bourse.errors import AdminError

if TYPE_CHECKING:
    from bourse.daemon.desk import Impact, Operated
    from bourse.daemon.pipeline import Pipeline

TTL_SECONDS = 30.0
"""Long enough to read and to type a name, too short to be found lying about."""
TOKENS_MAX = 64
"""Outstanding ones; the oldest is dropped for another."""
BATCH_ORDERS = 500
"""Orders that one mass cancel ends at most, so that others' commands wait for no more."""
BATCHES_AHEAD = 4
"""Mass cancels on their way at once: a single one would wait for a sync before the next."""

_ACTIONS = ("halt", "resume", "kick", "cancel_all")
_HEAD_REASON, _HEAD_SEQUENCE, _HEAD_ORDER_ID = 1, 5, 7
"""Positions in an event, as records.EVENT unpacks it."""


class _Ticket(NamedTuple):
    """A token's other half."""

    action: str
    session_id: int
    expires_ns: int


class Dangers:
    """The tokens that are good now, and what they open."""

    def __init__(
        self, pipeline: Pipeline, log: logging.Logger, clock_ns: Callable[[], int] = mono_ns
    ) -> None:
        self._gateway = pipeline.gateway
        self._desk = pipeline.desk
        self._instance = pipeline.config.instance
        self._symbol = pipeline.store.symbol
        self._cancels = pipeline.config.cancel_on_disconnect
        self._log = log
        self._clock_ns = clock_ns
        self._tickets: dict[str, _Ticket] = {}

    async def prepare(self, params: messages.PrepareParams) -> messages.Prepared:
        """Say what an action would hit, and give a token for it.

        Raises:
            AdminError: it would hit nothing, or there is no such action or session.
        """
        action, session_id = params.action, params.session_id
        if action not in _ACTIONS:
            raise AdminError(
                ErrorCode.INVALID_PARAMS,
                f"no action {action!r}; there are {', '.join(_ACTIONS)}",
            )
        if action in ("halt", "resume"):
            session_id = 0
        if not 0 <= session_id < 1 << 32 or (action == "kick" and not session_id):
            raise AdminError(ErrorCode.INVALID_PARAMS, f"{session_id} is no session's number")
        self._check_running()
        found = await self._desk.read_impact(session_id)
        if refusal := self._refusal(action, session_id, found):
            raise AdminError(ErrorCode.REFUSED, refusal)
        token = self._new_token(action, session_id)
        title = self._title(action, session_id)
        self._log.info("operator: %s prepared by %s", title, caller.get())
        return messages.Prepared(
            token=token,
            action=action,
            session_id=session_id,
            instance=self._instance,
            symbol=self._symbol,
            title=title,
            impact=self._impact(action, session_id, found),
            orders=found.orders,
            qty_lots=found.qty_lots,
            sessions=found.sessions,
            is_least=found.is_least,
            connections=self._gateway.counters["connections"],
            ttl_seconds=TTL_SECONDS,
        )

    async def commit(self, params: messages.CommitParams) -> messages.Committed:
        """Do what was prepared, and answer when it is as safe as the policy says.

        Raises:
            AdminError: the token or the name is wrong, or it cannot be done any more.
        """
        ticket = self._take(params)
        self._check_running()
        title = self._title(ticket.action, ticket.session_id)
        self._log.warning("operator: %s begun by %s", title, caller.get())
        try:
            done = await self._perform(ticket)
        except AdminError as error:
            self._log.warning("operator: %s: %s", title, error)
            raise
        self._log.warning("operator: %s: %s (record %d)", title, done.sentence, done.wal_seq)
        return done

    # Tokens.

    def _new_token(self, action: str, session_id: int) -> str:
        now_ns = self._clock_ns()
        alive = {key: one for key, one in self._tickets.items() if one.expires_ns > now_ns}
        while len(alive) >= TOKENS_MAX:
            del alive[next(iter(alive))]
        self._tickets = alive
        token = secrets.token_urlsafe(12)
        self._tickets[token] = _Ticket(action, session_id, now_ns + int(TTL_SECONDS * 1e9))
        return token

    def _take(self, params: messages.CommitParams) -> _Ticket:
        """Use a token up.

        Raises:
            AdminError: it is not good, or the name is not this instance's.
        """
        ticket = self._tickets.pop(params.token, None)
        if ticket is None:
            refusal = "this token was used, or the daemon began anew since; ask again"
        elif self._clock_ns() >= ticket.expires_ns:
            refusal = f"this token was good for {TTL_SECONDS:.0f} seconds only; ask again"
        elif params.typed != self._instance:
            refusal = (
                f"the name typed is {params.typed[:80]!r}, this instance is called "
                f"{self._instance!r}; nothing was done"
            )
        else:
            return ticket
        self._log.warning("operator: a commit by %s is refused: %s", caller.get(), refusal)
        raise AdminError(ErrorCode.REFUSED, refusal)

    # Words.

    def _title(self, action: str, session_id: int) -> str:
        """Say what an action is."""
        return {
            "halt": f"halt {self._symbol}",
            "resume": f"resume {self._symbol}",
            "kick": f"kick session {session_id}",
            "cancel_all": f"cancel all orders of session {session_id}"
            if session_id
            else "cancel all orders of everybody",
        }[action]

    def _refusal(self, action: str, session_id: int, found: Impact) -> str:
        """Say why an action would do nothing; empty when it would do something."""
        if action == "halt" and found.is_halted:
            return Reason.ALREADY_HALTED.sentence
        if action == "resume" and not found.is_halted:
            return Reason.NOT_HALTED.sentence
        if action == "kick" and not self._gateway.is_open(session_id):
            return f"No client is connected as session {session_id}."
        if action == "cancel_all" and not found.orders:
            return (
                f"Session {session_id} has no live order."
                if session_id
                else Reason.NOTHING_TO_CANCEL.sentence
            )
        return ""

    def _impact(self, action: str, session_id: int, found: Impact) -> list[str]:
        """Say what an action would hit, in sentences."""
        connected = _count(self._gateway.counters["connections"], "client is", "clients are")
        orders = _count(found.orders, "live order", "live orders")
        lots = _count(found.qty_lots, "lot", "lots")
        if found.is_least:
            # Of a session the orders were counted up to a bound, of everybody the quantity.
            orders = f"more than {orders}" if session_id else orders
            lots = f"more than {lots}"
        owners = _count(found.sessions, "session", "sessions")
        if action == "halt":
            return [
                f"New orders and replaces in {self._symbol} are refused; cancels work.",
                f"{orders} of {owners} stay in the book, {lots}.",
                f"{connected} connected.",
            ]
        if action == "resume":
            return [
                f"{self._symbol} trades again.",
                f"{orders} of {owners} are in the book, {lots}.",
                f"{connected} connected.",
            ]
        if action == "kick":
            stay = "are cancelled with it" if self._cancels else "stay in the book"
            return [
                f"Session {session_id} gets its answers, then its connection is closed.",
                f"Its {orders} ({lots}) {stay}.",
                "The client may connect again, as a new session.",
            ]
        return [f"{orders} of {owners} are cancelled, {lots}.", f"{connected} connected."]

    # Deeds.

    def _check_running(self) -> None:
        if self._gateway.stopping:
            raise AdminError(
                ErrorCode.SHUTTING_DOWN, "the daemon is shutting down; ask again when it is back"
            )

    async def _perform(self, ticket: _Ticket) -> messages.Committed:
        if ticket.action == "kick":
            return await self._kick(ticket.session_id)
        if ticket.action == "cancel_all":
            return await self._cancel_all(ticket.session_id)
        kind = CommandKind.HALT if ticket.action == "halt" else CommandKind.RESUME
        reason, wal_seq, _ = _head(
            await self._desk.operate(
                Command(kind=kind, instrument_id=INSTRUMENT_ID, session_id=OPERATOR_SESSION_ID)
            )
        )
        if reason:
            raise AdminError(ErrorCode.REFUSED, reason.sentence)
        sentence = (
            f"{self._symbol} is halted: cancels only."
            if ticket.action == "halt"
            else f"{self._symbol} trades again."
        )
        return messages.Committed(ticket.action, 0, wal_seq, 0, sentence)

    async def _kick(self, session_id: int) -> messages.Committed:
        if not self._gateway.kick(session_id):
            raise AdminError(
                ErrorCode.REFUSED, f"Session {session_id} has gone by itself meanwhile."
            )
        await self._desk.fence()
        return messages.Committed(
            "kick", session_id, self._gateway.wal_seq, 0, f"Session {session_id} is ended."
        )

    async def _cancel_all(self, session_id: int) -> messages.Committed:
        """Cancel in batches what is live now, until the engine says that nothing is left."""
        command = Command(
            kind=CommandKind.MASS_CANCEL,
            session_id=OPERATOR_SESSION_ID,
            client_order_id=session_id,
            qty_lots=BATCH_ORDERS,
        )
        first = await self._desk.operate(command)
        reason, wal_seq, last_order_id = _head(first)
        count = first.counted
        under_way: deque[asyncio.Future[Operated]] = deque()
        is_over = bool(reason)
        # What comes meanwhile is not meant: new orders would keep it going for ever.
        command = command._replace(order_id=last_order_id)
        while True:
            while not is_over and len(under_way) < BATCHES_AHEAD and not self._gateway.stopping:
                under_way.append(self._desk.operate(command))
            if not under_way:
                break
            batch = await under_way.popleft()
            reason, sequence, _ = _head(batch)
            if reason:
                # UNKNOWN_SESSION: it was closed, and its last order is gone.
                is_over = True
            else:
                wal_seq, count = sequence, count + batch.counted
        if not is_over:
            raise AdminError(
                ErrorCode.SHUTTING_DOWN,
                f"{count:,} orders were cancelled before the daemon began to shut down; "
                "the others stay",
            )
        if count == 0:
            raise AdminError(ErrorCode.REFUSED, reason.sentence)
        cancelled = _count(count, "order is", "orders are")
        return messages.Committed(
            "cancel_all", session_id, wal_seq, count, f"{cancelled} cancelled."
        )


def _head(done: Operated) -> tuple[Reason, int, int]:
    """Return the reason, the wal_seq and the order id of a command's HEAD.

    Raises:
        AdminError: there is none.
    """
    if not done.events:
        raise AdminError(ErrorCode.INTERNAL, "the command's events were lost")
    fields = EVENT.unpack(done.events[0])
    return Reason(fields[_HEAD_REASON]), fields[_HEAD_SEQUENCE], fields[_HEAD_ORDER_ID]


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"
