"""The C face: the header says what the module publishes, and a host in C gets the same digests."""

import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import numpy
import pytest

import bourse
from bourse import COMMAND_DTYPE, Engine, domain
from bourse.core.records import digest_text
from bourse.library import c_face

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "c_host"
HEADER = Path(bourse.get_include(), "bourse.h").read_text()
COMMANDS = 100_000
COMPILER = (sysconfig.get_config_var("CC") or "cc").split()[0]


def flags() -> list[str]:
    """What a compiler needs to embed this Python; skips where there is nothing to embed."""
    result = subprocess.run(
        [sys.executable, EXAMPLE / "flags.py"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    if result.returncode == 3:
        pytest.skip(result.stderr.strip())
    assert result.returncode == 0, result.stderr
    return result.stdout.split()


def run(*command: object, code: int = 0) -> str:
    result = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
        check=False,
    )
    assert result.returncode == code, result.stdout + result.stderr
    return result.stdout


def build(source: Path, program: Path, *more: str) -> None:
    """Compile a host with warnings as errors."""
    run(COMPILER, "-std=c11", "-Wall", "-Wextra", "-Werror", *more, "-o", program, source, *flags())


# --- The header -----------------------------------------------------------------------------------


def test_every_function_is_published_with_the_signature_of_the_header() -> None:
    published = {
        name: re.search(r'"(.*)"', repr(capsule))
        for name, capsule in c_face.__pyx_capi__.items()  # type: ignore[attr-defined]
    }
    loaded = re.findall(r'\{"(\w+)", "([^"]+)",\s*&functions->(\w+)\}', HEADER)

    assert {name: found[1] for name, found in published.items() if found} == {
        name: signature for name, signature, _ in loaded
    }
    for name, signature, place in loaded:
        assert place == name
        member = re.search(rf"^    (\S.*?)\(\*{name}\)\(((?:.|\n)*?)\);", HEADER, re.M)
        assert member, name
        parameters = [
            re.sub(r" ?\b\w+$", "", " ".join(one.split())) if one != "void" else one
            for one in member[2].split(",")
        ]
        declared = f"{member[1]}({', '.join(parameters)})"
        for const in ("command", "event"):
            declared = declared.replace(f"const bourse_{const}", f"bourse_{const} const")
        assert re.sub(r"\s+", "", declared) == re.sub(r"\s+", "", signature)


def test_structs_are_those_of_records_pxd() -> None:
    pxd = (ROOT / "bourse/core/records.pxd").read_text()
    for ours, theirs in (("Command", "command"), ("Event", "event"), ("DepthLevel", "level")):
        mine = re.search(rf"^cdef struct {ours}:.*\n((?:    .*\n)+)", pxd, re.M)
        body = re.search(rf"typedef struct \{{([^}}]*)\}} bourse_{theirs};", HEADER)
        assert mine
        assert body
        text = re.sub(r"/\*.*?\*/", "", body[1], flags=re.S)
        assert re.findall(r"(\w+) (\w+);", text) == re.findall(r"^    (\w+) (\w+)", mine[1], re.M)


def test_constants_are_those_of_the_domain() -> None:
    enumerations = (
        (domain.CommandKind, "NEW_ORDER CANCEL REPLACE SESSION_OPEN SESSION_END INSTRUMENT_DEFINE"),
        (domain.Side, "BUY SELL"),
        (domain.OrderType, "LIMIT MARKET IOC POST_ONLY FOK"),
        (domain.CommandFlag, "BY_ORDER_ID CANCEL_ORDERS"),
        (domain.EventKind, "ACCEPTED TRADE DONE REPLACED HEAD"),
    )
    found = dict(re.findall(r"\bBOURSE_([A-Z_]+) = (-?\d+)", HEADER))
    for enumeration, names in enumerations:
        for name in names.split():
            assert int(found.pop(name)) == enumeration[name], name
    assert found.keys() == {
        "OK",
        "BAD_KIND",
        "EVENTS_LEFT",
        "BAD_ARGUMENT",
        "FOUND",
        "NOBODY",
        "UNKNOWN_INSTRUMENT",
    }


# --- The example ----------------------------------------------------------------------------------


def split_mix_64(seed: int) -> Iterator[int]:
    """The generator of examples/c_host/main.c, written again."""
    mask = 2**64 - 1
    while True:
        seed = (seed + 0x9E3779B97F4A7C15) & mask
        word = seed
        word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & mask
        word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & mask
        yield word ^ (word >> 31)


TYPES = [(75, "limit"), (85, "ioc"), (90, "post_only"), (95, "market"), (100, "fok")]


def calls(count: int) -> Iterator[tuple[str, int, str, int, int]]:
    """The host's commands: what to call, client order id, side, quantity, price."""
    words = split_mix_64(1)
    for number in range(1, count + 1):
        first, second = next(words), next(words)
        dice = first % 100
        side = "sell" if (first >> 16) & 1 else "buy"
        price_ticks = 990 + (first >> 24) % 21
        qty_lots = 1 + (first >> 32) % 20
        if dice < 30:
            method = "cancel" if dice < 20 else "replace"
            yield method, second % number + 1, side, qty_lots, price_ticks
        else:
            method = next(name for above, name in TYPES if dice < above)
            yield method, number, side, qty_lots, price_ticks


def one_by_one(count: int) -> Engine:
    """Send the host's commands through the calls of the Python face."""
    engine = Engine()
    for method, number, side, qty_lots, price_ticks in calls(count):
        if method == "cancel":
            engine.cancel(number)
        elif method == "replace":
            engine.replace(number, qty_lots, price_ticks)
        elif method == "market":
            engine.market(side, qty_lots, client_order_id=number)
        else:
            getattr(engine, method)(side, qty_lots, price_ticks, client_order_id=number)
    return engine


COLUMNS = (
    "kind",
    "client_order_id",
    "instrument_id",
    "side",
    "order_type",
    "qty_lots",
    "price_ticks",
)


def as_one_array(count: int) -> tuple[Engine, numpy.ndarray]:
    """Send the host's commands as one array; the engine and the events."""
    commands = numpy.zeros(count, COMMAND_DTYPE)
    commands["session_id"] = 2
    rows = []
    for method, number, side, qty_lots, price_ticks in calls(count):
        if method == "cancel":
            rows.append((domain.CommandKind.CANCEL, number, 0, 0, 0, 0, 0))
        elif method == "replace":
            kind = domain.CommandKind.REPLACE
            rows.append((kind, number, 0, 0, 0, qty_lots, price_ticks))
        else:
            kind = domain.CommandKind.NEW_ORDER
            order_type = domain.OrderType[method.upper()]
            rows.append(
                (kind, number, 1, domain.Side[side.upper()], order_type, qty_lots, price_ticks)
            )
    for name, column in zip(COLUMNS, zip(*rows, strict=True), strict=True):
        commands[name] = column
    engine = Engine()
    return engine, engine.submit(commands)


def test_the_example_host_prints_the_digests_of_the_python_face(tmp_path: Path) -> None:
    flags()
    host = tmp_path / "host"
    run("make", "-C", EXAMPLE, f"PYTHON={sys.executable}", f"OUT={host}")

    for wrong in ("abc", "-1", "10x", ""):
        assert run(host, wrong, code=2) == ""
    printed = run(host, COMMANDS, sys.executable).splitlines()

    first = one_by_one(COMMANDS)
    second, events = as_one_array(COMMANDS)
    for engine in (first, second):
        bids, asks = engine.depth(1)
        assert printed[1:] == [
            f"best bid {bids[0][0]}: {bids[0][1]} lots in {bids[0][2]} orders",
            f"best ask {asks[0][0]}: {asks[0][1]} lots in {asks[0][2]} orders",
            f"state digest {digest_text(engine.state_digest)}",
            f"event digest {digest_text(engine.event_digest)}",
        ]
        engine.check()
    traded_lots = int(events["qty_lots"][events["kind"] == domain.EventKind.TRADE].sum())
    assert first.state.bought_lots == traded_lots
    # The host counts the two heads of its instrument and its session, too.
    assert printed[0] == (
        f"commands {COMMANDS}, events {len(events) + 2}, traded lots {traded_lots}"
    )


def test_the_example_says_so_when_python_has_no_bourse(tmp_path: Path) -> None:
    flags()
    host = tmp_path / "host"
    run("make", "-C", EXAMPLE, f"PYTHON={sys.executable}", f"OUT={host}")

    result = subprocess.run(
        [host, "1", "/nowhere/bin/python"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"PYTHONHOME": sys.base_prefix},
        check=False,
    )

    assert result.returncode == 1
    assert "No module named 'bourse'" in result.stderr
    assert "name the one that has it" in result.stderr


# --- Mistakes of a host, threads ------------------------------------------------------------------


def test_mistakes_of_a_host_are_answers_and_threads_have_their_own_engines(tmp_path: Path) -> None:
    host = tmp_path / "mistaken_host"
    build(ROOT / "tests/library/mistaken_host.c", host, "-g", "-pthread")

    run(host, sys.executable)


def test_a_host_of_another_version_is_told_so(tmp_path: Path) -> None:
    """A header whose signatures are not those of the package: an exception, no crash."""
    (tmp_path / "bourse.h").write_text(
        HEADER.replace('"uint64_t (bourse_engine *)"', '"int (int)"')
    )
    source = tmp_path / "old.c"
    source.write_text(
        '#include "bourse.h"\n'
        "int main(int argc, char **argv) { bourse_functions bourse; PyConfig config;\n"
        "  (void)argc; PyConfig_InitPythonConfig(&config);\n"
        "  PyConfig_SetBytesString(&config, &config.program_name, argv[1]);\n"
        "  Py_InitializeFromConfig(&config);\n"
        "  if (bourse_load(&bourse) != 0) { PyErr_Print(); return 4; }\n  return 0; }\n"
    )
    build(source, tmp_path / "old", f"-I{tmp_path}")

    run(tmp_path / "old", sys.executable, code=4)
