"""tools/setup.sh on machines that lack something: one sentence, exit code 1, nothing changed."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ("sh", "dirname", "cat", "cksum", "tr", "id", "grep", "rm", "seq")


class Machine:
    """A PATH of its own, with a copy of setup.sh in a folder of its own."""

    def __init__(self, path: Path) -> None:
        self.bin = path / "bin"
        self.repository = path / "repository"
        self.bin.mkdir()
        (self.repository / "tools").mkdir(parents=True)
        shutil.copy(ROOT / "tools" / "setup.sh", self.repository / "tools")
        shutil.copy(ROOT / "pyproject.toml", self.repository)
        for name in TOOLS:
            found = shutil.which(name)
            if found:
                (self.bin / name).symlink_to(found)
        self.program("uname", "echo Linux")

    def program(self, name: str, text: str) -> None:
        """Put a shell script into the PATH."""
        file = self.bin / name
        file.write_text(f"#!{shutil.which('sh')}\n{text}\n")
        file.chmod(0o755)

    def python(self, **answers: bool) -> None:
        """Put a Python into the PATH that has, or lacks, what setup.sh asks for."""
        text = "".join(
            f'case "$2" in *{word}*) exit {0 if has else 1};; esac\n'
            for word, has in answers.items()
        )
        self.program("python3", text + "exit 0")

    def setup(self) -> str:
        """Run it; return its last line."""
        result = subprocess.run(
            [self.repository / "tools" / "setup.sh"],
            capture_output=True,
            text=True,
            check=False,
            env={"PATH": str(self.bin), "HOME": os.environ.get("HOME", "/")},
        )
        assert result.returncode == 1, result
        assert result.stdout == ""
        assert not (self.repository / ".venv").exists()
        (line,) = result.stderr.splitlines()
        return line


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_another_platform_is_named(machine: Machine) -> None:
    machine.program("uname", "echo Darwin")

    assert machine.setup() == (
        "bourse: cannot set up: bourse runs on Linux (futex, eventfd), and this is Darwin."
    )


def test_a_missing_python_is_named(machine: Machine) -> None:
    assert "Python 3.11 or newer is needed" in machine.setup()


def test_an_old_python_is_no_python(machine: Machine) -> None:
    machine.python(version_info=False)

    assert "Python 3.11 or newer is needed" in machine.setup()


def test_a_missing_venv_module_is_named(machine: Machine) -> None:
    machine.python(ensurepip=False)
    machine.program("cc", "exit 0")

    assert "python3-venv" in machine.setup()


def test_missing_headers_are_named(machine: Machine) -> None:
    machine.python(sysconfig=False)
    machine.program("cc", "exit 0")

    assert "python3-dev" in machine.setup()


def test_a_missing_compiler_is_named(machine: Machine) -> None:
    machine.python()

    assert "no C compiler found" in machine.setup()
