"""The daemon from start to end: what is opened in which order, what stops it, how it leaves.

Order of a start: log, listening address, data directory and its lock, recovery, threads, first
commands, admin socket, ready. A step that fails undoes the ones before it; nothing is written to
the log before recovery has read all of it.

Order of a stop (SIGTERM, SIGINT, SIGHUP unless ignored, admin `shutdown`): stop accepting and
reading, end the sessions in the log, drain the rings, commit, send what clients are owed, close,
exit 0. A second signal stops waiting for clients.

Exit codes: 0 stopped as asked, 70 a bug (see the log), 74 the disk failed; before the start:
errors.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import resource
import signal
import socket
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from bourse.config import Banner, DaemonConfig, prepare_admin_dir
from bourse.core import killpoint
from bourse.daemon.admin_server import AdminServer, bind_admin_socket
from bourse.daemon.clock import wall_ns
from bourse.daemon.dangers import Dangers
from bourse.daemon.logs import open_log, recent_lines
from bourse.daemon.pipeline import Pipeline
from bourse.daemon.snapshots import Snapshots
from bourse.daemon.store import Store, open_store
from bourse.daemon.views import Views
from bourse.domain import Durability
from bourse.errors import JournalError, OwnershipError, UsageError
from bourse.journal.retention import missing_segments
from bourse.journal.storage import WAL_DIRECTORY

EXIT_OK = 0
EXIT_BUG = 70  # EX_SOFTWARE
EXIT_DISK = 74  # EX_IOERR
LISTEN_BACKLOG = 1024
WATCH_SECONDS = 0.5
"""How often the log's file is looked at: a call that does not touch the disk."""
DESCRIPTORS_OWN = 128
"""Open files beside the clients' connections: admin connections, log, loop."""
DESCRIPTORS_LEAST = 32
"""With fewer a daemon does not start: its own are 25, and a snapshot, a client and an operator need
one each."""


def run(config: DaemonConfig, ready: Callable[[Banner], None]) -> int:
    """Serve until told to stop.

    Args:
        config: what to serve, where and how.
        ready: called once, when clients are served.

    Returns:
        The process's exit code.

    Raises:
        BourseError: the daemon cannot start; nothing was changed.
    """
    log = open_log(config.log_file)
    _arm_kill_point(log)
    most = _allow_descriptors(config.connections_max, log)
    config = msgspec.structs.replace(config, connections_max=most)
    listener = _bind(config.listen_address)
    try:
        store = open_store(config)
        try:
            prepare_admin_dir(config.admin_path)
            admin_listener = bind_admin_socket(Path(config.admin))
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                daemon = Daemon(config, store, log)
                return runner.run(daemon.serve(listener, admin_listener, ready))
        finally:
            store.close()
    finally:
        listener.close()


def _arm_kill_point(log: logging.Logger) -> None:
    """Arm what a test has asked for in the environment.

    Raises:
        UsageError: there is no such point.
    """
    text = os.environ.get(killpoint.VARIABLE, "")
    try:
        killpoint.arm(text)
    except ValueError as error:
        raise UsageError(
            f"{killpoint.VARIABLE}: {error}; see bourse doctor --kill-points"
        ) from error
    if text:
        log.warning("this daemon will kill itself at the kill point %s", text)


