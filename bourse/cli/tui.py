"""bourse tui: the console."""

from __future__ import annotations

import sys

from bourse.cli.options import AdminOption, admin_path, command_app

app = command_app()


@app.command()
def tui(admin: AdminOption = None) -> int:
    """Open the console: the book, trades, latencies, the log and sessions, live.

    It may be started before the daemon, and it survives the daemon's restart. `q` leaves it, `?` or
    F1 shows the keys. The daemon runs on.

    \b
    Example:
      bourse tui

    \b
    Exit codes:
      0  left
      2  stdout is not a terminal
    """
    from bourse.errors import UsageError

    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "the console needs a terminal, and this is none; for scripts there are "
            "`bourse daemon status --json` and `bourse book --json`"
        )
    from bourse.tui.app import run

    return int(run(admin_path(admin)))
