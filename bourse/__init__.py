"""bourse: an exchange in a terminal.

The library's names are imported when they are first asked for, so that `import bourse` costs
nothing: commands start through here.
"""

__version__ = "0.1.0"

__all__ = ["COMMAND_DTYPE", "EVENT_DTYPE", "Engine", "Fill", "Outcome", "Side", "get_include"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from bourse.domain import Side
    from bourse.library.arrays import COMMAND_DTYPE, EVENT_DTYPE
    from bourse.library.engine import Engine
    from bourse.library.results import Fill, Outcome

_HOMES = {
    "COMMAND_DTYPE": "bourse.library.arrays",
    "EVENT_DTYPE": "bourse.library.arrays",
    "Engine": "bourse.library.engine",
    "Fill": "bourse.library.results",
    "Outcome": "bourse.library.results",
    "Side": "bourse.domain",
}


def __getattr__(name: str) -> object:
    """Import a name of the library."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'bourse' has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value


def get_include() -> str:
    """Return the folder of bourse.h, for a C compiler's -I."""
    return __file__.rpartition("/")[0] + "/include"
