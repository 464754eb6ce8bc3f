"""bourse.config: defaults, files, flags, and a sentence for everything that is wrong."""

import tomllib
from pathlib import Path

import msgspec
import pytest

from bourse.config import (
    DaemonConfig,
    admin_flag,
    check_admin_path,
    default_admin_path,
    default_data_dir,
    format_address,
    load_config,
    parse_address,
    prepare_admin_dir,
)
from bourse.domain import Durability, PollMode
from bourse.errors import ConfigError


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


PAGE = Path(__file__).resolve().parents[2] / "docs" / "configuration.md"


def test_the_page_has_every_key_with_its_default() -> None:
    shown = tomllib.loads(PAGE.read_text().partition("```toml\n")[2].partition("```")[0])
    config = DaemonConfig()

    assert list(shown) == [field.name for field in msgspec.structs.fields(DaemonConfig)]
    for key, value in shown.items():
        if value != "...":
            default = getattr(config, key)
            assert value == getattr(default, "label", default), key


def test_defaults_are_the_documented_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/me")

    config = load_config()

    assert config.data == "/state/bourse/default"
    assert config.admin == "/run/me/bourse/default.sock"
    assert config.listen_address == ("127.0.0.1", 9000)
    assert (config.durability, config.poll) == (Durability.FSYNC, PollMode.ADAPTIVE)
    assert config.log_file is None
    assert not config.cancel_on_disconnect


def test_paths_fall_back_without_xdg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("TMPDIR", "/var/tmp")

    assert default_data_dir("x") == Path("/home/me/.local/state/bourse/x")
    assert default_admin_path("x").parent.name.startswith("bourse-")
    assert default_admin_path("x").is_relative_to("/var/tmp")


def test_flags_win_over_the_file(tmp_path: Path) -> None:
    file = write(
        tmp_path / "b.toml",
        'durability = "async"\npoll = "busy"\nasync_interval_ms = 5\ndata = "d"\n'
        "slow_reader_seconds = 2\n",
    )

    config = load_config(file, {"durability": "memory", "poll": None})

    assert config.durability is Durability.MEMORY
    assert config.poll is PollMode.BUSY
    assert config.async_interval_ms == 5
    assert config.slow_reader_seconds == 2
    assert config.data_dir == tmp_path / "d"


def test_relative_flags_start_at_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert load_config(None, {"data": "d"}).data_dir == tmp_path / "d"


def test_a_name_gives_the_data_directory_and_the_admin_socket() -> None:
    config = load_config(None, {"instance": "two"})

    assert config.instance == "two"
    assert config.data_dir == default_data_dir("two")
    assert config.admin_path == default_admin_path("two")


@pytest.mark.parametrize(
    ("flags", "name"),
    [
        ({}, "default"),
        ({"data": "/srv/x", "admin": "/run/y.sock"}, "x"),
        ({"data": "/srv/.my market/"}, "my-market"),
        ({"data": "/"}, "default"),
        ({"admin": "/run/y.sock"}, "y"),
        ({"data": "/srv/x", "instance": "z"}, "z"),
    ],
)
def test_an_exchange_without_a_name_is_called_after_its_directory(
    flags: dict[str, str], name: str
) -> None:
    config = load_config(None, flags)

    assert config.instance == name
    if "instance" not in flags:
        # Commands without flags go on finding it.
        assert config.admin == flags.get("admin", str(default_admin_path("default")))


