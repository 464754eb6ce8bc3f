"""The daemon's configuration: one frozen struct from a TOML file, flags and defaults, checked once.

Every number has its unit in its name. A value that is wrong is refused in one sentence that names
the key, the value and what is allowed (errors.ConfigError); nothing is guessed, nothing is clamped.

Paths that were not given are filled in when the struct is made: a reader never meets an empty one.
Without a name an instance is called after its data directory, and INSTANCE below is `default`.

    data   $XDG_STATE_HOME/bourse/INSTANCE                 (else ~/.local/state/bourse/INSTANCE)
    admin  $XDG_RUNTIME_DIR/bourse/INSTANCE.sock           (else $TMPDIR/bourse-UID/INSTANCE.sock)
"""

from __future__ import annotations

import difflib
import os
import re
import shlex
import stat
import tomllib
from collections.abc import Mapping
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from bourse.domain import Durability, PollMode, WalRetention
from bourse.errors import ConfigError

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30

ADMIN_PATH_BYTES_MAX = 107
"""`sun_path` of Linux holds 108 bytes, the last one a zero (man 7 unix)."""


class Range(NamedTuple):
    """What a number may be, and why the ends are where they are."""

    least: float
    most: float
    power_of_two: bool = False

    @property
    def sentence(self) -> str:
        """Say it to a person."""
        kind = "a power of two from" if self.power_of_two else "from"
        # Whole numbers in full: 1.71799e+10 is no value that anybody could set.
        least, most = (int(end) if end == int(end) else end for end in (self.least, self.most))
        return f"{kind} {least} to {most}"

    def allows(self, value: float) -> bool:
        """Return whether `value` is inside."""
        if not self.least <= value <= self.most:
            return False
        return not self.power_of_two or int(value) & (int(value) - 1) == 0


# Segments: at least a few hundred records.
# Rings: at least a batch of a socket read; at most 2**24 slots of 64 bytes, a gigabyte.
RANGES = {
    "async_interval_ms": Range(1, 10_000),
    "command_ring_count": Range(1 << 6, 1 << 24, power_of_two=True),
    "event_ring_count": Range(1 << 6, 1 << 24, power_of_two=True),
    "journal_ring_count": Range(1 << 6, 1 << 24, power_of_two=True),
    "wal_segment_bytes": Range(64 * KIB, 16 * GIB),
    "snapshot_every_records": Range(0, 1 << 40),
    "snapshot_every_minutes": Range(0, 10_080),
    "snapshots_kept": Range(1, 1_000),
    "low_space_bytes": Range(0, 1 << 50),
    "outbound_high_water_bytes": Range(4 * KIB, 16 * GIB),
    "outbound_max_bytes": Range(4 * KIB, 16 * GIB),
    "slow_reader_seconds": Range(1, 86_400),
    "frame_seconds": Range(0.1, 3_600),
    "connections_max": Range(1, 1 << 20),
    "shutdown_seconds": Range(1, 3_600),
}

_INSTANCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_SYMBOL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,15}")


class DaemonConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Everything that a daemon may be told.

    Raises:
        ConfigError: a value is not allowed; the text names the key, the value and what is allowed.
    """

    instance: str = "default"
    """Names the default admin socket and data directory; typed before what is dangerous."""
    symbol: str = "BOURSE"
    """The one instrument; up to 16 ASCII characters. Fixed once in the log."""
    data: str = ""
    """Data directory; absolute once the struct is made."""
    listen: str = "127.0.0.1:9000"
    """Address of protocol version 1; port 0 lets the system pick one."""
    durability: Durability = Durability.FSYNC
    poll: PollMode = PollMode.ADAPTIVE
    admin: str = ""
    """Path of the admin socket; absolute once the struct is made."""
    log_file: str | None = None
    """Where the log goes; None is stderr."""
    async_interval_ms: int = 10
    """Policy async: at most this long between two fdatasync calls."""
    journal_near_disk: bool = True
    """The journal thread keeps to the CPU that the disk interrupts, where it is a single one."""
    cancel_on_disconnect: bool = False
    """A session's live orders are cancelled when its connection ends."""
    command_ring_count: int = 65_536
    event_ring_count: int = 262_144
    journal_ring_count: int = 65_536
    wal_segment_bytes: int = 64 * MIB
    """Size of the log's files, each filled with zeros ahead; two are there at any time."""
    wal_retention: WalRetention = WalRetention.KEEP
    """What becomes of segments that the kept snapshots make superfluous."""
    snapshot_every_records: int = 10_000_000
    """A snapshot after so many records, about what a start replays in three seconds; 0: never."""
    snapshot_every_minutes: int = 0
    """A snapshot this often, if there is anything new; 0: never."""
    snapshot_at_shutdown: bool = False
    """A snapshot as the daemon stops, so that the next start replays nothing."""
    snapshots_kept: int = 3
    """Older ones are removed once so many have been read back whole."""
    low_space_bytes: int = 256 * MIB
    """With less free space than this for the log new orders are refused; 0: never."""
    outbound_high_water_bytes: int = 1 * MIB
    """A session with more than this to be written is not read from."""
    outbound_max_bytes: int = 256 * MIB
    """A session with more than this to be written is cut off."""
    slow_reader_seconds: float = 30.0
    """A session that takes nothing for this long, with bytes waiting, is cut off."""
    frame_seconds: float = 5.0
    """A session that leaves a frame unfinished for this long is closed."""
    connections_max: int = 16_384
    shutdown_seconds: float = 10.0
    """How long a stop waits for clients to take what is queued for them."""

    def __post_init__(self) -> None:
        """Check every value and fill in the paths."""
        if not _INSTANCE.fullmatch(self.instance):
            raise _refusal("instance", self.instance, "1 to 64 letters, digits and . _ -")
        if not _SYMBOL.fullmatch(self.symbol):
            raise _refusal("symbol", self.symbol, "1 to 16 letters, digits and . _ -")
        for key, allowed in RANGES.items():
            if not allowed.allows(getattr(self, key)):
                raise _refusal(key, getattr(self, key), allowed.sentence)
        if self.outbound_max_bytes < self.outbound_high_water_bytes:
            raise _refusal(
                "outbound_max_bytes",
                self.outbound_max_bytes,
                f"at least outbound_high_water_bytes, which is {self.outbound_high_water_bytes}",
            )
        parse_address(self.listen, "listen")
        set_field = msgspec.structs.force_setattr
        set_field(self, "data", absolute(self.data or str(default_data_dir(self.instance))))
        set_field(self, "admin", absolute(self.admin or str(default_admin_path(self.instance))))
        if self.log_file is not None:
            set_field(self, "log_file", absolute(self.log_file))
        for key in _PATHS:
            _check_path(key, getattr(self, key))
        check_admin_path(self.admin)

    @property
    def data_dir(self) -> Path:
        """The data directory."""
        return Path(self.data)

    @property
    def admin_path(self) -> Path:
        """The admin socket."""
        return Path(self.admin)

    @property
    def listen_address(self) -> tuple[str, int]:
        """Host and port of `listen`."""
        return parse_address(self.listen, "listen")


class Banner(msgspec.Struct, frozen=True):
    """What a daemon says once it is ready: all that a person or a script needs to reach it."""

    listen: str
    """The bound address, with the real port."""
    admin: str
    data: str
    durability: str
    poll: str
    symbol: str
    recovered_wal_seq: int
    pid: int
    report: list[str] = []
    """What recovery did, in sentences."""
    instance: str = ""
    """What is typed before what is dangerous."""


_CHOICES: dict[str, type[Durability] | type[PollMode] | type[WalRetention]] = {
    "durability": Durability,
    "poll": PollMode,
    "wal_retention": WalRetention,
}
_PATHS = ("data", "admin", "log_file")


