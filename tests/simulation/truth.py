"""What must be true after every recovery, computed from nothing but the commands in the log.

The reference is a fresh engine that is fed with the log's commands, one after another; for some
seeds the plain-Python model of tests/matching executes them too.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from bourse.core.engine import Engine
from bourse.core.records import Command, EngineState, unpack_events, unpack_order_records
from bourse.domain import OPERATOR_SESSION_ID, CommandKind
from bourse.protocol.messages import Cancel, NewOrder
from tests.integration.harness import frames_owed, packed, request_key
from tests.matching.model import Model

SEGMENT_HEADER_BYTES = 4096
BATCH_HEADER = struct.Struct("<4sIQQIIQQI12x")
RECORD_HEADER = struct.Struct("<IIQHHI")


OPERATORS = (CommandKind.HALT, CommandKind.RESUME, CommandKind.MASS_CANCEL)


class Failure(Exception):  # noqa: N818 (the word that people look for)
    """Something that must be true is not; the text says what."""


def require(is_true: bool, text: str) -> None:
    """Fail the run unless this holds."""
    if not is_true:
        raise Failure(text)


@dataclass
class Peer:
    """One connection as its client remembers it."""

    session_id: int
    sent: list[NewOrder | Cancel] = field(default_factory=list)
    received: list[tuple[int, bytes]] = field(default_factory=list)
    """Simulated time, and what came."""
    logged_count: int = 0
    """How many of `sent` the log has."""


def batch_commands(data: bytes) -> list[tuple[int, bytes]]:
    """Return the whole records of a batch, as (wal_seq, command): the reader's slow twin."""
    found: list[tuple[int, bytes]] = []
    if data.startswith(b"BOURSWAL"):
        # The first batch of a segment comes with the header.
        data = data[SEGMENT_HEADER_BYTES:]
    if len(data) < BATCH_HEADER.size or data[:4] != b"BTCH":
        return found
    count = BATCH_HEADER.unpack_from(data)[4]
    at = BATCH_HEADER.size
    for _ in range(count):
        if len(data) < at + RECORD_HEADER.size:
            break
        length, _, wal_seq, *_ = RECORD_HEADER.unpack_from(data, at)
        if len(data) < at + length:
            break
        found.append((wal_seq, data[at + 24 : at + 88]))
        at += length
    return found


class Truth:
    """The reference of one data directory's life."""

    def __init__(self, with_model: bool) -> None:
        self.engine = Engine()
        self.model = Model() if with_model else None
        self.kinds: dict[int, int] = {}
        self.operated: list[Command] = []
        """What the operator has sent since the recovery before."""
        self.operated_count = 0
        """How many of those the log has."""

    @property
    def wal_seq(self) -> int:
        return self.engine.wal_seq

    def extend(
        self, commands: list[bytes], peers: dict[int, Peer], known_ids: set[int]
    ) -> dict[int, bytes]:
        """Execute what a recovery found to be new; returns the frames that each session is owed.

        Args:
            commands: in the log's order.
            peers: the connections that there were since the recovery before, by session.
            known_ids: sessions of earlier lives, which the daemon itself ends.
        """
        events = []
        for data in commands:
            command = Command.unpack(data)
            self._check_origin(command, peers, known_ids)
            found = unpack_events(self.engine.apply(data))
            if self.model is not None:
                require(self.model.execute(command) == found, "model and engine differ")
            events += found
        self.engine.check()
        if self.model is not None:
            state = EngineState.unpack(self.engine.state_bytes())
            require(self.model.state() == state, "model and engine differ in their states")
        return {session_id: packed(frames) for session_id, frames in frames_owed(events).items()}

    def _check_origin(self, command: Command, peers: dict[int, Peer], known_ids: set[int]) -> None:
        """Nothing is in the log that nobody sent, and nothing twice."""
        kind, session_id = command.kind, command.session_id
        if kind in (CommandKind.NEW_ORDER, CommandKind.CANCEL):
            peer = peers.get(session_id)
            if peer is None:
                raise Failure(f"a command of session {session_id}, which nobody opened")
            at = peer.logged_count
            if at >= len(peer.sent):
                raise Failure(f"session {session_id} sent {at} commands, and not one more")
            logged, sent = request_key(command), request_key(peer.sent[at])
            if logged != sent:
                raise Failure(f"session {session_id} sent {sent}, the log has {logged}")
            peer.logged_count += 1
        elif kind in (CommandKind.SESSION_OPEN, CommandKind.SESSION_END):
            is_old = kind == CommandKind.SESSION_END and session_id in known_ids
            if session_id not in peers and not is_old:
                raise Failure(f"{CommandKind(kind).name} of session {session_id}, of nobody")
        elif kind in OPERATORS:
            at = self.operated_count
            if at >= len(self.operated) or command._replace(received_ns=0) != self.operated[at]:
                raise Failure(f"{command} is in the log, and the operator did not send it then")
            self.operated_count += 1
        elif kind == CommandKind.INSTRUMENT_DEFINE:
            require(self.wal_seq == 0, "the instrument is defined again")
        elif kind != CommandKind.SNAPSHOT_MARK or session_id != OPERATOR_SESSION_ID:
            raise Failure(f"{command} is in the log, and nobody sent it")

    def compare(self, engine: Engine) -> None:
        """Compare a recovered engine with the reference, to the last queue."""
        require(
            engine.state_bytes() == self.engine.state_bytes(),
            f"the recovered state is {EngineState.unpack(engine.state_bytes())}, "
            f"expected {EngineState.unpack(self.engine.state_bytes())}",
        )
        require(engine.orders() == self.engine.orders(), "the recovered orders differ")
        require(engine.sessions() == self.engine.sessions(), "the recovered sessions differ")
        require(engine.instruments() == self.engine.instruments(), "the instruments differ")
        if self.model is not None:
            require(
                self.model.records() == unpack_order_records(engine.orders()),
                "the recovered orders are not the model's",
            )
        engine.check()
