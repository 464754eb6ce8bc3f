"""Guards and fixtures that several folders need.

The guard: Python imports an old compiled module without a word after its source was edited, so a
stale build would test code that is no longer there. The run ends before it starts.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.durability_table import matching, not_run, rows

ROOT = Path(__file__).resolve().parent.parent


def compiled_sources() -> list[Path]:
    """The modules that setup.py compiles and that exist."""
    tree = ast.parse((ROOT / "setup.py").read_text())
    names = [
        node.value
        for statement in tree.body
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "COMPILED"
        for node in ast.walk(statement.value)
        if isinstance(node, ast.Constant) and str(node.value).startswith("bourse/")
    ]
    assert names, "setup.py's COMPILED was not understood"
    return [ROOT / name for name in names if (ROOT / name).exists()]


def c_dependencies(source: Path) -> set[Path]:
    """The source, every .pxd of ours that it reaches by cimport, and the headers of ours."""
    found = {source}
    waiting = [source, source.with_suffix(".pxd")]
    while waiting:
        path = waiting.pop()
        if not path.exists():
            continue
        found.add(path)
        text = path.read_text()
        waiting += [ROOT / "bourse/include" / name for name in re.findall(r'#include "(.+)"', text)]
        for package, name in re.findall(
            r"from\s+(?:cython\.cimports\.)?(bourse[\w.]*)\s+c?import\s+\(?([\w, \n]+)", text
        ):
            folder = ROOT / package.replace(".", "/")
            candidates = [folder.with_suffix(".pxd")]
            candidates += [folder / f"{word}.pxd" for word in re.findall(r"\w+", name)]
            waiting += [path for path in candidates if path.exists() and path not in found]
    return found


def stale_modules() -> list[str]:
    """Names of compiled modules whose .so is missing or older than what it is made of."""
    stale = []
    for source in compiled_sources():
        built = max(
            (so.stat().st_mtime for so in source.parent.glob(f"{source.stem}.*.so")), default=0.0
        )
        if any(path.stat().st_mtime > built for path in c_dependencies(source)):
            stale.append(source.stem)
    return stale


def pytest_configure(config: pytest.Config) -> None:
    """End the run when a compiled module is not what its source says."""
    if stale := stale_modules():
        pytest.exit(f"stale build of {', '.join(stale)}: run `make build`", returncode=4)


OUTCOMES: dict[str, str] = {}
"""Each test that ran: "passed", or why it was skipped."""


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Remember what ran."""
    if report.skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else "skipped"
        OUTCOMES.setdefault(report.nodeid, reason)
    elif report.when == "call" and report.passed:
        OUTCOMES[report.nodeid] = "passed"


def is_whole_run(config: pytest.Config) -> bool:
    """Say whether nothing narrows this run down: not one of several processes, no filter."""
    option = config.option
    if hasattr(config, "workerinput"):
        return False
    narrowed = option.keyword or option.markexpr or option.deselect or option.collectonly
    return config.args_source is config.ArgsSource.TESTPATHS and not narrowed


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Fail a whole run that passed, but left out a test that docs/durability.md names."""
    if exitstatus == 0 and is_whole_run(session.config) and not_run(OUTCOMES):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say what a whole run proved of docs/durability.md."""
    if not is_whole_run(config):
        return
    named = {name for tests in rows().values() for name in tests}
    skipped = {
        reason
        for name in named
        for one in matching(name, OUTCOMES)
        if (reason := OUTCOMES[one]) != "passed"
    }
    terminalreporter.write_line(f"durability: {len(rows())} rows, {len(named)} tests named")
    for line in [*not_run(OUTCOMES), *sorted(skipped)]:
        terminalreporter.write_line(f"  {line}")


@pytest.fixture
def short_tmp_path(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A temporary directory whose path is short enough for a Unix socket (107 bytes)."""
    path = tmp_path_factory.mktemp("b", numbered=True)
    assert len(str(path)) < 80, f"{path} leaves no room for a socket's name"
    yield path


@pytest.fixture
def root() -> Path:
    """The repository."""
    return ROOT
