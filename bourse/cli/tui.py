"""bourse tui: the console, on a terminal or rendered into a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bourse.cli.options import AdminOption, admin_path, command_app
from bourse.cli.output import say

if TYPE_CHECKING:
    from bourse.tui.settings import Settings

app = command_app()


@app.command()
def tui(
    admin: AdminOption = None,
    rate_hz: Annotated[
        int | None,
        typer.Option("--rate-hz", metavar="1|2|5|10|20", help="Paints a second.", show_default="5"),
    ] = None,
    theme: Annotated[
        str | None,
        typer.Option(
            "--theme",
            metavar="dark|light|colourblind|terminal",
            help="Colours; NO_COLOR in the environment means none at all.",
            show_default="dark",
        ),
    ] = None,
    ascii_only: Annotated[
        bool, typer.Option("--ascii", help="Draw with printable ASCII only.")
    ] = False,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Do nothing that changes the exchange.")
    ] = False,
    no_mouse: Annotated[
        bool, typer.Option("--no-mouse", help="Leave the mouse to the terminal.")
    ] = False,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            metavar="FILE",
            help="Settings. Default: bourse/console.toml in the configuration directory.",
            show_default=False,
        ),
    ] = None,
    print_config: Annotated[
        bool, typer.Option("--print-config", help="Print the settings in effect, and end.")
    ] = False,
    in_browser: Annotated[
        bool,
        typer.Option("--web", help="Show it in a browser of this machine, until Ctrl-C."),
    ] = False,
    port: Annotated[
        int,
        typer.Option("--port", metavar="N", min=0, max=65_535, help="With --web; 0: a free one."),
    ] = 0,
    size: Annotated[
        str | None,
        typer.Option(
            "--render",
            metavar="COLUMNSxROWS",
            help="Without a terminal: render one picture into --out, and end.",
            show_default=False,
        ),
    ] = None,
    screen: Annotated[
        str,
        typer.Option(
            "--screen",
            metavar="NAME",
            help="Begin with: overview, book, latency, wal, sessions, time, log.",
        ),
    ] = "overview",
    out: Annotated[
        str | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="With --render: FILE.svg or FILE.txt; - writes text to stdout.",
            show_default=False,
        ),
    ] = None,
    seconds: Annotated[
        float,
        typer.Option("--seconds", metavar="N", min=0, help="With --render: watch so long."),
    ] = 3.0,
    press: Annotated[
        str,
        typer.Option(
            "--press",
            metavar="KEYS",
            help="With --render: press these keys first, such as v,down.",
            show_default=False,
        ),
    ] = "",
) -> int:
    """Open the console: the book, trades, latencies, the log and sessions, live.

    It may be started before the daemon, and it survives the daemon's restart.
    `q` leaves it and `?` shows the keys. The daemon runs on.

    \b
    Examples:
      bourse tui
      bourse tui --screen latency --theme light
      bourse tui --render 120x36 --screen wal --out wal.svg
      bourse tui --web --read-only
      bourse tui --print-config

    \b
    Exit codes:
      0  left, or rendered, or --web was ended
      2  wrong usage or settings, or this is no terminal that could show it
      3  --render: no daemon answers
    """
    import msgspec

    from bourse.admin.actions import SCREENS
    from bourse.errors import UsageError
    from bourse.tui.settings import as_toml, load

    if screen not in SCREENS:
        raise UsageError(f"--screen is {screen!r}, expected one of {', '.join(SCREENS)}")
    if in_browser and size is not None:
        raise UsageError("--web and --render are two different things; give one of them")
    if (size is None) != (out is None):
        raise UsageError("--render and --out go together")
    settings = load(config)
    given = {
        "rate_hz": rate_hz,
        "theme": theme,
        "ascii": ascii_only or None,
        "read_only": read_only or None,
        "mouse": False if no_mouse else None,
    }
    wished = {name: value for name, value in given.items() if value is not None}
    settings = msgspec.structs.replace(settings, **wished).checked()
    if print_config:
        say(as_toml(settings).rstrip("\n"))
        return 0
    if size is not None and out is not None:
        from bourse.tui.render import render_to

        keys = [key for key in press.split(",") if key]
        render_to(out, admin_path(admin), size, seconds, settings, screen, keys)
        return 0
    if in_browser:
        return serve(admin_path(admin), settings, screen, port)
    from bourse.tui.app import run

    return run(admin_path(admin), settings=settings, screen=screen)


def serve(admin: Path, settings: Settings, screen: str, port: int) -> int:
    """Serve the console to browsers of this machine.

    Raises:
        UsageError: the extra is not installed, or the port is taken.
    """
    from bourse.errors import UsageError

    try:
        from bourse.tui import browser
    except ModuleNotFoundError as error:
        raise UsageError(
            f"--web needs the extra web ({error.name} is missing); "
            "install it with: pip install 'bourse-exchange[web]'"
        ) from None

    def tell(address: str) -> None:
        say(f"The console is at {address}\nOnly this address opens it. Ctrl-C ends it.")

    return browser.serve(admin, settings, screen, port, tell)
