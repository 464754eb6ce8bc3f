"""What can be done from the console, as one table: keys, footer, palette, help and command twins.

The console makes its key bindings, its footer, its palette and its help page from this table, and
docs/console.md its table of keys (`python -m bourse.admin.actions` prints it). Where a command has
the same effect, `command` names it, so that a person learns one set of verbs.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

import msgspec

SCREENS = ("overview", "book", "latency", "wal", "sessions", "time", "log")
"""The console's screens, in the order of their number keys."""


class Action(msgspec.Struct, frozen=True):
    """One thing to do."""

    id: str
    """Stable name; key maps refer to it."""
    title: str
    """One or two words, for the footer."""
    help: str
    """One sentence, for the help page."""
    keys: tuple[str, ...]
    """Key names as Textual spells them; the first is the one shown."""
    label: str = ""
    """How the key is shown in the footer; empty: as it is spelled."""
    command: str = ""
    """The command that does the same without the console."""
    footer: int = 0
    """Place in the footer, lowest first; 0: not there."""
    screens: tuple[str, ...] = ()
    """Where it means something; empty: everywhere."""
    needs_daemon: bool = False
    """Refused, with a sentence, while the connection is not live."""
    changes: bool = False
    """It changes the exchange or its files: refused in a console that is for looking only."""
    confirm: str = ""
    """What to ask first, with one key for yes; empty: nothing."""
    danger: bool = False
    """It ends or cancels what belongs to somebody: asked with the instance's name typed."""
    planned: bool = False
    """Its place is kept; it has no effect yet, and no key does it."""


ACTIONS: tuple[Action, ...] = (
    *(
        Action(
            id=f"screen.{name}",
            title=name.capitalize() if name != "wal" else "WAL",
            help=f"Screen {number}: {meaning}",
            keys=(str(number),),
        )
        for number, (name, meaning) in enumerate(
            zip(
                SCREENS,
                (
                    "all of the exchange in one look.",
                    "the whole ladder, a level's sums, the tape.",
                    "where the time goes, stage by stage.",
                    "what is safe on disk; files and checks.",
                    "who is connected, and who hurts.",
                    "the log as a line, and what replay proves.",
                    "what the daemon and the console said.",
                ),
                strict=True,
            ),
            1,
        )
    ),
    Action(
        id="palette",
        title="Palette",
        help="Everything that can be done, by name.",
        keys=("colon", "ctrl+p"),
        footer=8,
    ),
    Action(
        id="snapshot",
        title="Snapshot",
        help="Write a snapshot of the book now.",
        keys=("s",),
        command="bourse snapshot",
        footer=1,
        screens=("overview", "wal", "time"),
        needs_daemon=True,
        changes=True,
        confirm="Write a snapshot of the book now? The matcher pauses while it copies.",
    ),
    Action(
        id="replay",
        title="Replay",
        help="Replay the log, compare its digests with live.",
        keys=("r",),
        command="bourse replay --wal DIR",
        footer=2,
        screens=("overview", "wal", "time"),
        confirm="Replay the whole log beside the daemon? It reads all segments from disk.",
    ),
    Action(
        id="freeze",
        title="Freeze",
        help="Hold the picture still; the daemon goes on.",
        keys=("space",),
        footer=4,
    ),
    Action(
        id="next",
        title="Choose",
        help="Next stage, level or row.",
        keys=("down", "j"),
        label="↑↓",
        footer=5,
    ),
    Action(id="previous", title="Previous", help="Previous stage, level or row.", keys=("up", "k")),
    Action(id="page.next", title="Page", help="A page further.", keys=("pagedown",)),
    Action(id="page.previous", title="Page back", help="A page back.", keys=("pageup",)),
    Action(id="first", title="First", help="First row; the farthest ask.", keys=("home",)),
    Action(id="last", title="Last", help="Last row; the farthest bid.", keys=("end",)),
    Action(
        id="chart",
        title="Chart",
        help="Histogram or heat map of the stage.",
        keys=("v",),
        footer=6,
        screens=("overview", "latency"),
    ),
    Action(
        id="levels",
        title="Depth",
        help="Levels a side: what fits, 5, 10, 20, 50, 150.",
        keys=("d",),
        footer=1,
        screens=("book",),
        command="bourse book --levels N",
    ),
    Action(
        id="group",
        title="Group",
        help="Ticks a row: 1, 2, 5, 10 ... to 1,000.",
        keys=("g",),
        footer=2,
        screens=("book",),
    ),
    Action(
        id="filter",
        title="Filter",
        help="Rows with these words, !word, field:word, /re/.",
        keys=("slash",),
        footer=3,
        screens=("sessions", "log"),
    ),
    Action(
        id="sort",
        title="Sort",
        help="Order the rows by the next column.",
        keys=("o",),
        footer=3,
        screens=("sessions",),
    ),
    Action(
        id="back",
        title="Back",
        help="End the filter, the choice, the frozen picture.",
        keys=("escape",),
    ),
    Action(
        id="copy",
        title="Copy",
        help="Copy the chosen row, to clipboard and file.",
        keys=("y",),
        footer=7,
        screens=("book", "wal", "sessions", "time", "log"),
    ),
    Action(
        id="export",
        title="Export",
        help="Write this screen's values as JSON and CSV.",
        keys=("e",),
    ),
    Action(
        id="screenshot",
        title="Picture",
        help="Save the screen as SVG and as text.",
        keys=("p",),
        command="bourse tui --render 120x36 --out FILE",
    ),
    Action(
        id="connect",
        title="Connect",
        help="Watch another daemon of this machine.",
        keys=("c",),
        command="bourse tui --admin PATH",
    ),
    Action(
        id="theme",
        title="Theme",
        help="Dark, light, colour-blind, terminal's own.",
        keys=("T",),
        label="T",
    ),
    Action(
        id="faster",
        title="Rate",
        help="Paint more often, up to 20 a second.",
        keys=("plus", "equals_sign"),
        label="+-",
    ),
    Action(
        id="slower",
        title="Slower",
        help="Paint less often, down to once a second.",
        keys=("minus",),
    ),
    Action(
        id="help",
        title="Help",
        help="This page.",
        keys=("question_mark", "f1"),
        label="?",
        footer=9,
    ),
    Action(
        id="quit",
        title="Quit",
        help="Leave; the daemon goes on, a demo ends.",
        keys=("q", "ctrl+c"),
        footer=10,
    ),
    Action(
        id="halt",
        title="Halt",
        help="Refuse new orders; cancels only.",
        keys=("H",),
        command="bourse halt",
        needs_daemon=True,
        changes=True,
        danger=True,
    ),
    Action(
        id="resume",
        title="Resume",
        help="End the halt: trade again.",
        keys=("R",),
        command="bourse resume",
        needs_daemon=True,
        changes=True,
        danger=True,
    ),
    Action(
        id="kick",
        title="Kick",
        help="End the chosen session.",
        keys=("K",),
        command="bourse kick SESSION",
        screens=("sessions",),
        needs_daemon=True,
        changes=True,
        danger=True,
    ),
    Action(
        id="cancel.all",
        title="Cancel all",
        help="Cancel the chosen session's orders, or all.",
        keys=("X",),
        command="bourse cancel-all",
        screens=("sessions", "book"),
        needs_daemon=True,
        changes=True,
        danger=True,
    ),
    # Places of what comes later.
    Action(
        id="time.goto",
        title="Go to",
        help="The book as it was at a wal_seq.",
        keys=("G",),
        screens=("time",),
        planned=True,
    ),
)
BY_ID = {action.id: action for action in ACTIONS}
BUILT = tuple(action for action in ACTIONS if not action.planned)
FOOTER = tuple(sorted((a for a in BUILT if a.footer), key=lambda action: action.footer))

