"""The console's settings: a TOML file, checked strictly, and the keys that it binds anew.

    theme = "dark"                # dark, light, colourblind, terminal
    rate_hz = 5                   # paints a second: 1, 2, 5, 10, 20
    ascii = false                 # draw with ASCII only
    mouse = true
    read_only = false             # do nothing that changes the exchange

    [keys]                        # by action, see the table of keys; an empty list: no key
    freeze = ["space", "f"]

    [instances.prod-1]            # what the picker offers beside the sockets that it finds
    admin = "/run/bourse/prod-1.sock"
    environment = "prod"          # shown in front of the status line

Flags of the command win over the file.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from bourse.admin.actions import BUILT, BY_ID, spell
from bourse.errors import ConfigError
from bourse.tui.state import RATES_HZ
from bourse.tui.theme import THEMES

_KEY = re.compile(r"[A-Za-z0-9_+]{1,32}")
_TAKEN = (*(f"ctrl+{letter}" for letter in "abghijmoqstz"), "ctrl+left_square_bracket")
"""Terminals and multiplexers keep these for themselves, or send them for Enter, Tab and Escape."""


class Instance(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A daemon that the picker offers."""

    admin: str
    environment: str = ""


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that the file may say, with its defaults."""

    theme: str = "dark"
    rate_hz: int = 5
    ascii: bool = False
    mouse: bool = True
    read_only: bool = False
    keys: dict[str, list[str]] = {}
    instances: dict[str, Instance] = {}

    def checked(self, where: str = "") -> Settings:
        """Return itself.

        Raises:
            ConfigError: a value is none that the console knows.
        """
        where = f"{where}: " if where else ""
        if self.theme not in THEMES:
            raise ConfigError(f"{where}theme is {self.theme!r}, expected one of {_list(THEMES)}")
        if self.rate_hz not in RATES_HZ:
            raise ConfigError(
                f"{where}rate_hz is {self.rate_hz}, expected one of {_list(RATES_HZ)}"
            )
        for action_id, keys in self.keys.items():
            if action_id not in BY_ID or BY_ID[action_id].planned:
                raise ConfigError(f"{where}keys: there is no action {action_id!r}")
            for key in keys:
                if not _KEY.fullmatch(key):
                    raise ConfigError(f"{where}keys.{action_id}: {key!r} is no name of a key")
                if key in _TAKEN:
                    raise ConfigError(
                        f"{where}keys.{action_id}: some terminals keep {key} for themselves"
                    )
        if not self.bound("quit") or not self.bound("help"):
            raise ConfigError(f"{where}keys: help and quit need a key each")
        return self

    def bound(self, action_id: str) -> tuple[str, ...]:
        """Return an action's keys before clashes are settled."""
        return tuple(self.keys.get(action_id, BY_ID[action_id].keys))


def _list(words: tuple[object, ...]) -> str:
    return ", ".join(str(word) for word in words)


def settings_path() -> Path:
    """Return where the file is."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    folder = Path(base) if base.startswith("/") else Path.home() / ".config"
    return folder / "bourse" / "console.toml"


def load(path: Path | None = None) -> Settings:
    """Read the file; without one everything is as by default.

    Args:
        path: a file that must exist; None: the user's, which need not.

    Raises:
        ConfigError: it cannot be read, or says what is not understood.
    """
    found = path or settings_path()
    try:
        text = found.read_text(encoding="utf-8")
    except FileNotFoundError:
        if path is None:
            return Settings()
        raise ConfigError(f"{found}: there is no such file; choose another with --config") from None
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no UTF-8"
        raise ConfigError(f"{found} cannot be read: {why}") from None
    try:
        return msgspec.convert(tomllib.loads(text), Settings).checked(str(found))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{found} is no TOML: {error}") from None
    except msgspec.ValidationError as error:
        raise ConfigError(f"{found}: {_sentence(str(error))}") from None


def _sentence(words: str) -> str:
    """Say what the library found wrong, with the key's name first."""
    if match := re.fullmatch(r"Object contains unknown field `([^`]*)`( - at `.*`)?", words):
        kind = Instance if match[2] else Settings
        known = [field.name for field in msgspec.structs.fields(kind)]
        close = difflib.get_close_matches(match[1], known, 1)
        hint = f"did you mean {close[0]}?" if close else "the keys are " + ", ".join(known)
        return f"{match[1]} is not a key of the console's settings; {hint}"
    if match := re.fullmatch(r"Expected `(.*)`, got `(.*)` - at `\$\.(.*)`", words):
        return f"{match[3]} must be of type {match[1]}, it is of type {match[2]}"
    return words


def keymap(overrides: Mapping[str, list[str]]) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """Return each action's keys where they differ from the table's, and what clashes, in sentences.

    A key that the file gives to one action is taken from the action that had it; of two that the
    file gives it to, the first one keeps it.
    """
    keys = {action.id: list(overrides.get(action.id, action.keys)) for action in BUILT}
    owners: dict[str, str] = {}
    troubles: list[str] = []
    ordered = [action.id for action in BUILT if action.id in overrides]
    ordered += [action.id for action in BUILT if action.id not in overrides]
    for action_id in ordered:
        for key in list(keys[action_id]):
            owner = owners.setdefault(key, action_id)
            if owner != action_id:
                keys[action_id].remove(key)
                troubles.append(
                    f"The key {spell(key)} is bound to {owner}, no more to {action_id}."
                )
    changed = {
        action.id: tuple(keys[action.id])
        for action in BUILT
        if tuple(keys[action.id]) != action.keys
    }
    return changed, troubles


def as_toml(settings: Settings) -> str:
    """Write settings as the file would, for --print-config."""
    lines = [
        f"# {settings_path()}",
        f'theme = "{settings.theme}"  # {_list(THEMES)}',
        f"rate_hz = {settings.rate_hz}  # {_list(RATES_HZ)}",
        f"ascii = {str(settings.ascii).lower()}",
        f"mouse = {str(settings.mouse).lower()}",
        f"read_only = {str(settings.read_only).lower()}",
        "",
        "[keys]",
    ]
    for action in BUILT:
        words = ", ".join(f'"{key}"' for key in settings.bound(action.id))
        name = f'"{action.id}"' if "." in action.id else action.id
        lines.append(f"{name} = [{words}]  # {action.help}")
    for name, instance in settings.instances.items():
        lines += ["", f"[instances.{_quoted(name)}]", f"admin = {_quoted(instance.admin, True)}"]
        lines.append(f"environment = {_quoted(instance.environment, True)}")
    return "\n".join(lines) + "\n"


def _quoted(text: str, always: bool = False) -> str:
    """Write a TOML key or string; JSON's strings are TOML's."""
    if not always and re.fullmatch(r"[A-Za-z0-9_-]+", text):
        return text
    return msgspec.json.encode(text).decode()
