"""Flags that several commands share, so that they are the same everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

AdminOption = Annotated[
    Path | None,
    typer.Option(
        "--admin",
        metavar="PATH",
        help="The daemon's admin socket. Default: that of the instance `default` of this user.",
        show_default=False,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
DurabilityOption = Annotated[
    str | None,
    typer.Option(
        "--durability",
        metavar="memory|async|fsync",
        help="What an acknowledgement means: matched, written, or synced to disk.",
        show_default=False,
    ),
]
PollOption = Annotated[
    str | None,
    typer.Option(
        "--poll",
        metavar="block|adaptive|busy",
        help="How gateway and matcher wait: park, spin a little first, or spin.",
        show_default=False,
    ),
]


def command_app(help_text: str | None = None) -> typer.Typer:
    """Make the Typer of one command, or, with a help text, of a group of them."""
    return typer.Typer(
        help=help_text,
        no_args_is_help=help_text is not None,
        add_completion=False,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
    )


def admin_path(given: Path | None) -> Path:
    """Return the admin socket that a command speaks to."""
    from bourse.config import check_admin_path, default_admin_path

    if given is None:
        return default_admin_path("default")
    check_admin_path(str(given))
    return given
