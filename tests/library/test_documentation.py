"""docs/library.md: every example is run as it stands there."""

import doctest
import os
import re
import subprocess
import sys
import sysconfig
import textwrap
from pathlib import Path

import pytest

from bourse import COMMAND_DTYPE, EVENT_DTYPE

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "library.md"


def test_the_python_examples_say_what_they_print() -> None:
    found = doctest.testfile(str(PAGE), module_relative=False)

    assert found.failed == 0
    assert found.attempted > 40


def test_the_c_example_prints_what_the_page_says(tmp_path: Path) -> None:
    flags = subprocess.run(
        [sys.executable, ROOT / "examples/c_host/flags.py"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    if flags.returncode == 3:
        pytest.skip(flags.stderr.strip())
    block = re.search(r'^    #include "bourse.h"\n(?:    .*\n|\n)+', PAGE.read_text(), re.M)
    assert block
    source = tmp_path / "host.c"
    source.write_text(textwrap.dedent(block[0]))
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    host = tmp_path / "host"
    subprocess.run(
        [compiler, "-Wall", "-Wextra", "-Werror", "-o", host, source, *flags.stdout.split()],
        check=True,
    )

    # The page's host takes the packages of the Python that it was built against.
    paths = os.pathsep.join(path for path in sys.path if path)
    printed = subprocess.run(
        [host],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONHOME": sys.base_prefix, "PYTHONPATH": f"{ROOT}:{paths}"},
        timeout=60,
        check=False,
    )

    assert printed.stdout == "5 at 101\n", printed.stderr
    assert printed.returncode == 0
    assert "It prints `5 at 101`." in PAGE.read_text()


def test_the_table_of_fields_is_the_dtypes() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\w\d) \| \| `(\w+)` \| (\w\d) \|$", PAGE.read_text(), re.M)
    for dtype, columns in ((COMMAND_DTYPE, (0, 1)), (EVENT_DTYPE, (2, 3))):
        fields = dtype.fields or {}
        assert [(row[columns[0]], row[columns[1]]) for row in rows] == [
            (name, fields[name][0].str.lstrip("<|")) for name in dtype.names or ()
        ]
