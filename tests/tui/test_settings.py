"""The settings file, the keys that it binds anew, and the filters' words."""

from pathlib import Path

import pytest

from bourse.admin.actions import ACTIONS, BUILT, keys_of
from bourse.errors import ConfigError
from bourse.tui import filters
from bourse.tui.settings import Instance, Settings, as_toml, keymap, load, settings_path

FILE = """
theme = "light"
rate_hz = 10
ascii = true
read_only = true

[keys]
freeze = ["f", "space"]
export = []

[instances.prod-1]
admin = "/run/bourse/prod-1.sock"
environment = "prod"
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "console.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_what_the_file_says_is_taken(tmp_path: Path) -> None:
    settings = load(written(tmp_path, FILE))

    assert (settings.theme, settings.rate_hz) == ("light", 10)
    assert settings.ascii
    assert settings.read_only
    assert settings.mouse
    assert settings.instances == {"prod-1": Instance("/run/bourse/prod-1.sock", "prod")}


def test_without_a_file_all_is_as_by_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))

    assert settings_path() == tmp_path / "bourse" / "console.toml"
    assert load() == Settings()


def test_what_is_printed_can_be_read_back(tmp_path: Path) -> None:
    settings = load(written(tmp_path, FILE))

    again = load(written(tmp_path, as_toml(settings)))

    assert again.instances == settings.instances
    assert (again.theme, again.rate_hz, again.ascii) == ("light", 10, True)
    assert keymap(again.keys) == keymap(settings.keys)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('theme = "pink"', "theme is 'pink'"),
        ("rate_hz = 3", "rate_hz is 3"),
        ("colour = 1", "colour is not a key .* the keys are theme, "),
        ("theem = 1", "theem is not a key .* did you mean theme?"),
        ('rate_hz = "5"', "rate_hz must be of type int, it is of type str"),
        ("theme = ", "is no TOML"),
        ('[keys]\nfly = ["f"]', "no action 'fly'"),
        ('[keys]\nhalts = ["f"]', "no action 'halts'"),
        ('[keys]\nfreeze = ["hello world"]', "no name of a key"),
        ('[keys]\nfreeze = ["ctrl+b"]', "some terminals keep"),
        ("[keys]\nquit = []", "need a key"),
    ],
)
def test_what_is_not_understood_is_refused(tmp_path: Path, text: str, words: str) -> None:
    path = written(tmp_path, text)

    with pytest.raises(ConfigError, match=words) as refusal:
        load(path)
    assert str(path) in str(refusal.value)


def test_a_key_given_to_one_action_is_taken_from_the_other_and_said_once() -> None:
    keys, clashes = keymap({"freeze": ["s", "f"]})

    assert keys == {"freeze": ("s", "f"), "snapshot": ()}
    assert clashes == ["The key s is bound to freeze, no more to snapshot."]


def test_no_two_actions_share_a_key_whatever_is_bound() -> None:
    for overrides in ({}, {"freeze": ["q", "s"], "sort": ["s"]}, {"copy": [], "quit": ["y", "Q"]}):
        bound, _ = keymap(overrides)
        keys = [key for action in BUILT for key in keys_of(action, bound)]
        assert len(keys) == len(set(keys)), overrides


def test_each_action_has_a_key_of_its_own_that_no_terminal_takes() -> None:
    keys = [key for action in ACTIONS for key in action.keys]

    assert len(keys) == len(set(keys))
    assert not {f"ctrl+{letter}" for letter in "abghijmoqstz["} & set(keys)
    assert len({action.id for action in ACTIONS}) == len(ACTIONS)


FIELDS = {"peer": "10.0.0.7:50112", "state": "● open", "rejects": "3"}


@pytest.mark.parametrize(
    ("words", "fits"),
    [
        ("", True),
        ("10.0", True),
        ("OPEN", True),
        ("10.0 paused", False),
        ("!paused", True),
        ("!open", False),
        ("state:open", True),
        ("peer:open", False),
        ("50112", True),
        ("10.0.0.7:50112", True),  # a colon that is no column's
        (r"/^10\.0/", True),
        ("/^open/", False),
        ("!/7:5/", False),
        ("/a b/", False),
    ],
)
def test_filters_keep_the_rows_with_their_words(words: str, fits: bool) -> None:
    matches, trouble = filters.parse(words)

    assert matches(FIELDS) is fits
    assert not trouble


def test_a_wrong_expression_keeps_every_row_and_is_said() -> None:
    matches, trouble = filters.parse("/(/")

    assert matches(FIELDS)
    assert "/(/" in trouble
