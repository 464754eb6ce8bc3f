"""The bourse command (Typer): each command's module is imported only when it runs.

An error that bourse raises on purpose becomes one sentence on stderr and its exit code:

    0    done                        4    somebody else owns the data directory, socket or port
    1    refused, or a check failed  5    a peer broke a protocol
    2    wrong usage                 65   the log or a snapshot cannot be used
    3    no daemon answers           130  interrupted        141  whoever read the output went away

A daemon in the foreground also ends with 70 (a bug) and 74 (the disk failed): daemon/main.py.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
import importlib.util
import io
import os
import re
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from bourse.cli.output import drop_stdout, harmless
from bourse.errors import BourseError, UsageError

INTERRUPTED = 130
"""128 + SIGINT, as shells say it."""
PIPE_CLOSED = 141
"""128 + SIGPIPE."""

# Name of a command, the module that has it as `app`, in the order in which --help lists them.
COMMANDS = {
    "demo": "bourse.cli.demo",
    "daemon": "bourse.cli.daemon",
    "tui": "bourse.cli.tui",
    "top": "bourse.cli.top",
    "buy": "bourse.cli.orders:buy_app",
    "sell": "bourse.cli.orders:sell_app",
    "cancel": "bourse.cli.orders:cancel_app",
    "book": "bourse.cli.market:book_app",
    "watch": "bourse.cli.market:watch_app",
    "snapshot": "bourse.cli.journal:snapshot_app",
    "halt": "bourse.cli.dangers:halt_app",
    "resume": "bourse.cli.dangers:resume_app",
    "kick": "bourse.cli.dangers:kick_app",
    "cancel-all": "bourse.cli.dangers:cancel_all_app",
    "replay": "bourse.cli.journal:replay_app",
    "recover": "bourse.cli.recover",
    "bench": "bourse.cli.bench",
    "doctor": "bourse.cli.doctor",
}


# What people type first for what is said in two words.
MOVED = {"start": "daemon start", "stop": "daemon stop", "status": "daemon status"}
HELP_NAMES = ["--help", "-h"]


class _Page(io.StringIO):
    """Takes the help page in stdout's place, and looks like it."""

    def __init__(self) -> None:
        super().__init__()
        self._stdout = sys.stdout

    def isatty(self) -> bool:
        return self._stdout.isatty()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._stdout.encoding


def _print_page(show: Callable[[], None]) -> None:
    """Print a help page without the empty line that it begins with, and in one piece.

    Rich would end the process with 1 where a reader goes away in between.
    """
    page = _Page()
    with contextlib.redirect_stdout(page):
        show()
    first, _, rest = page.getvalue().partition("\n")
    sys.stdout.write(f"{first}\n{rest}" if first.strip() else rest)


def hide_flag_types(command: Any) -> None:
    """Show no type beside what takes no value: help is to say `--json`, not `--json <bool>`."""
    for parameter in command.params:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
    make_help_option = command.get_help_option

    def help_option(ctx: Any) -> Any:
        option = make_help_option(ctx)
        if option is not None:
            option.metavar = ""
        return option

    command.get_help_option = help_option
    format_help = command.format_help
    command.format_help = lambda ctx, formatter: _print_page(lambda: format_help(ctx, formatter))
    for child in getattr(command, "commands", {}).values():
        hide_flag_types(child)


class LazyGroup(TyperGroup):
    """The top of the tree: a command is imported when it is asked for."""

    def resolve_command(self, ctx: Any, args: Any) -> Any:
        """Find the command; the sentence about one that does not exist names what is near."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            moved = MOVED.get(args[0])
            names = [moved] if moved else difflib.get_close_matches(args[0], COMMANDS)
            near = " or ".join(f"`{name}`" for name in names)
            hint = f" Did you mean {near}?" if near else ""
            ctx.fail(f"No such command '{args[0]}'.{hint}")
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names, in their own order."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import a command; None when there is none of this name."""
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name].partition(":")
        command = typer.main.get_command(
            getattr(importlib.import_module(module), attribute or "app")
        )
        command.name = cmd_name
        hide_flag_types(command)
        return command


app = typer.Typer(
    name="bourse",
    cls=LazyGroup,
    help="An exchange in a terminal: start it, trade on it, watch it, kill it, replay it.",
    epilog="First steps: bourse demo. Or: bourse daemon start --detach, then bourse tui.",
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from bourse import __version__

        typer.echo(f"bourse {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _top(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and end."
        ),
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(UsageError.exit_code)


def run(arguments: list[str]) -> int:
    """Run one command line and return its exit code; says on stderr what went wrong."""
    _open_streams()
    try:
        command = typer.main.get_command(app)
        hide_flag_types(command)
        with command.make_context(
            "bourse", list(arguments), help_option_names=HELP_NAMES
        ) as context:
            result = command.invoke(context)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except typer.Exit as error:
        return int(error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        drop_stdout()
        return PIPE_CLOSED
    except BourseError as error:
        complain(str(error))
        return error.exit_code
    except MemoryError:
        complain("there is not enough memory; a daemon needs less with smaller rings (--config)")
        return BourseError.exit_code
    except OSError as error:
        # A full disk behind stdout, a path that is too long: the system's own words say which.
        about = f"cannot use {error.filename}" if error.filename else "the system refused"
        complain(f"{about}: {error.strerror or error}")
        try:
            sys.stdout.flush()
        except OSError:
            drop_stdout()
        return BourseError.exit_code
    except Exception as error:
        # Usage errors of the command line's own library, which has no public name for their root.
        if not hasattr(error, "format_message"):
            if _is_compiled():
                raise
            complain(
                "the compiled modules are missing; build them with `make setup` in the source "
                "tree, or install the package with `pip install .`"
            )
            return BourseError.exit_code
        context_of = getattr(error, "ctx", None)
        path = context_of.command_path if context_of else "bourse"
        # Empty: the help was printed instead.
        if message := _in_plain_words(error.format_message().rstrip(".")):
            complain(f"{message}{' See' if message.endswith('?') else '; see'} `{path} --help`")
        return int(getattr(error, "exit_code", 2))


def _is_compiled() -> bool:
    """Say whether the hot path is there as machine code, without which no error means anything."""
    found = importlib.util.find_spec("bourse.core.engine")
    return found is not None and not str(found.origin).endswith(".py")


def _in_plain_words(message: str) -> str:
    """Say what a value must be; the library that checks it speaks of input and of parsing."""
    message = re.sub(
        r"Input should be a valid integer(, .*)?", "it must be a whole number", message
    )
    message = re.sub(r"Input should be a valid number(, .*)?", "it must be a number", message)
    return message.replace("Input should be", "it must be")


def _open_streams() -> None:
    """Give closed streams somewhere to go; print `?` for what the locale has no bytes for.

    Opened first, the substitutes take the numbers 0 to 2, where no file of ours must be.
    """
    for name, flags in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), flags))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def complain(sentence: str) -> None:
    """Say one sentence on stderr."""
    with contextlib.suppress(OSError):
        sys.stderr.write(f"bourse: {harmless(sentence)}\n")
        sys.stderr.flush()


def main() -> None:
    """Run the command line of this process and end it."""
    sys.exit(run(sys.argv[1:]))
