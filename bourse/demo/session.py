"""One run of the demo: a daemon and a market as child processes, and what must hold at the end.

Both children end when this process ends, however it ends: their stdin is a pipe from here.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from bourse.admin import messages
from bourse.admin.checks import Check, exit_code_of, replay_check
from bourse.admin.client import BlockingClient, call
from bourse.admin.launch import DaemonProcess
from bourse.config import default_admin_path, runtime_dir
from bourse.demo.market import Report
from bourse.demo.traders import START_TICKS
from bourse.errors import AdminError, BourseError, UnavailableError
from bourse.journal.storage import make_directory

MARKET_STOP_SECONDS_MAX = 30.0
NOT_GAPLESS = (
    "sequences_gapless: with the console others may trade too, and the market does not hear them; "
    "--headless checks it"
)


class Summary(msgspec.Struct, kw_only=True):
    """What the demo prints as it ends."""

    seconds: float
    orders: int
    trades: int
    events: int
    wal_seq: int
    recovered_wal_seq: int
    live_orders: int
    messages_per_s: int
    policy: str
    poll: str
    digests: dict[str, str]
    stages_ns: dict[str, dict[str, int]]
    checks: list[Check]
    skipped: list[str]
    """What was not checked, and why."""
    data: str

    @property
    def exit_code(self) -> int:
        """0 when every check is ok, else 1."""
        return exit_code_of(self.checks)


def free_admin_path() -> Path:
    """Return the default admin socket if no daemon answers there, so that commands need no flag."""
    path = default_admin_path("default")
    try:
        call(path, "status", name="bourse demo")
    except UnavailableError:
        return path
    except BourseError:
        pass
    return runtime_dir() / f"demo-{os.getpid()}.sock"


class Demo:
    """The daemon and the market; `finish` stops both and judges, leaving the block stops both."""

    def __init__(self, data: Path, seed: int, rate_per_s: float, poll: str, listen: str) -> None:
        """Start both.

        Raises:
            UsageError: the data directory cannot be made.
            DaemonFailedError: the daemon's own sentence.
        """
        self.admin = free_admin_path()
        make_directory(data)
        flags = {"data": data, "listen": listen, "durability": "fsync", "poll": poll}
        arguments = [word for key, value in flags.items() for word in (f"--{key}", str(value))]
        self.daemon = DaemonProcess(
            [*arguments, "--admin", str(self.admin)], data.absolute() / "daemon.log"
        )
        self.market: subprocess.Popen[bytes] | None = None
        try:
            with self._asking():
                mid = self._mid()
                self._take_back()
                self.before = self.status()
            self.market = self._start_market(seed, rate_per_s, mid)
        except BaseException:
            self.daemon.stop()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop_market()
        self.daemon.stop()

    @property
    def is_running(self) -> bool:
        """Whether both children are there."""
        return self.daemon.is_running and self.market is not None and self.market.poll() is None

    def status(self) -> messages.Status:
        """Ask the daemon."""
        found = call(self.admin, "status", name="bourse demo")
        assert isinstance(found, messages.Status)
        return found

    def finish(self, only_market: bool) -> Summary:
        """Stop both in order and judge.

        Args:
            only_market: nobody else traded, so the traders heard every event.

        Raises:
            UnavailableError: the daemon is gone already.
        """
        report = self._stop_market()
        with self._asking():
            status = self.status()
            latency = call(self.admin, "latency", name="bourse demo")
        assert isinstance(latency, messages.Latency)
        code = self.daemon.stop()
        checks = [*_market_checks(report, status, self.before, only_market)]
        words = "" if code == 0 else self.daemon.last_words()
        checks.append(Check("daemon_stopped_cleanly", code == 0, words))
        checks.append(replay_check(Path(status.data_dir), status.state_digest, status.event_digest))
        left = [
            process.pid
            for process in (self.daemon.process, self.market)
            if process is not None and process.poll() is None
        ]
        checks.append(Check("no_process_left", not left, ", ".join(map(str, left))))
        seconds = report.seconds if report else 0.0
        sent = report.orders + report.cancels if report else 0
        return Summary(
            seconds=seconds,
            orders=status.orders,
            trades=status.trades,
            events=status.event_seq,
            wal_seq=status.wal_seq,
            recovered_wal_seq=self.daemon.banner.recovered_wal_seq,
            live_orders=status.live_orders,
            messages_per_s=round(sent / seconds) if seconds else 0,
            policy=status.durability,
            poll=status.poll,
            digests={"state": status.state_digest, "events": status.event_digest},
            stages_ns={
                stage.stage: {"p50": stage.total.p50, "p99": stage.total.p99}
                for stage in latency.stages
            },
            checks=checks,
            skipped=[] if only_market else [NOT_GAPLESS],
            data=status.data_dir,
        )

    @contextlib.contextmanager
    def _asking(self) -> Iterator[None]:
        """Ask the daemon things; one sentence when somebody has stopped it meanwhile."""
        try:
            yield
        except (UnavailableError, AdminError) as error:
            if isinstance(error, AdminError) and error.code != messages.ErrorCode.SHUTTING_DOWN:
                raise
            raise UnavailableError(
                f"the exchange ended before the demo did (exit code {self.daemon.stop()}); "
                f"its log is {self.daemon.log_path}; the next run recovers what was traded"
            ) from None

    def _mid(self) -> int:
        """Return the price to trade on from: where the book of an earlier run stands."""
        found = self.status()
        bid, ask = found.best_bid_ticks, found.best_ask_ticks
        return (bid + ask) // 2 if bid is not None and ask is not None else START_TICKS

    def _take_back(self) -> None:
        """Cancel what an earlier run left: new makers only post, and would be rejected by it.

        Its clients are gone with their sessions, so the operator does it.
        """
        if not self.status().live_orders:
            return
        with BlockingClient(self.admin, "bourse demo") as client:
            prepared = client.call("prepare", messages.PrepareParams("cancel_all"))
            client.call("commit", messages.CommitParams(prepared.token, prepared.instance))

    def _start_market(self, seed: int, rate_per_s: float, mid: int) -> subprocess.Popen[bytes]:
        words = [
            *("--connect", self.daemon.banner.listen, "--seed", str(seed)),
            *("--rate", str(rate_per_s), "--first-sequence", str(self.before.event_seq + 1)),
            f"--mid={mid}",
        ]
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "bourse.demo.market", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _stop_market(self) -> Report | None:
        """Let the market finish and return what it reports; None when it has nothing to say."""
        market = self.market
        if market is None or market.stdout is None or market.stdout.closed:
            return None
        try:
            output, _ = market.communicate(timeout=MARKET_STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            market.kill()
            output, _ = market.communicate()
        with contextlib.suppress(msgspec.DecodeError):
            return msgspec.json.decode(output, type=Report)
        return None


def _market_checks(
    report: Report | None, status: messages.Status, before: messages.Status, only_market: bool
) -> list[Check]:
    if report is None:
        return [Check("market_reported", False, "the market's process ended without a report")]
    checks = [
        Check("market_ran", not report.failure, report.failure),
        Check(
            "every_order_answered",
            report.orders == report.accepted + report.rejected,
            f"{report.orders} sent, {report.accepted} accepted, {report.rejected} rejected",
        ),
        Check(
            "sequences_increase_per_connection",
            report.disorders == 0,
            f"{report.disorders} out of order",
        ),
        Check(
            "engine_counted_the_same",
            status.orders - before.orders >= report.accepted,
            f"{status.orders - before.orders} and {report.accepted} orders",
        ),
        Check(
            "durable_before_released",
            status.durable_seq >= status.released_seq,
            f"durable {status.durable_seq}, released {status.released_seq}",
        ),
    ]
    if only_market:
        events = status.event_seq - before.event_seq
        checks.append(
            Check(
                "sequences_gapless",
                report.heard == events,
                f"{before.event_seq + 1} to {status.event_seq}: {report.heard} heard",
            )
        )
    return checks