_SPELLED = {
    "plus": "+",
    "equals_sign": "=",
    "minus": "-",
    "question_mark": "?",
    "slash": "/",
    "colon": ":",
    "comma": ",",
    "full_stop": ".",
    "down": "↓",
    "up": "↑",
    "left": "←",
    "right": "→",
    "escape": "Esc",
    "pagedown": "PgDn",
    "pageup": "PgUp",
    "home": "Home",
    "end": "End",
    "enter": "Enter",
    "f1": "F1",
}


def spell(key: str) -> str:
    """Return a key as people write it."""
    return _SPELLED.get(key, key.replace("ctrl+", "^"))


def keys_of(action: Action, bound: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return an action's keys, as the operator bound them."""
    return bound.get(action.id, action.keys)


def label_of(action: Action, bound: Mapping[str, tuple[str, ...]]) -> str:
    """Return what the footer prints for an action's key; empty where it has none."""
    if action.id in bound:
        return spell(bound[action.id][0]) if bound[action.id] else ""
    return action.label or spell(action.keys[0])


def on_screen(action: Action, screen: str) -> bool:
    """Say whether an action means something on a screen."""
    return not action.screens or screen in action.screens


def key_table() -> str:
    """Return the table of keys for docs/console.md."""
    lines = [
        "| key | id | what it does | where | as a command |",
        "| --- | --- | --- | --- | --- |",
    ]
    for action in BUILT:
        keys = " ".join(spell(key) for key in action.keys)
        where = ", ".join(action.screens)
        command = f"`{action.command}`" if action.command else ""
        lines.append(f"| `{keys}` | {action.id} | {action.help} | {where} | {command} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(key_table())
