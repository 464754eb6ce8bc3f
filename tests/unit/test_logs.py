"""The daemon's memory of its last log lines, for the console."""

import logging

import pytest

from bourse.daemon.logs import LINES_KEPT, TEXT_LENGTH_MAX, recent_lines


@pytest.fixture
def log() -> logging.Logger:
    logger = logging.Logger("test", logging.INFO)
    recent_lines(logger)
    return logger


def test_lines_come_after_a_number_newest_last(log: logging.Logger) -> None:
    for number in range(1, 6):
        log.info("line %d", number)

    lines, last, missed = recent_lines(log).after(2, 100)

    assert [(line[0], line[2], line[3]) for line in lines] == [
        (3, "info", "line 3"),
        (4, "info", "line 4"),
        (5, "info", "line 5"),
    ]
    assert (last, missed) == (5, 0)


def test_what_is_forgotten_or_over_the_limit_is_counted(log: logging.Logger) -> None:
    for number in range(LINES_KEPT + 10):
        log.info("%d", number)

    lines, last, missed = recent_lines(log).after(0, 100)

    assert len(lines) == 100
    assert last == LINES_KEPT + 10
    assert missed == LINES_KEPT + 10 - 100


def test_an_error_tells_its_exception_on_the_line(log: logging.Logger) -> None:
    try:
        raise ValueError("boom")
    except ValueError:
        log.exception("failed")

    assert recent_lines(log).after(0, 1)[0][0][2:] == ("error", "failed: ValueError('boom')")


def test_a_line_without_end_is_cut(log: logging.Logger) -> None:
    log.info("x" * 10_000)

    assert len(recent_lines(log).after(0, 1)[0][0][3]) == TEXT_LENGTH_MAX
