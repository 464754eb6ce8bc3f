"""What a daemon that did not start is quoted with."""

import pytest

from bourse.admin.launch import last_sentence


@pytest.mark.parametrize(
    ("log", "sentence"),
    [
        ("", "it said nothing"),
        ("\n  \n", "it said nothing"),
        ("Traceback\nMemoryError\n", "MemoryError"),
        ("bourse: the port is taken\n", "bourse: the port is taken"),
        # The owner of the directory, whose log this is, goes on writing.
        ("bourse: it is owned\n2026 info ready\n", "bourse: it is owned"),
    ],
)
def test_a_complaint_is_told_from_another_daemons_lines(log: str, sentence: str) -> None:
    assert last_sentence(log) == sentence
