"""What a filter's words mean: which rows of a table stay. Pure functions.

fsync 10.0.0      both words, anywhere in the row, capitals or not
!paused           not this word
state:open        the word in one column
/^10[.]0/         a regular expression, in the row's whole text
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

Fields = Mapping[str, str]
Matches = Callable[[Fields], bool]


def parse(text: str) -> tuple[Matches, str]:
    """Return a filter's predicate, and what is wrong with it; a wrong filter keeps every row."""
    checks: list[Matches] = []
    for word in _words(text):
        plain = word.removeprefix("!")
        if not plain:
            continue
        try:
            check = _check(plain)
        except re.error as error:
            return (lambda fields: True), f"{plain}: {error}"
        checks.append(_no(check) if word.startswith("!") else check)
    return (lambda fields: all(check(fields) for check in checks)), ""


def _words(text: str) -> list[str]:
    """Split at blanks, but not within a regular expression."""
    return re.findall(r"!?/[^/]*/|\S+", text)


def _no(check: Matches) -> Matches:
    return lambda fields: not check(fields)


def _check(word: str) -> Matches:
    if len(word) > 2 and word.startswith("/") and word.endswith("/"):
        search = re.compile(word[1:-1], re.IGNORECASE).search
        return lambda fields: search(" ".join(fields.values())) is not None
    name, colon, value = word.partition(":")
    sought = value.casefold()

    def in_column(fields: Fields) -> bool:
        if name in fields:
            return sought in fields[name].casefold()
        return in_row(fields)

    def in_row(fields: Fields) -> bool:
        return any(word.casefold() in text.casefold() for text in fields.values())

    return in_column if colon and value else in_row
