"""Commands and events as NumPy structured arrays: the 64-byte structs of core/records.pxd.

The one module that needs NumPy; nothing imports it before an array is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bourse.core import records

try:
    import numpy
except ImportError:
    raise ImportError(
        "arrays of commands and events need NumPy; "
        "install it with `pip install 'bourse-exchange[numpy]'`"
    ) from None

if TYPE_CHECKING:
    from numpy.typing import NDArray

_NUMPY_TYPES = {"B": "u1", "I": "<u4", "Q": "<u8", "q": "<i8"}


def _dtype(fields: tuple[str, ...], layout: str) -> numpy.dtype[numpy.void]:
    """Make a dtype from names and a struct format without padding."""
    types = [_NUMPY_TYPES[letter] for letter in layout.removeprefix("<")]
    return numpy.dtype(list(zip(fields, types, strict=True)))


COMMAND_DTYPE = _dtype(records.Command._fields, records.COMMAND.format)
"""One command, 64 bytes: the struct Command of core/records.pxd, field by field."""

EVENT_DTYPE = _dtype(records.Event._fields, records.EVENT.format)
"""One event, 64 bytes: the struct Event of core/records.pxd, field by field."""


def check_commands(commands: object) -> None:
    """Refuse what the engine cannot read in place.

    Raises:
        TypeError: no array, or of another dtype.
        ValueError: not one dimension, or not contiguous.
    """
    if not isinstance(commands, numpy.ndarray):
        raise TypeError(f"commands is a {type(commands).__name__}, expected a NumPy array")
    if commands.dtype is not COMMAND_DTYPE and commands.dtype != COMMAND_DTYPE:
        raise TypeError(f"commands {_difference(commands.dtype)}; its dtype must be COMMAND_DTYPE")
    if commands.ndim != 1:
        raise ValueError(f"commands has {commands.ndim} dimensions, expected 1")
    if not commands.flags.c_contiguous:
        raise ValueError("commands is not contiguous; pass numpy.ascontiguousarray(commands)")


def _difference(found: numpy.dtype[numpy.void]) -> str:
    """Say how a dtype differs from that of commands."""
    if found.newbyteorder() == COMMAND_DTYPE:
        return "has its bytes in the other order"
    if found.names is None:
        return f"is of {found}"
    if found.itemsize != COMMAND_DTYPE.itemsize:
        return f"has items of {found.itemsize} bytes, expected {COMMAND_DTYPE.itemsize}"
    return "has other fields"


def events_of(block: bytearray, count: int) -> NDArray[numpy.void]:
    """Return the first events of a block as an array over its memory."""
    return numpy.frombuffer(block, EVENT_DTYPE, count)
