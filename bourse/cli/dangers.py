"""bourse halt, resume, kick, cancel-all: what hits others says first what it hits, and asks."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from bourse.cli.options import AdminOption, JsonOption, admin_path, command_app
from bourse.cli.output import say, say_json

if TYPE_CHECKING:
    from pathlib import Path

    from bourse.admin.messages import Prepared

halt_app = command_app()
resume_app = command_app()
kick_app = command_app()
cancel_all_app = command_app()

YesOption = Annotated[
    str | None,
    typer.Option(
        "--yes",
        metavar="INSTANCE",
        help="Do it without asking; INSTANCE is the daemon's name, as it would be typed.",
        show_default=False,
    ),
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Say what would be hit, and change nothing.")
]


@halt_app.command()
def halt(
    yes: YesOption = None,
    dry_run: DryRunOption = False,
    admin: AdminOption = None,
    as_json: JsonOption = False,
) -> int:
    """Halt the instrument: new orders are refused, cancels work, the book stays as it is.

    A halt is a command in the log: it outlives a restart, until `bourse resume`.

    \b
    Examples:
      bourse halt --dry-run
      bourse halt
      bourse halt --yes default

    \b
    Exit codes:
      0  halted (with --dry-run: it could be)
      1  refused, with the reason; nothing was changed
      2  wrong usage, or nobody there to ask
      3  no daemon answers
    """
    return _run("halt", 0, yes, dry_run, admin, as_json)


@resume_app.command()
def resume(
    yes: YesOption = None,
    dry_run: DryRunOption = False,
    admin: AdminOption = None,
    as_json: JsonOption = False,
) -> int:
    """Let a halted instrument trade again; its book is as it was.

    \b
    Examples:
      bourse resume
      bourse resume --yes default --json

    \b
    Exit codes:
      0  it trades (with --dry-run: it could)
      1  refused, with the reason; nothing was changed
      2  wrong usage, or nobody there to ask
      3  no daemon answers
    """
    return _run("resume", 0, yes, dry_run, admin, as_json)


@kick_app.command()
def kick(
    session_id: Annotated[
        int, typer.Argument(metavar="SESSION", help="The session's number.", min=1)
    ],
    yes: YesOption = None,
    dry_run: DryRunOption = False,
    admin: AdminOption = None,
    as_json: JsonOption = False,
) -> int:
    """End a client's session: it gets its answers, then its connection is closed.

    Its orders stay in the book, or go with it where `cancel_on_disconnect` is configured. The
    client may connect again, as a new session.

    \b
    Examples:
      bourse kick 7 --dry-run
      bourse kick 7 --yes default

    \b
    Exit codes:
      0  ended (with --dry-run: it could be)
      1  refused, with the reason; nothing was changed
      2  wrong usage, or nobody there to ask
      3  no daemon answers
    """
    return _run("kick", session_id, yes, dry_run, admin, as_json)


@cancel_all_app.command()
def cancel_all(
    session_id: Annotated[
        int,
        typer.Option(
            "--session",
            metavar="SESSION",
            help="Only this session's orders, connected or not; 0: everybody's.",
            min=0,
        ),
    ] = 0,
    yes: YesOption = None,
    dry_run: DryRunOption = False,
    admin: AdminOption = None,
    as_json: JsonOption = False,
) -> int:
    """Cancel all live orders, of one session or of everybody. Later orders are not meant.

    To keep new ones out, `bourse halt` first.

    \b
    Examples:
      bourse cancel-all --dry-run
      bourse cancel-all --session 7
      bourse cancel-all --yes default --json

    \b
    Exit codes:
      0  cancelled (with --dry-run: they could be)
      1  refused, with the reason
      2  wrong usage, or nobody there to ask
      3  no daemon answers
    """
    return _run("cancel_all", session_id, yes, dry_run, admin, as_json)


def _run(
    action: str,
    session_id: int,
    yes: str | None,
    dry_run: bool,
    admin: Path | None,
    as_json: bool,
) -> int:
    """Prepare, ask, commit."""
    from bourse.admin.client import BlockingClient
    from bourse.admin.messages import CommitParams, PrepareParams
    from bourse.errors import UsageError

    if yes is not None and dry_run:
        raise UsageError("--yes does it and --dry-run does not; leave one away")
    asks = yes is None and not dry_run
    if asks and (as_json or not sys.stdin.isatty()):
        raise UsageError(
            "there is nobody to ask; say --yes INSTANCE to do it, --dry-run to see what it hits"
        )
    name = f"bourse {action.replace('_', '-')}"
    with BlockingClient(admin_path(admin), name) as client:
        prepared: Prepared = client.call("prepare", PrepareParams(action, session_id))
        if dry_run:
            say_json(prepared) if as_json else _say_impact(prepared)
            return 0
        if asks:
            _say_impact(prepared)
            yes = typer.prompt(f"Type {prepared.instance} to do it", default="", show_default=False)
            if yes != prepared.instance:
                say("Nothing was done.")
                return 1
        done = client.call("commit", CommitParams(prepared.token, yes or ""))
    if as_json:
        say_json(done)
    else:
        say(f"{done.sentence} Record {done.wal_seq:,}.")
    return 0


def _say_impact(prepared: Prepared) -> None:
    say(f"{prepared.instance}: {prepared.title}")
    for line in prepared.impact:
        say(f"  {line}")