def _allow_descriptors(connections_max: int, log: logging.Logger) -> int:
    """Allow as many open files as the system lets us: the usual 1,024 are few for an exchange.

    Returns:
        How many client connections to serve: the operator must find a descriptor free.

    Raises:
        UsageError: there are too few for any.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < DESCRIPTORS_LEAST:
        raise UsageError(
            f"the system allows {hard} open files, and a daemon needs {DESCRIPTORS_LEAST}; "
            "raise ulimit -Hn"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if hard == resource.RLIM_INFINITY or hard >= connections_max + DESCRIPTORS_OWN:
        return connections_max
    # Of very few, half.
    most = min(connections_max, max(1, hard - DESCRIPTORS_OWN, hard // 2))
    log.warning(
        "the system allows %d open files, too few for connections_max = %d: %d are served; "
        "raise ulimit -Hn",
        hard,
        connections_max,
        most,
    )
    return most


def _bind(address: tuple[str, int]) -> socket.socket:
    """Bind the address of the gateway, not listening yet.

    Raises:
        OwnershipError: it is taken.
        UsageError: it is not an address of this machine.
    """
    host, port = address
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind | socket.SOCK_CLOEXEC, protocol)
    except (OSError, UnicodeError) as error:
        # UnicodeError: a name that no domain can have.
        reason = error.strerror if isinstance(error, OSError) else "it is no name of a host"
        raise UsageError(
            f"cannot listen on {host}: {reason}; choose another with --listen"
        ) from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(where)
        # Listening now, so that two daemons cannot both bind the port; nobody is accepted before
        # the end of recovery.
        listener.listen(LISTEN_BACKLOG)
    except OSError as error:
        listener.close()
        taken = error.errno in (98,)  # EADDRINUSE
        kind_of_error = OwnershipError if taken else UsageError
        reason = "a daemon or another program listens there" if taken else error.strerror
        raise kind_of_error(
            f"cannot listen on {host}:{port}: {reason}; "
            "choose another with --listen HOST:PORT (port 0 picks a free one)"
        ) from error
    listener.setblocking(False)
    return listener


def _address_text(listener: socket.socket) -> str:
    """Write a socket's own address as HOST:PORT."""
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class Daemon:
    """One run of the daemon on its event loop."""

    def __init__(self, config: DaemonConfig, store: Store, log: Any) -> None:
        self._config = config
        self._store = store
        self._log = log
        self._stopped: asyncio.Event = asyncio.Event()
        self._hurry: asyncio.Event = asyncio.Event()
        self._stop_reason = ""
        self._admin: AdminServer | None = None
        self._gateway: Any = None
        self._looked = (0, "")
        """When the log's directory had changed as it was last looked at, and what was missing."""
        self._gap = ""
        """What is known to be missing."""

    async def serve(
        self,
        listener: socket.socket,
        admin_listener: socket.socket,
        ready: Callable[[Banner], None],
    ) -> int:
        """Start everything, wait for a reason to stop, stop everything."""
        config = self._config
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._on_loop_error)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            if number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN:
                continue  # nohup
            loop.add_signal_handler(number, self._on_signal, number)
        pipeline = Pipeline(config, self._store, loop, self._log)
        self._gateway = gateway = pipeline.gateway
        gateway.on_failure = self._on_disk_error
        try:
            return await self._serve(pipeline, listener, admin_listener, ready)
        except Exception as error:
            # The threads run: nobody may close the log's descriptor under them.
            self._log.critical("bug: the daemon cannot go on", exc_info=error)
            self._leave(EXIT_BUG)
            raise

    async def _serve(
        self,
        pipeline: Pipeline,
        listener: socket.socket,
        admin_listener: socket.socket,
        ready: Callable[[Banner], None],
    ) -> int:
        config = self._config
        loop = asyncio.get_running_loop()
        gateway = pipeline.gateway
        started_ns = wall_ns()
        listen = _address_text(listener)
        await pipeline.start()
        gateway.low_space = pipeline.space.look()
        watch = asyncio.create_task(self._watch_log(pipeline))
        snapshots = Snapshots(pipeline, self._log)
        due = asyncio.create_task(snapshots.run())
        views = Views(
            pipeline,
            snapshots,
            listen,
            started_ns,
            self._ask_stop,
            recent_lines(self._log),
            Dangers(pipeline, self._log),
        )
        self._admin = AdminServer(
            admin_listener,
            Path(config.admin),
            config.instance,
            views.handlers,
            views.builders,
            self._log,
        )
        await self._admin.start()
        server = await loop.create_server(gateway.new_protocol, sock=listener)
        banner = Banner(
            listen=listen,
            admin=config.admin,
            data=config.data,
            durability=config.durability.label,
            poll=config.poll.label,
            symbol=self._store.symbol,
            recovered_wal_seq=self._store.recovered_wal_seq,
            pid=os.getpid(),
            report=self._store.report,
            instance=config.instance,
        )
        for line in banner.report:
            self._log.info("%s", line)
        self._log.info(
            "ready: %s on %s, policy %s, poll %s, record %d, pid %d",
            banner.symbol,
            banner.listen,
            banner.durability,
            banner.poll,
            banner.recovered_wal_seq,
            banner.pid,
        )
        ready(banner)
        await self._stopped.wait()
        self._log.info("stopping: %s", self._stop_reason)
        watch.cancel()
        due.cancel()
        server.close()
        await snapshots.finish()
        gateway.end_sessions()
        await self._unless_in_a_hurry(snapshots.take_last())
        gateway.stop()
        await pipeline.desk.stopped
        await self._drain(gateway)
        await pipeline.join()
        if pipeline.failed_errno:
            # The last sync of all: nobody takes turns any more to see it.
            self._on_disk_error(pipeline.failed_errno)
        await self._admin.stop()
        self._log.info("stopped at record %d, event %d", gateway.wal_seq, gateway.event_seq)
        return EXIT_OK

    async def _watch_log(self, pipeline: Pipeline) -> None:
        """End the daemon when its log is taken away: a nameless file keeps nothing."""
        while self._config.durability is not Durability.MEMORY:
            await asyncio.sleep(WATCH_SECONDS)
            self._gateway.low_space = pipeline.space.look()
            self._look_for_gap(pipeline)
            if not self._harm_of_segment(pipeline):
                continue
            await asyncio.sleep(0.01)  # perhaps the segment was changed between two looks
            if harm := self._harm_of_segment(pipeline):
                break
        else:
            return
        index, first_seq, _ = pipeline.memory.segment
        self._log.critical(
            "%s was %s by somebody under the running daemon; nothing more is acknowledged. "
            "Restore the data directory from a copy before the next start",
            pipeline.store.path_of(index, first_seq),
            harm,
        )
        self._leave(EXIT_DISK)

    def _look_for_gap(self, pipeline: Pipeline) -> None:
        """Say it when an older segment is taken away: the state is whole here, and only here.

        So the daemon goes on; a snapshot of it is the way out.
        """
        data_dir = self._config.data_dir
        try:
            changed_ns = (data_dir / WAL_DIRECTORY).stat().st_mtime_ns
            if (changed_ns, "", "") == (*self._looked, self._gap):
                return
            missing = missing_segments(data_dir, pipeline.memory.segment[0])
        except (OSError, JournalError):
            return  # _harm_of_segment and the next segment's maker see what became of it
        # Twice in a row: a segment may be archived while the names are read.
        is_sure = missing == self._looked[1]
        if is_sure and missing and missing != self._gap:
            self._log.critical(
                "%s of the log in %s was removed by somebody under the running daemon: the next "
                "start will refuse what is left. Put it back from a copy. Without one: bourse "
                "snapshot --admin %s, then move what is older than segment %d out of there",
                missing,
                data_dir / WAL_DIRECTORY,
                self._config.admin,
                pipeline.memory.segment[0],
            )
        if is_sure:
            self._gap = missing
        self._looked = (changed_ns, missing)

    def _harm_of_segment(self, pipeline: Pipeline) -> str:
        """Say what somebody did to the segment that is written; empty when it is whole."""
        _, _, fd = pipeline.memory.segment
        try:
            found = os.fstat(fd)
        except OSError:
            return "closed"
        if not found.st_nlink:
            return "removed"
        return "shortened" if found.st_size < self._segment_bytes() else ""

    def _segment_bytes(self) -> int:
        return int(self._gateway.counters["segment_size_bytes"])

    async def _unless_in_a_hurry(self, work: Coroutine[Any, Any, None]) -> None:
        """Wait for the work, or for the signal that says not to."""
        task = asyncio.ensure_future(work)
        hurry = asyncio.ensure_future(self._hurry.wait())
        await asyncio.wait([task, hurry], return_when=asyncio.FIRST_COMPLETED)
        hurry.cancel()
        if not task.done():
            task.cancel()

    async def _drain(self, gateway: Any) -> None:
        """Give clients time to take what is queued for them, then drop the connections."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + self._config.shutdown_seconds
        while gateway.reap() and loop.time() < deadline_s and not self._hurry.is_set():
            await asyncio.sleep(0.005)
        if left := gateway.reap():
            self._log.warning("the last answers of %d clients were not taken by them", left)
        gateway.abort_all()
        await asyncio.sleep(0)

    def _ask_stop(self, reason: str) -> None:
        if self._stopped.is_set():
            self._hurry.set()
        self._stop_reason = self._stop_reason or reason
        self._stopped.set()

    def _on_signal(self, number: int) -> None:
        self._ask_stop(signal.Signals(number).name)

    def _on_disk_error(self, error: int) -> None:
        """Nothing that is not durable may leave: no draining, no closing words to clients."""
        self._log.critical(
            "the disk failed: %s (errno %d) in %s; nothing was acknowledged after record %d. "
            "Mend the disk and start again: recovery believes only what it reads back",
            os.strerror(error),
            error,
            self._config.data_dir / WAL_DIRECTORY,
            self._durable_seq(),
        )
        self._leave(EXIT_DISK)

    def _durable_seq(self) -> int:
        return int(self._gateway.counters["durable_seq"]) if self._gateway is not None else 0

    def _on_loop_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Something was raised where nobody waits.

        A bug. Committed state is safe; going on might not be.
        """
        error = context.get("exception")
        self._log.critical("bug: %s", context.get("message"), exc_info=error)
        self._leave(EXIT_BUG)

    def _leave(self, code: int) -> None:
        """End the process at once; the threads own no state that is not in the log."""
        if self._admin is not None:
            self._admin.unlink()
        with contextlib.suppress(Exception):
            for handler in self._log.handlers:
                handler.flush()
        os._exit(code)
