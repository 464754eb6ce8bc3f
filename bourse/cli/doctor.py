"""bourse doctor: what a person who helps with a daemon would ask first."""

from __future__ import annotations

import os
import platform
import resource
import shlex
import shutil
import sysconfig
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from bourse.cli.options import JsonOption, command_app
from bourse.cli.output import say, say_json, say_rows

app = command_app()

COMPILED_NEEDED = (
    "bourse.core.engine",
    "bourse.core.killpoint",
    "bourse.core.ring",
    "bourse.journal.reader",
    "bourse.journal.writer",
    "bourse.protocol.codec",
    "bourse.daemon.gateway",
    "bourse.daemon.journal_thread",
    "bourse.daemon.matching_thread",
)
DESCRIPTORS_WANTED = 4096
FREE_BYTES_WANTED = 1 << 30


class Finding(NamedTuple):
    """One thing that was looked at."""

    name: str
    value: str
    advice: str = ""
    """What is wrong with it and what to do; empty when it is in order."""


@app.command()
def doctor(
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            metavar="DIR",
            help="The data directory to look at. Default: that of this user's daemon.",
            show_default=False,
        ),
    ] = None,
    kill_points: Annotated[
        bool,
        typer.Option("--kill-points", help="List the named kill points of this build instead."),
    ] = False,
    as_json: JsonOption = False,
) -> int:
    """Look at this machine, installation and data directory. Changes nothing.

    It counts the log's files and does not read them: `bourse recover --dry-run` does.

    \b
    Examples:
      bourse doctor
      bourse doctor --data /srv/bourse --json
      bourse doctor --kill-points

    \b
    Kill points are for tests: BOURSE_KILL_POINT=NAME:N in the environment of
    `bourse daemon start` ends the daemon, as kill -9 would, when it passes that
    point for the N-th time.

    \b
    Exit codes:
      0  all is in order
      1  something is not, and is said with what to do
    """
    if kill_points:
        return _list_kill_points(as_json)
    from bourse.config import default_data_dir

    data = data or default_data_dir("default")
    findings = [*_machine(), *_build(), *_limits(), *_directory(data)]
    if as_json:
        say_json([finding._asdict() for finding in findings])
    else:
        say_rows([(finding.name, finding.value) for finding in findings])
        for finding in findings:
            if finding.advice:
                say(f"{finding.name}: {finding.advice}")
    return 1 if any(finding.advice for finding in findings) else 0


def _list_kill_points(as_json: bool) -> int:
    from bourse.core.killpoint import POINTS

    if as_json:
        say_json(POINTS)
    else:
        say_rows(list(POINTS.items()))
    return 0


def _machine() -> list[Finding]:
    from bourse import __version__

    cpus = len(os.sched_getaffinity(0))
    return [
        Finding("bourse", __version__),
        Finding("python", f"{platform.python_implementation()} {platform.python_version()}"),
        Finding("kernel", f"{platform.system()} {platform.release()} {platform.machine()}"),
        Finding(
            "cpus",
            str(cpus),
            "" if cpus > 1 else "one CPU: use --poll block, spinning threads would starve others",
        ),
    ]


def _build() -> list[Finding]:
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    missing = [name for name in COMPILED_NEEDED if not _is_compiled(name, suffix)]
    return [
        Finding(
            "compiled",
            f"{len(COMPILED_NEEDED) - len(missing)} of {len(COMPILED_NEEDED)} modules looked at",
            f"{', '.join(missing)}: not compiled for this Python; make build" if missing else "",
        )
    ]


def _is_compiled(name: str, suffix: str) -> bool:
    spec = find_spec(name)
    return spec is not None and str(spec.origin).endswith(suffix)


def _limits() -> list[Finding]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = hard == resource.RLIM_INFINITY
    few = not unlimited and hard < DESCRIPTORS_WANTED
    file_bytes, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    limited = file_bytes != resource.RLIM_INFINITY
    return [
        Finding(
            "open files",
            f"{soft} now, {'any number' if unlimited else hard} allowed (ulimit -Hn)",
            f"few for an exchange; raise the hard limit to {DESCRIPTORS_WANTED}" if few else "",
        ),
        Finding(
            "file size",
            f"{file_bytes} bytes (ulimit -f)" if limited else "unlimited",
            "the log would fail at this size; lift ulimit -f" if limited else "",
        ),
    ]


def _directory(data_dir: Path) -> list[Finding]:
    from bourse.journal import storage
    from bourse.journal.filesystem import MEMORY_FILESYSTEMS, filesystem_of

    place = data_dir
    while not place.exists():
        place = place.parent
    kind = filesystem_of(place)
    in_memory = kind in MEMORY_FILESYSTEMS
    free_bytes = shutil.disk_usage(place).free
    writable = os.access(place, os.W_OK | os.X_OK)
    segments = storage.list_segments(data_dir) if data_dir.is_dir() else []
    snapshots = storage.list_snapshots(data_dir) if data_dir.is_dir() else []
    held = "no log"
    if segments or snapshots:
        counts = ((len(segments), "segment"), (len(snapshots), "snapshot"))
        held = ", ".join(f"{count} {word}{'s' if count != 1 else ''}" for count, word in counts)
        held += f"; not read: bourse recover --dry-run --data {shlex.quote(str(data_dir))} does"
    owned = storage.is_owned(data_dir)
    return [
        Finding(
            "data",
            str(data_dir) if data_dir.exists() else f"{data_dir} (not made yet)",
            "" if writable else f"{place} cannot be written by this user",
        ),
        Finding("holds", held),
        Finding("in use", "by a daemon that runs" if owned else "no"),
        Finding(
            "filesystem",
            kind,
            "it is memory: no policy survives a power loss there; choose a disk with --data"
            if in_memory
            else "",
        ),
        Finding(
            "free",
            f"{free_bytes >> 20:,} MiB",
            "less than 1 GiB: make room before the log needs it"
            if free_bytes < FREE_BYTES_WANTED
            else "",
        ),
    ]
