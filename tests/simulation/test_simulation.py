"""Simulated lives: a bounded number, the same ones from the same seed, planted mistakes seen."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.mutations import MUTATIONS

LIVES = 200
"""About five seconds on a quiet machine; a number, not a time, so that they are the same ones."""
SEEDS = Path(__file__).with_name("seeds.txt")


def simulate(root: Path, *arguments: str, code: int = 0) -> str:
    """What the command prints."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation", *arguments],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == code, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


def counted(summary: str) -> dict[str, int]:
    """The counts of a summary, by name."""
    return {name.strip(): int(count) for count, name in re.findall(r"(\d+) ([A-Za-z ]+)", summary)}


def test_nothing_acknowledged_is_lost_or_doubled_in_a_bounded_number_of_lives(root):
    summary = simulate(root, "--seed", "1", "--count", str(LIVES))

    counts = counted(summary)
    assert counts["runs in"] == LIVES
    # What is not there was not tested.
    for word in counts.keys() - {"damaged snapshots refused"}:
        assert counts[word] > 0, summary
    assert len(counts) >= 18
    assert counts["acknowledged"] > 10 * counts["runs in"]


def test_every_seed_that_ever_failed(root):
    lines = SEEDS.read_text().splitlines()
    seeds = [line.split()[0] for line in lines if not line.startswith("#")]

    assert len(seeds) >= 3
    for seed in seeds:
        simulate(root, "--seed", seed)


def test_a_seed_gives_the_same_run_again(root):
    first = simulate(root, "--seed", "40", "--count", "6", "--verbose")
    second = simulate(root, "--seed", "40", "--count", "6", "--verbose")

    digests = re.findall(r"^seed \d+: trace [0-9a-f]{64}$", first, re.MULTILINE)
    assert len(set(digests)) == 6
    assert digests == re.findall(r"^seed \d+: trace [0-9a-f]{64}$", second, re.MULTILINE)


def test_planted_mistakes_are_noticed_by_their_effects_alone(root):
    noticed = simulate(root, "--mutations", "--count", "400")

    for mutation in MUTATIONS:
        assert f"{mutation}: noticed" in noticed, noticed


@pytest.mark.parametrize("mutation", ["acknowledge-before-sync"])
def test_a_failing_seed_says_how_to_see_it_again(root, mutation):
    said = simulate(root, "--seed", "1", "--count", "100", "--mutation", mutation, code=1)

    command = re.search(r"^replay: python -m tests.simulation (.*)$", said, re.MULTILINE)
    assert command is not None
    again = simulate(root, *command[1].split(), code=1)
    reason = re.search(r"^seed \d+ failed: .*$", said, re.MULTILINE)
    assert reason is not None and reason[0] in again
    # The trace leads to it.
    assert "ms  disk fdatasync" in again
