"""The operations console (Textual). Importing this package imports no Textual; running it does."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from bourse.errors import UsageError

RATES_HZ = (1, 2, 5, 10, 20)


def run(admin_path: str | Path, rate_hz: int = 5) -> int:
    """Show the console of a daemon until the operator leaves.

    It opens whether a daemon answers or not, and follows it through restarts.

    Args:
        admin_path: the daemon's admin socket.
        rate_hz: paints a second: 1, 2, 5, 10 or 20.

    Returns:
        The exit code: 0, or 128 + n after signal n.

    Raises:
        UsageError: this is no terminal that could show it.
    """
    if rate_hz not in RATES_HZ:
        raise UsageError(f"The refresh rate must be one of {RATES_HZ}, not {rate_hz}.")
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "The console needs a terminal, and this is none; "
            "for text use: bourse daemon status, or bourse watch"
        )
    if os.environ.get("TERM", "") in ("", "dumb"):
        raise UsageError(
            f"The console needs a terminal that can move its cursor (TERM is "
            f"{os.environ.get('TERM', '') or 'not set'}); for text use: bourse daemon status"
        )
    from bourse.admin.client import Feed
    from bourse.tui.app import Console, is_mono, subscriptions
    from bourse.tui.driver import OpsDriver

    mono = is_mono()
    wish = os.environ.pop("NO_COLOR", None)
    if mono and wish is not None:
        os.environ["NO_COLOR"] = wish
    feed = Feed(admin_path, subscriptions(rate_hz), name="bourse tui")
    console = Console(feed, rate_hz=rate_hz, mono=mono, driver_class=OpsDriver)
    if wish is not None:  # Textual takes it out of the environment; children want it back
        os.environ["NO_COLOR"] = wish
    console.run()
    return console.return_code or 0
