"""The rings, the parking protocol and the release gate, proven by Spin over every interleaving.

Each model says in its head which line of code each of its steps is. A proof that cannot fail proves
nothing, so each model is also broken in the ways that people break such code, and Spin must notice.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parent
COMPILER = shutil.which(os.environ.get("CC") or "cc") or shutil.which("gcc")
DEPTH_MAX = 200_000

pytestmark = pytest.mark.skipif(
    shutil.which("spin") is None or COMPILER is None,
    reason="spin is not installed (Debian: apt-get install spin)",
)

PROOFS = {
    "ring.pml": [(), ("COUNT=4", "MESSAGES=9")],
    "parking.pml": [(), ("SLEEP_FUTEX",), ("SLEEP_FUTEX", "TIMES=4")],
    "gate.pml": [()],
}
LONG_PROOFS = {
    "ring.pml": [("COUNT=4", "MESSAGES=13")],
    "parking.pml": [("TIMES=3", "SOCKETS=3")],
    "gate.pml": [("COMMANDS=4",)],
}
if int(os.environ.get("ROUNDS", "1")) > 1:  # make torture
    PROOFS = {model: PROOFS[model] + LONG_PROOFS[model] for model in PROOFS}

FUTEX_ALONE = "BROKEN_BLIND_SLEEP"


def pan(model: str, defines: tuple[str, ...], tmp_path: Path) -> str:
    """Let Spin search the model's whole state space; returns what the search says."""
    flags = [f"-D{define}" for define in defines]
    source = FOLDER / model
    subprocess.run(["spin", "-a", *flags, source], cwd=tmp_path, check=True, capture_output=True)
    # A broken variant is found at once; a whole search is worth the optimiser's time.
    level = "-O0" if any(define.startswith("BROKEN") for define in defines) else "-O1"
    build = [COMPILER, level, "-w", "-DSAFETY", "-DNOCLAIM", "-o", "pan", "pan.c"]
    subprocess.run(build, cwd=tmp_path, check=True, capture_output=True)
    search = [tmp_path / "pan", f"-m{DEPTH_MAX}", "-w22"]
    result = subprocess.run(search, cwd=tmp_path, capture_output=True, text=True, check=False)
    return result.stdout + result.stderr


def errors(report: str) -> int:
    found = re.search(r"errors: (\d+)", report)
    assert found, report
    return int(found[1])


def broken_variants() -> list[tuple[str, tuple[str, ...]]]:
    """Every BROKEN_ word that a model's code knows, with each way of sleeping that it is for."""
    variants = []
    for model in PROOFS:
        text = (FOLDER / model).read_text()
        for word in sorted(set(re.findall(r"#if(?:n?def) (BROKEN_\w+)", text))):
            if word != FUTEX_ALONE:
                variants.append((model, (word,)))
            if "SLEEP_FUTEX" in text:
                variants.append((model, (word, "SLEEP_FUTEX")))
    return variants


@pytest.mark.parametrize(
    ("model", "defines"),
    [(model, defines) for model, shapes in PROOFS.items() for defines in shapes],
    ids=lambda value: value if isinstance(value, str) else " ".join(value) or "plain",
)
def test_the_model_is_right_in_every_interleaving(model, defines, tmp_path):
    report = pan(model, defines, tmp_path)

    assert errors(report) == 0, report
    assert "Search not completed" not in report, report
    assert "max search depth too small" not in report, report
    assert "invalid end states\t+" in report, report
    assert "assertion violations\t+" in report, report
    # Every statement was reached: nothing is right only because it never happens.
    unreached = re.findall(r'state \d+, "(.*)"', report)
    assert set(unreached) <= {"-end-"}, report


@pytest.mark.parametrize(
    ("model", "defines"),
    broken_variants(),
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_a_broken_variant_is_noticed(model, defines, tmp_path):
    report = pan(model, defines, tmp_path)

    assert errors(report) == 1, report
    assert "assertion violated" in report or "invalid end state" in report, report


def test_the_models_heads_name_every_variant():
    for model in PROOFS:
        text = (FOLDER / model).read_text()
        head, code = text.split("*/", 1)
        named = set(re.findall(r"BROKEN_\w+", head))
        assert named == set(re.findall(r"BROKEN_\w+", code)), model
        assert named, model
