"""What can be done from the console, as one table: keys, footer, help page and command twins.

The console makes its key bindings, its footer and its help page from this table; the command with
the same effect is named in `command`, so that a person learns one set of verbs.
"""

from __future__ import annotations

import msgspec


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
    """How the key is shown; empty: as it is spelled."""
    command: str = ""
    """The command that does the same without the console."""
    footer: int = 0
    """Place in the footer, lowest first; 0: not there."""
    needs_daemon: bool = False
    """Refused, with a sentence, while the connection is not live."""

    @property
    def key_label(self) -> str:
        """What to print for the key."""
        return self.label or self.keys[0]


ACTIONS: tuple[Action, ...] = (
    Action(
        id="snapshot",
        title="Snapshot",
        help="Write a snapshot of the book now.",
        keys=("s",),
        command="bourse snapshot",
        footer=1,
        needs_daemon=True,
    ),
    Action(
        id="replay",
        title="Replay",
        help="Replay the log, compare its digests with live.",
        keys=("r",),
        command="bourse replay --wal DIR",
        footer=2,
    ),
    Action(
        id="freeze",
        title="Freeze",
        help="Hold the picture still; the daemon goes on.",
        keys=("space",),
        footer=3,
    ),
    Action(
        id="stage.next",
        title="Stage",
        help="Next stage, for histogram and history.",
        keys=("down", "j"),
        label="↑↓",
        footer=4,
    ),
    Action(
        id="stage.previous",
        title="Stage",
        help="Previous stage.",
        keys=("up", "k"),
        label="↑",
    ),
    Action(
        id="chart",
        title="Chart",
        help="Histogram or heat map of the stage.",
        keys=("v",),
        footer=5,
    ),
    Action(
        id="faster",
        title="Rate",
        help="Paint more often, up to 20 a second.",
        keys=("plus", "equals_sign"),
        label="+-",
        footer=6,
    ),
    Action(
        id="slower",
        title="Slower",
        help="Paint less often, down to once a second.",
        keys=("minus",),
        label="-",
    ),
    Action(
        id="screenshot",
        title="Picture",
        help="Save the screen as SVG and as text.",
        keys=("p",),
    ),
    Action(
        id="help",
        title="Help",
        help="This page.",
        keys=("question_mark", "f1"),
        label="?",
        footer=7,
    ),
    Action(
        id="quit",
        title="Quit",
        help="Leave; the daemon goes on, a demo ends.",
        keys=("q", "ctrl+c"),
        footer=8,
    ),
)
BY_ID = {action.id: action for action in ACTIONS}
FOOTER = tuple(sorted((a for a in ACTIONS if a.footer), key=lambda action: action.footer))
