"""Habits that no linter knows: nothing left over, documents in order, links that lead somewhere."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def tracked(pattern: str) -> list[Path]:
    """Files of the repository (not what builds leave) that match a glob."""
    result = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", pattern],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode:  # an unpacked archive has no .git
        skip = {".venv", "build"}
        return [path for path in ROOT.rglob(pattern) if not skip & set(path.parts)]
    return [ROOT / line for line in result.stdout.splitlines() if (ROOT / line).exists()]


MARKDOWN = tracked("*.md")


def test_nothing_is_left_to_do_in_comments() -> None:
    word = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")
    for path in [*tracked("*.py"), *tracked("*.pxd"), *tracked("*.md"), *tracked("*.sh")]:
        assert not word.search(path.read_text()), path


def test_library_code_does_not_print() -> None:
    for path in tracked("bourse/*.py"):
        assert not re.search(r"(?<![\w.])print\(", path.read_text()), path


def test_every_source_file_says_what_it_is() -> None:
    for path in [*tracked("bourse/*.py"), *tracked("tests/*.py"), *tracked("tools/*.py")]:
        assert path.read_text().startswith(('"""', 'r"""')), path
    for path in tracked("*.pxd"):
        assert path.read_text().startswith("#"), path


def without_code(text: str) -> str:
    return re.sub(r"^(```|~~~).*?^\1", "", text, flags=re.S | re.M)


@pytest.mark.parametrize("path", MARKDOWN, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_document_has_one_title(path: Path) -> None:
    lines = without_code(path.read_text()).splitlines()

    assert sum(line.startswith("# ") for line in lines) == 1


def anchor(title: str) -> str:
    """The anchor that GitHub gives a title."""
    kept = re.sub(r"[^\w\- ]", "", title.strip().lower().replace("`", ""))
    return kept.replace(" ", "-")


@pytest.mark.parametrize("path", MARKDOWN, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", without_code(path.read_text())):
        if link.startswith(("http://", "https://", "mailto:")):
            continue
        file, _, fragment = link.partition("#")
        target = (path.parent / file).resolve() if file else path
        assert target.exists(), f"{path}: {link}"
        if fragment:
            titles = re.findall(r"^#+ (.+)$", target.read_text(), re.M)
            assert fragment in [anchor(title) for title in titles], f"{path}: {link}"
