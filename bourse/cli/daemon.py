"""bourse daemon start, stop, status."""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bourse.cli.options import (
    AdminOption,
    DurabilityOption,
    JsonOption,
    PollOption,
    admin_path,
    command_app,
)
from bourse.cli.output import (
    drop_stdout,
    duration,
    percentile_rows,
    say,
    say_banner,
    say_json,
    say_rows,
)

if TYPE_CHECKING:
    from bourse.admin.messages import Status
    from bourse.config import Banner, DaemonConfig

app = command_app("Start, stop and look at the exchange's daemon.")

STOP_SECONDS_MAX = 120.0


@app.command()
def start(
    instance: Annotated[
        str | None,
        typer.Option(
            "--instance",
            metavar="NAME",
            help="Its name, typed before what is dangerous; also names the default data directory "
            "and admin socket. Default: the data directory's name.",
            show_default=False,
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            metavar="DIR",
            help="Data directory: log and snapshots. Default: this user's state directory.",
            show_default=False,
        ),
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(
            "--listen",
            metavar="HOST:PORT",
            help="Address of protocol version 1; port 0 picks one. Default: 127.0.0.1:9000.",
            show_default=False,
        ),
    ] = None,
    durability: DurabilityOption = None,
    poll: PollOption = None,
    admin: AdminOption = None,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            metavar="FILE",
            help="TOML file with the same keys and more (docs/configuration.md); flags win.",
            show_default=False,
        ),
    ] = None,
    detach: Annotated[
        bool, typer.Option("--detach", help="Go to the background; return once it is ready.")
    ] = False,
    log_file: Annotated[
        Path | None,
        typer.Option(
            "--log-file",
            metavar="FILE",
            help="Where the log goes. Default: stderr; with --detach DIR/daemon.log.",
            show_default=False,
        ),
    ] = None,
    as_json: JsonOption = False,
    with_parent: Annotated[
        bool, typer.Option("--with-parent", hidden=True, help="Stop when stdin ends.")
    ] = False,
) -> int:
    """Start a daemon: recover what the data directory holds, listen, trade.

    Ctrl-C, SIGTERM and a closed terminal (SIGHUP) drain, commit what was accepted, and end it.

    \b
    Examples:
      bourse daemon start
      bourse daemon start --data ./data --durability fsync --detach
      bourse daemon start --instance two --listen 127.0.0.1:9100

    \b
    Exit codes:
      0   stopped in order (with --detach: ready)
      2   wrong flag, configuration or directory
      4   the data directory, socket or port is somebody else's
      65  the log is corrupt, or cannot be read
      70  a bug ended it; its log says which
      74  the disk failed while it ran; nothing was acknowledged after that
    """
    from bourse.cli import complain
    from bourse.config import load_config

    flags = {
        "instance": instance,
        "data": str(data) if data else None,
        "listen": listen,
        "durability": durability,
        "poll": poll,
        "admin": str(admin) if admin else None,
        "log_file": str(log_file) if log_file else None,
    }
    settings = load_config(config, flags)
    if detach:
        return _start_detached(settings, config, flags, as_json)

    from bourse.daemon.main import run

    if with_parent:
        threading.Thread(target=_stop_with_parent, name="parent", daemon=True).start()

    def ready(banner: Banner) -> None:
        try:
            say_json(banner) if as_json else say_banner(banner)
        except OSError as error:
            # Clients are served by now; the log has the same words.
            complain(f"nobody took the banner ({error.strerror}); the daemon runs on")
            drop_stdout()

    return int(run(settings, ready))


def _stop_with_parent() -> None:
    """Wait until stdin ends, which is when the process that started this one is gone."""
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def _start_detached(
    settings: DaemonConfig, config: Path | None, flags: dict[str, str | None], as_json: bool
) -> int:
    """Start the same daemon as a process of its own, wait until it is ready, and leave it alone."""
    from bourse.admin.launch import DaemonProcess
    from bourse.config import absolute, admin_flag
    from bourse.errors import UsageError
    from bourse.journal.storage import make_directory

    log_path = Path(settings.log_file or settings.data_dir / "daemon.log")
    make_directory(log_path.parent, "--log-file" if settings.log_file else "--data")
    try:
        log_path.open("ab").close()
    except OSError as error:
        raise UsageError(
            f"cannot write the log {log_path} ({error.strerror}); "
            "name another place with --log-file or --data"
        ) from None
    arguments = ["--log-file", str(log_path)]
    if config is not None:
        arguments += ["--config", absolute(str(config))]
    for key, value in flags.items():
        if value is not None and key != "log_file":
            arguments += [f"--{key}", absolute(value) if key in ("data", "admin") else value]
    daemon = DaemonProcess(arguments, log_path, ends_with_parent=False)
    daemon.release()
    if as_json:
        say_json(daemon.banner)
    else:
        say_banner(daemon.banner)
        say(f"  log        {log_path}")
        stop_line = f"bourse daemon stop{admin_flag(settings.admin)}"
        say(f"  It runs in the background; stop it with: {stop_line}")
    return 0