def load_config(
    path: Path | str | None = None, flags: Mapping[str, object] | None = None
) -> DaemonConfig:
    """Make a configuration from a TOML file and flags; flags win over the file, both over defaults.

    Args:
        path: the file, or None for none. Relative paths inside it start at its directory.
        flags: key to value; None values were not given. Relative paths start at the working
            directory.

    Raises:
        ConfigError: the file cannot be read or a key or value is wrong; one sentence says which.
    """
    values: dict[str, object] = {}
    if path is not None:
        file = Path(path)
        values = _checked(_read_toml(file), f"{file}: ")
        for key in _PATHS:
            if isinstance(values.get(key), str):
                values[key] = absolute(str(values[key]), file.resolve().parent)
        try:
            DaemonConfig(**values)  # type: ignore[arg-type]
        except ConfigError as error:
            raise ConfigError(f"{file}: {error}") from None
    given = {key: value for key, value in (flags or {}).items() if value is not None}
    values.update(_checked(given, ""))
    if "instance" not in values:
        # The paths stay those of `default`, so that commands find the daemon as before; its name,
        # which is typed before what is dangerous, tells it from other exchanges.
        values["instance"] = _name_of(values)
        values.setdefault("data", str(default_data_dir("default")))
        values.setdefault("admin", str(default_admin_path("default")))
    return DaemonConfig(**values)  # type: ignore[arg-type]


def _name_of(values: Mapping[str, object]) -> str:
    """Name an instance that has no name after its data directory, else after its admin socket."""
    if "data" in values:
        name = Path(absolute(str(values["data"]))).name
    else:
        name = Path(str(values.get("admin", "default"))).stem
    return re.sub(r"[^A-Za-z0-9._-]", "-", name).lstrip("._-")[:64] or "default"


def parse_address(text: str, key: str = "address") -> tuple[str, int]:
    """Split HOST:PORT; an IPv6 host stands in brackets.

    Raises:
        ConfigError: it is not one.
    """
    host, colon, port_text = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if bracketed:
        host = host[1:-1]
    right = bool(colon and host) and (bracketed or ":" not in host) and "[" not in host
    # Digits of other scripts pass str.isdigit, hence isascii.
    if not right or not (port_text.isascii() and port_text.isdigit()) or int(port_text) > 65_535:
        raise _refusal(key, text, "HOST:PORT such as 127.0.0.1:9000 or [::1]:9000, port 0 to 65535")
    return host, int(port_text)


def format_address(host: str, port: int) -> str:
    """Join what parse_address splits."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def default_data_dir(instance: str) -> Path:
    """Return where an instance keeps its log when nobody says otherwise."""
    state = os.environ.get("XDG_STATE_HOME", "")
    base = Path(state) if state.startswith("/") else Path.home() / ".local" / "state"
    return base / "bourse" / instance


def runtime_dir() -> Path:
    """Return the directory of the admin sockets of this user."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if runtime.startswith("/"):
        return Path(runtime) / "bourse"
    return Path(os.environ.get("TMPDIR") or "/tmp") / f"bourse-{os.getuid()}"


def default_admin_path(instance: str) -> Path:
    """Return the admin socket of an instance when nobody says otherwise."""
    return runtime_dir() / f"{instance}.sock"


def admin_flag(path: Path | str) -> str:
    """Return what a command that is named to a person needs to reach the daemon at this socket.

    Empty for the socket that commands take by themselves.
    """
    usual = str(path) == str(default_admin_path("default"))
    return "" if usual else f" --admin {shlex.quote(str(path))}"


def check_admin_path(path: str) -> None:
    """Refuse a path that does not fit into a Unix socket address.

    Raises:
        ConfigError: it is too long.
    """
    length = len(os.fsencode(path))
    if length > ADMIN_PATH_BYTES_MAX:
        raise ConfigError(
            f"admin = {path!r} is {length} bytes long, and a Unix socket's path may have "
            f"{ADMIN_PATH_BYTES_MAX}; choose a shorter one with --admin"
        )


