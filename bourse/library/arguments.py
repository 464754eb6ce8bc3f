"""Checks what callers give, and makes C numbers of it.

A bool is no number here and a float no quantity: a mistake is named, never rounded, wrapped or
guessed. NumPy's integers are integers. Compiled only; called for every argument of every order, so
a plain int of at most 63 bits takes the short way.
"""

from __future__ import annotations

import operator

import cython
from cython.cimports.cpython.long import PyLong_AsLongLongAndOverflow, PyLong_CheckExact
from cython.cimports.libc.stdint import int64_t, uint8_t, uint64_t

from bourse.domain import CommandKind, Side

# C variables: found without a look into the module's names.
_BUY = cython.declare(object, Side.BUY)
_SELL = cython.declare(object, Side.SELL)
_WORDS = cython.declare(dict, {"buy": int(Side.BUY), "sell": int(Side.SELL)})
_SHOWN_BITS_MAX = 128

_kind: cython.int
_is_command = cython.declare(uint8_t[256])
for _kind in range(256):
    _is_command[_kind] = _kind < CommandKind.DEPTH and _kind in set(CommandKind)


def whole(value: object, name: str) -> int:
    """Return an int, if it is one.

    Raises:
        TypeError: it is a bool, a float, or anything else that is no integer.
    """
    if isinstance(value, bool):
        raise TypeError(f"{name} is a bool, expected an int")
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is a {type(value).__name__}, expected an int") from None


def whole_within(value: object, name: str, least: int, most: int) -> int:
    """Return an int, if it is one and in its range.

    Raises:
        TypeError: it is no integer.
        ValueError: it is out of range.
    """
    number = whole(value, name)
    if least <= number <= most:
        return number
    shown = number if number.bit_length() <= _SHOWN_BITS_MAX else f"{number.bit_length()} bits"
    raise ValueError(f"{name}={shown}, expected {least}..{most}")


@cython.cfunc
@cython.exceptval(0xFFFF_FFFF_FFFF_FFFF, check=True)
def unsigned(value: object, name: object, most: uint64_t) -> uint64_t:
    """Return a number of 0 to `most`."""
    overflow: cython.int = 0
    number: cython.longlong
    if PyLong_CheckExact(value):
        number = PyLong_AsLongLongAndOverflow(value, cython.address(overflow))
        if overflow == 0 and number >= 0 and cython.cast(uint64_t, number) <= most:
            return number
    return whole_within(value, name, 0, most)


@cython.cfunc
@cython.exceptval(-1, check=True)
def signed(value: object, name: object) -> int64_t:
    """Return a number of -2**63 to 2**63 - 1."""
    overflow: cython.int = 0
    number: cython.longlong
    if PyLong_CheckExact(value):
        number = PyLong_AsLongLongAndOverflow(value, cython.address(overflow))
        if overflow == 0:
            return number
    return whole_within(value, name, -(1 << 63), (1 << 63) - 1)


@cython.cfunc
@cython.exceptval(0)
def side_of(value: object) -> uint8_t:
    """Return a side: a Side, its number, "buy" or "sell"."""
    if value is _BUY:
        return 1
    if value is _SELL:
        return 2
    if isinstance(value, str):
        found = _WORDS.get(value)
        if found is None:
            raise ValueError(f"side={value[:20]!r}, expected 'buy' or 'sell'")
        return found
    return whole_within(value, "side", 1, 2)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def is_command(kind: uint8_t) -> cython.bint:
    """Return whether a command of this kind may be executed (see arguments.pxd)."""
    return _is_command[kind]