@app.command()
def stop(
    admin: AdminOption = None,
    as_json: JsonOption = False,
) -> int:
    """Stop a daemon in order: drain, commit, end. Returns when the process is gone.

    \b
    Example:
      bourse daemon stop

    \b
    Exit codes:
      0  it is gone
      1  it did not end in time
      3  no daemon answers
    """
    from bourse.admin.client import BlockingClient
    from bourse.errors import BourseError

    path = admin_path(admin)
    started = time.monotonic()
    with BlockingClient(path, "bourse daemon stop") as client:
        pid = client.hello.pid
        process = _open_process(pid)
        client.call("shutdown")
    if not _wait_until_gone(pid, process, STOP_SECONDS_MAX):
        raise BourseError(
            f"the daemon (pid {pid}) accepted the stop and still runs after "
            f"{STOP_SECONDS_MAX:.0f} seconds; its log says why"
        )
    seconds = round(time.monotonic() - started, 3)
    if as_json:
        say_json({"pid": pid, "stopped": True, "seconds": seconds})
    else:
        say(f"Stopped (pid {pid}) in {seconds:.2f} s; everything acknowledged is kept.")
    return 0


def _open_process(pid: int) -> int | None:
    """Open a handle on a process, which no later process with the same number can take over."""
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def _wait_until_gone(pid: int, process: int | None, seconds: float) -> bool:
    if process is not None:
        readable, _, _ = select.select([process], [], [], seconds)
        os.close(process)
        return bool(readable)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not Path(f"/proc/{pid}").exists():
            return True
        time.sleep(0.02)
    return False


@app.command()
def status(
    admin: AdminOption = None,
    as_json: JsonOption = False,
) -> int:
    """Show a daemon in one look: sequences, counters, and what each stage takes.

    With --json an object with `status` and `latency`.

    \b
    Example:
      bourse daemon status

    \b
    Exit codes:
      0  it answers
      3  no daemon answers
    """
    from bourse.admin.client import BlockingClient

    path = admin_path(admin)
    with BlockingClient(path, "bourse daemon status") as client:
        found = client.call("status")
        latency = client.call("latency")
    if as_json:
        say_json({"status": found, "latency": latency})
        return 0
    say_rows(_status_rows(found, path))
    say()
    one_in = latency.sampled_one_in
    which = f"one client's command in {one_in}" if one_in > 1 else "every client's command"
    say(f"  Since the start, {which} timed (the operator's are not):")
    for line in percentile_rows([(stage.stage, stage.total) for stage in latency.stages]):
        say(line)
    return 0


def _status_rows(found: Status, path: Path) -> list[tuple[str, str]]:
    from bourse.config import admin_flag

    uptime = max(0, time.time_ns() - found.started_ns)
    bid = "-" if found.best_bid_ticks is None else f"{found.best_bid_ticks:,}"
    ask = "-" if found.best_ask_ticks is None else f"{found.best_ask_ticks:,}"
    low = [("LOW SPACE", "new orders are refused until the disk has more; cancels work")]
    again = f"bourse resume{admin_flag(path)}"
    halted = [("HALTED", f"{found.symbol} takes cancels only; trade again with: {again}")]
    return (
        (halted if found.halted else [])
        + (low if found.low_space else [])
        + [
            ("instance", f"{found.instance} ({found.build}), pid {found.pid}"),
            ("running for", duration(uptime)),
            ("address", f"{found.listen}  ({found.symbol})"),
            ("admin", found.admin),
            ("data", f"{found.data_dir}  ({found.disk_free_bytes:,} bytes free)"),
            ("policy, poll", f"{found.durability}, {found.poll}"),
            (
                "wal_seq",
                f"{found.wal_seq:,}  durable {found.durable_seq:,}  released {found.released_seq:,}"
                f"  (recovered {found.recovered_wal_seq:,})",
            ),
            ("event_seq", f"{found.event_seq:,}"),
            ("best bid, ask", f"{bid}, {ask}"),
            ("orders", f"{found.orders:,} accepted, {found.live_orders:,} live"),
            ("trades", f"{found.trades:,}"),
            ("rejects", f"{found.rejects:,}"),
            (
                "connections",
                f"{found.connections:,} now, {found.connections_total:,} in all; "
                f"{found.protocol_errors:,} protocol errors, "
                f"{found.slow_reader_cuts:,} slow readers cut",
            ),
            (
                "rings",
                f"commands {found.command_ring_used:,} of {found.command_ring_size:,}, "
                f"events {found.event_ring_used:,} of {found.event_ring_size:,}",
            ),
            ("state digest", found.state_digest),
            ("event digest", found.event_digest),
        ]
    )