def prepare_admin_dir(path: Path) -> None:
    """Make the directory of an admin socket, private to this user.

    The directory that all instances of a user share is looked at closely: in a world-writable
    temporary directory another user could have made it first.

    Raises:
        ConfigError: it cannot be made, or it belongs to somebody else, or others may enter it.
    """
    parent = path.parent
    try:
        parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = parent.lstat()
    except OSError as error:
        raise ConfigError(
            f"cannot make the admin socket's directory {parent} ({error.strerror}); "
            "choose another place with --admin"
        ) from None
    if parent != runtime_dir():
        return
    private = stat.S_ISDIR(status.st_mode) and stat.S_IMODE(status.st_mode) & 0o077 == 0
    if not private or status.st_uid != os.getuid():
        raise ConfigError(
            f"the admin socket's directory {parent} must be a directory of user {os.getuid()} with "
            "mode 0700; repair or remove it, or choose another place with --admin"
        )


def absolute(path: str, base: Path | None = None) -> str:
    """Make a path absolute without following links; `~` is the user's home.

    Raises:
        ConfigError: it names the home of nobody.
    """
    try:
        return os.path.normpath((base or Path.cwd()) / Path(path).expanduser())
    except RuntimeError:
        raise ConfigError(f"{path!r} begins with the home of a user who has none") from None


def _check_path(key: str, path: str | None) -> None:
    """Refuse a path that cannot be opened, or cannot be told to clients: JSON is UTF-8.

    Raises:
        ConfigError: it holds a NUL, or bytes that are no UTF-8 (Python has them as surrogates).
    """
    if path is not None and any(char == "\0" or "\ud800" <= char <= "\udfff" for char in path):
        raise _refusal(key, path, "a path in UTF-8")


def parse_choice(key: str, value: object) -> IntEnum:
    """Turn the text of a flag or a file into a member of its enumeration.

    Raises:
        ConfigError: there is no such word.
    """
    words = {member.label: member for member in _CHOICES[key]}
    if isinstance(value, _CHOICES[key]):
        return value
    if not isinstance(value, str) or value not in words:
        raise _refusal(key, value, "one of " + ", ".join(words))
    return words[value]


def _refusal(key: str, value: object, allowed: str) -> ConfigError:
    shown = f"{value!r}" if isinstance(value, str) else f"{value}"
    return ConfigError(f"{key} = {shown} is not allowed; it must be {allowed}")


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        text = path.read_bytes().decode()
    except OSError as error:
        raise ConfigError(f"cannot read the configuration {path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{path}: byte {error.start} is not UTF-8; save the file as UTF-8"
        ) from None
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: {_toml_sentence(str(error), text)}") from None


def _toml_sentence(error: str, text: str) -> str:
    """Name the key: tomllib says only "Cannot overwrite a value (at line 2, column 12)"."""
    match = re.search(r"at line (\d+)", error)
    lines = text.splitlines()
    number = int(match[1]) if match else len(lines)
    line = lines[number - 1] if 0 < number <= len(lines) else ""
    key = line.partition("=")[0].strip()
    if error.startswith("Cannot overwrite a value"):
        return f"line {number}: {key} is given twice; keep one of them"
    return f"line {number}: {key or 'the file'} is not TOML: {error}"


def _checked(values: Mapping[str, object], where: str) -> dict[str, object]:
    """Refuse unknown keys and wrong types; turn words into enumerations."""
    fields = {field.name: field for field in msgspec.structs.fields(DaemonConfig)}
    checked: dict[str, object] = {}
    for key, value in values.items():
        if key not in fields:
            close = difflib.get_close_matches(key, fields, 1)
            hint = f"did you mean {close[0]}?" if close else "the keys are " + ", ".join(fields)
            raise ConfigError(f"{where}{key} is not a key of the configuration; {hint}")
        try:
            if key in _CHOICES:
                checked[key] = parse_choice(key, value)
            elif key in _PATHS and not value:
                raise _refusal(key, value, "a path")
            else:
                checked[key] = msgspec.convert(value, fields[key].type)
        except msgspec.ValidationError:
            raise ConfigError(
                f"{where}{_refusal(key, value, _type_name(fields[key].type))}"
            ) from None
        except ConfigError as error:
            raise ConfigError(f"{where}{error}") from None
    return checked


def _type_name(type_: object) -> str:
    if type_ is int:
        return "a whole number"
    if type_ is float:
        return "a number"
    return "true or false" if type_ is bool else "a text in quotes"
