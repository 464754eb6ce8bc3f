"""bourse tui: the console."""

from __future__ import annotations

from typing import Annotated

import typer

from bourse.cli.options import AdminOption, admin_path, command_app

app = command_app()


@app.command()
def tui(
    admin: AdminOption = None,
    rate_hz: Annotated[
        int, typer.Option("--rate-hz", metavar="1|2|5|10|20", help="Paints a second.")
    ] = 5,
) -> int:
    """Open the console: the book, trades, latencies, the log and sessions, live.

    It may be started before the daemon, and it survives the daemon's restart.
    `q` leaves it and `?` shows the keys. The daemon runs on.

    \b
    Example:
      bourse tui

    \b
    Exit codes:
      0  left
      2  this is no terminal that could show it
    """
    from bourse.tui.app import run

    return run(admin_path(admin), rate_hz)