def test_a_file_may_name_the_instance(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text('instance = "named"\ndata = "d"\n')

    assert load_config(tmp_path / "c.toml").instance == "named"
    assert load_config(tmp_path / "c.toml").admin_path == default_admin_path("named")


def test_a_named_command_has_the_socket_only_where_it_is_needed() -> None:
    assert admin_flag(default_admin_path("default")) == ""
    assert admin_flag("/run/my x.sock") == " --admin '/run/my x.sock'"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("lisen = 'x:1'", ["lisen", "did you mean listen?"]),
        ("zzz = 1", ["zzz", "the keys are instance, symbol"]),
        ("[wal]\nx = 1", ["wal"]),
        ("connections_max = 'many'", ["connections_max", "'many'", "a whole number"]),
        ("connections_max = 1.5", ["connections_max", "1.5", "a whole number"]),
        ("connections_max = true", ["connections_max", "a whole number"]),
        ("connections_max = 0", ["connections_max", "0", "from 1 to"]),
        ("command_ring_count = 1000", ["command_ring_count", "1000", "a power of two"]),
        ("cancel_on_disconnect = 1", ["cancel_on_disconnect", "true or false"]),
        ("durability = 'sync'", ["durability", "'sync'", "memory, async, fsync"]),
        ("durability = 2", ["durability", "memory, async, fsync"]),
        ("poll = 'hot'", ["poll", "'hot'", "block, adaptive, busy"]),
        ("instance = '../x'", ["instance", "letters"]),
        ("symbol = 'A SYMBOL'", ["symbol", "1 to 16"]),
        ("listen = '9000'", ["listen", "HOST:PORT"]),
        ("listen = 'h:70000'", ["listen", "65535"]),
        ("data = ''", ["data", "a path"]),
        ("outbound_max_bytes = 5000", ["outbound_max_bytes", "outbound_high_water_bytes"]),
        ("slow_reader_seconds = nan", ["slow_reader_seconds"]),
        ("poll = 'busy'\npoll = 'block'", ["line 2", "poll is given twice"]),
        ("poll 3", ["line 1", "not TOML"]),
        ("poll = ", ["line 1", "not TOML"]),
    ],
)
def test_a_wrong_file_is_refused_in_one_sentence(
    tmp_path: Path, text: str, words: list[str]
) -> None:
    file = write(tmp_path / "b.toml", text)

    with pytest.raises(ConfigError) as caught:
        load_config(file)

    sentence = str(caught.value)
    assert "\n" not in sentence
    assert sentence.startswith(f"{file}: ")
    for word in words:
        assert word in sentence


def test_a_missing_file_and_a_binary_one_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read the configuration .*none"):
        load_config(tmp_path / "none")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="binary: byte 0 is not UTF-8"):
        load_config(tmp_path / "binary")


def test_a_range_is_said_in_full() -> None:
    with pytest.raises(ConfigError, match=r"it must be from 65536 to 17179869184$"):
        load_config(None, {"wal_segment_bytes": 1})


def test_a_wrong_flag_is_refused_without_a_file_name() -> None:
    with pytest.raises(ConfigError, match=r"^durability = 'sync' is not allowed"):
        load_config(None, {"durability": "sync"})


@pytest.mark.parametrize(
    ("text", "pair"),
    [
        ("127.0.0.1:9000", ("127.0.0.1", 9000)),
        ("[::1]:0", ("::1", 0)),
        ("localhost:65535", ("localhost", 65535)),
    ],
)
def test_an_address_is_split_and_joined_again(text: str, pair: tuple[str, int]) -> None:
    assert parse_address(text) == pair
    assert format_address(*pair) == text


@pytest.mark.parametrize(
    "text",
    ["", "9000", ":9000", "h:", "h:x", "h:-1", "::1:9000", "[::1]", "[]:1", "h:65536", "h:٣"],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="HOST:PORT"):
        parse_address(text)


def test_an_admin_path_has_at_most_107_bytes() -> None:
    check_admin_path("/" + "x" * 106)
    with pytest.raises(ConfigError, match="108 bytes long"):
        check_admin_path("/" + "x" * 107)
    with pytest.raises(ConfigError, match="109 bytes long"):
        DaemonConfig(admin="/" + "ü" * 54)


def test_the_runtime_directory_is_made_private(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    path = default_admin_path("default")

    prepare_admin_dir(path)
    prepare_admin_dir(path)

    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_runtime_directory_that_others_may_enter_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    path = default_admin_path("default")
    path.parent.mkdir(mode=0o755)

    with pytest.raises(ConfigError, match="mode 0700"):
        prepare_admin_dir(path)


def test_a_runtime_directory_that_is_a_link_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "bourse").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(ConfigError, match="must be a directory"):
        prepare_admin_dir(default_admin_path("default"))


@pytest.mark.parametrize("key", ["data", "admin", "log_file"])
@pytest.mark.parametrize("path", ["/tmp/\udcff", "/tmp/a\0b", "~nobody-of-this-name/x"])
def test_a_path_that_cannot_be_told_or_opened_is_refused(key: str, path: str) -> None:
    with pytest.raises(ConfigError, match="UTF-8|home"):
        load_config(flags={key: path})
